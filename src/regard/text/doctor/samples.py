"""What the doctor looks at where text is no translation: texts, what is said of them, and their numbers.

    classify   a text, or two, and a label          tag      a sentence and its tags
    answer     a question, a text and its answers   embed    two texts that mean the same
    language, pretrain                              a line

A split is read once, or, where it has more than `MOST` records, counted first and then every n-th looked at.
A record takes some 100 bytes and 4 for each word; its text is read again where it is shown.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.survey import Ledger, SideSurvey, Vocabulary
from regard.text.records import DataError, Origin

MOST = 500_000
"""Records of a split that are looked at."""

Hashes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sample:
    """A record of any task."""

    texts: tuple[str, ...]
    said: tuple[str, ...]
    """Its labels, its words' tags, its answers, its score; empty where nothing is said."""
    origin: Origin


Reader = Callable[..., Iterable[Sample]]
"""Called with `on_error` and `skipped`. It is called several times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What the records of a task are."""

    records: str
    """What they are called: texts."""
    sides: tuple[str, ...] = ("text",)
    """What the texts of one are called."""
    said: str = ""
    """What is said of them: label, tags, answer; nothing where it is empty."""
    classes: bool = False
    """Whether that is one of some classes, or several of them, which are learned."""
    one: bool = False
    """Whether each has exactly one class."""
    words: bool = False
    """Whether each word has one."""
    apart: tuple[str, ...] = ()
    """Those of its texts that should not stand in two splits, even beside others."""
    few: int = 1
    """Records of fewer words are alike by chance."""
    needed: bool = False
    """Whether training stops at a class that it has not seen."""


class SampleSurvey:
    """The numbers of a split."""

    def __init__(
        self, readers: Sequence[Reader], kind: Kind, vocabulary: Vocabulary, most: int = MOST
    ) -> None:
        """`vocabulary` numbers the words of all splits; it grows."""
        self.corpora, self.kind, self.step = readers, kind, 1
        self.side_names = kind.sides
        self.records = self._read(vocabulary, most)
        """Those that could be read, looked at or not."""
        if self.records > most:
            self.step = -(-self.records // most)
            self._read(vocabulary, most)

    def _read(self, vocabulary: Vocabulary, most: int) -> int:
        self.sides = tuple(SideSurvey() for _ in self.kind.sides)
        self.counts: Counter[str] = Counter()
        """Of classes, in the records that were looked at."""
        self.first: dict[str, int] = {}
        """The first record of each class."""
        self.broken: list[Ledger] = []
        self.unreadable: list[DataError] = []
        self._said, self._classes, self._size = array("q"), array("i"), 0
        self._names: dict[str, int] = {}
        total = 0
        for reader in self.corpora:
            ledger = Ledger()
            try:
                for sample in reader(on_error="skip", skipped=ledger):
                    if total % self.step == 0 and self._size < most:
                        self._add(sample, vocabulary)
                    total += 1
            except DataError as error:
                self.unreadable.append(error)
            self.broken.append(ledger)
        return total

    def _add(self, sample: Sample, vocabulary: Vocabulary) -> None:
        for side, text in zip(self.sides, sample.texts, strict=True):
            side.add(text, self._size, vocabulary)
        self._said.append(hash(sample.said))
        if self.kind.classes:
            self.counts.update(sample.said)
            for label in sample.said:
                self.first.setdefault(label, self._size)
        if self.kind.one:
            label = sample.said[0] if sample.said else ""
            self._classes.append(self._names.setdefault(label, len(self._names)))
        self._size += 1

    def __len__(self) -> int:
        """Records that were looked at."""
        return self._size

    @property
    def said(self) -> Hashes:
        return np.frombuffer(self._said, np.int64) if self._said else np.empty(0, np.int64)

    @property
    def classes(self) -> NDArray[np.int32]:
        """Where each record has one, its number among `names`."""
        return np.frombuffer(self._classes, np.int32) if self._classes else np.empty(0, np.int32)

    @property
    def names(self) -> list[str]:
        return [*self._names]

    @property
    def words(self) -> NDArray[np.int64]:
        """Of all texts of each record."""
        counts = [side.words.counts for side in self.sides]
        return np.sum(counts, axis=0, dtype=np.int64) if len(self) else np.empty(0, np.int64)

    @property
    def exact(self) -> Hashes:
        return mixed([side.exact for side in self.sides])

    @property
    def normal(self) -> Hashes:
        """The same for texts that differ in case, blanks and punctuation; of texts without words, as they
        are."""
        return mixed([np.where(side.normal == 0, side.exact, side.normal) for side in self.sides])

    def fetch(self, places: Collection[int]) -> dict[int, Sample]:
        """The records themselves."""
        found: dict[int, Sample] = {}
        samples, at = self.each(), 0
        for place in sorted(places):
            found[place] = next(islice(samples, place - at, None))
            at = place + 1
        return found

    def each(self) -> Iterator[Sample]:
        """All that were looked at, read again."""
        return islice(self._samples(), 0, None, self.step)

    def _samples(self) -> Iterator[Sample]:
        for reader, error in zip(self.corpora, self.broken, strict=True):
            try:
                yield from reader(on_error="skip", skipped=type(error)())
            except DataError:
                continue  # it is in `unreadable`


Surveys = Mapping[str, SampleSurvey]
"""By split."""


def mixed(hashes: Sequence[Hashes]) -> Hashes:
    """One hash of several."""
    found = hashes[0]
    for each in hashes[1:]:
        found = found * np.int64(0x1E3779B97F4A7C15) + (each ^ (each >> np.int64(31)))
    return found
