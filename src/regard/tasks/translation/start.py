"""What a translator is fine-tuned from."""

from dataclasses import replace
from pathlib import Path

import torch

from regard.config import ConfigError, from_dict, to_dict
from regard.decode import DecodeConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.tasks.base.folder import whole
from regard.tasks.base.header import unfilled
from regard.tasks.base.recipe import Written
from regard.tasks.translation.encoding import MATCH, TERM_TOKENS
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.recipe import TranslateRecipe
from regard.tasks.translation.translator import Translator


def find_start(
    recipe: TranslateRecipe, written: Written[TranslateRecipe]
) -> tuple[Translator | None, TranslateRecipe]:
    """What a recipe starts from, if anything, and the recipe with the path of it in full, and its decoding
    where the recipe as it was `written` does not say how."""
    name = recipe.model.start
    if not name:
        return None, recipe
    where = written.where
    folder = next((each for each in (where / name, Path(name)) if each.is_dir()), Path(name)).resolve()
    start = open_translator(folder, device="cpu", precision="float32")
    _check_languages(recipe.data.languages, start, folder)
    for name, share, token in (
        ("fuzzy", recipe.data.fuzzy.share, MATCH),
        ("terms", recipe.data.terms.share, TERM_TOKENS[0]),
    ):
        if share and token not in start.tokenizer.ids.extra:
            raise ConfigError(
                f"data.{name}, but {folder} was not trained with it: its tokenizer has no {token}; leave it "
                "out, or start from a model that was"
            )
    try:
        start.reads()
    except ValueError as error:
        raise ConfigError(
            f"{folder}: {error}; write it there, as src_lang into tokenizer_config.json, or in a folder of "
            "regard as source_language into config.json"
        ) from error
    decode = from_dict(DecodeConfig, {**to_dict(start.decoding), **written.plain.get("decode", {})}, "decode")
    return start, replace(recipe, model=replace(recipe.model, start=str(folder)), decode=decode)


def _check_languages(named: tuple[str, ...], start: Translator, folder: Path) -> None:
    known = ", ".join(start.languages)
    if start.languages and not named:
        raise ConfigError(
            f"{folder} writes {known}, but the files of data do not say which: name the target language of "
            "each, [source, target, language]"
        )
    if unknown := sorted({*named} - {*start.languages}):
        choice = f"it writes {known}" if known else "it writes one language, which needs no name"
        raise ConfigError(f"data names the target language {unknown[0]!r}, but {folder} does not: {choice}")


def built(start: Translator, config: Seq2SeqConfig) -> Seq2Seq:
    """The start's model; `config` may differ in what changes no weight."""
    model = unfilled(lambda: Seq2Seq(config))
    weights = whole(start.model)
    with torch.no_grad():
        for name, tensor in whole(model).items():
            tensor.copy_(weights[name])
    return model


def described(start: Translator, where: str) -> str:
    parameters = sum(each.numel() for each in start.model.parameters())
    return f"starts from {where}: {parameters:,} parameters, {len(start.tokenizer):,} tokens"
