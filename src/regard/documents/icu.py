"""ICU messages: arguments, and the messages within plurals and selections.

    {count, plural, =0{No bag} other{{count} bags}} left      one argument, two messages in it, and text

https://unicode-org.github.io/icu/userguide/format_parse/messages/. A message that is none is None: its text
is read as it stands.
"""

import re
from dataclasses import dataclass, field

_NAME = re.compile(r"\s*(\$?[\w.-]+)\s*")
_KIND = re.compile(r"\s*(plural|selectordinal|select)\s*,\s*(?:offset:\s*\d+\s*)?")
_CHOICE = re.compile(r"\s*choice\s*,")
_SELECTOR = re.compile(r"\s*(=\d+|[\w-]+)\s*\{")
DEEPEST = 20
"""Messages within messages."""


@dataclass(frozen=True, slots=True)
class Argument:
    start: int
    end: int
    messages: "list[Message]" = field(default_factory=list)
    """Those to choose from."""


@dataclass(frozen=True, slots=True)
class Message:
    start: int
    end: int
    arguments: list[Argument]
    plural: bool = False
    """A # in it stands for the number."""


class _NotOneError(ValueError):
    pass


def read_message(text: str, *, quotes: bool) -> Message | None:
    """`quotes`: an apostrophe before a brace quotes it."""
    try:
        message = _Reader(text, quotes).message(0, 0, plural=False)
    except _NotOneError:
        return None
    return message if message.end == len(text) else None


class _Reader:
    def __init__(self, text: str, quotes: bool) -> None:
        self._text, self._quotes = text, quotes

    def message(self, at: int, depth: int, *, plural: bool) -> Message:
        """Until the brace that ends it, or the end of the text."""
        if depth > DEEPEST:
            raise _NotOneError
        start, found = at, list[Argument]()
        while at < len(self._text) and self._text[at] != "}":
            if self._text[at] == "'" and self._quotes:
                at = self._quoted(at, "{}#" if plural else "{}")
            elif self._text[at] == "{":
                found.append(self._argument(at, depth, plural))
                at = found[-1].end
            else:
                if self._text[at] == "#" and plural:
                    found.append(Argument(at, at + 1))
                at += 1
        return Message(start, at, found, plural)

    def _quoted(self, at: int, signs: str) -> int:
        following = self._text[at + 1 : at + 2]
        if not following or following not in signs:
            return at + (2 if following == "'" else 1)
        end = self._text.find("'", at + 1)
        return len(self._text) if end < 0 else end + 1

    def _argument(self, at: int, depth: int, plural: bool) -> Argument:
        name = _NAME.match(self._text, at + 1)
        if name is None:
            raise _NotOneError
        after = self._text[name.end() : name.end() + 1]
        if after == "}":
            return Argument(at, name.end() + 1)
        kind = _KIND.match(self._text, name.end() + 1) if after == "," else None
        if kind is not None:
            return self._choices(at, kind.end(), depth, plural or kind[1] != "select")
        end = self._closing(name.end())
        style = self._text[name.end() + 1 : end]
        if after != "," or style.strip() in ("plural", "select", "selectordinal"):
            raise _NotOneError
        if "{" in style and not _CHOICE.match(style):
            raise _NotOneError
        return Argument(at, end + 1)

    def _closing(self, at: int) -> int:
        """Where the brace is that closes an argument: a choice of Java's has arguments in it."""
        depth = 1
        while at < len(self._text):
            if self._text[at] == "'" and self._quotes:
                at = self._quoted(at, "{}")
                continue
            depth += (self._text[at] == "{") - (self._text[at] == "}")
            if depth == 0:
                return at
            at += 1
        raise _NotOneError

    def _choices(self, start: int, at: int, depth: int, plural: bool) -> Argument:
        messages = []
        while (selector := _SELECTOR.match(self._text, at)) is not None:
            message = self.message(selector.end(), depth + 1, plural=plural)
            if self._text[message.end : message.end + 1] != "}":
                raise _NotOneError
            messages.append(message)
            at = message.end + 1
        while self._text[at : at + 1].isspace():
            at += 1
        if not messages or self._text[at : at + 1] != "}":
            raise _NotOneError
        return Argument(start, at + 1, messages)
