"""What `regard chat` does: a dialogue at the prompt, or the answers to messages that are given at once.

Every turn is put to the model with all that was said before. Where the context has no room left, the oldest
turns are forgotten, and the user is told.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.tasks.base.decoding import changed
from regard.tasks.base.faster import Precision
from regard.tasks.language.generator import CHATTING, Generator, open_generator

ROOM = 32
"""Tokens that an answer has at least: older turns are forgotten for it."""


class Dialogue:
    """Turns, and what the model answers."""

    def __init__(self, generator: Generator, system: str | None, decoding: DecodeConfig) -> None:
        self.generator, self.decoding = generator, decoding
        self.messages: list[dict[str, str]] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        self.forgotten = 0
        """Messages that had to go."""

    def answers(self, said: str) -> Iterator[str]:
        """The answer to one more message, as it comes."""
        self.messages.append({"role": "user", "content": said})
        prompt = self._fitted()
        pieces = []
        for piece in self.generator.stream(prompt, decoding=self.decoding):
            pieces.append(piece)
            yield piece
        self.messages.append({"role": "assistant", "content": "".join(pieces)})

    def _fitted(self) -> Any:
        longest = self.generator.longest
        prompt = self.generator.prompt(self.messages)
        first = int(self.messages[0]["role"] == "system")
        while longest is not None and len(prompt.ids) + ROOM > longest and len(self.messages) > first + 2:
            del self.messages[first : first + 2]
            self.forgotten += 2
            prompt = self.generator.prompt(self.messages)
        return prompt


def chat(
    model: Path,
    prompt: Sequence[str] | None = None,
    *,
    out: TextIO,
    system: str | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    greedy: bool = False,
    as_json: bool = False,
    decoding: dict[str, Any] | None = None,
) -> None:
    """The messages are those of `prompt`, one turn after the other; or, where there are none, the lines of
    standard input."""
    config = changed(CHATTING, decoding or {}, greedy=greedy)
    if config.method == "beam" or config.n_best > 1:
        raise ConfigError("a dialogue has one answer, written as it comes: leave out --beam and --n-best")
    generator = open_generator(model, device=device, precision=precision)
    generator.prompt([{"role": "user", "content": ""}])  # whether it can
    dialogue = Dialogue(generator, system, config)
    asked = not prompt and sys.stdin.isatty()
    for said in prompt or _lines(out if asked else None):
        before = dialogue.forgotten
        for piece in dialogue.answers(said):
            if not as_json:
                out.write(piece)
                out.flush()
        if as_json:
            out.write(json.dumps(dialogue.messages[-2:], ensure_ascii=False))
        out.write("\n")
        out.flush()
        if dialogue.forgotten > before:
            sys.stderr.write(f"(the context is full: {dialogue.forgotten} messages are forgotten)\n")


def _lines(asking: TextIO | None) -> Iterator[str]:
    """What is typed, or comes in; empty lines are passed over."""
    while True:
        if asking is not None:
            asking.write("> ")
            asking.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")
