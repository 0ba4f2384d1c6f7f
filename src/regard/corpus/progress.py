"""How far a corpus is: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from regard.corpus.folder import Done
from regard.tasks.base.terminal import say

EVERY = 30.0
"""Seconds between two lines, where there is no terminal."""
_SOON = 0.1
"""Seconds after which a line on a terminal changes."""


class Meter:
    """Counts what is done. Time left is told by bytes of input: they are known beforehand."""

    def __init__(self, total_bytes: int, shards: int, done_before: int = 0, bytes_before: int = 0) -> None:
        self.total, self.shards, self.done = total_bytes, shards, done_before
        self.bytes, self._before = bytes_before, bytes_before
        self.rows = self.tokens = self.under_way = 0
        self._begun = time.monotonic()

    def texts(self, count: int) -> None:
        """Of shards that are not done yet."""
        self.under_way += count

    def shard(self, done: Done) -> None:
        self.done += 1
        self.bytes += done.bytes
        self.rows += done.rows
        self.tokens += done.tokens
        self.under_way = max(self.under_way - done.rows, 0)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def sentences(self) -> float:
        """A second."""
        return (self.rows + self.under_way) / max(self.seconds, 1e-9)

    @property
    def tokens_a_second(self) -> float:
        each = self.tokens / self.rows if self.rows else 0.0
        return each * self.sentences

    @property
    def share(self) -> float:
        """Of the whole, from 0 to 1; shards under way by their texts."""
        ahead = self.under_way * (self.bytes - self._before) / self.rows if self.rows else 0.0
        return min((self.bytes + ahead) / max(self.total, 1), 1.0)

    @property
    def left(self) -> float | None:
        """Seconds, if it goes on like this."""
        moved = self.share - self._before / max(self.total, 1)
        return None if moved <= 0 else self.seconds * (1 - self.share) / moved

    def line(self) -> str:
        left = "" if self.left is None else f", {_clock(self.left)} left"
        speed = f"{self.sentences:,.0f} sentences/s, {self.tokens_a_second:,.0f} tokens/s"
        return f"{self.done:,} of {self.shards:,} shards, {self.share:.1%}, {speed}{left}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class _Shown:
    def __init__(self, meter: Meter, bar: Progress | None, task: TaskID | None, console: Console) -> None:
        self._meter, self._bar, self._task, self._console = meter, bar, task, console
        self._said = time.monotonic()

    def texts(self, count: int) -> None:
        self._meter.texts(count)
        self._update()

    def shard(self, done: Done) -> None:
        self._meter.shard(done)
        self._update()

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._meter.share, line=self._meter.line())
        elif time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            say(self._console, self._meter.line())


@contextmanager
def shown(meter: Meter) -> Iterator[_Shown]:
    """On standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Shown(meter, None, None, console)
        return
    with Progress(BarColumn(), TextColumn("{task.fields[line]}"), console=console, transient=True) as bar:
        yield _Shown(meter, bar, bar.add_task("", total=1.0, line=meter.line()), console)


@contextmanager
def shown_planning(files: int) -> Iterator[Callable[[int, int], None]]:
    """While the input is read for the first time: what `Planner.shards` tells, on standard error."""
    size = 0
    with _shown_line("planning") as line:

        def told(done: int, more: int) -> None:
            nonlocal size
            size += more
            line(f"planning: {done:,} of {files:,} files, {size:,} bytes of text")

        yield told


@contextmanager
def shown_texts(what: str, count: int) -> Iterator[Callable[[int], None]]:
    """While so many texts are read from the input: it is told how many more were."""
    done = 0
    with _shown_line(what) as line:

        def told(more: int) -> None:
            nonlocal done
            done += more
            line(f"{what}: {done:,} of {count:,} texts")

        yield told


@contextmanager
def _shown_line(first: str) -> Iterator[Callable[[str], None]]:
    """A line that changes, on standard error."""
    console, said = Console(stderr=True), time.monotonic()
    with ExitStack() as stack:
        bar = stack.enter_context(console.status(escape(first))) if console.is_terminal else None

        def told(line: str) -> None:
            nonlocal said
            if time.monotonic() - said <= (EVERY if bar is None else _SOON):
                return
            said = time.monotonic()
            if bar is None:
                say(console, line)
            else:
                bar.update(escape(line))

        yield told
