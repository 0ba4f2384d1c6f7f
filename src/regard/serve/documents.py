"""Texts with markup through a translator: blocks out, translations in, everything else in its place again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.serve.asking import Ask
from regard.serve.languages import own_code
from regard.serve.models import Served, same
from regard.tasks.translation.result import Translation
from regard.text.markup import Block, parse
from regard.text.placing import Links, View
from regard.text.scanning import Syntax
from regard.text.terms import Term, Terms, enforce

T = TypeVar("T")
LARGE = 5000
"""Characters of markup that take milliseconds."""


@dataclass(slots=True, eq=False)
class _Job:
    """A block that is being translated."""

    block: Block
    terms: Terms | None
    view: View = field(init=False)
    found: list[Term] = field(init=False)
    outputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.look(bare=False)

    def look(self, *, bare: bool) -> None:
        self.view = self.block.view(bare=bare)
        self.found = self.terms.find(self.view.text, self.view.names) if self.terms else []

    @property
    def aligned(self) -> bool:
        """Whether it takes the links of its words."""
        return bool(self.view.nodes or self.found)

    def take(self, translation: Translation) -> bool:
        """Whether all marks have been kept: else it is to be translated without them."""
        if not self.view.keeps(translation.text):
            return False
        self.outputs = [self._placed(translation.text, translation.alignment)]
        for other in translation.alternatives[1:] if not self.aligned else ():  # links are of the best alone
            if self.view.keeps(other.text):
                self.outputs.append(self._placed(other.text, None))
        return True

    def _placed(self, text: str, links: Links | None) -> str:
        text = text.strip()
        if self.found:
            text, links = enforce(self.view.text, text, links, self.found, self.view.names)
        return self.block.place(self.view, text, links)


async def translate_documents(
    ask: Ask,
    texts: Sequence[str],
    sources: Sequence[str],
    target: str,
    syntax: Syntax,
    *,
    terms: Terms | None = None,
    alternatives: int = 0,
    split: str = "auto",
) -> list[list[str]]:
    """For each text its translation, and behind it others, where they were asked for and found. `sources`
    are their languages; a text that is in the target language stays as it is."""
    results = [[text] for text in texts]
    groups: dict[Served, list[int]] = {}
    for i, source in enumerate(sources):
        if not same(source, target):
            groups.setdefault(ask.service.models.pair(source, target), []).append(i)
    more: Any = {"terms": terms, "alternatives": alternatives, "split": split}
    found = await asyncio.gather(
        *(
            _translate(ask, served, target, [texts[i] for i in own], syntax, **more)
            for served, own in groups.items()
        )
    )
    for own, outputs in zip(groups.values(), found, strict=True):
        for i, output in zip(own, outputs, strict=True):
            results[i] = output
    return results


async def _translate(
    ask: Ask,
    served: Served,
    target: str,
    texts: Sequence[str],
    syntax: Syntax,
    terms: Terms | None,
    alternatives: int,
    split: str,
) -> list[list[str]]:
    size = sum(map(len, texts))
    documents = await _aside(size, lambda: [parse(text, syntax) for text in texts])
    jobs = await _aside(size, lambda: [[_Job(block, terms) for block in each.blocks] for each in documents])
    every = [job for each in jobs for job in each]
    settings: Any = {"to": own_code(served, target), "split": split, "decoding": {"n_best": alternatives + 1}}
    can_align = _can_align(served)

    async def work(some: list[_Job], align: bool) -> list[_Job]:
        """Those that are to be translated once more."""
        if not some:
            return []
        read = [job.view.text for job in some]
        found = await ask.service.translate(served, ask.caller, read, align=align and can_align, **settings)
        pairs = [*zip(some, found, strict=True)]
        return await _aside(size, lambda: [job for job, each in pairs if not job.take(each)])

    left = await asyncio.gather(
        work([job for job in every if not job.aligned], False),
        work([job for job in every if job.aligned], True),
    )
    again = [job for each in left for job in each]
    for job in again:
        job.look(bare=True)
    await work(again, True)
    results = []
    for document, own in zip(documents, jobs, strict=True):
        whole = [
            document.join(job.outputs[min(k, len(job.outputs) - 1)] for job in own)
            for k in range(alternatives + 1)
        ]
        results.append([*dict.fromkeys(whole)])
    return results


async def _aside(size: int, call: Callable[[], T]) -> T:
    """What takes long is done beside the loop that serves all callers."""
    return await asyncio.to_thread(call) if size > LARGE else call()


def _can_align(served: Served) -> bool:
    """Not every model can tell which word came from which; then words are taken to keep their order."""
    predictor: Any = served.predictor
    try:
        predictor.options(align=True)
    except ValueError:
        return False
    return True
