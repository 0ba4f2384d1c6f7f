"""The tokenizer of a run: learned once, found again. Imports no torch."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from regard.config import ConfigError
from regard.disk import write_text
from regard.text import Tokenizer


def settled_tokenizer(folder: Path, wanted: str, *, begun: bool, make: Callable[[], Tokenizer]) -> Tokenizer:
    """The tokenizer in the folder if it is of this text and these settings, whose fingerprint is `wanted`; or
    else a new one, unless the run is `begun`."""
    mark, own = folder / "tokens.of", folder / "tokenizer.json"
    if mark.exists() and own.exists():
        of, _, digest = mark.read_text(encoding="utf-8").partition(" ")
        # a run that has begun knows it by config.json, where a change can be accepted
        if of == wanted and (begun or digest in ("", _digest(own))):
            return Tokenizer.load(folder)
    if begun and (mark.exists() or own.exists()):
        raise ConfigError(
            f"{folder}: begun with other text, or other settings of [data] or [tokenizer]; resume with the "
            "recipe that began it, or choose another --out"
        )
    tokenizer = make()
    folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)  # it is of the one before
    tokenizer.save(own)
    write_text(mark, f"{wanted} {_digest(own)}")
    return tokenizer


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
