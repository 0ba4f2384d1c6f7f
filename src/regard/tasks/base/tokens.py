"""The tokenizer of a run: learned once, found again. Imports no torch."""

from collections.abc import Callable
from pathlib import Path

from regard.config import ConfigError
from regard.disk import write_text
from regard.text import Tokenizer


def settled_tokenizer(folder: Path, wanted: str, *, begun: bool, make: Callable[[], Tokenizer]) -> Tokenizer:
    """The tokenizer in the folder if it is of this text and these settings, whose fingerprint is `wanted`; or
    else a new one, unless the run is `begun`."""
    mark = folder / "tokens.of"
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted and (folder / "tokenizer.json").exists():
        return Tokenizer.load(folder)
    if begun and (mark.exists() or (folder / "tokenizer.json").exists()):
        raise ConfigError(
            f"{folder}: begun with other text, or other settings of [data] or [tokenizer]; resume with the "
            "recipe that began it, or choose another --out"
        )
    tokenizer = make()
    folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)  # it is of the one before
    tokenizer.save(folder / "tokenizer.json")
    write_text(mark, wanted)
    return tokenizer
