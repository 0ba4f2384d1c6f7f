"""Text with tags and placeholders, cut into blocks that can be translated, and put together again.

    <p>The <b>old</b> [X1X]?</p>     ->    The old [X1X]?     a model reads
    <p>Der <b>alte</b> [X1X]?</p>    <-    Der alte [X1X]?    and writes

Tags that part blocks stay where they are. Within a block, elements and marks go to where their words went
(`placing.py`). A placeholder is first left to the model, in its place or, for an element that is not to be
translated, by a name; where the model does not copy it, the text is translated without, and it is put back.
Every tag and every placeholder is there again once, and attributes are as they were to the byte.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import html5
from itertools import count

from regard.text.placing import Element, Links, Node, Point, View, place
from regard.text.scanning import Syntax, Token, scan

MOST = 50
"""Marks that a model is expected to copy."""
_SPACE = re.compile(r"[ \t\r\n\f]+")
_CLOSING = ".,;:!?)]}…%»”’。，、；：！？）」』】》"  # noqa: RUF001
_ENTITY = re.compile(r"&[A-Za-z_][\w.-]*;")
_PLACEHOLDER = re.compile(
    r"\[X\d+X\]"
    r"|\{\{[^{}\n]{1,80}\}\}|\$?\{[\w.:!-]{0,40}\}"
    r"|%\([\w.]{1,40}\)[-+#0]?\d*[a-zA-Z]|(?<![\d%])%(?:\d{1,2}\$)?(?:[sdif@u]|l[dui])\b"
    r"|\bhttps?://[^\s<>\"]+[^\s<>\".,;:!?)\]}']"
    r"|(?<!\S)@\w+(?:@[\w.-]+\w)?"
    r"|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"
)


@dataclass(frozen=True, slots=True)
class _Mark:
    raw: str
    name: str | None
    """What stands for it in the text; None for one that has to be made up, "" for none."""


@dataclass(frozen=True, slots=True)
class _Inline:
    opening: str
    closing: str
    nodes: "list[_Piece]"
    raw: str


_Piece = str | _Mark | _Inline


@dataclass(frozen=True, slots=True)
class Block:
    """What is translated at once."""

    pieces: list[_Piece]
    syntax: Syntax
    before: str = ""
    after: str = ""
    """White space around it."""

    def view(self, *, bare: bool = False) -> View:
        """As a model reads it; `bare`, or where there are very many, without what stands for opaque marks."""
        return _Reader(self, bare or _named(self.pieces) > MOST).view

    def place(self, view: View, text: str, links: Links | None = None) -> str:
        """A translation of this view, with everything in it again."""
        return self.before + place(view, text.strip(), links, self.escape) + self.after

    @property
    def escape(self) -> Callable[[str], str]:
        return str if self.syntax.kind == "text" else _escape


@dataclass(frozen=True, slots=True)
class Document:
    parts: list[str | Block]
    blocks: list[Block] = field(default_factory=list)

    def join(self, outputs: Iterable[str]) -> str:
        """The whole, with an output in the place of each block."""
        following = iter(outputs)
        return "".join(each if isinstance(each, str) else next(following) for each in self.parts)


def parse(text: str, syntax: Syntax | None = None) -> Document:
    """Any text can be read: what is no tag is text, and tags that do not match part blocks."""
    syntax = syntax or Syntax()
    if syntax.kind == "text":
        lines = re.split(r"(\r?\n|\r)", text) if syntax.lines else [text]
        parts: list[str | Block] = [_block([Token("text", line)], line, syntax) for line in lines]
    else:
        parts = [*_blocks(scan(text, syntax), syntax)]
    return Document(parts, [each for each in parts if isinstance(each, Block)])


def _blocks(tokens: Sequence[Token], syntax: Syntax) -> Iterator[str | Block]:
    first = 0
    for i in range(len(tokens) + 1):
        if i == len(tokens) or tokens[i].parts:
            if own := tokens[first:i]:
                yield _block(own, "".join(each.raw for each in own), syntax)
            if i < len(tokens):
                yield tokens[i].raw
            first = i + 1


def _block(tokens: Sequence[Token], raw: str, syntax: Syntax) -> str | Block:
    """As it stands where there is nothing to translate."""
    root: list[_Piece] = []
    stack: list[tuple[list[_Piece], list[str]]] = [(root, [])]
    letters = False
    for token in tokens:
        pieces, raws = stack[-1]
        match token.kind:
            case "text":
                found = [*_pieces(token.raw, syntax)]
                letters = letters or any(
                    char.isalpha() for piece in found if isinstance(piece, str) for char in piece
                )
                pieces += found
            case "mark":
                pieces.append(_Mark(token.raw, None if token.stands else ""))
            case "open":
                stack.append(([], [token.raw]))
                continue
            case "close":
                stack.pop()
                whole = "".join([*raws, token.raw])
                stack[-1][0].append(_Inline(raws[0], token.raw, pieces, whole))
                stack[-1][1].append(whole)
                continue
        raws.append(token.raw)
    if not letters:
        return raw
    before = raw[: len(raw) - len(raw.lstrip())]
    after = raw[len(raw.rstrip()) :]
    return Block(root, syntax, before, after)


def _pieces(raw: str, syntax: Syntax) -> Iterator[_Piece]:
    """Text and its placeholders. In XML, an entity that only its own document knows is one."""
    if syntax.kind == "xml":
        done = 0
        for found in _ENTITY.finditer(raw):
            if found[0][1:] not in html5:
                yield from _placeholders(html.unescape(raw[done : found.start()]), _escape)
                yield _Mark(found[0], None)
                done = found.end()
        yield from _placeholders(html.unescape(raw[done:]), _escape)
    elif syntax.kind == "html":
        yield from _placeholders(html.unescape(raw), _escape)
    else:
        yield from _placeholders(raw, str)


def _placeholders(text: str, escape: Callable[[str], str]) -> Iterator[_Piece]:
    done = 0
    for found in _PLACEHOLDER.finditer(text):
        if done < found.start():
            yield text[done : found.start()]
        yield _Mark(escape(found[0]), found[0])
        done = found.end()
    if done < len(text):
        yield text[done:]


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


class _Reader:
    """Writes a block's text, and where everything in it was."""

    def __init__(self, block: Block, bare: bool) -> None:
        self._bare, self._one_space = bare, block.syntax.kind != "text" or not block.syntax.lines
        self._parts: list[str] = []
        self._length = 0
        self._names: dict[str, str] = {}
        self._known = frozenset(each for each in _texts(block.pieces, bare=False) if each.startswith("["))
        self._numbers = count(1)
        self._waiting: list[Point] = []
        nodes = self._read(block.pieces)
        self.view = View("".join(self._parts).rstrip(), tuple(nodes), self._names)

    def _read(self, pieces: Sequence[_Piece]) -> list[Node]:
        nodes: list[Node] = []
        for piece in pieces:
            match piece:
                case str():
                    self._write(_SPACE.sub(" ", piece) if self._one_space else piece)
                case _Mark(raw, name) if self._bare or name == "":
                    nodes.append(self._point(raw))
                case _Mark(raw, name):
                    self._name(raw, name)
                case _Inline(opening, closing, inner, raw):
                    texts = [*_texts(inner, bare=self._bare)]
                    if any(text.strip() for text in texts):
                        start = self._length
                        inside = tuple(self._read(inner))
                        nodes.append(Element(opening, closing, start, self._length, inside))
                    else:
                        nodes.append(self._point(raw))
                        self._write("".join(texts)[:1])
        return nodes

    def _write(self, text: str) -> None:
        if not text:
            return
        gap = bool(self._waiting)
        self._settle(text)
        if gap and text[0] in _CLOSING and self._spaced():
            self._length -= 1
            self._parts[-1] = self._parts[-1][:-1]
        if self._length == 0:
            text = text.lstrip(" \t\r\n\f")
        elif text[0].isspace() and self._spaced() and (gap or self._one_space):
            text = text[1:]
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _name(self, raw: str, name: str | None) -> None:
        self._settle("x")
        if name is None:
            name = next(each for n in self._numbers if (each := f"[X{n}X]") not in self._known)
        self._names[name] = raw
        self._parts.append(name)
        self._length += len(name)

    def _point(self, raw: str) -> Point:
        spaced = self._spaced()
        self._waiting.append(point := Point(raw, self._length - spaced, before=spaced))
        return point

    def _settle(self, following: str) -> None:
        """What comes after the points that have just been: all of them, if it is only white space so far."""
        if not self._waiting:
            return
        last = self._waiting[-1]
        if following[0].isspace():
            last.after = True
        elif following[0] in _CLOSING:
            for point in self._waiting:
                point.closed = True
        else:
            last.leads = True
        if not following.isspace():
            self._waiting.clear()

    def _spaced(self) -> bool:
        return bool(self._parts) and self._parts[-1][-1:].isspace()


def _named(pieces: Iterable[_Piece]) -> int:
    """How many marks would stand in the text."""
    found = 0
    for piece in pieces:
        match piece:
            case _Mark(name=name):
                found += name != ""
            case _Inline(nodes=inner):
                found += _named(inner)
    return found


def _texts(pieces: Iterable[_Piece], *, bare: bool) -> Iterator[str]:
    """What is written of them, but for names that have to be made up."""
    for piece in pieces:
        match piece:
            case str():
                yield piece
            case _Mark(name=name) if not bare and name != "":
                yield name or "x"
            case _Inline(nodes=inner):
                yield from _texts(inner, bare=bare)
