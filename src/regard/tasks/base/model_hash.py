"""Which model it is, for whatever was made by one: vectors, an index, the shards of a corpus."""

import hashlib
from pathlib import Path

from regard.config import ConfigError

_HASHED = (".json", ".safetensors", ".model", ".txt", ".bin", ".spm")
_NOT_THE_MODEL = ("metrics.json", "data.json", "checkpoint.safetensors", "README.txt")


def model_hash(folder: Path, *but: Path) -> str:
    """SHA-256 of all files that a model is opened from, in folders inside it too: weights in any number of
    files, modules of sentence-transformers, the tokenizer. What lies in `but` (the texts, the index) is none
    of them."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give the --out folder of a training")
    others = [each.absolute() for each in but]
    sha = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _HASHED or path.name in _NOT_THE_MODEL or not path.is_file():
            continue
        if any(path.absolute().is_relative_to(other) for other in others):
            continue
        sha.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        with path.open("rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()
