"""Translators of Hugging Face, MarianMT and M2M100 with NLLB: from their config.json to ours, and back.

Both are the Transformer of the paper. What they do their own way:

                MarianMT                              M2M100, NLLB
    norm        after the sum                         before the layer, and one at the end
    sinusoids   all sines, then all cosines           the same, with wavelengths up to 2 pi n, from place 2 on
    output      the embedding, and a bias             the embedding
    start       the pad token, whose row is zeros     the end token
    language    a token before the source, >>fra<<    the source's before the source, and the target's as
                                                      the first token that is written

A round trip keeps every tensor to the bit.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from regard.hub.families import M2M100, MARIAN, TABLES, Family
from regard.hub.files import HubError, HubWarning
from regard.hub.generation import Search
from regard.hub.reading import Facts
from regard.hub.weights import check_layers
from regard.hub.writing import require
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import (
    Activation,
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.text import Tokenizer

Marks = Literal["source", "both"]
_ARCHITECTURES = {MARIAN.name: "MarianMTModel", M2M100.name: "M2M100ForConditionalGeneration"}
_ACTIVATIONS: dict[str, Activation] = {
    **TABLES["config"]["activations"],
    "swish": "swish",
    "silu": "swish",
}
_THEIRS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "swish": "swish",
}
_BIAS = "final_logits_bias"
_FIRST = 2
"""Where M2M100's first token stands: behind the pad token's place, which is 1."""
_ROWS = 512
"""Places that a folder has room for, at least: a shorter `longest` stands with the tokenizer."""
_EPS = 1e-5
"""Of their norms: that of torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorCheckpoint(Search):
    """A translator of strangers in our words, or one of ours on the way to them; and how it is searched."""

    config: Seq2SeqConfig
    weights: dict[str, Tensor]
    """By the names of `Seq2Seq(config).named_parameters()`: these, and none besides."""
    tokenizer: Tokenizer
    longest: int
    """The most tokens of a source, special ones included."""
    languages: tuple[str, ...] = ()
    """Those that it writes, if it has to be told which."""
    marks: Marks = "source"
    """Where it is told: before the source alone, or the source's there and the target's before the target."""
    source_language: str | None = None
    """What it reads unless told otherwise, where it has to be told."""


def check_architecture(facts: Facts) -> None:
    named = facts.table.get("architectures") or []
    wanted = _ARCHITECTURES[facts.family.name]
    if not isinstance(named, list):
        raise HubError(f"{facts.path}: architectures={named!r:.60} must be a list of names")
    if named and wanted not in named:
        raise HubError(
            f"{facts.path}: architectures={named!r:.60} is no translator that is read here, only {wanted} "
            "is: save it as one with transformers"
        )


def one_name_each(tensors: dict[str, Tensor], facts: Facts, where: Path) -> dict[str, Tensor]:
    """Each tensor once: embeddings and output matrix are written several times where they are one. A bias of
    the output that is not there is zeros."""
    found = dict(tensors)
    shared = facts.get("shared") is not False
    names = ["shared.weight", *(f"{side}.embed_tokens.weight" for side in ("encoder", "decoder"))]
    ties = {"shared.weight": [*names, "lm_head.weight"]}
    if not shared:
        ties = {names[1]: [names[1]], names[2]: [names[2], "lm_head.weight"]}
        found.pop("shared.weight", None)  # the encoder's once more, in some files
    for name, doubles in ties.items():
        held = {each: found.pop(each) for each in doubles if each in found}
        first, *rest = held.items() or [("", None)]
        for other, tensor in cast(list[tuple[str, Tensor]], rest):
            if first[1] is None or not torch.equal(first[1], tensor):
                raise HubError(
                    f"{where}: {first[0]} and {other} should be one tensor, but differ: the model is not "
                    "tied as its family is; save it anew with transformers"
                )
        if first[1] is not None:
            found[name] = first[1]
    if facts.family is MARIAN:
        rows = facts.count("vocabulary") if shared else _target_rows(facts)
        bias = found.get(_BIAS, torch.zeros(1, rows))
        if bias.shape != (1, rows):
            raise HubError(
                f"{where}: {_BIAS} is {list(bias.shape)}, but config.json makes it [1, {rows}]; copy the "
                "folder anew"
            )
        found[_BIAS] = bias[0]
    return found


def their_shapes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The bias as they have it, with an axis more."""
    return {name: tensor[None] if name == _BIAS else tensor for name, tensor in tensors.items()}


def check_depth(tensors: Mapping[str, Tensor], facts: Facts, where: Path) -> None:
    for side in ("encoder", "decoder"):
        word = f"{side}_layers"
        start = f"{side}.layers."
        check_layers(tensors, facts.family, facts.count(word), where, start=start, key=word)


def _target_rows(facts: Facts) -> int:
    named = facts.get("target_vocabulary")
    return facts.count("vocabulary") if named is None else facts.count("target_vocabulary")


def read_translator_config(facts: Facts) -> Seq2SeqConfig:
    family = facts.family
    shared = facts.get("shared")
    if not isinstance(shared, bool) or not isinstance(facts.get("scaled"), bool):
        raise HubError(
            f"{facts.path}: {family.keys['shared']} and {family.keys['scaled']} must be true or false"
        )
    if shared and _target_rows(facts) != facts.count("vocabulary"):
        raise HubError(
            f"{facts.path}: {family.keys['target_vocabulary']}={_target_rows(facts)}, but the embeddings of "
            f"both sides are one ({family.keys['shared']}) of {facts.count('vocabulary')} rows"
        )
    if family is M2M100 and facts.count("pad", least=0) != 1:
        raise HubError(
            f"{facts.path}: pad_token_id={facts.get('pad')} is not supported, only 1: positions are counted "
            "from it"
        )
    try:
        embedding = EmbeddingConfig(scaled=bool(facts.get("scaled")), dropout=facts.number("dropout"))
        both: dict[str, Any] = {
            "d_model": facts.count("d_model"),
            "embedding": embedding,
            "positions": _positions(family),
            "initial": InitialConfig(scheme="normal", std=facts.number("std")),
        }
        return Seq2SeqConfig(
            encoder=EncoderConfig(vocabulary=facts.count("vocabulary"), body=_body(facts, "encoder"), **both),
            decoder=DecoderConfig(
                vocabulary=_target_rows(facts),
                body=_body(facts, "decoder"),
                tied=True,
                head_bias=family is MARIAN,
                **both,
            ),
            shared=shared,
        )
    except HubError:
        raise
    except ValueError as error:
        raise HubError(f"{facts.path}: {error}") from error


def _positions(family: Family) -> PositionsConfig:
    if family is MARIAN:
        return PositionsConfig(kind="sinusoidal", sinusoids="halves")
    return PositionsConfig(kind="sinusoidal", sinusoids="tensor2tensor", first=_FIRST)


def _body(facts: Facts, side: str) -> TransformerConfig:
    return TransformerConfig(
        layers=facts.count(f"{side}_layers"),
        attention=AttentionConfig(heads=facts.count(f"{side}_heads")),
        feed_forward=FeedForwardConfig(
            d_ff=facts.count(f"{side}_d_ff"),
            activation=_activation(facts),
            dropout=facts.number("inner_dropout"),
        ),
        norm=NormConfig(place="post" if facts.family is MARIAN else "pre", eps=_EPS),
        dropout=facts.number("dropout"),
    )


def _activation(facts: Facts) -> Activation:
    value = facts.get("activation")
    if not isinstance(value, str) or value not in _ACTIVATIONS:
        raise HubError(
            f"{facts.path}: {facts.family.keys['activation']}={value!r:.60} is none of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[value]


def check_specials(facts: Facts, tokenizer: Tokenizer) -> None:
    """That config.json and the tokenizer's files mean the same tokens."""
    target = tokenizer.target
    for word, token in (("start", target.ids.start), ("end", target.ids.end), ("pad", target.ids.pad)):
        if type(facts.get(word)) is not int or facts.get(word) != token:
            raise HubError(
                f"{facts.path}: {facts.family.keys[word]}={facts.get(word)!r:.60}, but in the vocabulary it "
                f"is {token}: they are not of one model"
            )


def translator_family(checkpoint: TranslatorCheckpoint) -> Family:
    """The family that has this shape; an error names the setting that neither has."""
    config = checkpoint.config
    sides: dict[str, EncoderConfig | DecoderConfig] = {"encoder": config.encoder, "decoder": config.decoder}
    bodies = {name: _transformer(name, side) for name, side in sides.items()}
    family = MARIAN if bodies["decoder"].norm.place == "post" else M2M100
    positions = _positions(family)
    for name, side in sides.items():
        body = bodies[name]
        _check_side(name, side, body, family)
        place, norm = body.norm.place, f"{name}.body.norm.place={body.norm.place!r}"
        require(
            place == bodies["decoder"].norm.place, norm, "both sides have one", "train with model.norm=post"
        )
        found = side.positions
        same = (found.kind, found.sinusoids, found.first, found.base) == (
            positions.kind,
            positions.sinusoids,
            positions.first,
            positions.base,
        )
        require(
            same,
            f"{name}.positions.kind={found.kind!r} with sinusoids={found.sinusoids!r}, first={found.first} "
            f"and base={found.base:g}",
            f"{family.stem}'s are sinusoidal, {positions.sinusoids}, from {positions.first}, with 10000",
            f"train with model.positions=sinusoidal, model.{name}.positions.sinusoids={positions.sinusoids}",
        )
    _check_whole(checkpoint, family)
    return family


def _transformer(name: str, side: EncoderConfig | DecoderConfig) -> TransformerConfig:
    body = side.body
    if not isinstance(body, TransformerConfig):
        require(False, f"{name}.body.kind='recurrent'", "theirs are Transformers", "train another preset")
        raise TypeError("a recurrent body was let through")
    return body


def _check_side(
    name: str, side: EncoderConfig | DecoderConfig, body: TransformerConfig, family: Family
) -> None:
    attention, inner, norm = body.attention, body.feed_forward, body.norm
    d_head = attention.width(side.d_model)
    widths = (attention.kv_heads or attention.heads, attention.heads * d_head, attention.d_value or d_head)
    plain = widths == (attention.heads, side.d_model, d_head) and not attention.scored and attention.bias
    final = norm.place == "pre" if body.final_norm is None else body.final_norm
    pruned = body.kept_heads is not None or body.kept_cross_heads is not None
    for holds, setting, rule, remedy in (
        (
            plain,
            f"{name}.body.attention={attention}",
            "all heads have keys and values of their own, d_model / heads wide, biases and scaled products",
            "train without these settings",
        ),
        (
            inner.activation in _THEIRS,
            f"{name}.body.feed_forward.activation={inner.activation!r}",
            f"theirs is one of {', '.join(_THEIRS)}",
            "train with model.activation=swish",
        ),
        (inner.bias, f"{name}.body.feed_forward.bias=false", "they have biases", "train with them"),
        (norm.kind == "layer", f"{name}.body.norm.kind={norm.kind!r}", "theirs is layer", "train with it"),
        (norm.eps == _EPS, f"{name}.body.norm.eps={norm.eps:g}", f"theirs is {_EPS:g}", "train with it"),
        (
            final == (family is M2M100),
            f"{name}.body.final_norm={final}",
            f"{family.stem} has {'one' if family is M2M100 else 'none'}",
            "train without the setting",
        ),
        (body.window is None, f"{name}.body.window={body.window}", "theirs see everything", "train without"),
        (not pruned, f"{name}.body.kept_heads", "theirs have all heads", "export the model before pruning"),
        (
            not side.embedding.normed,
            f"{name}.embedding.normed=true",
            "they have no norm there",
            "train without",
        ),
        (
            not side.embedding.segments,
            f"{name}.embedding.segments={side.embedding.segments}",
            "they have none",
            "train with 0",
        ),
    ):
        require(holds, setting, rule, remedy)
    if side.embedding.dropout != body.dropout:
        warnings.warn(
            f"the folder says dropout {body.dropout} for embedding and layers: {name}.embedding.dropout="
            f"{side.embedding.dropout} has no place in it",
            HubWarning,
            stacklevel=6,
        )


def _check_whole(checkpoint: TranslatorCheckpoint, family: Family) -> None:
    config = checkpoint.config
    encoder, decoder = config.encoder, config.decoder
    marian = family is MARIAN
    tokens = checkpoint.tokenizer.target.ids
    start = tokens.pad if marian else tokens.end
    activations = [_transformer("", side).feed_forward.activation for side in (encoder, decoder)]
    for holds, setting, rule, remedy in (
        (encoder.d_model == decoder.d_model, "d_model", "both sides have one", "train with one"),
        (
            activations[0] == activations[1],
            f"activations={activations}",
            "both sides have one",
            "train with one",
        ),
        (
            encoder.embedding.scaled == decoder.embedding.scaled,
            "embedding.scaled",
            "both sides scale, or none",
            "train with one",
        ),
        (
            decoder.tied,
            "decoder.tied=false",
            "their output matrix is the embedding",
            "train with model.tied=true",
        ),
        (
            decoder.head_bias == marian,
            f"decoder.head_bias={decoder.head_bias}",
            f"{family.stem} has {'one' if marian else 'none'}",
            f"train with model.decoder.head_bias={str(marian).lower()}",
        ),
        (
            config.shared or marian,
            "shared=false",
            "M2M100's sides share one embedding",
            "train with shared=true",
        ),
        (
            start is not None and tokens.start == start,
            f"the start token {checkpoint.tokenizer.target.specials.start!r}",
            f"{family.stem} starts from its {'pad' if marian else 'end'} token",
            f"start the training from a {family.stem} folder, whose tokenizer has it so",
        ),
        (
            checkpoint.marks == ("source" if marian else "both"),
            f"marks={checkpoint.marks!r}",
            f"{family.stem} is told languages otherwise",
            f"start the training from a {family.stem} folder",
        ),
    ):
        require(holds, setting, rule, remedy)


def translator_facts(checkpoint: TranslatorCheckpoint, family: Family) -> dict[str, Any]:
    """What config.json says."""
    config, tokens = checkpoint.config, checkpoint.tokenizer.target.ids
    encoder, decoder = (cast(TransformerConfig, side.body) for side in (config.encoder, config.decoder))
    words: dict[str, Any] = {
        "vocabulary": config.encoder.vocabulary,
        "target_vocabulary": config.decoder.vocabulary,
        "shared": config.shared,
        "d_model": config.encoder.d_model,
        **_sizes("encoder", encoder, config.encoder.d_model),
        **_sizes("decoder", decoder, config.decoder.d_model),
        "activation": _THEIRS[decoder.feed_forward.activation],
        "scaled": config.encoder.embedding.scaled,
        "dropout": decoder.dropout,
        "inner_dropout": decoder.feed_forward.dropout,
        "attention_dropout": decoder.attention.dropout,
        "rows": max(checkpoint.longest, _ROWS),
        "std": config.encoder.initial.std,
        "pad": tokens.pad,
        "start": tokens.start,
        "end": tokens.end,
    }
    if family is M2M100:
        words = {key: value for key, value in words.items() if key not in ("target_vocabulary", "shared")}
    return {
        "model_type": family.name,
        "architectures": [_ARCHITECTURES[family.name]],
        **{family.keys[word]: value for word, value in words.items()},
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _sizes(side: str, body: TransformerConfig, d_model: int) -> dict[str, int]:
    return {
        f"{side}_layers": body.layers,
        f"{side}_heads": body.attention.heads,
        f"{side}_d_ff": body.feed_forward.d_ff or 4 * d_model,
    }
