"""The vectors of a folder of shards as one, and the texts that they stand for.

Nothing is held in memory: rows are mapped from the disk, texts are read from the input where they stand.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import ConfigError
from regard.corpus.addresses import stamp_of
from regard.corpus.folder import OutFolder
from regard.corpus.plan import Shard, stream_hash
from regard.corpus.reading import Bad, CorpusReader, Taken
from regard.corpus.running import CorpusSettings, files_of
from regard.tasks.base.formats import FileOptions
from regard.tasks.base.vectors import Rows, Unit, VectorsError, normalised, read_vectors
from regard.text import DataError

_MAPPED = 512
"""Shards that are mapped at a time: a system lets a process have only so many."""
_TEXTS = 4
"""Shards whose texts are kept at hand."""


class ShardedVectors:
    """Rows of length 1, as `regard.meaning.nearest` takes them: `vectors[start:stop]`, `vectors[rows]`."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = OutFolder(folder)
        self.manifest = self.folder.finished()
        own = self.manifest["settings"]
        if own["task"] != "embed" or own["to"] != "npy":
            what = f"{own['task']}, {own['to']}"
            raise ConfigError(f"{folder} holds {what}: vectors are needed, regard corpus embed --write npy")
        parts = [part for part in self.manifest["parts"] if part["rows"]]
        if not parts:
            raise ConfigError(f"{folder}: there is nothing in it")
        self._numbers = [number for number, part in enumerate(self.manifest["parts"]) if part["rows"]]
        self._paths = [self.folder.path / part["files"][0] for part in parts]
        self._starts = np.cumsum([0, *(part["rows"] for part in parts)])
        self._mapped: OrderedDict[int, np.ndarray] = OrderedDict()
        self._texts: OrderedDict[int, list[Taken | Bad]] = OrderedDict()
        self._reader: CorpusReader | None = None
        self._compared = set[int]()
        """Files of the input that are as they were."""
        self.shape = (int(self._starts[-1]), self._shard(0).shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, wanted: Any) -> Unit:
        if isinstance(wanted, slice):
            start, stop, _ = wanted.indices(len(self))
            return normalised(self._range(start, stop))
        return normalised(self._chosen(np.asarray(wanted, dtype=np.int64)))

    def _range(self, start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        found = []
        while start < stop:
            own, begin = self._shard(first), int(self._starts[first])
            found.append(own[start - begin : stop - begin])
            start, first = begin + len(own), first + 1
        return np.concatenate(found) if found else np.empty((0, self.shape[1]), np.float32)

    def _chosen(self, rows: Rows) -> np.ndarray:
        found = np.empty((len(rows), self.shape[1]), np.float32)
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners):
            mine = owners == owner
            found[mine] = self._shard(int(owner))[rows[mine] - self._starts[owner]]
        return found

    def _shard(self, number: int) -> np.ndarray:
        if number not in self._mapped:
            try:
                self._mapped[number] = read_vectors(self._paths[number], mapped=True)
            except VectorsError as error:
                raise ConfigError(f"{error}; or give the command that wrote it once more") from error
            if len(self._mapped) > _MAPPED:
                self._mapped.popitem(last=False)
        self._mapped.move_to_end(number)
        return self._mapped[number]

    def records(self, rows: Sequence[int]) -> list[Taken | Bad]:
        """What stands in the input, for each of these rows."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        found: dict[int, Taken | Bad] = {}
        for place in sorted(range(len(rows)), key=lambda each: rows[each]):
            own = self._records_of(int(owners[place]))
            found[place] = own[int(rows[place] - self._starts[owners[place]])]
        return [found[place] for place in range(len(rows))]

    def every_record(self) -> Iterator[Taken | Bad]:
        """In order."""
        for number in range(len(self._paths)):
            yield from self._records_of(number)

    def _records_of(self, number: int) -> list[Taken | Bad]:
        if number not in self._texts:
            shard = self._plan()[self._numbers[number]]
            if self._reader is None:
                self._reader = reader_of(self.manifest)
            for file in {stretch.file for stretch in shard.stretches} - self._compared:
                self._refuse_changed(file)
            self._texts[number] = [
                record for stretch in shard.stretches for record in self._reader.records(stretch)
            ]
            if len(self._texts) > _TEXTS:
                self._texts.popitem(last=False)
        self._texts.move_to_end(number)
        return self._texts[number]

    def _refuse_changed(self, number: int) -> None:
        """Raise where a file of the input is not what the vectors were made from."""
        file, planned = files_of(self.manifest)[number], self.manifest["inputs"][number]
        again = f"its texts are read from there: bring it back, or embed it anew into {self.folder.path}"
        stamp = stamp_of(file)
        if stamp is None:
            raise DataError(file.origin, f"is gone from {file.path}", remedy=again)
        if stamp != file.stamp:
            encoding = self.manifest["settings"]["files"]["encoding"]
            if stream_hash(file, encoding) != planned["sha256"]:
                raise DataError(file.origin, "is not what it was when it was embedded", remedy=again)
        self._compared.add(number)

    def _plan(self) -> list[Shard]:
        if not hasattr(self, "_shards"):
            self._shards = [*self.folder.plan()]
        return self._shards

    @property
    def fingerprint(self) -> str:
        """Of the model and of every input."""
        files = " ".join(each["sha256"] for each in self.manifest["inputs"])
        return f"{self.manifest['model']['sha256']} {files} {self.manifest['settings']}"


def reader_of(manifest: dict[str, Any]) -> CorpusReader:
    """What reads the records that a manifest tells of, where they still are."""
    own = manifest["settings"]
    settings = CorpusSettings(
        task=own["task"],
        model=Path(manifest["model"]["folder"]),
        files=FileOptions(**own["files"]),
        id=own["id"],
        keep=tuple(own["keep"]),
    )
    names = [tuple(each["names"]) for each in manifest["inputs"]]
    return CorpusReader(files_of(manifest), names, settings.asked)


def text_of(record: Taken | Bad) -> str:
    """As one line; nothing, of a record that could not be read."""
    if isinstance(record, Bad):
        return ""
    text = record.texts[0]
    return " ".join((text if isinstance(text, str) else " ".join(text)).split())
