"""The lines that a command reads: of a file, or of standard input."""

import sys
from collections.abc import Iterator

from regard.text import DataError, Origin, read_lines

WINDOW = 1000
"""Lines that are read before the first is answered, where nobody waits at a terminal."""


def incoming(file: str) -> Iterator[str]:
    """The lines of a file, or of standard input for "-"."""
    if file == "-":
        yield from _standard_input()
        return
    try:
        for line in read_lines(file):
            yield line.text
    except DataError as error:
        raise final(error) from error


def final(error: DataError) -> DataError:
    """Where there is nothing to choose."""
    remedy = "fix the file" if "on_error" in error.remedy else error.remedy
    return DataError(error.origin, error.reason, error.particulars, remedy)


def _standard_input() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            origin = Origin("standard input", number)
            raise DataError(
                origin, "invalid UTF-8", f"at byte {error.start}", remedy="convert the text to UTF-8 first"
            ) from error
