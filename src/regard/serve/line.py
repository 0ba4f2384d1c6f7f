"""Where requests wait for a model: bounded, and fair to callers.

Callers take turns, one request each, however many one of them has in the line; and the last of the room is
kept for those who have few. A large request is taken in parts: between two of them it waits again, so that it
holds up neither other callers nor its own caller's others.

Who would wait past the deadline is not let in. How quick the model is shows while some are waiting all the
time, from what its lane says that it has done. Before that has gone on for a second nobody is refused for it,
so that no burst is; but of those, fewer may wait, unless the model has been seen to be quick before.
"""

import asyncio
import itertools
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.nn.memory import give_freed_memory_back

Answer = TypeVar("Answer")
SHARE = 7 / 8
"""Of the room, for callers who have much of it."""
SURE = 0.5
"""Of the time until a deadline that may be planned for: a machine has other things to do, too."""
SURE_OF_ALL = 0.75
"""The same for those whose turn comes before that of others."""
KNOWN = 1.0
"""Seconds of waiting after which it is known how quick a model is."""
UNKNOWN = 1 / 8
"""Of the room, before that; twice as much for a caller's first."""
HALF = 5.0
"""Seconds after which what was measured counts half: machines become slower, and quicker."""
GUESSED = 0.95
"""How much what was learned of the cost of requests counts, after one more."""
PARTS = 4
"""Of a batch, that one request has at the most where others wait too."""
QUIET = 0.25
"""Seconds without requests, after which what a burst took goes back to the system."""


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
    size: int = 1
    """Texts or sentences of it that wait, about."""
    began: float = field(default_factory=time.monotonic)
    state: Any = None
    """What the lane keeps of one that it has taken before."""
    begun: bool = False
    """A text is being written: at the deadline there is something to give."""
    waiting: int = field(init=False)
    """Tokens of it that wait."""
    granted: int = field(init=False, default=0)
    """Tokens of it that the lane may do now."""
    spent: int = field(init=False, default=0)
    """Tokens that it has taken to be done, where the lane knows better than `cost` was guessed."""
    left: bool = field(init=False, default=False)
    """It is no longer in the line, nor at work."""

    def __post_init__(self) -> None:
        self.waiting = self.cost

    @property
    def dropped(self) -> bool:
        """Nobody waits for it any more."""
        return self.answer.cancelled() or self.answer.done()

    def give(self, answer: Any) -> None:
        with suppress(InvalidStateError):  # it may be given up at any moment
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.answer.set_exception(error)


class Line:
    def __init__(self, waiting: int, tokens: int, pace: float = 0.0) -> None:
        """`waiting` requests at the most; `tokens` of them and of what is being worked on. The model is known
        for a `pace` of so many a second, if it is."""
        self._most, self._most_tokens = waiting, tokens
        self._callers: OrderedDict[str, deque[Work]] = OrderedDict()
        self._count = self._tokens = 0
        self._begun = 0  # tokens being worked on
        self._free = threading.Condition()
        self._closed = False
        self._since: float | None = None  # when some began to wait, and have all the time since
        self._seen: float | None = None  # up to when it was measured since then:
        self._done = self._seconds = 0.0  # tokens, and the time that they took; older ones count less
        self._guessed = self._spent = 1.0  # tokens of what is done: guessed, and in truth
        self._before = pace  # tokens a second, when some were waiting the last time

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Texts or sentences that wait, about."""
        with self._free:
            return sum(work.size for own in self._callers.values() for work in own)

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
            if not alone and self._no_room(work):
                pace = self._pace()
                raise BusyError(min(30, max(1, round(self._tokens / pace))) if pace else 1)
            self._tokens += work.cost
            self._append(work)

    def give_back(self, work: Work, tokens: int, size: int) -> None:
        """A part of it waits again, behind the caller's others; so many `tokens`, about, and `size`."""
        with self._free:
            if not work.left:
                work.size = size
                self._set_waiting(work, min(max(tokens, 1), work.cost))
                self._append(work)

    def _append(self, work: Work) -> None:
        if self._since is None:
            self._since, self._seen = time.monotonic(), None
            self._done = self._seconds = 0.0
        self._callers.setdefault(work.caller, deque()).append(work)
        self._count += 1
        self._free.notify()

    def _set_waiting(self, work: Work, tokens: int) -> None:
        self._begun += work.waiting - tokens
        work.waiting = tokens

    def _no_room(self, work: Work) -> bool:
        own = len(self._callers.get(work.caller, ()))
        room = 1.0 if own < self._most * (1 - SHARE) / 2 else SHARE
        return (
            self._count >= self._most * room
            or self._tokens + work.cost > self._most_tokens * room
            or self._too_late(own, work)
        )

    def _too_late(self, own: int, work: Work) -> bool:
        """Whether one that comes now, of a caller who has `own` in the line already, would be, about; or
        others for its sake."""
        known, left = self._pace(), work.deadline - time.monotonic()
        if not known and self._count < self._most * UNKNOWN * (1 if own else 2):
            return False
        pace = known or self._before
        mean = (self._tokens - self._begun) / max(self._count, 1)
        turns = self._begun + (own + 1) * (len(self._callers) + 1) * mean
        whole = self._tokens + work.cost
        return min(whole, turns + work.cost) > SURE * left * pace or whole > SURE_OF_ALL * left * pace

    def _pace(self) -> float:
        """Tokens a second; 0 while that is not known."""
        now = time.monotonic()
        if self._since is None or now - self._since < KNOWN:
            return 0.0
        if self._seen is None or self._seconds < KNOWN / 2:  # as if all that has begun were done
            return max(self._done + self._begun, 1.0) / (now - self._since)
        most = (self._done + self._begun) / (self._seconds + now - self._seen)
        return max(min(self._measured, most), 1e-9)

    @property
    def _measured(self) -> float:
        """Tokens a second, as requests are guessed to have."""
        return self._done / self._seconds * self._guessed / self._spent

    def progressed(self, tokens: int) -> None:
        """So many tokens were done since the last time, by one of the lane's threads."""
        with self._free:
            if self._since is None:
                return
            now = time.monotonic()
            if self._seen is not None:
                faded = 0.5 ** ((now - self._seen) / HALF)
                self._seconds = self._seconds * faded + now - self._seen
                self._done = self._done * faded + tokens
            self._seen = now

    def take(
        self,
        budget: int,
        *,
        wait: bool = True,
        fresh: bool = False,
        most: float = math.inf,
        without: Collection[str] = (),
    ) -> list[Work]:
        """What is waiting, of one kind, within a budget of tokens: one at least, unless nothing is there. Of
        each, `granted` tokens may be done; the rest is given back. With `fresh`, only what was not taken
        before; with `most`, so many texts, or one request; nothing of callers that it is to be `without`.
        With `wait`, sleeps until there is something; then nothing means that the line is closed. Who sleeps
        for a while gives the memory back that is free."""
        rested = False
        while True:
            with self._free:
                found = self._gather(budget, fresh, most, without)
                if found or not wait or self._closed:
                    return found
                called = self._free.wait(None if rested else QUIET)
            if not called:
                give_freed_memory_back()
                rested = True

    def _gather(self, budget: int, fresh: bool, most: float, without: Collection[str]) -> list[Work]:
        found: list[Work] = []
        share = budget if self._count == 1 else budget // PARTS
        for work in self._in_turn(fresh=fresh):
            if work.caller in without:
                continue
            late = time.monotonic() > work.deadline
            price = min(work.waiting, share)
            fits = work.kind == found[0].kind and price <= budget and work.size <= most if found else True
            if not (work.dropped or late or fits):
                continue
            self._remove(work)
            if work.dropped or late:
                self._count_out(work)
                work.fail(LateError("the request waited too long"))
                continue
            found.append(work)
            budget, most = budget - price, most - work.size
            work.granted = price
            self._set_waiting(work, 0)
            if work.caller in self._callers:
                self._callers.move_to_end(work.caller)
        return found

    def _in_turn(self, *, fresh: bool) -> list[Work]:
        """One of each caller, then the second of each; but first those that have waited for long: others may
        have come before them time and again. With `fresh`, only what was not taken before."""
        now = time.monotonic()
        rounds = itertools.zip_longest(*self._callers.values())
        order = [work for each in rounds for work in each if work is not None]
        order = [work for work in order if not (fresh and work.state is not None)]
        return sorted(order, key=lambda work: now - work.began < SURE * (work.deadline - work.began))

    def _remove(self, work: Work) -> None:
        own = self._callers[work.caller]
        own.remove(work)
        self._count -= 1
        if not own:
            del self._callers[work.caller]
        if not self._count:  # nobody waits
            if self._seconds >= KNOWN / 2:
                self._before = self._measured
            self._since = None

    def _count_out(self, work: Work) -> None:
        if not work.left:
            work.left = True
            self._tokens -= work.cost
            self._begun -= work.cost - work.waiting

    def done(self, works: list[Work]) -> None:
        """They have left the model."""
        with self._free:
            for work in works:
                if work.spent and not work.left and not work.answer.cancelled():
                    self._guessed = GUESSED * self._guessed + work.cost
                    self._spent = GUESSED * self._spent + work.spent
                self._count_out(work)

    def leave(self, work: Work) -> None:
        """Nobody waits for it any more."""
        if not work.answer.cancel():  # it has its answer, and has long left
            return
        with self._free:
            if work in self._callers.get(work.caller, ()):
                self._remove(work)
                self._count_out(work)

    def close(self) -> None:
        """No more come in; those that are here are still taken."""
        with self._free:
            self._closed = True
            self._free.notify_all()


async def in_time(answer: Awaitable[Answer], deadline: float) -> Answer:
    """A LateError where it is not there by then."""
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await answer
    except TimeoutError:
        raise LateError("not answered in time") from None
