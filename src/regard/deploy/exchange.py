"""Models from other tools and for them: what `regard import` and `regard export` do."""

from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.deploy.export import export
from regard.deploy.folder import Precision
from regard.deploy.onnx_export import export_onnx
from regard.hub import (
    Checkpoint,
    DecoderCheckpoint,
    TranslatorCheckpoint,
    is_decoder,
    is_foreign,
    is_translator,
    read_decoder,
    read_folder,
    read_translator,
    write_folder,
)
from regard.hub.families import read_facts
from regard.hub.family import EncoderFamily
from regard.hub.sentences import MODULES
from regard.tasks.base.encoders import open_encoder, save_checkpoint
from regard.tasks.base.folder import FolderError
from regard.tasks.base.formats import only_lines
from regard.tasks.base.task import Export, Task
from regard.tasks.base.terminal import say
from regard.tasks.language.start import open_language, save_language
from regard.tasks.load import load
from regard.tasks.registry import task_of, task_of_head
from regard.tasks.translation.exchange import checkpoint_of, save_translator
from regard.tasks.translation.opening import open_translator
from regard.text import read_lines


def import_model(folder: Path, out: Path, *, pickle: bool = False, console: Console) -> None:
    """A Hugging Face folder as one of ours. With `pickle`, from a pytorch_model.bin, which is read and not
    run."""
    _refuse_full(out)
    if not folder.exists() or not is_foreign(folder):
        raise FolderError(
            f"{folder}: no Hugging Face folder, it has no config.json with a model_type, and no GGUF file"
        )
    fresh: tuple[str, ...] = ()
    mute = False
    if is_decoder(folder):
        language = read_decoder(folder, pickle=pickle)
        save_language(language, out)
        weights, mute = language.weights, language.tokenizer is None
    elif is_translator(folder):
        translator = read_translator(folder, pickle=pickle)
        save_translator(translator, out)
        weights = translator.weights
    else:
        checkpoint = read_folder(folder, pickle=pickle)
        save_checkpoint(checkpoint, out, task_of_head(checkpoint.kind).name)
        weights, fresh = checkpoint.weights, tuple(checkpoint.fresh)
    count = sum(tensor.numel() for tensor in weights.values())
    say(console, f"{out}: {count:,} parameters, for regard {task_of(out).command}")
    if mute:
        say(console, f"no tokenizer in {folder}: it reads and writes ids, regard generate {out} --ids")
    if fresh:
        say(console, f"not in the folder, so at random: {', '.join(fresh[:3])}")


def export_model(
    model: Path,
    out: Path,
    *,
    to: Export = "hf",
    precision: Precision | None = None,
    samples: Path | None = None,
    console: Console,
) -> None:
    """One of our models as a folder that transformers reads, and sentence-transformers where it embeds; or a
    translator as one that CTranslate2 runs; or any model as graphs that onnxruntime runs."""
    _refuse_full(out)
    if precision is not None and to != "ctranslate2":
        raise ConfigError(
            "--precision is for --to ctranslate2: leave it out, weights are written as they are"
        )
    if samples is not None and to == "hf":
        raise ConfigError(
            "--samples is for --to ctranslate2 and onnx: leave it out, weights are compared here"
        )
    task = task_of(model)
    if to not in task.exports:
        raise ConfigError(
            f"{model}: a {task.noun} is not exported to {to}; choose --to {' or '.join(sorted(task.exports))}"
        )
    texts = [] if samples is None else _texts(samples)
    match to:
        case "ctranslate2":
            translator = open_translator(model, device="cpu", precision="float32")
            export(translator, out, precision=precision or "float32", samples=texts, console=console)
        case "onnx":
            export_onnx(load(model, device="cpu", precision="float32"), out, samples=texts, console=console)
        case "hf":
            write_folder(_checkpoint(model, task), out)
            say(console, f"{out}: written, read back, every weight equal")
            if "rank" in task.heads:
                say(console, f"sentence-transformers reads it: CrossEncoder({str(out)!r}).predict(pairs)")
            elif "classify" in task.heads and (out / MODULES).exists():
                say(
                    console,
                    "it pools as no classifier of transformers does, so sentence-transformers reads it: "
                    f"SentenceTransformer({str(out)!r}).encode(texts) are the scores of the labels"
                    f"{_own_classifier(out)}",
                )


def _checkpoint(model: Path, task: Task) -> Checkpoint | DecoderCheckpoint | TranslatorCheckpoint:
    if task.name == "translate":
        return checkpoint_of(open_translator(model, device="cpu", precision="float32"))
    return open_encoder(model) if task.heads else open_language(model)


def _own_classifier(folder: Path) -> str:
    """How to train one that transformers has in this family; nothing, where a recipe has no word for it."""
    family = read_facts(folder / "config.json", EncoderFamily).family
    pool, inner = family.classifier
    if inner != "none" or family.transformed:
        return ""
    return f"; for {family.stem}ForSequenceClassification, train with head.pool={pool}"


def _texts(file: Path) -> list[str]:
    only_lines(file)
    texts = [line.text for line in read_lines(file) if line.text.strip()]
    if not texts:
        raise ConfigError(f"{file}: no text in it; give sentences, one a line")
    return texts


def _refuse_full(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: choose another folder")
