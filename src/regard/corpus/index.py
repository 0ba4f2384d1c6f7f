"""The nearest of very many vectors, in parts: each is built from a run of rows, kept in a file, and mapped.

    ivfpq    inverted lists of product-quantised vectors (Jégou et al. 2011): some bytes a row
    hnsw     graphs of neighbours (Malkov and Yashunin 2018): quicker, and as large as the vectors

What either finds are candidates: they are scored again, exactly, from the vectors themselves. Lists and
quantisers are trained on a sample. How many of the ten true neighbours are found is measured on another
sample, against the exact search, and kept in `index.json`. A part that is there is not built again; of two
processes that want the same index, one builds it and the other waits.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.corpus.folder import lock
from regard.corpus.vectors import ShardedVectors
from regard.disk import read_plain, replace, write_text
from regard.meaning.graph import BUILD_WIDTH, LINKS, has_faiss
from regard.meaning.index import EXACT_ROWS, SearchError
from regard.meaning.nearest import Scores, nearest, rescored
from regard.tasks.base.vectors import Rows, Unit

Kind = Literal["exact", "ivfpq", "hnsw"]
PART_ROWS = 1_000_000
TRAIN_ROWS = 200_000
SAMPLE, AT = 200, 10
"""Queries that recall is measured with, and neighbours of each."""
CANDIDATES = 10
"""For each neighbour that is asked for, so many are scored again."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardedIndex:
    vectors: ShardedVectors
    kind: Kind
    parts: tuple[Any, ...] = ()
    """faiss's own, and how many rows are before each."""
    recall: float | None = None
    """Of the ten nearest, on a sample; None for the exact search."""

    def search(self, queries: Unit, k: int) -> tuple[Rows, Scores]:
        """The k nearest rows of each query and their cosines, best first."""
        k = min(k, len(self.vectors))
        whole: Any = self.vectors
        if self.kind == "exact":
            return nearest(queries, whole, k)
        wanted = max(k * CANDIDATES, 64)
        scores, rows = [], []
        for before, part in self.parts:
            near, own = part.search(np.ascontiguousarray(queries), min(wanted, part.ntotal))
            scores.append(np.where(own >= 0, near, -np.inf))
            rows.append(np.where(own >= 0, own + before, -1))
        every, order = np.concatenate(rows, axis=1), np.argsort(-np.concatenate(scores, axis=1), axis=1)
        best = np.take_along_axis(every, order[:, :wanted], axis=1)
        found, cosines = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        for query, own in enumerate(best):
            there = own[own >= 0]
            mine = queries[query : query + 1]
            if len(there) < k:
                found[query], cosines[query] = (each[0] for each in nearest(mine, whole, k))
                continue
            ordered, exact = rescored(mine, self.vectors[there], np.arange(len(there))[None])
            found[query], cosines[query] = there[ordered[0, :k]], exact[0, :k]
        return found, cosines


def choose(rows: int, wanted: str) -> tuple[Kind, str]:
    """How so many rows are searched, and why."""
    if wanted == "exact":
        return "exact", "as asked for"
    if wanted == "auto" and rows <= EXACT_ROWS:
        return "exact", f"{rows:,} rows are searched exactly in no time"
    if not has_faiss():
        if wanted != "auto":
            raise SearchError(f"--kind {wanted} needs faiss: pip install 'regard[search]', or --kind exact")
        return "exact", f"{rows:,} rows would be searched faster with faiss: pip install 'regard[search]'"
    if wanted == "auto":
        return "ivfpq", f"{rows:,} rows, more than {EXACT_ROWS:,}"
    return "hnsw" if wanted in ("faiss", "hnsw") else "ivfpq", "as asked for"


def open_index(
    vectors: ShardedVectors,
    kind: Kind,
    say: Callable[[str], object] = lambda line: None,
    part_rows: int = PART_ROWS,
) -> ShardedIndex:
    """From its files, or built: whatever is there of it is used."""
    if kind == "exact":
        return ShardedIndex(vectors, "exact")
    folder = vectors.folder.own / f"index-{kind}"
    about: dict[str, Any] = {
        "fingerprint": hashlib.sha256(vectors.fingerprint.encode()).hexdigest(),
        "rows": len(vectors),
        "part_rows": part_rows,
    }
    names = [f"part-{number:05d}.faiss" for number in range(-(-len(vectors) // part_rows))]
    known = _about(folder, about)
    if "recall_at_10" not in known or not all((folder / name).exists() for name in names):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:  # a second one waits, and finds it built
            lock(file, wait=True)
            _build(vectors, kind, folder, about, names, say)
        known = _about(folder, about)
    parts = _opened(folder, known, names, kind, part_rows)
    return ShardedIndex(vectors, kind, parts, known["recall_at_10"])


def _build(
    vectors: ShardedVectors,
    kind: Kind,
    folder: Path,
    about: dict[str, Any],
    names: list[str],
    say: Callable[[str], object],
) -> None:
    """What is not there yet."""
    known = _about(folder, about)
    if not known:
        for path in folder.glob("*.faiss*"):
            path.unlink()
    files: dict[str, Any] = dict(known.get("files", {}))
    faiss, part_rows, trained = import_module("faiss"), about["part_rows"], None
    for number, name in enumerate(names):
        start = number * part_rows
        path = folder / name
        if path.exists() and name in files:
            continue
        trained = trained or _trained(faiss, vectors, kind)
        own = faiss.clone_index(trained)
        for row in range(start, min(start + part_rows, len(vectors)), 1 << 15):
            own.add(vectors[row : min(row + (1 << 15), start + part_rows)])
        replace(path, partial(_write, faiss, own), partial=path.with_name(f"{name}.{os.getpid()}"))
        files[name] = {"stamp": _stamp(path), "sha256": _digest(path)}
        known = {**about, "files": files}
        write_text(folder / "index.json", json.dumps(known, indent=1))
        say(f"index: {min(start + part_rows, len(vectors)):,} of {len(vectors):,} rows")
    if "recall_at_10" not in known:
        parts = _opened(folder, known, names, kind, part_rows)
        recall = measured_recall(ShardedIndex(vectors, kind, parts))
        write_text(folder / "index.json", json.dumps({**known, "recall_at_10": recall}, indent=1))


def measured_recall(index: ShardedIndex) -> float:
    """The share of the ten nearest of some rows, themselves left out, that the index finds."""
    count = min(AT, len(index.vectors) - 1)
    if count < 1:
        return 1.0
    chosen = np.linspace(0, len(index.vectors) - 1, min(SAMPLE, len(index.vectors))).astype(np.int64)
    queries = index.vectors[chosen]
    found, _ = index.search(queries, count + 1)
    whole: Any = index.vectors
    true, _ = nearest(queries, whole, count + 1)
    hits = total = 0
    for row, mine, wanted in zip(chosen.tolist(), found.tolist(), true.tolist(), strict=True):
        others = [each for each in wanted if each != row][:count]
        hits += len({*others} & {*mine})
        total += len(others)
    return hits / max(total, 1)


def _trained(faiss: Any, vectors: ShardedVectors, kind: Kind) -> Any:
    rows, width = vectors.shape
    if kind == "hnsw":
        graph = faiss.IndexHNSWFlat(width, LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction, graph.hnsw.efSearch = BUILD_WIDTH, 256
        return graph
    sample = vectors[np.unique(np.linspace(0, rows - 1, min(TRAIN_ROWS, rows)).astype(np.int64))]
    lists = int(max(1, min(4 * rows**0.5, len(sample) / 39, 65_536)))
    codes = max(each for each in range(1, min(width, 96) + 1) if width % each == 0)
    bits = 8 if len(sample) >= 256 * 39 else 4
    quantiser = faiss.IndexFlatIP(width)
    index = faiss.IndexIVFPQ(quantiser, width, lists, codes, bits, faiss.METRIC_INNER_PRODUCT)
    index.own_fields = True
    quantiser.this.disown()
    index.cp.min_points_per_centroid = 1
    index.pq.cp.min_points_per_centroid = 1
    index.cp.seed = index.pq.cp.seed = 1234
    index.train(sample)
    index.nprobe = max(1, min(lists, 16 + lists // 32))
    return index


def _about(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What index.json says, if it is of these vectors; else nothing."""
    try:
        found = json.loads(read_plain(folder / "index.json"))
    except (OSError, ValueError):
        return {}
    same = isinstance(found, dict) and all(found.get(name) == value for name, value in wanted.items())
    return found if same else {}


def _write(faiss: Any, index: Any, path: Path) -> None:
    faiss.write_index(index, str(path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> list[int]:
    there = path.stat()
    return [there.st_size, there.st_mtime_ns]


def _opened(
    folder: Path, known: dict[str, Any], names: list[str], kind: Kind, part_rows: int
) -> tuple[tuple[int, Any], ...]:
    return tuple(
        (number * part_rows, _mapped(folder / name, known["files"][name], kind))
        for number, name in enumerate(names)
    )


def _mapped(path: Path, written: dict[str, Any], kind: Kind) -> Any:
    """Only the very file that was written: faiss trusts what it reads. One of another size or time (a copy)
    is read whole to see that."""
    if _stamp(path) != written["stamp"] and _digest(path) != written["sha256"]:
        raise SearchError(
            f"{path} is not the file that was saved; delete {path.parent} to have it built again"
        )
    faiss = import_module("faiss")
    found = faiss.read_index(str(path), faiss.IO_FLAG_MMAP if kind == "ivfpq" else faiss.IO_FLAG_MMAP_IFC)
    if kind == "hnsw":
        found.hnsw.efSearch = 256
    return found
