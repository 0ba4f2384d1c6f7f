"""markdown-it-py's inline tokens with their places: its rules are watched as they match.

**old** `x`        pair 0..7 (what is in it: 2..5), code 8..11
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.config import ConfigError


@dataclass(frozen=True, slots=True)
class Inline:
    kind: Literal["pair", "code", "opaque", "html", "image", "break"]
    start: int
    end: int
    inner: tuple[int, int] = (0, 0)
    """Of a pair or an image: its text."""
    shortcut: bool = False
    """A link or an image whose text is its reference."""


class Parser:
    """Inline tokens get a `meta["inlines"]`: all that is no text in their content, in order."""

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
        except ImportError:
            raise ConfigError("Markdown is read with markdown-it-py: pip install regard[desk]") from None
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        for rule in self._parser.inline.ruler.__rules__:
            rule.fn = _watched(rule.name, rule.fn)
        self._parser.inline.ruler.__cache__ = None
        for block in self._parser.block.ruler.__rules__:
            if block.name == "reference":
                block.fn = _no_footnote(block.fn)
        self._parser.block.ruler.__cache__ = None

    def parse(self, text: str) -> list[Any]:
        tokens = self._parser.parse(text)
        for token in tokens:
            if token.type == "inline":
                found = [*_inlines(token.children or [])]
                token.meta["inlines"] = sorted(found, key=lambda each: (each.start, -each.end))
        return tokens


def _no_footnote(rule: Callable[..., bool]) -> Callable[..., bool]:
    """A footnote of one word would be the definition of a link."""

    def refers(state: Any, first: int, last: int, silent: bool) -> bool:
        begins = state.bMarks[first] + state.tShift[first]
        return not state.src.startswith("[^", begins) and rule(state, first, last, silent)

    return refers


def _watched(name: str, rule: Callable[..., bool]) -> Callable[..., bool]:
    def watch(state: Any, silent: bool) -> bool:
        if silent:
            return rule(state, silent)
        start, count = state.pos, len(state.tokens)
        label = _label_end(state, name)
        if not rule(state, silent):
            return False
        place = state.pos
        if name in ("emphasis", "strikethrough"):
            for token in reversed(state.tokens[count:]):
                place -= len(token.content)
                if place < start:
                    break
                token.meta["place"] = (place, place + len(token.content))
            return True
        for token in state.tokens[count:]:
            if token.type != "text":
                token.meta.setdefault("place", (start, place))
                token.meta.setdefault("label", label)
                token.meta.setdefault("shortcut", label >= 0 and _shortcut(state.src[label:place]))
        return True

    return watch


def _label_end(state: Any, name: str) -> int:
    """Where the text of a link or an image ends that may begin here."""
    from markdown_it.helpers import parseLinkLabel

    if name == "link" and state.src[state.pos] == "[":
        return parseLinkLabel(state, state.pos, True)
    if name == "image" and state.src.startswith("![", state.pos):
        return parseLinkLabel(state, state.pos + 1, False)
    return -1


def _shortcut(closing: str) -> bool:
    return closing in ("]", "][]")


def _inlines(tokens: Sequence[Any]) -> Iterator[Inline]:
    opened: list[Any] = []
    skipped = 0
    for token in tokens:
        if skipped and token.type in ("text", "link_close"):  # of an address that is its own text
            skipped -= token.type == "link_close"
            continue
        place = token.meta.get("place")
        match token.type:
            case "em_open" | "strong_open" | "s_open" | "link_open":
                if token.type == "link_open" and token.markup == "autolink":
                    yield Inline("opaque", *place)
                    skipped += 1
                else:
                    opened.append(token)
            case "em_close" | "strong_close" | "s_close":
                start, end = _delimiter(opened.pop(), -1), _delimiter(token, 1)
                yield Inline("pair", start[0], end[1], (start[1], end[0]))
            case "link_close":
                first = opened.pop()
                (start, end), label = first.meta["place"], first.meta["label"]
                yield Inline("pair", start, end, (start + 1, label), first.meta["shortcut"])
            case "code_inline":
                yield Inline("code", *place)
            case "html_inline":
                yield Inline("html", *place)
            case "hardbreak":
                yield Inline("break", *place)
            case "image":
                start, end = place
                yield Inline("image", start, end, (start + 2, token.meta["label"]), token.meta["shortcut"])


def _delimiter(token: Any, side: int) -> tuple[int, int]:
    """A strong one is two tokens, of which the inner one is kept."""
    start, end = token.meta["place"]
    if not token.type.startswith("strong"):
        return start, end
    return (start - 1, end) if side < 0 else (start, end + 1)
