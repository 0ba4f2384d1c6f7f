"""From a config.json of an encoder to a configuration of ours, head and labels included.

A head is known by the name of the architecture, and its details by the tensors that are there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from regard.hub.facts import Facts, told_by
from regard.hub.family import EncoderFamily
from regard.hub.files import HubError
from regard.hub.names import TABLES
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    EncoderConfig,
    HeadConfig,
    MaskedConfig,
    PoolConfig,
    SpanConfig,
    TagConfig,
)

Problem = Literal["single", "multi", "number"]

_PROBLEMS: dict[str, Problem] = TABLES["config"]["problems"]


def read_encoder(facts: Facts[EncoderFamily], *, pooler: bool) -> EncoderConfig:
    with told_by(facts.path):
        return facts.family.read(facts, pooler)


def read_head(
    kind: str, facts: Facts[EncoderFamily], tensors: Mapping[str, Tensor]
) -> tuple[HeadConfig, tuple[str, ...]]:
    """The head, and the names of its labels."""
    with told_by(facts.path):
        head, labels = _read_head(kind, facts, tensors)
        return facts.family.head(head, facts), labels


def _read_head(
    kind: str, facts: Facts[EncoderFamily], tensors: Mapping[str, Tensor]
) -> tuple[HeadConfig, tuple[str, ...]]:
    match kind:
        case "masked":
            return _read_masked(facts, tensors), ()
        case "classify":
            labels = _read_labels(facts, tensors, kind)
            pool, inner = facts.family.classifier
            return ClassifyConfig(
                labels=len(labels),
                pool=PoolConfig(kind=pool),
                inner=inner,
                dropout=_dropout(facts, kind),
            ), labels
        case "tag":
            tags = _read_labels(facts, tensors, kind)
            return TagConfig(tags=len(tags), dropout=_dropout(facts, kind)), tags
        case "span":
            return SpanConfig(dropout=_dropout(facts, kind)), ()
        case _:
            return EmbedConfig(normalised=False), ()


def read_scored(head: ClassifyConfig, facts: Facts[EncoderFamily]) -> tuple[ClassifyConfig, tuple[str, ...]]:
    """A head of sentence-transformers' modules, with the dropout and the names that config.json has."""
    labels = _read_labels(facts, {}, "scored")
    if len(labels) != head.labels:
        raise HubError(
            f"{facts.path}: names for {len(labels)} labels, but there are {head.labels} scores; copy the "
            "folder anew"
        )
    return replace(head, dropout=_dropout(facts, "classify")), labels


def read_problem(facts: Facts[EncoderFamily], labels: int) -> Problem:
    named = facts.table.get("problem_type")
    if named is None:
        return "number" if labels == 1 else "single"
    if not isinstance(named, str) or named not in _PROBLEMS:
        raise HubError(f"{facts.path}: problem_type={named!r:.60} is none of {', '.join(_PROBLEMS)}")
    return _PROBLEMS[named]


def _read_masked(facts: Facts[EncoderFamily], tensors: Mapping[str, Tensor]) -> MaskedConfig:
    family = facts.family
    output = tensors.get(family.called("head.vocabulary.weight", "masked"))
    rows = tensors.get(family.called("encoder.embedding.tokens.weight", "masked"))
    same = output is None or (rows is not None and torch.equal(output, rows))
    second = ("head.next_sentence.output.weight", "encoder.pooler.dense.weight")
    return MaskedConfig(
        next_sentence=all(family.called(name, "masked") in tensors for name in second),
        tied=same and facts.tied,
        activation="gelu" if family.masked_activation == "gelu" else facts.activation(),
        eps=facts.number("eps"),
    )


def _dropout(facts: Facts[EncoderFamily], kind: str) -> float:
    word = facts.family.dropouts.get(kind)
    if word is None:
        return 0.0
    return facts.number("dropout" if facts.get(word) is None else word)


def _read_labels(facts: Facts[EncoderFamily], tensors: Mapping[str, Tensor], kind: str) -> tuple[str, ...]:
    """Named by the configuration or, as transformers does it, by their numbers."""
    names = facts.table.get("id2label")
    output = tensors.get(facts.family.called("head.output.weight", kind))
    if names is None:
        count = facts.table.get("num_labels", facts.table.get("_num_labels", 2))
        rows = len(output) if output is not None and output.dim() else count
        if type(rows) is not int or not 0 < rows <= 100_000:
            raise HubError(f"{facts.path}: num_labels={rows!r:.60} must be a whole number from 1 to 100000")
        return tuple(f"LABEL_{index}" for index in range(rows))
    try:
        labels = tuple(str(names[str(index)]) for index in range(len(names)))
    except (KeyError, TypeError) as error:
        raise HubError(
            f"{facts.path}: id2label must name the labels '0', '1', ... without a gap; it is {names!r:.60}"
        ) from error
    if len(set(labels)) < len(labels):
        raise HubError(f"{facts.path}: id2label has one name for two labels: {labels!r:.60}")
    return labels
