"""Which model it is, for whatever was made by one: vectors, an index, the shards of a corpus."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from regard.config import ConfigError

_HASHED = (".json", ".safetensors", ".model", ".txt", ".bin", ".spm")
_NOT_THE_MODEL = ("metrics.json", "data.json", "checkpoint.safetensors", "README.txt")


def model_hash(folder: Path, *but: Path) -> str:
    """SHA-256 of all files that a model is opened from, in folders inside it too: weights in any number of
    files, modules of sentence-transformers, the tokenizer. What lies in `but` (the texts, the index) is none
    of them; nor is what is hidden, a checkpoint of a training (`checkpoint-STEP`), a corpus of shards."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give the --out folder of a training")
    others = [each.resolve() for each in but]
    sha = hashlib.sha256()
    for path in sorted(_files(folder)):
        if path.suffix not in _HASHED or path.name in _NOT_THE_MODEL or not path.is_file():
            continue
        if any(path.resolve().is_relative_to(other) for other in others):
            continue
        sha.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        with path.open("rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for name, inside, files in os.walk(folder):
        if Path(name) != folder and ".regard" in inside:  # shards of a corpus
            inside.clear()
            continue
        inside[:] = [each for each in inside if not each.startswith((".", "checkpoint-"))]
        yield from (Path(name, each) for each in files if not each.startswith("."))
