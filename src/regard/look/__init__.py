"""Looking into models: what they attend to, what single heads are worth, and pictures of it.

>>> from regard import look
>>> classifier = regard.load("runs/sentiment", regard.Classifier)
>>> worth = look.rank_heads(classifier, look.measures.accuracy(classifier, ["A dull film."], ["negative"]))
>>> smaller = look.prune_predictor(classifier, [worth[-1].head])  # without the one that is missed least
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.look import measures as measures
    from regard.look.explorer.explorer import Explorer as Explorer
    from regard.look.heads import HeadWorth as HeadWorth
    from regard.look.heads import rank_heads as rank_heads
    from regard.look.heads import scaled_heads as scaled_heads
    from regard.look.pruning import prune as prune
    from regard.look.pruning import prune_predictor as prune_predictor
    from regard.look.texts import TracedText as TracedText
    from regard.look.texts import trace_generation as trace_generation
    from regard.look.texts import trace_reading as trace_reading
    from regard.look.texts import trace_translation as trace_translation
    from regard.look.tracing import Trace as Trace
    from regard.look.tracing import trace as trace
    from regard.look.words import merge_words as merge_words
    from regard.look.words import rollout as rollout
    from regard.look.words import trace_rollout as trace_rollout

_HOMES = {
    "Explorer": "explorer.explorer",
    "HeadWorth": "heads",
    "Trace": "tracing",
    "TracedText": "texts",
    "measures": "measures",
    "merge_words": "words",
    "prune": "pruning",
    "prune_predictor": "pruning",
    "rank_heads": "heads",
    "rollout": "words",
    "scaled_heads": "heads",
    "trace": "tracing",
    "trace_generation": "texts",
    "trace_reading": "texts",
    "trace_rollout": "words",
    "trace_translation": "texts",
}
"""Pictures of curves and formulas need no torch, so nothing is imported before it is used."""

__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # to whom every name would exist

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'regard.look' has no attribute {name!r}")
        module = import_module(f"regard.look.{_HOMES[name]}")
        return module if name == _HOMES[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
