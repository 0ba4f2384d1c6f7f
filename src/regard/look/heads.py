"""What single heads are worth: scale them, rank them.

    output = [g_1 head_1 ; ... ; g_H head_H] W_O        g = 0 takes a head out        Michel et al. 2019

A head is what it adds to the residual stream; scaling acts before the output matrix, so it is the same for
every kernel, in steps and in training. `regard.look.prune` makes the smaller model that gives what g = 0
gives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.look.parts import Head, Looked, Parts, each_head
from regard.nn.multihead import CrossAttention, SelfAttention

Metric = Callable[[], float]
"""How good the model is as it stands: more is better."""


class HeadWorth(NamedTuple):
    head: Head
    lost: float
    """The metric of the whole model minus that without the head."""


@contextmanager
def scaled_heads(looked: Looked, factors: Mapping[Head, float]) -> Iterator[None]:
    """Multiply what these heads give, (place, layer, head) by a factor each: 0 takes a head out. Steps that
    were captured as CUDA graphs before do not change."""
    check_heads(looked, factors)
    attentions = Parts.of(looked).attentions
    with ExitStack() as until:
        for place, layer in sorted({(place, layer) for place, layer, _ in factors}):
            attention = cast(SelfAttention | CrossAttention, attentions[place][layer])
            own = [factors.get((place, layer, head), 1.0) for head in range(attention.heads)]
            until.callback(
                attention.output.register_forward_pre_hook(_scaling(own, attention.d_value)).remove
            )
        yield


def _scaling(factors: list[float], d_value: int) -> Callable[[nn.Module, tuple[Tensor]], Tensor]:
    wide = torch.tensor(factors, dtype=torch.float64).repeat_interleave(d_value)

    def scale(part: nn.Module, args: tuple[Tensor]) -> Tensor:
        return args[0] * wide.to(args[0])

    return scale


def rank_heads(
    looked: Looked,
    metric: Metric,
    *,
    heads: Iterable[Head] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[HeadWorth]:
    """What the metric loses without each head, one at a time, and most first; of all heads, unless some are
    named. `progress` is called with how many more are done."""
    wanted = each_head(looked) if heads is None else [*heads]
    check_heads(looked, wanted)
    whole = metric()
    found = []
    for head in wanted:
        with scaled_heads(looked, {head: 0.0}):
            found.append(HeadWorth(head, whole - metric()))
        if progress is not None:
            progress(1)
    return sorted(found, key=lambda each: -each.lost)


def check_heads(looked: Looked, heads: Iterable[Head]) -> None:
    known = {*each_head(looked)}
    for head in heads:
        if head not in known:
            places = ", ".join(dict.fromkeys(place for place, _, _ in sorted(known))) or "none"
            raise ValueError(
                f"{head!r} is no head of this model: name them as (place, layer, head), both numbers from 0; "
                f"its places are: {places}"
            )
