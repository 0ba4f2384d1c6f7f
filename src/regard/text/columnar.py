"""Rows of Parquet and Arrow files, of saved Hugging Face data sets, and of anything that yields mappings.

Such data has no lines: an origin's line is the row, counted from 1.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.text.files import did_you_mean
from regard.text.records import DataError, Origin
from regard.text.tables import Column, Row, pick

_BATCH = 1024
"""Rows made into Python objects at a time."""


def scan_mappings(
    rows: Iterable[Mapping[str, object]], columns: Sequence[Column]
) -> Iterator[Row | DataError]:
    """Rows of a `datasets.Dataset`, or of any iterable of mappings; origins carry the name of its type."""
    name = type(rows).__name__
    for number, row in enumerate(rows, 1):
        yield pick(row, columns, Origin(name, number))


def scan_parquet(path: str | Path, columns: Sequence[Column]) -> Iterator[Row | DataError]:
    pyarrow = _import_pyarrow()
    _refuse_missing(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            wanted = _check_columns(columns, file.schema_arrow.names, path)
            yield from _rows(file.iter_batches(batch_size=_BATCH, columns=wanted), wanted, path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            Origin(str(path)), "not whole Parquet data", f"({error})", "get the file again"
        ) from error


def scan_arrow(path: str | Path, columns: Sequence[Column]) -> Iterator[Row | DataError]:
    """Rows of an Arrow file, or of a folder written by `datasets.Dataset.save_to_disk`."""
    pyarrow = _import_pyarrow()
    _refuse_missing(path)
    start = 1
    for file in _saved_files(Path(path)):
        _refuse_missing(file)
        try:
            with pyarrow.memory_map(str(file)) as memory, _open_arrow(pyarrow, memory) as reader:
                wanted = _check_columns(columns, reader.schema.names, path)
                for batch in _batches(reader):
                    for slice_start in range(0, batch.num_rows, _BATCH):
                        yield from _rows(
                            [batch.slice(slice_start, _BATCH)], wanted, path, start + slice_start
                        )
                    start += batch.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(
                Origin(str(file)), "not whole Arrow data", f"({error})", "get the file again"
            ) from error


def _rows(batches: Iterable[Any], wanted: list[str], path: str | Path, start: int = 1) -> Iterator[Row]:
    file = str(path)
    number = start
    for batch in batches:
        for cells in zip(*(batch.column(name).to_pylist() for name in wanted), strict=True):
            yield Row(cells, Origin(file, number))
            number += 1


def _batches(reader: Any) -> Iterator[Any]:
    """The record batches of either kind of Arrow reader."""
    if hasattr(reader, "num_record_batches"):
        yield from map(reader.get_batch, range(reader.num_record_batches))
    else:
        yield from reader


def _open_arrow(pyarrow: ModuleType, memory: Any) -> Any:
    """Most writers give the file kind of Arrow, `datasets` the stream kind, under the same suffix."""
    is_file_kind = memory.read(6) == b"ARROW1"
    memory.seek(0)
    return pyarrow.ipc.open_file(memory) if is_file_kind else pyarrow.ipc.open_stream(memory)


def _saved_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / "dataset_dict.json").is_file():
        splits = json.loads((path / "dataset_dict.json").read_text())["splits"]
        raise DataError(
            Origin(str(path)),
            f"holds the splits {', '.join(splits)}",
            remedy=f"name one, as in {path / splits[0]}",
        )
    if not (path / "state.json").is_file():
        raise DataError(Origin(str(path)), "a directory, but no saved data set", remedy="name a file in it")
    state = json.loads((path / "state.json").read_text())
    return [path / part["filename"] for part in state["_data_files"]]


def _check_columns(columns: Sequence[Column], present: list[str], path: str | Path) -> list[str]:
    wanted: list[str] = []
    for column in columns:
        if not isinstance(column, str):
            raise ValueError(f"column {column!r} is a place, but {path} has names only: pass a name")
        if column not in present:
            raise DataError(Origin(str(path)), f"no column {column!r}", remedy=did_you_mean(column, present))
        wanted.append(column)
    return wanted


def _refuse_missing(path: str | Path) -> None:
    if not Path(path).exists():
        raise DataError(Origin(str(path)), "no such file", remedy="check the path")


def _import_pyarrow() -> ModuleType:
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet and Arrow data need pyarrow: pip install 'regard[data]'") from error
    return pyarrow
