"""A connection, bounded: whoever sends half a request, or does not take the answer, is not waited for.

uvicorn waits for the end of the headers as long as it takes, and takes as many as come. Here headers have a
time and a size, an answer that nobody reads has a time, and what still comes of a body that was refused is
thrown away, for a moment. A caller that hangs up ends the task that works for it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = 65_536
"""Bytes of a request's headers."""
LINGER = 2.0
"""Seconds in which the rest of a refused body may still come: a caller reads the answer when all is sent."""
TASK = "regard.task"
"""Where a request's scope has the task that is to end when the caller hangs up."""


class Connection(HttpToolsProtocol):
    def __init__(self, *given: Any, seconds: float, **named: Any) -> None:
        """`seconds` for headers to come, and for an answer to be taken."""
        super().__init__(*given, **named)
        self._seconds, self._size = seconds, 0
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def _end_in(self, seconds: float, why: str) -> None:
        if why not in self._ends:
            self._ends[why] = self.loop.call_later(seconds, self.transport.abort)

    def _go_on(self, why: str) -> None:
        if (timer := self._ends.pop(why, None)) is not None:
            timer.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end_in(self._seconds, "headers")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
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
