"""What can be wrong with lines and pairs of lines, one function for each kind of fault.

A check looks at the numbers of a `Survey`. Shares decide the severity: a few bad lines among many are worth
knowing, many make a worse model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.text.doctor.drafts import NEVER, Draft, Location, Mask, Rule, severity
from regard.text.doctor.findings import Example
from regard.text.doctor.survey import SIDES, Ledger, SideSurvey, Survey
from regard.text.records import DataError

UNPAIRED = "no line beside it"

_LITTLE = 1000
FEW_WORDS = 4
"""Fewer are said alike by chance."""
WRONG_TAG = "wrong tag"
"""The reason of a sentence whose tags are none of their scheme."""

_DAMAGE = {
    "control": ("control characters", "invisible characters split words for the tokenizer", "strip them"),
    "replacement": (
        "replacement characters",
        "\ufffd stands where a letter was lost",
        "convert the text anew",
    ),
    "unknown": ("unknown marks", "the text says <unk> where words were lost", "start from the raw text"),
    "mojibake": ("mojibake", "UTF-8 that was read as Latin-1 and written again", "repair it, as ftfy does"),
    "markup": ("markup", "HTML tags or entities are left over", "unescape entities and strip tags"),
    "subwords": (
        "subword marks",
        "the text was cut into subwords already",
        "join them: the tokenizer cuts anew",
    ),
}


_SKIP = "or leave them out with data.on_error=skip"


class Sides(Protocol):
    """What there is of a split, whatever its records are."""

    corpora: Sequence[Any]
    broken: list[Ledger]
    unreadable: list[DataError]

    @property
    def sides(self) -> tuple[SideSurvey, ...]: ...

    @property
    def side_names(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...


def missing(surveys: Mapping[str, Survey]) -> Iterator[Draft]:
    if "train" not in surveys:
        yield Draft("no training data", "error", "train", 0, 0, "there is no split named train", "name one")
    for name, survey in surveys.items():
        if not len(survey):
            yield Draft("no pairs", "error", name, 0, 0, "there is not one pair to read", "check the files")
        elif name == "train" and len(survey) < _LITTLE:
            text = f"{len(survey):,} pairs teach a translator next to nothing"
            yield Draft("little data", "warning", name, 0, 0, text, "gather more")


def unreadable(split: str, survey: Sides) -> Iterator[Draft]:
    for error in survey.unreadable:
        text = f"{error.origin}: {error.reason} {error.particulars}".rstrip()
        yield Draft("unreadable file", "error", split, 1, len(survey.corpora), text, error.remedy)
    total = len(survey) + sum(ledger.total for ledger in survey.broken)
    for ledger in survey.broken:
        for reason, count in ledger.counts.items():
            if reason != UNPAIRED:
                errors = ledger.errors[reason]
                examples = [Example(str(error.origin), "", "", error.particulars) for error in errors]
                name, text, remedy = "broken lines", f"{reason}: they cannot be read", errors[0].remedy
                if reason == WRONG_TAG:
                    name, text = "invalid tags", "tags that cannot follow each other so"
                    remedy = f"correct them, or name their scheme with data.scheme; {_SKIP}"
                elif "encoding=" not in remedy:
                    remedy = f"fix them; {_SKIP}"
                how_bad = severity(count / total, 0, 0.05)
                yield Draft(name, how_bad, split, count, total, text, remedy, (), examples)


def empty(split: str, survey: Survey) -> Iterator[Draft]:
    source, target = (side.chars == 0 for side in survey.sides)
    text = "a text without a translation teaches to say nothing, or to invent"
    rule = Rule("one side empty", text, "remove these pairs", error=0.1)
    yield from rule.draft(split, source ^ target, lambda i: f"{'source' if source[i] else 'target'} is empty")
    rule = Rule("both sides empty", "blank lines in both files", "remove them", NEVER)
    yield from rule.draft(split, source & target, lambda i: "blank")


def repeated(split: str, survey: Survey) -> Iterator[Draft]:
    pairs = both(survey.source.exact, survey.target.exact)
    full = np.flatnonzero((survey.source.chars > 0) & (survey.target.chars > 0))
    order = full[np.argsort(pairs[full], kind="stable")]
    starts = np.flatnonzero(np.diff(pairs[order], prepend=0)) if len(order) else order
    times = np.diff(starts, append=len(order))
    if (times > 1).any():
        worst = np.argsort(-times, kind="stable")[:20]
        firsts, seconds = order[starts[worst]], order[np.minimum(starts[worst] + 1, len(order) - 1)]
        places = [
            Location(int(second), f"{time} times, first at", (split, int(first)))
            for first, second, time in zip(firsts, seconds, times[worst], strict=True)
            if time > 1
        ]
        count = int((times - 1).sum())
        how_bad, text = severity(count / len(survey), 0.05), "the same pair again counts more than others do"
        yield Draft("duplicates", how_bad, split, count, len(survey), text, "keep one of each", places)
    _, first, inverse = np.unique(survey.source.normal, return_index=True, return_inverse=True)
    first = first[inverse]
    differs = (survey.target.normal != survey.target.normal[first]) & (survey.source.normal != 0)
    text = "the same source with another target"
    rule = Rule("several translations", text, "fine, if all are right", NEVER)
    yield from rule.draft(split, differs, lambda i: "compare", beside=lambda i: (split, int(first[i])))


def copies(split: str, survey: Survey) -> Iterator[Draft]:
    words = survey.source.words.counts
    same = copied(survey) & (words >= FEW_WORDS)
    text = "source and target are the same text: the model learns to copy instead of to translate"
    rule = Rule("copies", text, "remove them, or translate them", 0.001, 0.2)
    yield from rule.draft(split, same, lambda i: f"{words[i]} words alike", badness=words)


def lengths(split: str, survey: Survey) -> Iterator[Draft]:
    source, target = (side.chars for side in survey.sides)
    if not len(survey):
        return
    full = (source > 0) & (target > 0)
    ratios = np.log((source + 10) / (target + 10))  # a few letters more or less mean nothing
    middle, spread = _robust(ratios[full])
    away = np.abs(ratios - middle)
    odd = full & (away > min(max(6 * spread, np.log(2)), np.log(9)))
    usual = float(np.exp(middle))
    text = f"one side is much longer than the other (usual is {usual:.2f} letters of source to 1 of target)"
    rule = Rule("length ratio", text, "these are seldom translations: remove them", 0.001, 0.2)
    yield from rule.draft(split, odd, lambda i: f"{source[i]} to {target[i]} letters", badness=away)


def long_sides(split: str, survey: Survey) -> Iterator[Draft]:
    source, target = (side.chars for side in survey.sides)
    full = (source > 0) & (target > 0)
    yield from long_lines(split, np.maximum(source, target), full, remedy="split them into sentences")


def long_lines(
    split: str, letters: NDArray[np.int64], full: Mask, *, of: str = "", remedy: str
) -> Iterator[Draft]:
    """Far beyond the length of the others; `of` names the text, where a record has several."""
    if not full.any():
        return
    middle, spread = _robust(np.log(letters[full]))
    bound = max(500.0, float(np.exp(middle + 5 * spread)))
    text = f"longer than {bound:,.0f} letters, where the middle line has {np.exp(middle):,.0f}"
    rule = Rule(f"very long {of or 'line'}s", text, remedy, 0.01)
    yield from rule.draft(split, letters > bound, lambda i: f"{letters[i]:,} letters", badness=letters)


def scripts(split: str, survey: Sides) -> Iterator[Draft]:
    for side, name in zip(survey.sides, survey.side_names, strict=True):
        counts = np.bincount(side.scripts, minlength=len(side.script_names))
        counts[0] = 0  # those that have too few letters
        usual = (counts >= 0.1 * counts.sum()) | (np.arange(len(counts)) == 0)
        listed = " and ".join(side.script_names[i].title() for i in np.flatnonzero(usual) if i)
        text = f"written in another script than {listed}"
        where = f" in {name}" if len(survey.sides) > 1 else ""
        rule = Rule(f"wrong script{where}", text, "remove them", 0.001, 0.1)
        yield from rule.draft(split, ~usual[side.scripts], _script_namer(side))


def damage(split: str, survey: Sides) -> Iterator[Draft]:
    for kind, (name, text, remedy) in _DAMAGE.items():
        shown = {number: mark for side in survey.sides[::-1] for number, mark in side.traces[kind]}
        faulty = np.zeros(len(survey), bool)
        faulty[[*shown]] = True
        error = 0.2 if kind in ("replacement", "unknown", "mojibake") else NEVER
        rule = Rule(name, text, remedy, 0.001, error)
        yield from rule.draft(split, faulty, _shower(shown))


def tokens(split: str, survey: Survey, longest: int | None) -> Iterator[Draft]:
    for side, name in zip(survey.sides, SIDES, strict=True):
        total, unknown = int(side.tokens.sum()), side.unknown
        words = int(side.words.counts.sum())
        if unknown.any():
            share = unknown.sum() / total
            worst = np.argsort(-unknown / np.maximum(side.tokens, 1), kind="stable")[:20]
            told = {int(i): f"{unknown[i]} of {side.tokens[i]} tokens" for i in worst if unknown[i]}
            places = [Location(number, why) for number, why in told.items()]
            about = f"unknown tokens in {name}", severity(share, 0.001, 0.1), split, int(unknown.sum()), total
            remedy = "train the tokenizer on this text, or take one with bytes"
            yield Draft(*about, "the model sees nothing there", remedy, places)
        if words and total / words > 4:
            text = f"{total / words:.1f} tokens a word: the tokenizer was made for other text"
            remedy = "train one on this text"
            yield Draft(f"cut small in {name}", "warning", split, total, total, text, remedy)
    if longest is not None:
        most = np.maximum(survey.source.tokens, survey.target.tokens)
        text = f"longer than the {longest} tokens that the model takes"
        rule = Rule("too long", text, "split them, leave them out, or raise the model's longest", 0.0, 0.2)
        yield from rule.draft(split, most > longest, lambda i: f"{most[i]} tokens", badness=most)


def both(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """One hash of two."""
    return left * np.int64(0x1E3779B97F4A7C15) + (right ^ (right >> np.int64(31)))


def copied(survey: Survey) -> NDArray[np.bool_]:
    return (survey.source.normal == survey.target.normal) & (survey.source.normal != 0)


def _robust(values: NDArray[np.float64]) -> tuple[float, float]:
    """The middle, and the spread as the standard deviation of a normal distribution would be."""
    if not len(values):
        return 0.0, 0.0
    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def _script_namer(side: SideSurvey) -> Callable[[int], str]:
    return lambda number: side.script_names[side.scripts[number]].title()


def _shower(shown: Mapping[int, str]) -> Callable[[int], str]:
    def show(number: int) -> str:
        text = shown[number].strip(" ")
        return text if text.isprintable() else ascii(text)[1:-1]

    return show


EACH = (unreadable, empty, repeated, copies, lengths, long_sides, scripts, damage)
"""The checks of one split by itself."""
OF_TRANSLATIONS = (copies, lengths)
"""Those that expect the target to be in another language."""
