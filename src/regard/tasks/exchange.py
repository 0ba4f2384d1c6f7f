"""Models from Hugging Face folders and to them: what `regard import` and `regard export` do."""

from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.hub import is_decoder, is_foreign, read_decoder, read_folder, write_folder
from regard.tasks.encoders.start import open_encoder, save_checkpoint
from regard.tasks.folder import FolderError
from regard.tasks.language.start import is_language, open_language, save_language
from regard.tasks.terminal import say

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


def send_out(model: Path, out: Path, *, console: Console) -> None:
    """One of our models as a folder that transformers reads, and sentence-transformers where it embeds."""
    _refuse_full(out)
    if model.is_dir() and is_language(model):
        write_folder(open_language(model), out)
    else:
        write_folder(open_encoder(model), out)
    say(console, f"{out}: written, read back, every weight equal")


def _refuse_full(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: choose another folder")
