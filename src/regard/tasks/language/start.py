"""What a language model starts from, and what is opened to be used: a folder of ours, or one of Hugging
Face's, of GPT-2's or Llama's family."""

from dataclasses import replace
from pathlib import Path

import torch

from regard.config import to_dict
from regard.hub import DecoderCheckpoint, is_foreign, read_decoder
from regard.models.decoder import Decoder
from regard.settings.models import DecoderConfig
from regard.tasks.base.folder import (
    FolderError,
    check_backed,
    load_weights,
    read_config,
    read_json,
    read_shape,
    read_tokenizer,
    whole,
    write_config,
    write_weights,
)
from regard.tasks.base.guards import CONFIG, TOKENIZER, folder_errors, own_file, read_whole
from regard.tasks.base.header import unfilled
from regard.tasks.language.recipe import LanguageRecipe
from regard.text import Tokenizer
from regard.text.conventions import Conventions
from regard.train.digests import KEY


def open_language(folder: Path | str) -> DecoderCheckpoint:
    folder = Path(folder)
    if not folder.is_dir() and not is_foreign(folder):
        raise FolderError(
            f"{folder}: no such folder; give the --out folder of a training, or a "
            "language model of Hugging Face's"
        )
    if is_foreign(folder):
        return read_decoder(folder)
    config = read_config(folder)
    if config.get("task") != "language":
        raise FolderError(f"{folder}: a model for the task {config.get('task')!r}, not a language model")
    with folder_errors(folder / CONFIG):
        shape, longest = read_shape(folder, config, DecoderConfig), read_whole(config, "longest")
        conventions = Conventions.from_dict(config)
    check_backed(folder, lambda: Decoder(shape))
    model = unfilled(lambda: Decoder(shape))
    load_weights(folder, model)
    tokenizer = read_tokenizer(folder, shape.vocabulary) if _has_tokenizer(folder) else None
    return DecoderCheckpoint(
        config=shape,
        weights=whole(model),
        tokenizer=tokenizer,
        longest=longest,
        conventions=conventions,
    )


def _has_tokenizer(folder: Path) -> bool:
    """One that is not there, but was when the folder was written, is missing."""
    return own_file(folder, TOKENIZER).exists() or TOKENIZER in read_json(folder / CONFIG).get(KEY, {})


def require_tokenizer(checkpoint: DecoderCheckpoint, folder: Path | str) -> Tokenizer:
    """For what has to do with text."""
    if checkpoint.tokenizer is None:
        raise FolderError(without_tokenizer(folder))
    return checkpoint.tokenizer


def without_tokenizer(folder: Path | str) -> str:
    """What a folder that has none says to who comes with text."""
    return (
        f"{folder}: no {TOKENIZER} in it, so it reads and writes ids: regard generate --ids, or "
        "generate_ids; for text, put its tokenizer there"
    )


def save_language(checkpoint: DecoderCheckpoint, folder: Path) -> None:
    """As a model folder of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(folder / TOKENIZER)
    write_weights(folder, checkpoint.weights)
    about = {"model": to_dict(checkpoint.config), "longest": checkpoint.longest}
    write_config(folder, "language", {**about, **checkpoint.conventions.to_dict()})


def built(
    checkpoint: DecoderCheckpoint,
    where: Path | str,
    config: DecoderConfig | None = None,
    *,
    spent: bool = False,
) -> Decoder:
    """The model of a checkpoint; `config` may differ in what changes no weight. Of one that is `spent`, each
    weight is let go as soon as the model has it, so that the two are not in memory whole."""
    model = unfilled(lambda: Decoder(config or checkpoint.config))
    own = whole(model)
    lost = sorted(own.keys() - checkpoint.weights.keys())
    if lost:
        raise FolderError(f"{where}: the weights {lost[:3]} are missing; copy the folder anew")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(checkpoint.weights.pop(name) if spent else checkpoint.weights[name])
    return model


def lengthened(config: DecoderConfig, longest: int) -> DecoderConfig:
    """Rotary positions know no end: a model that learns longer texts says so."""
    positions = config.positions
    if positions.kind != "rotary" or longest <= positions.longest:
        return config
    return replace(config, positions=replace(positions, longest=longest))


def find_start(recipe: LanguageRecipe, where: Path) -> tuple[DecoderCheckpoint | None, LanguageRecipe]:
    """What a recipe starts from, if anything, and the recipe with the path of it in full."""
    name = recipe.model.start
    if not name:
        return None, recipe
    folder = next((each for each in (where / name, Path(name)) if each.exists()), Path(name)).resolve()
    start = open_language(folder)
    require_tokenizer(start, folder)
    return start, replace(recipe, model=replace(recipe.model, start=str(folder)))
