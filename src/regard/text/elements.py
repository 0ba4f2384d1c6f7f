"""Elements of large XML files, one at a time, from files that nobody vouches for.

Only the elements that are asked for are built, each with all that is inside, and let go before the next one.
Nothing outside the file is opened, a file that declares an entity is refused, and one element is bounded in
depth and in characters. Namespaces are dropped: {urn:iso:...}term is term.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from regard.text.files import LONGEST, open_bytes
from regard.text.records import DataError, Origin

DEEPEST = 64
"""Elements inside each other."""
READ = 1 << 16
"""Bytes at a time."""


@dataclass(slots=True, eq=False)
class Element:
    name: str
    attributes: dict[str, str]
    """Of the name without its prefix: xml:lang is lang."""
    line: int
    children: "list[Element | str]" = field(default_factory=list)

    def find(self, *names: str) -> "Iterator[Element]":
        """All of these names inside, in their order."""
        for child in self.children:
            if isinstance(child, Element):
                if child.name in names:
                    yield child
                yield from child.find(*names)

    @property
    def text(self) -> str:
        """All of it, that of the elements inside too."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


def scan_elements(
    path: str | Path, names: Collection[str], *, longest: int = LONGEST, encoding: str | None = None
) -> Iterator[Element | DataError]:
    """The elements of these names that are in no other of them. One that is too long is a `DataError` in its
    place; XML that is not well-formed is raised, since nobody knows what comes behind."""
    building = _Building(str(path), names, longest)
    parser = building.parser(encoding)
    with open_bytes(path) as stream:
        more = True
        while more:
            raw = stream.read1(READ)
            more = bool(raw)
            try:
                parser.Parse(raw, not more)
            except expat.ExpatError as error:
                what = expat.errors.messages.get(error.code, str(error.code))
                raise DataError(
                    Origin(str(path), error.lineno),
                    "XML that is not well-formed",
                    f"({what})",
                    "fix the file",
                ) from error
            yield from building.done
            building.done.clear()


class _Building:
    def __init__(self, file: str, names: Collection[str], longest: int) -> None:
        self.file, self.names, self.longest = file, names, longest
        self.done: list[Element | DataError] = []
        self._open: list[Element] = []
        """From the wanted element down to the one that is open now."""
        self._depth = 0
        self._size = 0
        self._broken: DataError | None = None

    def parser(self, encoding: str | None) -> expat.XMLParserType:
        self._parser = parser = expat.ParserCreate(encoding, namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._take
        parser.EntityDeclHandler = self._refuse
        parser.SkippedEntityHandler = self._skipped
        return parser

    def _here(self) -> Origin:
        return Origin(self.file, self._parser.CurrentLineNumber)

    def _refuse(self, name: str, *_: object) -> None:
        raise DataError(
            self._here(),
            "declares an entity",
            repr(name),
            "write its text instead, and leave out the declaration",
        )

    def _skipped(self, name: str, *_: object) -> None:
        self._spoil("an entity that nobody declares", repr(name))

    def _spoil(self, reason: str, particulars: str = "") -> None:
        if self._open and self._broken is None:
            self._broken = DataError(Origin(self.file, self._open[0].line), reason, particulars)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise DataError(
                self._here(), f"more than {DEEPEST} elements inside each other", remedy="fix the file"
            )
        plain = name.rpartition(" ")[2]
        if not self._open and plain not in self.names:
            return
        own = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        element = Element(plain, own, self._parser.CurrentLineNumber)
        if self._open and self._broken is None:
            self._open[-1].children.append(element)
        self._open.append(element)
        self._count(64 + sum(map(len, own.values())))

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self.longest:
            self._spoil(f"<{self._open[0].name}> of more than {self.longest} characters")

    def _take(self, text: str) -> None:
        if self._open and self._broken is None:
            self._open[-1].children.append(text)
            self._count(len(text))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if not self._open:
            return
        element = self._open.pop()
        if not self._open:
            self.done.append(self._broken or element)
            self._broken, self._size = None, 0
