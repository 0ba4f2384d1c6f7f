"""A block on its way through a translator: what a model reads of it, and the whole again of what it writes.

    jobs = [Job(block, terms) for block in blocks]
    parts = [part for job in jobs for part in job.parts]     translate each part's view.text, and give it to
    part.take(translation)                                   False: part.look(bare=True), and once more
    job.outputs()                                            the best, and alternatives where there are any

Knows no model: what gives translations is the caller's business.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from regard.text.markup import Block
from regard.text.placeholders import placeholders
from regard.text.placing import Links, View
from regard.text.terms import Term, Terms, enforce

LOST = "placeholder"
"""The flag of a text in which the model did not keep a placeholder: it was put back by the words around."""

_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--")


class Written(Protocol):
    @property
    def text(self) -> str: ...


class Translated(Written, Protocol):
    """What a translator gives."""

    @property
    def alignment(self) -> Links | None: ...

    @property
    def alternatives(self) -> Sequence[Written]:
        """The best ones in order, the translation itself first."""
        ...


class Job:
    """A block, and those inside it."""

    def __init__(self, block: Block, terms: Terms | None = None) -> None:
        self.block, self.terms = block, terms
        self.inside = [Job(each, terms) for each in block.inside]
        self.bare = False
        self._texts: list[tuple[str, Links | None]] = []
        self.view: View
        self.found: list[Term]
        self.look(bare=False)

    def look(self, *, bare: bool) -> None:
        """As a model reads it; `bare`: without placeholders."""
        self.bare = self._beside = bare
        self.view = self.block.view(bare=bare)
        if self.block.ordered and self.view.nodes and self.view.names:
            # marks in the text and beside it: their order would not be seen in the text alone
            self._beside, self.view = True, self.block.view(bare=True)
        self.found = self.terms.find(self.view.text, self.view.names) if self.terms else []

    @property
    def parts(self) -> "Iterator[Job]":
        """Everything that is to be translated: this, if it has words, and what is inside."""
        if self.block.words:
            yield self
        for each in self.inside:
            yield from each.parts

    @property
    def aligned(self) -> bool:
        """Whether it takes the links of its words."""
        return bool(self.view.nodes or self.found)

    @property
    def unchanged(self) -> bool:
        """Whether what was written is what was read, in all parts."""
        own = not self.block.words or self._same(self._texts[0][0])
        return own and all(each.unchanged for each in self.inside)

    def take(self, translation: Translated) -> bool:
        """Whether all marks have been kept, and none was made up: else it is to be translated without them.
        What was made up all the same is then left out. Where nothing is written, the source stays."""
        text, links = translation.text, translation.alignment
        if not self._keeps(text):
            if not self.bare:
                return False
            text, links = self._without(text), None
        if not text.strip():
            text, links = self.view.text, None
        self._texts = [(text, links)]
        for other in translation.alternatives[1:] if not self.aligned else ():  # links are of the best alone
            if self._keeps(other.text):
                self._texts.append((other.text, None))
        return True

    def remember(self, text: str, links: Links | None = None) -> bool:
        """Take what somebody has written for exactly this text: whether it has all marks. It is not held to
        terms."""
        if not self._keeps(text) or not text.strip():
            return False
        self._texts, self.found = [(text, links)], []
        return True

    def take_from(self, other: "Job") -> None:
        """What another has taken, of the same text in another notation."""
        if other.bare:
            self.look(bare=True)
        self._texts, self.found = other._texts, other.found
        for own, given in zip(self.inside, other.inside, strict=True):
            own.take_from(given)

    def outputs(self) -> list[str]:
        """As its file writes it."""
        inner = [each.outputs() for each in self.inside]
        count = max([len(self._texts), 1, *map(len, inner)])
        return [self._output(k, iter([own[min(k, len(own) - 1)] for own in inner])) for k in range(count)]

    def _output(self, k: int, inner: Iterator[str]) -> str:
        block = self.block.filled(inner)
        if not self.block.words:
            return block.written()
        text, links = self._texts[min(k, len(self._texts) - 1)]
        if self._same(text):
            return block.written()
        text = text.strip()
        if self.found:
            text, links = enforce(self.view.text, text, links, self.found, self.view.names)
        return block.place(self.view if block is self.block else block.view(bare=self._beside), text, links)

    def _same(self, text: str) -> bool:
        return text.strip() == self.view.text and not self.found

    def _keeps(self, text: str) -> bool:
        kept = self.view.keeps(text) and not self._made_up(text)
        return kept and (not self.block.ordered or self.view.order(text) == self.view.order(self.view.text))

    def _made_up(self, text: str) -> list[str]:
        """Placeholders that the source has not; and tags, where they are not escaped."""
        tags = [each for each in self._tags(text) if each not in self.view.text]
        return tags + [each for each in self._pattern.findall(text) if each not in self.view.names]

    def _tags(self, text: str) -> list[str]:
        return _TAG.findall(text) if self.block.syntax.tags else []

    def _without(self, text: str) -> str:
        for each in self._tags(text):
            if each not in self.view.text:
                text = text.replace(each, " ")
        return " ".join(self._pattern.sub(" ", text).split())

    @property
    def _pattern(self) -> re.Pattern[str]:
        return placeholders(count=self.block.syntax.count, printf=self.block.syntax.printf)
