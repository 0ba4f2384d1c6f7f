"""A shard as files: vectors as .npy, lines of text, JSON lines, Parquet.

Row i of a shard belongs to its record i, also where that was bad: then there is an empty line, a row of
zeros, or null. Vectors and lines have no place for ids: where a column of the input has them, they stand in a
file of their own beside each shard, `part-000000.ids`, an id a line. A column of results that has the name of
one that is kept gets `predicted_` before it, as in tables.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import ConfigError
from regard.corpus.reading import as_text
from regard.tasks.base.bulk import Kind, Output
from regard.text.remote import EXTRA

COLUMNS: tuple[Output, ...] = ("jsonl", "parquet")
"""What has a place for more than the result: ids, columns of the input, scores."""
IDS = "ids"
SUFFIXES: dict[Output, str] = {"npy": "npy", "text": "txt", "jsonl": "jsonl", "parquet": "parquet"}


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """What a shard has, row by row."""

    ids: Sequence[str]
    kept: Mapping[str, Sequence[Any]]
    columns: Mapping[str, Sequence[Any]]
    kinds: Mapping[str, Kind]
    lines: Sequence[str] | None


def writer(form: Output) -> Callable[[Path, Written], None]:
    return {"npy": _npy, "text": _text, "jsonl": _jsonl, "parquet": _parquet}[form]


def write_ids(path: Path, ids: Sequence[str]) -> None:
    """A line each, whatever is in them: a newline becomes a space."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(re.sub(r"[\r\n]", " ", each) + "\n" for each in ids)


def _npy(path: Path, found: Written) -> None:
    with path.open("wb") as file:
        np.save(file, np.asarray(found.columns["vector"], dtype=np.float32), allow_pickle=False)


def _text(path: Path, found: Written) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in found.lines or ())


def _jsonl(path: Path, found: Written) -> None:
    names = ("id", *found.kept, *found.columns)
    vectors = {name for name, kind in found.kinds.items() if kind == "vector"}
    columns: list[Any] = [found.ids, *found.kept.values()]
    for name, values in found.columns.items():
        columns.append(map(shortest, values) if name in vectors else values)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in zip(*columns, strict=True):
            plain = dict(zip(names, row, strict=True))
            file.write(json.dumps(plain, ensure_ascii=False, default=str) + "\n")


def shortest(vector: Sequence[float]) -> list[float]:
    """The shortest numbers that are the same in float32."""
    return [float(str(value)) for value in vector]


def _parquet(path: Path, found: Written) -> None:
    pyarrow = import_pyarrow()
    from pyarrow import parquet

    text = pyarrow.string()
    fields = {"id": pyarrow.array(found.ids, text)}
    for name, values in found.kept.items():  # of one type in every shard, whatever their file had
        fields[name] = pyarrow.array([*map(as_text, values)], text)
    for name, values in found.columns.items():
        fields[name] = arrow_column(values, found.kinds[name])
    parquet.write_table(pyarrow.table(fields), path, compression="zstd")


def arrow_column(values: Sequence[Any], kind: Kind) -> Any:
    """Of the same type in every shard, whatever is in it."""
    pyarrow = import_pyarrow()
    match kind:
        case "vector":
            rows = np.ascontiguousarray(values, dtype=np.float32)
            return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), rows.shape[1])
        case "json":
            return pyarrow.array(
                [None if each is None else json.dumps(each, ensure_ascii=False) for each in values],
                pyarrow.string(),
            )
        case "text" | "texts" | "number" | "whole":
            types = {
                "text": pyarrow.string(),
                "texts": pyarrow.list_(pyarrow.string()),
                "number": pyarrow.float64(),
                "whole": pyarrow.int64(),
            }
            return pyarrow.array(values, types[kind])


def import_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError(f"Parquet needs pyarrow: {EXTRA}") from error
    return pyarrow
