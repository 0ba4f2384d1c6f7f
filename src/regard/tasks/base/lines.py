"""The lines that a command reads: of a file, or of standard input."""

import sys
from collections.abc import Iterator

from regard.tasks.base.files import told
from regard.tasks.base.formats import only_lines
from regard.text import DataError
from regard.text.files import scan, scan_stream

WINDOW = 1000
"""Lines that are read before the first is answered, where nobody waits at a terminal."""


def incoming(file: str, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file, or of standard input for "-". What is not lines is refused at once."""
    only_lines(file)
    return _lines(file, encoding)


def _lines(file: str, encoding: str) -> Iterator[str]:
    if file == "-":
        lines = scan_stream(sys.stdin.buffer, "standard input", encoding=encoding)  # type: ignore[arg-type]
    else:
        lines = scan(file, encoding=encoding)
    try:
        for line in lines:
            if isinstance(line, DataError):
                raise line
            yield line
    except DataError as error:
        raise final(error) from error


def final(error: DataError) -> DataError:
    """Where there is nothing to choose but how a file is read."""
    return told(error, "prompt")
