"""The models of a service: each with its name, its lane, and, for translators, the languages it joins.

    en-de=runs/base             a folder
    acme=runs/base+runs/acme    what a fine-tuning with model.adapter has learned, on the weights of its base

Those of one base share its weights.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.config import ConfigError
from regard.serve.lanes import Lane
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.translating import TranslatorLane
from regard.serve.writing import GeneratorLane
from regard.tasks.base.adapter import FOLDER as ADAPTERS
from regard.tasks.base.faster import Precision
from regard.tasks.load import load
from regard.tasks.translation.languages import CODE, pair_of
from regard.text.languages import same

LANES: dict[str, type[Lane]] = {"translate": TranslatorLane, "language": GeneratorLane}
"""By task; all others read."""


Stamp = tuple[tuple[str, int, int, int, int], ...]
"""Of each file its name, when it and what is known of it were changed, its size and its inode."""


@dataclass(frozen=True, slots=True)
class Named:
    """A folder, as it was given: en-de=runs/a, or runs/a alone; with an adapter, acme=runs/a+runs/b."""

    name: str
    folder: Path
    pair: tuple[str, str] | None
    """Languages that the name says."""
    adapter: Path | None = None

    @classmethod
    def of(cls, text: str) -> "Named":
        name, sign, folder = text.partition("=")
        if not sign or Path(text).exists():
            name, folder = Path(text).resolve().name, text
        if not name or not re.fullmatch(r"[\w.\-]+", name):
            raise ConfigError(f"{text!r}: a model is given as FOLDER, or NAME=FOLDER with a plain name")
        pair = re.fullmatch(rf"({CODE})-({CODE})", name) if sign else None
        base, adapter = _parted(folder)
        if adapter is not None and not sign:
            raise ConfigError(f"{text!r}: a model with an adapter needs a name, as NAME=FOLDER+ADAPTER")
        return cls(name, base, None if pair is None else (pair[1], pair[2]), adapter)


def _parted(text: str) -> tuple[Path, Path | None]:
    """A base and its adapter; names of folders may have a + in them."""
    whole = Path(text)
    if "+" not in text or whole.exists():
        return whole, None
    places = [place for place, sign in enumerate(text) if sign == "+"]
    place = next((each for each in places if Path(text[:each]).is_dir()), places[0])
    return Path(text[:place]), Path(text[place + 1 :])


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    name: str
    folder: Path
    task: str
    predictor: Any
    lane: Lane
    source: str | None
    """Of a translator: the language it reads, if that is known; None also for one that reads several."""
    targets: tuple[str, ...]
    """Of a translator: the languages it writes, if they are known."""
    stamp: "Stamp"
    """What its files are."""
    adapter: Path | None = None
    reads: tuple[str, ...] = ()
    """Of a translator that is told what it reads: what it can be told."""

    @property
    def created(self) -> int:
        """When its files were written, in seconds."""
        return max((written for _, written, *_ in self.stamp), default=0) // 10**9

    def joins(self, source: str | None, target: str | None) -> bool:
        """Whether it translates from one language to another; None for any."""
        known = self.reads or ((self.source,) if self.source else ())
        reads = source is None or not known or any(same(own, source) for own in known)
        return reads and (target is None or any(same(own, target) for own in self.targets))


class Bases:
    """Opened folders, so that adapters of one base share its weights."""

    def __init__(self, named: Sequence[Named], device: str, precision: Precision | None) -> None:
        self._device, self._precision = device, precision
        self._shared = {each.folder.resolve() for each in named if each.adapter is not None}
        self._opened: dict[Path, tuple[Stamp, Any]] = {}

    def open(self, named: Named) -> Any:
        """A predictor of the files as they are now."""
        place = named.folder.resolve()
        stamp, predictor = self._opened.get(place, (None, None))
        now = stamp_of(named.folder)
        if predictor is None or stamp != now:
            predictor = load(named.folder, device=self._device, precision=self._precision)
            if place in self._shared:
                self._opened[place] = now, predictor
        return predictor if named.adapter is None else self._adapted(predictor, named, named.adapter)

    def _adapted(self, base: Any, named: Named, adapter: Path) -> Any:
        if not hasattr(base, "with_adapter"):
            raise ConfigError(f"{named.name}: adapters are translators', and {named.folder} is none")
        if self._precision == "int8":
            raise ConfigError(
                f"{named.name}: adapters stand beside weights in float32, not int8; leave --precision out, "
                f"or serve the whole model that its training has made, {named.name}={adapter}"
            )
        return base.with_adapter(adapter)


def serve(named: Named, limits: Limits, metrics: Metrics, bases: Bases) -> Served:
    """Open a folder and start its lane."""
    stamp = stamp_of(named.folder, named.adapter)  # what is written while it opens is newer
    predictor = bases.open(named)
    lane = LANES.get(predictor.task, Lane)(predictor, named.name, limits, metrics)
    metrics.watch(named.name, lane.line)
    source: str | None = None
    targets = tuple(getattr(predictor, "languages", ()))
    if isinstance(lane, TranslatorLane) and not targets:
        source, target = named.pair or pair_of(named.folder)
        targets = () if target is None else (target,)
    lane.start()
    return Served(
        name=named.name,
        folder=named.folder,
        task=predictor.task,
        predictor=predictor,
        lane=lane,
        source=source,
        targets=targets,
        stamp=stamp,
        adapter=named.adapter,
        reads=() if getattr(predictor, "marks", "source") == "source" else targets,
    )


def stamp_of(folder: Path, adapter: Path | None = None) -> Stamp:
    """That of other files is another, also where a copy has kept their dates."""
    folders = [folder, *([] if adapter is None else [adapter, adapter / ADAPTERS])]
    files = [each for own in folders for each in sorted(own.glob("*")) if each.is_file()]
    facts = ((str(each), each.stat()) for each in files)
    return tuple((name, it.st_mtime_ns, it.st_ctime_ns, it.st_size, it.st_ino) for name, it in facts)


def with_pairs(named: Sequence[Named]) -> list[Named]:
    """An adapter whose name says no languages has those that the name of its base says."""
    known = {each.folder.resolve(): each.pair for each in named if each.adapter is None}
    return [
        replace(each, pair=known.get(each.folder.resolve()))
        if each.adapter is not None and each.pair is None
        else each
        for each in named
    ]


class Models:
    """Those that are served, in the order in which they were given: the first that fits is asked."""

    def __init__(self, served: Iterable[Served]) -> None:
        self._served = {each.name: each for each in served}

    def __iter__(self) -> Any:
        return iter([*self._served.values()])

    def __len__(self) -> int:
        return len(self._served)

    def swap(self, served: Served) -> Served:
        """In the place of the one with its name, which is returned."""
        before = self._served[served.name]
        self._served[served.name] = served
        return before

    def of(self, *tasks: str) -> list[Served]:
        """Those for such tasks."""
        return [each for each in self if each.task in tasks]

    def named(self, name: str | None, tasks: Sequence[str]) -> Served:
        """The model of this name or, unless one is given, the first for such a task."""
        fitting = self.of(*tasks)
        if name and name in self._served and self._served[name].task in tasks:
            return self._served[name]
        if not name and fitting:
            return fitting[0]
        what = " or ".join(tasks)
        there = f"there are {', '.join(each.name for each in fitting)}" if fitting else "there is none"
        raise LookupError(
            f"no model {name!r} for {what}: {there}" if name else f"no model for {what} is served here"
        )

    def translators(self) -> list[Served]:
        return self.of("translate")

    def translator(self, name: str, source: str | None, target: str | None) -> Served:
        """By its name, if it is for these languages, or it is not known which its own are."""
        found = self.named(name, ["translate"])
        if found.targets and not found.joins(source, target):
            own, asked = (
                f"from {one or 'any language'} to {other or 'any'}"
                for one, other in ((found.source, " or ".join(found.targets)), (source, target))
            )
            raise LookupError(f"the model {name!r} translates {own}, not {asked}: name another, or none")
        return found

    def pair(self, source: str | None, target: str | None) -> Served:
        """The translator from one language to another; None for any."""
        for each in self.translators():
            if each.joins(source, target):
                return each
        pairs = {f"{each.source or '*'}-{to}" for each in self.translators() for to in each.targets}
        there = f"there are {', '.join(sorted(pairs))}" if pairs else "the languages of none are known"
        raise LookupError(
            f"no model translates from {source or 'any language'} to {target or 'any'}: {there}; to serve "
            f"one for it, name its folder so: regard serve {source or 'en'}-{target or 'de'}=FOLDER"
        )
