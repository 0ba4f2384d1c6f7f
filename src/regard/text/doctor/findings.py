"""What the doctor found: findings with their worst examples, and the verdict."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]
"""info: worth knowing. warning: the model will be worse for it. error: training makes no sense yet."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Example:
    origin: str
    """File and line; of both sides, where they stand in two files."""
    source: str
    target: str | None
    """The other text, where there are two."""
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    severity: Severity
    split: str
    count: int
    total: int
    """What `count` is a part of: pairs, lines or tokens."""
    text: str
    remedy: str
    examples: tuple[Example, ...] = ()
    """The worst first."""

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class SplitCounts:
    pairs: int
    """Those that could be read."""
    broken: int
    source_words: int
    target_words: int
    source_tokens: int | None = None
    """Where a tokenizer was given."""
    target_tokens: int | None = None

    def cells(self) -> dict[str, str]:
        """For a table: what each number is called, and the number."""
        numbers = {
            "pairs": self.pairs,
            "broken": self.broken,
            "source words": self.source_words,
            "target words": self.target_words,
        }
        found = {name: f"{number:,}" for name, number in numbers.items()}
        if self.source_tokens is not None and self.target_tokens is not None:
            source = self.source_tokens / max(self.source_words, 1)
            target = self.target_tokens / max(self.target_words, 1)
            found["tokens a word"] = f"{source:.2f} | {target:.2f}"
        return found


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Of a split that is no parallel text."""

    called: str
    """What its records are: texts, sentences, lines."""
    records: int
    """Those that could be read."""
    looked: int
    """Those of them that were looked at."""
    broken: int
    words: int
    """Of those that were looked at."""
    classes: int | None = None

    def cells(self) -> dict[str, str]:
        numbers = {self.called: self.records}
        if self.looked < self.records:
            numbers["looked at"] = self.looked
        numbers |= {"broken": self.broken, "words": self.words}
        if self.classes is not None:
            numbers["classes"] = self.classes
        return {name: f"{number:,}" for name, number in numbers.items()}


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]
    """Errors first, then warnings."""
    splits: Mapping[str, SplitCounts | SampleCounts]
    task: str = ""
    """What the text is for, where somebody had to find out."""
    notes: tuple[str, ...] = ()
    """What else is to be known of a training on it."""

    @property
    def ok(self) -> bool:
        """Whether training makes sense: there is no error."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        for severity in ("error", "warning"):
            names = [finding.name for finding in self.findings if finding.severity == severity]
            if names:
                bad = severity == "error"
                start = "do not train on this yet" if bad else "training makes sense, but look at"
                return f"{start}: {', '.join(dict.fromkeys(names))}"
        return "fit for training"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "splits": {name: asdict(counts) for name, counts in self.splits.items()},
            **({"task": self.task} if self.task else {}),
            **({"notes": [*self.notes]} if self.notes else {}),
            "findings": [{**asdict(finding), "share": finding.share} for finding in self.findings],
        }
