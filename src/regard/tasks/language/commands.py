"""What `regard generate` writes.

    plain      prompt and continuation, as one text; a line of dashes between texts
    as_json    {"prompt": ..., "text": ..., "finished": ..., "score": ..., "tokens": ...}, one a line
    ids        those of the prompt and of the continuation, a line each; {"prompt": [...], "ids": [...]}

A single text is written as it comes.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from regard.config import ConfigError
from regard.tasks.base.decoding import changed
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.lines import WINDOW, incoming
from regard.tasks.base.terminal import counting
from regard.tasks.language.continuation import Generated
from regard.tasks.language.generator import SAMPLING, Generator, Past, open_generator
from regard.text import DataError, Origin

BETWEEN = "---"


def generate(
    model: Path,
    prompt: Sequence[str] | None = None,
    file: str | None = None,
    ids: Sequence[str] | None = None,
    *,
    out: TextIO,
    device: str = "auto",
    precision: Precision | None = None,
    greedy: bool = False,
    stop: Sequence[str] | None = None,
    past: Past = "stop",
    as_json: bool = False,
    decoding: dict[str, Any] | None = None,
    files: FileOptions = AS_NAMED,
) -> None:
    """Prompts as they are given, or the lines of a file, "-" for standard input; or ids, numbers with spaces
    between. `decoding` has settings of
    `DecodeConfig` by name, in place of SAMPLING's."""
    prompts, stop = prompt or (), stop or ()
    config = changed(SAMPLING, decoding or {}, greedy=greedy)
    if ids:
        if prompts or file is not None:
            raise ConfigError("--ids beside --prompt or --file: give prompts in one way")
        if config.n_best > 1:
            raise ConfigError(f"--ids gives one continuation each: leave out --n-best {config.n_best}")
        listed, ends = [_numbers("--ids", each) for each in ids], _numbers("--stop", " ".join(stop))
        generator = open_generator(model, device=device, precision=precision)
        new = generator.generate_ids(listed, end=ends or None, decoding=config, past=past)
        _write_ids(listed, new, out, as_json=as_json)
        return
    if prompts and file is not None:
        raise ConfigError(f"--prompt and --file {file}: give prompts in one way")
    if not prompts and file is None:
        if sys.stdin.isatty():
            raise ConfigError("no prompt to complete: give --prompt TEXT, or --file with a prompt a line")
        file = "-"
    lines = iter(prompts) if file is None else incoming(file, files.encoding)
    generator = open_generator(model, device=device, precision=precision)
    asked = file == "-" and sys.stdin.isatty()
    one = (asked or len(prompts) == 1) and config.n_best == 1 and config.method != "beam" and not as_json
    with counting("prompts", beside=out) as advance:
        before = 0
        while chunk := list(islice(lines, 1 if asked else WINDOW)):
            if before and not as_json:
                out.write(BETWEEN + "\n")
            with _named(file, before):
                if one:
                    _stream(generator, chunk[0], out, decoding=config, stop=stop, past=past, key=before)
                else:
                    keys = range(before, before + len(chunk))
                    found = generator.generate(
                        chunk, decoding=config, stop=stop, past=past, keys=keys, progress=advance
                    )
                    _write([each for row in found for each in row], out, as_json=as_json)
            out.flush()
            before += len(chunk)


def _numbers(option: str, given: str) -> list[int]:
    try:
        return [int(each) for each in given.replace(",", " ").split()]
    except ValueError:
        raise ConfigError(f"{option} {given!r}: ids are whole numbers with spaces between, '1 2 3'") from None


def _write_ids(
    prompts: Sequence[Sequence[int]], found: Sequence[Sequence[int]], out: TextIO, *, as_json: bool
) -> None:
    for prompt, ids in zip(prompts, found, strict=True):
        plain = " ".join(map(str, [*prompt, *ids]))
        out.write(f"{json.dumps({'prompt': [*prompt], 'ids': [*ids]}) if as_json else plain}\n")


def _write(texts: Sequence[Generated], out: TextIO, *, as_json: bool) -> None:
    if as_json:
        out.writelines(json.dumps(each.to_dict(), ensure_ascii=False) + "\n" for each in texts)
    else:
        out.write(f"\n{BETWEEN}\n".join(map(str, texts)) + "\n")


def _stream(generator: Generator, prompt: str, out: TextIO, **settings: Any) -> None:
    pieces = generator.stream(prompt, **settings)
    out.write(prompt)
    out.flush()
    for piece in pieces:
        out.write(piece)
        out.flush()
    out.write("\n")


@contextmanager
def _named(file: str | None, before: int) -> Iterator[None]:
    """A prompt that is refused is reported with where it stands, and by what can be typed; there are so many
    before the first."""
    try:
        yield
    except DataError as error:
        where = "--prompt" if file is None else "standard input" if file == "-" else file
        origin = Origin(where, before + (error.origin.line or 0))
        remedy = error.remedy.replace("past='slide'", "--past slide")
        raise DataError(origin, error.reason, error.particulars, remedy) from error
