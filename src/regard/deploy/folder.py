"""An exported folder: what CTranslate2 reads, our tokenizer, and what a translator needs to know besides.

    model.bin, config.json, *_vocabulary.json    CTranslate2's own
    tokenizer.json                               from text to tokens, and back
    regard.json                                  the shape, the languages, how to decode; a hash of each file

It stands alone. Files are read only where their hashes are right: CTranslate2 trusts what it is given.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import ConfigError, check_choices, from_dict, to_dict
from regard.decode import DecodeConfig
from regard.disk import DiskFullError, full_disk
from regard.hub.translators import Marks
from regard.settings.models import PromptConfig, Seq2SeqConfig
from regard.tasks.base.folder import EXPORTED, FolderError, read_json, write_json
from regard.tasks.translation.confidence import Calibration
from regard.tasks.translation.fuzzy import Fuzzy
from regard.tasks.translation.inline import Inline

Precision = Literal["float32", "int8"]

FACTS = EXPORTED
FORMAT = 1
NEEDED = ("config.json", "model.bin", "tokenizer.json")
ALLOWED = {*NEEDED, *(f"{side}_vocabulary.json" for side in ("shared", "source", "target"))}


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    engine: Literal["ctranslate2"] = "ctranslate2"
    """What runs it."""
    precision: Precision
    """Of the weights."""
    model: Seq2SeqConfig
    """The shape."""
    longest: int
    """Most tokens of a source that the model was trained on."""
    languages: tuple[str, ...]
    """Those it writes, if it is told which."""
    decode: DecodeConfig
    """How to decode where nothing else is said."""
    several_sentences: float | None = None
    """The share of its training sources that hold several sentences, if that is known."""
    marks: Marks = "source"
    """Where the model is told languages: before the source, or before both sides."""
    source_language: str | None = None
    """What it reads unless told otherwise, where it has to be told."""
    prompts: tuple[PromptConfig, ...] = ()
    """What may stand before a source."""
    default_prompt: str = ""
    """The name of the one that does unless another is asked for; none, if empty."""
    fuzzy: Fuzzy | None = None
    """How it was given near matches while it was trained, if it was,"""
    inline: Inline | None = None
    calibration: Calibration | None = None
    """and how terms."""
    positions: int
    """Rows of the table of positions, where there is one and it was not learned."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name, least in (("longest", 3), ("positions", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A folder beside it to write into, which gets its name at the end; nothing is left behind where that is
    not reached."""
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with full_disk(out):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            yield partial
            partial.replace(out)
    except DiskFullError as error:
        raise DiskFullError(out, error.why) from error  # what is written into has another name
    except OSError as error:
        raise ConfigError(f"{out}: could not be written ({error}); choose another folder") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def folder_size(folder: Path) -> int:
    """In bytes."""
    return sum(path.stat().st_size for path in folder.iterdir())


def write_facts(folder: Path, facts: Facts) -> None:
    """When all else is there."""
    hashes = {path.name: _hash(path) for path in sorted(folder.iterdir()) if path.name != FACTS}
    write_json(folder / FACTS, {"format": FORMAT, **to_dict(facts), "files": hashes})


def read_facts(folder: Path) -> Facts:
    """What an exported folder says of itself, if all its files are as they were written."""
    file = folder / FACTS
    if not file.is_file():
        raise FolderError(
            f"{folder}: not exported, it has no {FACTS}; first regard export MODEL OUT --to ctranslate2, "
            "then translate with OUT; or translate with --engine regard"
        )
    plain: Any = read_json(file)
    if not isinstance(plain, dict) or plain.pop("format", None) != FORMAT:
        raise FolderError(f"{file}: of another version, only format {FORMAT} is known; export the model anew")
    _check_files(folder, plain.pop("files", None))
    try:
        return from_dict(Facts, plain)
    except ConfigError as error:
        raise FolderError(f"{file}: {error}; export the model anew") from error


def _check_files(folder: Path, hashes: Any) -> None:
    if not isinstance(hashes, dict) or not {*NEEDED} <= hashes.keys() <= ALLOWED:
        raise FolderError(
            f"{folder / FACTS}: its files must be {', '.join(NEEDED)} and vocabularies; copy the folder anew"
        )
    for name, wanted in hashes.items():
        path = folder / name
        if not path.is_file():
            raise FolderError(f"{path}: not there; copy the folder anew")
        if _hash(path) != wanted:
            raise FolderError(f"{path}: not what was written, it may be cut short; copy the folder anew")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
