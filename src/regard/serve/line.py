"""Where requests wait for a model: bounded, and fair to callers.

Callers take turns, one request each, however many one of them has in the line. What has waited past its
deadline, or was given up, leaves it.
"""

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


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

    def give(self, answer: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Line:
    def __init__(self, waiting: int, tokens: int) -> None:
        self._most, self._most_tokens = waiting, tokens
        self._callers: OrderedDict[str, deque[Work]] = OrderedDict()
        self._count = self._tokens = 0
        self._free = threading.Condition()
        self._pace = 1000.0
        self._closed = False

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
            full = self._count >= self._most or self._tokens + work.cost > self._most_tokens
            if full and not alone:
                raise BusyError(min(30, max(1, round(self._tokens / self._pace))))
            self._callers.setdefault(work.caller, deque()).append(work)
            self._count += 1
            self._tokens += work.cost
            self._free.notify()

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
                self._tokens -= work.cost
                work.fail(LateError("the request waited too long"))
                continue
            found.append(work)
            budget -= work.cost
            passed = 0
        return found

    def done(self, works: list[Work], seconds: float) -> None:
        """They have left the model, after so much time."""
        with self._free:
            tokens = sum(work.cost for work in works)
            self._tokens -= tokens
            if seconds > 0 and tokens:
                self._pace += 0.2 * (tokens / seconds - self._pace)

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
