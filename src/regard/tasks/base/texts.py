"""Texts of a file: a text a line, or a column of a table."""

import re
from collections.abc import Iterator

from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.sources import Source, source_of
from regard.tasks.base.tables import Texts, Wanted


def numbered_texts(file: str, options: FileOptions = AS_NAMED) -> Iterator[tuple[int, str]]:
    """Each with the line where it begins; "-" is standard input. Blank ones are no texts. What is neither
    lines nor a table is refused at once."""
    return _texts(source_of(file, options))


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    rows = source.rows()
    column = Texts(Wanted(source.options.column), rows, source)
    for record in rows.records:
        text = column.of(record)
        if text.strip():
            yield record.origin.line, text


def on_one_line(text: str) -> str:
    """As it is shown: a cell of a table may have several."""
    return re.sub(r"\s*\n\s*", " ", text)
