"""What shows only when lines are compared: leaks between splits, other languages, lines out of step.

What is usual is learned from train, or else from the largest split.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.alignment import Aligner, Judgement, Run, Words
from regard.text.doctor.checks import FEW_WORDS, UNPAIRED, both, copied
from regard.text.doctor.drafts import Draft, Location, Mask, Rule
from regard.text.doctor.findings import Example
from regard.text.doctor.survey import SIDES, Ledger, Survey

COMMON = 100
"""Words that nearly every line of a language has some of."""
_SURE = 15.0
UNLIKELY = 6.0
"""In nats: so few of them are no chance."""
_TOLD = 1000


def leaks(surveys: Mapping[str, Survey]) -> Iterator[Draft]:
    """For two splits, the pairs of the later one that stand in the earlier one too."""
    for (other, seen), (split, survey) in combinations(surveys.items(), 2):
        enough = survey.source.words.counts >= FEW_WORDS
        pairs, seen_pairs = (both(each.source.normal, each.target.normal) for each in (survey, seen))
        exact, seen_exact = (both(each.source.exact, each.target.exact) for each in (survey, seen))
        leaked = enough & np.isin(pairs, seen_pairs)
        letters = int((leaked & np.isin(exact, seen_exact)).sum())
        where = f"pairs of {split} stand in {other} too"
        text = f"{where}, {letters:,} of them to the letter: scores will flatter"
        rule = Rule("leak", text, f"remove them from {other}", 0.002, 0.1)
        yield from rule.draft(split, leaked, lambda i: "also at", beside=finder(pairs, other, seen_pairs))
        sources = enough & ~leaked & np.isin(survey.source.normal, seen.source.normal)
        text = f"sources of {split} stand in {other} too, with another target"
        rule = Rule("leaked sources", text, f"remove them from {other}", 0.01)
        beside = finder(survey.source.normal, other, seen.source.normal)
        yield from rule.draft(split, sources, lambda i: "also at", beside=beside)


def meaning(surveys: Mapping[str, Survey], size: int, same_language: bool = False) -> Iterator[Draft]:
    """What words tell; their numbers are less than `size`. A line of another language fits nothing, so
    it is not called misaligned too. Sides of the same language need not explain each other word by word, and
    read like each other; files out of step are seen all the same."""
    usual = _usual(surveys)
    if usual is None:
        return
    excused = {split: copied(survey) for split, survey in surveys.items()}
    for side in (0, 1):
        yield from _languages(surveys, usual[1], side, size, excused, same_language)
    yield from _alignment(surveys, usual, size, None if same_language else excused)


def _languages(
    surveys: Mapping[str, Survey],
    usual: Survey,
    side: int,
    size: int,
    excused: dict[str, Mask],
    same_language: bool,
) -> Iterator[Draft]:
    """Lines that read like the other side, or like neither; `excused` are left out, and grow by these."""
    counts = [np.bincount(each.words.ids, minlength=size) for each in usual.sides]
    shares = [np.log((each + 0.5) / (each.sum() + 0.5 * size)) for each in counts]
    leaning = (shares[side] - shares[1 - side]).astype(np.float32)
    common = np.zeros(size, np.float32)
    common[np.argsort(-counts[side], kind="stable")[:COMMON]] = 1
    coverage = coverage_of(usual.sides[side].words, common)
    for split, survey in surveys.items():
        words = survey.sides[side].words
        enough = (words.counts >= FEW_WORDS) & ~copied(survey)
        sums = words.sums(leaning)
        swapped = enough & (not same_language) & (sums < -_SURE) & (sums < -1.5 * words.counts)
        text = f"lines of the {SIDES[side]} read like the {SIDES[1 - side]}'s language"
        rule = Rule(f"{SIDES[side]} untranslated", text, "translate or remove them", 0.002, 0.2)
        yield from rule.draft(split, swapped, lambda i: "the other side's words", badness=-sums)
        surprise = surprise_at(words.sums(common), words.counts, coverage)
        foreign = enough & ~swapped & (surprise > UNLIKELY)
        hardly = f"lines of the {SIDES[side]} have hardly any of its {COMMON} commonest words"
        text = f"{hardly}: a third language, or a list"
        rule = Rule(f"{SIDES[side]} foreign", text, "remove them", 0.005, 0.2)
        yield from rule.draft(split, foreign, lambda i: "hardly a common word", badness=surprise)
        excused[split] |= swapped | foreign


def _alignment(
    surveys: Mapping[str, Survey],
    usual: tuple[str, Survey],
    size: int,
    excused: Mapping[str, Mask] | None,
) -> Iterator[Draft]:
    """Of single pairs only what is not `excused`; nothing, if that is None."""
    split, survey = usual
    aligner = Aligner(survey.source.words, survey.target.words, size)
    if aligner.related is False:
        text = "the words of the two sides have nothing to do with each other: these are no translations"
        remedy = "check that both files are of the same text, in the same order"
        yield Draft("unrelated sides", "error", split, len(survey), len(survey), text, remedy)
    elif excused is not None and not aligner.sure and len(survey) >= _TOLD:
        text = "too little text, or too mixed, to tell by its words which single pairs do not fit"
        yield Draft("alignment unsure", "info", split, 0, len(survey), text, "look at some lines yourself")
    for split, survey in surveys.items():
        source, target = survey.source.words, survey.target.words
        spans = [*pairwise(survey.starts)]
        judged = [aligner.judge(source.cut(*span), target.cut(*span)) for span in spans]
        if excused is not None:
            yield from _misaligned(split, judged, excused[split])
        for ledger, span, judgement in zip(survey.broken, spans, judged, strict=True):
            yield from _out_of_step(split, len(survey), span[0], judgement.runs)
            if ledger.counts[UNPAIRED]:
                yield _unequal(split, ledger, judgement.runs, len(survey))


def _unequal(split: str, ledger: Ledger, runs: Sequence[Run], pairs: int) -> Draft:
    count, error = ledger.counts[UNPAIRED], ledger.errors[UNPAIRED][0]
    text = error.particulars.strip("()") + ("; see where they fall out of step" if runs else "")
    remedy = "find the lines that one of them lacks, and align them"
    last = Example(str(error.origin), "", "", "nothing stands beside it")
    return Draft("unequal files", "error", split, count, pairs + count, text, remedy, (), [last])


def _misaligned(split: str, judged: Sequence[Judgement], excused: Mask) -> Iterator[Draft]:
    if not judged:
        return
    evidence = np.concatenate([each.evidence for each in judged])
    unlike = np.concatenate([each.unlike for each in judged]) & ~excused
    text = "the words of the two sides do not explain each other"
    rule = Rule("misaligned", text, "look at them; remove those that are no translations", 0.005, 0.1)
    yield from rule.draft(split, unlike, lambda i: f"evidence {evidence[i]:.0f}", badness=-evidence)


def _out_of_step(split: str, total: int, first: int, runs: tuple[Run, ...]) -> Iterator[Draft]:
    """One finding for a file, with the places where it slips."""
    if not runs:
        return
    places = [
        Location(first + run.start, f"for {run.stop - run.start:,} lines, {_told(run.shift)}") for run in runs
    ]
    count = sum(run.stop - run.start for run in runs)
    text = f"from {{place}} on, targets fit the source better {_told(runs[0].shift)}"
    remedy = "a line is missing or too much near there: align the files anew"
    yield Draft("out of step", "error", split, count, total, text, remedy, places)


def _told(shift: int) -> str:
    lines = "one line" if abs(shift) == 1 else f"{abs(shift)} lines"
    return f"{lines} {'earlier' if shift < 0 else 'later'}"


def _usual(surveys: Mapping[str, Survey]) -> tuple[str, Survey] | None:
    named = [("train", surveys["train"])] if "train" in surveys else [*surveys.items()]
    split, survey = max(named, key=lambda item: len(item[1]), default=("", None))
    return (split, survey) if survey is not None and len(survey) else None


def coverage_of(words: Words, common: NDArray[np.float32]) -> float:
    """The share of common words in lines that have few of them: the lower quartile."""
    counts = words.counts
    enough = counts >= 10
    return float(np.quantile((words.sums(common)[enough] / counts[enough]), 0.25)) if enough.any() else 0.0


def surprise_at(hits: NDArray[np.float64], counts: NDArray[np.int64], share: float) -> NDArray[np.float64]:
    """How unlikely so few hits are, in nats: Chernoff's bound, n KL(hits/n || share)."""
    if not 0 < share < 1:
        return np.zeros(len(hits))
    found = np.clip(hits / np.maximum(counts, 1), 1e-12, 1 - 1e-12)
    divergence = found * np.log(found / share) + (1 - found) * np.log((1 - found) / (1 - share))
    return np.where(found < share, counts * divergence, 0.0)


def finder(
    wanted: NDArray[np.int64], split: str, seen: NDArray[np.int64]
) -> Callable[[int], tuple[str, int] | None]:
    return lambda number: (split, int(np.argmax(seen == wanted[number])))
