"""Are these texts fit to train on? `inspect` looks at those that are no translations, whatever their task.

    report = inspect({"train": [reader]}, Kind(records="texts", said="label", classes=True, one=True))

`regard.text.doctor.samples` says what is read of them, and how often.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor import checks, labels
from regard.text.doctor.comparisons import COMMON, coverage_of, finder, surprise_at
from regard.text.doctor.drafts import Draft, Location, Rule, severity
from regard.text.doctor.findings import SEVERITIES, Example, Finding, Report, SampleCounts
from regard.text.doctor.samples import MOST, Kind, Reader, Sample, SampleSurvey, Surveys
from regard.text.doctor.survey import Vocabulary
from regard.text.doctor.suspects import Vectors, suspects
from regard.text.doctor.words import unusual_tags

_LITTLE = 100
_ENOUGH = 8
_UNLIKELY = 9.0


def inspect(
    splits: Mapping[str, Sequence[Reader]],
    kind: Kind,
    *,
    examples: int = 3,
    closely: bool = True,
    vectors: Vectors | None = None,
    most: int = MOST,
) -> Report:
    """Look at splits, of which "train" is what a model will be trained on; `most` records of each. `closely`:
    labels are cross-validated too, by `vectors` of the texts or, unless given, by their letters and words."""
    vocabulary = Vocabulary()
    surveys = {name: SampleSurvey(readers, kind, vocabulary, most) for name, readers in splits.items()}
    drafts = [*_missing(surveys), *_sampled(surveys)]
    for name, survey in surveys.items():
        for check in (checks.unreadable, _empty, _duplicates, labels.contradictions, _lengths):
            drafts += check(name, survey)
        drafts += checks.scripts(name, survey)
        drafts += map(_worse, checks.damage(name, survey))
    drafts += _leaks(surveys)
    drafts += labels.classes(surveys)
    drafts += _foreign(surveys, vocabulary.size)
    if closely:
        drafts += suspects(surveys, vectors) if kind.one else ()
        for name, survey in surveys.items() if kind.words else ():
            drafts += unusual_tags(name, survey)
    found = _finish(drafts, surveys, examples)
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Report(tuple(found), {name: _count(survey) for name, survey in surveys.items()})


def _missing(surveys: Surveys) -> Iterator[Draft]:
    for name, survey in surveys.items():
        what = survey.kind.records
        if not len(survey):
            text = f"there are no {what} to read"
            yield Draft(f"no {what}", "error", name, 0, 0, text, "check the files")
        elif name == "train" and survey.kind.classes and len(survey) < _LITTLE:
            text = f"{len(survey):,} {what} are little to learn from"
            yield Draft("little data", "warning", name, 0, 0, text, "gather more")


def _sampled(surveys: Surveys) -> Iterator[Draft]:
    for name, survey in surveys.items():
        if survey.step > 1:
            text = f"one in {survey.step} {survey.kind.records} was looked at: what is counted is of these"
            remedy = "nothing needs to be done; there may be more of everything"
            yield Draft("sampled", "info", name, len(survey), survey.records, text, remedy)


def _empty(split: str, survey: SampleSurvey) -> Iterator[Draft]:
    for side, name in zip(survey.sides, survey.side_names, strict=True):
        rule = Rule(
            f"empty {name}", "nothing can be learned from them", "remove them, or fill them in", 0.001
        )
        yield from rule.draft(split, side.chars == 0, lambda i: "empty")
        silent = (side.chars > 0) & (side.words.counts == 0) & (not survey.kind.words)
        rule = Rule(f"no words in {name}", "digits and punctuation at most", "look at them", 0.01)
        yield from rule.draft(split, silent, lambda i: "no words")


def _duplicates(split: str, survey: SampleSurvey) -> Iterator[Draft]:
    wanted = np.flatnonzero(labels.enough(survey))
    if not len(wanted):
        return
    _, first, inverse, times = np.unique(
        survey.exact[wanted] * np.int64(31) + survey.said[wanted],
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    count = int((times - 1).sum())
    if not count:
        return
    worst = np.argsort(-times, kind="stable")[:20]
    places = []
    for group in worst[times[worst] > 1].tolist():
        again = wanted[np.flatnonzero(inverse == group)[1]]
        why = f"{times[group]} times, first at"
        places.append(Location(int(again), why, (split, int(wanted[first[group]]))))
    same = f" with the same {survey.kind.said}" if survey.kind.said else ""
    text = f"the same text{same} again: it counts more than other {survey.kind.records} do"
    how_bad = severity(count / len(survey), 0.05)
    yield Draft("duplicates", how_bad, split, count, len(survey), text, "keep one of each", places)


def _worse(draft: Draft) -> Draft:
    """A model is worse for such marks, but there is more to learn than translations of them."""
    return replace(draft, severity="warning") if draft.severity == "error" else draft


def _lengths(split: str, survey: SampleSurvey) -> Iterator[Draft]:
    remedy = "look at them: records may have run together, and a model reads only so many tokens"
    for side, name in zip(survey.sides, survey.side_names, strict=True):
        yield from checks.long_lines(split, side.chars, side.chars > 0, of=name, remedy=remedy)


def _leaks(surveys: Surveys) -> Iterator[Draft]:
    """For two splits, the records of the later one that stand in the earlier one too."""
    for (other, seen), (split, survey) in combinations(surveys.items(), 2):
        kind = survey.kind
        enough = labels.enough(survey)
        leaked = enough & np.isin(survey.normal, seen.normal)
        letters = int((leaked & np.isin(survey.exact, seen.exact)).sum())
        text = f"{kind.records} of {split} stand in {other} too, {letters:,} of them to the letter"
        if kind.said and leaked.any():
            same = np.isin(_with(survey.normal, survey.said), _with(seen.normal, seen.said))
            text += f", {int((leaked & ~same).sum()):,} with {labels.another(kind.said)}"
        rule = Rule("leak", f"{text}: scores will flatter", f"remove them from {other}", 0.005)
        beside = finder(survey.normal, other, seen.normal)
        yield from rule.draft(split, leaked, lambda i: "also at", beside=beside)
        if kind.apart:
            yield from _shared(split, survey, other, seen, leaked)


def _shared(
    split: str, survey: SampleSurvey, other: str, seen: SampleSurvey, leaked: NDArray[np.bool_]
) -> Iterator[Draft]:
    """Records that share one text only."""
    for side, there, name in zip(survey.sides, seen.sides, survey.side_names, strict=True):
        if name not in survey.kind.apart:
            continue
        found = ~leaked & (side.words.counts >= checks.FEW_WORDS) & np.isin(side.normal, there.normal)
        text = (
            f"{survey.kind.records} of {split} have a {name} that stands in {other} too: scores will flatter"
        )
        rule = Rule(f"shared {name}", text, f"remove them from {other}", 0.005)
        beside = finder(side.normal, other, there.normal)
        yield from rule.draft(split, found, lambda i: "also at", beside=beside)


def _with(texts: NDArray[np.int64], said: NDArray[np.int64]) -> NDArray[np.int64]:
    return texts * np.int64(31) + said


def _foreign(surveys: Surveys, size: int) -> Iterator[Draft]:
    """Texts that have hardly any of the commonest words."""
    usual = surveys.get("train") or max(surveys.values(), key=len)
    for place, name in enumerate(usual.side_names):
        counts = np.bincount(usual.sides[place].words.ids, minlength=size)
        common = np.zeros(size, np.float32)
        common[np.argsort(-counts, kind="stable")[:COMMON]] = 1
        coverage = coverage_of(usual.sides[place].words, common)
        for split, survey in surveys.items():
            words = survey.sides[place].words
            surprise = surprise_at(words.sums(common), words.counts, coverage)
            odd = (words.counts >= _ENOUGH) & (surprise > _UNLIKELY)
            text = f"they have hardly any of the {COMMON} commonest words: another language, or a list"
            where = f" in {name}" if len(usual.sides) > 1 else ""
            rule = Rule(f"foreign text{where}", text, "look at them; remove what is not wanted", 0.02)
            yield from rule.draft(split, odd, lambda i: "hardly a common word", badness=surprise)


def _count(survey: SampleSurvey) -> SampleCounts:
    broken = sum(ledger.total for ledger in survey.broken)
    classes = len(survey.counts) if survey.kind.classes else None
    words = int(survey.words.sum())
    return SampleCounts(survey.kind.records, survey.records, len(survey), broken, words, classes)


def _finish(drafts: Sequence[Draft], surveys: Surveys, examples: int) -> list[Finding]:
    """Read the text of the places that the drafts name."""
    wanted: dict[str, set[int]] = {name: set() for name in surveys}
    for draft in drafts:
        for place in draft.places[:examples]:
            wanted[draft.split].add(place.number)
            if place.beside is not None:
                wanted[place.beside[0]].add(place.beside[1])
    found = {
        (name, number): sample
        for name, survey in surveys.items()
        for number, sample in survey.fetch(wanted[name]).items()
    }
    return [_finding(draft, found, examples) for draft in drafts]


def _finding(draft: Draft, samples: Mapping[tuple[str, int], Sample], examples: int) -> Finding:
    shown = [*draft.examples]
    for place in draft.places[:examples]:
        sample = samples[draft.split, place.number]
        beside = "" if place.beside is None else f" {samples[place.beside].origin}"
        first, second = (*sample.texts, None)[:2]
        shown.append(Example(str(sample.origin), str(first), second, place.why + beside))
    about = draft.name, draft.severity, draft.split, draft.count, draft.total
    return Finding(*about, draft.text, draft.remedy, tuple(shown[:examples]))
