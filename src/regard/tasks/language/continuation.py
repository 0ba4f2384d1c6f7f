"""What follows a prompt: a text that grows by tokens, of which only what is certain is given out.

A token may hold a part of a character, and the end of a text may be the beginning of a stop string: both are
held back until more is known. A token's text may hang on what is before it (a space in front, or none), so
the prompt's tokens are read with it. Where bytes make no character, U+FFFD stands for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.text import Tokenizer

Finished = Literal["end", "stop", "length"]
"""Why a text goes no further: the model ended it; a stop string came; or it has its tokens, the context is
full, or no token was allowed."""

BROKEN = "\N{REPLACEMENT CHARACTER}"


class GenerationWarning(UserWarning):
    """A text may be other than was asked for; the message says how and why."""


@dataclass(frozen=True, slots=True)
class Generated:
    prompt: str
    text: str
    """What follows the prompt, as it stands behind it; it ends before the stop string, if that came."""
    ids: tuple[int, ...]
    """All new tokens, those of a stop string among them; without the end."""
    score: float
    """Log-probability of these tokens, and of the end if it came, by the model itself, whatever the
    temperature."""
    finished: Finished
    token_scores: tuple[float, ...] = ()
    """Log-probability of each of the new tokens, where a text was written token by token."""

    def __str__(self) -> str:
        return self.prompt + self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the number of new tokens."""
        return {
            "prompt": self.prompt,
            "text": self.text,
            "finished": self.finished,
            "score": self.score,
            "tokens": len(self.ids),
        }


@dataclass(slots=True)
class Written:
    """One more token of a text that is being written, or its end."""

    prompt: int
    """The number of its prompt, from 0."""
    sample: int
    token: int | None
    """None at the end."""
    text: str
    """What is certain now, and was not before."""
    score: float
    """Log-probability of all tokens so far."""
    whole: Generated | None
    """At the end: all of it."""
    stopped: bool = False
    """False; whoever reads it may set it, where the text need not go on."""
    error: Exception | None = None
    """What went wrong with this text alone."""


class Writer:
    """Tokens in, text out, none of which is ever taken back."""

    stopped: bool
    """A stop string came. It is not given out, nor is anything behind it."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._tokenizer, self._stop = tokenizer, stop
        self._ids = [*prompt]
        self._from, self._emitted = 0, len(self._ids)  # tokens read once more, and those that are new
        self._before = tokenizer.decode(self._ids)
        self._held = ""

    def add(self, id: int) -> str:
        """One more token; what is certain now, mostly its text."""
        self._ids.append(id)
        text = self._tokenizer.decode(self._ids[self._from :])
        return "" if text.endswith(BROKEN) else self._tell(text)

    def close(self) -> str:
        """No more tokens come: what was held back."""
        certain = self._tell(self._tokenizer.decode(self._ids[self._from :]))
        held, self._held = self._held, ""
        return certain + held

    def _tell(self, text: str) -> str:
        whole = text.startswith(self._before)  # not where a broken character made others unreadable
        new = text[len(self._before) :] if whole else self._tokenizer.decode(self._ids[self._emitted :])
        self._from, self._emitted = self._emitted, len(self._ids)
        self._before = self._tokenizer.decode(self._ids[self._from :])
        if self.stopped:
            return ""
        open_text = self._held + new
        places = [place for stop in self._stop if (place := open_text.find(stop)) >= 0]
        self.stopped = bool(places)
        certain = min(places) if places else len(open_text) - _beginning(open_text, self._stop)
        self._held = "" if places else open_text[certain:]
        return open_text[:certain]


def _beginning(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of a text are the beginning of a stop string; the most that may be."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return size
    return 0


def spelled(tokenizer: Tokenizer, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """What a `Writer` tells of these tokens."""
    before, whole = tokenizer.decode_batch([prompt, [*prompt, *ids]])
    if BROKEN not in whole and whole.startswith(before):  # the same, at once
        return whole[len(before) :]
    return "".join(token_texts(tokenizer, prompt, ids))


def token_texts(tokenizer: Tokenizer, prompt: Sequence[int], ids: Sequence[int]) -> list[str]:
    """What each token adds, which makes up what is `spelled`: nothing, until a character is whole."""
    writer = Writer(tokenizer, prompt)
    texts = [writer.add(id) for id in ids]
    if texts:
        texts[-1] += writer.close()
    return texts
