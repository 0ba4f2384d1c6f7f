"""Where an encoder comes from: nothing, a model of regard's, or a folder of Hugging Face's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from regard.config import ConfigError, from_dict, to_dict
from regard.hub import Checkpoint, is_foreign, read_folder
from regard.models.headed import Headed, HeadedConfig
from regard.models.heads import ClassifyConfig, EmbedConfig, HeadConfig, MaskedConfig, TagConfig
from regard.models.shape import EncoderShape
from regard.tasks.folder import FORMAT, WEIGHTS, FolderError, read_config, whole, write_json, write_weights
from regard.text import Tokenizer

Started = TypeVar("Started", bound=Any)
"""A recipe whose model may start from another."""

ENCODER_TASKS = ("pretrain", "classify", "tag", "embed")


def open_encoder(folder: Path) -> Checkpoint:
    """The model in a folder, whoever wrote it."""
    if not folder.is_dir():
        raise FolderError(
            f"{folder}: no such folder; give the --out folder of a training, or a Hugging Face one"
        )
    if is_foreign(folder):
        return read_folder(folder)
    config = read_config(folder)
    if config.get("task") not in ENCODER_TASKS:
        raise FolderError(
            f"{folder}/config.json: task {config.get('task')!r} has no encoder to take over; give one that "
            f"was trained to {', '.join(ENCODER_TASKS)}"
        )
    return own_checkpoint(folder, config)


def own_checkpoint(folder: Path, config: Mapping[str, Any]) -> Checkpoint:
    try:
        model = from_dict(HeadedConfig, config["model"], "model")
        longest, labels = int(config["longest"]), tuple(config.get("labels", ()))
        problem, decode = config.get("problem", "single"), config.get("decode", "greedy")
    except KeyError as error:
        raise FolderError(f"{folder}/config.json: {error} is missing; copy the folder anew") from error
    except (ValueError, TypeError) as error:
        where = "" if isinstance(error, ConfigError) else "longest or labels: "
        raise FolderError(f"{folder}/config.json: {where}{error}") from error
    path = folder / WEIGHTS
    if not path.exists():
        raise FolderError(
            f"{path}: not there; if training has begun here, go on with regard train --resume --out "
            f"{folder}, else copy the folder anew"
        )
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise FolderError(f"{path}: cannot be read ({error}); copy the folder anew") from error
    return Checkpoint(
        config=model,
        weights=weights,
        tokenizer=Tokenizer.load(folder),
        longest=longest,
        labels=labels,
        problem=problem,
        decode=decode,
    )


def save_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """As a model folder of ours."""
    task = {MaskedConfig: "pretrain", ClassifyConfig: "classify", TagConfig: "tag", EmbedConfig: "embed"}
    about = {
        "format": FORMAT,
        "task": task[type(checkpoint.config.head)],
        "model": to_dict(checkpoint.config),
        "longest": checkpoint.longest,
        "labels": list(checkpoint.labels),
        "problem": checkpoint.problem,
        "decode": checkpoint.decode,
    }
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.tokenizer.save(folder / "tokenizer.json")
    write_weights(folder, checkpoint.weights)
    write_json(folder / "config.json", about)


def loaded(checkpoint: Checkpoint, where: Path | str) -> Headed:
    """The model with its weights; every weight must be there, and none besides."""
    model = Headed(checkpoint.config)
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
    pooler = _wants_pooler(head)
    if start is None:
        return Headed(HeadedConfig(encoder=replace(shape.build(vocabulary), pooler=pooler), head=head))
    encoder = shape.changed(start.config.encoder)
    model = Headed(HeadedConfig(encoder=replace(encoder, pooler=encoder.pooler or pooler), head=head))
    own = dict(model.named_parameters())
    same = isinstance(head, MaskedConfig | EmbedConfig) and type(head) is type(start.config.head)
    kept = {
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


def _wants_pooler(head: HeadConfig) -> bool:
    match head:
        case MaskedConfig():
            return head.next_sentence
        case ClassifyConfig() | EmbedConfig():
            return head.pool.kind == "pooler"
        case TagConfig():
            return False


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
