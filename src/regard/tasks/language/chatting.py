"""What `regard chat` does: a dialogue at the prompt, or the answers to messages that are given at once.

Every turn is put to the model with all that was said before. Where the context has no room left, the oldest
turns are forgotten, and the user is told; so is it where an answer is cut, or a message is longer than the
context.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.tasks.base.decoding import changed
from regard.tasks.base.faster import Precision
from regard.tasks.language.dialogue import check_variables
from regard.tasks.language.generator import CHATTING, Generator, open_generator

ROOM = 32
"""Tokens that an answer has at least: older turns are forgotten for it."""


class TooLongError(ValueError):
    """A message that the context has no room for."""


class Dialogue:
    """Turns, and what the model answers."""

    def __init__(
        self,
        generator: Generator,
        system: str | None,
        decoding: DecodeConfig,
        *,
        bounded: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Answers have `decoding.maximum` tokens at most or, unless they are `bounded`, what the context has
        room for."""
        self.generator, self.decoding, self.bounded = generator, decoding, bounded
        self._prompt = partial(generator.prompt, chat_template_kwargs=chat_template_kwargs)
        self.messages: list[dict[str, str]] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        self.forgotten = 0
        """Messages that had to go."""
        self.cut = False
        """Whether the last answer has no end."""

    def answers(self, said: str) -> Iterator[str]:
        """The answer to one more message, as it comes. A message that no context has room for is an error,
        and nothing that was said."""
        self._check_length(said)
        self.messages.append({"role": "user", "content": said})
        prompt, longest = self._fitted(), self.generator.longest
        config = self.decoding
        if longest is not None and not self.bounded:
            config = replace(config, maximum=longest - len(prompt.ids))
        with self.generator.ready():
            for [each] in self.generator.write([prompt], decoding=config):
                if each.text:
                    yield each.text
                if each.whole is not None:
                    answer = each.whole
        self.cut = answer.finished == "length"
        self.messages.append({"role": "assistant", "content": answer.text})

    def _check_length(self, said: str) -> None:
        first = int(bool(self.messages) and self.messages[0]["role"] == "system")
        alone = self._prompt([*self.messages[:first], {"role": "user", "content": said}])
        longest = self.generator.longest
        if longest is not None and len(alone.ids) >= longest:
            raise TooLongError(
                f"the message has {len(alone.ids)} tokens with what belongs to it, and the context is of "
                f"{longest}: it was not put to the model; shorten it"
            )

    def _fitted(self) -> Any:
        longest = self.generator.longest
        prompt = self._prompt(self.messages)
        first = int(self.messages[0]["role"] == "system")
        while longest is not None and len(prompt.ids) + ROOM > longest and len(self.messages) > first + 2:
            del self.messages[first : first + 2]
            self.forgotten += 2
            prompt = self._prompt(self.messages)
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
    chat_template_kwargs: str | None = None,
    decoding: dict[str, Any] | None = None,
) -> None:
    """The messages are those of `prompt`, one turn after the other; or, where there are none, the lines of
    standard input. `chat_template_kwargs` is JSON."""
    config = changed(CHATTING, decoding or {}, greedy=greedy)
    if config.method == "beam" or config.n_best > 1:
        raise ConfigError("a dialogue has one answer, written as it comes: leave out --beam and --n-best")
    variables = _variables(chat_template_kwargs)
    generator = open_generator(model, device=device, precision=precision)
    generator.prompt([{"role": "user", "content": ""}], chat_template_kwargs=variables)  # whether it can
    bounded = "maximum" in (decoding or {})
    dialogue = Dialogue(generator, system, config, bounded=bounded, chat_template_kwargs=variables)
    asked = not prompt and sys.stdin.isatty()
    for said in prompt or _lines(out if asked else None):
        before = dialogue.forgotten
        try:
            for piece in dialogue.answers(said):
                if not as_json:
                    out.write(piece)
                    out.flush()
        except TooLongError as error:
            sys.stderr.write(f"({error})\n")
            out.write("[]\n" if as_json else "\n")
            out.flush()
            continue
        if as_json:
            out.write(json.dumps(dialogue.messages[-2:], ensure_ascii=False))
        out.write("\n")
        out.flush()
        if dialogue.cut:
            sys.stderr.write(f"(the answer is cut: {_why_cut(dialogue)})\n")
        if dialogue.forgotten > before:
            sys.stderr.write(f"(the context is full: {dialogue.forgotten} messages are forgotten)\n")


def _variables(text: str | None) -> dict[str, Any]:
    try:
        given = {} if text is None else json.loads(text)
        return check_variables(given)
    except (ValueError, RecursionError) as error:
        example = "'{\"enable_thinking\": false}'"
        raise ConfigError(
            f"--chat-template-kwargs {text!r:.60}: give names and values in JSON, {example} ({error})"
        ) from error


def _why_cut(dialogue: Dialogue) -> str:
    if dialogue.bounded or dialogue.generator.longest is None:
        return f"it has {dialogue.decoding.maximum} tokens, set another number by --maximum"
    return "the context is full"


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
