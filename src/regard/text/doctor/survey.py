"""Parallel text in numbers: one reading of a split keeps hashes, lengths and words, but no text.

A pair takes some 100 bytes and 4 for each word. Places are the pairs' numbers within the split;
`Survey.fetch` reads again to give the pairs themselves.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.alignment import Words
from regard.text.doctor.scripts import find_words, script, traces
from regard.text.readers import read_pairs
from regard.text.records import DataError, Pair, Skipped
from regard.text.tokenizer import Tokenizer

PairFiles = tuple[str | Path, str | Path]
"""A file of sources and the file of their translations, line by line."""
Reader = Callable[..., Iterable[Pair]]
"""Called with `on_error` and `skipped`, which all readers take; for a table, partial(read_table_pairs,
"x.tsv", source=0, target=1)."""
Corpus = PairFiles | Reader | Sequence[Pair]
"""Where pairs come from. It is read twice."""

Number = TypeVar("Number", np.int8, np.int32, np.int64)

SIDES = ("source", "target")

_STEM = 6
_BATCH = 2048
_REMEMBERED = 100


class Ledger(Skipped):
    """Keeps the first broken records of each reason whole."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, list[DataError]] = {}

    def add(self, error: DataError) -> None:
        super().add(error)
        kept = self.errors.setdefault(error.reason, [])
        if len(kept) < _REMEMBERED:
            kept.append(error)


class Vocabulary(dict[str, int]):
    """Numbers words as they are asked for. Those that begin alike have one number: so inflections meet."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self[word] = self._stems.setdefault(word[:_STEM], len(self._stems))
        return number

    @property
    def size(self) -> int:
        """One more than the highest number."""
        return len(self._stems)


class SideSurvey:
    """One side of a split: an entry for each pair."""

    def __init__(self) -> None:
        self._chars, self._exact, self._normal = array("q"), array("q"), array("q")
        self._ids, self._ends = array("i"), array("q")
        self._scripts, self.script_names = array("b"), [""]
        self._tokens, self._unknown = array("q"), array("q")
        self.traces: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        """For each kind of damage: in which pairs, and what shows it."""

    def add(self, text: str, number: int, vocabulary: Vocabulary) -> None:
        words = find_words(text)
        self._chars.append(len(text.strip()))
        self._exact.append(hash(text))
        self._normal.append(hash(" ".join(words)) if words else 0)
        self._ids.extend(map(vocabulary.__getitem__, words))
        self._ends.append(len(self._ids))
        name = script(text)
        if name not in self.script_names:
            self.script_names.append(name)
        self._scripts.append(self.script_names.index(name))
        for kind, shown in traces(text):
            self.traces[kind].append((number, shown))

    def add_tokens(self, texts: Sequence[str], tokenizer: Tokenizer) -> None:
        unknown = tokenizer.ids.unknown
        for ids in tokenizer.encode_batch(texts):
            self._tokens.append(len(ids))
            self._unknown.append(0 if unknown is None else ids.count(unknown))

    @property
    def chars(self) -> NDArray[np.int64]:
        """Without the blanks around."""
        return _numbers(self._chars, np.int64)

    @property
    def exact(self) -> NDArray[np.int64]:
        return _numbers(self._exact, np.int64)

    @property
    def normal(self) -> NDArray[np.int64]:
        """Hashes of the words, whatever their case and the blanks and punctuation between; 0 for no words."""
        return _numbers(self._normal, np.int64)

    @property
    def words(self) -> Words:
        return Words(_numbers(self._ids, np.int32), _numbers(self._ends, np.int64))

    @property
    def scripts(self) -> NDArray[np.int8]:
        """Numbers of `script_names`."""
        return _numbers(self._scripts, np.int8)

    @property
    def tokens(self) -> NDArray[np.int64]:
        return _numbers(self._tokens, np.int64)

    @property
    def unknown(self) -> NDArray[np.int64]:
        return _numbers(self._unknown, np.int64)


class Survey:
    """The first reading of a split."""

    def __init__(
        self, corpora: Sequence[Corpus], vocabulary: Vocabulary, tokenizer: Tokenizer | None
    ) -> None:
        """`vocabulary` numbers the words of all splits; it grows."""
        self.corpora = corpora
        self.source, self.target = SideSurvey(), SideSurvey()
        self.sides = (self.source, self.target)
        self.side_names = SIDES
        self.starts = [0]
        """Where the pairs of each corpus begin, and where the last ends."""
        self.broken: list[Ledger] = []
        self.unreadable: list[DataError] = []
        number = 0
        for corpus in corpora:
            ledger = Ledger()
            try:
                for batch in _batches(_read(corpus, ledger)):
                    for pair in batch:
                        self.source.add(pair.source, number, vocabulary)
                        self.target.add(pair.target, number, vocabulary)
                        number += 1
                    if tokenizer is not None:
                        self.source.add_tokens([pair.source for pair in batch], tokenizer)
                        self.target.add_tokens([pair.target for pair in batch], tokenizer)
            except DataError as error:
                self.unreadable.append(error)
            self.broken.append(ledger)
            self.starts.append(number)

    def __len__(self) -> int:
        return self.starts[-1]

    def fetch(self, places: Collection[int]) -> dict[int, Pair]:
        """The pairs themselves."""
        found = {}
        for corpus, start, stop in zip(self.corpora, self.starts, self.starts[1:], strict=False):
            wanted = sorted(place - start for place in places if start <= place < stop)
            if not wanted:
                continue
            pairs, at = iter(_read(corpus, Ledger())), 0
            for place in wanted:
                found[start + place] = next(islice(pairs, place - at, None))
                at = place + 1
        return found


def _numbers(values: "array[int]", dtype: type[Number]) -> NDArray[Number]:
    """The same memory."""
    return np.frombuffer(values, dtype) if values else np.empty(0, dtype)


def _read(corpus: Corpus, ledger: Ledger) -> Iterable[Pair]:
    if callable(corpus):
        return corpus(on_error="skip", skipped=ledger)
    if isinstance(corpus, str | Path):
        raise TypeError(f"a split is a list of corpora, and {str(corpus)!r} is none: give [(source, target)]")
    if isinstance(corpus, Iterator):
        raise TypeError("a corpus is read twice, an iterator only once: give a list, or a reader to call")
    if len(corpus) == 2 and not isinstance(corpus[0], Pair):
        source, target = corpus
        return read_pairs(source, target, on_error="skip", skipped=ledger)  # type: ignore[arg-type]
    return corpus  # type: ignore[return-value]


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while batch := list(islice(pairs, _BATCH)):
        yield batch
