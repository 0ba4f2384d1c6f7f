"""Several streams as one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")


async def merged(streams: Sequence[AsyncIterator[T]]) -> AsyncGenerator[tuple[int, T]]:
    """What they give, as it comes, each with the number of its stream. What goes wrong in one ends all; so
    does whoever reads no further."""
    queue = asyncio.Queue[tuple[int, T] | Exception | None]()

    async def follow(number: int, stream: AsyncIterator[T]) -> None:
        try:
            async for each in stream:
                queue.put_nowait((number, each))
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(follow(number, stream)) for number, stream in enumerate(streams)]
    try:
        left = len(tasks)
        while left:
            found = await queue.get()
            if isinstance(found, Exception):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
