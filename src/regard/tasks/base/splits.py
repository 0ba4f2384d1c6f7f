"""The records of a recipe's files, split by split; some of those to learn from may be held out to validate
on."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, Literal, TypeVar

import numpy as np

from regard.tasks.base.files import told
from regard.text import DataError, OnError, Origin, Skipped

Split = Literal["train", "valid", "test"]
Item = TypeVar("Item")
Reader = Callable[..., Iterator[Item]]
"""Takes `on_error` and `skipped`."""


class Splits(Generic[Item]):
    def __init__(
        self,
        readers: Mapping[Split, Sequence[Reader[Item]]],
        *,
        paths: Sequence[Path],
        what: str,
        key: Callable[[Item], str],
        hold_out: int,
        on_error: OnError,
    ) -> None:
        """`what` the records are called, and a text of each by which it is held out: those of one text go
        together. `paths` are the training files, `hold_out` how many records (0: a twentieth, at most
        1,000)."""
        self._readers = readers
        self._paths = paths
        self._what, self._key = what, key
        self._hold_out, self._on_error = hold_out, on_error

    def read(self, split: Split, skipped: Skipped | None = None) -> Iterator[Item]:
        """Training records that are held out belong to `valid`."""
        skipped = Skipped() if skipped is None else skipped
        if self._readers["valid"] or split == "test":
            return self._read(split, skipped)
        held = split == "valid"
        return (item for item in self._read("train", skipped) if self._is_held_out(item) is held)

    def _read(self, split: Split, skipped: Skipped) -> Iterator[Item]:
        for reader in self._readers[split]:
            try:
                yield from reader(on_error=self._on_error, skipped=skipped)
            except DataError as error:
                raise told(error, "recipe") from error

    @cached_property
    def size(self) -> int:
        """Records in the training files, held-out ones included."""
        size = sum(1 for _ in self._read("train", Skipped()))
        if size == 0:
            raise self._error(f"no {self._what} to train on", "name files that have some")
        return size

    @cached_property
    def _bound(self) -> int:
        """Records whose digest is smaller are held out: as many as wanted, at most half of them."""
        keys = (self._key(item) for item in self._read("train", Skipped()))
        digests = np.unique(np.fromiter((digest(key) for key in keys if key.strip()), dtype=np.uint64))
        if len(digests) < 2:
            raise self._error(f"too few {self._what} to hold some out", "name files of data.valid")
        wanted = self._hold_out or min(1000, max(self.size // 20, 1))
        return int(digests[min(wanted, len(digests) // 2)])

    def _is_held_out(self, item: Item) -> bool:
        return digest(self._key(item)) < self._bound

    def _error(self, reason: str, remedy: str) -> DataError:
        return DataError(Origin(str(self._paths[0])), reason, remedy=remedy)


def digest(key: str) -> int:
    """A number that looks drawn at random, and is the same for the same text."""
    return int.from_bytes(hashlib.blake2b(key.strip().encode(), digest_size=8).digest())


def check_hold_out(hold_out: float, valid: Sequence[object]) -> None:
    """For the `__post_init__` of a configuration of files."""
    if hold_out < 0:
        raise ValueError(f"hold_out={hold_out} must be 0 or more")
    if hold_out and valid:
        raise ValueError(f"hold_out={hold_out}, but valid names files: leave one of the two out")
