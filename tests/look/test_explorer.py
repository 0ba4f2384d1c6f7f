"""The explorer: questions, the page, and the server that carries both."""

import base64
import gzip
import hashlib
import http.client
import json
import math
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import numpy as np
import pytest
import torch

from regard.look.explorer.explorer import CHARACTERS, Explorer, Refused, checked_arguments
from regard.look.explorer.questions import script
from regard.look.page import key, page, record
from regard.look.server import LARGEST, WAITING, Server
from regard.look.texts import trace_translation
from tests.look.browser.models import translator
from tests.tasks import copying

TEXT = "garden bridge window"


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(translator(), "copier")


def numbers(text: str) -> np.ndarray:
    kind, digits = text.split(":")
    found = np.frombuffer(base64.b64decode(digits), f"<{kind}")
    return found / {"u1": 255, "u2": 65535}.get(kind, 1)


@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_a_head_is_the_head_of_the_pass(explorer, place):
    seen = trace_translation(translator(), TEXT).trace
    for layer in seen.layers(place):
        weights = seen.weights(place, layer=layer)
        for head, expected in enumerate(weights):
            answer = explorer.ask("head", {"text": TEXT, "place": place, "layer": layer, "head": head})
            assert answer["shape"] == list(expected.shape)
            assert numbers(answer["weights"]) == pytest.approx(expected.numpy().ravel(), abs=0.51 / 65535)


@pytest.mark.parametrize("family", sorted(copying.FAMILIES))
def test_scores_follow_from_what_a_neuron_tells(family):
    """By the equation that the page computes."""
    own = copying.translator(family)
    asked = Explorer(own)
    seen = trace_translation(own, TEXT, what=("weights", "scores")).trace if asked.parts.attentions else None
    if seen is None:
        assert family == "lstm, no attention"
    for place in () if seen is None else seen.places:
        for layer in seen.layers(place):
            for head in range(len(seen.weights(place, layer=layer))):
                given = {"text": TEXT, "place": place, "layer": layer, "head": head}
                told = asked.ask("neuron", given)
                queries, keys = (
                    numbers(told[name]).reshape(-1, told["size"]) for name in ("queries", "keys")
                )
                if told["direction"] is not None:
                    both = np.tanh(queries[:, None] + keys[None])
                    scores = both @ numbers(told["direction"])
                else:
                    scores = told["scale"] * queries @ keys.T
                if told["bias"] is not None:
                    scores = scores + numbers(told["bias"]).reshape(scores.shape)
                expected = seen.scores(place, layer=layer, head=head)
                assert scores == pytest.approx(expected.numpy(), abs=1e-4)
                ahead = np.arange(keys.shape[0])[None] - np.arange(queries.shape[0])[:, None]
                visible = np.ones_like(scores, dtype=bool)
                if told["before"] is not None:
                    visible &= ahead >= -told["before"]
                if told["after"] is not None:
                    visible &= ahead <= told["after"]
                weights = seen.weights(place, layer=layer, head=head).numpy()
                assert (weights[~visible] == 0).all()
                raised = np.where(visible, np.exp(scores - scores.max()), 0)
                assert raised / raised.sum(axis=1, keepdims=True) == pytest.approx(weights, abs=1e-5)


def test_what_is_asked_twice_is_read_once(explorer, monkeypatch):
    explorer.ask("read", {"text": "silver candle"})
    monkeypatch.setattr(explorer, "run", None)
    assert explorer.ask("head", {"text": "silver candle", "place": "cross", "layer": 0, "head": 0})["shape"]


@pytest.mark.parametrize(
    ("question", "given", "message"),
    [
        ("nothing", {}, "no question 'nothing'"),
        ("read", {}, "read needs text"),
        ("read", {"text": 5}, "cannot take text=5"),
        ("read", {"text": "a", "colour": "red"}, "takes no 'colour'"),
        ("read", {"text": "  "}, "there is no text"),
        ("read", {"text": "a" * (CHARACTERS + 1)}, "characters"),
        ("read", {"text": "garden " * 2100}, "tokens: at most"),
        ("read", {"text": TEXT, "second": "garden " * 2100}, "the second text has"),
        ("read", {"text": "garden \ud800"}, "half of a character, at 8"),
        (
            "head",
            {"text": TEXT, "place": "elsewhere", "layer": 0, "head": 0},
            "cannot take place='elsewhere'",
        ),
        ("head", {"text": TEXT, "place": "cross", "layer": 99, "head": 0}, "99"),
        ("head", {"text": TEXT, "place": "cross", "layer": True, "head": 0}, "cannot take layer=True"),
        ("read", {"text": TEXT, "to": "fr"}, "to='fr'"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(explorer, question, given, message):
    with pytest.raises(Refused, match=re.escape(message)):
        explorer.ask(question, given)


def test_arguments_are_of_their_types():
    def question(explorer: Explorer, *, names: list[str], share: float = 0.5, to: str | None = None) -> dict:
        return {}

    for given in ({"names": []}, {"names": ["a"], "share": 1}, {"names": ["a"], "to": None}):
        assert checked_arguments("q", question, given) == given
    for given in ({"names": "a"}, {"names": [1]}, {"names": [], "share": "x"}, {"names": [], "to": 3}):
        with pytest.raises(Refused):
            checked_arguments("q", question, given)


# The page


def told(text: str) -> dict:
    """The answers that a saved page carries."""
    [data] = re.findall(r'<script id="data" type="text/plain">(.*?)</script>', text, re.DOTALL)
    return json.loads(gzip.decompress(base64.b64decode(data)))


def test_a_saved_page_carries_all_that_it_may_ask(explorer):
    found = told(page(record(explorer, [(TEXT, None, None)])))
    for question, given in script(explorer, TEXT):
        assert key(question, given) in found
    asked = {"text": TEXT, "place": "cross", "layer": 0, "head": 1}
    assert found[key("head", asked)] == explorer.ask("head", asked)
    live, saved = (
        numbers(each["keys"]) for each in (explorer.ask("neuron", asked), found[key("neuron", asked)])
    )
    assert saved == pytest.approx(live, rel=2**-10, abs=2**-24)


@pytest.mark.parametrize("saved", [False, True])
def test_a_page_reaches_nothing_outside(explorer, saved):
    text = page(record(explorer, [(TEXT, None, None)]) if saved else None)
    assert "{{" not in text.replace("`${", "")
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    assert ("connect-src 'none'" in policy) == saved
    code = text.split("<script>")[-1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?!data:)\w+", text.split("<script>")[0])
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http://",
        "https://",
    ):
        assert forbidden not in code.replace("http://www.w3.org/2000/svg", "")  # a name, not an address


def test_a_text_that_looks_like_numbers_is_kept_as_it_is(explorer):
    own = Explorer(
        explorer.task, questions={**explorer.questions, "about": lambda explorer: {"name": "f4:AAAA"}}
    )
    assert record(own, [(TEXT, None, None)])["about {}"] == {"name": "f4:AAAA"}


def test_a_saved_page_says_what_was_refused(explorer):
    text = "garden " * 30  # more than it was trained on, but it can be read
    with pytest.raises(Refused) as refused:
        explorer.ask("translate", {"text": text})
    found = record(explorer, [(text, None, None)])
    assert found[key("translate", {"text": text})] == {"refused": str(refused.value)}


def test_keys_are_spelled_as_the_page_spells_them():
    given = {"text": 'a "b"\n\u00e9\u4e16', "second": None, "head": 3, "names": ["x", "y"]}
    assert key("head", given) == 'head {"head":3,"names":["x","y"],"text":"a \\"b\\"\\n\u00e9\u4e16"}'


def test_a_text_that_looks_like_markup_does_not_end_the_data():
    own = Explorer(translator(), "</script><script>alert(1)</script>")
    text = page(record(own, [("</script><script>alert(2)</script>", None, None)]))
    assert "alert(" not in text
    assert "</script><script>alert(1)</script>" in told(text)["about {}"]["name"]


# The server


@pytest.fixture(scope="module")
def server(explorer) -> Iterator[Server]:
    running = Server(explorer)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def send(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict | str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    own = {"Host": f"127.0.0.1:{server.server_port}", "Content-Type": "application/json"}
    connection.request(
        method, path, body, {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, json.loads(text) if reply.headers.get_content_type() == "application/json" else text


def test_only_this_machine_is_listened_to(server):
    assert server.server_address[0] == "127.0.0.1"


def test_a_question_is_answered(server, explorer):
    given = {"text": TEXT, "place": "cross", "layer": 0, "head": 0}
    assert send(server, "POST", "/ask/head", json.dumps(given).encode()) == (200, explorer.ask("head", given))
    status, text = send(server, "GET", "/")
    assert status == 200
    assert text == page(None)


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "headers"),
    [
        (404, "GET", "/etc/passwd", b"", {}),
        (404, "GET", "/../secrets", b"", {}),
        (404, "POST", "/tell/about", b"{}", {}),
        (403, "GET", "/", b"", {"Host": "evil.example"}),
        (403, "POST", "/ask/about", b"{}", {"Host": "evil.example:80"}),
        (415, "POST", "/ask/about", b"{}", {"Content_Type": "text/plain"}),
        (400, "POST", "/ask/about", b"[]", {}),
        (400, "POST", "/ask/about", b"{", {}),
        (400, "POST", "/ask/go_on", b'{"text": "a", "temperature": NaN}', {}),
        (400, "POST", "/ask/about", b"[" * 100_000, {}),
        (400, "POST", "/ask/nothing", b"{}", {}),
        (400, "POST", "/ask/read", json.dumps({"text": "x" * (CHARACTERS + 1)}).encode(), {}),
        (413, "POST", "/ask/read", b" " * (LARGEST + 1), {}),
        (413, "POST", "/ask/about", b"", {"Content_Length": "9" * 5000}),
        (411, "POST", "/ask/about", b"", {"Content_Length": "many"}),
        (411, "POST", "/ask/about", b"{}", {"Transfer_Encoding": "chunked"}),
    ],
)
def test_what_is_no_question_of_the_page_is_refused(server, status, method, path, body, headers):
    try:
        found, told = send(server, method, path, body, **headers)
    except (BrokenPipeError, ConnectionResetError):  # hung up before all of it was sent
        assert status == 413
        return
    assert found == status
    assert told["refused"]


def test_an_error_of_ours_is_told_and_raised(explorer, server, monkeypatch):
    def broken(explorer: Explorer) -> dict:
        raise KeyError("a defect")

    raised: Queue[BaseException | None] = Queue()
    monkeypatch.setattr(server, "handle_error", lambda *_: raised.put(sys.exception()))
    monkeypatch.setattr(
        server,
        "explorer",
        Explorer(explorer.task, questions={"broken": broken, "endless": lambda explorer: {"n": math.inf}}),
    )
    assert send(server, "POST", "/ask/broken", b"{}") == (500, {"refused": "KeyError: 'a defect'"})
    status, told = send(server, "POST", "/ask/endless", b"{}")
    assert (status, told["refused"].split(":")[0]) == (500, "ValueError")
    assert [type(raised.get(timeout=20)) for _ in range(2)] == [KeyError, ValueError]


def test_under_many_questions_at_once_each_is_answered_or_told_to_come_again(explorer, server, monkeypatch):
    def slow(explorer: Explorer) -> dict:
        time.sleep(0.02)
        return {"ok": True}

    monkeypatch.setattr(server, "explorer", Explorer(explorer.task, questions={"slow": slow}))
    with ThreadPoolExecutor(80) as pool:
        found = [*pool.map(lambda _: send(server, "POST", "/ask/slow", b"{}")[0], range(80))]
    assert {*found} == {200, 503}
    assert found.count(200) >= WAITING
    assert send(server, "POST", "/ask/slow", b"{}")[0] == 200  # and there is room again


def test_models_are_left_as_they_were(explorer):
    before = torch.get_rng_state()
    explorer.ask("read", {"text": "forest lantern"})
    assert torch.equal(before, torch.get_rng_state())
    assert not any(part._forward_hooks for part in explorer.task.model.modules())
