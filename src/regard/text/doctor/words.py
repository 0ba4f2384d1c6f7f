"""Tags that are probably slips: a word that nearly always has one tag has another."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from regard.text.doctor.drafts import Draft, Location, severity
from regard.text.doctor.samples import SampleSurvey

SEEN = 20
"""Times that a word must be there."""
NEARLY = 0.95
"""The share of its usual tag."""
OUTSIDE = "O"
"""The tag of words in no span: any of them may be in one, a title's articles and commas."""
_SHOWN = 20


def unusual_tags(split: str, survey: SampleSurvey) -> Iterator[Draft]:
    """The text is read twice more: once to learn, once to look. Words are taken as they are written."""
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in survey.each():
        for word, tag in zip(sample.texts[0].split(" "), sample.said, strict=False):
            tags[word][tag] += 1
    usual = {}
    for word, counts in tags.items():
        (tag, count), *others = counts.most_common(2)
        if tag != OUTSIDE and others and counts.total() >= SEEN and count >= NEARLY * counts.total():
            usual[word] = tag, count
    if not usual:
        return
    odd: list[tuple[int, Location]] = []
    for number, sample in enumerate(survey.each()):
        for word, tag in zip(sample.texts[0].split(" "), sample.said, strict=False):
            if word in usual and usual[word][0] != tag:
                tag_there, count = usual[word]
                why = f"{word!r} is {tag}, and {count:,} times {tag_there}"
                odd.append((-count // tags[word][tag], Location(number, why)))
    odd.sort(key=lambda each: each[0])
    total = sum(survey.counts.values())
    text = f"words with another tag than they have {NEARLY:.0%} of the time"
    remedy = "look at them: some will be slips"
    places = [place for _, place in odd[:_SHOWN]]
    how_bad = severity(len(odd) / total, 0.005)
    yield Draft("unusual tags", how_bad, split, len(odd), total, text, remedy, places)
