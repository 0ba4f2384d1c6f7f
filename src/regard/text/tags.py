"""Tags that mark spans of words, in the schemes that data comes in.

             Ann  Lee  Bo  met  Kim        (Ann Lee and Bo are two persons side by side)
    IOB1     I    I    B   O    I          B only where a span touches another of its label
    IOB2     B    I    B   O    B          B opens every span
    BIOES    B    E    S   O    S          E closes a span, S is one by itself
    BILOU    B    L    U   O    U          the same under other letters

`spans` reads any of them; everything else is written from spans, so one set of rules tells what is malformed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

Scheme = Literal["IOB2", "IOB1", "BIOES", "BILOU"]
"""Where tags fit several equally well, the first of them is taken."""

_PREFIXES = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU"}
_BIOES_OF_BILOU = {"B": "B", "I": "I", "L": "E", "U": "S"}


@dataclass(frozen=True, slots=True)
class Span:
    label: str
    start: int
    end: int
    """The word after the last."""


class TagError(ValueError):
    """A tag that its scheme does not allow there."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position, self.problem = position, problem

    def __str__(self) -> str:
        return f"tag {self.position}: {self.problem}"


def spans(tags: Sequence[str], scheme: Scheme = "IOB2") -> tuple[Span, ...]:
    """The spans in order.

    As IOB1, an I that continues nothing opens a span and a B always does, as in the CoNLL scorer: IOB2 is
    read as well. The other schemes are strict.
    """
    found: list[Span] = []
    label, start = "", 0  # the span that is open; no label: none is
    for position, tag in enumerate(tags):
        prefix, name = _split(position, tag, scheme)
        continues = bool(label) and prefix in ("I", "E") and name == label
        if prefix in ("I", "E") and not continues and scheme != "IOB1":
            raise TagError(position, f"{tag!r} continues no {name!r}")
        if label and not continues:
            if scheme in ("BIOES", "BILOU"):
                raise TagError(position, f"{tag!r} comes before the {label!r} that is open has ended")
            found.append(Span(label, start, position))
            label = ""
        if not label and prefix != "O":
            label, start = name, position
        if prefix in ("E", "S"):
            found.append(Span(label, start, position + 1))
            label = ""
    if label:
        if scheme in ("BIOES", "BILOU"):
            raise TagError(len(tags) - 1, f"the sentence ends before the {label!r} that is open has")
        found.append(Span(label, start, len(tags)))
    return tuple(found)


def to_iob2(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    written = ["O"] * len(tags)
    for span in spans(tags, scheme):
        written[span.start] = f"B-{span.label}"
        for position in range(span.start + 1, span.end):
            written[position] = f"I-{span.label}"
    return tuple(written)


def to_bioes(tags: Sequence[str]) -> tuple[str, ...]:
    """IOB2 with the ends of spans marked too."""
    written = list(to_iob2(tags, "IOB2"))
    for span in spans(tags):
        written[span.end - 1] = f"{'S' if span.end - span.start == 1 else 'E'}-{span.label}"
    return tuple(written)


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme | None:
    """The scheme in which the fewest sentences are malformed; None for tags that mark no spans, such as parts
    of speech.

    IOB1 counts as malformed here where a B touches no span: else it would fit whatever IOB2 does.
    """
    malformed: dict[Scheme, int] = dict.fromkeys(get_args(Scheme), 0)
    any_span = False
    for tags in sentences:
        any_span |= any(tag[1:2] == "-" and tag[2:] and tag[0] in "BIESLU" for tag in tags)
        for scheme in malformed:
            malformed[scheme] += not _fits(tags, scheme)
    if not any_span:
        return None
    return min(malformed, key=malformed.__getitem__)


def _fits(tags: Sequence[str], scheme: Scheme) -> bool:
    try:
        spans(tags, scheme)
    except TagError:
        return False
    needless = (tag[0] == "B" and before[2:] != tag[2:] for before, tag in pairwise(("O", *tags)))
    return scheme != "IOB1" or not any(needless)


def _split(position: int, tag: str, scheme: Scheme) -> tuple[str, str]:
    if tag == "O":
        return "O", ""
    prefix, dash, name = tag.partition("-")
    if not dash or not name or len(prefix) != 1 or prefix not in _PREFIXES[scheme]:
        allowed = ", ".join(f"{letter}-..." for letter in _PREFIXES[scheme])
        raise TagError(position, f"malformed tag {tag!r}: {scheme} has O, {allowed}")
    return _BIOES_OF_BILOU[prefix] if scheme == "BILOU" else prefix, name
