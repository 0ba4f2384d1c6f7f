"""Is this parallel text fit to train a translator on? `examine` looks before any training does.

    report = examine({"train": [("train.en", "train.de")], "valid": [("valid.en", "valid.de")]})
    report.ok, report.verdict

The text is read twice: once for the numbers that all checks look at, once for the text of the worst examples.
`regard.text.doctor.page` prints the report.
"""

from collections.abc import Mapping, Sequence

from regard.text.doctor import checks, comparisons
from regard.text.doctor.drafts import Draft
from regard.text.doctor.findings import SEVERITIES, Example, Finding, Report, SplitCounts
from regard.text.doctor.survey import Corpus, Survey, Vocabulary
from regard.text.records import Pair
from regard.text.tokenizer import Tokenizer


def examine(
    splits: Mapping[str, Sequence[Corpus]],
    *,
    tokenizer: Tokenizer | None = None,
    longest: int | None = None,
    examples: int = 3,
    same_language: bool = False,
) -> Report:
    """Look at the splits of a corpus, of which "train" is what a model will be trained on.

    A split is made of any number of corpora: two files; a reader that waits to be called, such as
    partial(read_table_pairs, "x.tsv", source=0, target=1); or a list of pairs. `longest` is the most tokens
    that the model takes on a side, special ones not counted. A finding has up to `examples`, 20 at most.
    With `same_language`, targets are no translations: they may be their sources, much shorter, or in other
    words.
    """
    if longest is not None and tokenizer is None:
        raise ValueError(f"longest={longest} counts tokens: give the tokenizer too")
    vocabulary = Vocabulary()
    surveys = {name: Survey(corpora, vocabulary, tokenizer) for name, corpora in splits.items()}
    drafts = [*checks.missing(surveys)]
    for name, survey in surveys.items():
        for check in checks.EACH:
            drafts += check(name, survey) if not same_language or check not in checks.OF_TRANSLATIONS else ()
        if tokenizer is not None:
            drafts += checks.tokens(name, survey, longest)
    drafts += comparisons.leaks(surveys)
    drafts += comparisons.meaning(surveys, vocabulary.size, same_language)
    found = _finish(drafts, surveys, examples)
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Report(tuple(found), {name: _count(survey, tokenizer) for name, survey in surveys.items()})


def _count(survey: Survey, tokenizer: Tokenizer | None) -> SplitCounts:
    words = [int(side.words.counts.sum()) for side in survey.sides]
    tokens = [int(side.tokens.sum()) if tokenizer is not None else None for side in survey.sides]
    broken = sum(ledger.total for ledger in survey.broken)
    return SplitCounts(len(survey), broken, words[0], words[1], tokens[0], tokens[1])


def _finish(drafts: Sequence[Draft], surveys: Mapping[str, Survey], examples: int) -> list[Finding]:
    """Read the text of the places that the drafts name."""
    wanted: dict[str, set[int]] = {name: set() for name in surveys}
    for draft in drafts:
        for place in draft.places[: max(examples, 1)]:
            wanted[draft.split].add(place.number)
            if place.beside is not None:
                wanted[place.beside[0]].add(place.beside[1])
    pairs = {
        (name, number): pair
        for name, survey in surveys.items()
        for number, pair in survey.fetch(wanted[name]).items()
    }
    return [_finding(draft, pairs, examples) for draft in drafts]


def _finding(draft: Draft, pairs: Mapping[tuple[str, int], Pair], examples: int) -> Finding:
    shown = [*draft.examples]
    text = draft.text
    for place in draft.places[: max(examples, 1)]:
        pair = pairs[draft.split, place.number]
        beside = "" if place.beside is None else f" {pairs[place.beside].origin}"
        shown.append(Example(_where(pair), pair.source, pair.target, place.why + beside))
        text = text.replace("{place}", str(pair.target_origin))
    about = draft.name, draft.severity, draft.split, draft.count, draft.total
    return Finding(*about, text, draft.remedy, tuple(shown[:examples]))


def _where(pair: Pair) -> str:
    """Both places, in short where the line is the same."""
    if pair.target_origin == pair.origin:
        return str(pair.origin)
    return f"{pair.origin} | {pair.target_origin}"
