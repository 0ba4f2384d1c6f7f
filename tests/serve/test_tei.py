"""Text Embeddings Inference's door, and Cohere's ranking."""

import json
import shutil
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from starlette.testclient import TestClient

import regard
from regard.serve.app import build_app
from regard.serve.doors.tei import _end
from regard.serve.models import Named
from regard.serve.service import Service
from tests.serve.server import serving

TEXTS = ["A dog barks.", "Guten Morgen!", "The ship sails."]


def test_vectors_are_those_of_the_python_api(server, alone):
    model = alone("minilm")
    for inputs in (TEXTS, TEXTS[0]):
        wanted = model.embed([inputs] if isinstance(inputs, str) else inputs)
        found = server.post("/embed", {"inputs": inputs}).json()
        assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    found = server.post("/embed", {"inputs": TEXTS, "normalize": False}).json()
    assert_allclose(found, model.embed(TEXTS, normalised=False), rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def ends(alone: Any) -> dict[str, str]:
    """The beginning and the end of it that are read: exactly as many tokens as there is room for."""
    model = alone("minilm")
    text = "a " * 100 + "dog " * (2 * model.longest) + "ship " * 100
    words = text.split()
    room = model.longest - 2  # beside the tokens of the template; each word is a token
    assert len(model.tokenizer.encode(text, template="cls")) == len(words) + 2
    return {"whole": text, "Right": " ".join(words[:room]), "Left": " ".join(words[-room:])}


def test_what_is_too_long_is_refused_as_its_clients_know_it(server):
    text = "word " * 400
    pair = {"source_sentence": "a", "sentences": [text]}
    for path, fields in (
        ("/embed", {"inputs": text}),
        ("/embed", {"inputs": ["a", text], "truncate": False}),
        ("/similarity", {"inputs": pair}),
        ("/similarity", {"inputs": pair, "parameters": {"truncate": False}}),
        ("/predict", {"inputs": "film " * 2000, "truncate": False}),
        ("/rerank", {"query": "a", "texts": [text], "truncate": False}),
    ):
        answered = server.post(path, fields)
        assert (answered.status_code, answered.json()["error_type"]) == (413, "Validation"), path
        assert "truncate: true" in answered.json()["error"]


@pytest.mark.parametrize("side", ["Right", "Left"])
def test_what_is_too_long_is_cut_where_it_is_asked_for(server, alone, ends, side):
    """The vector is that of the first tokens, or of the last."""
    asked = {"truncate": True, "truncation_direction": side}
    wanted = alone("minilm").embed([ends[side], "a ship"], too_long="error")
    found = server.post("/embed", {"inputs": ends["whole"], **asked}).json()
    assert_allclose(found[0], wanted[0], atol=1e-5)
    cosine = float(np.dot(*wanted))
    pair = {"source_sentence": "a ship", "sentences": [ends["whole"]]}
    found = server.post("/similarity", {"inputs": pair, "parameters": asked}).json()
    assert found == [pytest.approx(cosine, abs=1e-5)]
    found = server.post("/rerank", {"query": "a ship", "texts": [ends["whole"]], **asked}).json()
    assert found[0]["score"] == pytest.approx(cosine, abs=1e-5)


def test_right_is_where_a_text_is_cut_unless_it_is_said(server, ends):
    found = [
        server.post("/embed", {"inputs": ends["whole"], "truncate": True, **side}).json()
        for side in ({}, {"truncation_direction": "Right"}, {"truncation_direction": "left"})
    ]
    assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(np.subtract(found[0], found[2])).max() > 1e-3
    wrong = server.post("/embed", {"inputs": "a", "truncation_direction": "Up"})
    assert wrong.status_code == 422


def test_the_end_of_a_pair_is_cut_as_its_beginning_is_and_in_no_word(alone):
    model = alone("minilm")
    texts = ("unbelievably " * 300, "short question")
    first, second = _end(model, texts)
    assert second == texts[1]
    assert texts[0].endswith(first)
    assert {*first.split()} == {"unbelievably"}
    size = len(model.tokenizer.encode(first, second, template="cls"))
    word = len(model.tokenizer.encode("unbelievably"))
    assert model.longest - word < size <= model.longest
    assert _end(model, ("a", "b")) == ("a", "b")


def test_a_list_of_texts_is_one_text_or_one_pair(server, alone):
    def labels(*texts: str) -> Any:
        found = alone("sentiment").classify(*([text] for text in texts))[0].probabilities
        return pytest.approx(found, rel=1e-3)

    def asked(inputs: Any) -> Any:
        return server.post("/predict", {"inputs": inputs}).json()

    def scores(row: Any) -> dict[str, float]:
        return {each["label"]: each["score"] for each in row}

    assert scores(asked("A dull film.")) == scores(asked(["A dull film."])) == labels("A dull film.")
    assert scores(asked(["A dull film.", "Great."])) == labels("A dull film.", "Great.")
    assert [scores(each) for each in asked([["A dull film."]])] == [labels("A dull film.")]
    assert server.post("/predict", {"inputs": ["a", "b", "c"]}).status_code == 422


def test_labels_come_likeliest_first(server, alone):
    found = server.post("/predict", {"inputs": [["A dull film."], ["Great actors."]]}).json()
    for row, wanted in zip(
        found, alone("sentiment").classify(["A dull film.", "Great actors."]), strict=True
    ):
        assert row[0]["label"] == wanted.label
        assert {each["label"]: each["score"] for each in row} == pytest.approx(wanted.probabilities, rel=1e-3)
        assert row[0]["score"] >= row[1]["score"]
    assert server.post("/predict", {"inputs": "A dull film."}).json() == found[0]


def test_similarities_and_rankings_are_cosines(server, alone):
    query, *texts = alone("minilm").embed(["a ship", *TEXTS])
    wanted = [float(np.dot(query, text)) for text in texts]
    asked = {"inputs": {"source_sentence": "a ship", "sentences": TEXTS}}
    assert server.post("/similarity", asked).json() == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    order = sorted(range(3), key=lambda index: -wanted[index])
    found = server.post("/rerank", {"query": "a ship", "texts": TEXTS, "return_text": True}).json()
    assert [each["index"] for each in found] == order
    assert [each["text"] for each in found] == [TEXTS[index] for index in order]
    assert [each["score"] for each in found] == pytest.approx([wanted[index] for index in order], abs=1e-4)
    for documents in (TEXTS, [{"text": text} for text in TEXTS]):
        found = server.post("/v1/rerank", {"query": "a ship", "documents": documents, "top_n": 2}).json()
        assert [each["index"] for each in found["results"]] == order[:2]


def test_the_service_says_what_it_serves(server):
    found = server.get("/info").json()
    assert "minilm" in found["models"]
    assert found["max_client_batch_size"] == 256


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/embed", {"inputs": ""}),
        ("/embed", {"inputs": []}),
        ("/predict", {"inputs": [["a", "b", "c"]]}),
        ("/predict", {"inputs": [["a"], ["b", "c"]]}),
        ("/similarity", {"inputs": {"source_sentence": "a"}}),
        ("/rerank", {"texts": ["a"]}),
    ],
)
def test_a_mistake_is_told_in_the_shape_of_its_clients(server, path, fields):
    answered = server.post(path, fields)
    assert answered.status_code == 422
    assert {*answered.json()} == {"error", "error_type"}


def test_vectors_are_cut_where_that_is_asked_for(server, alone):
    wanted = alone("minilm").embed(["a ship"], dimensions=32)
    found = server.post("/embed", {"inputs": "a ship", "dimensions": 32}).json()
    assert_allclose(found, wanted, atol=1e-5)
    raw = server.post("/embed", {"inputs": "a ship", "dimensions": 32, "normalize": False}).json()
    assert_allclose(raw, alone("minilm").embed(["a ship"], normalised=False)[:, :32], rtol=1e-4, atol=1e-6)
    own = server.post("/v1/embed", {"texts": "a ship", "dimensions": 32}).json()["result"]["vector"]
    assert_allclose([own], wanted, atol=1e-5)
    assert server.post("/embed", {"inputs": "a ship", "dimensions": 385}).status_code in (400, 413, 422)
    assert server.post("/v1/embed", {"texts": "a ship", "dimensions": 385}).status_code == 400


def test_prompts_stand_before_what_is_asked_and_what_is_searched(models, tmp_path):
    folder = tmp_path / "prompted"
    shutil.copytree(models / "minilm", folder)
    (folder / "config_sentence_transformers.json").unlink(missing_ok=True)
    prompts = {"prompts": {"query": "Who asks? ", "passage": "It is said: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    model = regard.load(folder, regard.Embedder, device="cpu")
    with serving(f"e5={folder}") as server:
        for path, name, field, read in (
            ("/embed", "prompt_name", "inputs", lambda found: found),
            ("/v1/embed", "prompt", "texts", lambda found: [each["vector"] for each in found["results"]]),
            (
                "/v1/embeddings",
                "prompt",
                "input",
                lambda found: [each["embedding"] for each in found["data"]],
            ),
        ):
            for asked in ({}, {name: "query"}, {name: "passage"}, {name: ""}):
                found = read(server.post(path, {field: TEXTS, **asked}).json())
                wanted = model.embed(TEXTS, prompt=asked.get(name))
                assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
            refused = server.post(path, {field: TEXTS, name: "answer"})
            assert refused.status_code == 400
            assert "it has query, passage" in refused.text
        (about,) = server.get("/v1/about").json()["models"]
        assert about["prompts"] == {"query": "query", "passage": "passage"}
        ranked = server.post("/rerank", {"query": "a ship", "texts": TEXTS}).json()
        wanted = model.embed(TEXTS, prompt="passage") @ model.embed("a ship", prompt="query")
        for each in ranked:
            assert each["score"] == pytest.approx(float(wanted[each["index"]]), abs=1e-5)


def test_rankings_are_cosines_also_of_vectors_that_have_other_lengths(models, tmp_path):
    """Unless the model was trained for the dot product."""
    own = {"plain": {}, "dot": {"similarity_fn_name": "dot"}, "far": {"similarity_fn_name": "euclidean"}}
    for name, facts in own.items():
        folder = tmp_path / name
        shutil.copytree(models / "minilm", folder)
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        kept = [each for each in modules if not each["type"].endswith("Normalize")]
        assert len(kept) < len(modules)
        (folder / "modules.json").write_text(json.dumps(kept), encoding="utf-8")
        (folder / "config_sentence_transformers.json").write_text(json.dumps(facts), encoding="utf-8")
    service = Service([Named.of(f"{name}={tmp_path / name}") for name in own], device="cpu")
    query, *texts = regard.load(tmp_path / "plain", device="cpu").embed(["a ship", *TEXTS])
    lengths = np.linalg.norm(texts, axis=1) * np.linalg.norm(query)
    assert lengths.min() > 2
    wanted = {"plain": texts @ query / lengths, "dot": texts @ query}
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        asked = {"query": "a ship", "texts": TEXTS}
        for name, scores in wanted.items():
            found = client.post("/rerank", json={**asked, "model": name}).json()
            assert {each["index"]: each["score"] for each in found} == pytest.approx(
                dict(enumerate(scores)), rel=1e-3
            )
        refused = client.post("/rerank", json={**asked, "model": "far"})
    service.close()
    assert refused.status_code == 400
    assert "compared by euclidean" in refused.json()["error"]
