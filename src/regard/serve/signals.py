"""What a process that serves is told by signals, from its first moment on. Imports no torch.

    SIGTERM   before it serves: it ends at once, with 0. Then: it ends in good order
    SIGINT    the same, once it serves; before, it is interrupted as any other program
    SIGHUP    what has changed is read again; before it serves, as soon as it does

In a container the process is the first one, for which a signal without a handler is none.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Signals:
    def __init__(self) -> None:
        self._end: Callable[[], None] | None = None
        self._again: Callable[[], None] | None = None
        self._noted = False

    def serve(self, end: Callable[[], None], again: Callable[[], None]) -> None:
        """From now on there is somebody to `end`, and something to read `again`, in a thread of its own."""
        self._end, self._again = end, again
        if _first_thread():
            signal.signal(signal.SIGINT, self._told_to_end)
        if self._noted:
            self._told_again()

    def _told_to_end(self, *_: Any) -> None:
        if self._end is None:
            raise SystemExit(0)
        self._end()

    def _told_again(self, *_: Any) -> None:
        if self._again is None:
            self._noted = True
        else:
            threading.Thread(target=self._again).start()


def _first_thread() -> bool:
    """No other hears of signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def heard() -> Iterator[Signals]:
    """Signals are heard until the end of the block."""
    signals = Signals()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    if _first_thread():
        signal.signal(signal.SIGTERM, signals._told_to_end)
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signals._told_again)
    try:
        yield signals
    finally:
        if _first_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
