"""The application: all doors, health, metrics, and the page."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from regard.serve.asking import Json, endpoint
from regard.serve.doors import Door
from regard.serve.doors.openai import OPENAI
from regard.serve.doors.own import OWN
from regard.serve.doors.tei import TEI
from regard.serve.service import Service

DOORS: tuple[Door, ...] = (OWN, OPENAI, TEI)


def build_app(
    service: Callable[[], Service], *, keys: Sequence[str] = (), origins: Sequence[str] = ()
) -> Starlette:
    """`keys` are those that may ask, anyone if there are none; `origins` the sites whose pages may."""

    async def health(request: Request) -> Response:
        return Json({"status": "ok"})

    async def ready(request: Request) -> Response:
        is_ready = service().ready
        return Json({"status": "ready" if is_ready else "ending"}, status_code=200 if is_ready else 503)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(service().metrics.page(), media_type="text/plain; version=0.0.4")

    routes = [
        Route(way.path, endpoint(door.name, way.path, door.shape, way.handler, service, keys), methods=[way.method])
        for door in DOORS
        for way in door.ways
    ]
    routes += [Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)]
    cors = Middleware(CORSMiddleware, allow_origins=[*origins], allow_methods=["*"], allow_headers=["*"])
    return Starlette(routes=routes, middleware=[cors] if origins else [])
