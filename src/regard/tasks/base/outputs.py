"""What a command is given, and where its answers go.

    regard classify MODEL few.csv                   a file, to standard output
    regard classify MODEL "A fine film."            a text: no file has such a name
    regard classify MODEL few.csv --out out.jsonl   to a file, whose ending may choose another format
    regard classify MODEL texts/ more.csv --out DIR each file of a folder too, to one of its name in DIR

A file is written under another name and renamed when it is whole; a pipe or a device is written into. What
is in DIR already is left as it is, so that a run that was stopped goes on.
"""

import bz2
import gzip
import lzma
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.disk import full_disk, own_partial, sync_folder
from regard.tasks.base.formats import AS_NAMED, REFUSED, TABLES, FileOptions, Format, ending
from regard.tasks.base.sources import Source, source_of
from regard.tasks.base.terminal import say
from regard.text import DataError
from regard.text.files import COMPRESSED

Inputs = str | Sequence[str] | None
"""Files, folders, "-" for standard input, or texts; nothing is standard input too."""

_STREAMS = re.compile(r"/dev/(?:stdout|stderr|fd/\d+)|/proc/self/fd/\d+")
"""What is behind them may be a file that has text already."""
_OPEN: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class BrokenFilesError(ConfigError):
    """Some of several files could not be done, which was told of each; the others are."""


@dataclass(frozen=True, slots=True)
class Assignment:
    source: Source
    target: Path | None
    """None: standard output."""
    format: Format
    """What is written; lines where they are read and nothing else is said."""
    keep: bool = False
    """Whether a file that is there already is left as it is."""

    @property
    def tabular(self) -> bool:
        """Whether what is read, or what is written, has columns. Lines to JSON lines have a way of their
        own in every task."""
        return self.source.format != "lines" or self.format in ("csv", "tsv")

    @contextmanager
    def opened(self, out: TextIO) -> Iterator[TextIO]:
        """Where it is written; `out` unless there is a target."""
        if self.target is None:
            yield out
            return
        with written_whole(self.target) as file:
            yield file


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file that gets its name when it is whole; packed as its ending says."""
    with _renamed(path, "wt", encoding="utf-8", newline="") as file:
        yield file


def is_stream(path: Path) -> bool:
    """Whether somebody has it open, or it is no file: what gets its name later would take its place."""
    return bool(_STREAMS.fullmatch(str(path))) or (path.exists() and not path.is_file())


def check_packing(path: Path, option: str = "") -> None:
    """Raise for a compression that is only read."""
    if path.suffix in COMPRESSED and path.suffix not in _OPEN:
        raise ConfigError(f"{option}{path}: not written; end its name in {', '.join(_OPEN)}, or plainly")


def check_one_file(path: Path) -> None:
    """Raise for what is not written as a single file of text."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file")
    check_packing(path)


def write_bytes_whole(path: Path, raw: bytes) -> None:
    """The same, of bytes."""
    with _renamed(path, "wb") as file:
        file.write(raw)


@contextmanager
def _renamed(path: Path, mode: str, **how: Any) -> Iterator[Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = _OPEN.get(path.suffix, open)
    if is_stream(path):
        there = _STREAMS.fullmatch(str(path))
        with full_disk(path), opened(path, mode.replace("w", "a") if there else mode, **how) as file:
            yield file
        return
    path = path.resolve()  # what a link leads to is replaced, not the link
    partial = own_partial(path)
    try:
        with full_disk(path):
            with opened(partial, mode, **how) as file:
                yield file
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def assign(
    inputs: Inputs,
    into: str | None = None,
    options: FileOptions = AS_NAMED,
    *,
    as_json: bool = False,
    behind: str = "",
    read: Callable[[str, FileOptions], Source] = source_of,
    meant: Callable[[str], bool] | None = None,
) -> list[Assignment]:
    """Everything that is to be done, before anything is. `as_json`: JSON lines are written. `behind` is put
    behind the names of files in a folder. `read` makes a source of a name, or refuses it. `meant` says which
    files of folders are read; unless given, all that can be."""
    given = ["-"] if not inputs else [inputs] if isinstance(inputs, str) else [*inputs]
    texts = [each for each in given if is_text(each)]
    if texts and len(texts) < len(given):
        other = next(each for each in given if each not in texts)
        raise ConfigError(f"{texts[0]!r:.60} is no file, but {other!r:.60} names one: give files, or texts")
    if texts and options.format not in (None, "lines"):
        raise ConfigError(f"--format {options.format} is of files, but {texts[0]!r:.60} is no file")
    many = not texts and (len(given) > 1 or Path(given[0]).is_dir())
    if many and into is None:
        raise ConfigError(f"{', '.join(given)!s:.60}: several files; say where the answers go, --out DIR")
    if texts:
        sources = [(Source("text", options=options, texts=tuple(texts)), "text")]
    elif many:
        sources = [*_found(given, Path(str(into)), options, read, meant)]
    else:
        sources = [(read(given[0], options), Path(given[0]).name if given[0] != "-" else "text")]
    if not sources:
        raise ConfigError(f"{', '.join(given)}: no files in it that are read")
    inside = many or (into is not None and (into.endswith(("/", os.sep)) or Path(into).is_dir()))
    if inside and Path(str(into)).is_file():
        raise ConfigError(f"--out {into} is a file, but there are {len(sources)} to write: name a folder")
    found = [_assignment(source, name, into, inside, as_json, behind) for source, name in sources]
    _check_apart(found)
    return found


def is_text(given: str) -> bool:
    """Whether this is what to read, and not where it is: there is no such file, and it has a space, or looks
    like no path."""
    if given == "-" or os.path.exists(given):  # noqa: PTH110  # unlike Path's, for names of any length
        return False
    if re.search(r"\s", given):
        return True
    return not re.search(r"[/\\]|\.\w{1,8}$", given, re.ASCII)


def _found(
    given: Sequence[str],
    into: Path,
    options: FileOptions,
    read: Callable[[str, FileOptions], Source],
    meant: Callable[[str], bool] | None,
) -> Iterator[tuple[Source, str]]:
    """The files that are named, and those in folders that can be read; the others of folders are told."""
    left: list[Path] = []
    for each in given:
        if not Path(each).is_dir():
            if each == "-":
                raise ConfigError("-: standard input has no name to write to; read it by itself")
            yield read(each, options), Path(each).name
            continue
        for path in sorted(Path(each).rglob("*")):
            inner = path.relative_to(each)
            hidden = any(part.startswith(".") for part in inner.parts) or path.suffix == ".partial"
            if path.is_dir() or hidden or path.is_relative_to(into):
                continue
            if meant is not None and not meant(str(path)):
                left.append(path)
                continue
            try:
                yield read(str(path), options), str(inner)
            except (DataError, ValueError) as error:
                say(Console(stderr=True), f"left out: {error}")
    if left:
        names = ", ".join(map(str, left[:5])) + (", ..." if len(left) > 5 else "")
        remedy = "name a file, or give --format, to have it read"
        say(Console(stderr=True), f"left out: {len(left):,} other files ({names}); {remedy}")


def _assignment(
    source: Source, name: str, into: str | None, inside: bool, as_json: bool, behind: str
) -> Assignment:
    form: Format = "jsonl" if as_json else source.format
    if source.document is not None and as_json:
        raise ConfigError(f"--json is of lines and tables, but {source.name} is a document: leave it out")
    if source.document is not None and into is not None:
        return Assignment(source, Path(into) / name if inside else Path(into), form)
    if into is None:
        return Assignment(source, None, form)
    if inside:
        name = name.removesuffix(".zip") + behind
        if as_json and TABLES.get(ending(name)) != "jsonl" and not behind:
            name += ".jsonl"
        return Assignment(source, Path(into) / name, form, keep=True)
    chosen = TABLES.get(ending(into))
    if (what := REFUSED.get(ending(into))) is not None:
        raise ConfigError(f"--out {into}: {what} is not written; end its name in .txt, .csv, .tsv or .jsonl")
    if not behind:
        if chosen is None and source.format != "lines":
            raise ConfigError(f"--out {into}: a table is written as .csv, .tsv or .jsonl; end its name so")
        if as_json and chosen not in ("jsonl", None):
            raise ConfigError(f"--out {into} and --json: give one of the two, or a name that ends in .jsonl")
        check_packing(Path(into), "--out ")
    return Assignment(source, Path(into), chosen or form)


def _check_apart(found: Sequence[Assignment]) -> None:
    taken: dict[Path, str] = {}
    for each in found:
        if each.target is None:
            continue
        target = each.target.resolve()
        if target in taken:
            both = f"{taken[target]} and {each.source.file}"
            raise ConfigError(f"{both} would both be written to {each.target}: read them one after the other")
        taken[target] = each.source.file
        if each.source.texts is None and Path(each.source.file).resolve() == target:
            raise ConfigError(f"--out {each.target} is the file that is read: choose another to write")


def one_of_lines(found: Sequence[Assignment], option: str) -> str:
    """The name of the only file, which has a text a line, for what reads nothing else."""
    if (
        len(found) != 1
        or found[0].tabular
        or found[0].source.texts is not None
        or found[0].target is not None
    ):
        raise ConfigError(f"{option} reads one file of plain lines, to standard output")
    return found[0].source.file


def _newer(source: Source, target: Path) -> bool:
    try:
        return Path(source.file).stat().st_mtime > target.stat().st_mtime
    except OSError:  # of what is in an archive
        return False


def do_each(found: Sequence[Assignment], work: Callable[[Assignment], None]) -> None:
    """One after the other. Of several, a file that is broken does not stop the others; at the end it is said
    what was done."""
    if len(found) == 1 and not found[0].keep:
        work(found[0])
        return
    console = Console(stderr=True)
    done = there = broken = 0
    for each in found:
        if each.target is not None and each.target.exists():
            there += 1
            if _newer(each.source, each.target):
                told = f"{each.target}: left as it is, though {each.source.name} has changed since"
                say(console, f"{told}; delete it to have it made anew")
            continue
        try:
            work(each)
            done += 1
        except DataError as error:
            if len(found) == 1:
                raise
            broken += 1
            say(console, f"error: {error}")
    kept = f", {there} there already" if there else ""
    say(console, f"{done} of {len(found)} files written{kept}")
    if broken:
        raise BrokenFilesError(f"{broken} of {len(found)} files could not be read; the others are done")
