"""Where requests wait for a model: bounded, and fair to callers.

Callers take turns, one request each, however many one of them has in the line; and the last of the room is
kept for those who have few. Who would wait past the deadline is not let in; how quick the model is counts as
known only when some have been waiting all the time for a few seconds, so that no burst is refused for it.
Where some took more than half of their time all the same, as on a machine that has become slower, less is let
in, and then a little more with each answer: else all that is let in would be late, time and again.
"""

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

SHARE = 7 / 8
"""Of the room, for callers who have much of it."""
SURE = 0.5
"""Of the time until a deadline that may be planned for: a machine has other things to do, too."""
KNOWN = 5.0
"""Seconds of waiting after which it is known how quick a model is."""
GROWTH = 0.1
"""Of a request that was answered in good time: by so much more is let in,"""
CUT, CUT_LATE = 0.7, 0.4
"""and by this factor less where one was not; and where it was not answered at all."""
FORGOTTEN = 60.0
"""Seconds without any request after which all is as in the beginning."""


class RefusedError(Exception):
    """A request that cannot be served; the message says what would be."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


class BusyError(Exception):
    """The line is full: come back after so many seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many requests are waiting: try again in {seconds} s")
        self.seconds = seconds


class LateError(Exception):
    """A request was not answered in time."""


class ClosedError(Exception):
    """The service takes no more requests: it is about to end."""


@dataclass(slots=True, eq=False)
class Work:
    """A request, as the threads of a model see it."""

    asked: Any
    """What the lane is to do."""
    kind: Hashable
    """Works of one kind can be done in one batch."""
    cost: int
    """Tokens, about."""
    caller: str
    deadline: float
    """On the clock of `time.monotonic`."""
    answer: "Future[Any]" = field(default_factory=Future)
    tell: Callable[[Any], None] | None = None
    """Takes what is there before the end: the tokens of a text that is being written."""
    began: float = field(default_factory=time.monotonic)

    @property
    def dropped(self) -> bool:
        """Nobody waits for it any more."""
        return self.answer.cancelled() or self.answer.done()

    @property
    def answered(self) -> bool:
        return self.answer.done() and not self.answer.cancelled() and self.answer.exception() is None

    def give(self, answer: Any) -> None:
        with suppress(InvalidStateError):  # it may be given up at any moment
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.answer.set_exception(error)


class Line:
    def __init__(self, waiting: int, tokens: int) -> None:
        self._most, self._most_tokens = waiting, tokens
        self._callers: OrderedDict[str, deque[Work]] = OrderedDict()
        self._count = self._tokens = 0
        self._free = threading.Condition()
        self._since: float | None = None  # when some began to wait, and have all the time since
        self._done = 0  # tokens done since then
        self._begun = 0  # tokens being worked on
        self._closed = False
        self._let_in: float = tokens  # at most, by what was in time of late
        self._cut = self._last = 0.0  # when it was cut; when the last request came or left

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> int:
        """Waiting, and being worked on."""
        return self._tokens

    def put(self, work: Work) -> None:
        """At the end of the caller's own; a BusyError where there is no room."""
        with self._free:
            if self._closed:
                raise ClosedError("this service is ending")
            alone = self._count == 0 and self._tokens == 0  # a large one is let in where it disturbs nobody
            if alone and time.monotonic() - self._last > FORGOTTEN:
                self._let_in = self._most_tokens
            self._last = time.monotonic()
            if not alone and self._no_room(work):
                pace = self._pace()
                raise BusyError(min(30, max(1, round(self._tokens / pace))) if pace else 1)
            if self._since is None:
                self._since, self._done = time.monotonic(), 0
            self._callers.setdefault(work.caller, deque()).append(work)
            self._count += 1
            self._tokens += work.cost
            self._free.notify()

    def _no_room(self, work: Work) -> bool:
        own = len(self._callers.get(work.caller, ()))
        room = 1.0 if own < self._most * (1 - SHARE) / 2 else SHARE
        return (
            self._count >= self._most * room
            or self._tokens + work.cost > min(self._most_tokens * room, self._let_in)
            or time.monotonic() + self._wait(own, work.cost) / SURE > work.deadline
        )

    def _wait(self, own: int, cost: int) -> float:
        """Seconds until one that comes now is done, about, of a caller who has `own` in the line already; 0
        while nothing is known."""
        pace = self._pace()
        mean = (self._tokens - self._begun) / max(self._count, 1)
        turns = self._begun + (own + 1) * (len(self._callers) + 1) * mean
        return (min(self._tokens, turns) + cost) / pace if pace else 0.0

    def _pace(self) -> float:
        """Tokens a second; 0 while that is not known."""
        waited = 0.0 if self._since is None else time.monotonic() - self._since
        return max(self._done, 1) / waited if waited > KNOWN else 0.0

    def take(self, budget: int, *, wait: bool = True) -> list[Work]:
        """What is waiting, of one kind, within a budget of tokens: one at least, unless nothing is there.
        With `wait`, sleeps until there is something; then nothing means that the line is closed."""
        with self._free:
            while True:
                found = self._gather(budget)
                if found or not wait or self._closed:
                    return found
                self._free.wait()

    def _gather(self, budget: int) -> list[Work]:
        found: list[Work] = []
        passed = 0  # callers in a row of whom nothing was taken
        while self._callers and passed < len(self._callers):
            caller, own = next(iter(self._callers.items()))
            work = own[0]
            late = time.monotonic() > work.deadline
            fits = not found or (work.kind == found[0].kind and work.cost <= budget)
            self._callers.move_to_end(caller)
            if not (work.dropped or late or fits):
                passed += 1
                continue
            own.popleft()
            self._count -= 1
            if not own:
                del self._callers[caller]
            if work.dropped or late:
                if not work.dropped:
                    self._was_late(work)
                self._tokens -= work.cost
                work.fail(LateError("the request waited too long"))
                continue
            found.append(work)
            budget -= work.cost
            self._begun += work.cost
            passed = 0
        if not self._count:
            self._since = None  # nobody waits
        return found

    def done(self, works: list[Work]) -> None:
        """They have left the model."""
        with self._free:
            self._last = now = time.monotonic()
            for work in works:
                soon = now - work.began < SURE * (work.deadline - work.began)
                if work.answered:
                    self._done += work.cost
                if work.answered and soon:
                    self._let_in = min(self._let_in + GROWTH * work.cost, self._most_tokens)
                elif not soon and not work.answer.cancelled():
                    self._was_late(work)
            tokens = sum(work.cost for work in works)
            self._tokens -= tokens
            self._begun -= tokens

    def _was_late(self, work: Work) -> None:
        """Of all that were let in before the last cut, only the first has counted."""
        if work.began >= self._cut:
            factor = CUT if work.answered else CUT_LATE
            self._let_in, self._cut = factor * min(self._tokens, self._let_in), time.monotonic()

    def leave(self, work: Work) -> None:
        """Nobody waits for it any more."""
        if not work.answer.cancel():  # it has its answer, and has long left
            return
        with self._free:
            if time.monotonic() - work.began > SURE * (work.deadline - work.began):  # its time was up
                self._was_late(work)
            own = self._callers.get(work.caller, deque())
            if work in own:
                own.remove(work)
                self._count -= 1
                self._tokens -= work.cost
                if not own:
                    del self._callers[work.caller]

    def close(self) -> None:
        """No more come in; those that are here are still taken."""
        with self._free:
            self._closed = True
            self._free.notify_all()

    def clear(self, error: BaseException) -> None:
        """Those that wait are told so."""
        with self._free:
            for work in itertools.chain.from_iterable(self._callers.values()):
                self._tokens -= work.cost
                work.fail(error)
            self._callers.clear()
            self._count = 0
