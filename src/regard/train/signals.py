"""Signals that ask a run to stop: noted, so that it stops between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Stop:
    signal: int | None = None
    """The one that came."""


@contextmanager
def listening() -> Iterator[Stop]:
    """SIGINT and SIGTERM are noted, not obeyed at once; a second one is. Only the main thread can listen."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: object) -> None:
        stop.signal = number
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
