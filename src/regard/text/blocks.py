"""Blocks of text with tags and placeholders: what a model reads of them, and everything put back again."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from regard.text.placeholders import placeholders
from regard.text.placing import Element, Links, Node, Point, View, place
from regard.text.scanning import Syntax

MOST = 50
"""Marks that a model is expected to copy."""
_SPACE = re.compile(r"[ \t\r\n\f]+")
_LINE_END = re.compile(r"[\r\n]")
_LOOSE_BRACE = re.compile(r"('[{}][^']*')|[{}]")
_CLOSING = ".,;:!?)]}…%»”’。，、；：！？）」』】》"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Mark:
    raw: str
    name: str | None
    """What stands for it in the text; None for one that has to be made up, "" for none."""
    inside: "Document | None" = None
    """Texts in it that are translated by themselves: the branches of a choice, or lines."""
    blank: bool = False
    """It is white space: a model reads a space, if there is none beside it."""


@dataclass(frozen=True, slots=True)
class Break:
    """The end of a line, for which a model reads a space."""

    raw: str


@dataclass(frozen=True, slots=True)
class Inline:
    opening: str
    closing: str
    nodes: "list[Piece]"
    inside: "Document | None" = None
    """Texts in what opens it that are translated by themselves."""


Piece = str | Mark | Break | Inline


@dataclass(frozen=True, slots=True)
class Notation:
    """How a format writes text, where that is not HTML's or XML's way: escapes, quotes."""

    read: Callable[[str], str] = str
    write: Callable[[str], str] = str
    optional: Mapping[str, str] = field(default_factory=dict)
    """Opening tags of what is left out where it gets no words, and what opens and closes it within a word."""


@dataclass(frozen=True, slots=True)
class Block:
    """What is translated at once."""

    pieces: list[Piece]
    syntax: Syntax
    before: str = ""
    after: str = ""
    """White space around it."""
    raw: str = ""
    """As it stands."""
    notation: Notation | None = None
    ordered: bool = False
    """Its tags have to stay in their order, whatever their words do."""

    @property
    def words(self) -> bool:
        """Whether there is anything to translate in it, but for what is `inside`."""
        return has_letters(self.pieces)

    @property
    def inside(self) -> "list[Block]":
        """Texts in its marks that are translated by themselves, in order."""
        return [block for each in _holders(self.pieces) if each.inside for block in each.inside.blocks]

    def filled(self, outputs: Iterator[str]) -> "Block":
        """With a translation of each of those `inside`; their own come before them."""
        return self if not self.inside else replace(self, pieces=_filled(self.pieces, outputs), raw="")

    def written(self) -> str:
        """As it was read."""
        return self.raw or self.before + _written(self.pieces, self.escape) + self.after

    def view(self, *, bare: bool = False) -> View:
        """As a model reads it; `bare`, or where there are very many, without what stands for opaque marks."""
        return _Reader(self, bare or _named(self.pieces) > MOST).view

    def place(self, view: View, text: str, links: Links | None = None) -> str:
        """A translation of this view, with everything in it again. A line end that the view has none of is a
        space."""
        text = text.strip() if _LINE_END.search(view.text) else " ".join(_LINE_END.split(text)).strip()
        escape = self._escape_new
        if not self.ordered:
            return self.before + place(view, text, links, escape) + self.after
        whole = self.before + place(view, text, None, escape) + self.after
        return whole if self.in_order(whole) else self._beside(text)

    def in_order(self, output: str) -> bool:
        """Whether all tags and marks follow each other as they did."""
        at = 0
        for raw in _raws(self.pieces):
            found = output.find(raw, at)
            if found < 0:
                return False
            at = found + len(raw)
        return True

    def _beside(self, text: str) -> str:
        """All tags and marks as they were, and the text where it began: not as good, but whole. Names of
        marks in it are left out."""
        pattern = placeholders(count=self.syntax.count, printf=self.syntax.printf)
        plain = self._escape_new(" ".join(pattern.sub(" ", text).split()))
        return self.before + "".join(_frame(self.pieces, iter([plain]))) + self.after

    @property
    def escape(self) -> Callable[[str], str]:
        if self.notation is not None:
            return self.notation.write
        return str if self.syntax.kind == "text" else escaped

    def _escape_new(self, text: str) -> str:
        """Of what a model has written: in a branch of a choice, a brace that is not quoted would end it."""
        if self.syntax.branch:
            text = _LOOSE_BRACE.sub(lambda found: found[1] or "", text)
        return self.escape(text)


@dataclass(frozen=True, slots=True)
class Document:
    parts: list[str | Block]
    blocks: list[Block] = field(default_factory=list)

    def join(self, outputs: Iterable[str]) -> str:
        """The whole, with an output in the place of each block."""
        following = iter(outputs)
        return "".join(each if isinstance(each, str) else next(following) for each in self.parts)


def names_of(pieces: Iterable[Piece]) -> Iterator[str]:
    """Of placeholders."""
    for piece in pieces:
        match piece:
            case Mark(name=name) if name:
                yield name
            case Inline(nodes=inner):
                yield from names_of(inner)


def in_turn(pieces: Iterable[Piece]) -> bool:
    """Whether there are several template tags, of which one may end what another begins."""
    return sum(raw.startswith(("{%", "<%")) and not raw.startswith("<%=") for raw in _raws(pieces)) > 1


def _raws(pieces: Iterable[Piece]) -> Iterator[str]:
    """Of tags and marks."""
    for piece in pieces:
        match piece:
            case Mark(raw):
                yield raw
            case Inline(opening, closing, inner):
                yield opening
                yield from _raws(inner)
                yield closing


def _frame(pieces: Iterable[Piece], texts: Iterator[str]) -> Iterator[str]:
    """Tags and marks, and a text in the place of each that has letters, while there are texts."""
    for piece in pieces:
        match piece:
            case str() if has_letters([piece]):
                yield next(texts, "")
            case str():
                yield " " * piece.isspace()
            case Mark(raw) | Break(raw):
                yield raw
            case Inline(opening, closing, inner):
                yield opening
                yield from _frame(inner, texts)
                yield closing


def has_letters(pieces: Iterable[Piece]) -> bool:
    return any(
        has_letters(piece.nodes)
        if isinstance(piece, Inline)
        else isinstance(piece, str) and any(char.isalpha() for char in piece)
        for piece in pieces
    )


def _holders(pieces: Iterable[Piece]) -> Iterator[Mark | Inline]:
    for piece in pieces:
        if isinstance(piece, Mark | Inline) and piece.inside is not None:
            yield piece
        if isinstance(piece, Inline):
            yield from _holders(piece.nodes)


def _filled(pieces: Sequence[Piece], outputs: Iterator[str]) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        match piece:
            case Mark(_, name, document) if document is not None:
                found.append(Mark(document.join(outputs), name))
            case Inline(opening, closing, inner, document) if any(_holders([piece])):
                opening = opening if document is None else document.join(outputs)
                found.append(Inline(opening, closing, _filled(inner, outputs)))
            case _:
                found.append(piece)
    return found


def _written(pieces: Iterable[Piece], escape: Callable[[str], str]) -> str:
    parts = []
    for piece in pieces:
        match piece:
            case str():
                parts.append(escape(piece))
            case Mark(raw) | Break(raw):
                parts.append(raw)
            case Inline(opening, closing, inner):
                parts.append(opening + _written(inner, escape) + closing)
    return "".join(parts)


def escaped(text: str) -> str:
    return html.escape(text, quote=False)


class _Reader:
    """Writes a block's text, and where everything in it was."""

    def __init__(self, block: Block, bare: bool) -> None:
        self._bare, self._one_space, self._escape = bare, _one_space(block.syntax), block.escape
        self._optional: Mapping[str, str] = {} if block.notation is None else block.notation.optional
        self._parts: list[str] = []
        self._length = 0
        self._names: dict[str, str] = {}
        self._known = frozenset(each for each in _texts(block.pieces, bare=False) if each.startswith("["))
        self._numbers = count(1)
        self._waiting: list[Point] = []
        nodes = self._read(block.pieces)
        self.view = View("".join(self._parts).rstrip(), tuple(nodes), self._names)

    def _read(self, pieces: Sequence[Piece]) -> list[Node]:
        nodes: list[Node] = []
        for piece in pieces:
            match piece:
                case str():
                    self._write(_SPACE.sub(" ", piece) if self._one_space else piece)
                case Mark(raw, name, blank=blank) if self._bare or name == "":
                    nodes.append(self._point(raw, blank=blank))
                case Mark(raw, name):
                    self._name(raw, name)
                case Break(raw) if self._length:
                    nodes.append(self._break(raw))
                case Inline(opening, closing, inner):
                    texts = [*_texts(inner, bare=self._bare)]
                    if any(text.strip() for text in texts):
                        start = self._length
                        inside = tuple(self._read(inner))
                        hollow, within = opening not in self._optional, self._optional.get(opening, "")
                        span = start, self._length
                        nodes.append(Element(opening, closing, *span, inside, hollow, within))
                    else:
                        nodes.append(self._point(_written([piece], self._escape)))
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

    def _point(self, raw: str, *, blank: bool = False) -> Point:
        spaced = self._spaced()
        point = Point(raw, self._length - spaced, before=spaced, for_space=blank)
        self._waiting.append(point)
        return point

    def _break(self, raw: str) -> Point:
        spaced = self._spaced()
        point = Point(raw, self._length - spaced, for_space=True)
        self._write(" ")
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
            if self._parts and not self._spaced() and any(each.for_space for each in self._waiting):
                self._parts.append(" ")
                self._length += 1
        if not following.isspace():
            self._waiting.clear()

    def _spaced(self) -> bool:
        return bool(self._parts) and self._parts[-1][-1:].isspace()


def _one_space(syntax: Syntax) -> bool:
    return not syntax.breaks and (syntax.kind != "text" or not syntax.lines)


def _named(pieces: Iterable[Piece]) -> int:
    """How many marks would stand in the text."""
    found = 0
    for piece in pieces:
        match piece:
            case Mark(name=name):
                found += name != ""
            case Inline(nodes=inner):
                found += _named(inner)
    return found


def _texts(pieces: Iterable[Piece], *, bare: bool) -> Iterator[str]:
    """What is written of them, but for names that have to be made up."""
    for piece in pieces:
        match piece:
            case str():
                yield piece
            case Break():
                yield " "
            case Mark(name=name) if not bare and name != "":
                yield name or "x"
            case Mark(blank=True):
                yield " "
            case Inline(nodes=inner):
                yield from _texts(inner, bare=bare)
