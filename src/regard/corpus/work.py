"""One shard from its records to its files: what a worker does, whatever engine it works in."""

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.corpus.addresses import InputFile, stamp_of
from regard.corpus.folder import Done, OutFolder
from regard.corpus.plan import Shard
from regard.corpus.reading import Asked, Bad, CorpusReader, Taken
from regard.corpus.writing import COLUMNS, IDS, SUFFIXES, Written, write_ids, writer
from regard.tasks.base.bulk import Bulk, BulkWork, Output
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.base.tables import free_name
from regard.tasks.registry import get_task
from regard.text import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What all workers of a run are told; it can be sent to other processes and machines."""

    task: str
    model: str
    device: str
    precision: Any
    settings: Mapping[str, Any]
    """The task's own."""
    out: str
    run: str
    """Its fingerprint."""
    form: Output
    files: tuple[InputFile, ...]
    names: tuple[tuple[str, ...], ...]
    """Of the columns of each file."""
    asked: Asked
    threads: int | None = None
    """That each worker computes with, on a CPU; None for all cores."""


def open_bulk(job: Job) -> BulkWork:
    import torch

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    spec = get_task(job.task).bulk
    if spec is None:
        raise ValueError(f"task={job.task!r} does nothing with a corpus")
    return spec.open(Path(job.model), device=job.device, precision=job.precision, **job.settings)


class ShardWork:
    """A worker's own: the model, open, and how far the input was read."""

    def __init__(self, job: Job) -> None:
        self._job, self._work = job, open_bulk(job)
        self._reader = CorpusReader(job.files, job.names, job.asked)
        self._folder = OutFolder(job.out, job.run)

    def do(self, shard: Shard, progress: Progress | None = None) -> Done:
        """Its files and its mark are there when this returns. Who died behind the mark has done it."""
        if (there := self._folder.done(shard.number)) is not None:
            return there
        begun = time.monotonic()
        records = [record for stretch in shard.stretches for record in self._reader.records(stretch)]
        self._refuse_changed(shard)
        found, bad = self._computed(records, progress)
        kept = {
            name: [each.kept[place] if isinstance(each, Taken) else None for each in records]
            for place, name in enumerate(self._job.asked.keep)
        }
        called = {name: free_name(name, {*kept}) for name in found.columns}
        columns = {called[name]: values for name, values in found.columns.items()}
        kinds = {called[name]: kind for name, kind in self._work.kinds.items()}
        written = Written([each.id for each in records], kept, columns, kinds, found.lines)
        paths = [self._folder.part(shard.number, SUFFIXES[self._job.form])]
        self._folder.write_part(paths[0], lambda partial: writer(self._job.form)(partial, written))
        if self._job.asked.id is not None and self._job.form not in COLUMNS:
            paths.append(self._folder.part(shard.number, IDS))
            self._folder.write_part(paths[1], lambda partial: write_ids(partial, written.ids))
        done = Done(
            number=shard.number,
            run=self._job.run,
            files=tuple(each.name for each in paths),
            rows=len(records),
            tokens=found.tokens,
            bytes=shard.bytes,
            seconds=round(time.monotonic() - begun, 3),
            flags=dict(Counter(found.flags)),
            bad=[each.plain() for each in bad],
        )
        self._folder.mark(done)
        return done

    def _refuse_changed(self, shard: Shard) -> None:
        """After reading: what was read is what was planned."""
        for number in {each.file for each in shard.stretches}:
            file = self._job.files[number]
            if stamp_of(file) != file.stamp:
                raise DataError(
                    file.origin,
                    "was written again while it was read",
                    remedy="give the same command once more, which compares its content",
                )

    def _computed(self, records: list[Taken | Bad], progress: Progress | None) -> tuple[Bulk, list[Bad]]:
        good = [number for number, each in enumerate(records) if isinstance(each, Taken)]
        texts = [
            [own.texts[place] for own in records if isinstance(own, Taken)]
            for place in range(len(self._job.asked.wanted))
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadingWarning)  # counted in flags
            found = self._work(*texts, progress=progress)
        refused = {good[number]: why for number, why in found.bad.items()}
        bad = []
        for number, each in enumerate(records):
            if isinstance(each, Bad):
                bad.append(each)
            elif number in refused:
                bad.append(Bad(each.id, refused[number], each.origin))
        if len(good) == len(records):
            return found, bad
        columns = {name: _spread(values, good, len(records)) for name, values in found.columns.items()}
        lines = (
            None if found.lines is None else [line or "" for line in _spread(found.lines, good, len(records))]
        )
        return Bulk(columns, found.tokens, found.flags, found.bad, lines), bad


def _spread(values: Any, good: list[int], count: int) -> Any:
    """Also for the records that were bad: zeros, or None."""
    if isinstance(values, np.ndarray):
        whole = np.zeros((count, *values.shape[1:]), dtype=values.dtype)
        whole[good] = values
        return whole
    spread: list[Any] = [None] * count
    for number, value in zip(good, values, strict=True):
        spread[number] = value
    return spread
