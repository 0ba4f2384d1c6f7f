"""Plain data (TOML, JSON, the command line) to frozen dataclasses and back, strictly.

An unknown key, a wrong type or an impossible value is an error that names the key and, where one is near, the
key or choice that was probably meant. The dataclasses themselves live beside what they configure.
"""

import ast
import difflib
import inspect
import json
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.disk import read_plain

Config = TypeVar("Config")
_RECIPE_BYTES = 1 << 24
"""A recipe is read as far; none is nearly so long."""


class ConfigError(ValueError):
    """A configuration that cannot be meant; the message names the key."""


def from_dict(cls: type[Config], data: Mapping[str, Any], where: str = "") -> Config:
    """`where` is the path of keys that led here: "model.encoder"."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where or cls.__name__}={data!r} should be a table with keys")
    hints = _hints(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        path = f"{where}.{key}" if where else key
        if key not in known:
            raise ConfigError(f"unknown key {path!r}{suggestion(key, known)}")
        values[key] = _value(hints[key], value, path)
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"missing key {f'{where}.{name}' if where else name!r}: it has no default")
    try:
        return cls(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from error


def to_dict(config: Any) -> dict[str, Any]:
    """The plain data that `from_dict` turns into an equal configuration. None is left out where it is the
    default: TOML has none."""
    plain: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            plain[field.name] = to_dict(value)
        elif isinstance(value, tuple):
            plain[field.name] = [to_dict(item) if is_dataclass(item) else item for item in value]
        elif value is not None or field.default is not None:
            plain[field.name] = value
    return plain


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The string behind each field of a configuration, in one line: its help."""
    found = {}
    for each in filter(is_dataclass, reversed(cls.__mro__)):
        [body] = [
            node.body for node in ast.parse(inspect.getsource(each)).body if isinstance(node, ast.ClassDef)
        ]
        for node, after in pairwise(body):
            named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[node.target.id] = " ".join(str(after.value.value).split())  # type: ignore[attr-defined]
    return found


def check_choices(config: Any) -> None:
    """For a configuration's `__post_init__`: a closed choice must be one of its `Literal`s."""
    for name, choices in _choices(type(config)).items():  # type: ignore[arg-type]
        value = getattr(config, name)
        if value not in choices and value is not None:
            listed = ", ".join(map(str, choices))
            near = suggestion(str(value), map(str, choices))
            raise ConfigError(f"{name}={value!r} is none of {listed}{near}")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@cache
def _choices(cls: type) -> dict[str, tuple[Any, ...]]:
    """The fields that take nothing but literals, and which."""
    found = {}
    for name, hint in _hints(cls).items():
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        if all(get_origin(part) is Literal or part is type(None) for part in parts):
            found[name] = tuple(value for part in parts for value in get_args(part))
    return found


def read_toml(cls: type[Config], path: Path | str) -> Config:
    data = read_table(path)
    try:
        return from_dict(cls, data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_table(path: Path | str) -> dict[str, Any]:
    """The plain data of a TOML file."""
    try:
        return tomllib.loads(read_plain(Path(path), _RECIPE_BYTES, encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give the path of a TOML file") from error
    except ValueError as error:  # a TOML or UTF-8 error is a ValueError, and says where
        raise ConfigError(f"{path}: no TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: no TOML that can be read: nested too deeply; correct it") from error


def override(data: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """The data with settings like `model.layers=4` put in. A value is read as TOML; what is no TOML is text,
    so quotes can be left out: `data.root=/corpora`."""
    merged = dict(data)
    for setting in settings:
        path, sign, text = setting.partition("=")
        keys = path.strip().split(".")
        if not sign or not all(keys):
            raise ConfigError(f"{setting!r} sets nothing: write it as key=value, like model.layers=4")
        merged = _put(merged, keys, _toml_value(text.strip() or text), path)
    return merged


def _put(table: Mapping[str, Any], keys: list[str], value: Any, path: str) -> dict[str, Any]:
    first, *rest = keys
    if not rest:
        return {**table, first: value}
    inner = table.get(first, {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{path!r} cannot be set: {first}={inner!r} is no table")
    return {**table, first: _put(inner, rest, value, path)}


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def write_toml(data: Mapping[str, Any], where: str = "") -> str:
    """Plain data as TOML: the values of a table first, then its tables."""
    for key, value in data.items():
        if value is None:
            raise ConfigError(
                f"{f'{where}.{key}' if where else key} is None, which TOML cannot say: give it a value"
            )
    lines = [f"{key} = {_as_toml(value)}" for key, value in data.items() if not isinstance(value, Mapping)]
    text = "".join(f"{line}\n" for line in lines)
    for key, value in data.items():
        if isinstance(value, Mapping):
            path = f"{where}.{key}" if where else key
            text += f"\n[{path}]\n{write_toml(value, path)}"
    return text


def _as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_as_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    return repr(value)


def _value(hint: Any, value: Any, path: str) -> Any:
    """`value` as the annotated type, or an error."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, registry = choices
        if isinstance(value, Mapping):
            return from_dict(_registered(registry, value, path), value, path)
        return _value(inner, value, path)
    if origin in (Union, types.UnionType):
        return _one_of(choices, value, path)
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in choices):  # True == 1 == 1.0
            listed = ", ".join(map(str, choices))
            raise ConfigError(
                f"{path}={value!r} is none of {listed}{suggestion(str(value), map(str, choices))}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}={value!r} should be a list")
        hints = [choices[0]] * len(value) if choices[-1] is ... else choices
        if len(value) != len(hints):
            raise ConfigError(f"{path}={value!r} should be a list of {len(hints)}, not of {len(value)}")
        items = zip(hints, value, strict=True)
        return tuple(_value(hint, item, f"{path}[{index}]") for index, (hint, item) in enumerate(items))
    if is_dataclass(hint):
        return from_dict(hint, value, path)  # type: ignore[arg-type]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}={value!r} should be a table with keys")
        return dict(value)
    if hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{path} has {value.bit_length()} bits: choose a smaller number") from None
    if type(value) is not hint:  # bool is an int to isinstance
        raise ConfigError(f"{path}={value!r} should be of type {hint.__name__}, not {type(value).__name__}")
    return value


def _one_of(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    """A union: of None and a type, or of configurations that are distinguished by their `kind`."""
    if value is None and type(None) in choices:
        return None
    choices = tuple(choice for choice in choices if choice is not type(None))
    configurations = [choice for choice in choices if is_dataclass(choice)]
    if configurations and isinstance(value, Mapping):
        known: Any = _by_kind(configurations, value, path) if len(configurations) > 1 else configurations[0]
        return from_dict(known, value, path)
    if len(choices) == 1:
        return _value(choices[0], value, path)
    for choice in sorted(
        choices, key=lambda choice: choice is not type(value)
    ):  # 1 is an int before it is a float
        try:
            return _value(choice, value, path)
        except ConfigError:
            continue
    literals = [str(literal) for choice in choices for literal in get_args(choice)]
    kinds = [choice.__name__ for choice in choices if isinstance(choice, type) and not is_dataclass(choice)]
    listed = [*literals, *kinds, *(["a table with keys"] if configurations else [])]
    raise ConfigError(f"{path}={value!r} is none of {', '.join(listed)}{suggestion(str(value), literals)}")


def _by_kind(configurations: list[Any], value: Mapping[str, Any], path: str) -> Any:
    kinds = {kind: one for one in configurations for kind in get_args(_hints(one)["kind"])}
    wanted = value.get("kind", next(iter(kinds)))
    if not isinstance(wanted, str) or wanted not in kinds:
        raise ConfigError(
            f"{path}.kind={wanted!r} is none of {', '.join(kinds)}{suggestion(str(wanted), kinds)}"
        )
    return kinds[wanted]


def _registered(registry: Any, value: Mapping[str, Any], path: str) -> Any:
    """The configuration of the part that a table names by its `kind`."""
    kind = value.get("kind", next(iter(registry)))
    registry.check(kind, f"{path}.kind")
    return registry[kind].config


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error: what was probably meant."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
