"""`regard serve --look`: the explorer of each model, at /look/NAME/.

A model that is looked into is opened a second time, in float32, when it is first asked about: looking hooks a
model's own modules, and must not see what others have it read. One question is answered at a time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from regard.look.explore import open_explorer
from regard.look.explorer.explorer import Explorer
from regard.look.page import page
from regard.look.server import LARGEST, WAITING
from regard.serve.asking import Ask, Json
from regard.serve.doors import Door, Way
from regard.serve.line import BusyError, LateError, RefusedError
from regard.serve.models import Served, Stamp
from regard.serve.page import page_response
from regard.serve.service import Service

T = TypeVar("T")
AGAIN = 2
"""Seconds after which whoever finds no room may ask again."""


class Explorers:
    def __init__(self, service: Callable[[], Service], device: str = "auto") -> None:
        self._service, self._device = service, device
        self._page = page(None)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard-look")
        self._waiting = 0
        self._opened: dict[str, tuple[Stamp, Explorer]] = {}

    @property
    def door(self) -> Door:
        ways = [Way("POST", "/look/{name}/ask/{question}", self._answer)]
        return Door("look", lambda why, status: {"refused": why}, ways)

    async def show(self, request: Request) -> Response:
        name = request.path_params["name"]
        if any(each.name == name for each in self._service().models):
            return page_response(self._page)
        return PlainTextResponse(f"no model {name!r:.60} is served here", 404)

    async def _answer(self, ask: Ask) -> Response:
        name, question = (ask.request.path_params[key] for key in ("name", "question"))
        served = next((each for each in self._service().models if each.name == name), None)
        if served is None:
            raise RefusedError(f"no model {name!r:.60} is served here", 404)
        if served.adapter is not None:
            raise RefusedError(f"{name} is a base with an adapter: look into the folder of its training", 404)
        size = ask.request.headers.get("content-length", "0")
        if int(size) > LARGEST:
            raise RefusedError(f"a question of {size:.12} bytes: at most {LARGEST:,} are taken", 413)
        if self._waiting >= WAITING:
            raise BusyError(AGAIN)
        self._waiting += 1
        try:
            explorer = await self._run(self._explorer, served)
            seconds = self._service().limits.seconds
            return Json(await asyncio.wait_for(self._run(explorer.ask, question, ask.fields), seconds))
        except TimeoutError:
            raise LateError("the question was not answered in time: ask about a shorter text") from None
        finally:
            self._waiting -= 1

    async def _run(self, work: Callable[..., T], *given: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def _explorer(self, served: Served) -> Explorer:
        """Of the files that are served now: those that have changed since are opened again."""
        stamp, explorer = self._opened.get(served.name, (None, None))
        if explorer is None or stamp != served.stamp:
            explorer = open_explorer(Path(served.folder), self._device, name=served.name)
            self._opened[served.name] = served.stamp, explorer
        return explorer

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
