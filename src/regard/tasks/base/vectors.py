"""Texts as vectors, in memory and on disk.

    cos(a, b) = a . b / (|a| |b|)

Vectors lie in `NAME.npy`, the texts they stand for beside them in `NAME.npy.texts.jsonl`: one JSON string a
line, since a text may hold newlines. Nothing is pickled, and a file exists whole or not at all.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.disk import check_plain, replace

Unit = npt.NDArray[np.float32]
"""Rows of length 1, or 0."""
Rows = npt.NDArray[np.int64]

_CHUNK = 4096
"""Rows that are held in float64 at once."""


class VectorsError(ValueError):
    """Vectors that cannot be used; the message names the file or the row, and the remedy."""


def checked(vectors: npt.ArrayLike, width: int | None = None) -> npt.NDArray[Any]:
    """An array with one row for each text, of numbers, and of this width if one is given."""
    rows = np.asanyarray(vectors)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or not rows.shape[1]:
        raise VectorsError(
            f"an array of shape {rows.shape} and type {rows.dtype}: give numbers, one row for each text"
        )
    if width is not None and rows.shape[1] != width:
        raise VectorsError(
            f"vectors of width {rows.shape[1]} where {width} belong: make all of them with the same model"
        )
    return rows


def finite(rows: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.float64]:
    """A copy in float64, checked; `first` is the number of its first row, for the message."""
    wide = rows.astype(np.float64)
    broken = ~np.isfinite(wide).all(axis=1)
    if broken.any():
        raise VectorsError(
            f"row {first + int(broken.argmax())} (counted from 0) has a value that is no finite number: "
            "leave that text out, or mend the model that made it"
        )
    return wide


def normalised(vectors: npt.ArrayLike) -> Unit:
    """Each row brought to length 1, so that a product of two is their cosine. A row of zeros stays as it is:
    its cosine with everything is 0. Equal rows stay equal, wherever they stand."""
    rows = checked(vectors)
    unit = np.empty(rows.shape, dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        wide = finite(rows[start : start + _CHUNK], start)
        wide /= _or_one(np.abs(wide).max(axis=1, keepdims=True))  # squares can be too large, or too small
        unit[start : start + _CHUNK] = wide / _or_one(np.sqrt((wide * wide).sum(axis=1, keepdims=True)))
    return unit


def _or_one(sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(sizes > 0, sizes, 1.0)


def products(left: Unit, left_rows: Rows, right: Unit, right_rows: Rows) -> npt.NDArray[np.float64]:
    """Row by row the product of two rows, in float64. Unlike a product of matrices in float32, it does not
    depend on what is computed beside it: equal rows have equal products."""
    found = np.empty(len(left_rows))
    for start in range(0, len(left_rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        pairs = left[left_rows[part]].astype(np.float64) * right[right_rows[part]]
        found[part] = pairs.sum(axis=1)
    return found


def uncertainty(width: int) -> float:
    """How far a product of unit rows in float32 may be from `products`, by the error bound of sums of
    `width` terms, and some."""
    return width * float(np.finfo(np.float32).eps) + 1e-6


def paired_cosines(left: npt.ArrayLike, right: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """How alike each row is to the row beside it."""
    ours, theirs = normalised(left), normalised(right)
    if ours.shape != theirs.shape:
        raise VectorsError(
            f"{ours.shape} and {theirs.shape} do not pair: give as many rows on both sides, of one width"
        )
    every = np.arange(len(ours))
    return products(ours, every, theirs, every).clip(-1, 1)


def save_vectors(path: Path | str, vectors: npt.ArrayLike, texts: Iterable[str] | None = None) -> None:
    """As float32. Texts that lay beside vectors of this name go first: nobody who is killed leaves vectors
    beside the texts of others."""
    path = Path(path)
    rows = checked(vectors).astype(np.float32, copy=False)
    sidecar = texts_path(path)
    written = None if texts is None else list(texts)
    if written is not None and len(written) != len(rows):
        raise VectorsError(f"{path}: {len(rows)} vectors for {len(written)} texts: give one for each")
    sidecar.unlink(missing_ok=True)
    replace(path, lambda partial: _write_array(partial, rows))
    if written is not None:
        replace(sidecar, lambda partial: write_texts(partial, written))


def _write_array(path: Path, rows: npt.NDArray[np.float32]) -> None:
    with path.open("wb") as file:  # given a name, np.save would end it in .npy
        np.save(file, rows, allow_pickle=False)


def read_vectors(path: Path | str, *, mapped: bool = False) -> npt.NDArray[np.float32]:
    """`mapped` leaves them on the disk, and reads what is touched."""
    path = Path(path)
    try:
        check_plain(path)
        rows = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError as error:
        raise VectorsError(f"{path}: no such file; check the path, or save the vectors first") from error
    except (OSError, ValueError, EOFError) as error:
        raise VectorsError(
            f"{path}: not an .npy file of numbers, or cut short ({error}); save the vectors again"
        ) from error
    if not isinstance(rows, np.ndarray):
        raise VectorsError(f"{path}: an archive of arrays, not one: save the array alone, with np.save")
    try:
        return checked(rows).astype(np.float32, copy=False)
    except VectorsError as error:
        raise VectorsError(f"{path}: {error}") from error


def texts_path(path: Path | str) -> Path:
    """Where the texts of these vectors lie, if they were saved with them."""
    path = Path(path)
    return path.with_name(f"{path.name}.texts.jsonl")


def write_texts(path: Path, texts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.writelines(f"{json.dumps(text, ensure_ascii=False)}\n" for text in texts)


def read_texts(path: Path | str) -> list[str]:
    texts = []
    number = 0
    try:
        check_plain(Path(path))
        with Path(path).open(encoding="utf-8", errors="surrogatepass") as file:
            for number, line in enumerate(file, 1):
                text = json.loads(line)
                if not isinstance(text, str):
                    raise VectorsError(f"{path}:{number}: no JSON string, but {line[:40]!r}; save it again")
                texts.append(text)
    except FileNotFoundError as error:
        raise VectorsError(f"{path}: no such file; save the texts with the vectors") from error
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise VectorsError(f"{path}:{number}: cannot be read ({error}); save the texts again") from error
    return texts
