"""regard's own door: each answer is what the Python API gives, whoever else is asking."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.app import DOORS, build_app
from regard.serve.asking import _gathered
from regard.serve.line import RefusedError
from regard.serve.models import Models, Named
from regard.serve.service import Service
from tests.examples import ANSWERS, FILMS, PAIRS, STORY

SENTENCES = [source for source, _ in PAIRS]
NEEDED = ("texts", "questions", "contexts", "prompt", "input", "inputs", "q", "text", "target", "name")
ASKED: dict[str, dict[str, Any]] = {
    "translate": {"texts": [*SENTENCES, "", "Where is the dog? The hotel sleeps."]},
    "classify": {"texts": [text for text, _ in FILMS]},
    "tag": {"texts": ["Ann Leeson met Bob .", "Bob met Ann .", "The dog ."]},
    "answer": {"questions": [question for question, _ in ANSWERS], "contexts": STORY},
    "embed": {"texts": ["A dog barks.", "Guten Morgen!", "x " * 300]},
    "fill": {"texts": ["The cat [MASK] on the mat.", "The [MASK] lay on the [MASK]."]},
}


def expected(alone: Any, method: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The Python API."""
    texts = fields.get("texts", [])
    match method:
        case "translate":
            found = alone("en-de").translate(texts)
        case "classify":
            found = alone("sentiment").classify(texts)
        case "tag":
            found = alone("entities").tag(texts)
        case "answer":
            questions = fields["questions"]
            found = alone("answers").answer(questions, [fields["contexts"]] * len(questions))
        case "fill":
            found = alone("bert").fill(texts)
        case _:
            return [
                {"vector": [*map(float, each)]} for each in alone("minilm").embed(texts, too_long="windows")
            ]
    return [each.to_dict() for each in found]


def close(found: Any, wanted: Any) -> None:
    """Equal, but for rounding."""
    match wanted:
        case dict():
            assert found.keys() == wanted.keys()
            for key in wanted:
                close(found[key], wanted[key])
        case list() | tuple():
            assert len(found) == len(wanted)
            for one, other in zip(found, wanted, strict=True):
                close(one, other)
        case float():
            assert found == pytest.approx(wanted, rel=1e-3, abs=1e-5)
        case _:
            assert found == wanted


@pytest.mark.parametrize("method", ASKED)
def test_each_answer_is_that_of_the_python_api(server, alone, method):
    answered = server.post(f"/v1/{method}", ASKED[method])
    assert answered.status_code == 200
    close(answered.json()["results"], expected(alone, method, ASKED[method]))


@pytest.mark.parametrize("method", ["translate", "classify", "tag", "embed", "fill"])
def test_a_single_text_has_a_single_result(server, alone, method):
    text = ASKED[method]["texts"][0]
    answered = server.post(f"/v1/{method}", {"texts": text}).json()
    close(answered["result"], expected(alone, method, {"texts": [text]})[0])


def test_no_caller_feels_who_else_is_asking(server, alone):
    """Forty at a time, of all kinds, each with a few texts: every answer is the one that is given alone."""
    chance = random.Random(0)
    requests = []
    for method, fields in ASKED.items():
        name = "questions" if method == "answer" else "texts"
        for _ in range(20):
            own = chance.sample(fields[name], chance.randint(1, 2))
            requests.append((method, {**fields, name: own}))
    chance.shuffle(requests)
    with ThreadPoolExecutor(40) as pool, server.client() as client:
        answers = [*pool.map(lambda each: client.post(f"/v1/{each[0]}", json=each[1]), requests)]
    for (method, fields), answer in zip(requests, answers, strict=True):
        assert answer.status_code == 200
        close(answer.json()["results"], expected(alone, method, fields))


def test_a_translation_takes_the_settings_of_the_python_api(server, alone):
    asked = {"texts": SENTENCES[:3], "beam": 3, "n_best": 2, "align": True, "suppressed": ["Bahnhof"]}
    found = server.post("/v1/translate", {**asked, "source": "en", "target": "de"}).json()["results"]
    model = alone("en-de")
    decoding = replace(model.decoding, beam=3, n_best=2)
    wanted = model.translate(SENTENCES[:3], decoding=decoding, align=True, suppressed=["Bahnhof"])
    close(found, [each.to_dict() for each in wanted])


def test_words_are_taken_as_they_are_split(server, alone):
    words = [["Ann", "Leeson", "met", "Bob", "."], ["Bob", "."]]
    found = server.post("/v1/tag", {"texts": words}).json()["results"]
    close(found, [each.to_dict() for each in alone("entities").tag([tuple(each) for each in words])])


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("translate", {"texts": "x", "target": "fr"}, "no model translates from any language to fr"),
        ("translate", {"texts": "x", "model": "none"}, "no model 'none' for translate: there are en-de"),
        ("translate", {"texts": "x", "beam": 10**9}, "beam=1000000000 must be from 1 to 16"),
        ("translate", {"texts": "x", "prompt": "none"}, "prompt='none' is no prompt of en-de: it has none"),
        ("classify", {"texts": ["x"], "seconds": ["y", "z"]}, "2 seconds for 1 texts"),
        ("answer", {"questions": ["x", "y"], "contexts": ["a", "b", "c"]}, "3 contexts for 2 questions"),
        ("embed", {"texts": 3}, "texts should be a text, or a list of texts"),
        ("fill", {"texts": "nothing to fill"}, "[MASK]"),
        ("embed", {"texts": "x", "too_long": "none"}, "is none of cut, windows, error"),
    ],
)
def test_what_cannot_be_served_is_told_with_the_remedy(server, path, fields, said):
    answered = server.post(f"/v1/{path}", fields)
    assert answered.status_code in (400, 404)
    assert said in answered.json()["error"]


def form(charset: str, **fields: bytes) -> dict[str, Any]:
    """A form of several parts in an encoding that its header names."""
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    return {"content": b"".join([*parts, b"--x--\r\n"]), "headers": headers}


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-7", "utf-16", "latin-1", "rot13", "none"])
def test_a_form_in_another_encoding_is_refused_by_every_endpoint(server, charset):
    with server.client() as client:
        before = client.get("/v2/glossaries").json()
        for way in [way for door in DOORS for way in door.ways if way.method in ("POST", "PUT", "PATCH")]:
            fields = dict.fromkeys(NEEDED, b"\\ud800 dog")
            answered = client.request(way.method, way.path.format(id="x"), **form(charset, **fields))
            assert answered.status_code == 400, way.path
            assert "UTF-8" in answered.text
        assert client.get("/v2/glossaries").json() == before


def test_a_form_in_utf_8_may_say_so(server, alone):
    wanted = alone("en-de").translate("Wö is the dog?").text
    with server.client() as client:
        for charset in ("utf-8", "UTF8", '"utf-8"'):
            found = client.post("/v1/translate", **form(charset, texts="Wö is the dog?".encode()))
            assert found.json()["result"]["text"] == wanted


def test_half_a_character_is_no_field():
    with pytest.raises(RefusedError, match="the field 'name' is no UTF-8"):
        _gathered([("name", "\ud800")])
    with pytest.raises(RefusedError, match="is no UTF-8"):
        _gathered([("\udfff", "name")])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/translate", {"texts": "The dog.", "target": "fr"}),
        ("/v1/translate", {"texts": "The dog.", "source": "fr"}),
        ("/translate", {"q": "The dog.", "source": "en", "target": "fr"}),
        ("/translate", {"q": "The dog.", "source": "auto", "target": "fr"}),
        ("/v2/translate", {"text": "The dog.", "target_lang": "FR"}),
        ("/v2/translate", {"text": "The dog.", "source_lang": "FR", "target_lang": "DE"}),
    ],
)
def test_a_model_that_is_named_translates_its_own_languages_only(server, path, fields):
    answered = server.post(path, {**fields, "model": "en-de"})
    assert answered.status_code == 400
    assert "the model 'en-de' translates from en to de, not from" in answered.text


def test_a_source_alone_chooses_the_model_that_reads_it(word_model):
    service = Service([Named.of(f"{pair}={word_model}") for pair in ("en-de", "de-en")], device="cpu")
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        for more, name in (
            ({"source": "de"}, "de-en"),
            ({"source": "en"}, "en-de"),
            ({"model": ""}, "en-de"),
        ):
            answered = client.post("/v1/translate", json={"texts": "a dog", **more})
            assert answered.json()["model"] == name
        refused = client.post("/v1/translate", json={"texts": "a dog", "source": "fr"})
    service.close()
    assert refused.status_code == 400
    assert "no model translates from fr to any: there are de-en, en-de" in refused.json()["error"]


def test_a_model_of_unknown_languages_can_be_named_for_any():
    known, unknown = (
        SimpleNamespace(name=name, task="translate", targets=targets, joins=lambda *_: False)
        for name, targets in (("en-de", ("de",)), ("mine", ()))
    )
    models = Models([known, unknown])
    assert models.translator("mine", "en", "fr") is unknown
    known.source = "en"
    with pytest.raises(LookupError, match="name another, or none"):
        models.translator("en-de", "en", "fr")
