"""From a model's scores to text: greedy search, sampling and beams, written once for every model.

Names are loaded when they are first used: `regard.decode.config` needs no torch, and the command line reads
its options from there.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.decode.config import DecodeConfig, Hypothesis
    from regard.decode.sample import Step
    from regard.decode.search import decode, steps
    from regard.decode.sliding import Sliding
    from regard.decode.stepper import Stepper

_HOMES = {
    "DecodeConfig": "config",
    "Hypothesis": "config",
    "Sliding": "sliding",
    "Step": "sample",
    "Stepper": "stepper",
    "decode": "search",
    "steps": "search",
}

__all__ = ["DecodeConfig", "Hypothesis", "Sliding", "Step", "Stepper", "decode", "steps"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"regard.decode.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'regard.decode' has no attribute {name!r}")
