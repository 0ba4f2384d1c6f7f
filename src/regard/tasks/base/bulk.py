"""What a task does with very many texts: how `regard corpus` and `regard.corpus.Worker` ask for it.

A task says in its `Task` what it reads and writes (`BulkSpec`, no torch); opened, it takes lists of texts and
gives columns (`Bulk`), one value for each text, in their order. Nothing is raised because of a single text:
what the model refuses is `bad`, and what somebody should know of is counted in `flags`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from regard.tasks.base.predictor import Progress

Kind = Literal["text", "number", "whole", "texts", "vector", "json"]
"""Of a column: one type for all shards, whatever is in them. json: lists and objects."""
Output = Literal["npy", "text", "jsonl", "parquet"]


@dataclass(frozen=True, slots=True, eq=False)
class Bulk:
    """What became of a list of texts."""

    columns: Mapping[str, Any]
    """A value for each text; None for a bad one, and zeros of a vector."""
    tokens: int
    """That the model has read."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """How many texts are such: cut, blank (with nothing in them: None), unknown, ..."""
    bad: Mapping[int, str] = field(default_factory=dict)
    """Why there is no value, by the number of the text from 0."""
    lines: Sequence[str] | None = None
    """The same as plain lines, where the task has such."""


class BulkWork(Protocol):
    """A task's model, open."""

    kinds: Mapping[str, Kind]
    """Of the columns that it gives."""

    def __call__(self, *texts: Sequence[str], progress: "Progress | None" = None) -> Bulk:
        """A list for each column that is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkSpec:
    """What a task does with a corpus."""

    open: Callable[..., BulkWork]
    """open(folder, device=, precision=, **settings): the settings are the task's own."""
    reads: tuple[tuple[str, ...], ...] = (("text", "sentence"),)
    """What each column may be called; the second is read where it is asked for."""
    both: bool = False
    """Whether the second is always read."""
    words: bool = False
    """Whether a list of words may stand for a text."""
    writes: tuple[Output, ...] = ("jsonl", "parquet")
    """The first is what is written where nothing is said."""
    columns: tuple[str, ...] = ()
    """Settings that ask for a column more, which plain lines have no place for."""


def counted(**flags: int) -> dict[str, int]:
    """Without what is not there."""
    return {name: count for name, count in flags.items() if count}


def spread(values: Sequence[Any], kept: Sequence[int], count: int) -> list[Any]:
    """Values of some of `count` texts, with None for the others."""
    found: list[Any] = [None] * count
    for number, value in zip(kept, values, strict=True):
        found[number] = value
    return found
