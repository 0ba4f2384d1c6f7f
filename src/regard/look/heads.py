"""What single heads are worth: scale them, rank them.

    output = [g_1 head_1 ; ... ; g_H head_H] W_O        g = 0 takes a head out        Michel et al. 2019

A head is what it adds to the residual stream; scaling acts before the output matrix, so it is the same for
every kernel, in steps and in training. `regard.look.pruning` makes the smaller model that gives what g = 0
gives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.look.parts import Head, Looked, Parts, each_head
from regard.nn.multihead import CrossAttention, SelfAttention

Metric = Callable[[], float]
"""How good the model is as it stands: more is better."""


class HeadWorth(NamedTuple):
    """A head, and what is lost without it.

    >>> worth = regard.look.HeadWorth(("encoder", 0, 1), lost=0.25)
    >>> worth.head, worth.lost
    (('encoder', 0, 1), 0.25)
    """

    head: Head
    lost: float
    """The metric of the whole model minus that without the head."""


@contextmanager
def scaled_heads(looked: Looked, factors: Mapping[Head, float]) -> Iterator[None]:
    """Multiply what these heads give, (place, layer, head) by a factor each: 0 takes a head out. Steps that
    were captured as CUDA graphs before do not change.

    >>> classifier = regard.load("runs/sentiment", regard.Classifier)
    >>> with regard.look.scaled_heads(classifier, {("encoder", 0, 0): 0.0}):
    ...     without = classifier.classify("A moving, funny film.")
    >>> without.value == classifier.classify("A moving, funny film.").value
    False
    """
    check_heads(looked, factors)
    attentions = Parts.of(looked).attentions
    with ExitStack() as until:
        for place, layer in sorted({(place, layer) for place, layer, _ in factors}):
            attention = cast(SelfAttention | CrossAttention, attentions[place][layer])
            own = [factors.get((place, layer, head), 1.0) for head in range(attention.heads)]
            wide = torch.tensor(own, dtype=torch.float64).repeat_interleave(attention.d_value)
            until.callback(attention.output.register_forward_pre_hook(partial(_scale, wide)).remove)
        yield


def _scale(factors: Tensor, part: nn.Module, args: tuple[Tensor]) -> Tensor:
    return args[0] * factors.to(args[0])


def rank_heads(
    looked: Looked,
    metric: Metric,
    *,
    heads: Iterable[Head] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[HeadWorth]:
    """What the metric loses without each head, one at a time, and most first; of all heads, unless some are
    named. `progress` is called with how many more are done.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> metric = regard.look.measures.pair_likelihood(translator, "train.en", "train.de")
    >>> worth = regard.look.rank_heads(translator, metric)
    >>> len(worth), worth[0].lost >= worth[-1].lost
    (6, True)
    """
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
