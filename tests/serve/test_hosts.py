"""Which names a service answers to, and who its callers are."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.config import ConfigError
from regard.serve.app import build_app, own_names
from regard.serve.limits import Limits
from regard.serve.run import check_proxies, configured
from tests.serve.server import Running, apart, serving

NEVER = None


@pytest.mark.parametrize(
    ("host", "names", "keys", "asked", "status"),
    [
        ("127.0.0.1", [], [], "127.0.0.1:8000", 200),
        ("127.0.0.1", [], [], "localhost:8000", 200),
        ("::1", [], [], "[::1]:8000", 200),
        ("127.0.0.1", [], [], "evil.example:8000", 400),
        ("127.0.0.1", ["desk.example"], [], "desk.example", 200),
        ("127.0.0.1", ["desk.example"], [], "evil.example", 400),
        ("127.0.0.1", ["*"], [], "evil.example", 200),
        ("127.0.0.1", [], ["key"], "desk.example", 200),
        ("0.0.0.0", [], [], "desk.example", 200),
    ],
)
def test_a_service_for_this_machine_is_asked_by_its_own_names(host, names, keys, asked, status) -> None:
    """A page whose name points here is of another site, though a browser takes it for the same."""
    app = build_app(lambda: NEVER, hosts=own_names(host, names, keys))
    assert TestClient(app).get("/health", headers={"host": asked}).status_code == status


FORWARDED = {"X-Forwarded-For": "203.0.113.9, 198.51.100.4", "X-Forwarded-Proto": "https"}


def seen(proxies: list[str], sender: str) -> tuple[str, str]:
    """Address and scheme of a request from a sender that says it is from others."""
    found: list[tuple[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    config = configured(app, Limits(), proxies)
    config.load()
    headers = [(name.lower().encode(), value.encode()) for name, value in FORWARDED.items()]
    scope = {"type": "http", "client": (sender, 1), "scheme": "http", "headers": headers}
    apart(config.loaded_app(scope, None, None))
    return found[0]


def test_only_a_proxy_that_was_named_says_who_asks() -> None:
    """Else a caller could be another with each request, and take every turn."""
    assert seen([], "127.0.0.1") == ("127.0.0.1", "http")
    assert seen(["127.0.0.1"], "127.0.0.1") == ("198.51.100.4", "https")
    assert seen(["10.0.0.0/8", "198.51.100.4"], "10.1.2.3") == ("203.0.113.9", "https")
    assert seen(["10.0.0.0/8"], "127.0.0.1") == ("127.0.0.1", "http")


@pytest.mark.parametrize("address", ["*", "proxy.example", "10.0.0.1/8", ""])
def test_a_proxy_is_an_address(address: str) -> None:
    with pytest.raises(ConfigError, match="not an address, as"):
        check_proxies(["::1", "10.0.0.7", "10.0.0.0/8", address])


def test_the_option_names_the_proxy(translating: Running, word_model: Path) -> None:
    def scheme(running: Running) -> str:
        sent = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"a dog")}}
        with running.client(headers=FORWARDED) as client:
            return client.post("/translate_file", **sent).json()["translatedFileUrl"].partition(":")[0]

    assert scheme(translating) == "http"
    with serving(f"en-de={word_model}", "--proxy", "127.0.0.1") as running:
        assert scheme(running) == "https"
