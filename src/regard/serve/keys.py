"""The keys of those who may ask, each with the translator that is its own, if it has one; they can be read
again."""

from collections.abc import Collection, Mapping
from pathlib import Path

from regard.config import ConfigError
from regard.serve.models import Models


def read_keys(path: Path | None, names: Collection[str]) -> dict[str, str | None]:
    """One a line, and behind it the name of the translator that is asked where a request names none; lines
    that begin with # are none."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--keys {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    rows = [line.split() for line in text.splitlines()]
    rows = [row for row in rows if row and not row[0].startswith("#")]
    if not rows:
        raise ConfigError(f"{path}: no keys; write one a line")
    for number, row in enumerate(rows, 1):  # which is not told: it is a secret
        if not row[0].isascii():
            raise ConfigError(f"{path}: key {number}: letters of ASCII alone; no header carries others")
        if len(row) > 2 or (len(row) == 2 and row[1] not in names):
            there = ", ".join(names)
            raise ConfigError(f"{path}: key {number}: behind it stands the name of a model, one of {there}")
    return {row[0]: row[1] if len(row) == 2 else None for row in rows}


def check_keys(keys: Mapping[str, str | None], models: Models) -> None:
    """Each that has a model has a translator: known once they are open."""
    there = [each.name for each in models.translators()]
    for number, name in enumerate(keys.values(), 1):
        if name is not None and name not in there:
            raise ConfigError(
                f"the keys' file: key {number}: {name} is no translator; name one of those that are served "
                f"({', '.join(there) or 'none'}), or none"
            )


class Keys:
    def __init__(self, path: Path | None, names: Collection[str]) -> None:
        self._path, self._names = path, names
        self.now = read_keys(path, names)
        """Those that count; never changed, but replaced."""

    def read(self, models: Models) -> None:
        """Again; what is wrong with them is told, and leaves those that there are."""
        found = read_keys(self._path, self._names)
        check_keys(found, models)
        self.now = found
