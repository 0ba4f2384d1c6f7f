"""Texts of a corpus in any order: read from the input in its order, once, into a temporary file.

A record is read by parsing the shard that it is in: in the order of their scores, each would cost a shard.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regard.corpus.progress import shown_texts
from regard.corpus.reading import Bad, Taken
from regard.corpus.vectors import ShardedVectors, text_of
from regard.tasks.base.vectors import Rows

_BLOCK = 4096
"""Rows that are asked for at a time."""


@contextmanager
def any_order(
    vectors: ShardedVectors, rows: Rows, folder: Path | None, of: Callable[[Taken | Bad], str] = text_of
) -> Iterator[Callable[[int], str]]:
    """A function that gives the text of a row, of those that are named. The file lies in `folder`, or where
    temporary files do, and has no name there: it is gone when the process ends, however it ends."""
    chosen = np.unique(rows)
    ends = np.zeros(len(chosen) + 1, np.int64)
    with tempfile.TemporaryFile(dir=folder) as file:
        end = 0
        with shown_texts(f"reading {vectors.folder.path}", len(chosen)) as told:
            for start in range(0, len(chosen), _BLOCK):
                own = chosen[start : start + _BLOCK].tolist()
                for place, record in enumerate(vectors.records(own), start + 1):
                    end += file.write(of(record).encode(errors="surrogatepass"))
                    ends[place] = end
                told(len(own))
        file.flush()

        def text(row: int) -> str:
            begin, stop = ends[(place := int(np.searchsorted(chosen, row))) : place + 2].tolist()
            return os.pread(file.fileno(), stop - begin, begin).decode(errors="surrogatepass")

        yield text
