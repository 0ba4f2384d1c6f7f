"""Models from other tools and for them: what `regard import` and `regard export` do."""

from pathlib import Path
from typing import Literal

from rich.console import Console

from regard.config import ConfigError
from regard.hub import is_decoder, is_foreign, read_decoder, read_folder, write_folder
from regard.tasks.deploy.export import export
from regard.tasks.deploy.folder import Precision
from regard.tasks.deploy.onnx_export import export_onnx
from regard.tasks.encoders.start import open_encoder, save_checkpoint
from regard.tasks.folder import FolderError, read_config
from regard.tasks.language.start import is_language, open_language, save_language
from regard.tasks.load import load, load_as
from regard.tasks.terminal import say
from regard.tasks.translator import Translator
from regard.text import read_lines

USES = {"Masked": "fill", "Classify": "classify", "Tag": "tag", "Embed": "embed"}


def bring_in(folder: Path, out: Path, *, console: Console) -> None:
    """A Hugging Face folder as one of ours."""
    fresh: tuple[str, ...] = ()
    _refuse_full(out)
    if not folder.is_dir() or not is_foreign(folder):
        raise FolderError(f"{folder}: no Hugging Face folder, it has no config.json with a model_type")
    if is_decoder(folder):
        language = read_decoder(folder)
        save_language(language, out)
        weights, use = language.weights, "generate"
    else:
        checkpoint = read_folder(folder)
        save_checkpoint(checkpoint, out)
        weights, fresh = checkpoint.weights, tuple(checkpoint.fresh)
        use = USES[type(checkpoint.config.head).__name__.removesuffix("Config")]
    count = sum(tensor.numel() for tensor in weights.values())
    say(console, f"{out}: {count:,} parameters, for regard {use}")
    if fresh:
        say(console, f"not in the folder, so at random: {', '.join(fresh[:3])}")


def send_out(
    model: Path,
    out: Path,
    *,
    to: Literal["hf", "ctranslate2", "onnx"] = "hf",
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
    texts = [] if samples is None else _texts(samples)
    if to == "ctranslate2":
        translator = load_as(Translator, model, device="cpu", precision="float32")
        export(translator, out, precision=precision or "float32", samples=texts, console=console)
        return
    if to == "onnx":
        export_onnx(load(model, device="cpu", precision="float32"), out, samples=texts, console=console)
        return
    if model.is_dir() and not is_foreign(model) and read_config(model).get("task") == "translate":
        raise ConfigError(
            f"{model}: a translator, which transformers has no class for: use --to ctranslate2 or onnx"
        )
    if model.is_dir() and is_language(model):
        write_folder(open_language(model), out)
    else:
        write_folder(open_encoder(model), out)
    say(console, f"{out}: written, read back, every weight equal")


def _texts(file: Path) -> list[str]:
    texts = [line.text for line in read_lines(file) if line.text.strip()]
    if not texts:
        raise ConfigError(f"{file}: no text in it; give sentences, one a line")
    return texts


def _refuse_full(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: choose another folder")
