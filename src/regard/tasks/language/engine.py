"""What takes the steps of a text: the model itself, its packed or 8-bit copy, or captured CUDA graphs."""

from functools import cached_property

import torch

from regard.decode.captured import CapturedStepper
from regard.models.decoder import Decoder
from regard.nn.stacks import Stack
from regard.tasks.base.faster import Faster, Precision
from regard.tasks.language.drafts import Steps


class StepEngine:
    def __init__(self, model: Decoder, precision: Precision) -> None:
        self.model, self.precision = model, precision
        self._faster = Faster(model, precision)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def autocast(self) -> torch.autocast:
        by_hand = self.precision == "bfloat16" and not self._captures
        return torch.autocast(self.device.type, torch.bfloat16, enabled=by_hand)

    def stepper(self) -> Steps:
        """The model itself, or whatever takes the same steps faster. A model that has hooks takes them
        itself: somebody listens, or changes things on the way."""
        return self._captured if self._captures else self._faster.current()

    @property
    def _captures(self) -> bool:
        body = self.model.body
        if self.device.type != "cuda" or not isinstance(body, Stack) or self._faster.hooked:
            return False
        alike = len({layer.attention.kv_heads for layer in body.each}) == 1  # none pruned
        return alike and body.each[0].attention.score is None

    @cached_property
    def _captured(self) -> CapturedStepper:
        half = self.precision == "bfloat16"
        return CapturedStepper(self.model, precision="bfloat16" if half else "float32")
