"""What translators made like the Transformer of the paper do not have: refused by the name of the setting."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from regard.hub.facts import Facts
from regard.hub.family import TranslatorFamily
from regard.hub.files import HubWarning
from regard.hub.names import Family
from regard.hub.translators import TranslatorCheckpoint
from regard.hub.writing import differing, require
from regard.settings.models import DecoderConfig, EncoderConfig
from regard.settings.network import Activation, PositionsConfig, TransformerConfig

ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "swish": "swish",
}
"""Ours, and theirs."""
EPS = 1e-5
"""Of their norms: that of torch."""


def check_sides(
    checkpoint: TranslatorCheckpoint, family: Family, positions: PositionsConfig, *, final_norm: bool
) -> None:
    """What translators made like these do not have, on either side."""
    config = checkpoint.config
    sides: dict[str, EncoderConfig | DecoderConfig] = {"encoder": config.encoder, "decoder": config.decoder}
    bodies = {name: _transformer(name, side) for name, side in sides.items()}
    for name, side in sides.items():
        body = bodies[name]
        _check_side(name, side, body, family, final_norm=final_norm)
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


def check_by_reading(checkpoint: TranslatorCheckpoint, family: TranslatorFamily) -> None:
    """What config.json would say is read again: a setting that is another one then has no place in it."""
    config = checkpoint.config
    for name, side in (("encoder", config.encoder), ("decoder", config.decoder)):
        _transformer(name, side)
    table = {family.keys[word]: value for word, value in family.words(checkpoint).items()}
    back = family.read(Facts(Path("config.json"), table, family))
    back = replace(back, decoder=replace(back.decoder, tied=config.decoder.tied))
    ours = replace(config, encoder=_written_out(config.encoder), decoder=_written_out(config.decoder))
    theirs = replace(back, encoder=_written_out(back.encoder), decoder=_written_out(back.decoder))
    for path, own, other in differing(ours, theirs):
        remedy = f"train with model.{path}={other!r}"
        require(False, f"{path}={own!r}", f"{family.stem}'s is {other!r}", remedy)


Side = TypeVar("Side", EncoderConfig, DecoderConfig)


def _written_out(side: Side) -> Side:
    """What is left to others is named, and what the kind of positions has no use for is as usual."""
    body = _transformer("", side)
    attention, inner, norm, positions = body.attention, body.feed_forward, body.norm, side.positions
    d_head = attention.width(side.d_model)
    attention = replace(
        attention,
        d_head=d_head,
        d_value=attention.d_value or d_head,
        kv_heads=attention.kv_heads or attention.heads,
        output_bias=attention.biased_output,
    )
    final = norm.place == "pre" if body.final_norm is None else body.final_norm
    inner = replace(inner, d_ff=inner.d_ff or 4 * side.d_model)
    if positions.kind == "relative":
        usual = PositionsConfig()
        names = ("base", "sinusoids", "longest", "first")
        positions = replace(positions, **{name: getattr(usual, name) for name in names})
    body = replace(body, attention=attention, feed_forward=inner, final_norm=final)
    return replace(side, body=body, positions=positions)


def _transformer(name: str, side: EncoderConfig | DecoderConfig) -> TransformerConfig:
    body = side.body
    if not isinstance(body, TransformerConfig):
        require(False, f"{name}.body.kind='recurrent'", "theirs are Transformers", "train another preset")
        raise TypeError("a recurrent body was let through")
    return body


def _check_side(
    name: str,
    side: EncoderConfig | DecoderConfig,
    body: TransformerConfig,
    family: Family,
    *,
    final_norm: bool,
) -> None:
    attention, inner, norm = body.attention, body.feed_forward, body.norm
    d_head = attention.width(side.d_model)
    widths = (attention.kv_heads or attention.heads, attention.heads * d_head, attention.d_value or d_head)
    plain = widths == (attention.heads, side.d_model, d_head) and not attention.scored and attention.bias
    plain = plain and attention.scale is None
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
            inner.activation in ACTIVATIONS,
            f"{name}.body.feed_forward.activation={inner.activation!r}",
            f"theirs is one of {', '.join(ACTIVATIONS)}",
            "train with model.activation=swish",
        ),
        (inner.bias, f"{name}.body.feed_forward.bias=false", "they have biases", "train with them"),
        (norm.kind == "layer", f"{name}.body.norm.kind={norm.kind!r}", "theirs is layer", "train with it"),
        (norm.bias, f"{name}.body.norm.bias=false", "theirs have biases", "train with them"),
        (body.first_norm, f"{name}.body.first_norm=false", "theirs have one", "train with it"),
        (norm.eps == EPS, f"{name}.body.norm.eps={norm.eps:g}", f"theirs is {EPS:g}", "train with it"),
        (
            final == final_norm,
            f"{name}.body.final_norm={final}",
            f"{family.stem} has {'one' if final_norm else 'none'}",
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
            stacklevel=7,
        )


def check_whole(
    checkpoint: TranslatorCheckpoint,
    family: TranslatorFamily,
    *,
    start: Literal["pad", "end"],
    head_bias: bool,
) -> None:
    config = checkpoint.config
    encoder, decoder = config.encoder, config.decoder
    tokens = checkpoint.tokenizer.target.ids
    first = getattr(tokens, start)
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
            not decoder.head_scaled,
            "decoder.head_scaled=true",
            "their states are not scaled before the output",
            "train with model.decoder.head_scaled=false",
        ),
        (
            decoder.head_bias == head_bias,
            f"decoder.head_bias={decoder.head_bias}",
            f"{family.stem} has {'one' if head_bias else 'none'}",
            f"train with model.decoder.head_bias={str(head_bias).lower()}",
        ),
        (
            first is not None and tokens.start == first,
            f"the start token {checkpoint.tokenizer.target.specials.start!r}",
            f"{family.stem} starts from its {start} token",
            f"start the training from a {family.stem} folder, whose tokenizer has it so",
        ),
        (
            checkpoint.marks == family.marks,
            f"marks={checkpoint.marks!r}",
            f"{family.stem} is told languages otherwise",
            f"start the training from a {family.stem} folder",
        ),
    ):
        require(holds, setting, rule, remedy)
