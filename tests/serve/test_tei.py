"""Text Embeddings Inference's door, and Cohere's ranking."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

TEXTS = ["A dog barks.", "Guten Morgen!", "The ship sails."]


def test_vectors_are_those_of_the_python_api(server, alone):
    model = alone("minilm")
    for inputs in (TEXTS, TEXTS[0]):
        wanted = model.embed([inputs] if isinstance(inputs, str) else inputs)
        found = server.post("/embed", {"inputs": inputs}).json()
        assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    found = server.post("/embed", {"inputs": TEXTS, "normalize": False}).json()
    assert_allclose(found, model.embed(TEXTS, normalised=False), rtol=1e-4, atol=1e-6)


def test_what_is_too_long_is_cut_only_if_that_is_asked_for(server, alone):
    text = "word " * 400
    assert server.post("/embed", {"inputs": text}).status_code == 400
    found = server.post("/embed", {"inputs": text, "truncate": True})
    assert_allclose(found.json(), alone("minilm").embed(["word " * 300], too_long="windows")[:1], atol=0.2)


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
