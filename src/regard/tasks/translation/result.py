"""What translating a text yields."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.memory import Match


class TranslationWarning(UserWarning):
    """A translation may be worse than the model can do; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Alternative:
    text: str
    score: float
    """Log-probability of the whole."""
    ranking: float
    """What the search preferred it by: the score, with the length penalty. For a text that was split, the
    mean over its pieces."""
    finished: bool
    """Ended by the model itself, not stopped at the maximum."""
    confidence: float
    """From 0 to 1: the chrF that such translations have of the validation text, on average, where the model
    has learned that; else the geometric mean of its tokens' probabilities."""


@dataclass(frozen=True, slots=True)
class TermUse:
    """What became of a glossary's term."""

    source: str
    """As the source has it."""
    target: str
    how: Literal["model", "inflected", "decoded", "replaced", "missed"]
    """The model wrote it by itself; it wrote another form of it; the search was held to it; the words that it
    had become were replaced; or it is not there."""


@dataclass(frozen=True, slots=True)
class Translation:
    source: str
    text: str
    score: float
    ranking: float
    finished: bool
    confidence: float
    """See `Alternative`. 1 if it is blank."""
    alternatives: tuple[Alternative, ...]
    """The best ones in order, the translation itself first; as many as `n_best` of the decoding."""
    alignment: tuple[tuple[int, int], ...] | None = None
    """(source word, target word) links, where they were asked for."""
    pieces: int = 1
    """In how many pieces the source was translated; 0 if it is blank."""
    unknown: int = 0
    """Tokens of the source that the vocabulary does not have: the model did not see what they are."""
    terms: tuple[TermUse, ...] | None = None
    """What became of the terms, where there was a glossary."""
    matches: tuple[Match, ...] | None = None
    """Of a memory, best first, where there was one."""
    remembered: bool = False
    """Taken from the memory as it is: the model was not asked, and scores and confidence say nothing."""
    match_given: bool = False
    """The model was given the best near match, as it was trained to be (`data.fuzzy`)."""
    flags: tuple[str, ...] | None = None
    """What somebody should look at (`regard.text.flags`), where that was asked for."""

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. What was not asked for is left out."""
        plain: dict[str, Any] = {
            "source": self.source,
            "text": self.text,
            "score": self.score,
            "ranking": self.ranking,
            "finished": self.finished,
            "confidence": self.confidence,
            "pieces": self.pieces,
            "unknown": self.unknown,
        }
        if len(self.alternatives) > 1:
            plain["alternatives"] = [asdict(each) for each in self.alternatives]
        if self.alignment is not None:
            plain["alignment"] = [list(link) for link in self.alignment]
        if self.terms is not None:
            plain["terms"] = [asdict(each) for each in self.terms]
        if self.matches is not None:
            plain["matches"] = [each.to_dict() for each in self.matches]
            plain["remembered"] = self.remembered
            plain["match_given"] = self.match_given
        if self.flags is not None:
            plain["flags"] = [*self.flags]
        return plain
