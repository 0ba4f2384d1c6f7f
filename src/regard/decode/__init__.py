"""From a model's scores to text: greedy search, sampling and beams, written once for every model."""

from regard.decode.config import DecodeConfig, Hypothesis
from regard.decode.sample import Step
from regard.decode.search import decode, steps
from regard.decode.sliding import Sliding
from regard.decode.stepper import Stepper

__all__ = ["DecodeConfig", "Hypothesis", "Sliding", "Step", "Stepper", "decode", "steps"]
