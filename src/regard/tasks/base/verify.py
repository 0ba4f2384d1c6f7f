"""Is a model folder whole? Every byte that has a digest is read and compared, whatever the size of the file.

Loading does the same with what is small (`regard.train.digests`); `regard check MODEL` does it with all.
"""

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from safetensors.torch import load_file

from regard.config import ConfigError
from regard.hub import is_foreign
from regard.tasks.base.adapter import ADAPTER, FOLDER, has_adapter, is_adapter, read_adapter
from regard.tasks.base.folder import (
    DATA,
    EXPORTED,
    FORMAT,
    METRICS,
    RECIPE,
    read_config,
    read_metrics,
    read_sealed,
    write_digested,
    write_sealed,
    write_weights,
)
from regard.tasks.base.guards import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    FolderError,
    folder_errors,
    own_file,
    read_own_table,
    read_own_text,
)
from regard.tasks.base.header import check_content, read_header
from regard.tasks.base.own_recipe import accept_recipes, has_digest
from regard.text import Tokenizer
from regard.train import resume
from regard.train.digests import KEY


@dataclass(frozen=True, slots=True)
class Verified:
    """One file of a folder, and whether it is what was written."""

    file: Path
    state: Literal["whole", "readable", "damaged"]
    """whole: as its digest says. readable: it has no digest, but is what it should be."""
    why: str = ""
    """Of a damaged one."""

    def __str__(self) -> str:
        match self.state:
            case "whole":
                return f"{self.file}: whole"
            case "readable":
                return f"{self.file}: readable, without a digest to compare it with"
            case "damaged":
                return f"{self.file}: damaged: {self.why}"


def verify(folder: Path | str) -> list[Verified]:
    """All files that a model, or an adapter, is opened from, those that tell about it if they are there, the
    checkpoint from which its training would go on, and the adapter beside it if there is one."""
    folder = _ours(Path(folder))
    if is_adapter(folder):
        return _adapter(folder)
    checks: dict[str, Callable[[], bool]] = {
        CONFIG: lambda: _config(folder),
        TOKENIZER: lambda: _tokenizer(folder),
        WEIGHTS: lambda: _weights(folder),
    }
    # these change after config.json is written: each has its own digest
    telling = {
        METRICS: lambda: KEY in read_metrics(folder),
        DATA: lambda: KEY in read_sealed(folder, DATA),
    }
    if os.path.lexists(folder / RECIPE):
        checks[RECIPE] = lambda: _recipe(folder)
    checks |= {name: read for name, read in telling.items() if os.path.lexists(folder / name)}
    if (last := resume.find(folder)) is not None:
        checks[last.name] = partial(resume.check, last)
    found = [_verified(folder / name, check) for name, check in checks.items()]
    return found + (_adapter(folder / FOLDER) if has_adapter(folder) else [])


def _adapter(folder: Path) -> list[Verified]:
    def weights() -> bool:
        if not own_file(folder, ADAPTER).exists():
            raise FolderError(f"{folder / ADAPTER}: not there; copy the folder anew")
        return read_adapter(folder, read_config(folder)["task"]).digested

    checks = {CONFIG: lambda: _config(folder), ADAPTER: weights}
    return [_verified(folder / name, check) for name, check in checks.items()]


def accept(folder: Path | str) -> None:
    """Give config.json, tokenizer.json, recipe.toml, metrics.json and data.json the digests of what they are
    now, because they were changed on purpose; and weights that have none theirs. Weights that are not what
    was written stay so: nobody changes those by hand. There may be none yet, only a run to go on with."""
    folder = _ours(Path(folder))
    config = read_own_table(folder, CONFIG)
    if config.get("format") != FORMAT:
        raise FolderError(f"{folder / CONFIG}: format {config.get('format')!r} is not known, only {FORMAT}")
    with folder_errors(folder / TOKENIZER):
        Tokenizer.parse(read_own_text(folder, TOKENIZER), folder / TOKENIZER)
    accept_recipes(folder)
    for name in (METRICS, DATA):
        if own_file(folder, name).exists():
            write_sealed(folder / name, read_own_table(folder, name))
    with folder_errors(folder / WEIGHTS):
        begun = resume.find(folder) is not None and not own_file(folder, WEIGHTS).exists()
        if not begun and not read_header(folder).digests:
            write_weights(folder, load_file(folder / WEIGHTS))
    with folder_errors(folder / CONFIG):
        write_digested(folder, config)


def _ours(folder: Path) -> Path:
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder; give the --out folder of a training")
    if (folder / EXPORTED).is_file():
        raise ConfigError(f"{folder}: exported; its files are compared whenever it is opened")
    if not is_adapter(folder) and is_foreign(folder):
        raise ConfigError(
            f"{folder}: a folder of Hugging Face's, without digests; regard import makes one of ours of it"
        )
    return folder


def _verified(path: Path, check: Callable[[], bool]) -> Verified:
    """`check` says whether there was a digest."""
    try:
        with folder_errors(path):
            return Verified(path, "whole" if check() else "readable")
    except FolderError as error:
        why = str(error).removeprefix(f"{path}: ").removeprefix("damaged: ")
        return Verified(path, "damaged", why)


def _config(folder: Path) -> bool:
    if not isinstance(read_config(folder).get("task"), str):
        raise ValueError("no task in it; copy the folder anew")
    return KEY in read_own_table(folder, CONFIG)


def _tokenizer(folder: Path) -> bool:
    digests = read_own_table(folder, CONFIG).get(KEY)
    digest = digests.get(TOKENIZER) if isinstance(digests, dict) else None
    Tokenizer.parse(read_own_text(folder, TOKENIZER, digest), own_file(folder, TOKENIZER))
    return digest is not None


def _recipe(folder: Path) -> bool:
    tomllib.loads(read_own_text(folder, RECIPE))
    return has_digest(folder)


def _weights(folder: Path) -> bool:
    header = read_header(folder)
    check_content(header)
    return bool(header.digests)
