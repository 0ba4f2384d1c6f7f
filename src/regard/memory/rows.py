"""TSV and CSV files whose columns a header may name."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from regard.text.files import COMPRESSED, LONGEST, LineError, scan
from regard.text.languages import code_named
from regard.text.records import DataError, Origin
from regard.text.tables import Row, split_plain, split_quoted
from regard.text.tmx import normal_language, same_language


@dataclass(frozen=True, slots=True)
class Named:
    """The cells of a row by the names that were asked for; what it does not have is empty."""

    cells: dict[str, str]
    origin: Origin


def ending(path: str | Path) -> str:
    """Of a file's name, under that of its compression, in small letters."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix in COMPRESSED else name).suffix.lower()


def scan_rows(
    path: str | Path,
    known: Mapping[str, Collection[str]],
    plain: Sequence[str],
    *,
    languages: tuple[str | None, str | None] = (None, None),
    encoding: str = "utf-8",
    separator: str | None = None,
) -> Iterator[Named | DataError]:
    """Rows of a file. `known` has the names that a header may use for each column, and the first two of
    `plain` may be called by their `languages`; if the first row has names for these two, it is a header, and
    else columns are taken to be `plain`, in this order. Without a `separator`, that of CSV is a comma or, if
    the first line has none, a semicolon or a tab."""
    file, quoted = str(path), ending(path) == ".csv"
    lines = scan(path, LONGEST, encoding=encoding)
    first = [*islice(lines, 1)]
    mark = separator or (_separator(first) if quoted else "\t")
    lines = chain(first, lines)
    rows = split_quoted(lines, file, mark) if quoted else split_plain(lines, file, mark)
    names: list[str | None] | None = None
    for row in rows:
        if isinstance(row, DataError):
            yield row
            continue
        if names is None:
            names = _header(row, known, plain, languages)
            if names is not None:
                continue
            names = [*plain]
        if len(row.cells) < 2:
            yield DataError(row.origin, "a row of one cell", f"where {plain[0]} and {plain[1]} are needed")
            continue
        own = {name: str(cell).strip() for name, cell in zip(names, row.cells, strict=False) if name}
        yield Named({name: own.get(name, "") for name in known}, row.origin)


def _separator(first: Sequence[str | LineError]) -> str:
    line = "".join(each for each in first if isinstance(each, str))
    return next((mark for mark in ",;\t" if mark in line), ",")


def _header(
    row: Row,
    known: Mapping[str, Collection[str]],
    plain: Sequence[str],
    languages: tuple[str | None, str | None],
) -> list[str | None] | None:
    cells = [str(cell).strip().lower().replace(" ", "_") for cell in row.cells]
    names = [next((name for name, own in known.items() if cell in own), None) for cell in cells]
    for same in (lambda cell, code: normal_language(cell) == normal_language(code), same_language, _names):
        for name, code in zip(plain, languages, strict=False):
            if code and name not in names:
                place = next((i for i, cell in enumerate(cells) if not names[i] and same(cell, code)), None)
                if place is not None:
                    names[place] = name
    return names if set(plain[:2]) <= set(names) else None


def _names(cell: str, code: str) -> bool:
    named = code_named(cell.replace("_", " "))
    return named is not None and same_language(named, code)
