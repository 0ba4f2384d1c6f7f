"""Texts with markup through a translator: blocks out, translations in, everything else in its place again."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regard.documents.base import Opened
from regard.documents.job import Job
from regard.serve.asking import Ask, unless_small
from regard.serve.languages import own_code
from regard.serve.models import Served
from regard.tasks.translation.aids import NO_REPEAT, Aids, flagged, given_match, is_looped, unlooped
from regard.tasks.translation.alignment import can_align
from regard.tasks.translation.documents import Plan
from regard.tasks.translation.result import Translation
from regard.text.flags import FlagSettings
from regard.text.languages import same
from regard.text.markup import parse
from regard.text.scanning import Syntax
from regard.text.terms import Terms


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
    groups: dict[tuple[Served, str], list[int]] = {}
    for i, source in enumerate(sources):
        if not same(source, target):
            groups.setdefault((ask.translator(source, target), source), []).append(i)
    more: Any = {"terms": terms, "alternatives": alternatives, "split": split}
    found = await asyncio.gather(
        *(
            _translate(ask, served, sources[own[0]], target, [texts[i] for i in own], syntax, **more)
            for (served, _), own in groups.items()
        )
    )
    for own, outputs in zip(groups.values(), found, strict=True):
        for i, output in zip(own, outputs, strict=True):
            results[i] = output
    return results


async def _translate(
    ask: Ask,
    served: Served,
    source: str,
    target: str,
    texts: Sequence[str],
    syntax: Syntax,
    terms: Terms | None,
    alternatives: int,
    split: str,
) -> list[list[str]]:
    size = sum(map(len, texts))
    read = partial(unless_small, ask, size)
    documents = await read(lambda: [parse(text, syntax) for text in texts])
    jobs = await read(lambda: [[Job(block, terms) for block in each.blocks] for each in documents])
    own: Any = {"to": own_code(served.targets, target), "source": source, "split": split}
    settings: Any = {**own, "decoding": {"n_best": alternatives + 1}}
    every = [job for each in jobs for job in each]
    left = await _remembered(ask, served, every, source, target)
    await translate_jobs(ask, served, left, size, terms=terms, **settings)

    def joined() -> list[list[str]]:
        results = []
        for document, own in zip(documents, [[job.outputs() for job in each] for each in jobs], strict=True):
            whole = [
                document.join(outputs[min(k, len(outputs) - 1)] for outputs in own)
                for k in range(alternatives + 1)
            ]
            results.append([*dict.fromkeys(whole)])
        return results

    return await read(joined)


async def _remembered(ask: Ask, served: Served, jobs: Sequence[Job], source: str, target: str) -> list[Job]:
    """Those that the memory has no answer for. It knows no tags, so a text with some is for the model; what
    it has is taken as it is, without a glossary."""
    memory = ask.service.memory
    if memory is None or memory.use != "exact":
        return [*jobs]
    plain = [job for job in jobs if [*job.parts] == [job] and not job.view.nodes]
    known = await memory.look_up(
        served, ask.caller, [job.view.text for job in plain], source, target, ask.deadline
    )
    if known is None:
        return [*jobs]
    pairs = zip(plain, known, strict=True)
    done = {job for job, each in pairs if each.remembered and job.remember(each.text)}
    return [job for job in jobs if job not in done]


async def translate_opened(
    ask: Ask, opened: Opened, source: str, target: str, weight: float, *, terms: Terms | None = None
) -> bytes:
    """A document of a format with segments, with a translation of each that has none. It is flagged, and
    given near matches, as `regard translate` does; tags in what the memory has are for the model here.
    `weight` is its size, in characters that take as long."""
    served = ask.translator(source, target)
    memory = ask.service.memory
    queued = partial(ask.beside, weight if memory is None else math.inf)

    def planned() -> tuple[Plan, dict[Job, str]]:
        recall = None if memory is None else memory.recall(served, source, target)
        plan = Plan([opened], memory=recall, terms=terms, aids=Aids(flags=FlagSettings()))
        near, fuzzy = plan.near, served.predictor.fuzzy
        if near is None or fuzzy is None:
            return plan, {}
        found = ((part, near.search(part.view.text)) for part, _ in plan.parts)
        return plan, {part: given_match(near.use, matches, fuzzy) for part, matches in found}

    plan, matches = await queued(planned)
    parts = plan.parts
    size = sum(len(each.source) for each in opened.segments)
    jobs = [*dict.fromkeys(work.job for _, work in parts)]
    how: Any = {"to": own_code(served.targets, target), "source": source, "terms": terms}
    found = await translate_jobs(ask, served, jobs, size, matches=matches, flags=FlagSettings(), **how)

    def written() -> bytes:
        for part, work in parts:
            plan.note(part, work, found[part])
        return opened.write(plan.results()[0], target)

    return await queued(written)


async def translate_jobs(
    ask: Ask,
    served: Served,
    jobs: Sequence[Job],
    size: int,
    *,
    matches: Mapping[Job, str] | None = None,
    flags: FlagSettings | None = None,
    **settings: Any,
) -> dict[Job, Translation]:
    """All their parts, and what came of each. `size` is in characters, of everything; `matches` are near ones
    of a memory; with `flags`, what is caught in a loop is made again, as `Translator.translate` does."""
    every = [part for job in jobs for part in job.parts]
    alignable = can_align(served.predictor)
    results: dict[Job, Translation] = {}

    async def translated(some: list[Job], **more: Any) -> list[Translation]:
        near = [matches.get(job, "") for job in some] if matches else []
        how: Any = {"matches": near, "deadline": ask.deadline, **settings, **more}
        return await ask.service.translate(served, ask.caller, [job.view.text for job in some], **how)

    async def work(some: list[Job], align: bool) -> list[Job]:
        """Those that are to be translated once more."""
        if not some:
            return []
        align = align and alignable
        found = await translated(some, align=align)
        if flags is not None:
            found = await unless_small(ask, size, lambda: flagged(found, flags))
            looped = [i for i, each in enumerate(found) if is_looped(each)]
            if looped and served.predictor.decoding.no_repeat == 0:
                strict = {"no_repeat": NO_REPEAT}
                again = await translated([some[i] for i in looped], align=align, decoding=strict)
                for i, each in zip(looped, again, strict=True):
                    found[i] = unlooped(each, flags)
        pairs = [*zip(some, found, strict=True)]
        results.update(pairs)
        return await unless_small(ask, size, lambda: [job for job, each in pairs if not job.take(each)])

    left = await asyncio.gather(
        work([job for job in every if not job.aligned], False),
        work([job for job in every if job.aligned], True),
    )
    again = [job for each in left for job in each]
    for job in again:
        job.look(bare=True)
    await work(again, True)
    return results
