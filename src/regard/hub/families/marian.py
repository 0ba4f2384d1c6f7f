"""MarianMT (Junczys-Dowmunt et al. 2018): the Transformer of the paper, and what translators made like it
share.

    norm        after the sum
    sinusoids   all sines, then all cosines
    output      the embedding, and a bias
    start       the pad token, whose row is zeros
    language    a token before the source, >>fra<<

Its tokenizer: source.spm and target.spm cut, vocab.json numbers the pieces of both sides (target_vocab.json
those that are written, if the sides have vocabularies of their own); >>fra<< are languages.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from regard.hub.facts import Facts
from regard.hub.family import TranslatorFamily
from regard.hub.files import HubError, write_json
from regard.hub.names import TABLES, Family
from regard.hub.pieces import VOCABULARY, Pieces, named_tokens, read_model, read_vocabulary, specials_of
from regard.hub.translator_checks import ACTIVATIONS, EPS, check_sides, check_whole
from regard.hub.translators import TranslatorCheckpoint
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
from regard.text.sentencepieces import is_pieces, model_files, piece_state

_SOURCE, _TARGET, _TARGET_VOCABULARY = "source.spm", "target.spm", "target_vocab.json"
_MARKS = re.compile(r">>(.+)<<")
_POSITIONS = PositionsConfig(kind="sinusoidal", sinusoids="halves")
_ACTIVATIONS: dict[str, Activation] = {
    **TABLES["config"]["activations"],
    "swish": "swish",
    "silu": "swish",
}
_BIAS = "final_logits_bias"
_ROWS = 512
"""Places that a folder has room for, at least: a shorter `longest` stands with the tokenizer."""

BODY = {
    f"{side}.body.layers.#.{ours}.*": " ".join(f"{side}.layers.#.{each}.*" for each in theirs.split())
    for side in ("encoder", "decoder")
    for ours, theirs in {
        "attention.project": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
        "attention.output": "self_attn.out_proj",
        "attention_residual.norm": "self_attn_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.output": "fc2",
        "feed_forward_residual.norm": "final_layer_norm",
    }.items()
}
BODY |= {
    f"decoder.body.layers.#.{ours}.*": " ".join(f"decoder.layers.#.{each}.*" for each in theirs.split())
    for ours, theirs in {
        "cross_attention.project_queries": "encoder_attn.q_proj",
        "cross_attention.project_memory": "encoder_attn.k_proj encoder_attn.v_proj",
        "cross_attention.output": "encoder_attn.out_proj",
        "cross_residual.norm": "encoder_attn_layer_norm",
    }.items()
}
BODY |= {f"{side}.body.final_norm.*": f"{side}.layer_norm.*" for side in ("encoder", "decoder")}
KEYS = {
    "vocabulary": "vocab_size",
    "target_vocabulary": "decoder_vocab_size",
    "shared": "share_encoder_decoder_embeddings",
    "d_model": "d_model",
    "encoder_layers": "encoder_layers",
    "encoder_heads": "encoder_attention_heads",
    "encoder_d_ff": "encoder_ffn_dim",
    "decoder_layers": "decoder_layers",
    "decoder_heads": "decoder_attention_heads",
    "decoder_d_ff": "decoder_ffn_dim",
    "activation": "activation_function",
    "scaled": "scale_embedding",
    "dropout": "dropout",
    "inner_dropout": "activation_dropout",
    "attention_dropout": "attention_dropout",
    "rows": "max_position_embeddings",
    "std": "init_std",
    "pad": "pad_token_id",
    "start": "decoder_start_token_id",
    "end": "eos_token_id",
}
DEFAULTS: dict[str, Any] = {
    "vocabulary": 58101,
    "shared": True,
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_heads": 16,
    "encoder_d_ff": 4096,
    "decoder_layers": 12,
    "decoder_heads": 16,
    "decoder_d_ff": 4096,
    "activation": "gelu",
    "scaled": False,
    "dropout": 0.1,
    "inner_dropout": 0.0,
    "attention_dropout": 0.0,
    "rows": 1024,
    "std": 0.02,
    "pad": 58100,
    "start": 58100,
    "end": 0,
}


def one_name_each(tensors: dict[str, Tensor], facts: Facts[Family], where: Path) -> dict[str, Tensor]:
    """Each tensor once: embeddings and output matrix are written several times where they are one."""
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
    return found


def _ours(tensors: dict[str, Tensor], facts: Facts[Family], where: Path) -> dict[str, Tensor]:
    """A bias of the output that is not there is zeros; theirs has an axis more."""
    found = one_name_each(tensors, facts, where)
    rows = facts.count("vocabulary") if facts.get("shared") is not False else _target_rows(facts)
    bias = found.get(_BIAS, torch.zeros(1, rows))
    if bias.shape != (1, rows):
        raise HubError(
            f"{where}: {_BIAS} is {list(bias.shape)}, but config.json makes it [1, {rows}]; copy the "
            "folder anew"
        )
    found[_BIAS] = bias[0]
    return found


def _theirs(tensors: dict[str, Tensor], config: Seq2SeqConfig) -> dict[str, Tensor]:
    return {name: tensor[None] if name == _BIAS else tensor for name, tensor in tensors.items()}


def _target_rows(facts: Facts[Family]) -> int:
    named = facts.get("target_vocabulary")
    return facts.count("vocabulary") if named is None else facts.count("target_vocabulary")


def read(
    facts: Facts[Family], *, place: Literal["pre", "post"], positions: PositionsConfig, head_bias: bool
) -> Seq2SeqConfig:
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
    both: dict[str, Any] = {
        "d_model": facts.count("d_model"),
        "embedding": EmbeddingConfig(scaled=bool(facts.get("scaled")), dropout=facts.number("dropout")),
        "positions": positions,
        "initial": InitialConfig(scheme="normal", std=facts.number("std")),
    }
    return Seq2SeqConfig(
        encoder=EncoderConfig(
            vocabulary=facts.count("vocabulary"), body=_body(facts, "encoder", place), **both
        ),
        decoder=DecoderConfig(
            vocabulary=_target_rows(facts),
            body=_body(facts, "decoder", place),
            tied=True,
            head_bias=head_bias,
            **both,
        ),
        shared=shared,
    )


def _body(facts: Facts[Family], side: str, place: Literal["pre", "post"]) -> TransformerConfig:
    return TransformerConfig(
        layers=facts.count(f"{side}_layers"),
        attention=AttentionConfig(heads=facts.count(f"{side}_heads")),
        feed_forward=FeedForwardConfig(
            d_ff=facts.count(f"{side}_d_ff"),
            activation=_activation(facts),
            dropout=facts.number("inner_dropout"),
        ),
        norm=NormConfig(place=place, eps=EPS),
        dropout=facts.number("dropout"),
    )


def _activation(facts: Facts[Family]) -> Activation:
    value = facts.get("activation")
    if not isinstance(value, str) or value not in _ACTIVATIONS:
        raise HubError(
            f"{facts.path}: {facts.family.keys['activation']}={value!r:.60} is none of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[value]


def words(checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    config, tokens = checkpoint.config, checkpoint.tokenizer.target.ids
    encoder, decoder = (cast(TransformerConfig, side.body) for side in (config.encoder, config.decoder))
    return {
        "vocabulary": config.encoder.vocabulary,
        "target_vocabulary": config.decoder.vocabulary,
        "shared": config.shared,
        "d_model": config.encoder.d_model,
        **_sizes("encoder", encoder, config.encoder.d_model),
        **_sizes("decoder", decoder, config.decoder.d_model),
        "activation": ACTIVATIONS[decoder.feed_forward.activation],
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


def _sizes(side: str, body: TransformerConfig, d_model: int) -> dict[str, int]:
    return {
        f"{side}_layers": body.layers,
        f"{side}_heads": body.attention.heads,
        f"{side}_d_ff": body.feed_forward.d_ff or 4 * d_model,
    }


def _pieces(folder: Path, facts: Mapping[str, Any]) -> Pieces:
    vocabulary = read_vocabulary(folder / VOCABULARY)
    separate = facts.get("separate_vocabs") is True
    target = read_vocabulary(folder / _TARGET_VOCABULARY) if separate else None
    languages = {found[1]: token for token in vocabulary if (found := _MARKS.fullmatch(token))}
    named = named_tokens(facts)
    specials = specials_of(named, start=named["pad"], extra=tuple(languages.values()))
    state = piece_state(
        read_model(folder / _SOURCE),
        vocabulary,
        specials,
        target=read_model(folder / _TARGET),
        target_vocabulary=target,
    )
    # with one alone, transformers sets nothing before a source
    return Pieces(Tokenizer(json.dumps(state)), tuple(languages) if len(languages) > 1 else ())


def _write_pieces(folder: Path, checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    tokenizer = checkpoint.tokenizer
    state = tokenizer.state
    if not is_pieces(state):
        raise HubError(
            "the tokenizer is no SentencePiece model, as MarianMT's are: start the training from a "
            "MarianMT folder, or keep the model in a folder of regard"
        )
    for name, content in zip((_SOURCE, _TARGET), model_files(state), strict=True):
        (folder / name).write_bytes(content)
    separate = tokenizer.target.vocabulary != tokenizer.vocabulary
    write_json(folder / VOCABULARY, dict(tokenizer.vocabulary))
    if separate:
        write_json(folder / _TARGET_VOCABULARY, dict(tokenizer.target.vocabulary))
    return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}


def _read(facts: Facts[Family]) -> Seq2SeqConfig:
    return read(facts, place="post", positions=_POSITIONS, head_bias=True)


def _check(checkpoint: TranslatorCheckpoint) -> None:
    check_sides(checkpoint, MARIAN, _POSITIONS, final_norm=False)
    check_whole(checkpoint, MARIAN, start="pad", head_bias=True)


MARIAN = TranslatorFamily(
    name="marian",
    stem="Marian",
    prefix="model.",
    buffers=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
    doubles=(
        "shared.weight",
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "lm_head.weight",
    ),
    metadata=(
        "classif_dropout encoder_layerdrop decoder_layerdrop num_hidden_layers static_position_embeddings"
    ),
    body=BODY,
    heads={
        "shared": {"encoder.embedding.tokens.*": "shared.*", "decoder.head.bias": _BIAS},
        "separate": {
            "encoder.embedding.tokens.*": "encoder.embed_tokens.*",
            "decoder.embedding.tokens.*": "decoder.embed_tokens.*",
            "decoder.head.bias": _BIAS,
        },
    },
    keys=KEYS,
    defaults=DEFAULTS,
    only={
        "is_encoder_decoder": [True],
        "tie_word_embeddings": [True],
        "normalize_before": [False],
        "normalize_embedding": [False],
        "add_final_layer_norm": [False],
        "add_bias_logits": [False],
        "static_position_embeddings": [True],
        "extra_pos_embeddings": [0],
        "do_blenderbot_90_layernorm": [False],
        "force_bos_token_to_be_generated": [False],
    },
    architecture="MarianMTModel",
    read=_read,
    claims=lambda checkpoint: True,
    check=_check,
    words=words,
    ours=_ours,
    theirs=_theirs,
    pieces=_pieces,
    write_pieces=_write_pieces,
    marks="source",
    before=1,
    never=True,
)
