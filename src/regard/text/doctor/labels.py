"""What can be wrong with what is said of texts: contradictions, classes that are rare, missing or alike."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from regard.text.doctor.drafts import NEVER, Draft, Location, Mask, Rule, severity
from regard.text.doctor.samples import SampleSurvey, Surveys

RARE = 10
"""A class of fewer texts is hardly learned."""
_SHARE = 0.8
_TIMES = 20
_SHOWN = 20


def contradictions(split: str, survey: SampleSurvey) -> Iterator[Draft]:
    """The same text, and something else said of it."""
    kind = survey.kind
    if not kind.said or not len(survey):
        return
    texts = survey.exact if kind.words else survey.normal  # tags are of words as they are cut
    _, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
    first = first[inverse]
    enough = survey.words >= kind.few
    differs = enough & (survey.said != survey.said[first])
    count = int(np.isin(inverse, inverse[differs]).sum())
    text = f"the same text with {another(kind.said)}: at most one of them can be right"
    rule = Rule(f"contradicting {_plural(kind.said)}", text, "decide, and correct the others", 0.001)
    for draft in rule.draft(
        split, differs, lambda i: _both(survey, i, int(first[i])), beside=lambda i: (split, int(first[i]))
    ):
        how_bad = severity(count / len(survey), 0.001)
        yield Draft(draft.name, how_bad, split, count, len(survey), draft.text, draft.remedy, draft.places)


def classes(surveys: Surveys) -> Iterator[Draft]:
    """Of all splits, as against those to learn from."""
    train = surveys.get("train")
    if train is None or not train.kind.classes or not len(train):
        return
    noun = train.kind.said
    yield from _few(train, noun)
    yield from _alike(surveys, noun)
    yield from _balance(train, noun)
    for split, survey in surveys.items():
        if survey is not train:
            yield from _unseen(split, survey, train, noun)


def _few(train: SampleSurvey, noun: str) -> Iterator[Draft]:
    many, size = len(train.counts), len(train)
    if many == 1 and not train.kind.words:
        text = f"all {train.kind.records} have the same {noun}: there is nothing to tell apart"
        yield Draft("one class", "error", "train", many, many, text, "add others, or check the column")
    elif many > 20 and many > size / 2 and not train.kind.words:
        text = (
            f"{many:,} different {_plural(noun)} for {size:,} {train.kind.records}: these are hardly classes"
        )
        remedy = "check which column has them; if they are numbers, set data.problem=number"
        yield Draft("too many classes", "warning", "train", many, size, text, remedy)
        return
    bound = 1 if train.kind.words else RARE - 1
    rare = sorted((count, name) for name, count in train.counts.items() if count <= bound)
    if not rare or many == 1:
        return
    places = [Location(train.first[name], f"{name!r}, {_times(count)}") for count, name in rare[:_SHOWN]]
    if train.kind.words:
        name, text = "tags that appear once", "nothing can be learned from a single word"
        remedy = "check that they are no slips; else add sentences that have them"
    else:
        name, text = "rare classes", f"classes of fewer than {RARE} {train.kind.records} are hardly learned"
        remedy = "add some, or join these classes with others"
    yield Draft(name, "warning", "train", len(rare), many, text, remedy, places)


def _alike(surveys: Surveys, noun: str) -> Iterator[Draft]:
    total: Counter[str] = Counter()
    for survey in surveys.values():
        total += survey.counts
    groups = defaultdict(list)
    for name in total:
        groups[re.sub(r"[\W_]+", " ", name.casefold()).strip() or name].append(name)
    found = [sorted(names, key=lambda name: -total[name]) for names in groups.values() if len(names) > 1]
    if not found:
        return
    places = []
    for most, *others in found[:_SHOWN]:
        for name in others:
            split, survey = next(each for each in surveys.items() if name in each[1].counts)
            if split == "train":
                why = f"{name!r}, {_times(total[name])}, beside {most!r}, {_times(total[most])}"
                places.append(Location(survey.first[name], why))
    listed = "; ".join(" and ".join(map(repr, names)) for names in found[:3])
    text = f"{_plural(noun)} that differ in case or punctuation alone: {listed}"
    count = sum(len(names) - 1 for names in found)
    remedy = "if they mean the same, write them the same"
    yield Draft(f"{_plural(noun)} spelled alike", "warning", "train", count, len(total), text, remedy, places)


def _balance(train: SampleSurvey, noun: str) -> Iterator[Draft]:
    if not train.kind.one or len(train.counts) < 2:
        return
    (most, many), *_ = train.counts.most_common()
    least, few = train.counts.most_common()[-1]
    share = many / len(train)
    told = f"{most!r} has {many:,}, {least!r} has {few:,}"
    remedy = "judge by valid.metric=macro_f1, and try loss.class_weights=balanced"
    if share >= _SHARE:
        text = f"{told}: who always says {most!r} is right for {share:.0%}"
        yield Draft("imbalance", "warning", "train", many, len(train), text, remedy)
    elif many >= _TIMES * few:
        yield Draft("imbalance", "info", "train", many, len(train), told, remedy)


def _unseen(split: str, survey: SampleSurvey, train: SampleSurvey, noun: str) -> Iterator[Draft]:
    new = [name for name in survey.counts if name not in train.counts]
    if new:
        places = [Location(survey.first[name], f"{name!r}, {_times(survey.counts[name])}") for name in new]
        text = f"{_plural(noun)} of {split} that nothing in train has"
        remedy = f"correct them, or add {train.kind.records} with them to train"
        how_bad = severity(1.0, 0.0, 0.0 if train.kind.needed and train.step == 1 else NEVER)
        about = f"unseen {_plural(noun)}", how_bad, split, len(new), len(survey.counts)
        yield Draft(*about, text, remedy, places[:_SHOWN])
    missing = sorted(name for name in train.counts if name not in survey.counts)
    if missing and len(survey) and not train.kind.words:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        text = f"{_plural(noun)} of train that {split} has none of, so that they are not measured: {listed}"
        name = f"{_plural(noun)} not in {split}"
        remedy = f"add {train.kind.records} with them to {split}"
        yield Draft(name, "info", split, len(missing), len(train.counts), text, remedy)


def _both(survey: SampleSurvey, number: int, first: int) -> str:
    if not survey.kind.one:
        return f"{another(survey.kind.said)} at"
    names, numbers = survey.names, survey.classes
    return f"{names[numbers[number]]!r}, but {names[numbers[first]]!r} at"


def another(noun: str) -> str:
    return f"other {noun}" if noun.endswith("s") else f"another {noun}"


def _plural(noun: str) -> str:
    return noun if noun.endswith("s") else f"{noun}s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def enough(survey: SampleSurvey) -> Mask:
    """Records that are not alike by chance."""
    return survey.words >= survey.kind.few
