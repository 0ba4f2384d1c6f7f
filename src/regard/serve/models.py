"""The models of a service: each with its name, its lane, and, for translators, the languages it joins."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import ConfigError, read_table
from regard.serve.lanes import Lane
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.translating import TranslatorLane
from regard.serve.writing import GeneratorLane
from regard.tasks.base.faster import Precision
from regard.tasks.load import load

LANES: dict[str, type[Lane]] = {"translate": TranslatorLane, "language": GeneratorLane}
"""By task; all others read."""
CODE = r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?"


@dataclass(frozen=True, slots=True)
class Named:
    """A folder, as it was given: en-de=runs/a, or runs/a alone."""

    name: str
    folder: Path
    pair: tuple[str, str] | None
    """Languages that the name says."""

    @classmethod
    def of(cls, text: str) -> "Named":
        name, sign, folder = text.partition("=")
        if not sign or Path(text).exists():
            name, folder = Path(text).resolve().name, text
        if not name or not re.fullmatch(r"[\w.\-]+", name):
            raise ConfigError(f"{text!r}: a model is given as FOLDER, or NAME=FOLDER with a plain name")
        pair = re.fullmatch(rf"({CODE})-({CODE})", name) if sign else None
        return cls(name, Path(folder), None if pair is None else (pair[1], pair[2]))


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
    stamp: tuple[float, ...]
    """When its files were written."""


def serve(named: Named, limits: Limits, metrics: Metrics, device: str, precision: Precision | None) -> Served:
    """Open a folder and start its lane."""
    predictor: Any = load(named.folder, device=device, precision=precision)
    lane = LANES.get(predictor.task, Lane)(predictor, named.name, limits, metrics)
    metrics.watch(named.name, lane.line)
    source: str | None = None
    targets = tuple(getattr(predictor, "languages", ()))
    if isinstance(lane, TranslatorLane) and not targets:
        source, target = named.pair or _languages(named.folder)
        targets = () if target is None else (target,)
    lane.start()
    return Served(
        named.name, named.folder, predictor.task, predictor, lane, source, targets, stamp_of(named.folder)
    )


def stamp_of(folder: Path) -> tuple[float, ...]:
    return tuple(each.stat().st_mtime for each in sorted(folder.glob("*")) if each.is_file())


def _languages(folder: Path) -> tuple[str | None, str | None]:
    """As the recipe's files end: train.en.gz and train.de.gz; or as the columns of its table are called."""
    recipe = folder / "recipe.toml"
    if not recipe.is_file():
        return None, None
    files = read_table(recipe).get("data", {}).get("train", [])
    first = files[0] if files else {}
    if not isinstance(first, dict):
        return None, None
    return _language(first.get("source")), _language(first.get("target"))


def _language(name: Any) -> str | None:
    ends = str(name).removesuffix(".gz").rpartition(".")[2]
    return ends if re.fullmatch(CODE, ends) and ends not in ("txt", "tsv", "csv") else None


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
        if name is not None and name in self._served and self._served[name].task in tasks:
            return self._served[name]
        if name is None and fitting:
            return fitting[0]
        what = " or ".join(tasks)
        there = f"there are {', '.join(each.name for each in fitting)}" if fitting else "there is none"
        raise LookupError(
            f"no model {name!r} for {what}: {there}" if name else f"no model for {what} is served here"
        )

    def translators(self) -> list[Served]:
        return self.of("translate")

    def pair(self, source: str | None, target: str) -> Served:
        """The translator from one language to another; `source` None for any."""
        for each in self.translators():
            reads = source is None or each.source is None or same(each.source, source)
            if reads and any(same(own, target) for own in each.targets):
                return each
        pairs = {f"{each.source or '*'}-{to}" for each in self.translators() for to in each.targets}
        there = f"there are {', '.join(sorted(pairs))}" if pairs else "the languages of none are known"
        raise LookupError(
            f"no model translates from {source or 'any language'} to {target}: {there}; to serve one for it, "
            f"name its folder so: regard serve {source or 'en'}-{target}=FOLDER"
        )


def same(one: str, other: str) -> bool:
    """Whether two codes are of one language: de, DE, de-AT."""
    return re.split("[-_]", one)[0].lower() == re.split("[-_]", other)[0].lower()
