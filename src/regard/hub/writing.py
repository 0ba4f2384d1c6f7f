"""From a configuration of ours to a config.json of Hugging Face, where a family has such a shape."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from regard.hub.facts import Facts
from regard.hub.family import EncoderFamily
from regard.hub.files import HubError
from regard.hub.names import TABLES
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

ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
_PROBLEMS = {ours: theirs for theirs, ours in TABLES["config"]["problems"].items()}
_ENDINGS = {kind: ending for ending, kind in TABLES["config"]["endings"].items()}


_NO_NETWORK = ("dropout", "initial", "kernel")
"""Settings that a trained model does not depend on."""
POOLED = ("first", "mean", "max", "last")
"""What sentence-transformers has, around any family."""


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
            positions.beside == "none",
            f"positions.beside={positions.beside!r}",
            "theirs have no bias",
            f"{side}.positions.beside=none",
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
            attention.scale is None,
            f"attention.scale={attention.scale}",
            "theirs is 1 / sqrt(d_head)",
            f"{side}.body.attention.scale left out",
        ),
        (
            inner.activation in ACTIVATIONS,
            f"feed_forward.activation={inner.activation!r}",
            f"theirs is one of {', '.join(ACTIVATIONS)}",
            "model.activation=gelu",
        ),
        (inner.bias, "feed_forward.bias=false", "they have biases", f"{side}.body.feed_forward.bias=true"),
        (norm.kind == "layer", f"norm.kind={norm.kind!r}", "theirs is layer", "model.norm_kind=layer"),
        (norm.bias, "norm.bias=false", "theirs have biases", f"{side}.body.norm.bias=true"),
        (body.first_norm, "body.first_norm=false", "theirs have one", f"{side}.body.first_norm=true"),
    ):
        require(holds, setting, rule, f"train with {remedy}")
    require(
        body.window is None, f"body.window={body.window}", "theirs see everything", "train without a window"
    )
    pruned = "export the model as it was before pruning"
    require(body.kept_heads is None, "body.kept_heads", "theirs have all heads in every layer", pruned)
    return body


def check_by_reading(config: HeadedConfig, family: EncoderFamily, tokenizer: Tokenizer) -> None:
    """What config.json would say is read again: a setting that is another one then has no place in it."""
    side = config.encoder
    if not isinstance(side.body, TransformerConfig):
        kind, remedy = "body.kind='recurrent'", "train another preset, as model.preset=small"
        raise _refused(kind, "theirs are Transformers", remedy)
    table = config_facts(config, family, tokenizer, (), "single")
    facts = Facts(Path("config.json"), table, family)
    for path, ours, theirs in differing(side, family.read(facts, False)):
        require(
            False,
            f"{path}={ours!r}",
            f"{family.stem}'s is {theirs!r}",
            f"train with model.encoder.{path}={theirs!r}",
        )


def differing(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The settings in which two configurations are not the same network."""
    for field in fields(ours):
        if field.name in _NO_NETWORK:
            continue
        own, other = getattr(ours, field.name), getattr(theirs, field.name)
        name = f"{path}.{field.name}" if path else field.name
        if is_dataclass(own) and type(own) is type(other):
            yield from differing(own, other, name)
        elif own != other:
            yield name, own, other


def check_head(config: HeadedConfig, family: EncoderFamily) -> None:
    """What the heads of a family are not."""
    body = config.encoder.body
    if not isinstance(body, TransformerConfig):
        raise TypeError("the check of the body has let a recurrent one through")
    match config.head:
        case MaskedConfig() as head:
            activation = family.masked_activation or body.feed_forward.activation
            require(
                activation in ("own", head.activation),
                f"head.activation={head.activation!r}",
                f"{family.stem}'s would be {activation}",
                f"train with model.activation={head.activation}",
            )
            biased = "head.dense.bias" in {*_named(family, "masked")}
            require(
                head.bias == biased,
                f"head.bias={str(head.bias).lower()}",
                f"{family.stem}'s has {'biases' if biased else 'none'}",
                f"start from a {family.stem} folder",
            )
            eps = f"train with model.encoder.body.norm.eps={head.eps}"
            require(head.eps == body.norm.eps, f"head.eps={head.eps}", f"theirs is {body.norm.eps}", eps)
            require(
                not head.next_sentence or "head.next_sentence.output.*" in family.heads["masked"],
                "head.next_sentence=true",
                "of the families only BERT",
                "train with objective.next_sentence=false",
            )
        case ClassifyConfig() as head:
            pool, inner = family.classifier
            if family.classifies(head):
                return
            require(
                head.transform is None,
                "head.transform",
                f"{family.stem} classifies without one",
                "train without it",
            )
            other = f"head.inner={head.inner!r} behind " if head.pool.kind == pool else ""
            require(
                head.pool.kind in POOLED,
                f"{other}head.pool.kind={head.pool.kind!r}",
                f"{family.stem} classifies with pool.kind={pool!r}, inner={inner!r}; "
                f"sentence-transformers has the pools {', '.join(POOLED)}",
                f"train with head.pool={'pooler' if pool == 'pooler' else 'mean'}",
            )
        case TagConfig() as head:
            _check_transform(head, family)
            words = f"head.words={head.words!r}"
            require(head.words == "first", words, "there, tokens are tagged", "train with head.words=first")
        case SpanConfig() as head:
            _check_transform(head, family)
            require(
                not head.dropout or "span" in family.dropouts,
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


def _check_transform(head: TagConfig | SpanConfig, family: EncoderFamily) -> None:
    has = head.transform is not None
    require(
        has == family.transformed,
        "head.transform" if has else "a head without head.transform",
        f"{family.stem}'s has {'one' if family.transformed else 'none'}",
        f"train it anew with model.start, from a {family.stem} that has one"
        if family.transformed
        else "train without it",
    )


def _named(family: EncoderFamily, kind: str) -> list[str]:
    """Our names of a head's parameters, one by one."""
    return [name.replace("*", each) for name in family.heads[kind] for each in ("weight", "bias")]


def require(holds: bool, setting: str, rule: str, remedy: str) -> None:
    if not holds:
        raise _refused(setting, rule, remedy)


def _refused(setting: str, rule: str, remedy: str) -> HubError:
    return HubError(
        f"{setting} has no place in a Hugging Face folder ({rule}): {remedy}, or keep the model in a folder "
        "of regard"
    )


def config_facts(
    config: HeadedConfig,
    family: EncoderFamily,
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    problem: Problem,
) -> dict[str, Any]:
    """What config.json says."""
    encoder, head = config.encoder, config.head
    body = encoder.body
    if not isinstance(body, TransformerConfig):
        raise TypeError("the check of the family has let a recurrent body through")
    kind = "embed" if head_names(config, family) == "scored" else head.kind
    ending = "ForPreTraining" if isinstance(head, MaskedConfig) and head.next_sentence else _ENDINGS[kind]
    words: dict[str, Any] = {
        "vocabulary": encoder.vocabulary,
        "d_model": encoder.d_model,
        "layers": body.layers,
        "heads": body.attention.heads,
        "d_ff": body.feed_forward.d_ff or 4 * encoder.d_model,
        "activation": ACTIVATIONS.get(body.feed_forward.activation),
        "dropout": body.dropout,
        "attention_dropout": body.attention.dropout,
        "rows": encoder.positions.longest + encoder.positions.first,
        "segments": encoder.embedding.segments,
        "eps": body.norm.eps,
        "std": encoder.initial.std,
        "pad": tokenizer.ids.pad,
    }
    if isinstance(head, ClassifyConfig | TagConfig | SpanConfig) and head.kind in family.dropouts:
        words.setdefault(family.dropouts[head.kind], head.dropout)
    words.update(family.words(config))
    facts: dict[str, Any] = {
        "model_type": family.name,
        "architectures": [f"{family.stem}{ending}"],
        **{key: words[word] for word, key in family.keys.items() if word in words},
        "bos_token_id": tokenizer.ids.start,
        "eos_token_id": tokenizer.ids.end,
        "tie_word_embeddings": not isinstance(head, MaskedConfig) or head.tied,
        "dtype": "float32",
    }
    return {**facts, **family.says, **_label_facts(config, labels, problem)}


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
