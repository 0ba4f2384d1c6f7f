"""What decoding sees of a model: `prefill`, `step` and `state.select`. Nothing else, whatever the model.

Decoders and translators of `regard.models` serve it as they are. Whether the model is in training or
evaluation mode is the caller's business.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.config import DecodeConfig, Hypothesis
from regard.decode.rules import NOTHING, START, Rules
from regard.layout import Layout
from regard.nn.state import State


class Stepper(Protocol):
    def prefill(
        self, ids: Int[Tensor, "tokens"], layout: Layout, state: Any, /
    ) -> Float[Tensor, "rows vocab"]:
        """Sequence r goes to row r of a fresh state; the scores for what follows each."""

    def step(self, tokens: Int[Tensor, "rows"], state: Any, /) -> Float[Tensor, "rows vocab"]:
        """One new token in each row; the scores for what follows it."""


Search = Generator[Int[Tensor, "rows"], Float[Tensor, "rows vocab"], list[list[Hypothesis]]]
"""A search asks for steps and leaves them to somebody else: it gives the new token of each row, is sent the
scores for what follows, and returns what it found."""


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
    told: Callable[[int, list[Hypothesis]], None] | None = None
    """Hears of each source, by its number, as soon as it is done."""
    gone: set[int] = field(default_factory=set)
    """Sources for which nobody waits any more; may grow at any time. They are given up."""
    phrases: Sequence[Sequence[tuple[int, ...]]] = ()
    """For each source, what its hypotheses must hold; none for all, or a list for each."""
    inner: Int[Tensor, "inner"] = field(
        default_factory=lambda: torch.empty(0, dtype=torch.int64, device="cpu")
    )
    """Tokens that go on with a word: none comes right behind a phrase."""

    @property
    def device(self) -> torch.device:
        return self.state.lengths.device

    def rules(self) -> Rules:
        return Rules(self.config, self.ends.to(self.device), self.suppressed.to(self.device))

    def prefill(self) -> Float[Tensor, "rows vocab"]:
        ids = torch.tensor([id for prefix in self.prefixes for id in prefix], device="cpu")
        layout = Layout.of([len(prefix) for prefix in self.prefixes])
        return self.stepper.prefill(ids.to(self.device), layout.to(self.device), self.state)

    @property
    def early(self) -> bool:
        """Whether a step may begin before the host knows which sentences have ended: on a device that would
        only wait for it."""
        return bool(getattr(self.stepper, "early", False)) and self.device.type == "cuda"

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        return self.stepper.step(tokens.to(self.device), self.state)

    def history(self) -> Int[Tensor, "rows time"]:
        """The forced prefixes, right-aligned, so that the next token of every row is the next column. A first
        token that is an end has not come as one, and one that may not be generated is no text either."""
        longest = max(len(prefix) for prefix in self.prefixes)
        history = torch.full((len(self.prefixes), longest), NOTHING, device="cpu")
        special = {*self.ends.tolist(), *self.suppressed.tolist()}
        for row, (first, *rest) in zip(history, self.prefixes, strict=True):
            ids = [START if first in special else first, *rest]
            row[longest - len(ids) :] = torch.tensor(ids, device="cpu")
        return history


def real(row: Int[np.ndarray, "time"]) -> tuple[int, ...]:
    """The tokens of one row of a history, but for the first."""
    return tuple(row[row != NOTHING][1:].tolist())


def to_host(
    values: Float[Tensor, "..."], ids: Int[Tensor, "..."]
) -> tuple[Float[Tensor, "..."], Int[Tensor, "..."]]:
    """Log-probabilities and ids, in one transfer; float64 holds both exactly."""
    return _checked(_together(values, ids).cpu())


def on_the_way(
    values: Float[Tensor, "..."], ids: Int[Tensor, "..."], *, check: bool = True
) -> Callable[[], tuple[Float[Tensor, "..."], Int[Tensor, "..."]]]:
    """The same from a CUDA device, which gets on with what it is given next; call the result to wait. Without
    a `check`, values may be no numbers."""
    host = _together(values, ids).to("cpu", non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()

    def wait() -> tuple[Tensor, Tensor]:
        arrived.synchronize()
        return _checked(host) if check else (host[0], host[1].long())

    return wait


def _together(values: Float[Tensor, "..."], ids: Int[Tensor, "..."]) -> Float[Tensor, "2 ..."]:
    return torch.stack([values.double(), ids.double()])


def _checked(both: Float[Tensor, "2 ..."]) -> tuple[Float[Tensor, "..."], Int[Tensor, "..."]]:
    values, numbers = both
    check_numbers(values.numpy())
    return values, numbers.long()


def check_numbers(values: Float[np.ndarray, "..."]) -> None:
    """An error if a value is none."""
    if np.isnan(values).any():
        raise no_numbers()


def no_numbers() -> ValueError:
    return ValueError("the model gave scores that are no numbers (NaN): look at its weights and inputs")
