"""What commands print: lines as they are, and a count that moves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn


def say(console: Console, line: str) -> None:
    """Not wrapped, not coloured, no markup read into it."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def counting(
    what: str, *, beside: TextIO | None = None, total: int | None = None
) -> Iterator[Callable[[int], None] | None]:
    """A function to call with how many more are done, shown on a terminal; None where there is none, or where
    the answers are written to it too."""
    console = Console(stderr=True)
    if not console.is_terminal or (beside is not None and beside.isatty()):
        yield None
        return
    of = "" if total is None else f" of {total:,}"
    columns = (TextColumn(f"{{task.completed:,}}{of} {what}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda more: shown.advance(task, more)
