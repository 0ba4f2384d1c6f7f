"""Parts by name, regard's own and those of plugins: tasks, heads, positions, scores, metrics.

    # mine.py
    import regard

    regard.register(regard.Positions(name="mine", added=lambda config, d_model: MyPositions(d_model)))

    regard --plugin mine.py train recipe.toml model.positions=mine        at the prompt
    regard.load_plugin("mine.py")                                         from Python
    [project.entry-points."regard.plugins"]  mine = "my_package.parts"    in an installed package

A recipe names a part of a plugin as it names regard's own; `train`, `load`, `evaluate` and the explorer know
it. A model folder never brings code: one that needs a plugin says which (`plugins` in config.json), and is
refused until somebody names it. What is installed as a package is loaded when a name is not known otherwise.
"""

import importlib.util
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from regard.config import ConfigError, suggestion

GROUP = "regard.plugins"
"""The entry points of installed packages."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Named)


class Registry(Generic[Part]):
    """Parts of one type, by name: what a `Literal` is for a closed choice. A field that names one is
    `Annotated[str, REGISTRY]`; one that is configured by a table with a `kind` is `Annotated[..., REGISTRY]`
    of parts that have a `config`."""

    def __init__(
        self,
        *own: str,
        key: str,
        home: str = "",
        type: type[Part] | None = None,
        taken: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`own` are the names of regard's; the module `home` settles their type and what they are, and is
        imported when a part is asked for, not when it is named. `key` is where config.json names such a part:
        positions.kind. `taken` are names of parts that are kept elsewhere."""
        self.key, self.type, self.taken = key, type, taken
        self._own, self._home = own, home
        self._parts: dict[str, Part] = {}
        self._plugins: dict[str, str] = {}
        _REGISTRIES.append(self)

    def settle(self, type: type[Part], *own: Part) -> None:
        """What the parts are, and regard's own."""
        self.type = type
        self._own = tuple(part.name for part in own)
        self._parts |= {part.name: part for part in own}

    def __getitem__(self, name: str) -> Part:
        self.check(name)
        if name not in self._parts:
            import_module(self._home)
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._own, *self._plugins])

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._parts

    @property
    def added(self) -> Mapping[str, str]:
        """Names that are not regard's own, and the plugin of each; "" for `regard.register` alone."""
        return self._plugins

    def add(self, part: Part) -> None:
        if part.name in self or part.name in self.taken():
            raise ConfigError(f"{self.key}={part.name!r} is there already: choose another name")
        self._parts[part.name] = part
        self._plugins[part.name] = _loading[-1] if _loading else ""

    def remove(self, part: Part) -> None:
        """What was added."""
        if part.name not in self._plugins:
            raise ConfigError(f"{self.key}={part.name!r} was not added, so it cannot be removed")
        del self._parts[part.name], self._plugins[part.name]

    def forget(self, plugin: str) -> None:
        """All that this plugin added."""
        for name in [name for name, own in self._plugins.items() if own == plugin]:
            del self._parts[name], self._plugins[name]

    def check(self, name: str, where: str = "") -> None:
        """`where` is the key that names the part, if it is another."""
        if name not in self:
            load_installed()
        if name not in self:
            near = suggestion(str(name), self)
            raise ConfigError(f"{where or self.key}={name!r} is none of {', '.join(self)}{near}")


_REGISTRIES: list[Registry[Any]] = []
LOADED: dict[str, str] = {}
"""Plugins by name, and where each came from."""
_loading: list[str] = []


def register(part: Any) -> None:
    """Make a part known by its name: a Task, a HeadSpec, Positions, a Score or a Metric.

    >>> class Distance(torch.nn.Module):
    ...     def forward(self, queries, keys):
    ...         return -torch.cdist(queries.transpose(0, 1), keys.transpose(0, 1))
    >>> regard.register(regard.Score(name="distance", build=lambda heads, d_head: Distance()))
    >>> recipe = {"data": {"train": ["train.en", "train.de"]}, "model": {"score": "distance"}}
    >>> outcome = regard.fit(recipe, out="runs/distance")
    """
    _registry_of(part).add(part)


def unregister(part: Any) -> None:
    """Forget it again; for tests and notebooks."""
    _registry_of(part).remove(part)


def added_parts(key: str) -> dict[str, Any]:
    """What plugins have registered under this key, by name."""
    return {name: each[name] for each in _REGISTRIES if each.key == key for name in each.added}


def _registry_of(part: Any) -> Registry[Any]:
    for registry in _REGISTRIES:
        if registry.type is not None and isinstance(part, registry.type):
            return registry
    raise ConfigError(
        f"a {type(part).__name__} cannot be registered: give a Task, HeadSpec, Positions, Score or Metric"
    )


def load_plugin(name: str | Path) -> None:
    """A Python file, or the name of a module or of an installed package's entry point. Once is enough.

    >>> regard.load_plugin("mine.py")
    >>> regard.load("runs/with-a-plugin", regard.Translator).translate("Where is the station?").text
    'Wo ist der Bahnhof?'
    """
    path = Path(name)
    own, source = (path.stem, str(path.resolve())) if path.suffix == ".py" else (str(name), str(name))
    if LOADED.get(own, source) != source:
        raise ConfigError(f"two plugins are called {own!r}: {LOADED[own]} and {source}; rename one")
    if own in LOADED:
        return
    known = {each.name: each for each in _entry_points()}
    with _named(own, source):
        if path.suffix == ".py":
            _run(path, own)
        elif own in known:
            known[own].load()
        else:
            _import(own, [*known])


def unload_plugin(name: str) -> None:
    """Forget a plugin and all that it registered; for tests and notebooks. Models that have its parts go on
    working."""
    if name not in LOADED:
        raise ConfigError(f"no plugin {name!r} is loaded{suggestion(name, LOADED)}")
    _take_back(name)


def load_installed() -> None:
    """The plugins of installed packages. One that is broken is told about, and does not stop the others."""
    for each in _entry_points():
        if each.name not in LOADED:
            try:
                with _named(each.name, each.value):
                    each.load()
            except Exception as error:
                warnings.warn(
                    f"the installed plugin {each.name!r} ({each.value}) cannot be loaded: "
                    f"{type(error).__name__}: {error}; mend or uninstall it",
                    stacklevel=2,
                )


def _entry_points() -> Iterable[Any]:
    from importlib.metadata import entry_points  # slow to import

    return entry_points(group=GROUP)


@contextmanager
def _named(name: str, source: str) -> Iterator[None]:
    """What is registered meanwhile is this plugin's; all of it is taken back if the plugin fails."""
    _loading.append(name)
    LOADED[name] = source
    try:
        yield
    except BaseException:
        _take_back(name)
        raise
    finally:
        _loading.pop()


def _take_back(name: str) -> None:
    del LOADED[name]
    for registry in _REGISTRIES:
        registry.forget(name)


def _import(name: str, installed: list[str]) -> None:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        listed = f"; installed are {', '.join(installed)}" if installed else ""
        raise ConfigError(
            f"no plugin {name!r}: give a Python file, or the name of a module or an entry point{listed}"
        ) from error


def _run(path: Path, name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"plugin {path}: no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def needed(config: Mapping[str, Any]) -> list[str]:
    """The plugins whose parts a config.json names."""
    return sorted({plugin for plugin in _plugins(config, "") if plugin})


def _plugins(plain: Any, key: str) -> Iterator[str]:
    if isinstance(plain, Mapping):
        for own, value in plain.items():
            yield from _plugins(value, f"{key}.{own}")
        return
    for registry in _REGISTRIES:
        if key.endswith(f".{registry.key}") and plain in registry.added:
            yield registry.added[plain]
