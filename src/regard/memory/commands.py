"""What `regard memory` does at the prompt."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from regard.config import ConfigError
from regard.memory.files import ENDINGS, ImportSettings, export_file, import_file
from regard.memory.glossary import import_glossary
from regard.memory.segments import Match
from regard.memory.store import NEAR, Memory
from regard.text.charsets import check_encoding, check_separator
from regard.text.records import DataError, OnError, Skipped
from regard.text.tmx import Tags


def import_memory(
    file: Path,
    memory: Path,
    *,
    console: Console,
    glossary: bool = False,
    source: str | None = None,
    target: str | None = None,
    tags: Tags = "drop",
    duplicates: Literal["newest", "all"] = "newest",
    on_error: OnError = "raise",
    encoding: str | None = None,
    separator: str | None = None,
) -> None:
    if memory.suffix.lower() in ENDINGS:
        raise ConfigError(
            f"{memory}: a memory is one file of regard's own, such as memory.db; name the file first"
        )
    if encoding is not None:
        check_encoding(encoding)
    try:
        if glossary:
            if source is None or target is None:
                raise ConfigError("--glossary: terms of which languages? Give --source and --target")
            count, skipped = import_glossary(
                file,
                memory,
                source,
                target,
                encoding=encoding,
                separator=check_separator(separator),
                on_error=on_error,
            )
            _say(console, f"{count:,} terms into {memory}")
        else:
            settings = ImportSettings(
                source=source,
                target=target,
                tags=tags,
                keep_all=duplicates == "all",
                on_error=on_error,
                encoding=encoding,
                separator=check_separator(separator),
            )
            outcome = import_file(file, memory, settings)
            found, skipped = outcome.imported, outcome.skipped
            _say(
                console,
                f"{found.total:,} segments into {memory}: {found.new:,} new, {found.replaced:,} in the place "
                f"of older ones, {found.known:,} known",
            )
            if left := +outcome.left:
                reasons = ", ".join(f"{count:,} {reason}" for reason, count in left.most_common())
                _say(console, f"{left.total():,} left out: {reasons}")
    except DataError as error:
        remedy = error.remedy.replace('pass on_error="skip"', "pass --on-error skip")
        raise DataError(error.origin, error.reason, error.particulars, remedy) from error
    _say_skipped(console, skipped)


def _say_skipped(console: Console, skipped: Skipped) -> None:
    if skipped.total:
        _say(console, str(skipped))


def export_memory(
    memory: Path, into: Path, *, console: Console, source: str | None = None, target: str | None = None
) -> None:
    _say(console, f"{export_file(memory, into, source=source, target=target):,} segments into {into}")


def search_memory(
    memory: Path,
    texts: Sequence[str],
    *,
    console: Console,
    at_least: int = NEAR,
    limit: int = 5,
    source: str | None = None,
    target: str | None = None,
    as_json: bool = False,
) -> None:
    with Memory(memory) as opened:
        languages = opened.pair(source, target)
        found = [opened.search(text, *languages, at_least=at_least, limit=limit) for text in texts]
    if as_json:
        rows = zip(texts, found, strict=True)
        plain = [{"text": text, "matches": [each.to_dict() for each in own]} for text, own in rows]
        _say(console, json.dumps(plain, ensure_ascii=False, indent=1))
        return
    for text, own in zip(texts, found, strict=True):
        if len(texts) > 1:
            _say(console, text)
        for match in own:
            _say(console, f"{match.score:3}  {match.source}\n     {match.target}{_when(match)}")
        if not own:
            _say(console, f"nothing that scores {at_least} or more")


def _when(match: Match) -> str:
    known = " ".join(filter(None, (match.date[:8], match.author)))
    return f"   ({known})" if known else ""


def show_memory(memory: Path, *, console: Console, as_json: bool = False) -> None:
    with Memory(memory) as opened:
        pairs, terms = opened.pairs(), opened.terms()
    counted: dict[tuple[str, str], int] = {}
    for row in terms:
        counted[row[:2]] = counted.get(row[:2], 0) + 1
    if as_json:
        plain: dict[str, Any] = {
            "segments": [
                {"source": one, "target": other, "count": count} for (one, other), count in pairs.items()
            ],
            "terms": [
                {"source": one, "target": other, "count": count} for (one, other), count in counted.items()
            ],
        }
        _say(console, json.dumps(plain, ensure_ascii=False, indent=1))
        return
    for what, every in (("segments", pairs), ("terms", counted)):
        for (one, other), count in every.items():
            _say(console, f"{one} -> {other}: {count:,} {what}")
    if not (pairs or counted):
        _say(console, "empty")


def _say(console: Console, line: str) -> None:
    """Not wrapped, not coloured, no markup read into it."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)
