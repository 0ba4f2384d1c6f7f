"""Files of text become records, one at a time, each knowing its file and line.

Plain text: `read_lines`, and `read_pairs` for two files side by side. Tables: the rest; they take a path, a
`Table` where the path does not tell enough, or rows already at hand (a `datasets.Dataset`, any mappings).
Tagged sentences in columns are read by `regard.text.columns`.

Every reader takes `on_error`: "raise" stops at the first broken record, "skip" leaves it out and counts it in
`skipped`. A file that is broken as a whole is always raised.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard.text.charsets import check_encoding
from regard.text.columnar import scan_arrow, scan_mappings, scan_parquet
from regard.text.files import LONGEST, scan
from regard.text.records import (
    DataError,
    Labelled,
    Line,
    OnError,
    Origin,
    Pair,
    Record,
    ScoredPair,
    Skipped,
    Tagged,
    sift,
)
from regard.text.tables import Column, Row, Table, scan_delimited, scan_json_lines

Rows = str | Path | Table | Iterable[Mapping[str, object]]
"""Where the rows of a table come from."""


def read_lines(
    path: str | Path,
    *,
    longest: int = LONGEST,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Line]:
    """Every line, the empty ones too."""
    check_encoding(encoding)
    return sift(_scan_lines(path, longest, encoding), on_error, skipped)


def read_pairs(
    source: str | Path,
    target: str | Path,
    *,
    longest: int = LONGEST,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Pair]:
    """Each line of one file with the same line of the other.

    A line that is broken costs the pair. Lines beyond the end of the other file are broken records too.
    """
    check_encoding(encoding)
    return sift(_scan_pairs(source, target, longest, encoding), on_error, skipped)


def read_table_lines(
    table: Rows, *, text: Column, on_error: OnError = "raise", skipped: Skipped | None = None
) -> Iterator[Line]:
    """One column of a table."""

    def build(row: Row) -> Line:
        return Line(text_of(row, 0, text), row.origin)

    return read_rows(table, [text], build, on_error, skipped)


def read_table_pairs(
    table: Rows,
    *,
    source: Column,
    target: Column,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Pair]:
    """Both sides from one table."""

    def build(row: Row) -> Pair:
        return Pair(text_of(row, 0, source), text_of(row, 1, target), row.origin, row.origin)

    return read_rows(table, [source, target], build, on_error, skipped)


def read_labelled(
    table: Rows,
    *,
    text: Column,
    label: Column,
    second: Column | None = None,
    labels_apart_by: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Labelled]:
    """Texts, or pairs of texts, with their labels. Blanks around a label are dropped; numbers become strings.

    A text has one label, unless `labels_apart_by` says what stands between several, or the cell is a list;
    then an empty cell means none of the labels.
    """
    columns = [text, label] if second is None else [text, label, second]

    def build(row: Row) -> Labelled:
        other = None if second is None else text_of(row, 2, second)
        return Labelled(text_of(row, 0, text), other, _labels(row, 1, label, labels_apart_by), row.origin)

    return read_rows(table, columns, build, on_error, skipped)


def read_scored(
    table: Rows,
    *,
    first: Column,
    second: Column,
    score: Column,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[ScoredPair]:
    """Pairs of texts with a finite number each."""

    def build(row: Row) -> ScoredPair:
        return ScoredPair(text_of(row, 0, first), text_of(row, 1, second), _score(row, 2, score), row.origin)

    return read_rows(table, [first, second, score], build, on_error, skipped)


def read_tagged(
    table: Rows,
    *,
    words: Column,
    tags: Column,
    names: Sequence[str] | None = None,
    numbers: bool = False,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Tagged]:
    """Sentences whose words and tags are lists in JSON lines or columnar data; the tags stay as they are.

    Where tags are numbers, `names` has the tag for each: dataset.features["ner_tags"].feature.names. With
    `numbers`, they are meant as such, and written out.
    """

    def build(row: Row) -> Tagged:
        own = _spelled(row, 1, tags) if numbers else _tags(row, 1, tags, names)
        found = Tagged(_strings(row, 0, words), own, row.origin)
        if len(found.words) != len(found.tags):
            raise DataError(
                row.origin, "unequal lists", f"({len(found.words)} words, {len(found.tags)} tags)"
            )
        return found

    return read_rows(table, [words, tags], build, on_error, skipped)


def _scan_lines(path: str | Path, longest: int, encoding: str) -> Iterator[Line | DataError]:
    file = str(path)
    for number, line in enumerate(scan(path, longest, encoding=encoding), 1):
        yield Line(line, Origin(file, number)) if isinstance(line, str) else line


def _scan_pairs(
    source: str | Path, target: str | Path, longest: int, encoding: str
) -> Iterator[Pair | DataError]:
    source_file, target_file = str(source), str(target)
    sides = (scan(path, longest, encoding=encoding) for path in (source, target))
    both = enumerate(zip_longest(*sides), 1)
    for number, (left, right) in both:
        if left is None or right is None:
            last = number + sum(1 for _ in both)
            counts = (number - 1, last) if left is None else (last, number - 1)
            yield from _unpaired((source_file, target_file), counts)
        elif isinstance(left, DataError):
            yield left
        elif isinstance(right, DataError):
            yield right
        else:
            yield Pair(left, right, Origin(source_file, number), Origin(target_file, number))


def _unpaired(files: tuple[str, str], counts: tuple[int, int]) -> Iterator[DataError]:
    """An error for each line without a partner; each tells both counts, for the first may be raised."""
    longer = files[counts.index(max(counts))]
    details = f"({files[0]} has {counts[0]} lines, {files[1]} has {counts[1]})"
    remedy = 'align the files or pass on_error="skip"'
    for number in range(min(counts) + 1, max(counts) + 1):
        yield DataError(Origin(longer, number), "no line beside it", details, remedy)


def read_rows(
    table: Rows,
    columns: list[Column],
    build: Callable[[Row], Record],
    on_error: OnError,
    skipped: Skipped | None,
) -> Iterator[Record]:
    return sift(_build_all(_scan_rows(table, columns), build), on_error, skipped)


def _scan_rows(table: Rows, columns: list[Column]) -> Iterator[Row | DataError]:
    if isinstance(table, str | Path):
        table = Table(path=table)
    if isinstance(table, Mapping):
        splits = ", ".join(map(repr, table))
        raise TypeError(f"a {type(table).__name__} of {splits} is no table: name a split of it")
    if not isinstance(table, Table):
        return scan_mappings(table, columns)
    match table.resolve_format():
        case "tsv" | "csv":
            return scan_delimited(table, columns)
        case "jsonl":
            return scan_json_lines(table, columns)
        case "parquet":
            return scan_parquet(table.path, columns)
        case "arrow":
            return scan_arrow(table.path, columns)


def _build_all(
    rows: Iterable[Row | DataError], build: Callable[[Row], Record]
) -> Iterator[Record | DataError]:
    for row in rows:
        if isinstance(row, DataError):
            yield row
            continue
        try:
            record = build(row)
        except DataError as error:
            yield error
        else:
            yield record


def text_of(row: Row, place: int, column: Column) -> str:
    return check_text(row.cells[place], row.origin, column)


def _strings(row: Row, place: int, column: Column) -> tuple[str, ...]:
    return tuple([check_text(item, row.origin, column) for item in _list(row, place, column)])


def _tags(row: Row, place: int, column: Column, names: Sequence[str] | None) -> tuple[str, ...]:
    items = _list(row, place, column)
    if names is None:
        if any(isinstance(item, int) for item in items):
            remedy = "pass names=, the tag for each number"
            raise DataError(row.origin, f"numbers in column {column!r}", f"({items[0]}, ...)", remedy)
        return _strings(row, place, column)
    wrong = [item for item in items if not isinstance(item, int) or not 0 <= item < len(names)]
    if wrong:
        details = f"but {wrong[0]!r:.40} (names has {len(names)})"
        raise DataError(row.origin, f"no number of a name in column {column!r}", details)
    return tuple([names[item] for item in items])


def _spelled(row: Row, place: int, column: Column) -> tuple[str, ...]:
    """Numbers, or texts of them."""
    items = _list(row, place, column)
    return tuple(
        [
            str(each) if isinstance(each, int | float) else check_text(each, row.origin, column)
            for each in items
        ]
    )


def _list(row: Row, place: int, column: Column) -> Sequence[Any]:
    value = row.cells[place]
    if not isinstance(value, list | tuple):
        raise DataError(row.origin, f"no list in column {column!r}", f"but {value!r:.40}")
    return value


def _labels(row: Row, place: int, column: Column, separator: str | None) -> tuple[str, ...]:
    value = row.cells[place]
    if isinstance(value, list | tuple):
        return tuple([_label(item, row.origin, column) for item in value])
    if separator is None or not isinstance(value, str):
        return (_label(value, row.origin, column),)
    if not value.strip():
        return ()
    return tuple([_label(part, row.origin, column) for part in value.split(separator)])


def _label(value: object, origin: Origin, column: Column) -> str:
    label = str(value) if isinstance(value, int | float) else check_text(value, origin, column).strip()
    if not label:
        raise DataError(origin, f"empty label in column {column!r}")
    return label


def _score(row: Row, place: int, column: Column) -> float:
    value = row.cells[place]
    try:
        score = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(row.origin, f"no finite number in column {column!r}", f"but {value!r:.40}")
    return score


def check_text(value: object, origin: Origin, column: Column) -> str:
    if not isinstance(value, str):
        raise DataError(origin, f"no text in column {column!r}", f"but {value!r:.40}")
    # Neither can come from a text file; JSON escapes and columnar data can hold both.
    if "\0" in value:
        raise DataError(origin, "NUL", f"in column {column!r}")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError as error:
        raise DataError(origin, "half of a surrogate pair", f"in column {column!r}") from error
    return value
