"""Which names a service answers to, and who its callers are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard
from regard.config import ConfigError
from regard.serve.app import build_app
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.run import check_proxies, configured
from regard.serve.sites import check_origins, own_names
from tests.serve.server import Running, apart, serving
from tests.serve.words import german

NEVER = None
SERVICE: Any = SimpleNamespace(limits=Limits(), metrics=Metrics())
"""Of which nothing but a body that cannot be read is asked."""


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
        ("127.0.0.1", ["*.desk.example"], [], "a.desk.example:80", 200),
        ("127.0.0.1", ["*.desk.example"], [], "desk.example", 400),
        ("127.0.0.1", ["Desk.Example."], [], "desk.example", 200),
        ("127.0.0.1", [], [], "", 400),
    ],
)
def test_a_service_for_this_machine_is_asked_by_its_own_names(host, names, keys, asked, status) -> None:
    """A page whose name points here is of another site, though a browser takes it for the same."""
    app = build_app(lambda: NEVER, hosts=own_names(host, names, keys))
    answered = TestClient(app).get("/health", headers={"host": asked})
    assert answered.status_code == status
    if status == 400:
        assert "--allow-host NAME" in answered.json()["error"]


@pytest.mark.parametrize(
    "name", ["desk*.example", "https://desk.example", "desk.example:8000", "", "a b", "**"]
)
def test_a_name_that_could_never_fit_is_told_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match="give a name alone"):
        own_names("127.0.0.1", ["desk.example", "::1", "*.desk.example", name], [])


HERE, THERE = "http://localhost:8000", "https://evil.example"


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({}, True),
        ({"origin": HERE}, True),
        ({"origin": HERE.upper().replace("HTTP", "http")}, True),
        ({"origin": "https://friend.example"}, True),
        ({"origin": "https://desk.example"}, True),
        ({"origin": "https://a.b.example:444"}, True),
        ({"origin": "https://friend.example", "sec-fetch-site": "cross-site"}, True),
        ({"origin": THERE}, False),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "https://friend.example.evil.example"}, False),
        ({"origin": "http://evil.example@localhost:8000"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:3000"}, False),
        ({"origin": "https://behind.a.proxy", "sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
    ],
)
def test_no_page_of_another_site_may_ask_or_change_anything(headers: dict[str, str], may: bool) -> None:
    """A form, or JSON that is called text, is sent without a preflight."""
    names = own_names("127.0.0.1", ["desk.example", "*.b.example"], [])
    app = build_app(lambda: SERVICE, hosts=names, origins=["https://friend.example"])
    with TestClient(app, base_url=HERE) as client:
        for method, path, key in (("POST", "/v2/glossaries", "message"), ("POST", "/v1/translate", "error")):
            answered = client.request(
                method, path, content=b"[]", headers={"content-type": "text/plain", **headers}
            )
            assert answered.status_code == (400 if may else 403), answered.text
            assert ("--origin" in answered.json()[key]) is not may
        for method in ("PUT", "PATCH", "DELETE"):
            answered = client.request(method, "/v1/nowhere", headers=headers)
            assert answered.status_code == (404 if may else 403)
        assert client.get("/health", headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["https://site.example/", "site.example", "https://site.example/page", ""])
def test_a_site_is_given_as_browsers_say_it(site: str) -> None:
    with pytest.raises(ConfigError, match="give a site as browsers do"):
        check_origins(["https://a.example:8443", "http://[::1]:3000", "null", "*", site])


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


def test_the_options_name_the_proxy_and_the_precision(translating: Running, word_model: Path) -> None:
    def scheme(running: Running) -> str:
        sent = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"a dog")}}
        with running.client(headers=FORWARDED) as client:
            return client.post("/translate_file", **sent).json()["translatedFileUrl"].partition(":")[0]

    assert scheme(translating) == "http"
    with serving(f"en-de={word_model}", "--proxy", "127.0.0.1", "--precision", "int8") as running:
        assert scheme(running) == "https"
        text = "a dog sees a red tree."
        found = running.post("/v1/translate", {"texts": text, "target": "de"}).json()["result"]
    alone = regard.load(word_model, regard.Translator, device="cpu", precision="int8").translate(text)
    assert found["text"] == alone.text == german(text)
    assert found["score"] == pytest.approx(alone.score, abs=1e-4)
