"""How good translations are, and whether one system is better than another.

    bleu    n-gram precision x brevity, over the corpus           Papineni et al. 2002; Post 2018
    chrf    F-score of character n-grams; chrf++ of words too     Popovic 2015, 2017
    ter     edits per word of the reference: lower is better      Snover et al. 2006
    exact   share of translations equal to a reference

All from 0 to 100 (ter may pass 100), computed by sacrebleu, whose signature says exactly how. Two systems are
compared by the paired bootstrap (Koehn 2004): the same sentences are drawn again and again for both.
tests/tasks/test_evaluate.py holds its p-values equal to sacrebleu's own.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "exact"]
METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "ter", "exact")
References = Sequence[str] | Sequence[Sequence[str]]
"""One reference for each translation, or several such sets."""

_LOWER_IS_BETTER = ("ter",)


@dataclass(frozen=True, slots=True)
class Score:
    name: str
    """As sacrebleu writes it: BLEU, chrF2."""
    value: float
    signature: str
    """How it was computed, to be quoted with the value."""
    details: str = ""
    """For BLEU: the n-gram precisions, the brevity penalty and the lengths."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric on two systems."""

    name: str
    system: float
    baseline: float
    difference: float
    """System minus baseline."""
    low: float
    """95 % of the samples have a difference from `low` to `high`."""
    high: float
    p_value: float
    """How likely a difference so large is by the choice of sentences alone; 1 if there is none."""
    lower_is_better: bool
    signature: str

    @property
    def better(self) -> bool:
        return self.difference < 0 if self.lower_is_better else self.difference > 0


@dataclass(frozen=True, slots=True)
class Change:
    """A sentence that the two systems translate differently."""

    line: int
    """Counted from 1."""
    gain: float
    """chrF of the system's sentence minus that of the baseline's."""
    reference: str
    """The first, where there are several."""
    system: str
    baseline: str


@dataclass(frozen=True, slots=True)
class Comparison:
    differences: dict[str, Difference]
    changed: int
    """How many sentences differ."""
    sentences: int
    samples: int
    seed: int
    gains: tuple[Change, ...]
    """Where the system is better than the baseline, most first."""
    losses: tuple[Change, ...]
    """Where it is worse, most first."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[MetricName] = METRICS,
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    trg_lang: str = "",
) -> dict[str, Score]:
    """`lowercase` makes bleu, chrf and exact blind to case (ter is, as sacrebleu defines it). `tokenize` is
    sacrebleu's tokenizer for BLEU (13a, zh, intl, char, ...); unless given, the one for `trg_lang`."""
    sets = _checked(hypotheses, references)
    found: dict[str, Score] = {}
    for name in metrics:
        metric = _metric(name, lowercase, tokenize, trg_lang)
        if metric is None:
            share = float(100 * np.mean(_exact(hypotheses, sets, lowercase)))
            found[name] = Score("exact", share, _exact_signature(sets, lowercase))
            continue
        result = metric.corpus_score(hypotheses, sets)
        details = getattr(result, "verbose", "") if name == "bleu" else ""
        found[name] = Score(result.name, float(result.score), str(metric.get_signature()), details)
    return found


def compare(
    system: Sequence[str],
    baseline: Sequence[str],
    references: References,
    metrics: Sequence[MetricName] = ("bleu", "chrf", "ter"),
    *,
    samples: int = 1000,
    seed: int = 12345,
    examples: int = 5,
    lowercase: bool = False,
    tokenize: str | None = None,
    trg_lang: str = "",
) -> Comparison:
    """Whether the system is better than the baseline, or only luckier in these sentences; and the sentences
    that changed most, up to `examples` each way."""
    if samples < 40:
        raise ValueError(f"samples={samples} are too few for a 95 % interval: draw 40 or more, 1000 is usual")
    sets = _checked(system, references)
    _checked(baseline, references)
    counts = _draws(len(system), samples, seed)
    differences: dict[str, Difference] = {}
    for name in metrics:
        metric = _metric(name, lowercase, tokenize, trg_lang)
        if metric is None:
            ours, theirs = (_exact(each, sets, lowercase) for each in (system, baseline))
            shares = (counts @ (ours - theirs)) * 100 / len(system)
            values = (float(100 * ours.mean()), float(100 * theirs.mean()))
            signature = _exact_signature(sets, lowercase)
            differences[name] = _difference("exact", values, shares, False, signature)
            continue
        both = [metric._extract_corpus_statistics(each, sets) for each in (system, baseline)]
        whole = [metric._aggregate_and_compute(statistics) for statistics in both]
        sampled = [
            np.array([metric._compute_score_from_stats(row).score for row in counts @ np.array(statistics)])
            for statistics in both
        ]
        values, signature = (float(whole[0].score), float(whole[1].score)), str(metric.get_signature())
        gaps, lower = sampled[0] - sampled[1], name in _LOWER_IS_BETTER
        differences[name] = _difference(whole[0].name, values, gaps, lower, signature)
    changes = _changes(system, baseline, sets)
    return Comparison(
        differences=differences,
        changed=len(changes),
        sentences=len(system),
        samples=samples,
        seed=seed,
        gains=tuple(sorted((c for c in changes if c.gain > 0), key=lambda c: -c.gain)[:examples]),
        losses=tuple(sorted((c for c in changes if c.gain < 0), key=lambda c: c.gain)[:examples]),
    )


def _difference(
    name: str, values: tuple[float, float], sampled: np.ndarray, lower_is_better: bool, signature: str
) -> Difference:
    observed = values[0] - values[1]
    sizes = np.abs(sampled)
    as_large = int((sizes - sizes.mean() > abs(observed)).sum())
    ordered = np.sort(sampled)
    outside = len(ordered) // 40  # 2.5 % at either end
    return Difference(
        name=name,
        system=values[0],
        baseline=values[1],
        difference=observed,
        low=float(ordered[outside]),
        high=float(ordered[len(ordered) - outside - 1]),
        p_value=(as_large + 1) / (len(sampled) + 1) if observed else 1.0,
        lower_is_better=lower_is_better,
        signature=signature,
    )


def _draws(sentences: int, samples: int, seed: int) -> np.ndarray:
    """How often each sample holds each sentence: [samples, sentences]. The draws are sacrebleu's own."""
    chance = np.random.default_rng(seed)
    counts = np.empty((samples, sentences), dtype=np.float32)
    for row in counts:
        row[:] = np.bincount(chance.choice(sentences, size=sentences, replace=True), minlength=sentences)
    return counts


def _changes(system: Sequence[str], baseline: Sequence[str], sets: list[list[str]]) -> list[Change]:
    metric = _metric("chrf", False, None, "")
    changes = []
    for i, (ours, theirs) in enumerate(zip(system, baseline, strict=True)):
        if ours != theirs:
            own = [references[i] for references in sets]
            gain = metric.sentence_score(ours, own).score - metric.sentence_score(theirs, own).score
            changes.append(Change(i + 1, float(gain), own[0], ours, theirs))
    return changes


def _metric(name: MetricName, lowercase: bool, tokenize: str | None, trg_lang: str) -> Any:
    """sacrebleu's, or None for the share of exact matches, which it has not."""
    # These take a moment, which --help should not.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name not in get_args(MetricName):
        raise ValueError(f"metric {name!r} is not known: choose from {', '.join(get_args(MetricName))}")
    match name:
        case "bleu":
            known = sorted(BLEU.TOKENIZERS)
            if tokenize is not None and tokenize not in known:
                raise ValueError(f"tokenize={tokenize!r} is not known: choose one of {', '.join(known)}")
            return BLEU(lowercase=lowercase, tokenize=tokenize, trg_lang=trg_lang)
        case "chrf" | "chrf++":
            return CHRF(lowercase=lowercase, word_order=2 if name == "chrf++" else 0)
        case "ter":
            return TER()
        case "exact":
            return None


def _exact(hypotheses: Sequence[str], sets: list[list[str]], lowercase: bool) -> np.ndarray:
    def plain(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    rows = zip(*sets, strict=True)
    return np.array([float(plain(h) in map(plain, row)) for h, row in zip(hypotheses, rows, strict=True)])


def _exact_signature(sets: list[list[str]], lowercase: bool) -> str:
    return f"nrefs:{len(sets)}|case:{'lc' if lowercase else 'mixed'}"


def _checked(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The reference sets, each as long as the translations."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("one string was given, but many are taken: pass lists of lines")
    if not hypotheses:
        raise ValueError("no translations to score: check what was read")
    if not references:
        raise ValueError("no references to score against: give one for each translation")
    flat = [each for each in references if isinstance(each, str)]
    sets = [flat] if flat else [list(each) for each in references]
    for number, each in enumerate(sets, start=1):
        if len(each) != len(hypotheses):
            which = f"reference set {number} has" if len(sets) > 1 else "the references have"
            raise ValueError(
                f"{which} {len(each)} lines, but there are {len(hypotheses)} translations: "
                "line i of one belongs to line i of the other"
            )
    return sets


def render_scores(scores: dict[str, Score], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("score", justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    for each in scores.values():
        table.add_row(Text(each.name), f"{each.value:.2f}", Text(each.signature))
    console.print(table)


def render_comparison(comparison: Comparison, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("metric", "system", "baseline", "difference", "95 % interval", "p"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for each in comparison.differences.values():
        style = "" if each.p_value >= 0.05 else "green" if each.better else "red"
        table.add_row(
            Text(each.name + (" (lower is better)" if each.lower_is_better else "")),
            f"{each.system:.2f}",
            f"{each.baseline:.2f}",
            Text(f"{each.difference:+.2f}", style=style),
            f"{each.low:+.2f} to {each.high:+.2f}",
            f"{each.p_value:.4f}",
        )
    console.print(table)
    console.print(
        f"{comparison.changed} of {comparison.sentences} sentences differ; paired bootstrap, "
        f"{comparison.samples} samples, seed {comparison.seed}",
        highlight=False,
    )
    for title, changes in (("better than the baseline", comparison.gains), ("worse", comparison.losses)):
        if changes:
            console.print(Text(f"\n{title}", style="bold"))
        for change in changes:
            console.print(Text(f"line {change.line}, chrF {change.gain:+.1f}"))
            for label in ("reference", "baseline", "system"):
                console.print(Text(f"  {label:<10}{getattr(change, label)}"))
