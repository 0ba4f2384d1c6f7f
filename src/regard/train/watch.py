"""Are the other ranks still there? A rank that waits for one that is gone would wait for a day.

Each rank writes into the store that brought them together: its machine and process, a beat every second, and
how it ended. So a rank knows that another is lost

    at once          if that one failed, and said so, or was a process of this machine
    after SILENT     if it was on another machine

What waits inside a collective operation cannot be woken: such a process says what was lost, and ends.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from torch.distributed.distributed_c10d import PrefixStore, Store

BEAT = 1.0
"""Seconds between looks."""
SILENT = 300.0
"""Seconds without a beat, after which a rank of another machine counts as lost: one that computes always
beats, but its disk or its network may hang for a while."""
GRACE = 5.0
"""Seconds that the main thread has to end by itself, once a rank is lost."""
_FAILED = " has failed: "
ASKED = 3.0
"""Seconds in which it must be known who was lost when an operation has failed."""


class LostRankError(RuntimeError):
    """Another process of this training is gone; the message says which and what to do."""


class Watch:
    def __init__(self, store: Store, rank: int, count: int, *, silent: float = SILENT) -> None:
        self._store = PrefixStore("watch", cast(Any, store).clone())  # the other may be held by one who waits
        self._rank, self._silent = rank, silent
        self._others = [other for other in range(count) if other != rank]
        self._homes: dict[int, tuple[str, int]] = {}
        self._beats: dict[int, tuple[bytes, float]] = {}
        self._stopped = threading.Event()
        self._looking = threading.Lock()
        self._store.set(f"home {rank}", json.dumps([_machine(), os.getpid()]))

    def start(self, advice: Callable[[], str]) -> None:
        """From now on, a rank that is lost ends this process, with a line that closes with the advice."""
        threading.Thread(target=self._go_round, args=(advice,), daemon=True).start()

    def stop(self, why: str = "") -> None:
        """The others need not look for this rank any more: it is done, or it failed, and this is why."""
        self._stopped.set()
        with suppress(RuntimeError):  # the store may be what was lost
            self._store.set(f"end {self._rank}", why)

    def lost(self) -> str | None:
        """Which rank, and what is known of it."""
        try:
            with self._looking:
                return next(filter(None, map(self._look, self._others)), None)
        except RuntimeError:
            return self._who_had_the_store()

    def _who_had_the_store(self) -> str:
        """A rank that is gone, or about to be: its connections end before it does."""
        until = time.monotonic() + ASKED
        while time.monotonic() < until:
            for other, home in self._homes.items():
                if _is_gone(home):
                    return _gone(other, home)
            time.sleep(0.05)
        return "the process that brought the ranks together cannot be reached any more"

    def soon_lost(self) -> str | None:
        """The same, where it may take a moment to be known."""
        until = time.monotonic() + ASKED
        while time.monotonic() < until:
            if (found := self.lost()) is not None:
                return found
            time.sleep(0.05)
        return None

    def diagnosis(self, error: BaseException) -> str:
        """What is lost when an operation of all ranks has failed so."""
        if (found := self.soon_lost()) is not None:
            return found
        said = " ".join(str(error).split())[:200]
        return f"the other ranks cannot be reached any more ({said})"

    def _go_round(self, advice: Callable[[], str]) -> None:
        beat = 0
        with suppress(RuntimeError):  # before the store can be what is lost
            self._store.wait([f"home {other}" for other in self._others])
            for other in self._others:
                self._home(other)
        while not self._stopped.wait(BEAT):
            beat += 1
            with suppress(RuntimeError):
                self._store.set(f"beat {self._rank}", str(beat))
            if (found := self.lost()) is not None and not self._stopped.wait(GRACE):
                sys.stderr.write(f"error: {advised(found, advice)}\n")
                sys.stderr.flush()
                os._exit(1)

    def _look(self, other: int) -> str | None:
        home = machine, process = self._home(other)
        gone = _is_gone(home)
        if self._store.check([f"end {other}"]):  # asked after that, for it may have ended in between
            why = self._store.get(f"end {other}").decode()
            return f"rank {other}{_FAILED}{why}" if why else None
        if gone:
            return _gone(other, home)
        if machine == _machine():
            return None
        beat = self._store.get(f"beat {other}") if self._store.check([f"beat {other}"]) else b""
        now = time.monotonic()
        last, since = self._beats.get(other, (None, now))
        self._beats[other] = (beat, since if beat == last else now)
        if now - self._beats[other][1] < self._silent:
            return None
        name = machine.split()[0] if machine else "a machine that never said its name"
        return f"rank {other} (process {process} of {name}) has not been heard of for {self._silent:.0f} s"

    def _home(self, other: int) -> tuple[str, int]:
        """Its machine and process."""
        if other not in self._homes:
            if not self._store.check([f"home {other}"]):
                return "", 0
            machine, process = json.loads(self._store.get(f"home {other}"))
            self._homes[other] = machine, process
        return self._homes[other]


def advised(found: str, advice: Callable[[], str]) -> str:
    """What was found, with what to do; a rank that failed has said that itself."""
    return found if _FAILED in found else f"{found}; {advice()}"


def _gone(rank: int, home: tuple[str, int]) -> str:
    return f"rank {rank} is gone: process {home[1]} was killed, or crashed"


def _is_gone(home: tuple[str, int]) -> bool:
    return home[0] == _machine() and not _lives(home[1])


def _machine() -> str:
    """Where numbers of processes mean the same."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116
    return socket.gethostname()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError, IndexError):  # killed, and its parent has not looked yet
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return True
