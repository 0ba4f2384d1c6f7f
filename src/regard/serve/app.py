"""The application: all doors, health, metrics, and the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from regard.serve.asking import Ask, Handler, Json, endpoint
from regard.serve.doors import Door
from regard.serve.doors.deepl import DEEPL
from regard.serve.doors.libretranslate import LIBRETRANSLATE
from regard.serve.doors.openai import OPENAI
from regard.serve.doors.own import OWN
from regard.serve.doors.tei import TEI
from regard.serve.looking import Explorers
from regard.serve.openapi import describe
from regard.serve.page import page, page_response
from regard.serve.service import Service
from regard.serve.sites import Sites, shaped

NO_KEYS: Mapping[str, str | None] = {}
KEYS_IN_BODIES = frozenset({"libretranslate", "deepl"})
"""Doors whose clients may put a key into the body; those of others put it into a header."""
DOORS: tuple[Door, ...] = (OWN, OPENAI, TEI, LIBRETRANSLATE, DEEPL)


def build_app(
    service: Callable[[], Service],
    *,
    keys: Callable[[], Mapping[str, str | None]] = lambda: NO_KEYS,
    origins: Sequence[str] = (),
    hosts: Sequence[str] = (),
    explorers: Explorers | None = None,
) -> Starlette:
    """`keys` gives those that may ask, anyone if there are none, each with the model that is its own, if it
    has one; `origins` the sites whose pages may; `hosts` the names that the service goes by, any if there are
    none. With `explorers`, models can be looked into."""
    doors = DOORS if explorers is None else (*DOORS, explorers.door)
    paths = {way.path for door in doors for way in door.ways}
    own_page = page_response(page(look=explorers is not None, documents="/translate_file" in paths))

    async def start(request: Request) -> Response:
        return own_page

    async def health(request: Request) -> Response:
        return Json({"status": "ok"})

    async def ready(request: Request) -> Response:
        is_ready = service().ready
        return Json({"status": "ready" if is_ready else "ending"}, status_code=200 if is_ready else 503)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(service().metrics.page(), media_type="text/plain; version=0.0.4")

    async def openapi(request: Request) -> Response:
        return Json(describe(doors))

    routes = [
        Route(
            way.path,
            endpoint(
                door.name,
                way.path,
                door.shape,
                _held(way.handler),
                service,
                keys,
                public=way.public,
                stranger=door.stranger,
                key_in_body=door.name in KEYS_IN_BODIES,
            ),
            methods=[way.method],
        )
        for door in doors
        for way in door.ways
    ]
    routes += [
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
        Route("/", start),
    ]
    if explorers is not None:
        routes.append(Route("/look/{name}/", explorers.show))
    shape = shaped(doors)

    async def refuse(request: Request, error: Exception) -> Response:
        """No such path, or not by this method."""
        if not isinstance(error, HTTPException):
            raise error
        path, status = request.url.path, error.status_code
        why = f"{request.method} {path:.80} is not served here: /openapi.json has what is"
        return Json(shape(path)(why, status), status_code=status, headers=error.headers)

    around = [Middleware(Sites, names=hosts, origins=origins, shape=shape)]
    if origins:
        allowed: Any = {"allow_origins": [*origins], "allow_methods": ["*"], "allow_headers": ["*"]}
        around.append(Middleware(CORSMiddleware, **allowed))
    return Starlette(routes=routes, middleware=around, exception_handlers={HTTPException: refuse})


def _held(handler: Handler) -> Handler:
    """An accepted request is answered, whatever happens to the service meanwhile."""

    async def handle(ask: Ask) -> Response:
        with ask.service.held():
            return await handler(ask)

    return handle
