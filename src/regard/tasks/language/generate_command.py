"""What `regard generate` writes.

    plain      prompt and continuation, as one text; a line of dashes between texts
    as_json    {"prompt": ..., "text": ..., "finished": ..., "score": ..., "tokens": ...}, one a line

A single text is written as it comes.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.tasks.faster import Precision
from regard.tasks.language.continuation import Generated
from regard.tasks.language.generator import SAMPLING, Generator, Past, open_generator
from regard.tasks.lines import incoming
from regard.tasks.terminal import counting
from regard.text import DataError, Origin

BETWEEN = "---"
WINDOW = 1000
"""Prompts that are read before the first is answered."""
_DRAWING = ("temperature", "top_k", "top_p", "min_p", "seed")


def generate(
    model: Path,
    prompts: Sequence[str] = (),
    file: str | None = None,
    *,
    out: TextIO,
    device: str = "auto",
    precision: Precision | None = None,
    greedy: bool = False,
    beam: int | None = None,
    samples: int = 1,
    stop: Sequence[str] = (),
    past: Past = "stop",
    as_json: bool = False,
    decoding: dict[str, Any] | None = None,
) -> None:
    """Prompts as they are given, or the lines of a file, "-" for what comes in. `decoding` has settings of
    `DecodeConfig` by name; None leaves one as it is."""
    if prompts and file is not None:
        raise ConfigError(f"--prompt and --file {file}: give prompts in one way")
    if not prompts and file is None:
        if sys.stdin.isatty():
            raise ConfigError("nothing to go on from: give --prompt TEXT, or --file with a prompt a line")
        file = "-"
    config = decoding_of(greedy=greedy, beam=beam, samples=samples, **(decoding or {}))
    generator = open_generator(model, device, precision)
    asked = file == "-" and sys.stdin.isatty()
    one = (asked or len(prompts) == 1) and samples == 1 and config.method != "beam" and not as_json
    lines = iter(prompts) if file is None else incoming(file)
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


def decoding_of(*, greedy: bool, beam: int | None, samples: int, **settings: Any) -> DecodeConfig:
    """SAMPLING, changed where something was asked for; a search instead, if that was."""
    given = {name: value for name, value in settings.items() if value is not None}
    if greedy and beam is not None:
        raise ConfigError("--greedy and --beam are two ways to search: give one")
    if not greedy and beam is None:
        return replace(SAMPLING, n_best=samples, **given)
    if idle := [f"--{name.replace('_', '-')}" for name in _DRAWING if name in given]:
        raise ConfigError(f"{idle[0]} is for sampling, and a search draws nothing: leave it out")
    if beam is None:
        return DecodeConfig(method="greedy", n_best=samples, **given)
    return DecodeConfig(method="beam", beam=beam, n_best=samples, **given)


@contextmanager
def _named(file: str | None, before: int) -> Iterator[None]:
    """A prompt that is refused is told by where it stands, and by what can be typed; there are so many
    before the first."""
    try:
        yield
    except DataError as error:
        where = "--prompt" if file is None else "standard input" if file == "-" else file
        origin = Origin(where, before + (error.origin.line or 0))
        remedy = error.remedy.replace("past='slide'", "--past slide")
        raise DataError(origin, error.reason, error.particulars, remedy) from error
