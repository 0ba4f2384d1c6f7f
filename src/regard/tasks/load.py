"""`regard.load`: a model folder, ready for use."""

from pathlib import Path

from regard.config import ConfigError, from_dict
from regard.decode import DecodeConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.tasks.folder import FolderError, load_weights, read_config
from regard.tasks.translator import Translator
from regard.text import Tokenizer
from regard.train.ranks import find_device


def load(folder: Path | str, *, device: str = "auto") -> Translator:
    """What a training has made: a translator. It runs on the GPU if there is one, unless told otherwise."""
    folder = Path(folder)
    config = read_config(folder)
    if config.get("task") != "translate":
        raise FolderError(f"{folder}/config.json: task {config.get('task')!r} is not known to this version")
    place = find_device(device)
    try:
        shape = from_dict(Seq2SeqConfig, config["model"], "model")
        decoding = from_dict(DecodeConfig, config["decode"], "decode")
        longest, languages = max(config["longest"], 3), tuple(config["languages"])
    except ConfigError as error:
        raise FolderError(f"{folder}/config.json: {error}") from error
    except KeyError as error:
        raise FolderError(f"{folder}/config.json: {error} is missing; copy the folder anew") from error
    model = Seq2Seq(shape)
    load_weights(folder, model)
    return Translator(
        model.to(place).eval(),
        Tokenizer.load(folder),
        longest=longest,
        languages=languages,
        decoding=decoding,
        precision="bfloat16" if place.startswith("cuda") else "float32",
    )
