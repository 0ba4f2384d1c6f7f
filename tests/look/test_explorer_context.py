"""What the page is told of a word in several sentences is what the encoder makes of it."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.layout import Layout
from regard.look.explorer.context import EXAMPLES, asked
from regard.look.explorer.explorer import Explorer, Refused
from regard.settings.models import EmbedConfig
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from tests.look.drawing import cosines, embedder
from tests.tasks import copying
from tests.tasks.encoders import toys

pytestmark = pytest.mark.usefixtures("unchecked")

SENTENCES = ["red house", "old dog sees house", "house likes river", "House, river"]


def states(model: Embedder, sentence: str, start: int, end: int) -> np.ndarray:
    """[layers, d_model]: the mean over the tokens that stand there, of this sentence alone."""
    encoding = model.reader.tokenizer.encode(sentence, template="cls")
    with torch.no_grad():
        ids = torch.tensor(encoding.ids)
        layers = model.reader.model.eval().layers(ids, Layout.of([len(ids)]))
    own = [
        place
        for place, (first, last) in enumerate(encoding.offsets)
        if encoding.texts[place] == 0 and start <= first < last <= end
    ]
    return torch.stack([layer[own].mean(dim=0) for layer in layers]).double().numpy()


def vectors(model: Embedder, answer: dict) -> np.ndarray:
    """[layers, sentences, d_model], of length 1."""
    each = [states(model, text, *span) for text, span in zip(SENTENCES, answer["spans"], strict=True)]
    found = np.stack(each, axis=1)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_cosines_are_those_of_the_models_states():
    model = embedder()
    answer = Explorer(model).ask("context", {"word": " house ", "sentences": SENTENCES})
    assert answer["word"] == "house"
    assert answer["spans"] == [[4, 9], [13, 18], [0, 5], [0, 5]]
    assert answer["pairs"] == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    for layer, own in enumerate(vectors(model, answer)):
        expected = cosines(own)
        assert answer["cosines"][layer] == pytest.approx(
            [expected[one, other] for one, other in answer["pairs"]], abs=1e-5
        )


def test_the_map_has_what_it_says_of_the_variance_and_distances_no_larger_than_the_vectors():
    model = embedder()
    answer = Explorer(model).ask("context", {"word": "house", "sentences": SENTENCES})
    points = np.array(answer["points"])
    assert points.shape == (3, 4, 2)
    for layer, own in enumerate(vectors(model, answer)):
        np.testing.assert_allclose(points[layer].mean(axis=0), 0, atol=1e-6)
        centred = own - own.mean(axis=0)
        spread = np.linalg.eigvalsh(centred @ centred.T)[::-1]  # PCA's best two, by another way
        assert (points[layer] ** 2).sum() == pytest.approx(spread[:2].sum(), abs=1e-5)
        assert answer["shares"][layer] == pytest.approx(spread[:2].sum() / spread.sum(), abs=1e-5)
        for (one, other), cosine in zip(answer["pairs"], answer["cosines"][layer], strict=True):
            apart = ((points[layer, one] - points[layer, other]) ** 2).sum()
            assert apart <= 2 * (1 - cosine) + 1e-5


def test_no_turn_of_a_layer_brings_its_points_nearer_to_those_above():
    answer = Explorer(embedder()).ask("context", {"word": "house", "sentences": SENTENCES})
    for below, above in pairwise(np.array(answer["points"])):
        best = ((below - above) ** 2).sum()
        for angle in np.linspace(0, 2 * np.pi, 60, endpoint=False):
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            for mirror in (np.eye(2), np.diag([1.0, -1.0])):
                assert ((below @ turn @ mirror - above) ** 2).sum() >= best - 1e-6


def test_two_sentences_and_equal_ones_have_a_map_too():
    answer = Explorer(embedder()).ask("context", {"word": "sun", "sentences": ["the sun", "the sun"]})
    assert np.abs(np.array(answer["points"])).max() < 1e-4
    assert answer["cosines"] == [[pytest.approx(1)]] * 3


def test_every_reader_can_be_asked():
    reader = toys.reader(toys.model(vocabulary=len(toys.subwords())), own=toys.subwords())
    given = {"word": "dog", "sentences": ["red dog", "dog sees sun"]}
    answer = Explorer(Classifier(reader, ["a", "b", "c"])).ask("context", given)
    assert answer == Explorer(Embedder(reader)).ask("context", given)


@pytest.mark.parametrize(
    ("word", "sentences", "why"),
    [
        ("tree", ["a tree", "rain"], "sentence:2: the word 'tree' is not in it 'rain'"),
        ("tree", ["a tree"], "give two or more"),
        ("", ["a tree", "a tree"], "there is no word"),
        ("tree", [], "there is no sentence"),
        ("sun", ["sun"] * 17, "17 sentences: at most 16"),
        ("sun", ["sun", "sun " * 20_000], "characters"),
        ("sun", ["sun", "sun " * 600], "sentence 2 has .* tokens: at most 512"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(word: str, sentences: list[str], why: str):
    with pytest.raises(Refused, match=why):
        Explorer(embedder()).ask("context", {"word": word, "sentences": sentences})


def test_a_translator_has_no_words_in_context():
    own = Explorer(copying.translator())
    with pytest.raises(Refused, match="a translator has no encoder of texts"):
        own.ask("context", {"word": "a", "sentences": ["a", "a b"]})
    assert [*asked(own, "a", None, None)] == []


def test_a_saved_page_carries_the_examples_that_the_model_can_read():
    own = Explorer(embedder())
    found = [*asked(own, "any", None, None)]
    assert found[0] == ("context_examples", {})
    offered = own.ask(*found[0])["examples"]
    assert found[1:] == [("context", example) for example in offered]
    assert [example["word"] for example in offered] == list(EXAMPLES)
    short = Embedder(toys.reader(toys.model(EmbedConfig()), longest=6, own=toys.subwords()))
    assert [*asked(Explorer(short), "any", None, None)] == [("context_examples", {})]
