"""All trainable weights of a model as one long vector, and all gradients as another.

The model's parameters become views of the vectors, so nothing else changes. What a step does to every weight
(clipping, the optimizer, averaging, adding up over ranks, zeroing) is then one operation on one tensor,
however many parameters there are.

    values     | matrices, which decay               | embeddings, biases, norms, which do not |
    gradients  | the same places                                                               | totals |

The gradients have room for a few more numbers at the end: sums that have to travel with them between ranks.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNMENT = 64
"""Parameters start at multiples of this many elements: kernels like it."""


@dataclass(frozen=True, slots=True)
class Place:
    start: int
    shape: torch.Size

    @property
    def stop(self) -> int:
        return self.start + self.shape.numel()


class FlatParameters:
    def __init__(self, model: nn.Module, totals: int = 0) -> None:
        """Takes the parameters over: move the model to its device before."""
        own = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        if not own:
            raise ValueError(f"{type(model).__name__} has no parameter that can be trained")
        apart = _undecayed(model)
        ordered = sorted(own, key=lambda name: name in apart)  # stable: matrices first
        self.places: dict[str, Place] = {}
        end = decayed = 0
        for name in ordered:
            self.places[name] = Place(end, own[name].shape)
            end += -(-own[name].numel() // ALIGNMENT) * ALIGNMENT
            if name not in apart:
                decayed = end
        like = own[ordered[0]]
        self.values = torch.zeros(end, dtype=torch.float32, device=like.device)
        self._buffer = torch.zeros(end + totals, dtype=torch.float32, device=like.device)
        self.gradients = self._buffer[:end]
        self.totals = self._buffer[end:]
        for name, value in self.named(self.values).items():
            value.copy_(own[name].detach())
            own[name].data = value
        for name, gradient in self.named(self.gradients).items():
            own[name].grad = gradient
        self.decayed = _part(self.values[:decayed], self.gradients[:decayed])
        self.plain = _part(self.values[decayed:], self.gradients[decayed:])

    @property
    def travelling(self) -> Float[Tensor, "all"]:
        """Gradients and totals: what ranks add up."""
        return self._buffer

    def named(self, vector: Float[Tensor, "all"]) -> dict[str, Tensor]:
        """Such a vector by the names of the parameters; views."""
        return {
            name: vector[place.start : place.stop].view(place.shape) for name, place in self.places.items()
        }

    def zero(self) -> None:
        self._buffer.zero_()


def _part(values: Tensor, gradients: Tensor) -> nn.Parameter:
    part = nn.Parameter(values)
    part.grad = gradients
    return part


def _undecayed(model: nn.Module) -> set[str]:
    """Pulling these towards 0 does not make a function simpler: biases and norms, and embeddings, whose rare
    rows would fade away between the steps that see them."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim < 2 or id(parameter) in embeddings
    }
