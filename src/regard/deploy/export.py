"""Export for CTranslate2, verified: both must say the same before the folder gets its name.

    log-probabilities   of every token of our translations, by both: equal but for float32's rounding
    greedy, beam        the texts by both: how many are the same, and BLEU of one against the other

Rounding to int8 comes after that, and is measured alike.
"""

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from rich.console import Console

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.deploy.engine import CTranslate2Engine, library, open_deployed
from regard.deploy.folder import Facts, Precision, folder_size, write_facts, written_whole
from regard.settings.models import PromptConfig
from regard.tasks.base.terminal import say
from regard.tasks.translation.evaluate import score as evaluated
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer

Score = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[list[float]]]
"""Of sources and targets in ids: the log-probability of each token of a target, and of its end."""

POSITIONS = 2048
"""Rows of an exported table of positions; more where the model was trained on longer texts."""
ROUNDING = 1e-2
"""What float32's rounding may make of a log-probability, at most. Usual is 1e-5."""
LEAST: dict[Precision, float] = {"float32": 90.0, "int8": 50.0}
"""BLEU of greedy translations, one against the other, below which an export is refused, unless as many of
100 are the same: texts of three words have no BLEU."""
DRAWN = 64
"""Texts drawn from the vocabulary, where none are given."""


class ExportError(RuntimeError):
    """An exported model that says something else than the model; the message says how far they differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Numbers of two engines, compared: how many, how far apart at most, and how far rounding may bring
    them."""

    numbers: int
    most: float
    bound: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the texts of two translators are the same."""

    same: int
    count: int
    bleu: float
    """Of one against the other."""

    @classmethod
    def of(cls, theirs: Sequence[str], ours: Sequence[str]) -> "Agreement":
        same = sum(a == b for a, b in zip(theirs, ours, strict=True))
        bleu = 100.0 if same == len(ours) else evaluated(theirs, [[*ours]], ("bleu",))["bleu"].value
        return cls(same, len(ours), bleu)

    def __str__(self) -> str:
        return f"{self.same} of {self.count} texts the same, BLEU {self.bleu:.2f} of one against the other"


def export(
    translator: Translator,
    out: Path,
    *,
    precision: Precision = "float32",
    samples: Sequence[str] = (),
    console: Console,
) -> Difference:
    """`samples` are texts that both translate; some are drawn from the vocabulary unless given. Nothing is
    left behind if they differ. How far log-probabilities do in float32."""
    library()
    out = out.resolve()
    texts = [*samples] or sampled_texts(translator.tokenizer, translator.longest, DRAWN)
    found = []
    with written_whole(out) as partial:
        for step in dict.fromkeys(("float32", precision)):
            write_engine(translator, partial, step)
            deployed = open_deployed(partial, device="cpu")
            score = cast(CTranslate2Engine, deployed.engine).score
            found.append(verify(translator, deployed, score, texts, console, precision=step))
    say(console, f"{out}: {folder_size(out) / 1e6:.1f} MB, for regard translate --engine ctranslate2")
    return found[0]


def sampled_texts(tokenizer: Tokenizer, longest: int, count: int) -> list[str]:
    """Rows of random tokens, as texts: nonsense, but in the model's own words."""
    special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
    usual = sorted({*tokenizer.vocabulary.values()} - special)
    chance = random.Random(0)
    most = max(min(20, longest - 3), 1)
    return [tokenizer.decode(chance.choices(usual, k=chance.randint(1, most))) for _ in range(count)]


def write_engine(translator: Translator, folder: Path, precision: Precision) -> None:
    """Not verified: `export` is what does that."""
    from regard.deploy.spec import build_spec  # what it is made of is an extra

    shutil.rmtree(folder, ignore_errors=True)
    rows = max(POSITIONS, 4 * translator.longest)
    spec = build_spec(translator.model, translator.tokenizer, rows=rows)
    spec.optimize(quantization=precision)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    translator.tokenizer.save(folder / "tokenizer.json")
    decoding = translator.decoding
    facts = Facts(
        precision=precision,
        model=translator.model.config,
        longest=translator.longest,
        languages=translator.languages,
        several_sentences=translator.several_sentences,
        marks=translator.marks,
        source_language=translator.source_language,
        prompts=tuple(PromptConfig(name=name, text=text) for name, text in translator.prompts.items()),
        default_prompt=translator.default_prompt,
        fuzzy=translator.fuzzy,
        inline=translator.inline,
        calibration=translator.calibration,
        decode=replace(decoding, stop="full"),  # the only way it has
        positions=rows,
    )
    write_facts(folder, facts)


def verify(
    ours: Translator,
    theirs: Translator,
    score: Score,
    texts: Sequence[str],
    console: Console,
    *,
    precision: Precision = "float32",
    beams: bool = True,
) -> Difference:
    """`score` is that of the exported one. How far log-probabilities of tokens differ."""
    languages = ours.languages
    to = [languages[i % len(languages)] for i in range(len(texts))] if languages else None
    greedy = replace(theirs.decoding, method="greedy", n_best=1)
    beam = replace(greedy, method="beam", beam=max(theirs.decoding.beam, 2))

    written = _texts(ours, texts, to, greedy)
    gaps = _gaps(ours, score, texts, written, to)
    found = f"log-probabilities of tokens differ by {gaps.mean():.1g} on average, {gaps.max():.1g} at most"
    say(console, f"{precision}: {found}")
    if precision == "float32" and not gaps.max() <= ROUNDING:
        raise ExportError(
            f"{found}, which is more than rounding ({ROUNDING:g}): what was exported is another model, and "
            "was not kept; translate with --engine regard"
        )
    agreement = Agreement.of(_texts(theirs, texts, to, greedy), written)
    say(console, f"{precision}, greedy: {agreement}")
    if max(agreement.bleu, 100 * agreement.same / agreement.count) < LEAST[precision]:
        remedy = "translate with --engine regard" if precision == "float32" else "export in float32"
        raise ExportError(
            f"greedy, {agreement}, but at least {LEAST[precision]:g} is wanted in {precision}: nothing was "
            f"kept; {remedy}, or give texts like those it was trained on (--samples)"
        )
    if beams:
        agreement = Agreement.of(_texts(theirs, texts, to, beam), _texts(ours, texts, to, beam))
        say(console, f"{precision}, beam of {beam.beam}: {agreement}")
    return Difference(gaps.size, float(gaps.max()), ROUNDING)


def _texts(
    translator: Translator, texts: Sequence[str], to: list[str] | None, decoding: DecodeConfig
) -> list[str]:
    reads = None if translator.marks == "source" else reading(translator)
    found = translator.translate(texts, to=to, decoding=decoding, source_language=reads)
    return [each.text for each in found]


def reading(translator: Translator) -> str:
    """A language to read samples in, for a model that is told it."""
    return translator.source_language or translator.languages[0]


def _gaps(
    ours: Translator, score: Score, texts: Sequence[str], written: Sequence[str], to: list[str] | None
) -> np.ndarray:
    """For each token of these translations, how far apart both find its log-probability. Of long ones only
    the beginnings, which will do to tell two models apart."""
    tokenizer, most = ours.tokenizer, ours.longest - 1
    marks = [ours.mark(language) for language in ours.languages_of(to, len(texts))]
    shown = ours.reads() if ours.marks == "source" else reading(ours)
    last = tokenizer.require("end")
    sources = [[*ids[:most], last] for ids in ours.encode(texts, to, shown)]
    targets = [ids[:most] for ids in tokenizer.target.encode_batch(written)]
    begun = [[*mark, *ids] for mark, ids in zip(marks, targets, strict=True)]
    read, target = pack(sources), pack([[ours.start, *ids] for ids in begun])
    labels = torch.tensor([id for ids in begun for id in (*ids, ours.end)])
    with torch.no_grad():
        states = ours.model(read.ids, read.layout, target.ids, target.layout)
        likely = ours.model.decoder.head(states).log_softmax(dim=-1)
    own = likely.gather(1, labels.unsqueeze(1)).squeeze(1).numpy()
    other = np.concatenate(score(sources, begun))
    return np.abs(own - other)
