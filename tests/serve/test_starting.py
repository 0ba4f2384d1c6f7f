"""Before a service opens a model, and when it is about to end: what is wrong is told at once, signals are
heard from the first moment, and who is there is answered until the last."""

import resource
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.cli import build
from regard.config import ConfigError
from regard.serve import cli, connection, run
from regard.serve.app import build_app
from regard.serve.connection import BEYOND, OWN
from regard.serve.limits import Limits
from regard.serve.listening import OTHERS, Certificate, bound, certificate_of, make_room, url_of
from regard.serve.models import Named
from regard.serve.run import _Server, configured
from regard.serve.service import Service
from regard.serve.signals import heard
from tests.tasks.folders import stored

# addresses and certificates


def test_a_port_that_is_taken_is_told_with_its_remedy() -> None:
    with ExitStack() as stack:
        (one,) = map(stack.enter_context, bound("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port}: .*; choose another port, or 0 for any"):
            bound("127.0.0.1", port)
        with pytest.raises(ConfigError, match="no address to listen at"):
            bound("nowhere.invalid", 8000)
        with pytest.raises(ConfigError, match=r"--host 192\.0\.2\.1 --port 8000: "):
            bound("192.0.2.1", 8000)
        with pytest.raises(ConfigError, match="--port 65536: a port is from 0, any that is free, to 65535"):
            bound("127.0.0.1", 65_536)
        for each in map(stack.enter_context, bound("localhost", 0)):
            assert each.getsockname()[1] > 0


def test_a_limit_that_is_none_is_refused_by_its_option() -> None:
    told = CliRunner().invoke(build(), ["serve", "--help"], terminal_width=200).stdout
    for each in fields(Limits):
        for value in (0, -1, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="greater than 0") as raised:
                Limits(**{each.name: value})
            assert f" {str(raised.value).split()[0]} " in told


def test_where_it_listens_is_an_address_for_browsers() -> None:
    assert url_of("127.0.0.1", 8000, secure=False) == "http://127.0.0.1:8000/"
    assert url_of("desk.example", 443, secure=True) == "https://desk.example:443/"
    assert url_of("::1", 8000, secure=False) == "http://[::1]:8000/"


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate, its key, and the key encrypted."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("pems")
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-subj", "/CN=localhost"]
    locked = ["ec", "-in", folder / "key.pem", "-aes256", "-passout", "pass:word", "-out", folder / "locked"]
    for command in ([*made, *files], locked):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return folder


def test_a_certificate_is_read_before_anything_else_and_its_files_are_named(pems: Path) -> None:
    cert, key, locked = (pems / name for name in ("cert.pem", "key.pem", "locked"))
    assert isinstance(Certificate(cert, key, None).context, ssl.SSLContext)
    Certificate(cert, locked, "word")
    assert certificate_of(None, None, None) is None
    for given, told in (
        ((None, key, None), "--ssl-keyfile without --ssl-certfile"),
        ((None, None, "word"), "--ssl-keyfile-password without --ssl-certfile"),
        ((pems / "none", key, None), f"--ssl-certfile {pems / 'none'}: No such file"),
        ((cert, pems / "none", None), f"--ssl-keyfile {pems / 'none'}: No such file"),
        ((cert, None, None), "PEM files of a certificate and its own key"),
        ((key, cert, None), "PEM files of a certificate and its own key"),
        ((cert, locked, None), "--ssl-keyfile-password what an encrypted key needs"),
        ((cert, locked, "wrong"), "--ssl-keyfile-password what an encrypted key needs"),
    ):
        with pytest.raises(ConfigError) as raised:
            certificate_of(*given)
        assert told in str(raised.value)


def test_a_service_asks_for_as_many_files_as_it_has_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: asked.append(given))
    for connections in (100, 2048, 10_000):
        make_room(connections)
    assert asked == [(2048 + OTHERS, 4000), (4000, 4000)]
    assert "raise its limit" in caplog.text


# signals


def test_signals_are_heard_before_there_is_anything_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP would end the process, and SIGTERM would do nothing where it is the first one."""
    ended: list[str] = []
    again = threading.Event()

    def loading(models: list[str], **given: Any) -> None:
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(SystemExit) as left:
            signal.raise_signal(signal.SIGTERM)
        assert left.value.code == 0
        assert not again.is_set()
        given["signals"].serve(lambda: ended.append("end"), again.set)
        assert again.wait(5)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(each)

    before = [signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr(run, "run", loading)
    cli.serve(["model"], **dict.fromkeys(("keys", "origins", "names", "proxies", "certificate", "key"), None))
    assert ended == ["end", "end"]
    assert [signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)] == before


def test_other_threads_hear_no_signals() -> None:
    with heard() as signals:
        other = threading.Thread(target=signals.serve, args=(int, int))
        other.start()
        other.join()


# connections, and the end


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"one={stored(tmp_path_factory.mktemp('starting') / 'one', 'embed')}"


@contextmanager
def running(model: str, limits: Limits, drain: float = 0.0) -> Iterator[tuple[Service, _Server, int]]:
    """In a thread of this process."""
    service = Service([Named.of(model)], limits=limits, device="cpu")
    config = configured(build_app(lambda: service), limits, [], host="127.0.0.1", port=0)
    server = _Server(config, service, Console(quiet=True), drain)
    (listening,) = bound("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        assert within(10, lambda: server.started)
        yield service, server, listening.getsockname()[1]
    finally:
        server.end()
        thread.join(20)
        service.close()


def within(seconds: float, true: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def ask(port: int, path: str, address: str = "127.0.0.1") -> httpx.Response:
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=10) as client:
        return client.post(path, json={"inputs": "a"}) if path == "/embed" else client.get(path)


def test_an_address_with_many_connections_leaves_room_for_others(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BRIEF", 1.0)
    with running(model, Limits(connections=32)) as (_, server, port), ExitStack() as stack:
        ready = server.server_state.connections

        def silent(address: str, count: int) -> list[socket.socket]:
            place = ("127.0.0.1", port)
            made = [socket.create_connection(place, 10, (address, 0)) for _ in range(count)]
            return [*map(stack.enter_context, made)]

        silent("127.0.0.2", 28)
        assert within(5, lambda: len(ready) == 28)
        refused = ask(port, "/embed", "127.0.0.2")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.headers["connection"] == "close"
        assert refused.json()["error_type"] == "Unhealthy"
        for path in ("/health", "/ready"):
            told = ask(port, path, "127.0.0.2")
            assert (told.status_code, told.headers["connection"]) == (200, "close")
        assert [ask(port, "/embed").status_code for _ in range(3)] == [200] * 3
        more = silent("127.0.0.2", 2 * OWN)  # some are told that there is no room, if they ask; others closed
        assert within(5, lambda: len(ready) == 28 + OWN)
        assert sum(each.recv(1) == b"" for each in more[OWN:]) == OWN
        assert within(5, lambda: len(ready) == 28)  # nor are those that do not ask waited for
        for number in range(3, 7):
            silent(f"127.0.0.{number}", 1)
        assert ask(port, "/embed").status_code == 503  # now there is none for anybody
        assert ask(port, "/health").status_code == 200
        assert BEYOND > OWN


def test_readiness_fails_before_requests_are_refused(model: str) -> None:
    """Whoever sends requests here hears of it first."""
    with running(model, Limits(), drain=1.0) as (service, server, port):
        assert ask(port, "/ready").status_code == 200
        server._captured_signals.append(signal.SIGTERM)
        server.end()
        assert within(5, lambda: not service.ready)
        assert [ask(port, path).status_code for path in ("/ready", "/embed")] == [503, 200]
        assert within(5, lambda: service._stopped)
        assert not service.ready
