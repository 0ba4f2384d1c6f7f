"""Folders to translators: what a training has made, or Hugging Face's."""

from pathlib import Path
from typing import Any

from regard.config import from_dict
from regard.decode import DecodeConfig
from regard.hub import is_translator, read_translator
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.tasks.base.faster import Precision, settle_precision
from regard.tasks.base.folder import (
    EXPORTED,
    FolderError,
    check_backed,
    load_quantized,
    load_weights,
    read_config,
    read_shape,
    read_tokenizer,
    require_task,
)
from regard.tasks.base.guards import CONFIG, check_decoding, folder_errors, read_share, read_whole, read_words
from regard.tasks.base.header import unfilled
from regard.tasks.translation.confidence import CONFIDENCE, Calibration
from regard.tasks.translation.foreign import check_target, model_of, read_marks, told
from regard.tasks.translation.fuzzy import Fuzzy
from regard.tasks.translation.inline import Inline
from regard.tasks.translation.prompts import read_prompts
from regard.tasks.translation.translator import Translator
from regard.train.ranks import find_device


def open_translator(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Translator:
    """What a training has made, or a translator's folder of Hugging Face's."""
    folder = Path(folder)
    if folder.is_dir() and is_translator(folder):
        checkpoint, place = read_translator(folder), find_device(device)
        model, precision = model_of(checkpoint).to(place).eval(), settle_precision(precision, place)
        return Translator(model, checkpoint.tokenizer, precision=precision, **told(checkpoint))
    if (folder / EXPORTED).is_file():
        raise FolderError(f"{folder}: exported for CTranslate2; translate with --engine ctranslate2")
    require_task(folder, Translator.task)
    config, place = read_config(folder), find_device(device)
    precision = settle_precision(precision, place)
    with folder_errors(folder / CONFIG):
        shape = read_shape(folder, config, Seq2SeqConfig)
        decoding = from_dict(DecodeConfig, config["decode"], "decode")
        check_decoding(decoding)
        longest, languages = max(read_whole(config, "longest"), 3), read_words(config, "languages")
        several = read_share(config, "several_sentences")  # older folders do not know
        marks = read_marks(config) | read_prompts(config)
        fuzzy = from_dict(Fuzzy, config["fuzzy"], "fuzzy") if "fuzzy" in config else None
        inline = from_dict(Inline, config["terms"], "terms") if "terms" in config else None
        own_scale = config.get(CONFIDENCE)
        calibration = None if own_scale is None else from_dict(Calibration, own_scale, CONFIDENCE)
    if precision == "int8" and place == "cpu":
        model = load_quantized(folder, lambda: Seq2Seq(shape))
    else:
        check_backed(folder, lambda: Seq2Seq(shape))
        model = unfilled(lambda: Seq2Seq(shape))
        load_weights(folder, model)
    model = model.to(place).eval()
    tokenizer = read_tokenizer(folder, shape.encoder.vocabulary)
    check_target(folder, tokenizer, shape.decoder.vocabulary)
    own: Any = {"longest": longest, "languages": languages, "several_sentences": several, **marks}
    own |= {"fuzzy": fuzzy, "inline": inline, "calibration": calibration}
    with folder_errors(folder / CONFIG):
        return Translator(model, tokenizer, decoding=decoding, precision=precision, **own)
