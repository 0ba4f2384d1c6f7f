"""From a model's scores to text: greedy search, sampling and beams, written once for every model."""

from regard.decode.config import DecodeConfig, Hypothesis
from regard.decode.search import decode
from regard.decode.stepper import Stepper

__all__ = ["DecodeConfig", "Hypothesis", "Stepper", "decode"]
