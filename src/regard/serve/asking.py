"""A request as a door sees it: its body, read within limits, its fields, checked, and who asks."""

import asyncio
import codecs
import hmac
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from regard.serve import aside
from regard.serve.bodies import Bodies
from regard.serve.connection import TASK
from regard.serve.languages import sources_of
from regard.serve.line import BusyError, ClosedError, LateError, RefusedError
from regard.serve.models import Served
from regard.serve.service import Service

LOG = logging.getLogger("regard.serve")
Kept = TypeVar("Kept")
T = TypeVar("T")
FIELDS = 1000
"""Of a form."""


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


class Events(StreamingResponse):
    """An answer that comes in parts."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        super().__init__(parts, media_type="text/event-stream")


class Ask:
    """One request."""

    def __init__(
        self,
        request: Request,
        service: Service,
        keys: Mapping[str, str | None],
        *,
        public: bool = False,
        key_in_body: bool = False,
    ) -> None:
        """`keys` are those that may ask, anyone if there are none, or if it is `public`; some have a model of
        their own. They come in headers, in the address or, at some doors, in a field of the body."""
        self.request, self.service, self._keys, self._public = request, service, keys, public
        self._key_in_body = key_in_body
        self._held: Counter[str] = Counter()
        self.fields: Mapping[str, Any] = {}
        self._size = 0
        self._own: str | None = None
        self._form: FormData | None = None
        self.caller = "" if request.client is None else request.client.host
        self.deadline = time.monotonic() + service.limits.seconds
        """On the clock of `time.monotonic`; what a body takes to come has a time of its own."""

    async def read(self) -> None:
        """The fields of the body, JSON or a form, and of the address; who asks is checked before the body is
        read, unless the key may stand there."""
        self.fields = dict(self.request.query_params)
        in_body = self._key_in_body and not self._given_key()
        if not in_body:
            self._check_key()
        sent = self.request.method not in ("GET", "HEAD", "DELETE")
        if sent or self.request.headers.get("content-length", "0") != "0":
            try:
                async with asyncio.timeout(self.service.limits.sending):
                    self.fields = {**self.fields, **await self._body()}
            except TimeoutError:
                raise RefusedError("the body did not come in time", 408) from None
            self.deadline = time.monotonic() + self.service.limits.seconds
        if in_body:
            self._check_key()

    async def _body(self) -> Mapping[str, Any]:
        kind = self.request.headers.get("content-type", "")
        told = self.request.headers.get("content-length")
        self._check_size(told)
        if told is not None:
            self._bodies.check(self.caller, int(told), self._room)
        request = Request(self.request.scope, self._receive)
        if kind.startswith("multipart/form-data"):
            _check_charset(kind)
            self._form = await request.form(max_files=1, max_fields=FIELDS)
            return _gathered(self._form.multi_items())
        body = b"".join([part async for part in request.stream()])
        if kind.startswith("application/x-www-form-urlencoded"):
            try:
                pairs = parse_qsl(
                    body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
                )
            except ValueError as error:
                raise RefusedError(f"the form cannot be read: {error}") from error
            return _gathered(pairs)
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RefusedError(f"the body is no JSON: {error}") from error
        if not isinstance(fields, dict):
            raise RefusedError("the body is no JSON object")
        return fields

    async def close(self) -> None:
        """Files of a form are open until then, and what was read counts."""
        for caller, size in self._held.items():
            self._bodies.give_back(caller, size)
        self._held.clear()
        if self._form is not None:
            await self._form.close()

    async def _receive(self) -> Message:
        """A body's next part; its size is counted as it comes, whatever its headers say."""
        message = await self.request.receive()
        size = len(message.get("body", b""))
        self._size += size
        self._check_size(self._size)
        self._bodies.take(self.caller, size, self._room)
        self._held[self.caller] += size
        return message

    @property
    def _bodies(self) -> Bodies:
        return self.kept(Bodies)

    @property
    def _room(self) -> float:
        return self.service.limits.bodies * self.service.limits.body

    def _check_size(self, size: int | str | None) -> None:
        most = self.service.limits.body
        if size is not None and (not str(size).isdigit() or len(str(size)) > 15 or int(size) > most):
            why = f"a body of {size!s:.20} bytes: at most {most:,} are taken; send less, or raise --max-body"
            raise RefusedError(why, 413)

    def _given_key(self) -> str:
        header = self.request.headers.get("authorization", "")
        given = header.partition(" ")[2] if " " in header else header
        given = given or self.request.headers.get("x-api-key", "")
        return given or str(self.fields.get("api_key") or self.fields.get("auth_key") or "")

    def _check_key(self) -> None:
        if not self._keys or self._public:
            return
        given = self._given_key()
        found = [each for each in self._keys if hmac.compare_digest(each.encode(), given.encode())]
        if not found:
            raise RefusedError("no valid key: send it as Authorization: Bearer KEY", 401)
        self.caller = f"key {[*self._keys].index(found[0])}"
        self._own = self._keys[found[0]]

    def translator(self, source: str | None, target: str | None) -> Served:
        """The one that the request names; that of the key, if these are its languages; or the first that
        fits."""
        models, name = self.service.models, self.value("model", str)
        if name:
            return models.translator(name, source, target)
        if self._own is not None:
            own = models.named(self._own, ["translate"])
            if own.joins(source, target):
                return own
        known = source is not None or target is not None
        return models.pair(source, target) if known else models.named(None, ["translate"])

    def sources(self, target: str) -> list[str] | None:
        """From which languages the request can be translated to a target; None for any. An error if there is
        no way."""
        fitting = [self.translator(None, target)]  # tells that there is none, and which there are
        if not self.value("model", str):
            fitting = [each for each in self.service.models.translators() if each.joins(None, target)]
        return sources_of(fitting)

    async def predict(self, served: Served, method: str, *lists: Sequence[Any], **settings: Any) -> list[Any]:
        """A method of a model that reads, on parallel lists, for this caller and within its time."""
        return await self.service.read(
            served, self.caller, method, *lists, deadline=self.deadline, **settings
        )

    async def beside(self, size: float, call: Callable[[], T]) -> T:
        """Beside the loop that serves all callers, in this one's turn and within its time; what is large, in
        characters, waits for what is large alone."""
        return await self.service.aside.do(size, call, self.caller, self.deadline)

    @property
    def keys_needed(self) -> bool:
        return bool(self._keys)

    def kept(self, kind: type[Kept]) -> Kept:
        """What a door remembers from one request to the next: one of this kind in an application."""
        state = self.request.app.state
        if not hasattr(state, kind.__name__):
            setattr(state, kind.__name__, kind())
        found: Kept = getattr(state, kind.__name__)
        return found

    def value(
        self,
        name: str,
        kind: type | tuple[type, ...],
        default: Any = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Any:
        """A field, of this type, of the request or of an object in it; a number or truth value may come as
        text, as forms have it."""
        value = (self.fields if fields is None else fields).get(name)
        if value is None:
            return default
        if isinstance(value, bool) and kind is not bool:
            raise RefusedError(f"{name}={value!r:.40} should be {_named(kind)}")
        if isinstance(value, kind) or (kind is float and isinstance(value, int)):
            return value
        if isinstance(value, str) and kind is bool and value.lower() in ("0", "1", "true", "false"):
            return value.lower() in ("1", "true")
        if isinstance(value, str) and kind in (int, float):
            try:
                return int(value) if kind is int else float(value)
            except ValueError:
                pass
        raise RefusedError(f"{name}={value!r:.40} should be {_named(kind)}")

    def prompt(self, served: Served, name: str = "prompt") -> str | None:
        """Which of a model's prompts is asked for; None for the model's default."""
        value: str | None = self.value(name, str)
        known = served.predictor.prompts
        if value and value not in known:
            raise RefusedError(
                f"{name}={value!r:.40} is no prompt of {served.name}: it has {', '.join(known) or 'none'}"
            )
        return value

    def whole(self, name: str, default: int, most: int, least: int = 1) -> int:
        """A number within bounds."""
        value: int = self.value(name, int, default)
        if not least <= value <= most:
            raise RefusedError(f"{name}={value!s:.20} must be from {least} to {most}")
        return value

    def number(self, name: str, default: Any, least: float, most: float) -> Any:
        """Any number within bounds; a default may be outside."""
        value = self.value(name, float)
        if value is None:
            return default
        if not least <= value <= most:
            raise RefusedError(f"{name}={value!s:.20} must be from {least:g} to {most:g}")
        return value

    def texts(self, name: str, *, needed: bool = True) -> tuple[list[str], bool]:
        """A field that is a text or a list of them, as a list; and whether it was a list."""
        value = self.fields.get(name)
        if value is None and not needed:
            return [], False
        if isinstance(value, str):
            found, several = [value], False
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            found, several = value, True
        else:
            raise RefusedError(f"{name} should be a text, or a list of texts")
        self.check_texts(found)
        return found, several

    def check_texts(self, texts: Sequence[str]) -> None:
        limits = self.service.limits
        if len(texts) > limits.texts:
            most = f"at most {limits.texts} are taken at once"
            raise RefusedError(f"{len(texts)} texts: {most}; send fewer, or raise --max-texts", 413)
        if (size := sum(map(len, texts))) > limits.characters:
            most = f"at most {limits.characters} are taken at once"
            raise RefusedError(f"{size} characters: {most}; send less, or raise --max-characters", 413)

    def upload(self, name: str) -> UploadFile:
        value = self.fields.get(name)
        if not isinstance(value, UploadFile):
            raise RefusedError(f"{name} should be a file")
        return value


async def unless_small(ask: Ask, size: int, call: Callable[[], T]) -> T:
    """Beside the loop, if it takes long for its size; the rest is done at once."""
    return await ask.beside(size, call) if size > aside.LARGE else call()


def _check_charset(kind: str) -> None:
    """Starlette reads a form by the charset that its caller names, whatever may come of it."""
    charset = parse_options_header(kind)[1].get(b"charset", b"utf-8").decode("latin-1")
    try:
        known = codecs.lookup(charset).name
    except LookupError:
        known = ""
    if known != "utf-8":
        raise RefusedError(f"charset={charset!r:.40}: send the form as UTF-8")


def _gathered(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A field that comes several times is a list, and so is one by the name of `q[]`, as PHP and Ruby write
    lists."""
    several: dict[str, list[Any]] = {}
    lists: set[str] = set()
    for key, value in pairs:
        try:
            f"{key}{value if isinstance(value, str) else ''}".encode()
        except UnicodeEncodeError as error:
            raise RefusedError(f"the field {key!r:.40} is no UTF-8: it has half a character") from error
        name = key.removesuffix("[]")
        several.setdefault(name, []).append(value)
        if name != key:
            lists.add(name)
    return {
        name: values if len(values) > 1 or name in lists else values[0] for name, values in several.items()
    }


def _named(kind: type | tuple[type, ...]) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
    return " or ".join(
        names.get(each, "an object") for each in (kind if isinstance(kind, tuple) else (kind,))
    )


Handler = Callable[[Ask], Awaitable[Response]]
Shape = Callable[[str, int], Any]
"""What an error looks like behind a door: shape(why, status)."""


def endpoint(
    door: str,
    path: str,
    shape: Shape,
    handler: Handler,
    service: Callable[[], Service],
    keys: Callable[[], Mapping[str, str | None]],
    *,
    public: bool = False,
    stranger: int = 401,
    key_in_body: bool = False,
) -> Callable[[Request], Awaitable[Response]]:
    """What a route calls: a handler, its errors told in the door's own shape, counted and timed. `path` is
    what the log says: what was asked for may hold someone's text. A `stranger` is told so by this status;
    a key may stand in a body if `key_in_body`."""

    def refusal(why: str, status: int, seconds: int | None = None) -> Response:
        headers = {} if seconds is None else {"Retry-After": str(seconds)}
        return Json(shape(why, status), status_code=status, headers=headers)

    async def answer(request: Request) -> Response:
        try:
            ask = Ask(request, service(), keys(), public=public, key_in_body=key_in_body)
            try:
                await ask.read()
                return await handler(ask)
            finally:
                await ask.close()
        except RefusedError as error:
            return refusal(str(error), stranger if error.status == 401 else error.status)
        except BusyError as error:
            return refusal(str(error), 429, error.seconds)
        except ClosedError as error:
            response = refusal(str(error), 503, 5)
            response.headers["Connection"] = "close"
            return response
        except LateError as error:
            return refusal(str(error), 503, 5)
        except HTTPException as error:
            return refusal(error.detail, error.status_code)
        except LookupError as error:
            return refusal(str(error.args[0] if error.args else error), 400)
        except ValueError as error:
            return refusal(str(error), 400)
        except (ClientDisconnect, asyncio.CancelledError):  # nobody is there to be answered
            return Response(status_code=499)
        except Exception as error:
            LOG.exception("%s failed", path)
            return refusal(f"this is a mistake of the service: {type(error).__name__}", 500)

    async def call(request: Request) -> Response:
        began = time.monotonic()
        request.scope[TASK] = asyncio.current_task()
        response = await answer(request)
        del request.scope[TASK]

        def count(status: int) -> None:
            seconds = time.monotonic() - began
            service().metrics.answered(door, status, seconds)
            about = {"door": door, "path": path, "status": status}
            LOG.info("request", extra={**about, "seconds": round(seconds, 6)})

        if isinstance(response, Events):
            response.body_iterator = _to_its_end(response.body_iterator, shape, count)
        else:
            count(response.status_code)
        return response

    return call


async def _to_its_end(parts: Any, shape: Shape, count: Callable[[int], None]) -> AsyncIterator[bytes]:
    """An answer in parts is counted when it ends. What goes wrong after its beginning can only be told in
    it."""
    status = 499  # unless it comes further, the caller has hung up
    try:
        async for part in parts:
            yield part
        status = 200
    except Exception as error:
        late = 503 if isinstance(error, LateError) else 500
        status = error.status if isinstance(error, RefusedError) else late
        LOG.warning("a stream ended early: %s", type(error).__name__)
        yield b"data: " + orjson.dumps(shape(str(error), status)) + b"\n\n"
    finally:
        count(status)
