"""`regard.load`: a model folder, ready for use, whoever wrote it."""

from pathlib import Path
from typing import TypeVar

from regard.config import ConfigError, from_dict
from regard.decode import DecodeConfig
from regard.hub import Checkpoint, is_foreign
from regard.models.heads import ClassifyConfig, EmbedConfig, MaskedConfig, TagConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.tasks.encoders.classifier import Classifier
from regard.tasks.encoders.embedder import Embedder
from regard.tasks.encoders.filler import Filler
from regard.tasks.encoders.reading import Reader
from regard.tasks.encoders.start import loaded, open_encoder
from regard.tasks.encoders.tagger import Tagger
from regard.tasks.faster import Precision
from regard.tasks.folder import FolderError, load_quantized, load_weights, read_config
from regard.tasks.language.generator import Generator, open_generator
from regard.tasks.language.start import is_language
from regard.tasks.translator import Translator
from regard.text import Tokenizer
from regard.train.ranks import find_device

Model = Translator | Classifier | Tagger | Filler | Embedder | Generator
Wanted = TypeVar("Wanted", Translator, Classifier, Tagger, Filler, Embedder, Generator)

COMMANDS: dict[type, str] = {
    Translator: "translate",
    Classifier: "classify",
    Tagger: "tag",
    Filler: "fill",
    Embedder: "embed",
    Generator: "generate",
}
"""What each kind of model is used by."""


def load(folder: Path | str, *, device: str = "auto", precision: Precision | None = None) -> Model:
    """What a training has made, or a folder of Hugging Face's: a translator, classifier, tagger, filler,
    embedder or generator. It runs on the GPU if there is one, unless told otherwise, and there in
    bfloat16. int8 is for the CPU."""
    folder, place = Path(folder), find_device(device)
    precision = precision or ("bfloat16" if place.startswith("cuda") else "float32")
    if folder.is_dir() and not is_foreign(folder) and read_config(folder).get("task") == "translate":
        return _translator(folder, place, precision)
    if folder.is_dir() and is_language(folder):
        return open_generator(folder, device, precision)
    checkpoint = open_encoder(folder)
    return of_checkpoint(checkpoint, folder, place, precision)


def of_checkpoint(checkpoint: Checkpoint, folder: Path, place: str, precision: Precision) -> Model:
    model = loaded(checkpoint, folder).to(place).eval()
    reader = Reader(model, checkpoint.tokenizer, longest=checkpoint.longest, precision=precision)
    match checkpoint.config.head:
        case ClassifyConfig():
            return Classifier(reader, checkpoint.labels, checkpoint.problem)
        case TagConfig():
            return Tagger(reader, checkpoint.labels, decode=checkpoint.decode)
        case MaskedConfig():
            return Filler(reader)
        case EmbedConfig():
            return Embedder(reader)


def load_as(
    kind: type[Wanted], folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Wanted:
    """The same, where only one kind of model will do."""
    model = load(folder, device=device, precision=precision)
    if not isinstance(model, kind):
        raise FolderError(
            f"{folder}: this is a model for regard {COMMANDS[type(model)]}, not for regard {COMMANDS[kind]}"
        )
    return model


def load_embedder(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Embedder:
    """Vectors can be had of any encoder."""
    model = load(folder, device=device, precision=precision)
    if isinstance(model, Translator | Generator):
        raise FolderError(
            f"{folder}: a model for regard {COMMANDS[type(model)]}, which has no vectors for texts; give one "
            "with an encoder"
        )
    return model if isinstance(model, Embedder) else Embedder(model.reader)


def _translator(folder: Path, place: str, precision: Precision) -> Translator:
    config = read_config(folder)
    try:
        shape = from_dict(Seq2SeqConfig, config["model"], "model")
        decoding = from_dict(DecodeConfig, config["decode"], "decode")
        longest, languages = max(config["longest"], 3), tuple(config["languages"])
    except ConfigError as error:
        raise FolderError(f"{folder}/config.json: {error}") from error
    except KeyError as error:
        raise FolderError(f"{folder}/config.json: {error} is missing; copy the folder anew") from error
    if precision == "int8" and place == "cpu":
        model = load_quantized(folder, lambda: Seq2Seq(shape))
    else:
        model = Seq2Seq(shape)
        load_weights(folder, model)
    return Translator(
        model.to(place).eval(),
        Tokenizer.load(folder),
        longest=longest,
        languages=languages,
        decoding=decoding,
        precision=precision,
    )
