"""What the doctor found in parallel text: findings with their worst examples, and the verdict."""

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
    target: str
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


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]
    """Errors first, then warnings."""
    splits: Mapping[str, SplitCounts]

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
            "findings": [{**asdict(finding), "share": finding.share} for finding in self.findings],
        }
