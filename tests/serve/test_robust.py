"""Whatever comes, and however much of it: the service goes on, and tells everyone what is wrong.

The longer proofs are in tests/gauntlet/test_service.py.
"""

import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.serve.app import DOORS
from regard.serve.openapi import ENDPOINTS
from tests.serve.server import Running, serving

POSTS = [each for each in ENDPOINTS if each.method == "post"]
HOSTILE = {
    "empty": b"",
    "cut": b'{"texts": ["a", ',
    "no object": b"[1, 2, 3]",
    "a number": b"1e999",
    "not UTF-8": b'{"texts": "\xff\xfe\xfa", "inputs": "\xff"}',
    "half a character": b'{"texts": "\\ud800", "inputs": "\\udfff", "input": "\\ud800"}',
    "no number": b'{"texts": NaN, "inputs": Infinity, "n": -Infinity}',
    "nested": b"[" * 100_000,
    "nested inside": b'{"texts": ' + b"[" * 500 + b"]" * 500 + b"}",
    "deeply nested inside": b'{"texts": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "objects": b'{"texts":' * 20_000,
    "long key": b'{"' + b"a" * 1_000_000 + b'": 1}',
    "null bytes": b"\x00" * 1000,
}
WRONG: list[Any] = [
    None, True, -1, 0, 10**9, 10**19, 1.5, 1e308, "", "x", "1e9", "\x00\U0010ffff", [], [None], [[]], [1],
    [["a", 1]], {}, {"text": 1}, {"source_sentence": [], "sentences": {}}, ["a"] * 300, "a" * 100_001,
]  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_broken_body_is_refused_by_every_endpoint(server, body):
    ways = [way for door in DOORS for way in door.ways if way.method in ("POST", "PUT", "PATCH")]
    with server.client(headers={"content-type": "application/json"}) as client:
        found = {
            way.path: client.request(way.method, way.path.format(id="x"), content=body).status_code
            for way in ways
        }
    assert {path: status for path, status in found.items() if not 400 <= status < 500} == {}


@pytest.mark.parametrize("each", POSTS, ids=lambda each: each.path)
def test_a_wrong_value_in_any_field_is_told(server, each):
    """Or does no harm. Never is it a mistake of the service."""
    found: Counter[int] = Counter()
    with server.client() as client:
        for name in each.fields:
            for value in WRONG:
                answered = client.post(each.path, json={**each.asked, name: value})
                assert answered.status_code < 500, (name, value, answered.text)
                assert "mistake of the service" not in answered.text
                found[answered.status_code] += 1
    assert sum(count for status, count in found.items() if status >= 400) > found.total() / 4


def test_other_paths_and_methods_are_refused(server):
    with server.client() as client:
        assert client.get("/nowhere").status_code == 404
        assert client.get("/v1/embeddings").status_code == 405
        assert client.request("DELETE", "/v1/models/minilm").status_code == 405
        for kind in (
            "multipart/form-data",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
        ):
            answered = client.post("/v1/translate", content=b"--y\r\n\r\n", headers={"content-type": kind})
            assert answered.status_code == 400


# bodies without end


def talk(port: int, *parts: bytes, host: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection((host, port), timeout=20)
    for part in parts:
        connection.sendall(part)
    return connection


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def refused_early(port: int, kind: str, most: int) -> tuple[bytes, int]:
    """A body that never ends: what is answered, and after how many bytes."""
    sent, part = 0, b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    start = head("/v1/translate", "Transfer-Encoding: chunked", f"Content-Type: {kind}")
    begun = b"6\r\n--x\r\n\r\n" if "multipart" in kind else b""
    with talk(port, start, begun) as connection:
        connection.settimeout(0.001)
        while sent < most:
            try:
                if answer := connection.recv(4096):
                    return answer, sent
                break
            except TimeoutError:
                pass
            connection.settimeout(20)
            connection.sendall(part)
            connection.settimeout(0.001)
            sent += len(part)
    return b"", sent


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_a_body_without_end_is_refused_early(server, kind):
    before = server.memory
    answer, sent = refused_early(server.port, kind, 200_000_000)
    assert answer.startswith(b"HTTP/1.1 413")
    assert sent < 50_000_000
    assert server.memory < before + 30


def test_a_file_without_end_is_refused_early(server):
    part = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    start = head(
        "/v1/translate", "Content-Type: multipart/form-data; boundary=x", "Content-Length: 1000000000"
    )
    with talk(server.port, start, part) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_headers_without_end_are_refused(server):
    sent = 0
    with talk(server.port, b"POST /v1/embed HTTP/1.1\r\n") as connection, suppress(ConnectionError):
        for sent in range(100_000):
            connection.sendall(f"x-{sent}: {'a' * 1000}\r\n".encode())
    assert 0 < sent < 10_000


# connections that stall


def closed(connections: list[socket.socket], seconds: float) -> int:
    """How many the service has closed, in so much time."""
    until, done = time.monotonic() + seconds, 0
    for each in connections:
        each.settimeout(max(0.01, until - time.monotonic()))
        try:
            while each.recv(4096):
                pass
            done += 1
        except ConnectionError:
            done += 1
        except TimeoutError:
            pass
        each.close()
    return done


def test_stalled_connections_are_closed_and_disturb_nobody(server):
    before = server.files
    half = [b"", b"POST /v1/embed HT", head("/v1/embed", "Content-Length: 50")[:-2]]
    half += [head("/v1/embed", "Content-Length: 50") + b'{"te', head("/embed", "Transfer-Encoding: chunked")]
    connections = [talk(server.port, half[number % 5]) for number in range(200)]
    assert server.post("/v1/embed", {"texts": "x"}).status_code == 200
    assert server.files > before + 150
    assert closed(connections, 15) == 200
    assert server.files < before + 20
    answers = b'{"texts": "a"}'
    again = head("/v1/embed", f"Content-Length: {len(answers)}") + answers
    with talk(server.port, again) as connection:  # a whole request first, then half of one
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"POST /v1/em")
        assert closed([connection], 15) == 1


def test_thousands_of_connections_come_and_go(server):
    files, memory = server.files, server.memory
    for number in range(2000):
        with talk(server.port, *([b"GET / HT"] if number % 2 else [])):
            pass
    assert server.post("/v1/embed", {"texts": "x"}).status_code == 200
    time.sleep(0.5)
    assert server.files <= files + 5
    assert server.memory < memory * 1.05 + 10


def test_nobodys_text_or_address_is_kept(server):
    server.post("/v1/translate", {"texts": "A SECRETIVE station"})
    server.post("/v1/fill", {"texts": "A SECRETIVE text without a mask"})
    server.get("/v1/models/SECRETIVE")
    told = server.log.read_text(encoding="utf-8")
    assert "/v1/fill" in told
    for text in (told, server.get("/metrics").text):
        assert "SECRETIVE" not in text
        assert "127.0.0.1" not in text
    for line in told.splitlines():
        assert line.startswith("{"), line
        assert {"time", "level", "event"} <= {*json.loads(line)}
    assert "request" in server.get("/metrics").text


# more than it can hold


@pytest.fixture(scope="module")
def slow(models: Path) -> Iterator[Running]:
    """Each request takes a while; few may wait."""
    named = f"en-de={models / 'slow'}", f"verse={models / 'slow-verse'}", f"minilm={models / 'minilm'}"
    with serving(*named, "--max-waiting", "32", "--deadline", "20", "--warm") as running:
        yield running


LONG = {"texts": ["The dog sleeps. " * 4] * 2, "split": "never"}


@pytest.mark.long
def test_more_than_it_can_hold_is_told_to_come_back_at_once(slow):
    with slow.client(limits=httpx.Limits(max_connections=400)) as client, ThreadPoolExecutor(120) as pool:
        for _ in range(3):  # so that it knows how quick it is
            assert client.post("/v1/translate", json=LONG).status_code == 200
        waves, memory = [], []
        for _ in range(16):  # more is let in, and takes room, when it is known how quick the model is
            waves.append([*pool.map(lambda _: client.post("/v1/translate", json=LONG), range(160))])
            time.sleep(0.6)  # nobody asks, so what is free goes back
            memory.append(slow.memory)
    answers = [each for wave in waves for each in wave]
    codes = Counter(each.status_code for each in answers)
    assert {*codes} == {200, 429}, codes
    assert len({each.text for each in answers if each.status_code == 200}) == 1
    assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 429)
    lines = [json.loads(line) for line in slow.log.read_text(encoding="utf-8").splitlines()]
    waited = sorted(line["seconds"] for line in lines if line.get("status") == 429)
    assert waited[len(waited) * 9 // 10] < 0.05
    assert max(memory[8:]) < max(memory[:8]) * 1.05, memory
    assert slow.metric("regard_tokens") == 0
    began = time.monotonic()
    assert slow.post("/v1/translate", {"texts": "The dog"}).status_code == 200
    assert time.monotonic() - began < 5


@pytest.mark.long
def test_one_caller_with_many_requests_does_not_starve_another(slow):
    """The second is let in at once, and answered, where the first is told to come back time and again."""
    codes: Counter[int] = Counter()
    stop = threading.Event()

    def many(client: httpx.Client) -> None:
        while not stop.is_set():
            code = client.post("/v1/translate", json=LONG).status_code
            codes[code] += 1
            time.sleep(0.05)

    with slow.client(limits=httpx.Limits(max_connections=100)) as client, ThreadPoolExecutor(100) as pool:
        asked = [pool.submit(many, client) for _ in range(100)]
        try:
            while codes[429] < 100:
                time.sleep(0.02)
            transport = httpx.HTTPTransport(local_address="127.0.0.2")
            with httpx.Client(base_url=slow.url, transport=transport, timeout=60) as other:
                found = [other.post("/v1/translate", json=LONG).status_code for _ in range(3)]
        finally:
            stop.set()
        for each in asked:
            each.result()
    assert found == [200, 200, 200]
    assert {*codes} == {200, 429}


LARGE = {"texts": ["The dog sleeps. " * 6] * 80, "split": "never", "beam": 4}


def test_a_large_request_holds_up_no_small_one(slow):
    """Not even one of the same caller; and all of a batch is never in memory at once."""
    before = slow.memory
    with slow.client() as client, ThreadPoolExecutor(2) as pool:
        large = [pool.submit(client.post, "/v1/translate", json=LARGE) for _ in range(2)]
        while slow.metric("regard_tokens") == 0 or slow.metric("regard_waiting") < 2:  # what is not begun
            time.sleep(0.02)
        assert client.post("/v1/translate", json={"texts": "The dog"}).status_code == 200
        assert not any(each.done() for each in large)
        assert slow.memory < before + 600  # all at once took 2 GB; before, nothing free is held
        for each in large:
            answer = each.result()
            assert answer.status_code == 200, answer.text
            assert len({found["text"] for found in answer.json()["results"]}) == 1


def test_a_dozen_long_texts_of_one_address_hold_up_no_short_one_of_another(slow):
    long = {"prompt": "ROMEO:", "max_tokens": 1000, "temperature": 0, "stream": True}
    ended = slow.metric("regard_requests_total")
    under_way = []  # who lets go of a stream's lines hangs up
    with slow.client() as client, ExitStack() as streams:
        for _ in range(12):
            answer = streams.enter_context(client.stream("POST", "/v1/completions", json=long))
            under_way.append(answer.iter_lines())
            assert next(under_way[-1]).startswith("data: ")  # each is being written
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=slow.url, transport=transport, timeout=60) as other:
            short = other.post("/v1/completions", json={"prompt": "ROMEO:", "max_tokens": 2})
        assert short.json()["usage"]["completion_tokens"] <= 2
        assert slow.metric("regard_requests_total") == ended + 1  # none of the others
    assert settles(slow, 3)


def settles(running: Running, seconds: float) -> bool:
    """Whether nothing is waiting or at work any more, within so much time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if running.metric("regard_tokens") == 0:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/translate", {"texts": ["The dog sleeps. " * 20] * 100, "split": "never", "beam": 4}),
        ("/v1/completions", {"prompt": "ROMEO:", "max_tokens": 900, "n": 8}),
        ("/v1/completions", {"prompt": "ROMEO:", "max_tokens": 900, "stream": True, "temperature": 0}),
    ],
    ids=["translation", "completion", "stream"],
)
def test_who_hangs_up_is_dropped_in_the_middle(slow, path, fields):
    body = json.dumps(fields).encode()
    request = head(path, f"Content-Length: {len(body)}", "Content-Type: application/json") + body
    with talk(slow.port, request) as connection:
        if fields.get("stream"):
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        until = time.monotonic() + 10
        while slow.metric("regard_tokens") == 0:
            assert time.monotonic() < until
    assert settles(slow, 3)


def test_an_end_in_good_order_loses_no_request(slow):
    """The last test of this service: it is told to end while requests are under way and others come."""
    results: list[Any] = []
    vectors: list[Any] = []
    stop, begun = threading.Event(), threading.Event()

    def answered(path: str) -> int:
        lines = [json.loads(line) for line in slow.log.read_text(encoding="utf-8").splitlines()]
        return sum(line.get("status") == 200 and line["path"] == path for line in lines)

    before = answered("/v1/translate")

    def ask(path: str, fields: dict[str, Any], found: list[Any]) -> None:
        with slow.client() as client:
            while not stop.is_set():
                try:
                    found.append(client.post(path, json=fields))
                except httpx.TransportError as error:
                    found.append(error)
                    return

    def read_a_stream() -> list[str]:
        lines = []
        fields = {"prompt": "ROMEO:", "max_tokens": 200, "temperature": 0, "stream": True}
        with slow.client() as client, client.stream("POST", "/v1/completions", json=fields) as answer:
            for line in answer.iter_lines():
                lines.append(line)
                begun.set()
        return [line.removeprefix("data: ") for line in lines if line]

    def ask_for_markup() -> httpx.Response:
        """The model loses the placeholder, and is asked once more."""
        fields = {"q": "<p>The dog [X12X] sleeps.</p>", "source": "en", "target": "de", "format": "html"}
        return slow.post("/translate", fields)

    with ThreadPoolExecutor(13) as pool:
        asked = [pool.submit(ask, "/v1/translate", LONG, results) for _ in range(8)]
        most = 0.0
        while (tokens := slow.metric("regard_tokens")) == 0 or len(results) < 8:
            most = max(most, tokens)
            time.sleep(0.02)
        twice = [pool.submit(ask_for_markup) for _ in range(2)]
        until = time.monotonic() + 20
        while slow.metric("regard_tokens") <= most and time.monotonic() < until:
            time.sleep(0.01)  # until they are in the line too
        stream = pool.submit(read_a_stream)
        barks = {"input": ["A dog barks."] * 20}
        asked += [pool.submit(ask, "/v1/embeddings", barks, vectors) for _ in range(2)]
        while not (vectors and begun.is_set()) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        assert not any(each.done() for each in twice)
        slow.process.send_signal(signal.SIGTERM)
        seen = set()
        while slow.process.poll() is None:
            try:
                seen.add(slow.get("/ready").status_code)
            except httpx.TransportError:
                time.sleep(0.02)
        stop.set()
        for each in asked:
            each.result()
    assert slow.process.returncode == 0
    assert 503 in seen
    assert [each.result().status_code for each in twice] == [200, 200]
    *_, end, last = stream.result()
    assert last == "[DONE]"
    assert json.loads(end)["choices"][0]["finish_reason"] is not None
    done = {"/v1/translate": answered("/v1/translate") - before, "/v1/embeddings": answered("/v1/embeddings")}
    for found, count in zip((results, vectors), done.values(), strict=True):
        codes = Counter(each.status_code for each in found if isinstance(each, httpx.Response))
        assert {*codes} <= {200, 503}
        # who came when it no longer listened was not taken; what was taken was given
        assert codes[200] == count > 0


# keys, other sites, encryption, a changed model


@pytest.fixture(scope="module")
def guarded(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path, Any]]:
    """A service with keys, a certificate and one other site; its model's folder, which may be changed; and
    what trusts the certificate."""
    folder = tmp_path_factory.mktemp("guarded")
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *made, *files, *named], check=True, capture_output=True)
    (folder / "keys").write_text("key-one\nkey-two\n", encoding="utf-8")
    shutil.copytree(models / "en-de", folder / "model")
    options = ["--keys", folder / "keys", "--origin", "https://friend.example"]
    options += ["--ssl-certfile", folder / "cert.pem", "--ssl-keyfile", folder / "key.pem"]
    others = [f"{name}={models / name}" for name in ("verse", "minilm")]
    with serving(f"en-de={folder / 'model'}", *others, *options) as running:
        yield running, folder / "model", ssl.create_default_context(cafile=str(folder / "cert.pem"))


def test_only_who_has_a_key_is_answered_and_told_in_the_shape_of_the_door(guarded):
    running, _, trusted = guarded
    shapes = {"/v1/translate": "status", "/embed": "error_type", "/v1/embeddings": "error"}
    with running.client(verify=trusted) as client:
        for path, name in shapes.items():
            fields = {"texts": "The dog sleeps.", "inputs": "x", "input": "x"}
            wrong = ({}, {"authorization": "Bearer key"}, {"authorization": "Bearer key-one-"})
            for headers in (*wrong, {"x-api-key": "ключ".encode()}):
                answered = client.post(path, json=fields, headers=headers)
                assert answered.status_code == 401
                assert name in answered.json()
            for headers in ({"authorization": "Bearer key-two"}, {"x-api-key": "key-one"}):
                assert client.post(path, json=fields, headers=headers).status_code == 200
        assert client.get("/ready").status_code == 200


def test_pages_of_other_sites_may_ask_only_if_they_are_named(guarded, server):
    running, _, trusted = guarded
    asked = {"origin": "https://friend.example", "access-control-request-method": "POST"}
    with running.client(verify=trusted) as client:
        allowed = client.options("/v1/translate", headers=asked)
        other = client.options("/v1/translate", headers={**asked, "origin": "https://other.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://friend.example"
    assert "access-control-allow-origin" not in other.headers
    with server.client() as client:
        assert "access-control-allow-origin" not in client.get("/health", headers=asked).headers


def test_a_changed_model_is_opened_while_requests_go_on(guarded, models):
    """Every answer is the old one or the new one, none is lost, and at the end all are new."""
    running, folder, trusted = guarded
    asked = {"texts": ["Where is the station?", "The dog sleeps."], "beam": 1}
    stop, answers = threading.Event(), []

    def ask(client: httpx.Client) -> None:
        while not stop.is_set():
            answers.append(client.post("/v1/translate", json=asked))

    def translated(answer: httpx.Response) -> tuple[str, ...]:
        return tuple(each["text"] for each in answer.json()["results"])

    with (
        running.client(verify=trusted, headers={"x-api-key": "key-one"}) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        old = translated(client.post("/v1/translate", json=asked))
        working = [pool.submit(ask, client) for _ in range(4)]
        shutil.rmtree(folder)
        shutil.copytree(models / "slow", folder)
        running.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 30
        while "reloaded" not in running.log.read_text(encoding="utf-8") and time.monotonic() < until:
            time.sleep(0.05)
        new = translated(client.post("/v1/translate", json=asked))
        stop.set()
        for each in working:
            each.result()
        (folder / "model.safetensors").write_bytes(b"not a model")
        running.process.send_signal(signal.SIGHUP)
        while "goes on" not in running.log.read_text(encoding="utf-8") and time.monotonic() < until:
            time.sleep(0.05)
        assert translated(client.post("/v1/translate", json=asked)) == new
    assert old != new
    assert Counter(each.status_code for each in answers).keys() == {200}
    assert {translated(each) for each in answers} == {old, new}
    assert "goes on" in running.log.read_text(encoding="utf-8")


def test_keys_are_read_again(guarded):
    """Those that are wrong leave the ones that there are."""
    running, folder, trusted = guarded
    keys = folder.parent / "keys"

    def told(key: str) -> int:
        with running.client(verify=trusted, headers={"x-api-key": key}) as client:
            return client.post("/embed", json={"inputs": "x"}).status_code

    keys.write_text("key-two nobody\n", encoding="utf-8")
    running.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 20
    while "behind it stands" not in running.log.read_text(encoding="utf-8") and time.monotonic() < until:
        time.sleep(0.05)
    assert [told("key-one"), told("key-two")] == [200, 200]
    keys.write_text("key-two\nkey-three\n", encoding="utf-8")
    running.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 20
    while told("key-three") != 200 and time.monotonic() < until:
        time.sleep(0.05)
    assert [told(f"key-{name}") for name in ("one", "two", "three")] == [401, 200, 200]
