"""What decoding sees of a model: `prefill`, `step` and `state.select`. Nothing else, whatever the model.

Decoders and translators of `regard.models` serve it as they are. Whether the model is in training or
evaluation mode is the caller's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.rules import NOTHING, Rules
from regard.layout import Layout
from regard.nn.state import State


class Stepper(Protocol):
    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: Any, /
    ) -> Float[Tensor, "rows vocab"]:
        """Sequence r goes to row r of a fresh state; the scores for what follows each."""

    def step(self, tokens: Int[Tensor, "rows"], state: Any, /) -> Float[Tensor, "rows vocab"]:
        """One new token in each row; the scores for what follows it."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One batch to decode, checked: what every method of search is given."""

    stepper: Stepper
    state: State
    prefixes: Sequence[Sequence[int]]
    maximums: Int[Tensor, "sources"]
    """Most tokens generated for each source; on the host, like all tensors here."""
    ends: Int[Tensor, "ends"]
    suppressed: Int[Tensor, "suppressed"]
    keys: Sequence[int]
    config: DecodeConfig

    @property
    def device(self) -> torch.device:
        return self.state.lengths.device

    def rules(self) -> Rules:
        return Rules(self.config, self.ends.to(self.device), self.suppressed.to(self.device))

    def prefill(self) -> Float[Tensor, "rows vocab"]:
        ids = torch.tensor([id for prefix in self.prefixes for id in prefix], device="cpu")
        layout = Layout.of([len(prefix) for prefix in self.prefixes])
        return self.stepper.prefill(ids.to(self.device), layout.to(self.device), self.state)

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        return self.stepper.step(tokens.to(self.device), self.state)

    def history(self) -> Int[Tensor, "rows time"]:
        """The forced prefixes, right-aligned, so that the next token of every row is the next column. Start
        tokens are left out: where the start is the end's token too, it has not come yet."""
        longest = max(len(prefix) for prefix in self.prefixes) - 1
        history = torch.full((len(self.prefixes), longest), NOTHING, device="cpu")
        for row, prefix in zip(history, self.prefixes, strict=True):
            row[longest + 1 - len(prefix) :] = torch.tensor(list(prefix[1:]), dtype=torch.int64, device="cpu")
        return history


def real(row: Int[Tensor, "time"]) -> tuple[int, ...]:
    """The tokens of one row of a history."""
    return tuple(row[row != NOTHING].tolist())


def to_host(
    values: Float[Tensor, "..."], ids: Int[Tensor, "..."]
) -> tuple[Float[Tensor, "..."], Int[Tensor, "..."]]:
    """Log-probabilities and ids, in one transfer; float64 holds both exactly."""
    values, numbers = torch.stack([values.double(), ids.double()]).cpu()
    if bool(values.isnan().any()):
        raise ValueError("the model gave scores that are no numbers (NaN): look at its weights and inputs")
    return values, numbers.long()
