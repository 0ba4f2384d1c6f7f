"""A connection, bounded: whoever sends half a request, or does not take the answer, is not waited for, and
nobody has all the room that there is.

uvicorn waits for the end of the headers as long as it takes, and takes as many as come. Here headers have a
time and a size, an answer that nobody reads has a time, and what still comes of a body that was refused is
thrown away, for a moment. A caller that hangs up ends the task that works for it.
"""

import asyncio
from collections import Counter
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regard.serve.line import SHARE

HEADERS = 65_536
"""Bytes of a request's headers."""
LINGER = 2.0
"""Seconds in which the rest of a refused body may still come: a caller reads the answer when all is sent."""
TASK = "regard.task"
"""Where a request's scope has the task that is to end when the caller hangs up."""
HEALTH = ("/health", "/ready")
"""Answered also where there is no room."""
BEYOND, OWN = 64, 8
"""Connections for which there is no room, that are told so: in all, and of an address. More are closed."""
BRIEF = 2.0
"""Seconds for the headers of such a one."""


class Room:
    """For so many connections. The last eighth is kept for addresses that have few."""

    def __init__(self, most: int, full: ASGIApp) -> None:
        """With what tells that it is `full`."""
        self._most, self._full = most, full
        self._within: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()

    def enter(self, address: str) -> bool | None:
        """Whether there is room for one more of an address; None where it is not even told that there is
        none."""
        own, whole = self._within[address], self._within.total()
        if whole < self._most * (1.0 if own < self._most * (1 - SHARE) / 2 else SHARE):
            self._within[address] += 1
            return True
        if self._beyond.total() >= BEYOND or self._beyond[address] >= OWN:
            return None
        self._beyond[address] += 1
        return False

    def leave(self, address: str, *, within: bool) -> None:
        held = self._within if within else self._beyond
        held[address] -= 1
        if not held[address]:
            del held[address]

    def beyond(self, app: ASGIApp) -> ASGIApp:
        """The application, as those see it for whom there is no room."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async def closing(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message)["connection"] = "close"
                await send(message)

            await (app if scope["path"] in HEALTH else self._full)(scope, receive, closing)

        return answer


class Connection(HttpToolsProtocol):
    def __init__(self, *given: Any, seconds: float, room: Room, **named: Any) -> None:
        """`seconds` for headers to come, and for an answer to be taken."""
        super().__init__(*given, **named)
        self._seconds, self._size, self._room = seconds, 0, room
        self._entered: bool | None = None
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def _end_in(self, seconds: float, why: str) -> None:
        if why not in self._ends:
            self._ends[why] = self.loop.call_later(seconds, self.transport.abort)

    def _go_on(self, why: str) -> None:
        if (timer := self._ends.pop(why, None)) is not None:
            timer.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._entered = self._room.enter(self._address)
        if self._entered is None:
            transport.abort()
            return
        if not self._entered:
            self.app = self._room.beyond(self.app)
        self._end_in(self._seconds if self._entered else min(BRIEF, self._seconds), "headers")

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._entered is not None:
            self._room.leave(self._address, within=self._entered)
        self._unset_keepalive_if_required()
        for why in [*self._ends]:
            self._go_on(why)
        task: Any = None if self.cycle is None else self.cycle.scope.get(TASK)
        if task is not None:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._size = self._size + len(data) if "headers" in self._ends else 0
        if self._size > HEADERS and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._go_on("rest")
        self._end_in(self._seconds, "headers")

    def on_headers_complete(self) -> None:
        self._go_on("headers")
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body:
            self._end_in(LINGER, "rest")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_in(self._seconds, "answer")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._go_on("answer")
