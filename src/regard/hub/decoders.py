"""Language models of GPT-2's family: from its config.json to a configuration of ours, and back.

The shape is `regard.settings.presets.gpt`. What its config.json can say and that shape cannot do (scores not
scaled, or scaled by the layer; cross-attention) is refused by `regard.hub.keys`.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.hub.families import GPT2
from regard.hub.files import HubError, HubWarning
from regard.hub.reading import Facts
from regard.hub.writing import check_body, require
from regard.settings.models import DecoderConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.text import Tokenizer

_ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")
_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}


def check_architecture(facts: Facts) -> None:
    """A bare body will do: its output matrix is the embedding, if they are tied. Another head will not."""
    named = facts.table.get("architectures") or []
    if not isinstance(named, list):
        raise HubError(f"{facts.path}: architectures={named!r:.60} must be a list of names")
    if named and not any(name in _ARCHITECTURES for name in named):
        raise HubError(
            f"{facts.path}: architectures={named!r:.60} has a head that is not read here, only "
            f"{' and '.join(_ARCHITECTURES)} are: save its body by itself, with transformers, as a GPT2Model"
        )


def tie(tensors: dict[str, Tensor], facts: Facts) -> bool:
    """Whether the output matrix is the embedding, as transformers sees it: one that is there and differs
    stays one of its own, whatever the configuration says. A double of a tied one is taken out."""
    rows, output = (tensors.get(name) for name in ("wte.weight", "lm_head.weight"))
    if not facts.tied or (rows is not None and output is not None and not torch.equal(rows, output)):
        return False
    if output is not None:
        tensors["wte.weight"] = tensors.pop("lm_head.weight")
    return True


def read_decoder_config(facts: Facts, *, tied: bool) -> DecoderConfig:
    try:
        d_model = facts.count("d_model")
        return DecoderConfig(
            vocabulary=facts.count("vocabulary"),
            d_model=d_model,
            embedding=EmbeddingConfig(scaled=False, dropout=facts.number("embedding_dropout")),
            positions=PositionsConfig(kind="learned", longest=facts.count("rows")),
            body=TransformerConfig(
                layers=facts.count("layers"),
                attention=AttentionConfig(heads=facts.count("heads")),
                feed_forward=FeedForwardConfig(
                    d_ff=4 * d_model if facts.get("d_ff") is None else facts.count("d_ff"),
                    activation=facts.activation(),
                ),
                norm=NormConfig(place="pre", eps=facts.number("eps")),
                dropout=facts.number("dropout"),
            ),
            tied=tied,
            initial=InitialConfig(scheme="normal", std=facts.number("std"), shrink_residuals=True),
        )
    except HubError:
        raise
    except ValueError as error:
        raise HubError(f"{facts.path}: {error}") from error


def check_decoder(config: DecoderConfig) -> TransformerConfig:
    """An error names the setting that GPT-2's family does not have."""
    body, embedding = check_body(config), config.embedding
    norm, inner = body.norm, body.feed_forward
    first = config.positions.first
    for holds, setting, rule, remedy in (
        (
            not embedding.normed,
            "embedding.normed=true",
            "GPT-2 does not normalise the sum",
            "decoder.embedding.normed=false",
        ),
        (
            embedding.segments == 0,
            f"embedding.segments={embedding.segments}",
            "GPT-2 has none",
            "decoder.embedding.segments=0",
        ),
        (
            first == 0,
            f"positions.first={first}",
            "GPT-2 counts positions from 0",
            "decoder.positions.first=0",
        ),
        (norm.place == "pre", f"norm.place={norm.place!r}", "GPT-2's is pre", "norm=pre"),
        (
            body.final_norm is not False,
            "body.final_norm=false",
            "GPT-2 has one",
            "decoder.body.final_norm=true",
        ),
        (not config.head_bias, "head_bias=true", "GPT-2's output has none", "decoder.head_bias=false"),
    ):
        require(holds, setting, rule, f"train with model.{remedy}")
    if inner.dropout:
        warnings.warn(
            f"feed_forward.dropout={inner.dropout} has no place in the folder", HubWarning, stacklevel=4
        )
    return body


def decoder_facts(
    config: DecoderConfig, body: TransformerConfig, tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """What config.json says."""
    d_ff = body.feed_forward.d_ff
    words = {
        "vocabulary": config.vocabulary,
        "d_model": config.d_model,
        "layers": body.layers,
        "heads": body.attention.heads,
        "d_ff": None if d_ff == 4 * config.d_model else d_ff,
        "activation": _ACTIVATIONS[body.feed_forward.activation],
        "dropout": body.dropout,
        "embedding_dropout": config.embedding.dropout,
        "attention_dropout": body.attention.dropout,
        "rows": config.positions.longest,
        "eps": body.norm.eps,
        "std": config.initial.std,
        "pad": None if tokenizer is None else tokenizer.ids.pad,
    }
    return {
        "model_type": GPT2.name,
        "architectures": [_ARCHITECTURES[0]],
        **{key: words[word] for word, key in GPT2.keys.items()},
        **generation_facts(tokenizer),
        "tie_word_embeddings": config.tied,
        "dtype": "float32",
    }


def generation_facts(tokenizer: Tokenizer | None) -> Mapping[str, Any]:
    """What generation_config.json says: where a text begins and ends, if that is known."""
    ids = None if tokenizer is None else tokenizer.ids
    return {"bos_token_id": ids and ids.start, "eos_token_id": ids and ids.end}
