"""What the runs say together: mean and spread of each variant, and how sure one can be that it is worse."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.lab.stats import LEVEL, holm, paired_bootstrap, paired_t
from regard.lab.work import Run


@dataclass(frozen=True, slots=True)
class Line:
    """A variant."""

    variant: str
    values: tuple[float, ...]
    """Of the metric, by seed."""
    mean: float
    deviation: float
    """0 for one seed."""
    behind: float
    """By how much it is worse than the best, 0 or more."""
    p_seeds: float
    """That this is chance: over seeds; nan where there are too few."""
    p_examples: float
    """The same over examples; nan where the task has none."""
    significant: bool
    """Worse than the best beyond doubt: over seeds and, where the task has them, over examples, which must
    say so too; after Holm's correction."""
    parameters: int
    flops: float
    seconds: float
    tokens_per_second: float
    memory: float
    leads: bool
    """It is the best."""

    def to_dict(self) -> dict[str, Any]:
        return {
            name: None if isinstance(value, float) and np.isnan(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class Summary:
    metric: str
    better: str
    example: str
    """What was compared example by example; empty: nothing."""
    seeds: int
    lines: tuple[Line, ...]
    """In the order of the variants."""

    @property
    def best(self) -> Line:
        return next(line for line in self.lines if line.leads)


def summarise(runs: Sequence[Run]) -> Summary:
    names = [*dict.fromkeys(run.variant for run in runs)]
    own = {
        name: sorted((run for run in runs if run.variant == name), key=lambda run: run.seed) for name in names
    }
    metrics = {(run.metric, run.better) for run in runs}
    if len(metrics) != 1:
        listed = ", ".join(sorted(metric for metric, _ in metrics))
        raise ValueError(f"the variants are judged by different figures ({listed}): set valid.metric")
    [(metric, better)] = metrics
    sign = 1.0 if better == "high" else -1.0
    means = {name: statistics.fmean(run.value for run in each) for name, each in own.items()}
    best = max(names, key=lambda name: sign * means[name] if math.isfinite(means[name]) else -math.inf)
    by_seeds = [_over_seeds(own[name], own[best]) if name != best else float("nan") for name in names]
    by_examples = [_over_examples(own[name], own[best]) if name != best else float("nan") for name in names]
    corrected = [holm(by_seeds), holm(by_examples)]
    examples = any(run.examples for run in runs)
    lines = []
    for place, name in enumerate(names):
        values = [run.value for run in own[name]]
        seeds, several = (each[place] for each in corrected)
        agreed = not examples or (several < LEVEL and _is_behind(own[name], own[best]))
        lines.append(
            Line(
                variant=name,
                values=tuple(values),
                mean=means[name],
                deviation=float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
                behind=_gap(sign * (means[best] - means[name])) if name != best else 0.0,
                p_seeds=by_seeds[place],
                p_examples=by_examples[place],
                significant=name != best and bool(seeds < LEVEL) and agreed,
                parameters=own[name][0].parameters,
                flops=statistics.fmean(run.flops for run in own[name]),
                seconds=statistics.fmean(run.seconds for run in own[name]),
                tokens_per_second=statistics.fmean(run.tokens_per_second for run in own[name]),
                memory=max(run.memory for run in own[name]),
                leads=name == best,
            )
        )
    example = next((run.example for run in runs if run.examples), "")
    return Summary(metric, better, example, max(len(each) for each in own.values()), tuple(lines))


def _gap(value: float) -> float:
    """0 or more; nan stays nan."""
    return value if math.isnan(value) else max(0.0, value)


def _is_behind(one: Sequence[Run], other: Sequence[Run]) -> bool:
    """Whether the examples say so too: their figure may be another than the metric."""
    means = [np.mean([np.mean(run.examples) for run in each]) for each in (one, other)]
    return bool(means[0] < means[1])


def _over_seeds(one: Sequence[Run], other: Sequence[Run]) -> float:
    both = sorted({run.seed for run in one} & {run.seed for run in other})
    first, second = ({run.seed: run.value for run in each} for each in (one, other))
    return paired_t([first[seed] for seed in both], [second[seed] for seed in both])


def _over_examples(one: Sequence[Run], other: Sequence[Run]) -> float:
    both = sorted({run.seed for run in one} & {run.seed for run in other})
    rows = [[run.examples for run in each if run.seed in both] for each in (one, other)]
    if not rows[0] or len({len(row) for each in rows for row in each}) != 1 or not rows[0][0]:
        return float("nan")
    return paired_bootstrap(np.array(rows[0]), np.array(rows[1]))
