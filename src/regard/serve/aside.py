"""Work beside the loop that serves all callers: a thread for what is small, and another for what is large.

Callers take turns in each, one thing at a time, however much one of them has there. A large file of one may
take seconds: what is small does not wait for it, and what others have that is large waits for no second one.
"""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.serve.line import SHARE, BusyError, in_time

T = TypeVar("T")
LARGE = 5000
"""Characters that take milliseconds."""
HEAVY = 20_000
"""Characters that can take a tenth of a second, and from which on it may be many seconds."""


async def aside(size: int, call: Callable[[], T], deadline: float) -> T:
    """What takes long, for its size in characters, is done beside the loop, and waited for until then."""
    return await in_time(asyncio.to_thread(call), deadline) if size > LARGE else call()


@dataclass(slots=True, eq=False)
class _Task:
    call: Callable[[], Any]
    deadline: float
    answer: "Future[Any]" = field(default_factory=Future)

    def run(self) -> None:
        """Not what is too late, or what nobody waits for any more."""
        if time.monotonic() > self.deadline or not self.answer.set_running_or_notify_cancel():
            return
        try:
            self.answer.set_result(self.call())
        except BaseException as error:
            self.answer.set_exception(error)


class Turns:
    """A thread that does one thing after the other. Callers take turns; each one's own things are done in the
    order in which they came. No more wait than of requests for a model, and the last of the room is kept for
    callers who have few."""

    def __init__(self, name: str, most: int) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._most, self._count = most, 0
        self._callers: OrderedDict[str, deque[_Task]] = OrderedDict()
        self._free = threading.Lock()

    async def do(self, call: Callable[[], T], caller: str, deadline: float) -> T:
        task = self._put(_Task(call, deadline), caller)
        try:
            found: T = await in_time(asyncio.wrap_future(task.answer), deadline)
            return found
        finally:
            self._leave(task, caller)

    def _put(self, task: _Task, caller: str) -> _Task:
        with self._free:
            own = len(self._callers.get(caller, ()))
            room = 1.0 if own < self._most * (1 - SHARE) / 2 else SHARE
            if self._count >= self._most * room:
                raise BusyError(1)
            self._callers.setdefault(caller, deque()).append(task)
            self._count += 1
        self._thread.submit(self._next)
        return task

    def _next(self) -> None:
        with self._free:
            if not self._callers:  # who waited has left
                return
            caller, own = next(iter(self._callers.items()))
            task = own[0]
            self._callers.move_to_end(caller)
            self._remove(task, caller)
        task.run()

    def _leave(self, task: _Task, caller: str) -> None:
        with self._free:
            if task in self._callers.get(caller, ()):
                self._remove(task, caller)

    def _remove(self, task: _Task, caller: str) -> None:
        own = self._callers[caller]
        own.remove(task)
        self._count -= 1
        if not own:
            del self._callers[caller]

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


class Aside:
    """Of a service: what is small never waits for what is large."""

    def __init__(self, most: int) -> None:
        self._small, self._large = (Turns(f"regard-{each}", most) for each in ("aside", "large"))

    async def do(self, size: float, call: Callable[[], T], caller: str, deadline: float) -> T:
        """In the caller's turn, whatever its `size` in characters; waited for until the deadline."""
        turns = self._small if size <= HEAVY else self._large
        return await turns.do(call, caller, deadline)

    def close(self) -> None:
        self._small.close()
        self._large.close()
