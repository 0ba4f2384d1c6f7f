"""T5 (Raffel et al. 2020), T5 1.1 and FLAN-T5; and mT5 (Xue et al. 2021), which is T5 1.1 for 101 languages.

    norm        RMSNorm, before the layer, and one at the end; no biases anywhere
    scores      q . k, not divided by sqrt(d_head), and a bias by distance: one table for all layers of a side
    widths      d_head is a setting of its own
    gate        none in T5; GELU by its tanh approximation, from 1.1 on
    output      T5: the embedding, and states are divided by sqrt(d_model) before it; from 1.1 on a matrix
    start       the pad token
    task        in words before the source: "summarize: "

The tokenizer is tokenizer.json, or spiece.model and its sentinels behind it, <extra_id_99> to <extra_id_0>;
mT5's has none. What transformers 5 writes as `tie_word_embeddings` says nothing about T5's output matrix: one
that is there and differs from the embedding is used. Whether states are divided is `scale_decoder_outputs`
or, where that is missing, whether `tie_word_embeddings` is not false; mT5's never are.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import tokenizers
import torch
from tokenizers import AddedToken, models, processors
from torch import Tensor

from regard.hub.facts import Facts
from regard.hub.families import marian
from regard.hub.family import TranslatorFamily
from regard.hub.files import HubError, read_json, write_json
from regard.hub.names import Family
from regard.hub.pieces import LIMIT, Pieces, named_tokens, specials_of
from regard.hub.translator_checks import check_by_reading
from regard.hub.translators import TranslatorCheckpoint
from regard.hub.vocabularies import MAKE, parted_by_space, unigram_file
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
from regard.text.specials import template

_FAST, _PIECES = "tokenizer.json", "spiece.model"
_OUTPUT = "lm_head.weight"
_SENTINEL = re.compile(r"<extra_id_\d+>")
_CLASSES = ("T5Tokenizer", "MT5Tokenizer", "PreTrainedTokenizer", "TokenizersBackend")
_INNER: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
    "gated-gelu": "geglu_tanh",
    "gated-gelu_new": "geglu_tanh",
    "gated-silu": "swiglu",
    "gated-swish": "swiglu",
}
"""What feed_forward_proj means; of two, the first is the one that is written."""
_ROWS = 512
"""What n_positions says at least. It is no limit: distances are what T5 knows."""


def _read(facts: Facts[Family]) -> Seq2SeqConfig:
    d_model, heads, d_head = (facts.count(word) for word in ("d_model", "heads", "d_head"))
    dropout = facts.number("dropout")
    both: dict[str, Any] = {
        "vocabulary": facts.count("vocabulary"),
        "d_model": d_model,
        "embedding": EmbeddingConfig(scaled=False, dropout=dropout),
        "positions": PositionsConfig(
            kind="relative", shared=True, buckets=facts.count("buckets"), reach=facts.count("reach")
        ),
        "initial": InitialConfig(scheme="normal"),
    }
    body = TransformerConfig(
        layers=facts.count("encoder_layers"),
        attention=AttentionConfig(
            heads=heads, d_head=None if heads * d_head == d_model else d_head, bias=False, scale=1.0
        ),
        feed_forward=FeedForwardConfig(
            d_ff=facts.count("d_ff"), activation=_activation(facts), bias=False, dropout=dropout
        ),
        norm=NormConfig(kind="rms", place="pre", eps=facts.number("eps")),
        dropout=dropout,
    )
    own = facts.get("decoder_layers") is not None
    layers = facts.count("decoder_layers") if own else body.layers
    return Seq2SeqConfig(
        encoder=EncoderConfig(body=body, **both),
        decoder=DecoderConfig(
            body=replace(body, layers=layers), tied=True, head_scaled=_scaled(facts), **both
        ),
        shared=True,
    )


def _activation(facts: Facts[Family]) -> Activation:
    value = facts.get("activation")
    if not isinstance(value, str) or value not in _INNER:
        raise HubError(f"{facts.path}: feed_forward_proj={value!r:.60} is none of {', '.join(_INNER)}")
    gate, _, name = value.rpartition("-")
    meant = {"dense": "gelu_new" if value == "gated-gelu" else name, "gated": bool(gate)}
    for word, own in meant.items():
        if facts.get(word) not in (None, own):
            raise HubError(
                f"{facts.path}: {facts.family.keys[word]}={facts.get(word)!r:.60}, but feed_forward_proj="
                f"{value!r} means {own!r}: take one of the two out"
            )
    return _INNER[value]


def _scaled(facts: Facts[Family]) -> bool:
    if "scaled" not in facts.family.keys:
        return False
    if facts.get("scaled") is None:
        return facts.get("tied") is not False
    return facts.flag("scaled")


def _settled(config: Seq2SeqConfig, tensors: Mapping[str, Tensor]) -> Seq2SeqConfig:
    return replace(config, decoder=replace(config.decoder, tied=_OUTPUT not in tensors))


def _ours(tensors: dict[str, Tensor], facts: Facts[Family], where: Path) -> dict[str, Tensor]:
    found = dict(tensors)
    output = found.pop(_OUTPUT, None)
    found = marian.one_name_each(found, facts, where)
    if output is not None and not torch.equal(found.setdefault("shared.weight", output), output):
        found[_OUTPUT] = output
    return found


def _theirs(tensors: dict[str, Tensor], config: Seq2SeqConfig) -> dict[str, Tensor]:
    """Older versions of transformers look for an output matrix where states are not scaled."""
    if not config.decoder.tied or config.decoder.head_scaled:
        return tensors
    return {**tensors, _OUTPUT: tensors["shared.weight"].clone()}


def _kind(config: Seq2SeqConfig) -> str:
    body = cast(TransformerConfig, config.decoder.body)
    tied = "tied" if config.decoder.tied else "untied"
    return f"{tied}, gated" if body.feed_forward.activation in ("geglu_tanh", "swiglu") else tied


def _words(checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    config, tokens = checkpoint.config, checkpoint.tokenizer.ids
    encoder, decoder = (cast(TransformerConfig, side.body) for side in (config.encoder, config.decoder))
    inner, positions, d_model = encoder.feed_forward, config.encoder.positions, config.encoder.d_model
    activation = next((theirs for theirs, ours in _INNER.items() if ours == inner.activation), "relu")
    words = {
        "vocabulary": config.encoder.vocabulary,
        "d_model": d_model,
        "d_head": encoder.attention.width(d_model),
        "d_ff": inner.d_ff or 4 * d_model,
        "encoder_layers": encoder.layers,
        "decoder_layers": decoder.layers,
        "heads": encoder.attention.heads,
        "buckets": positions.buckets,
        "reach": positions.reach,
        "dropout": decoder.dropout,
        "eps": encoder.norm.eps,
        "activation": activation,
        "tied": config.decoder.head_scaled,
        "rows": max(checkpoint.longest, _ROWS),
        "pad": tokens.pad,
        "start": tokens.start,
        "end": tokens.end,
    }
    return words | {"scaled": config.decoder.head_scaled}


def _claims(checkpoint: TranslatorCheckpoint) -> bool:
    body = checkpoint.config.decoder.body
    distances = checkpoint.config.decoder.positions.kind == "relative"
    return distances and isinstance(body, TransformerConfig) and body.norm.kind == "rms"


def _check(checkpoint: TranslatorCheckpoint) -> None:
    require(checkpoint.config.shared, "shared=false", "T5's sides share one embedding", "train with true")
    check_by_reading(checkpoint, T5)
    tokenizer = checkpoint.tokenizer
    start, from_folder = tokenizer.specials.start, "start the training from a T5 folder"
    has = tokenizer.ids.start is not None and tokenizer.ids.start == tokenizer.ids.pad
    require(has, f"the start token {start!r}", "T5 starts from its pad token", from_folder)
    languages = ", ".join(checkpoint.languages)
    require(not languages, f"languages={languages}", "T5 is told them in words", from_folder)
    parts = [(tokenizer.state.get(part) or {}).get("type") for part in ("model", "pre_tokenizer")]
    cuts = parts == ["Unigram", "Sequence"]
    require(cuts, f"a tokenizer of the kind {parts[0]}", "T5's is SentencePiece's unigram", from_folder)


def _pieces(folder: Path, facts: Mapping[str, Any]) -> Pieces:
    named_class = str(facts.get("tokenizer_class") or _CLASSES[0])
    if named_class.removesuffix("Fast") not in _CLASSES:
        raise HubError(
            f"{folder}: tokenizer_class={named_class!r:.60} is not supported, only {_CLASSES[0]}: it cuts "
            "otherwise, or sets other tokens around a text"
        )
    named = named_tokens(facts)
    if (folder / _FAST).exists():
        rust = tokenizers.Tokenizer.from_str(json.dumps(_fast(folder / _FAST, named["eos"])))
    else:
        rust = _unigram(folder / _PIECES, named, facts.get("extra_ids", 100))
    state = json.loads(rust.to_str())
    numbers = rust.get_vocab()
    special = [each["content"] for each in state["added_tokens"] if each["special"]]
    sentinels = [token for token in numbers if _SENTINEL.fullmatch(token)]
    held = {*named.values()}
    extra = sorted({*special, *sentinels} - held, key=lambda token: numbers[token])
    for role, token in named.items():
        if token not in numbers:
            raise HubError(f"{folder}: {role}_token={token!r:.60} is not in the vocabulary; {MAKE}")
    specials = specials_of(named, start=named["pad"], extra=tuple(extra))
    rust.add_special_tokens([AddedToken(token, special=True) for token in specials])
    rust.post_processor = template(specials, numbers)
    return Pieces(Tokenizer(rust.to_str()))


def _fast(path: Path, end: str) -> dict[str, Any]:
    """A tokenizer.json that sets nothing but the end around a text."""
    state = read_json(path, LIMIT)
    processor = (state.get("post_processor") if isinstance(state, dict) else None) or {}
    single = processor.get("single", [{"Sequence": {}}])
    tokens = [piece["SpecialToken"]["id"] for piece in single if "SpecialToken" in piece]
    if processor.get("type", "TemplateProcessing") != "TemplateProcessing" or (
        tokens and (tokens != [end] or "SpecialToken" not in single[-1])
    ):
        raise HubError(f"{path}: post_processor sets other tokens around a text than T5's, which is {end!r}")
    return cast(dict[str, Any], state)


def _unigram(path: Path, named: Mapping[str, str], sentinels: Any) -> tokenizers.Tokenizer:
    if type(sentinels) is not int or not 0 <= sentinels <= 10_000:
        raise HubError(f"{path.parent}: extra_ids={sentinels!r:.60} must be a whole number from 0 to 10000")
    model = unigram_file(path, bytes=True)
    pieces = [*model.pieces, *((f"<extra_id_{place}>", 0.0) for place in reversed(range(sentinels)))]
    unknown = [piece for piece, _ in pieces].index(named["unk"])
    return parted_by_space(models.Unigram(pieces, unknown, model.byte_fallback), model)


def _write_pieces(folder: Path, checkpoint: TranslatorCheckpoint) -> Mapping[str, Any]:
    tokenizer = checkpoint.tokenizer
    end, sentinels = str(tokenizer.specials.end), tokenizer.specials.extra
    rust = tokenizers.Tokenizer.from_str(json.dumps(tokenizer.state))
    rust.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", end, "$B", end], special_tokens=[(end, tokenizer.require("end"))]
    )
    write_json(folder / _FAST, json.loads(rust.to_str()))
    count = sum(_SENTINEL.fullmatch(token) is not None for token in sentinels)
    named = {"additional_special_tokens": [*sentinels]} if sentinels else {}
    return {"tokenizer_class": _CLASSES[0], "extra_ids": count, **named}


_LAYERS = {
    "attention.project": "0.SelfAttention.q 0.SelfAttention.k 0.SelfAttention.v",
    "attention.output": "0.SelfAttention.o",
    "attention_residual.norm": "0.layer_norm",
}
_ACROSS = {
    "cross_attention.project_queries": "1.EncDecAttention.q",
    "cross_attention.project_memory": "1.EncDecAttention.k 1.EncDecAttention.v",
    "cross_attention.output": "1.EncDecAttention.o",
    "cross_residual.norm": "1.layer_norm",
}
_BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _named(side: str, table: Mapping[str, str]) -> dict[str, str]:
    """The names of a layer's parts, with the number of the sublayer there."""
    return {
        f"{side}.body.layers.#.{ours}.*": " ".join(
            f"{side}.block.#.layer.{each}.*" for each in theirs.split()
        )
        for ours, theirs in table.items()
    }


def _head(*, tied: bool, gated: bool) -> dict[str, str]:
    """What hangs on the output, and on the gate."""
    inner = "wi_0 wi_1" if gated else "wi"
    table = {"encoder.embedding.tokens.*": "shared.*"}
    for side, place in (("encoder", 1), ("decoder", 2)):
        parts = " ".join(f"{place}.DenseReluDense.{each}" for each in inner.split())
        table |= _named(side, {"feed_forward.inner": parts})
    return table if tied else {**table, "decoder.head.weight": _OUTPUT}


T5 = TranslatorFamily(
    name="t5",
    stem="T5",
    prefix="",
    buffers=("decoder.block.#.layer.1.EncDecAttention.relative_attention_bias.weight",),
    doubles=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", _OUTPUT),
    metadata="initializer_factor classifier_dropout num_hidden_layers feed_forward_dropout",
    body={
        **_named("encoder", _LAYERS),
        **_named("decoder", _LAYERS | _ACROSS),
        **{
            f"{side}.body.layers.#.feed_forward{ours}.*": f"{side}.block.#.layer.{place}.{theirs}.*"
            for side, place in (("encoder", 1), ("decoder", 2))
            for ours, theirs in ((".output", "DenseReluDense.wo"), ("_residual.norm", "layer_norm"))
        },
        **{
            f"{side}.body.layers.0.attention.bias.table.weight": f"{side}.{_BIAS}"
            for side in ("encoder", "decoder")
        },
        **{f"{side}.body.final_norm.*": f"{side}.final_layer_norm.*" for side in ("encoder", "decoder")},
    },
    heads={
        f"{'tied' if tied else 'untied'}{', gated' if gated else ''}": _head(tied=tied, gated=gated)
        for tied in (True, False)
        for gated in (True, False)
    },
    keys={
        "vocabulary": "vocab_size",
        "d_model": "d_model",
        "d_head": "d_kv",
        "d_ff": "d_ff",
        "encoder_layers": "num_layers",
        "decoder_layers": "num_decoder_layers",
        "heads": "num_heads",
        "buckets": "relative_attention_num_buckets",
        "reach": "relative_attention_max_distance",
        "dropout": "dropout_rate",
        "eps": "layer_norm_epsilon",
        "activation": "feed_forward_proj",
        "dense": "dense_act_fn",
        "gated": "is_gated_act",
        "tied": "tie_word_embeddings",
        "scaled": "scale_decoder_outputs",
        "rows": "n_positions",
        "pad": "pad_token_id",
        "start": "decoder_start_token_id",
        "end": "eos_token_id",
    },
    defaults={
        "vocabulary": 32128,
        "d_model": 512,
        "d_head": 64,
        "d_ff": 2048,
        "encoder_layers": 6,
        "heads": 8,
        "buckets": 32,
        "reach": 128,
        "dropout": 0.1,
        "eps": 1e-6,
        "activation": "relu",
        "rows": _ROWS,
        "pad": 0,
        "start": 0,
        "end": 1,
    },
    only={"is_encoder_decoder": [True]},
    architecture="T5ForConditionalGeneration",
    read=_read,
    settled=_settled,
    kind=_kind,
    claims=_claims,
    check=_check,
    words=_words,
    ours=_ours,
    theirs=_theirs,
    pieces=_pieces,
    write_pieces=_write_pieces,
    marks="source",
    before=1,
    never=False,
    sentences=False,
)
MT5 = replace(
    T5,
    name="mt5",
    stem="MT5",
    keys={word: key for word, key in T5.keys.items() if word != "scaled"},
    defaults={
        **T5.defaults,
        "vocabulary": 250112,
        "d_ff": 1024,
        "encoder_layers": 8,
        "heads": 6,
        "activation": "gated-gelu",
    },
    metadata=f"{T5.metadata} scale_decoder_outputs",
    architecture="MT5ForConditionalGeneration",
    claims=lambda checkpoint: (
        _claims(checkpoint)
        and not checkpoint.config.decoder.head_scaled
        and not any(map(_SENTINEL.fullmatch, checkpoint.tokenizer.vocabulary))
    ),
    words=lambda checkpoint: {word: value for word, value in _words(checkpoint).items() if word != "scaled"},
)
