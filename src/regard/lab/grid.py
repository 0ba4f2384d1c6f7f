"""What is compared: settings with several values become variants, each with one of every.

    model.positions=learned,rotary head.pool=first,mean      four variants
    train.steps=500                                          in all of them

A study is the same as a file (recipes/studies): recipes with their settings, a question, and how many seeds.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config import ConfigError, from_dict, read_table

AS_IT_IS = "as it is"


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    """What sets it apart: "positions=learned, pool=mean"."""
    settings: tuple[str, ...]
    start: str = ""
    """The variant of an earlier part whose models it starts from."""

    @property
    def slug(self) -> str:
        """As the name of a folder: of these settings, and of no others."""
        own = [*self.settings, *([self.start] if self.start else [])]
        digest = hashlib.blake2b(json.dumps(own).encode(), digest_size=4).hexdigest()
        readable = re.sub(r"[^\w=.+-]+", "_", self.name)[:80]
        return f"{readable}-{digest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """Settings that go together."""

    name: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One recipe of a study, and what is varied in it."""

    recipe: str
    """Its path, from the study's folder."""
    settings: tuple[str, ...] = ()
    """Those with several values, parted by commas, make the variants."""
    variant: tuple[Named, ...] = ()
    """More settings than one set these apart; with those of several values, there are all combinations."""
    name: str = ""
    """What this part is called, where a study has several."""
    data: str = ""
    """The folder of its text, below the one that --data names."""
    start: str = ""
    """An earlier part: each run starts from the model that each of its variants made with the same seed."""
    budget: str = ""
    """Where it is not the study's."""
    one_at_a_time: bool = False
    """No combinations: the recipe as it is, and beside it each value alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    title: str
    question: str = ""
    """What it is to answer."""
    seeds: int = 3
    budget: str = ""
    """tokens=N, seconds=N or flops=N for every run; unless given, as the recipes have it."""
    part: tuple[Part, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not self.part:
            raise ValueError("a study without a [[part]]: name a recipe, and settings with several values")
        if self.seeds < 1:
            raise ValueError(f"seeds={self.seeds} must be 1 or more")
        names = [each.name for each in self.part]
        if len(names) > 1 and (len({*names}) < len(names) or "" in names):
            raise ValueError(f"the parts are called {names}: give each a name of its own")
        for place, part in enumerate(self.part):
            if part.start and part.start not in names[:place]:
                raise ValueError(f"start={part.start!r}: no part before {part.name!r} is called that")


def is_study(path: Path) -> bool:
    return "part" in read_table(path)


def read_study(path: Path) -> Study:
    try:
        return from_dict(Study, read_table(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def variants(settings: Iterable[str], *, one_at_a_time: bool = False) -> list[Variant]:
    """All combinations, in the order that they are written, the last one changing fastest; or the recipe as
    it is, and each value alone."""
    fixed: list[str] = []
    varied: list[list[tuple[str, str]]] = []
    for setting in settings:
        key, sign, text = setting.partition("=")
        if key.strip() in ("train.seed", "batch.seed"):
            raise ConfigError(
                f"{setting!r}: every variant is trained with the seeds 0, 1, ...: say how many by --seeds"
            )
        if not sign:
            raise ConfigError(f"{setting!r} sets nothing: write it as key=value, or key=one,another")
        values = split_values(text)
        if len(values) == 1:
            fixed.append(setting)
            continue
        if len(set(values)) < len(values):
            raise ConfigError(f"{setting!r} has a value twice: name each once")
        varied.append([(key.strip(), value) for value in values])
    if not varied:
        return [Variant(AS_IT_IS, tuple(fixed))]
    chosen: Iterable[tuple[tuple[str, str], ...]] = itertools.product(*varied)
    if one_at_a_time:
        chosen = [(), *((each,) for key in varied for each in key)]
    return [
        Variant(
            ", ".join(f"{_short(key, varied)}={_shown(value)}" for key, value in own) or AS_IT_IS,
            (*fixed, *(f"{key}={value}" for key, value in own)),
        )
        for own in chosen
    ]


def named(own: Sequence[Variant], given: Sequence[Named]) -> list[Variant]:
    """Each of them with each of these settings."""
    return [
        replace(each, name=_joined(first.name, each.name), settings=(*each.settings, *first.settings))
        for first in given
        for each in own
    ] or [*own]


def started(own: Sequence[Variant], earlier: Sequence[Variant]) -> list[Variant]:
    """Each of them from each of an earlier part."""
    return [
        replace(each, name=_joined(first.name, each.name), start=first.slug)
        for first in earlier
        for each in own
    ]


def _joined(first: str, second: str) -> str:
    return first if second == AS_IT_IS else f"{first}, {second}"


def _shown(value: str) -> str:
    """A folder by its last name."""
    plain = value.strip("\"'")
    return (plain.rstrip("/").rpartition("/")[2] or "none") if "/" in plain or not plain else value


def _short(key: str, varied: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Without its table, where that leaves no doubt."""
    last = key.rpartition(".")[2]
    return last if sum(each[0][0].rpartition(".")[2] == last for each in varied) == 1 else key


def split_values(text: str) -> list[str]:
    """At commas, but not inside brackets or quotes: [1,2],[3,4] are two."""
    parts, depth, quote, part = [], 0, "", ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        if sign == "," and not depth and not quote:
            parts.append(part.strip())
            part = ""
        else:
            part += sign
    parts.append(part.strip())
    if "" in parts and len(parts) > 1:
        raise ConfigError(f"{text!r} has an empty value between its commas: write each one out")
    return parts


def overridden(settings: Sequence[str], given: Sequence[str]) -> list[str]:
    """A study's settings, with those of the prompt in place of its own where they name the same key."""
    keys: dict[str, Any] = {each.partition("=")[0].strip(): each for each in settings}
    return [*({**keys, **{each.partition("=")[0].strip(): each for each in given}}).values()]
