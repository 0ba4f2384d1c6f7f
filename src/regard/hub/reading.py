"""From a config.json of Hugging Face to a configuration of ours.

The keys are checked by the lists of `regard.hub.keys`; a head is known by the name of the architecture, and
its details by the tensors that are there.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.hub.families import DECODERS, ENCODERS, TABLES, TRANSLATORS, Family
from regard.hub.files import HubError, read_table
from regard.hub.keys import check_keys, refuse_code
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
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)

Problem = Literal["single", "multi", "number"]
Activation = Literal["gelu", "gelu_tanh", "relu"]

_ACTIVATIONS: dict[str, Activation] = TABLES["config"]["activations"]
_PROBLEMS: dict[str, Problem] = TABLES["config"]["problems"]
_MOST = 2**28
"""No count of a model is higher: products of two still fit into a size."""
_KINDS: dict[str, str] = TABLES["config"]["endings"]


class Facts:
    """A config.json, its keys checked; values are asked for by our words."""

    def __init__(self, path: Path, families: Mapping[str, Family]) -> None:
        """`families` are those that will do, by `model_type`."""
        self.path = path
        self.table = read_table(path)
        kind = self.table.get("model_type")
        if not isinstance(kind, str) or kind not in families:
            raise HubError(f"{path}: model_type={kind!r:.60} is {_other(kind, families)}")
        self.family: Family = families[kind]
        refuse_code(self.table, path)
        family = self.family
        check_keys(self.table, family.keys.values(), path, only=family.only, metadata=family.metadata)

    @property
    def tied(self) -> bool:
        """Whether the output matrix should be the embedding."""
        return self.table.get("tie_word_embeddings") is not False

    def get(self, word: str) -> Any:
        return self.table.get(self.family.keys.get(word, ""), self.family.defaults.get(word))

    def count(self, word: str, least: int = 1) -> int:
        value = self.get(word)
        if type(value) is not int or not least <= value <= _MOST:
            raise HubError(
                f"{self.path}: {self.family.keys[word]}={value!r:.60} must be a whole number from {least} "
                f"to {_MOST}"
            )
        return value

    def number(self, word: str) -> float:
        value = self.get(word)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
            raise HubError(f"{self.path}: {self.family.keys[word]}={value!r:.60} must be an ordinary number")
        return float(value)

    def activation(self) -> Activation:
        value = self.get("activation")
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise HubError(
                f"{self.path}: {self.family.keys['activation']}={value!r:.60} is none of "
                f"{', '.join(_ACTIVATIONS)}"
            )
        return _ACTIVATIONS[value]

    def kind(self, present: Iterable[str]) -> str:
        """Which head the architecture has; one that has no counterpart here is refused by its name."""
        named = self.table.get("architectures") or []
        if not isinstance(named, list):
            raise HubError(f"{self.path}: architectures={named!r:.60} must be a list of names")
        endings = [re.search(r"(For[A-Z]\w*|LMHeadModel|Model)$", str(name)) for name in named]
        for ending in endings:
            if ending and ending[1] in _KINDS:
                return _KINDS[ending[1]]
        if named:
            known = ", ".join(self.family.stem + ending for ending in _KINDS)
            raise HubError(
                f"{self.path}: architectures={named!r:.60} is for something that is not done here, only "
                f"{known}; "
                f'to take the encoder without its head, write ["{self.family.stem}Model"] there'
            )
        masked = self.family.heads["masked"]["head.dense.*"].replace("*", "weight")
        return "masked" if masked in present else "embed"


def _other(kind: object, families: Mapping[str, Family]) -> str:
    """What a `model_type` is that is none of the families, in the words of the error about it."""
    wanted = ", ".join(families)
    for others, sort in (
        (ENCODERS, "an encoder"),
        (DECODERS, "a language model"),
        (TRANSLATORS, "a translator"),
    ):
        if isinstance(kind, str) and kind in others:
            return f"{sort}, where one of {wanted} is wanted: give another folder"
    return (
        f"none of {wanted}: only these can be read (where the key is missing from an old file, write it in)"
    )


def read_encoder(facts: Facts, *, pooler: bool) -> EncoderConfig:
    family = facts.family
    first = facts.count("pad", least=0) + 1 if family.name == "roberta" else 0
    longest = facts.count("rows") - first
    if longest < 1:
        raise HubError(f"{facts.path}: {family.keys['rows']} leaves no positions after the first {first}")
    dropout = facts.number("dropout")
    try:
        return EncoderConfig(
            vocabulary=facts.count("vocabulary"),
            d_model=facts.count("d_model"),
            embedding=EmbeddingConfig(
                scaled=False,
                segments=facts.count("segments") if "segments" in family.keys else 0,
                normed=True,
                dropout=dropout,
            ),
            positions=PositionsConfig(kind="learned", longest=longest, first=first),
            body=TransformerConfig(
                layers=facts.count("layers"),
                attention=AttentionConfig(heads=facts.count("heads")),
                feed_forward=FeedForwardConfig(d_ff=facts.count("d_ff"), activation=facts.activation()),
                norm=NormConfig(eps=facts.number("eps")),
                dropout=dropout,
            ),
            pooler=pooler,
            initial=InitialConfig(scheme="normal", std=facts.number("std")),
        )
    except HubError:
        raise
    except ValueError as error:
        raise HubError(f"{facts.path}: {error}") from error


def read_head(kind: str, facts: Facts, tensors: Mapping[str, Tensor]) -> tuple[HeadConfig, tuple[str, ...]]:
    """The head, and the names of its labels."""
    try:
        match kind:
            case "masked":
                return _read_masked(facts, tensors), ()
            case "classify":
                labels = _read_labels(facts, tensors)
                pool: Literal["pooler", "first"] = "pooler" if facts.family.name == "bert" else "first"
                inner: dict[str, Literal["none", "tanh", "relu"]]
                inner = {"bert": "none", "roberta": "tanh", "distilbert": "relu"}
                return ClassifyConfig(
                    labels=len(labels),
                    pool=PoolConfig(kind=pool),
                    inner=inner[facts.family.name],
                    dropout=_head_dropout(facts),
                ), labels
            case "tag":
                tags = _read_labels(facts, tensors)
                distilled = facts.family.name == "distilbert"
                dropout = facts.number("dropout") if distilled else _head_dropout(facts)
                return TagConfig(tags=len(tags), dropout=dropout), tags
            case "span":
                return SpanConfig(dropout=_span_dropout(facts)), ()
            case _:
                return EmbedConfig(normalised=False), ()
    except HubError:
        raise
    except ValueError as error:
        raise HubError(f"{facts.path}: {error}") from error


def read_scored(head: ClassifyConfig, facts: Facts) -> tuple[ClassifyConfig, tuple[str, ...]]:
    """A head of sentence-transformers' modules, with the dropout and the names that config.json has."""
    labels = _read_labels(facts, {})
    if len(labels) != head.labels:
        raise HubError(
            f"{facts.path}: names for {len(labels)} labels, but there are {head.labels} scores; copy the "
            "folder anew"
        )
    return replace(head, dropout=_head_dropout(facts)), labels


def read_problem(facts: Facts, labels: int) -> Problem:
    named = facts.table.get("problem_type")
    if named is None:
        return "number" if labels == 1 else "single"
    if not isinstance(named, str) or named not in _PROBLEMS:
        raise HubError(f"{facts.path}: problem_type={named!r:.60} is none of {', '.join(_PROBLEMS)}")
    return _PROBLEMS[named]


def _read_masked(facts: Facts, tensors: Mapping[str, Tensor]) -> MaskedConfig:
    family = facts.family
    output = tensors.get(family.heads["masked"]["head.vocabulary.weight"])
    rows = tensors.get("embeddings.word_embeddings.weight")
    same = output is None or (rows is not None and torch.equal(output, rows))
    return MaskedConfig(
        next_sentence="cls.seq_relationship.weight" in tensors and "pooler.dense.weight" in tensors,
        tied=same and facts.tied,
        activation="gelu" if family.name == "roberta" else facts.activation(),
        eps=facts.number("eps") if "eps" in family.keys else 1e-12,
    )


def _span_dropout(facts: Facts) -> float:
    """Only DistilBERT's has some."""
    return facts.number("span_dropout") if "span_dropout" in facts.family.keys else 0.0


def _head_dropout(facts: Facts) -> float:
    return facts.number("dropout" if facts.get("head_dropout") is None else "head_dropout")


def _read_labels(facts: Facts, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Named by the configuration or, as transformers does it, by their numbers."""
    names = facts.table.get("id2label")
    output = next(
        (tensors[n] for n in ("classifier.weight", "classifier.out_proj.weight") if n in tensors), None
    )
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
