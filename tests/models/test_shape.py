from dataclasses import fields
from typing import Any

import pytest
import torch

from regard.config import ConfigError, from_dict, to_dict
from regard.models.encoder import Encoder
from regard.settings.models import EncoderConfig
from regard.settings.network import RecurrentConfig, TransformerConfig
from regard.settings.presets import ENCODERS
from regard.settings.shape import EncoderShape


@pytest.mark.parametrize("preset", ENCODERS)
def test_a_preset_alone_is_that_preset(preset: Any) -> None:
    assert EncoderShape(preset=preset).build(99) == ENCODERS[preset](99)


def test_each_word_reaches_its_fields_and_no_other() -> None:
    shape = EncoderShape(
        preset="tiny",
        layers=3,
        d_model=24,
        heads=4,
        d_ff=7,
        dropout=0.25,
        attention_dropout=0.5,
        activation="swiglu",
        activation_dropout=0.75,
        norm="pre",
        norm_kind="rms",
        positions="rotary",
        longest=77,
    )
    built, body = shape.build(50), shape.build(50).body
    assert isinstance(body, TransformerConfig)
    assert (built.vocabulary, built.d_model, built.positions.kind) == (50, 24, "rotary")
    assert built.positions.longest == 77
    assert (body.layers, body.attention.heads, body.feed_forward.d_ff) == (3, 4, 7)
    assert (body.dropout, built.embedding.dropout) == (0.25, 0.25)
    assert (body.attention.dropout, body.feed_forward.dropout) == (0.5, 0.75)
    assert body.feed_forward.activation == "swiglu"
    assert (body.norm.place, body.norm.kind) == ("pre", "rms")
    preset = ENCODERS["tiny"](50)
    assert built.embedding.segments == preset.embedding.segments == 2
    assert built.initial == preset.initial
    assert body.norm.eps == preset.body.norm.eps  # type: ignore[union-attr]


def test_a_recurrent_encoder_has_words_of_its_own() -> None:
    built = EncoderShape(preset="recurrent", cell="gru", layers=3, d_model=10, dropout=0.4).build(9)
    assert isinstance(built.body, RecurrentConfig)
    assert (built.body.cell, built.body.layers, built.body.dropout) == ("gru", 3, 0.4)
    assert (built.d_model, built.embedding.dropout, built.embedding.segments) == (10, 0.4, 2)


@pytest.mark.parametrize(
    ("preset", "word", "value", "wanted"),
    [
        *(("recurrent", word, 2, "Transformer") for word in ("heads", "d_ff")),
        ("recurrent", "attention_dropout", 0.1, "Transformer"),
        ("recurrent", "activation", "relu", "Transformer"),
        ("recurrent", "norm", "pre", "Transformer"),
        ("recurrent", "norm_kind", "rms", "Transformer"),
        ("tiny", "cell", "gru", "recurrent"),
    ],
)
def test_a_word_of_the_other_kind_is_refused_with_the_preset(
    preset: Any, word: str, value: Any, wanted: str
) -> None:
    with pytest.raises(ValueError, match=rf"{word}=.*is for a {wanted}.*preset='{preset}'"):
        EncoderShape(preset=preset, **{word: value})


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "huge"},
        {"preset": "tiny", "heads": 3},  # which does not divide 128
        {"preset": "tiny", "layers": -1},
        {"preset": "tiny", "dropout": 1.0},
        {"preset": "recurrent", "positions": "rotary"},
        {"preset": "tiny", "encoder": {"body": {"wnidow": 4}}},
        {"preset": "tiny", "positions": "nowhere"},
        {"frozen": 1},
        {"frozen": -1},
        {"frozen": -2, "start": "there"},
    ],
)
def test_what_cannot_be_is_told_at_birth(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        from_dict(EncoderShape, wrong)


def test_what_has_no_word_is_set_where_it_is_and_has_the_last_one() -> None:
    deep = {"body": {"window": 5, "layers": 1}, "pooler": True}
    built = EncoderShape(preset="tiny", layers=4, encoder=deep).build(9)
    assert isinstance(built.body, TransformerConfig)
    assert (built.body.window, built.body.layers, built.pooler) == (5, 1, True)


@pytest.mark.parametrize(
    "plain",
    [
        *({"preset": preset} for preset in ENCODERS),
        {"preset": "tiny", "positions": "alibi", "norm": "pre", "longest": 9, "heads": 4},
        {"preset": "recurrent", "cell": "gru", "positions": "learned", "longest": 40},
        {"preset": "base", "encoder": {"body": {"layers": 1, "window": 3}, "embedding": {"segments": 0}}},
        {"preset": "mini", "encoder": {"embedding": {"dropout": 0.6}}},
        {"start": "somewhere", "frozen": 2, "dropout": 0.3},
    ],
)
def test_a_shape_written_out_is_the_same_shape_and_stays_so_when_read_back(plain: dict[str, Any]) -> None:
    shape = from_dict(EncoderShape, plain)
    resolved = shape.resolved()
    again = from_dict(EncoderShape, to_dict(resolved))
    assert again == resolved == resolved.resolved()
    if not shape.start:
        assert again.build(33) == shape.build(33)


def test_a_resolved_shape_has_a_value_for_every_word_of_its_kind() -> None:
    silent = {"tiny": {"cell", "score"}, "recurrent": {spec.name for spec in fields(EncoderShape)}}
    silent["recurrent"] -= {"preset", "layers", "d_model", "dropout", "positions", "longest", "cell"}
    silent["recurrent"] -= {"start", "frozen", "encoder"}
    for preset, expected in silent.items():
        resolved = EncoderShape(preset=preset).resolved()  # type: ignore[arg-type]
        assert {spec.name for spec in fields(resolved) if getattr(resolved, spec.name) is None} == expected


@pytest.mark.parametrize(
    "word",
    [
        {"layers": 2},
        {"d_model": 8},
        {"heads": 1},
        {"positions": "rotary"},
        {"longest": 9},
        {"cell": "gru"},
        {"norm": "pre"},
        {"activation": "gelu"},
        {"encoder": {"pooler": True}},
    ],
)
def test_beside_a_start_no_shape_can_be_set(word: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"{next(iter(word))}=.* beside start='there'.*leave one"):
        from_dict(EncoderShape, {"start": "there", **word})


def changed(before: EncoderConfig, **words: Any) -> EncoderConfig:
    return EncoderShape(start="there", **words).changed(before)


def test_of_a_start_only_the_dropouts_change() -> None:
    before = ENCODERS["mini"](40)
    assert changed(before) == before
    after = changed(before, dropout=0.0, attention_dropout=0.2, activation_dropout=0.3)
    assert isinstance(after.body, TransformerConfig)
    assert (after.body.dropout, after.embedding.dropout, after.body.attention.dropout) == (0.0, 0.0, 0.2)
    assert after.body.feed_forward.dropout == 0.3
    undone = EncoderShape(preset="mini").build(40)
    assert changed(after, dropout=0.1, attention_dropout=0.0, activation_dropout=0.0) == undone


def test_of_a_recurrent_start_the_dropout_changes_and_what_it_has_not_is_refused() -> None:
    before = ENCODERS["recurrent"](40)
    after = changed(before, dropout=0.0)
    assert (after.body.dropout, after.embedding.dropout) == (0.0, 0.0)
    for word in ("attention_dropout", "activation_dropout"):
        with pytest.raises(ValueError, match=rf"{word}=0.2 .*recurrent"):
            changed(before, **{word: 0.2})


@pytest.mark.spec("1.6")
def test_positions_are_exchanged_by_one_word_and_tokens_are_seen_beside_either() -> None:
    torch.manual_seed(0)
    for kind in ("learned", "sinusoidal"):
        config = EncoderShape(preset="tiny", positions=kind).build(500)
        embedding = Encoder(config).embedding
        places = torch.arange(50)
        tokens = embedding.tokens(places) * embedding.scale
        positions = embedding.positions(places, 50)
        assert 0.5 < (tokens.std() / positions.std()).item() < 2
