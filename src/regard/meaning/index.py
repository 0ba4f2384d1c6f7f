"""A corpus that is searched by meaning: its texts, their vectors, and what finds the nearest.

An index is a folder, built once, under another name, and renamed when whole:

    index.json      its format, kind, size, and the fingerprint of what it was built from
    vectors.npy     unit vectors, float32, mapped into memory
    texts.jsonl     one JSON string a line
    faiss.index     the graph of a large corpus

Small corpora are searched exactly (nearest.py). A graph (graph.py) is quicker in large ones and may miss a
neighbour; what it finds is scored and put in order as the exact search would.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from regard.data.store import swap_in, sweep
from regard.disk import full_disk, read_plain
from regard.meaning import graph as graphs
from regard.meaning.nearest import Scores, nearest, rescored
from regard.tasks.base.vectors import (
    Rows,
    Unit,
    VectorsError,
    checked,
    normalised,
    read_texts,
    read_vectors,
    save_vectors,
    write_texts,
)

Kind = Literal["exact", "faiss"]
Wanted = Literal["auto", "exact", "faiss"]

FORMAT = "regard index 1"
EXACT_ROWS = 100_000
"""Up to so many rows, "auto" searches exactly."""

_EXTRA = "pip install 'regard[search]'"
_FILES = ("index.json", "vectors.npy", "texts.jsonl", "faiss.index")


class SearchError(ValueError):
    """An index that cannot be built, read or searched; the message says why, and the remedy."""


class Hit(NamedTuple):
    row: int
    """Counted from 0."""
    text: str
    score: float
    """The cosine, from -1 to 1."""


def choose_kind(rows: int, wanted: Wanted, has_faiss: bool) -> tuple[Kind, str]:
    """How a corpus of so many rows is searched, and why."""
    if wanted not in get_args(Wanted):
        raise SearchError(f"kind={wanted!r} is none of {', '.join(get_args(Wanted))}")
    if wanted == "faiss" and not has_faiss:
        raise SearchError(f"kind='faiss' needs faiss, which is not installed: {_EXTRA}, or kind='exact'")
    if wanted != "auto":
        return wanted, "as asked for"
    if rows <= EXACT_ROWS:
        return "exact", f"{rows:,} rows are searched exactly in no time"
    if not has_faiss:
        return "exact", f"{rows:,} rows would be searched faster with faiss: {_EXTRA}"
    return "faiss", f"{rows:,} rows, more than {EXACT_ROWS:,}"


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    texts: Sequence[str]
    vectors: Unit
    kind: Kind
    why: str
    """The reason for the kind, to be shown."""
    fingerprint: str = ""
    """Of what it was built from, in the words of whoever saved it."""
    graph: Any = None
    """faiss's own index, where the kind is "faiss"."""

    @classmethod
    def build(cls, texts: Sequence[str], vectors: npt.ArrayLike, *, kind: Wanted = "auto") -> "Index":
        rows = checked(vectors)
        if len(texts) != len(rows):
            raise SearchError(f"{len(rows)} vectors for {len(texts)} texts: give one for each")
        if not len(texts):
            raise SearchError("there is nothing to search: give at least one text")
        chosen, why = choose_kind(len(rows), kind, graphs.has_faiss())
        unit = normalised(rows)
        graph = graphs.make(unit) if chosen == "faiss" else None
        return cls(texts=texts, vectors=unit, kind=chosen, why=why, graph=graph)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    def search(self, queries: npt.ArrayLike, k: int = 10) -> list[list[Hit]]:
        """For each query the k most similar texts, best first; all of them if there are fewer. Texts that
        are equally similar come in the order of the corpus."""
        if k < 1:
            raise SearchError(f"k={k}: ask for 1 or more")
        unit = normalised(checked(queries, self.width))
        rows, scores = self._found(unit, min(k, len(self)))
        pairs = zip(rows.tolist(), scores.clip(-1, 1).tolist(), strict=True)
        return [
            [Hit(row, self.texts[row], score) for row, score in zip(*each, strict=True)] for each in pairs
        ]

    def _found(self, queries: Unit, k: int) -> tuple[Rows, Scores]:
        if self.graph is None:
            return nearest(queries, self.vectors, k)
        rows = graphs.walk(self.graph, queries, k)
        whole = (rows >= 0).all(axis=1)
        found, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        found[whole], scores[whole] = rescored(queries[whole], self.vectors, rows[whole])
        found[~whole], scores[~whole] = nearest(queries[~whole], self.vectors, k)
        return found, scores

    def save(self, folder: Path | str, fingerprint: str = "") -> None:
        """`fingerprint` says what it is of (the texts and the model, say), for `open_or_build`."""
        folder = Path(folder).resolve()  # what a link leads to is replaced, not the link
        _refuse_foreign(folder)
        building = folder.with_name(f"{folder.name}.building-{os.getpid()}")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        try:
            with full_disk(folder):
                _write(replace(self, fingerprint=fingerprint), building)
            swap_in(building, folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        sweep(folder)

    @classmethod
    def load(cls, folder: Path | str) -> "Index":
        folder = Path(folder)
        about = _about(folder)
        if about is None:
            raise SearchError(f"{folder}: no index, or one of another version; build it again")
        rows, width, kind, fingerprint = (about[key] for key in ("rows", "width", "kind", "fingerprint"))
        try:
            vectors, texts = read_vectors(folder / "vectors.npy", mapped=True), read_texts(folder / _FILES[2])
        except VectorsError as error:
            raise _broken(folder, str(error)) from error
        if vectors.shape != (rows, width) or len(texts) != rows:
            found = f"vectors {vectors.shape} and {len(texts)} texts"
            raise _broken(folder, f"{found} where {rows} of width {width} belong")
        if kind == "exact":
            return cls(texts, vectors, "exact", "as it was built", fingerprint)
        if not graphs.has_faiss():
            why = f"built with faiss, which is not installed here: {_EXTRA} to search faster"
            return cls(texts, vectors, "exact", why, fingerprint)
        try:
            graph = graphs.read(folder / "faiss.index", about["graph"])
        except (OSError, ValueError) as error:
            raise _broken(folder, str(error)) from error
        return cls(texts, vectors, "faiss", "as it was built", fingerprint, graph)

    @classmethod
    def open_or_build(cls, folder: Path | str, fingerprint: str, build: Callable[[], "Index"]) -> "Index":
        """The index in this folder if it has the fingerprint, or else a new one in its place: `build` is
        called only then."""
        folder = Path(folder)
        if not _holds(folder, fingerprint):
            _refuse_foreign(folder)
            built = build()
            try:
                built.save(folder, fingerprint)
            except OSError:
                if not _holds(folder, fingerprint):  # or another process was faster
                    raise
            return replace(cls.load(folder), why=built.why)
        return cls.load(folder)


def _broken(folder: Path, what: str) -> SearchError:
    return SearchError(f"{what}; delete {folder} to have the index built again")


def _about(folder: Path) -> dict[str, Any] | None:
    try:
        about = json.loads(read_plain(folder / "index.json"))
    except (OSError, ValueError):
        return None
    keys = {"format", "kind", "rows", "width", "fingerprint", "graph"}
    ours = isinstance(about, dict) and keys <= about.keys() and about["format"] == FORMAT
    return about if ours and about["kind"] in get_args(Kind) else None


def _holds(folder: Path, fingerprint: str) -> bool:
    about = _about(folder)
    return about is not None and about["fingerprint"] == fingerprint


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists():
        return
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    other = next((name for name in names if name not in _FILES), None)
    if other is not None:
        raise SearchError(f"{folder} holds other files ({other}): choose an empty or a new folder")


def _write(index: Index, folder: Path) -> None:
    about = {"format": FORMAT, "kind": index.kind, "rows": len(index), "width": index.width}
    about |= {"fingerprint": index.fingerprint, "graph": None}
    save_vectors(folder / "vectors.npy", index.vectors)
    write_texts(folder / "texts.jsonl", index.texts)
    if index.graph is not None:
        about["graph"] = graphs.write(index.graph, folder / "faiss.index")
    (folder / "index.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
