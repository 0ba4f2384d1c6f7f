"""A corpus as numbers on disk, mapped into memory: it may be larger than memory.

A store is a folder. Each column is a ragged array: `NAME.values`, all sequences end to end, and
`NAME.offsets`, where each begins; `store.json` says the types, the counts, the digests of the files, and the
fingerprint of what the store was built from. It is built once, under another name, and renamed when whole: a
store exists whole or not at all.

    store = open_or_build(folder, fingerprint(files, tokenizer.fingerprint()), columns, rows)
    store["source"][7]        the ids of sequence 7, read from disk when touched
"""

import hashlib
import json
import os
import reprlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.disk import full_disk, read_plain
from regard.text.files import open_bytes

FORMAT = 1
"""Raised when the files change shape: older stores are then built again."""

FLUSH = 1 << 20
"""Numbers held in memory, for each column, while a store is built."""

PATIENCE = 50
"""How often a store is looked for that is being replaced by another process's, every 20 ms."""

ABANDONED = 24 * 3600
"""Seconds without a write after which a half-built folder counts as left by a builder that was killed."""

Row = Mapping[str, npt.ArrayLike]


class StoreError(ValueError):
    """A store that cannot be built or read; the message names the folder and the remedy."""


@dataclass(frozen=True, slots=True)
class Column:
    """A ragged array."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def gather(
        self, rows: npt.NDArray[np.int64], *, skip_first: int = 0, skip_last: int = 0
    ) -> npt.NDArray[Any]:
        """The sequences of these rows end to end, each without so many values at its ends."""
        starts = self.offsets[rows] + skip_first
        lengths = np.maximum(self.offsets[rows + 1] - skip_last - starts, 0)
        ends = lengths.cumsum()
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
        return self.values[places]


def ragged(rows: Sequence[Sequence[int]]) -> Column:
    """Sequences in memory, as a store has them on disk."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    parts = [np.asarray(row, dtype=np.int32) for row in rows]
    flat = np.concatenate(parts) if parts else np.empty(0, np.int32)
    return Column(flat, offsets.astype(np.int64))


class Store:
    """An open store: columns by name, all with the same number of sequences."""

    def __init__(self, folder: Path | str, *, check: bool = True) -> None:
        """With `check`, all of it is read, and compared with the digests of what was written."""
        self.folder = folder = Path(folder)
        about = _about(folder)
        if about is None:
            raise StoreError(f"{folder}: not a token store, or one of another version; build it again")
        self.fingerprint: str = about["fingerprint"]
        self._columns = {
            name: _mapped(folder, name, check, **column) for name, column in about["columns"].items()
        }

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"{self.folder} has no column {name!r}, only {', '.join(self._columns)}") from None

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)


def _about(folder: Path) -> dict[str, Any] | None:
    try:
        about = json.loads(read_plain(folder / "store.json"))
    except (OSError, ValueError):
        return None
    ours = isinstance(about, dict) and about.get("format") == FORMAT
    return about if ours and {"fingerprint", "columns"} <= about.keys() else None


def _holds(folder: Path, wanted: str, columns: Mapping[str, npt.DTypeLike]) -> bool:
    about = _about(folder)
    if about is None or about["fingerprint"] != wanted:
        return False
    types = {name: column["dtype"] for name, column in about["columns"].items()}
    return types == {name: np.dtype(kind).str for name, kind in columns.items()}


def _mapped(
    folder: Path,
    name: str,
    check: bool,
    *,
    dtype: str,
    sequences: int,
    values: int,
    digests: Mapping[str, str] | None = None,
) -> Column:
    """Older stores have no digests."""

    def mapped(path: Path, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        size = np.dtype(kind).itemsize * count
        if not path.exists() or path.stat().st_size != size:
            found = path.stat().st_size if path.exists() else 0
            raise StoreError(
                f"{path}: {found} bytes where {size} belong; delete {folder} to have it built again"
            )
        if check and digests and digests.get(path.suffix) != _digest(path):
            why = "damaged: its content is not what was written"
            raise StoreError(f"{path}: {why}; delete {folder} to have it built again")
        # an empty file cannot be mapped
        return np.memmap(path, dtype=kind, mode="r") if count else np.empty(0, dtype=kind)

    return Column(
        values=mapped(folder / f"{name}.values", dtype, values),
        offsets=mapped(folder / f"{name}.offsets", np.int64, sequences + 1),
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_or_build(
    folder: Path | str, wanted: str, columns: Mapping[str, npt.DTypeLike], rows: Callable[[], Iterable[Row]]
) -> Store:
    """The store in this folder if it has the wanted fingerprint, or else a new one in its place. `rows` is
    called only to build: each row gives a sequence of numbers (or one number) for every column. Memory use
    does not grow with the corpus. Processes may ask for the same store at once: each builds, one is kept."""
    folder = Path(folder).resolve()  # what a link leads to is replaced, not the link
    if _holds(folder, wanted, columns):
        return _opened(folder)
    if not columns:
        raise StoreError(f"{folder}: a token store needs at least one column")
    if folder.exists() and (other := _foreign(folder)):
        raise StoreError(
            f"{folder} holds other files ({other}): choose an empty or a new folder for the token store"
        )
    check = True
    building = folder.with_name(f"{folder.name}.building-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    try:
        with full_disk(folder):
            building.mkdir(parents=True)
            _build(building, wanted, columns, rows())
        if not _holds(folder, wanted, columns):
            swap_in(building, folder)
            check = False  # it was just written
    except OSError:
        if not _holds(folder, wanted, columns):  # or another process was faster
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    sweep(folder)
    return _opened(folder, check=check)


def _opened(folder: Path, *, check: bool = True) -> Store:
    """Another process may be putting its own in the place of this one, which is the same: for a moment there
    is none."""
    for _ in range(PATIENCE):
        before = _inode(folder)
        try:
            return Store(folder, check=check)
        except StoreError:
            if before is not None and before == _inode(folder):
                raise
        time.sleep(0.02)
    return Store(folder, check=check)


def _inode(folder: Path) -> int | None:
    try:
        return (folder / "store.json").stat().st_ino
    except OSError:
        return None


def _foreign(folder: Path) -> str | None:
    """The first file there that no store has."""
    if not folder.is_dir():
        return folder.name
    names = sorted(path.name for path in folder.iterdir())
    return next(
        (name for name in names if name != "store.json" and not name.endswith((".values", ".offsets"))), None
    )


def _build(folder: Path, wanted: str, columns: Mapping[str, npt.DTypeLike], rows: Iterable[Row]) -> None:
    with ExitStack() as files:
        writers = {name: _Writer(folder, name, np.dtype(kind), files) for name, kind in columns.items()}
        for number, row in enumerate(rows):
            if row.keys() != writers.keys():
                raise StoreError(f"row {number} has {', '.join(row)}; the columns are {', '.join(writers)}")
            for name, writer in writers.items():
                writer.add(row[name], number)
        about = {
            "format": FORMAT,
            "fingerprint": wanted,
            "columns": {name: writer.finish() for name, writer in writers.items()},
        }
    (folder / "store.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


class _Writer:
    """One column's two files, written in large pieces."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any], files: ExitStack) -> None:
        self.name, self.dtype = name, dtype
        self.values_file = files.enter_context((folder / f"{name}.values").open("wb"))
        self.offsets_file = files.enter_context((folder / f"{name}.offsets").open("wb"))
        self.digests = {".values": hashlib.sha256(), ".offsets": hashlib.sha256()}
        self.held: list[npt.NDArray[Any]] = []
        self.offsets = [0]
        self.sequences = self.values = self.held_values = 0

    def add(self, given: npt.ArrayLike, row: int) -> None:
        try:
            values = np.atleast_1d(np.asarray(given))
        except ValueError as error:
            where = self._where(row)
            raise StoreError(
                f"{where} takes a number or a flat sequence, not {reprlib.repr(given)}"
            ) from error
        if values.ndim != 1 or values.dtype.kind not in "biuf":
            where = self._where(row)
            raise StoreError(f"{where} takes a number or a flat sequence of them, not {reprlib.repr(given)}")
        with np.errstate(invalid="ignore", over="ignore"):
            stored = values.astype(self.dtype)
        exact = self.dtype.kind in "biu"
        lost = stored != values if exact else np.isinf(stored) & ~np.isinf(values)
        if lost.any():
            where = self._where(row)
            raise StoreError(f"{where} cannot hold {values[lost][0]}: choose a larger type, or mend the row")
        self.held.append(stored)
        self.sequences += 1
        self.values += len(values)
        self.held_values += len(values)
        self.offsets.append(self.values)
        if self.held_values >= FLUSH or len(self.offsets) >= FLUSH:
            self.flush()

    def _where(self, row: int) -> str:
        return f"row {row}: column {self.name!r} of type {self.dtype}"

    def flush(self) -> None:
        if self.held:
            values = np.concatenate(self.held)
            values.tofile(self.values_file)
            self.digests[".values"].update(values.data)
        offsets = np.array(self.offsets, dtype=np.int64)
        offsets.tofile(self.offsets_file)
        self.digests[".offsets"].update(offsets.data)
        self.held, self.offsets, self.held_values = [], [], 0

    def finish(self) -> dict[str, Any]:
        self.flush()
        for file in (self.values_file, self.offsets_file):
            file.flush()
            os.fsync(file.fileno())
        return {
            "dtype": self.dtype.str,
            "sequences": self.sequences,
            "values": self.values,
            "digests": {suffix: each.hexdigest() for suffix, each in self.digests.items()},
        }


def swap_in(building: Path, folder: Path) -> None:
    """A folder cannot be renamed over a full one: the old one steps aside first."""
    aside = folder.with_name(f"{folder.name}.old-{os.getpid()}")
    with suppress(FileNotFoundError):
        folder.rename(aside)
    try:
        building.rename(folder)
    except OSError:
        if aside.exists() and not folder.exists():
            aside.rename(folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed builders have left beside a folder."""
    for path in folder.parent.iterdir():
        if path.name.startswith((f"{folder.name}.building-", f"{folder.name}.old-")):
            with suppress(OSError):
                written = max(file.stat().st_mtime for file in (path, *path.iterdir()))
                if time.time() - written > ABANDONED:
                    shutil.rmtree(path, ignore_errors=True)


def id_type(vocabulary: int) -> np.dtype[Any]:
    """The smallest type that holds every id of a vocabulary."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)


def fingerprint(files: Sequence[Path | str], *settings: str) -> str:
    """Of the files' content, in order, and of whatever else decides what is stored: the tokenizer, a length
    limit. Takes what readers take: content counts as unpacked, and a folder as all files in it."""
    digest = hashlib.sha256(f"{len(settings)} settings".encode())
    for part in settings:
        digest.update(hashlib.sha256(part.encode()).digest())
    for path in files:
        inside = [file for file in sorted(Path(path).rglob("*")) if file.is_file()]
        for file in inside or [Path(path)]:
            with open_bytes(file) as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
