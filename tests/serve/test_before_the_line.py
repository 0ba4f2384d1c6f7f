"""What happens to a request before it reaches a model: nobody's files, markup or bodies hold up others."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve import aside, detect, documents
from regard.serve import service as services
from regard.serve.app import build_app
from regard.serve.aside import HEAVY, LARGE, Aside, Turns
from regard.serve.bodies import Bodies
from regard.serve.doors import libretranslate
from regard.serve.limits import Limits
from regard.serve.line import BusyError, LateError
from regard.serve.metrics import Metrics
from regard.serve.models import Named
from regard.serve.service import Service
from tests.serve.server import apart
from tests.serve.words import german
from tests.tasks.folders import stored

SOON = 60.0
"""Seconds after which a test is given up."""

# turns


@contextmanager
def turns(most: int = 512) -> Iterator[Turns]:
    made = Turns("test", most)
    yield made
    made.close()


def later(seconds: float = SOON) -> float:
    return time.monotonic() + seconds


async def begun(own: Turns, until: threading.Event, caller: str = "a") -> "asyncio.Task[Any]":
    """Something that takes until then, and has begun."""
    running = threading.Event()
    task = asyncio.create_task(own.do(lambda: (running.set(), until.wait(SOON)), caller, later()))
    while not running.is_set():
        await asyncio.sleep(0.001)
    return task


def test_callers_take_turns_however_much_one_of_them_has_there() -> None:
    done: list[str] = []

    async def ask(own: Turns) -> None:
        end = threading.Event()
        tasks = [await begun(own, end)]
        for caller, names in (("a", [f"a{number}" for number in range(50)]), ("b", ["b"]), ("c", ["c"])):
            calls = [partial(done.append, name) for name in names]
            tasks += [asyncio.create_task(own.do(call, caller, later())) for call in calls]
        await asyncio.sleep(0)
        end.set()
        await asyncio.gather(*tasks)

    with turns() as own:
        apart(ask(own))
    assert done == ["a0", "b", "c", *(f"a{number}" for number in range(1, 50))]


def test_what_is_too_late_or_what_nobody_waits_for_is_not_begun() -> None:
    done: list[str] = []

    async def ask(own: Turns) -> None:
        end = threading.Event()
        first = await begun(own, end)
        late = asyncio.create_task(own.do(lambda: done.append("late"), "a", later(0.02)))
        left = asyncio.create_task(own.do(lambda: done.append("left"), "a", later()))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(LateError):
            await late
        last = asyncio.create_task(own.do(lambda: done.append("last"), "a", later()))
        await asyncio.sleep(0)
        assert own._count == 1
        end.set()
        await asyncio.gather(first, last)

    with turns() as own:
        apart(ask(own))
    assert done == ["last"]


def test_what_goes_wrong_beside_the_loop_is_told_and_the_thread_goes_on() -> None:
    async def ask(own: Turns) -> int:
        with pytest.raises(ZeroDivisionError):
            await own.do(lambda: 1 // 0, "a", later())
        return await own.do(lambda: 1, "a", later())

    with turns() as own:
        assert apart(ask(own)) == 1


def test_the_last_of_the_room_is_kept_for_callers_who_have_little_of_it() -> None:
    async def ask(own: Turns) -> int:
        end = threading.Event()
        tasks = [await begun(own, end)]
        tasks += [asyncio.create_task(own.do(lambda: None, "a", later())) for _ in range(28)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await own.do(lambda: None, "a", later())
        other = asyncio.create_task(own.do(lambda: 1, "b", later()))
        await asyncio.sleep(0)
        end.set()
        await asyncio.gather(*tasks)
        return await other

    with turns(32) as own:
        assert apart(ask(own)) == 1


def test_what_is_small_waits_for_nothing_large() -> None:
    async def ask(own: Aside) -> list[int]:
        end = threading.Event()
        large = await begun(own._large, end)
        found = [await own.do(HEAVY, lambda n=n: n, caller, later()) for n, caller in enumerate("ab")]
        assert not large.done()
        end.set()
        await large
        return [*found, await own.do(HEAVY + 1, lambda: 2, "a", later())]

    own = Aside(512)
    assert apart(ask(own)) == [0, 1, 2]
    own.close()


# files, markup and languages


@pytest.fixture(scope="module")
def service(word_model: Path) -> Iterator[Service]:
    service = Service([Named.of(f"en-de={word_model}")], limits=Limits(seconds=SOON), device="cpu")
    yield service
    service.close()


@pytest.fixture
def callers(service: Service) -> Iterator[tuple[TestClient, TestClient]]:
    """Of one service, at two addresses."""
    app = build_app(lambda: service)
    with TestClient(app, client=("127.0.0.2", 1)) as one, TestClient(app, client=("127.0.0.1", 1)) as other:
        yield one, other


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Keeps what has HELD in it where it is read, until the end."""
    found = SimpleNamespace(begun=threading.Event(), end=threading.Event())
    opened, parse = libretranslate.open_document, documents.parse

    def wait(text: Any) -> None:
        if "HELD" in str(text):
            found.begun.set()
            found.end.wait(SOON)

    def open_slowly(name: str, raw: bytes, **more: Any) -> Any:
        wait(raw)
        return opened(name, raw, **more)

    def parse_slowly(text: str, *given: Any) -> Any:
        wait(text)
        return parse(text, *given)

    monkeypatch.setattr(libretranslate, "open_document", open_slowly)
    monkeypatch.setattr(documents, "parse", parse_slowly)
    return found


def upload(client: TestClient, name: str, raw: bytes) -> Any:
    sent = {"source": "en", "target": "de"}
    return client.post("/translate_file", data=sent, files={"file": (name, raw)})


PO = b'msgid "a dog"\nmsgstr ""\n'
DOG = "a dog sees a tree."


@contextmanager
def ended(held: SimpleNamespace) -> Iterator[None]:
    """Nobody waits for a test that has failed."""
    try:
        yield
    finally:
        held.end.set()


def test_the_large_files_of_one_caller_hold_up_no_small_one(callers: Any, held: SimpleNamespace) -> None:
    one, other = callers
    large = json.dumps({"HELD" + "x" * HEAVY: "a dog"}).encode()
    with ThreadPoolExecutor(2) as pool, ended(held):
        asked = [pool.submit(upload, one, "a.json", large) for _ in range(2)]
        assert held.begun.wait(SOON)
        assert [upload(each, "a.po", PO).status_code for each in (other, one)] == [200, 200]
        assert not any(each.done() for each in asked)
        held.end.set()
        assert [each.result().status_code for each in asked] == [200, 200]


def test_markup_is_read_in_turn_and_what_is_small_as_before(callers: Any, held: SimpleNamespace) -> None:
    """At once, in no thread."""
    one, other = callers

    def ask(client: TestClient, text: str) -> Any:
        return client.post("/translate", json={"q": text, "source": "en", "target": "de", "format": "html"})

    large = f"<!-- HELD {'x' * HEAVY} -->{DOG}"
    with ThreadPoolExecutor(4) as pool, ended(held):
        asked = [pool.submit(ask, one, large) for _ in range(4)]
        assert held.begun.wait(SOON)
        for small in (DOG, DOG + "<br>" * (LARGE // 4)):
            assert ask(other, small).json()["translatedText"].startswith(german(DOG))
        held.end.set()
        assert {each.result().status_code for each in asked} == {200}


def test_a_file_that_is_far_too_long_is_refused_before_it_is_read(
    callers: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue may hold translations, so it is read: there may be none to make."""
    read: list[str] = []
    opened = libretranslate.open_document

    def noted(name: str, *given: Any, **more: Any) -> Any:
        read.append(name)
        return opened(name, *given, **more)

    monkeypatch.setattr(libretranslate, "open_document", noted)
    monkeypatch.setattr(service, "limits", Limits(seconds=SOON, characters=100))
    texts = {"a.md": b"a dog. " * 100, "a.json": b'{"a": "%s"}' % (b"a dog. " * 100)}
    for name, raw in texts.items():
        refused = upload(callers[0], name, raw)
        assert refused.status_code == 413
        assert "at most 400 are read" in refused.json()["error"]
    assert read == []
    done = PO.replace(b'""', b'"ein hund"')
    catalogue = b"\n".join(done.replace(b"dog", b"dog %d" % number) for number in range(50))
    assert upload(callers[0], "a.po", catalogue).status_code == 200
    assert read == ["a.po"]


def test_languages_are_told_in_turn_and_in_time(
    callers: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, threads = threading.Event(), []
    rank = detect._rank

    def slow(text: str) -> Any:
        threads.append(threading.current_thread().name)
        if "HELD" in text:
            end.wait(SOON)
        return rank(text)

    monkeypatch.setattr(detect, "_rank", slow)
    try:
        assert callers[0].post("/detect", json={"q": "Where is the old station?"}).status_code == 200
        monkeypatch.setattr(service, "limits", Limits(seconds=0.2))
        text = "HELD where is the old station, and the hotel?"
        assert callers[0].post("/detect", json={"q": text}).status_code == 503
        asked = {"q": [text], "source": "auto", "target": "de"}
        assert callers[0].post("/translate", json=asked).status_code == 503
    finally:
        end.set()
    assert {each.rpartition("_")[0] for each in threads} == {"regard-aside"}


def test_a_warm_service_can_tell_languages(
    word_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    monkeypatch.setattr(services, "load_identifier", lambda: loaded.append(1))
    for named, wanted in ((f"one={stored(tmp_path / 'one', 'embed')}", 0), (f"en-de={word_model}", 1)):
        service = Service([Named.of(named)], device="cpu")
        service.warm()
        service.close()
        assert len(loaded) == wanted


# keys and bodies


def asked(
    app: Any, path: str, receive: Any, headers: dict[str, str] | None = None, address: str = "127.0.0.1"
) -> Any:
    """The answer's status and headers, once it comes."""
    told = {"host": "localhost", "content-type": "application/json", **(headers or {})}
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "scheme": "http", "http_version": "1.1", "client": (address, 1), "server": None,
        "headers": [(name.encode(), value.encode()) for name, value in told.items()],
    }  # fmt: skip

    async def answered() -> tuple[int, dict[bytes, bytes]]:
        found: list[Any] = []

        async def send(message: Any) -> None:
            found.append(message)

        await app(scope, receive, send)
        return found[0]["status"], dict(found[0]["headers"])

    return answered()


def parts(*given: bytes, end: asyncio.Event | None = None) -> Any:
    """What has come of a body; the rest, which is no JSON, comes at the end, if there is one."""
    left = [*given]

    async def receive() -> Any:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": True}
        if end is not None:
            await end.wait()
        return {"type": "http.request", "body": b"!", "more_body": False}

    return receive


def bare(**limits: Any) -> Any:
    return SimpleNamespace(limits=Limits(**limits), metrics=Metrics())


def test_a_stranger_is_told_so_before_the_body_is_read() -> None:
    """Where clients put a key into the body, it is read; but not if there is another key before it."""
    read: list[str] = []

    def receive(path: str) -> Any:
        async def receive() -> Any:
            read.append(path)
            return {"type": "http.request", "body": b"{}", "more_body": False}

        return receive

    service = bare()
    app = build_app(lambda: service, keys=lambda: {"secret": None})
    wrong = {"authorization": "Bearer wrong"}
    for path, headers, status in (
        ("/v1/translate", {}, 401),
        ("/v1/embeddings", {}, 401),
        ("/embed", wrong, 401),
        ("/translate", wrong, 403),
        ("/v2/translate", wrong, 403),
    ):
        assert apart(asked(app, path, receive(path), headers))[0] == status
    assert read == []
    for path in ("/translate", "/v2/translate"):
        assert apart(asked(app, path, receive(path)))[0] == 403
    assert read == ["/translate", "/v2/translate"]


def test_bodies_have_a_bound_all_together_and_leave_room_for_others() -> None:
    service = bare(body=1000, bodies=4.0)
    app = build_app(lambda: service)

    async def ask() -> list[Any]:
        end = asyncio.Event()

        def put(size: int, address: str, headers: Any = None, last: Any = end) -> Any:
            receive = parts(b"a" * size, end=last)
            return asyncio.create_task(asked(app, "/v1/translate", receive, headers, address))

        many = [put(size, "127.0.0.2") for size in (999, 999, 999, 400)]
        until = later()
        while app.state._state.get("Bodies", Bodies())._whole < 3397 and time.monotonic() < until:
            await asyncio.sleep(0)
        found = [await put(200, "127.0.0.2"), await put(0, "127.0.0.2", {"content-length": "500"})]
        found.append(await put(200, "127.0.0.1", last=None))
        end.set()
        found += await asyncio.gather(*many)
        assert app.state.Bodies._whole == 0
        return [*found, await put(999, "127.0.0.2")]

    found = apart(ask())
    assert [status for status, _ in found] == [429, 429, *[400] * 6]
    assert [headers.get(b"retry-after") for _, headers in found[:2]] == [b"1", b"1"]


def test_what_is_given_back_is_forgotten() -> None:
    held = Bodies()
    for size in (0, 5, 7):
        held.take("a", size, 100)
    for size in (7, 0, 5):
        held.give_back("a", size)
    assert (held._whole, {**held._held}) == (0, {})


def test_the_loop_does_what_is_small_itself(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "aside", None)
    assert aside.LARGE == LARGE
    client = TestClient(build_app(lambda: service))
    sent = {"q": DOG, "source": "en", "target": "de", "format": "html"}
    assert client.post("/translate", json=sent).json() == {"translatedText": german(DOG)}
