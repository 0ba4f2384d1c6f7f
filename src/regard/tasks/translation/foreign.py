"""What a translator's folder of Hugging Face's becomes: a model, and what its translator is told."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import torch

from regard.decode import DecodeConfig
from regard.hub import TranslatorCheckpoint
from regard.hub.generation import Search
from regard.hub.translators import Marks
from regard.models.seq2seq import Seq2Seq
from regard.tasks.base.folder import FolderError, whole
from regard.tasks.base.header import unfilled
from regard.text import Tokenizer


def model_of(checkpoint: TranslatorCheckpoint) -> Seq2Seq:
    """It takes the checkpoint's weights, which are gone from it then: two of each need not be there."""
    model = unfilled(lambda: Seq2Seq(checkpoint.config))
    with torch.no_grad():
        for name, tensor in whole(model).items():
            tensor.copy_(checkpoint.weights.pop(name))
    return model


def told(checkpoint: TranslatorCheckpoint) -> dict[str, Any]:
    """What a `Translator` of it takes beside the model and the tokenizer."""
    names = ["longest", "languages", "marks", "source_language", "several_sentences", "prompts"]
    own = {name: getattr(checkpoint, name) for name in [*names, "default_prompt"]}
    return own | {"decoding": decoding_of(checkpoint)}


def check_target(folder: Path, tokenizer: Tokenizer, rows: int) -> None:
    """That the model has a vector for all that it may write."""
    if len(tokenizer.target) > rows:
        count = len(tokenizer.target)
        raise FolderError(f"{folder}: {count} ids to write, but vectors for {rows}; copy it anew")


def decoding_of(checkpoint: TranslatorCheckpoint) -> DecodeConfig:
    """As its makers search, where they say how: with num_beams=1, greedily."""
    own = {each.name: getattr(checkpoint, each.name) for each in fields(Search)}
    told = {name: value for name, value in own.items() if value is not None}
    found: dict[str, Any] = {"maximum": checkpoint.longest, **told}
    found["minimum"] = min(found.get("minimum", 0), found["maximum"])
    if found.get("beam") == 1:
        found |= {"method": "greedy", "beam": DecodeConfig().beam}
    return DecodeConfig(**found)


def search_of(decoding: DecodeConfig) -> Search:
    """And back."""
    own = {each.name: getattr(decoding, each.name) for each in fields(Search)}
    return Search(**{**own, "beam": decoding.beam if decoding.method == "beam" else 1})


def read_marks(config: Mapping[str, Any]) -> dict[str, Any]:
    """Where the model is told languages, and which it reads, as a folder's config.json says."""
    marks, reads = config.get("marks", "source"), config.get("source_language")
    if marks not in get_args(Marks) or not (reads is None or isinstance(reads, str)):
        raise ValueError(f"marks={marks!r:.60} with source_language={reads!r:.60} is nothing that is written")
    return {"marks": marks, "source_language": reads}
