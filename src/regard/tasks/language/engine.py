"""What takes the steps of a text: the model itself, its packed or 8-bit copy, C for models of Llama's make in
8 or 4 bits, or captured CUDA graphs."""

import threading
from functools import cached_property

import torch

from regard.decode.captured import CapturedStepper
from regard.decode.causal import Bits, CausalStepper
from regard.models.decoder import Decoder
from regard.nn.stacks import Stack
from regard.tasks.base.faster import Faster, Precision
from regard.tasks.language.drafts import Steps

_MAKING = threading.Lock()
"""One copy is made at a time."""


class StepEngine:
    def __init__(self, model: Decoder, precision: Precision) -> None:
        self.model, self.precision = model, precision
        self._faster = Faster(model, precision)
        self._grouped: CausalStepper | None = None
        self._of: tuple[tuple[int, int], ...] = ()
        why = CausalStepper.why_not(model) if precision in ("int4", "int8") else None
        if precision == "int4" and why is not None:
            raise ValueError(
                f"precision='int4' is for models of Llama's make, and this one is none: {why}; choose int8"
            )
        self._groups = precision in ("int4", "int8") and why is None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def autocast(self) -> torch.autocast:
        by_hand = self.precision == "bfloat16" and not self._captures
        return torch.autocast(self.device.type, torch.bfloat16, enabled=by_hand)

    def stepper(self) -> Steps:
        """The model itself, or whatever takes the same steps faster. A model that has hooks takes them
        itself: somebody listens, or changes things on the way."""
        if self._groups and not self._faster.hooked:
            return self._in_groups()
        return self._captured if self._captures else self._faster.current()

    def _in_groups(self) -> CausalStepper:
        """Made anew when the weights have changed."""
        of = tuple((each.data_ptr(), each._version) for each in self.model.parameters())
        with _MAKING:
            if self._grouped is None or of != self._of:
                bits: Bits = "int4" if self.precision == "int4" else "int8"
                self._grouped, self._of = CausalStepper(self.model, bits), of
            return self._grouped

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
