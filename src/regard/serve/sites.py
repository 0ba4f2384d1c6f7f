"""Which names a service goes by, and which sites' pages may have a visitor's browser ask it.

A page of another site can send a form, or JSON that it calls text, without asking whether it may; it only
cannot read the answer. Browsers say where such a request comes from: Sec-Fetch-Site, where they do (HTTPS,
and this machine), else Origin. Other clients say neither, and are not asked for it.
"""

import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.config import ConfigError
from regard.serve.asking import Json, Shape
from regard.serve.doors import Door

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine."""
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_NAME = re.compile(r"(?:\*\.)?(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+\.?|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/?#@:\[\]\s]+|\[[0-9a-fA-F:.]+\])(?::\d+)?|null|\*")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:/@\s]+)(?::\d*)?")


def own_names(host: str, names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The names that a service goes by, any if there are none. One for this machine alone that takes no key
    is asked by its own: a site that has a name of its own point here could else have a visitor's browser
    ask."""
    for name in names:
        if name != "*" and not _NAME.fullmatch(name):
            raise ConfigError(
                f"--allow-host {name}: give a name alone, as desk.example, or *.desk.example for all "
                "below it, without scheme, port or path"
            )
    if keys or "*" in names or (not names and host not in LOOPBACK):
        return []
    return [*LOOPBACK, *(name.strip("[]").rstrip(".").lower() for name in names)]


def check_origins(origins: Sequence[str]) -> None:
    for each in origins:
        if not _ORIGIN.fullmatch(each):
            raise ConfigError(
                f"--origin {each}: give a site as browsers do, https://site.example or "
                "http://site.example:8080, without a path or a slash at the end"
            )


def shaped(doors: Sequence[Door]) -> Callable[[str], Shape]:
    """What an error looks like at a path: that of its door, or of the one that is nearest."""
    known = [(compile_path(way.path)[0], door.shape) for door in doors for way in door.ways]
    near = [(door.below, door.shape) for door in doors if door.below]

    def shape(path: str) -> Shape:
        own = next((each for pattern, each in known if pattern.match(path)), None)
        return own or next((each for below, each in near if path.startswith(below)), doors[0].shape)

    return shape


def full(doors: Sequence[Door]) -> ASGIApp:
    """What answers those for whose connection there is no room."""
    shape = shaped(doors)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        told = shape(scope["path"])("too many connections are open: try again in 1 s", 503)
        await Json(told, 503, headers={"Retry-After": "1"})(scope, receive, send)

    return answer


class Sites:
    """Around an application: whoever asks for another name, or for a page of another site, is told so."""

    def __init__(
        self,
        app: ASGIApp,
        names: Sequence[str],
        origins: Sequence[str],
        shape: Callable[[str], Shape],
    ) -> None:
        """`names` are those that it goes by, any if there are none."""
        self.app, self._names, self._origins, self._shape = app, names, origins, shape
        self._given = [each for each in names if each not in LOOPBACK]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = self._refused(scope) if scope["type"] == "http" else None
        if told is None:
            await self.app(scope, receive, send)
            return
        why, status = told
        answer = Json(self._shape(scope["path"])(why, status), status_code=status)
        await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[str, int] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._names and not _one_of(_name(host), self._names):
            return f"this service does not go by the name {host!r:.80}: start it with --allow-host NAME", 400
        origin = headers.get("origin", "")
        if scope["method"] in CHANGING and not self._may(headers.get("sec-fetch-site", ""), origin, host):
            return (
                f"no page of another site may ask ({origin!r:.80}): start the service with --origin SITE",
                403,
            )
        return None

    def _may(self, site: str, origin: str, host: str) -> bool:
        if site in ("same-origin", "none") or origin in self._origins or "*" in self._origins:
            return True
        if not origin:
            return site not in ("cross-site", "same-site")
        there = urlsplit(origin).netloc.lower()
        return there == host.lower() or _one_of(_name(there), self._given)


def _name(host: str) -> str:
    """Without its port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found["name"].strip("[]").rstrip(".").lower()


def _one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(name == each or (each.startswith("*.") and name.endswith(each[1:])) for each in patterns)
