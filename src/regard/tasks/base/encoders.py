"""Where an encoder comes from: nothing, a model of regard's, or a folder of Hugging Face's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from safetensors.torch import load_file

from regard.config import ConfigError, to_dict
from regard.hub import Checkpoint, is_foreign, read_folder
from regard.hub.families import ENCODERS
from regard.hub.reading import Problem
from regard.hub.sentence_facts import Activation
from regard.models.headed import Headed, HeadedConfig
from regard.models.heads import HEADS
from regard.settings.models import (
    ClassifyConfig,
    HeadConfig,
    MaskedConfig,
    SpanConfig,
    TagConfig,
    TransformConfig,
)
from regard.settings.network import TransformerConfig
from regard.settings.shape import EncoderShape
from regard.tasks.base.faster import Precision, settle_precision
from regard.tasks.base.folder import (
    FolderError,
    check_backed,
    read_config,
    read_shape,
    read_tokenizer,
    whole,
    write_config,
    write_weights,
)
from regard.tasks.base.guards import CONFIG, folder_errors, read_whole, read_words
from regard.tasks.base.header import check_small, read_header, unfilled
from regard.tasks.base.reading import Reader
from regard.train.ranks import find_device

Started = TypeVar("Started", bound=Any)
"""A recipe whose model may start from another."""


def open_encoder(folder: Path) -> Checkpoint:
    """The model in a folder, whoever wrote it."""
    if not folder.is_dir():
        raise FolderError(
            f"{folder}: no such folder; give the --out folder of a training, or a Hugging Face one"
        )
    if is_foreign(folder):
        return read_folder(folder)
    config = read_config(folder)
    shape = config.get("model", {})
    if isinstance(shape, Mapping) and shape and "head" not in shape:
        raise FolderError(
            f"{folder}/config.json: a model for the task {config.get('task')!r}, which is no encoder with a "
            "head; give one that was trained to pretrain, classify, tag or embed"
        )
    return own_checkpoint(folder, config)


def open_reader(
    folder: Path | str, head: str | None, *, device: str = "auto", precision: Precision | None = None
) -> tuple[Checkpoint, Reader]:
    """An encoder with a head of this kind, or of any, ready to read."""
    folder, place = Path(folder), find_device(device)
    checkpoint = open_encoder(folder)
    kind = checkpoint.config.head.kind
    if head not in (None, kind):
        raise FolderError(f"{folder}: a model with the head {kind!r}, where one with {head!r} is wanted")
    model = loaded(checkpoint, folder).to(place).eval()
    longest, precision = checkpoint.longest, settle_precision(precision, place)
    with folder_errors(folder / CONFIG):
        return checkpoint, Reader(model, checkpoint.tokenizer, longest=longest, precision=precision)


def own_checkpoint(folder: Path, config: Mapping[str, Any]) -> Checkpoint:
    with folder_errors(folder / CONFIG):
        model = read_shape(folder, config, HeadedConfig)
        longest = read_whole(config, "longest")
        labels = read_words(config, "labels") if "labels" in config else ()
        problem = _chosen(config, "problem", get_args(Problem))
        decode = _chosen(config, "decode", ("greedy", "valid"))
        activation = _chosen(config, "activation", (None, *get_args(Activation)))
    check_backed(folder, lambda: Headed(model))
    header = read_header(folder)
    check_small(header)
    with folder_errors(header.path):
        weights = load_file(header.path)
    tokenizer = read_tokenizer(folder, model.encoder.vocabulary)
    own = {"longest": longest, "labels": labels, "problem": problem, "decode": decode}
    own["activation"] = activation
    return Checkpoint(config=model, weights=weights, tokenizer=tokenizer, **own)


def _chosen(config: Mapping[str, Any], key: str, choices: tuple[str | None, ...]) -> Any:
    """The first unless something else is said."""
    value = config.get(key, choices[0])
    if value not in choices:
        raise ValueError(f"{key}={value!r} is none of {', '.join(map(str, choices))}")
    return value


def save_checkpoint(checkpoint: Checkpoint, folder: Path, task: str) -> None:
    """As a model folder of ours, for this task."""
    about = {
        "model": to_dict(checkpoint.config),
        "longest": checkpoint.longest,
        "labels": list(checkpoint.labels),
        "problem": checkpoint.problem,
        "decode": checkpoint.decode,
        **({} if checkpoint.activation is None else {"activation": checkpoint.activation}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.tokenizer.save(folder / "tokenizer.json")
    write_weights(folder, checkpoint.weights)
    write_config(folder, task, about)


def loaded(checkpoint: Checkpoint, where: Path | str) -> Headed:
    """The model with its weights; every weight must be there, and none besides."""
    model = unfilled(lambda: Headed(checkpoint.config))
    missing = put_weights(model, checkpoint.weights, where, strict=True)
    if missing:
        raise FolderError(f"{where}: the weights {missing[:3]} are missing; copy the folder anew")
    return model


def put_weights(
    model: Headed, weights: Mapping[str, torch.Tensor], where: Path | str, *, strict: bool
) -> list[str]:
    """Copy weights by name; returns the names that stay as they are. With `strict`, none may be left over."""
    own = whole(model)
    if strict and weights.keys() - own.keys():
        extra = sorted(weights.keys() - own.keys())[:3]
        raise FolderError(f"{where}: not the weights of config.json: unknown {extra}; copy the folder anew")
    with torch.no_grad():
        for name, tensor in weights.items():
            if name not in own:
                continue
            if own[name].shape != tensor.shape:
                raise FolderError(
                    f"{where}: {name} has the shape {list(tensor.shape)}, where {list(own[name].shape)} "
                    "belongs; copy the folder anew"
                )
            own[name].copy_(tensor)
    return sorted(own.keys() - weights.keys())


def find_start(recipe: Started, where: Path) -> tuple[Checkpoint | None, Started]:
    """What a recipe starts from, if anything, and the recipe with the path of it in full."""
    name = recipe.model.start
    if not name:
        return None, recipe
    folder = next((each for each in (where / name, Path(name)) if each.is_dir()), Path(name)).resolve()
    model = replace(recipe.model, start=str(folder))
    return open_encoder(folder), replace(recipe, model=model)


def build(shape: EncoderShape, head: HeadConfig, start: Checkpoint | None, vocabulary: int) -> Headed:
    """A model for a task. What the start has is taken over: its encoder, and its head if that is of the same
    make; the rest begins at random: seed torch before."""
    spec = HEADS[head.kind]
    pooler = spec.pooler(head)
    if start is None:
        return Headed(HeadedConfig(encoder=replace(shape.build(vocabulary), pooler=pooler), head=head))
    encoder, head = shape.changed(start.config.encoder), _as_of_its_family(head, start)
    model = Headed(HeadedConfig(encoder=replace(encoder, pooler=encoder.pooler or pooler), head=head))
    own = dict(model.named_parameters())
    same = spec.transfers and head.kind == start.config.head.kind
    kept = {
        _TRANSFORM[name]: tensor
        for name, tensor in start.weights.items()
        if name in _TRANSFORM and _TRANSFORM[name] in own
    }
    kept |= {
        name: tensor
        for name, tensor in start.weights.items()
        if name.startswith("encoder.") or (same and name in own and own[name].shape == tensor.shape)
    }
    fresh = put_weights(model, kept, shape.start, strict=False)
    lost = [name for name in fresh if name.startswith("encoder.") and not name.startswith("encoder.pooler.")]
    if lost:
        raise FolderError(f"{shape.start}: the weights {lost[:3]} are missing; copy the folder anew")
    _freeze(model, shape.frozen, fresh)
    return model


_TRANSFORM = {
    **{f"head.{part}.weight": f"head.transform.{part}.weight" for part in ("dense", "norm")},
    **{name: name for name in ("head.transform.dense.weight", "head.transform.norm.weight")},
}
"""In a head for masked words and in others of the same family, and where they go."""


def _as_of_its_family(head: HeadConfig, start: Checkpoint) -> HeadConfig:
    """With a transform before the scores, where the family of the start has one, and no other way to write
    the head."""
    family = next((each for each in ENCODERS if each.claims(start.config.encoder, start.tokenizer)), None)
    if family is None or not family.transformed or not isinstance(head, TagConfig | SpanConfig):
        return head
    known = start.config.head
    if isinstance(known, ClassifyConfig | TagConfig | SpanConfig) and known.transform is not None:
        return replace(head, transform=known.transform)
    activation = known.activation if isinstance(known, MaskedConfig) else "gelu"
    body = start.config.encoder.body
    eps = body.norm.eps if isinstance(body, TransformerConfig) else TransformConfig().eps
    return replace(head, transform=TransformConfig(activation=activation, eps=eps))


def _freeze(model: Headed, layers: int, fresh: Sequence[str]) -> None:
    """But for what is new, as a pooler may be."""
    top = model.config.encoder.body.layers + 1
    if layers >= top:
        raise ConfigError(
            f"model.frozen={layers}, but the encoder has {top - 1} layers: choose fewer, or -1 for all"
        )
    for name, parameter in model.named_parameters():
        below = model.depth(name) <= layers if layers > 0 else layers == -1 and name.startswith("encoder.")
        if below and name not in fresh:
            parameter.requires_grad_(False)


def rate_factor(model: Headed, layer_decay: float, head_rate: float) -> Any:
    """Of the learning rate, by the name of a parameter: lower layers learn less, a new head may learn more.
    None where all learn alike."""
    if layer_decay == 1 and head_rate == 1:
        return None
    top = model.config.encoder.body.layers + 1

    def factor(name: str) -> float:
        if name.startswith("head."):
            return head_rate
        return layer_decay ** (top - model.depth(name))

    return factor
