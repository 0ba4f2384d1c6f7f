"""Work beside the loop that serves all callers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serve.line import BusyError, in_time

T = TypeVar("T")
LARGE = 5000
"""Characters that take milliseconds."""


async def aside(size: int, call: Callable[[], T], deadline: float) -> T:
    """What takes long, for its size in characters, is done beside the loop, and waited for until then."""
    return await in_time(asyncio.to_thread(call), deadline) if size > LARGE else call()


class Aside:
    """A thread, for one thing after the other. No more of it waits than of requests for a model; what is too
    late before it begins is not done."""

    def __init__(self, name: str, most: int) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._most, self._waiting = most, 0

    async def do(self, call: Callable[[], T], deadline: float) -> T:
        if self._waiting >= self._most:
            raise BusyError(1)
        self._waiting += 1
        try:
            return await in_time(asyncio.get_running_loop().run_in_executor(self._thread, call), deadline)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
