"""All trainable weights of a model as one long vector, and all gradients as another.

The model's parameters become views of the vectors, so nothing else changes. What a step does to every weight
(clipping, the optimizer, averaging, adding up over ranks, zeroing) is then one operation on one tensor,
however many parameters there are.

    values     | matrices, which decay               | embeddings, biases, norms, which do not |
    gradients  | the same places                                                               | totals |

Where some learn faster than others, each half is in order of that: what is updated alike lies side by side.
What another optimizer takes (train/muon.py) comes before everything else.
The gradients have room for a few more numbers at the end: sums that have to travel with them between ranks.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNMENT = 64
"""Parameters start at multiples of this many elements: kernels like it."""


@dataclass(frozen=True, slots=True)
class Slot:
    start: int
    shape: torch.Size

    @property
    def stop(self) -> int:
        return self.start + self.shape.numel()


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the vector whose weights are updated alike."""

    span: slice
    """Where it lies."""
    first: bool
    """Whether another optimizer takes it."""
    decays: bool
    factor: float
    """On the learning rate."""


class FlatParameters:
    def __init__(
        self,
        model: nn.Module,
        totals: int = 0,
        factor: Callable[[str], float] | None = None,
        first: Collection[str] = (),
        only: Collection[str] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Takes the parameters over: move the model to its device, and freeze what is not to be trained,
        before. `factor` gives each parameter, by name, its factor on the learning rate; those named by
        `first` come before the others, in parts of their own. Of some models, `only` these are taken."""
        every = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        if not every:
            raise ValueError(f"{type(model).__name__} has no parameter that can be trained")
        own = every if only is None else {name: each for name, each in every.items() if name in only}
        self._model = model
        apart = undecayed(model)
        kinds = {name: (name not in first, name in apart, rate_factor(name, factor)) for name in own}
        ordered = sorted(own, key=kinds.__getitem__)  # stable
        self.places: dict[str, Slot] = {}
        stops: dict[tuple[bool, bool, float], int] = {}
        end = 0
        for name in ordered:
            self.places[name] = Slot(end, own[name].shape)
            end += -(-own[name].numel() // ALIGNMENT) * ALIGNMENT
            stops[kinds[name]] = end
        like = next(iter((own or every).values()))
        device = like.device if device is None else device
        # half precision is the products' business
        kind = torch.promote_types(like.dtype, torch.float32)
        self.values = torch.zeros(end, dtype=kind, device=device)
        self._buffer = torch.zeros(end + totals, dtype=kind, device=device)
        self.gradients = self._buffer[:end]
        self.totals = self._buffer[end:]
        for name, value in self.named(self.values).items():
            value.copy_(own[name].detach())
            own[name].data = value
        for name, gradient in self.named(self.gradients).items():
            own[name].grad = gradient
        self.parts: list[Part] = []
        start = 0
        for (later, plain, share), stop in stops.items():
            if stop > start:
                span = slice(start, stop)
                self.parts.append(Part(span, first=not later, decays=not plain, factor=share))
            start = stop

    @property
    def travelling(self) -> Float[Tensor, "all"]:
        """Gradients and totals: what ranks add up."""
        return self._buffer

    def named(self, vector: Float[Tensor, "all"]) -> dict[str, Tensor]:
        """Such a vector by the names of the parameters; views."""
        return {
            name: vector[place.start : place.stop].view(place.shape) for name, place in self.places.items()
        }

    @property
    def fixed(self) -> dict[str, Tensor]:
        """What the model has beside the trained weights: frozen parameters and persistent buffers."""
        saved = self._model.state_dict(keep_vars=True).keys()
        frozen = {name: each for name, each in self._model.named_parameters() if name not in self.places}
        return frozen | {name: each for name, each in self._model.named_buffers() if name in saved}

    def whole(self, vector: Float[Tensor, "all"]) -> dict[str, Tensor]:
        """All that makes up the model, the trained weights from such a vector: first the parameters, in the
        model's order and a tied one once, then the persistent buffers."""
        found = self.fixed | self.named(vector)
        names = [name for name, _ in self._model.named_parameters()]
        return {name: found[name] for name in dict.fromkeys([*names, *found])}

    def zero(self) -> None:
        self._buffer.zero_()


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """All that makes up a model: parameters, a tied one once, and persistent buffers."""
    saved = model.state_dict(keep_vars=True).keys()
    found: dict[str, Tensor] = {name: each.detach() for name, each in model.named_parameters()}
    return found | {name: each for name, each in model.named_buffers() if name in saved}


def rate_factor(name: str, factor: Callable[[str], float] | None) -> float:
    value = 1.0 if factor is None else float(factor(name))
    if value == 0:
        raise ValueError(
            f"{name}: a factor of 0 on its learning rate would compute gradients for nothing; freeze it "
            "instead, with requires_grad_(False)"
        )
    if not 0 < value < math.inf:
        raise ValueError(f"{name}: the factor {value} on its learning rate must be above 0, and finite")
    return value


def undecayed(model: nn.Module) -> set[str]:
    """Pulling these towards 0 does not make a function simpler: biases and norms, and embeddings, whose rare
    rows would fade away between the steps that see them."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim < 2 or id(parameter) in embeddings
    }
