"""A translator's folder, from Hugging Face's form to ours and on the way back."""

from dataclasses import asdict
from pathlib import Path

from regard.config import to_dict
from regard.hub import TranslatorCheckpoint
from regard.tasks.base.folder import whole, write_config, write_weights
from regard.tasks.base.guards import TOKENIZER
from regard.tasks.translation.foreign import decoding_of, search_of
from regard.tasks.translation.prompts import prompt_facts
from regard.tasks.translation.translator import Translator


def save_translator(checkpoint: TranslatorCheckpoint, folder: Path) -> None:
    """As a model folder of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.tokenizer.save(folder / TOKENIZER)
    write_weights(folder, checkpoint.weights)
    about = {
        "model": to_dict(checkpoint.config),
        "longest": checkpoint.longest,
        "languages": list(checkpoint.languages),
        "decode": to_dict(decoding_of(checkpoint)),
    }
    if checkpoint.several_sentences is not None:
        about["several_sentences"] = checkpoint.several_sentences
    if checkpoint.marks != "source":
        about |= {"marks": checkpoint.marks, "source_language": checkpoint.source_language}
    about |= prompt_facts(checkpoint.prompts, checkpoint.default_prompt)
    write_config(folder, Translator.task, about)


def checkpoint_of(translator: Translator) -> TranslatorCheckpoint:
    """What is written of it: all but how often a text of its training had several sentences."""
    return TranslatorCheckpoint(
        config=translator.model.config,
        weights=whole(translator.model),
        tokenizer=translator.tokenizer,
        longest=translator.longest,
        languages=translator.languages,
        marks=translator.marks,
        source_language=translator.source_language,
        prompts=translator.prompts,
        default_prompt=translator.default_prompt,
        **asdict(search_of(translator.decoding)),
    )
