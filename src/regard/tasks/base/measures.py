"""Metrics of plugins: figures of one's own, to validate and to choose a model by.

    regard.register(regard.Metric(task="classify", figure="kappa", function=cohen_kappa_score))
    regard train recipe.toml valid.metric=kappa

A function is given the task's results and what was wanted, as lists of equal length: translations and
references; labels (or numbers, or lists of labels) of texts; tags of sentences; vectors of both sides.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from regard.config import ConfigError, suggestion
from regard.plugins import Registry, load_installed

Better = Literal["high", "low"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A figure of one's own, measured at every validation.

    >>> def longest_word(found, wanted):
    ...     return float(max(len(word) for text in found for word in text.split()))
    >>> metric = regard.Metric(task="translate", figure="longest_word", function=longest_word, better="low")
    >>> regard.register(metric)
    >>> outcome = regard.fit("recipe.toml", "valid.metric=longest_word", out="runs/longest")
    >>> "longest_word" in outcome.best
    True
    """

    task: str
    """Whose recipes may name it: translate, classify, tag or embed."""
    figure: str
    """What valid.metric says."""
    function: Callable[[Any, Any], float]
    """function(predicted, wanted)"""
    better: Better = "high"

    @property
    def name(self) -> str:
        return f"{self.task}.{self.figure}"


METRICS: Registry[Metric] = Registry(key="valid.metric", type=Metric)


def check_metric(task: str, figure: str, own: Collection[str]) -> None:
    """For a configuration's `__post_init__`: one of the task's own, or of a plugin's."""
    if clash := next((name for name in own if f"{task}.{name}" in METRICS), None):
        raise ConfigError(
            f"the metric {clash!r} of {task!r} is regard's own: a plugin's needs another name for its figure"
        )
    if figure in own:
        return
    if f"{task}.{figure}" not in METRICS:
        load_installed()
    if f"{task}.{figure}" not in METRICS:
        known = [*own, *_figures(task)]
        raise ConfigError(f"metric={figure!r} is none of {', '.join(known)}{suggestion(figure, known)}")


def better(task: str, figure: str, low: Collection[str]) -> Better:
    """Which way a figure is better; `low` are those of the task's own that should be low."""
    name = f"{task}.{figure}"
    return METRICS[name].better if name in METRICS else "low" if figure in low else "high"


def plugin_figures(task: str, predicted: Any, wanted: Any) -> dict[str, float]:
    return {
        figure: float(METRICS[f"{task}.{figure}"].function(predicted, wanted)) for figure in _figures(task)
    }


def _figures(task: str) -> list[str]:
    return [METRICS[name].figure for name in METRICS if METRICS[name].task == task]
