"""From a configuration of ours to a config.json of Hugging Face, where a family has such a shape."""

import warnings
from typing import Any

from regard.hub.families import BERT, CLASSIFIERS, DISTILBERT, ROBERTA, TABLES, Family
from regard.hub.files import HubError, HubWarning
from regard.hub.reading import Problem
from regard.hub.weights import head_names
from regard.models.headed import HeadedConfig
from regard.settings.models import (
    ClassifyConfig,
    DecoderConfig,
    EmbedConfig,
    EncoderConfig,
    MaskedConfig,
    SpanConfig,
    TagConfig,
)
from regard.settings.network import TransformerConfig
from regard.text import Tokenizer

_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
_PROBLEMS = {ours: theirs for theirs, ours in TABLES["config"]["problems"].items()}
_ENDINGS = {kind: ending for ending, kind in TABLES["config"]["endings"].items()}


POOLED = ("first", "mean", "max", "last")
"""What sentence-transformers has, around any family."""


def family_of(config: HeadedConfig, tokenizer: Tokenizer) -> Family:
    """The family that has this shape; an error names the setting that none has, and the one that would do."""
    encoder = config.encoder
    body = _check_encoder(encoder)
    if encoder.positions.first:
        family = ROBERTA
        pad = tokenizer.ids.pad
        require(
            pad is not None and pad + 1 == encoder.positions.first,
            f"positions.first={encoder.positions.first}",
            f"RoBERTa counts positions from the id of its pad token + 1, and the tokenizer's is {pad}",
            "train with model.encoder.positions.first=0",
        )
        require(
            encoder.embedding.segments > 0,
            "embedding.segments=0",
            "RoBERTa has one or more",
            "train with model.encoder.embedding.segments=1",
        )
    elif encoder.embedding.segments == 0:
        family = DISTILBERT
        require(
            not encoder.pooler,
            "encoder.pooler=true",
            "DistilBERT, which has no segments, has no pooler",
            "train with model.encoder.embedding.segments=2, or without a pooler",
        )
        require(
            body.norm.eps == 1e-12,
            f"norm.eps={body.norm.eps}",
            "DistilBERT's is 1e-12",
            "train with model.encoder.embedding.segments=2, or with model.encoder.body.norm.eps=1e-12",
        )
    else:
        family = BERT
    _check_head(config, family, body)
    return family


def _check_encoder(encoder: EncoderConfig) -> TransformerConfig:
    body, embedding = check_body(encoder), encoder.embedding
    inner, norm = body.feed_forward, body.norm
    normed = "train with model.encoder.embedding.normed=true"
    require(embedding.normed, "embedding.normed=false", "they normalise the sum", normed)
    require(
        norm.place == "post", f"norm.place={norm.place!r}", "theirs is post", "train with model.norm=post"
    )
    final = "train with model.encoder.body.final_norm=false"
    require(not body.final_norm, "body.final_norm=true", "they have none", final)
    if inner.dropout or embedding.dropout != body.dropout:
        warnings.warn(
            f"the folder says dropout {body.dropout} for embedding and layers: feed_forward.dropout="
            f"{inner.dropout} and embedding.dropout={embedding.dropout} have no place in it",
            HubWarning,
            stacklevel=5,
        )
    return body


def check_body(config: EncoderConfig | DecoderConfig) -> TransformerConfig:
    """What no family has, encoders or decoders; the body, if it is one that some family has."""
    body = config.body
    side = "model.encoder" if isinstance(config, EncoderConfig) else "model.decoder"
    if not isinstance(body, TransformerConfig):
        kind, remedy = "body.kind='recurrent'", "train another preset, as model.preset=small"
        raise _refused(kind, "theirs are Transformers", remedy)
    attention, inner, norm, positions = body.attention, body.feed_forward, body.norm, config.positions
    d_head = attention.width(config.d_model)
    for holds, setting, rule, remedy in (
        (
            positions.kind == "learned",
            f"positions.kind={positions.kind!r}",
            "theirs are learned",
            "model.positions=learned",
        ),
        (
            not config.embedding.scaled,
            "embedding.scaled=true",
            "they do not scale",
            f"{side}.embedding.scaled=false",
        ),
        (
            attention.kv_heads in (None, attention.heads),
            f"attention.kv_heads={attention.kv_heads}",
            "all heads have keys of their own",
            f"{side}.body.attention.kv_heads={attention.heads}",
        ),
        (
            attention.heads * d_head == config.d_model,
            f"attention.d_head={attention.d_head}",
            "theirs is d_model / heads",
            f"{side}.body.attention.d_head={config.d_model // attention.heads}",
        ),
        (
            attention.d_value in (None, d_head),
            f"attention.d_value={attention.d_value}",
            "theirs is d_model / heads",
            f"{side}.body.attention.d_value={d_head}",
        ),
        (attention.bias, "attention.bias=false", "they have biases", f"{side}.body.attention.bias=true"),
        (
            not attention.scored,
            f"attention.score={attention.score!r}",
            "theirs is the scaled dot product",
            "model.score=scaled",
        ),
        (
            inner.activation in _ACTIVATIONS,
            f"feed_forward.activation={inner.activation!r}",
            f"theirs is one of {', '.join(_ACTIVATIONS)}",
            "model.activation=gelu",
        ),
        (inner.bias, "feed_forward.bias=false", "they have biases", f"{side}.body.feed_forward.bias=true"),
        (norm.kind == "layer", f"norm.kind={norm.kind!r}", "theirs is layer", "model.norm_kind=layer"),
    ):
        require(holds, setting, rule, f"train with {remedy}")
    require(
        body.window is None, f"body.window={body.window}", "theirs see everything", "train without a window"
    )
    pruned = "export the model as it was before pruning"
    require(body.kept_heads is None, "body.kept_heads", "theirs have all heads in every layer", pruned)
    return body


def _check_head(config: HeadedConfig, family: Family, body: TransformerConfig) -> None:
    match config.head:
        case MaskedConfig() as head:
            activation = "gelu" if family is ROBERTA else body.feed_forward.activation
            require(
                head.activation == activation,
                f"head.activation={head.activation!r}",
                f"{family.stem}'s would be {activation}",
                f"train with model.activation={head.activation}",
            )
            eps = f"train with model.encoder.body.norm.eps={head.eps}"
            require(head.eps == body.norm.eps, f"head.eps={head.eps}", f"theirs is {body.norm.eps}", eps)
            require(
                not head.next_sentence or family is BERT,
                "head.next_sentence=true",
                "of the families only BERT",
                "train with objective.next_sentence=false",
            )
        case ClassifyConfig() as head:
            pool, inner = CLASSIFIERS[family.name]
            if (head.pool.kind, head.inner) == (pool, inner):
                return
            other = f"head.inner={head.inner!r} behind " if head.pool.kind == pool else ""
            require(
                head.pool.kind in POOLED,
                f"{other}head.pool.kind={head.pool.kind!r}",
                f"{family.stem} classifies with pool.kind={pool!r}, inner={inner!r}; "
                f"sentence-transformers has the pools {', '.join(POOLED)}",
                f"train with head.pool={'pooler' if family is BERT else 'mean'}",
            )
        case TagConfig() as head:
            words = f"head.words={head.words!r}"
            require(head.words == "first", words, "there, tokens are tagged", "train with head.words=first")
        case SpanConfig() as head:
            require(
                not head.dropout or family is DISTILBERT,
                f"head.dropout={head.dropout}",
                "of the families only DistilBERT has some before its answers",
                "train with head.dropout=0",
            )
        case EmbedConfig() as head:
            require(
                head.pool.kind in POOLED,
                f"head.pool.kind={head.pool.kind!r}",
                f"sentence-transformers has {', '.join(POOLED)}",
                "train with head.pool=mean",
            )


def require(holds: bool, setting: str, rule: str, remedy: str) -> None:
    if not holds:
        raise _refused(setting, rule, remedy)


def _refused(setting: str, rule: str, remedy: str) -> HubError:
    return HubError(
        f"{setting} has no place in a Hugging Face folder ({rule}): {remedy}, or keep the model in a folder "
        "of regard"
    )


def config_facts(
    config: HeadedConfig, family: Family, tokenizer: Tokenizer, labels: tuple[str, ...], problem: Problem
) -> dict[str, Any]:
    """What config.json says."""
    encoder, head = config.encoder, config.head
    body = encoder.body
    if not isinstance(body, TransformerConfig):
        raise TypeError("family_of has let a recurrent body through")
    kind = "embed" if head_names(config, family) == "scored" else head.kind
    ending = "ForPreTraining" if isinstance(head, MaskedConfig) and head.next_sentence else _ENDINGS[kind]
    words = {
        "vocabulary": encoder.vocabulary,
        "d_model": encoder.d_model,
        "layers": body.layers,
        "heads": body.attention.heads,
        "d_ff": body.feed_forward.d_ff or 4 * encoder.d_model,
        "activation": _ACTIVATIONS[body.feed_forward.activation],
        "dropout": body.dropout,
        "attention_dropout": body.attention.dropout,
        "rows": encoder.positions.longest + encoder.positions.first,
        "segments": encoder.embedding.segments,
        "eps": body.norm.eps,
        "std": encoder.initial.std,
        "pad": tokenizer.ids.pad,
    }
    if isinstance(head, ClassifyConfig) or (isinstance(head, TagConfig) and family is not DISTILBERT):
        words["head_dropout"] = head.dropout
    if isinstance(head, SpanConfig):
        words["span_dropout"] = head.dropout
    facts: dict[str, Any] = {
        "model_type": family.name,
        "architectures": [f"{family.stem}{ending}"],
        **{key: words[word] for word, key in family.keys.items() if word in words},
        "bos_token_id": tokenizer.ids.start,
        "eos_token_id": tokenizer.ids.end,
        "tie_word_embeddings": not isinstance(head, MaskedConfig) or head.tied,
        "dtype": "float32",
    }
    if family is not DISTILBERT:
        facts["position_embedding_type"] = "absolute"
    return {**facts, **_label_facts(config, labels, problem)}


def _label_facts(config: HeadedConfig, labels: tuple[str, ...], problem: Problem) -> dict[str, Any]:
    match config.head:
        case ClassifyConfig(labels=count) | TagConfig(tags=count):
            names = labels or tuple(f"LABEL_{index}" for index in range(count))
            if len(names) != count or len(set(names)) != count:
                raise HubError(f"{len(names)} labels for {count} scores, or one twice: {names!r:.60}")
            named: dict[str, Any] = {
                "id2label": {str(index): name for index, name in enumerate(names)},
                "label2id": {name: index for index, name in enumerate(names)},
            }
            if isinstance(config.head, ClassifyConfig) or problem == "number":
                named["problem_type"] = _PROBLEMS[problem]
            return named
        case _:
            return {}
