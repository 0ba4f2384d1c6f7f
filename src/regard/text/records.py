"""What readers yield, where each piece came from, and what happens to the pieces that are broken.

A reader finds two kinds of faults. A broken record (bad UTF-8, a ragged row) can be left out: it travels
beside the whole records as a `DataError` value until `sift` raises it or counts it. A broken file (missing,
truncated, in another encoding) cannot: nobody knows how much is lost with it, so it is always raised.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

OnError = Literal["raise", "skip"]
"""What to do with a broken record: stop there, or leave it out and count it."""


@dataclass(frozen=True, slots=True)
class Origin:
    file: str
    """As the caller named it."""
    line: int = 0
    """Counted from 1; the row number where the data has no lines. 0 means the file as a whole."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and its translation."""

    source: str
    target: str
    origin: Origin
    """Where the source stands."""
    target_origin: Origin


@dataclass(frozen=True, slots=True)
class Labelled:
    text: str
    second: str | None
    """The other text, where the label is about two (paraphrase, entailment)."""
    labels: tuple[str, ...]
    """One, unless the data was read as multi-label: then any number, none included."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how near they are, on the scale of the data."""

    first: str
    second: str
    score: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence in words, with one tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    origin: Origin
    """Where the first word stands."""


@dataclass(frozen=True, slots=True)
class Gold:
    """An answer that somebody marked in a text."""

    text: str
    start: int
    """Its first character in the text."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text, and where the text answers it."""

    id: str
    text: str
    context: str
    answers: tuple[Gold, ...]
    """Any of them is right; none: the context does not answer it."""
    origin: Origin


class DataError(ValueError):
    """Broken data: where, what (a `reason` that can be counted, and the particulars), and the way out."""

    def __init__(
        self,
        origin: Origin,
        reason: str,
        particulars: str = "",
        remedy: str = 'fix the file or pass on_error="skip"',
    ) -> None:
        super().__init__(origin, reason, particulars, remedy)  # all of them, so that a copy can be unpickled
        self.origin, self.reason, self.particulars, self.remedy = origin, reason, particulars, remedy

    def __str__(self) -> str:
        what = f"{self.reason} {self.particulars}" if self.particulars else self.reason
        return f"{self.origin}: {what}; {self.remedy}"


class DataWarning(UserWarning):
    """Records were left out, and the caller gave no `Skipped` to count them in."""


@dataclass(slots=True)
class Skipped:
    """What was left out: how often for each reason, and the first places to look at.

    One object may serve several readers.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[Origin]] = field(default_factory=dict)
    remembered: int = 3
    """How many places are kept for a reason."""

    @property
    def total(self) -> int:
        return self.counts.total()

    def add(self, error: DataError) -> None:
        self.counts[error.reason] += 1
        places = self.first.setdefault(error.reason, [])
        if len(places) < self.remembered:
            places.append(error.origin)

    def __str__(self) -> str:
        if not self.counts:
            return "nothing skipped"
        reasons = [self._describe(reason, count) for reason, count in self.counts.most_common()]
        return f"{self.total} skipped: {'; '.join(reasons)}"

    def _describe(self, reason: str, count: int) -> str:
        places = ", ".join(map(str, self.first[reason]))
        more = ", ..." if count > len(self.first[reason]) else ""
        return f"{count} {reason} ({places}{more})"


Record = TypeVar("Record")


def sift(
    records: Iterable[Record | DataError], on_error: OnError, skipped: Skipped | None
) -> Iterator[Record]:
    """The whole records. The broken ones are raised or counted; without `skipped`, a warning tells them."""
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error={on_error!r} is unknown: choose from {', '.join(get_args(OnError))}")
    ledger = Skipped() if skipped is None else skipped
    for record in records:
        if not isinstance(record, DataError):
            yield record
        elif on_error == "raise":
            raise record
        else:
            ledger.add(record)
    if skipped is None and ledger.total:
        warnings.warn(str(ledger), DataWarning, stacklevel=2)
