"""Folders of Hugging Face, both ways: BERT, RoBERTa and DistilBERT, and sentence-transformers around them.

A round trip keeps every weight to the bit, if the folder's are float32; others become float32. After writing,
the folder is read back and compared before it gets its name.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.hub.files import INDEX, WEIGHTS, HubError, read_table, read_tensors, write_json, write_tensors
from regard.hub.reading import Facts, Problem, read_encoder, read_head, read_problem
from regard.hub.sentences import MODULES, read_sentences, write_sentences
from regard.hub.tokens import read_tokenizer, write_tokenizer
from regard.hub.weights import canonical, check_layers, read_weights, warn_left_out, write_names
from regard.hub.writing import config_facts, family_of
from regard.models.headed import HeadedConfig
from regard.models.heads import ClassifyConfig, EmbedConfig, HeadConfig, MaskedConfig, TagConfig
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model of strangers in our words, or one of ours on the way to them."""

    config: HeadedConfig
    weights: dict[str, Tensor]
    """By the names of `Headed(config).named_parameters()`: these, and none besides."""
    tokenizer: Tokenizer
    longest: int
    """The most tokens that an input may have, special ones included."""
    labels: tuple[str, ...] = ()
    """Names of classes or tags, in order."""
    problem: Problem = "single"
    """What a classifier's scores mean: one label, any number of them, or a number."""
    decode: Literal["greedy", "valid"] = "greedy"
    """How a tagger's tags are chosen: each by itself, or as the best sequence that is well-formed IOB2."""
    fresh: tuple[str, ...] = ()
    """Parameters that the folder does not have, so they are at their first values."""


def is_foreign(folder: Path) -> bool:
    """Whether it looks like a folder of Hugging Face, and not of regard."""
    path = Path(folder) / "config.json"
    try:
        facts = read_table(path)
    except HubError:
        return not path.exists() and path.with_name(MODULES).exists()
    return "model_type" in facts and "format" not in facts


def read_folder(folder: Path) -> Checkpoint:
    """A folder as it is; nothing in it is executed. The attention weights' dropout is not taken over: the
    fused kernels have none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise HubError(f"{folder}: no such folder; give one that holds config.json and {WEIGHTS}")
    sentences = read_sentences(folder)
    root = sentences.root if sentences else folder
    facts = Facts(root / "config.json")
    family = facts.family
    file = root / (WEIGHTS if (root / WEIGHTS).exists() else INDEX)
    tensors = canonical(read_tensors(root), family, file, tied=facts.tied)
    check_layers(tensors, family, facts.count("layers"), file)
    head: HeadConfig
    labels: tuple[str, ...]
    if sentences and sentences.head:
        head, labels = sentences.head, ()
    else:
        head, labels = read_head(facts.kind(tensors) or "embed", facts, tensors)
    pooler = family.encoder.get("encoder.pooler.dense.*", "").replace("*", "weight") in tensors
    pooler = pooler or (isinstance(head, ClassifyConfig) and head.pool.kind == "pooler")
    config = HeadedConfig(encoder=read_encoder(facts, pooler=pooler), head=head)
    if sentences:
        if sentences.width not in (None, config.encoder.d_model):
            raise HubError(
                f"{folder}: pools vectors of {sentences.width}, but the model's have {config.encoder.d_model}"
            )
        tensors.update(sentences.dense)
    if isinstance(head, MaskedConfig) and head.tied:  # the embedding, once more
        tensors.pop(family.heads["masked"]["head.vocabulary.weight"], None)
    weights, fresh = read_weights(tensors, config, family, file)
    warn_left_out(tensors, file)
    tokenizer, most = read_tokenizer(
        root, family, config.encoder.vocabulary, lower_case=sentences is not None and sentences.lower_case
    )
    limits = [config.encoder.positions.longest, most, sentences.longest if sentences else None]
    problem: Problem = read_problem(facts, len(labels)) if isinstance(head, ClassifyConfig) else "single"
    nameless = problem == "number" and all(re.fullmatch(r"LABEL_\d+", label) for label in labels)
    return Checkpoint(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        longest=min(limit for limit in limits if limit is not None),
        labels=() if nameless else labels,
        problem=problem,
        fresh=fresh,
    )


def write_folder(checkpoint: Checkpoint, folder: Path) -> None:
    """A folder that transformers and, for an embedder, sentence-transformers open; in float32."""
    folder = Path(folder).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HubError(f"{folder}: there is something already; give a new folder, or an empty one")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise HubError(f"{partial}: could not be made ({error.strerror or error})") from error
    try:
        _write(checkpoint, partial)
        _compare(checkpoint, read_folder(partial))
        partial.replace(folder)
    except OSError as error:
        raise HubError(f"{folder}: could not be written ({error}); free some space") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(checkpoint: Checkpoint, folder: Path) -> None:
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    encoder = config.encoder
    family = family_of(config, tokenizer)
    if len(tokenizer) > encoder.vocabulary:
        raise HubError(
            f"the tokenizer has {len(tokenizer)} ids, but the model vectors for {encoder.vocabulary}: give "
            "the tokenizer that it was trained with"
        )
    if not 0 < checkpoint.longest <= encoder.positions.longest:
        raise HubError(
            f"longest={checkpoint.longest} must be from 1 to {encoder.positions.longest} positions"
        )
    model, dense = write_names(checkpoint.weights, config, family)
    write_json(
        folder / "config.json",
        config_facts(config, family, tokenizer, checkpoint.labels, checkpoint.problem),
    )
    write_tensors(folder / WEIGHTS, model)
    write_tokenizer(folder, tokenizer, longest=checkpoint.longest, segments=encoder.embedding.segments > 1)
    if isinstance(config.head, EmbedConfig):
        write_sentences(folder, config.head, dense, d_model=encoder.d_model, longest=checkpoint.longest)
    for path in folder.rglob(WEIGHTS):  # safetensors lets nobody else read its files
        path.chmod((folder / "config.json").stat().st_mode)


def _compare(meant: Checkpoint, written: Checkpoint) -> None:
    """What cannot be told from the folder any more is not its business: dropout and first values."""
    differ = [
        name
        for name, weight in meant.weights.items()
        if name not in written.weights
        or not torch.equal(weight.detach().cpu().float(), written.weights[name])
    ]
    labels = written.labels if isinstance(meant.config.head, ClassifyConfig | TagConfig) else ()
    if differ or meant.weights.keys() != written.weights.keys():
        raise HubError(f"what was written reads back differently: {differ[:3]}; please report it")
    if meant.longest != written.longest or (meant.labels and meant.labels != labels):
        raise HubError("what was written reads back with other lengths or labels; please report it")
