"""The weights that are drawn are those that the pass used, token by token."""

import numpy as np
import pytest
import torch

from regard.data import pack
from regard.look.plot_weights import Attention, attention_of
from regard.look.words import Tokens
from tests.look.drawing import embedder
from tests.tasks.copying import translator
from tests.tasks.encoders import toys
from tests.tasks.language.scripted import generator

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("unchecked")


def specials(tokens: Tokens) -> list[str]:
    return [label for label, owner in zip(tokens.labels, tokens.owners, strict=True) if owner is None]


def test_the_weights_are_those_of_the_pass_token_by_token():
    model = embedder()
    found = attention_of(model, "red house", second="old dog")
    reader = model.reader
    encoding = reader.tokenizer.encode("red house", "old dog", template="cls")
    packed = pack([encoding.ids])
    reader.model.eval()
    places, longest = packed.layout.positions, packed.layout.longest
    x = reader.model.encoder.embedding(packed.ids, places, longest, torch.tensor(encoding.segments))
    with torch.no_grad():
        for layer, weights in zip(reader.model.encoder.body.each, found.weights, strict=True):
            residual = layer.attention_residual
            asked = residual.norm(x) if residual.place == "pre" else x
            (expected,) = layer.attention.weights(asked, packed.layout)
            np.testing.assert_allclose(weights, expected.numpy(), atol=1e-6)
            x = layer(x, packed.layout, reader.model.encoder.body.masks[0])
    assert len(found.queries) == len(encoding.ids)
    assert specials(found.keys) == ["[CLS]", "[SEP]", "[SEP]"]


def test_the_second_text_is_read_as_one():
    model = embedder()
    one = attention_of(model, "sun tree", second="tree")
    with torch.no_grad():
        model.reader.model.encoder.embedding.segments.weight[1] += torch.randn(16)
    other = attention_of(model, "sun tree", second="tree")
    assert np.abs(one.weights[0] - other.weights[0]).max() > 1e-3


@pytest.mark.parametrize("family", ["transformer, sinusoidal", "transformer, modern", "transformer, alibi"])
def test_a_translator_shows_three_attentions(family: str):
    model = translator(family)
    source, target = "silver bridge", "garden"
    ids = len(model.tokenizer.encode(source).ids)
    written = len(model.tokenizer.encode(target).ids)
    expected = {
        "encoder": (ids + 1, ids + 1),
        "decoder": (written + 1, written + 1),
        "cross": (written + 1, ids + 1),
    }
    for side, shape in expected.items():
        found = attention_of(model, source, side=side, target=target)
        assert [layer.shape for layer in found.weights] == [(4, *shape)] * 2
        assert (len(found.queries), len(found.keys)) == shape
        for layer in found.weights:
            np.testing.assert_allclose(layer.sum(axis=2), 1, atol=1e-5)
            if side == "decoder":
                assert np.abs(np.triu(layer, 1)).max() == 0
    assert specials(found.keys) == ["<eos>"] == [found.keys.labels[-1]]
    assert specials(found.queries) == ["<sos>"] == [found.queries.labels[0]]


def test_without_a_target_it_is_the_models_own_translation():
    model = translator()
    found = attention_of(model, "silver bridge", side="cross")
    written = model.translate("silver bridge").text
    forced = attention_of(model, "silver bridge", side="cross", target=written)
    assert found.queries == forced.queries
    np.testing.assert_array_equal(found.weights[1], forced.weights[1])
    assert found.by_words().keys.labels == ("silver", "bridge", "<eos>")


def test_a_language_token_stands_before_the_source():
    model = translator("transformer, sinusoidal", "de", "fr")
    found = attention_of(model, "garden", to="fr")
    assert found.by_words().keys.labels == ("<2fr>", "garden", "<eos>")
    with pytest.raises(ValueError, match="say to which, one of de, fr"):
        attention_of(model, "garden")


def test_a_recurrent_decoder_has_one_attention_and_no_other():
    model = translator("lstm, additive")
    found = attention_of(model, "silver bridge", side="cross", target="garden")
    assert len(found.weights) == 1
    assert found.weights[0].shape[0] == 1
    np.testing.assert_allclose(found.weights[0].sum(axis=2), 1, atol=1e-5)
    for side in ("encoder", "decoder"):
        with pytest.raises(ValueError, match=f"{side} is recurrent"):
            attention_of(model, "garden", side=side)
    with pytest.raises(ValueError, match="does not attend"):
        attention_of(translator("lstm, no attention"), "garden", side="cross")


def test_a_language_model_looks_back():
    model = generator()
    found = attention_of(model, "The cat")
    assert found.what == "self-attention of the decoder"
    assert np.abs(np.triu(found.weights[0], 1)).max() == 0
    own = zip(found.keys.labels, found.keys.owners, strict=True)
    assert "".join(label.removeprefix("##") for label, owner in own if owner is not None) == "Thecat"


@pytest.mark.parametrize("options", [{"side": "cross"}, {"target": "x"}, {"to": "de"}])
def test_what_only_translators_have_is_refused(options):
    with pytest.raises(ValueError, match="this model has one side, its encoder"):
        attention_of(embedder(), "sun", **options)
    with pytest.raises(ValueError, match="reads one"):
        attention_of(translator(), "garden", second="x")


def test_a_model_in_training_is_asked_as_in_use_and_goes_on_training():
    model = embedder()
    calm = attention_of(model, "old river")
    model.reader.model.train()
    again = attention_of(model, "old river")
    np.testing.assert_array_equal(calm.weights[1], again.weights[1])
    assert all(part.training for part in model.reader.model.modules())
    assert not any(part._forward_pre_hooks for part in model.reader.model.modules())


def test_words_are_looked_at_as_much_as_their_tokens_and_look_as_they_do_on_average():
    tokens = Tokens(("[CLS]", "un", "##do"), (None, 0, 0), ("undo",))
    weights = np.array([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.7, 0.1, 0.2]]])
    merged = Attention("x", (weights,), tokens, tokens).by_words()
    np.testing.assert_allclose(merged.weights[0], [[[0.5, 0.5], [0.4, 0.6]]])
    assert merged.keys.labels == ("[CLS]", "undo")
    assert specials(merged.keys) == ["[CLS]"]


def test_tokens_say_the_letters_of_the_text_and_go_on_behind_hashes():
    own = toys.subwords()
    found = Tokens.of(own.encode("House rain", template="cls"), "House rain")
    assert "".join(label.removeprefix("##") for label in found.labels[1:-1]) == "Houserain"
    begins = [places[0] for _, places in found.units("keep")]
    assert [not label.startswith("##") for label in found.labels] == [i in begins for i in range(len(found))]
    assert found.words == ("House", "rain")
