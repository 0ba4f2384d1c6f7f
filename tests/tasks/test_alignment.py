"""Alignment: the weights that the decoder used, brought to words."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data.packing import pack
from regard.models import Seq2Seq
from regard.settings.shape import TranslatorConfig
from regard.tasks.translation.alignment import (
    Alignment,
    check_attention,
    cross_attention,
    draw,
    target_spans,
    word_alignment,
)
from regard.text import Tokenizer, TokenizerConfig
from tests.models.families import BODIES
from tests.tasks.copying import copier, model, sentences

ATTENDING = [family for family in BODIES if family != "lstm, no attention"]
SOURCE, TARGET = [[7, 3, 9, 1], [4, 1]], [[2, 5, 6], [2, 8, 8, 8, 9]]


def remembered(translator, source):
    return translator.encoder.remember(source.ids, source.layout)


@pytest.mark.parametrize("family", ATTENDING)
def test_rows_are_weights_of_the_own_source_whatever_the_batch(family):
    translator = model(family, 16).eval()
    found = cross_attention(translator, remembered(translator, pack(SOURCE)), pack(TARGET))
    assert [tuple(each.shape) for each in found] == [(3, 4), (5, 2)]
    for each, source, target in zip(found, SOURCE, TARGET, strict=True):
        assert_close(each.sum(dim=1), torch.ones(len(target)))
        (alone,) = cross_attention(translator, remembered(translator, pack([source])), pack([target]))
        assert_close(each, alone)


@pytest.mark.parametrize("family", ["transformer, sinusoidal", "transformer, modern"])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_is_asked_from_the_input_that_it_had_in_the_pass(family, layer):
    translator = model(family, 16).eval()
    source, target = pack(SOURCE), pack(TARGET)
    asked = translator.decoder.body.each[layer].cross_attention
    seen = []
    with asked.register_forward_pre_hook(lambda module, inputs: seen.append(inputs)):
        translator(source.ids, source.layout, target.ids, target.layout)
    wanted = [weights.mean(dim=0) for weights in asked.weights(*seen[0])]
    assert_close(
        cross_attention(translator, remembered(translator, source), target, layer),
        [each.detach() for each in wanted],
    )


@pytest.mark.spec("6.2")
@pytest.mark.parametrize("family", ["lstm, additive", "gru, dot", "lstm, sinusoidal"])
def test_recurrent_weights_give_the_context_that_the_pass_had(family):
    translator = model(family, 16).eval()
    source, target = pack(SOURCE), pack(TARGET)
    seen = []

    def keep(module, inputs, output):
        seen.append((inputs[2], output))

    with translator.decoder.body.attention.register_forward_hook(keep):
        translator(source.ids, source.layout, target.ids, target.layout)
    ((values, context),) = seen
    found = cross_attention(translator, remembered(translator, source), target)
    parts = zip(found, source.layout.split(values), strict=True)
    assert_close(torch.cat([weights @ own for weights, own in parts]), context.detach())


@pytest.mark.parametrize(("layers", "default"), [(1, 0), (2, 1), (3, 2), (4, 2), (6, 4)])
def test_the_default_layer_is_the_last_or_in_a_deep_decoder_the_last_but_one(layers, default):
    config = TranslatorConfig(preset="tiny", layers=layers, d_model=8, d_ff=8, heads=2).build(16)
    assert check_attention(Seq2Seq(config)) == default


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="does not attend to the source"):
        check_attention(model("lstm, no attention", 16))
    with pytest.raises(ValueError, match="layer=2, but the decoder attends in 2"):
        check_attention(model("transformer, sinusoidal", 16), layer=2)


def test_tokens_become_words():
    """Source tokens of a word add up, target tokens of a word are averaged, rows are made to sum to 1."""
    weights = np.array([[0.1, 0.1, 0.3], [0.4, 0.2, 0.2], [0.0, 0.0, 0.5]])
    found = word_alignment(weights, "ab cd", [(0, 1), (1, 2), (3, 5)], "xy z", [(0, 1), (1, 2), (3, 4)])
    assert found.source_words == ("ab", "cd")
    assert found.target_words == ("xy", "z")
    first = (np.array([0.2, 0.3]) / 0.5 + np.array([0.6, 0.2]) / 0.8) / 2
    np.testing.assert_allclose(found.weights, [first, [0.0, 1.0]])
    assert str(found) == "0-0 1-1"


def test_a_threshold_adds_links():
    weights = np.array([[0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])
    spans = [(0, 1), (2, 3), (4, 5)]
    assert word_alignment(weights, "a b c", spans, "x y", spans[:2]).links == ((0, 0), (2, 1))
    found = word_alignment(weights, "a b c", spans, "x y", spans[:2], threshold=0.3)
    assert found.links == ((0, 0), (1, 0), (2, 1))


def test_a_word_that_no_token_wrote_has_no_link():
    found = word_alignment(np.array([[1.0]]), "a", [(0, 1)], "x y", [(0, 1)])
    assert found.links == ((0, 0),)
    assert found.weights.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "wordpiece", "characters", "words"])
def test_spans_of_written_tokens_are_those_of_the_text(kind):
    text = "the harbour and the mirror"
    tokenizer = Tokenizer.train([text] * 3, TokenizerConfig(kind=kind, vocabulary=330))
    encoded = tokenizer.encode(text)
    found, spans = target_spans(tokenizer, encoded.ids)
    assert found == text
    for (start, end), (own_start, own_end) in zip(spans, encoded.offsets, strict=True):
        assert (end - len(found[start:end].lstrip()), end) == (own_start, own_end) or found[start:end] == " "


def test_nothing_written_has_no_spans():
    tokenizer = Tokenizer.train(["ab ab"], TokenizerConfig(kind="bpe", vocabulary=300))
    assert target_spans(tokenizer, []) == ("", [])


def test_bytes_of_one_character_lie_where_it_is():
    tokenizer = Tokenizer.train(["ab ab"], TokenizerConfig(kind="bpe", vocabulary=300))
    ids = tokenizer.encode("ab 字 ab").ids
    text, spans = target_spans(tokenizer, ids)
    assert text == "ab 字 ab"
    pieces = [text[start:end] for start, end in spans]
    assert "".join(pieces) == text
    written = word_alignment(np.eye(len(ids)), text, tokenizer.encode(text).offsets, text, spans)
    assert written.links == ((0, 0), (1, 1), (2, 2))
    np.testing.assert_allclose(written.weights, np.eye(3))


@pytest.mark.spec("6.2")
@pytest.mark.usefixtures("unchecked")
def test_a_model_that_copies_aligns_each_word_with_itself():
    translator = copier()
    texts = sentences(30, seed=-1)
    diagonal = [tuple((i, i) for i in range(len(text.split()))) for text in texts]
    aligned = [translator.align(text, text).links for text in texts]
    assert sum(a == b for a, b in zip(aligned, diagonal, strict=True)) >= 28
    found = translator.translate(texts, align=True)
    right = [(each.alignment, wanted) for each, wanted in zip(found, diagonal, strict=True)]
    assert sum(a == b for a, b in right) >= 27


@pytest.mark.usefixtures("unchecked")
def test_words_are_aligned_line_by_line_where_that_is_asked():
    """From what the encoder has read already; a model with a hook reads it once more."""
    translator, texts = copier(), sentences(20, seed=-1)
    wanted = [number % 3 == 0 for number in range(len(texts))]
    found = [*translator.stream(texts, align=wanted, window=7)]
    hook = translator.model.register_forward_hook(lambda *_: None)
    alone = [translator.translate(text, align=True) for text in texts]
    hook.remove()
    assert [each.text for each in found] == [each.text for each in alone]
    expected = [each.alignment if links else None for each, links in zip(alone, wanted, strict=True)]
    assert [each.alignment for each in found] == expected


def test_the_picture_has_a_row_for_each_target_word_and_fits():
    words = tuple(f"word{i}" for i in range(12))
    picture = draw(Alignment(words, words[:10], np.eye(10, 12), tuple((i, i) for i in range(10))))
    lines = picture.split("\n")
    assert len(lines) == 6 + 10
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[6:]] == list(words[:10])
    assert all(line.count("█") == 3 for line in lines[6:])
    columns = [line.index("█") for line in lines[6:]]
    assert [lines[4][column] for column in columns] == ["d"] * 10
    assert "".join(lines[5][column] for column in columns) == "0123456789"


def test_a_picture_of_long_and_wide_words_stays_straight():
    words = ("Donaudampfschifffahrtsgesellschaft", "你好", "e\u0301t")
    lines = draw(Alignment(words, words, np.eye(3), ((0, 0), (1, 1), (2, 2)))).split("\n")
    assert len(lines) == 14 + 3
    assert lines[-3].startswith("Donaudampfschifff… ███")
    assert lines[-2].endswith("你好     ███")
    assert lines[-1].endswith("ét         ███")
