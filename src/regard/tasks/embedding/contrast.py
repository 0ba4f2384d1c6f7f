"""What an embedder learns from pairs that mean the same: each text must find its other among those of the
whole batch (Sohn 2016; Henderson et al. 2017).

    loss_i = - log( exp(cos(u_i, v_i) / t) / sum_j exp(cos(u_i, v_j) / t) )

and the same from v to u; the mean of both. Texts beside the pairs that do not answer are further v_j for each
u_i, and look for nothing themselves. Pairs that have a text in common are not each other's wrong answers; nor
is a text of such a pair, beside whichever pair it stands; nor, with a guide g, are those that it finds nearer
(GISTEmbed, Solatorio 2024):

    cos(g(u_i), g(v_j)) > cos(g(u_i), g(v_i)) - margin

With several dimensions, the mean of the losses of vectors that are cut to the first so many numbers
(Matryoshka, Kusupati et al. 2022).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.headed import Headed
from regard.tasks.embedding.batches import PairedBatch
from regard.tasks.embedding.recipe import ContrastiveConfig
from regard.train.objectives import HIDDEN, Sums


class ContrastiveLoss:
    def __init__(self, model: Headed, config: ContrastiveConfig) -> None:
        self.model, self.config = model, config

    def compile(self) -> None:
        """The head is small: there is nothing to win."""

    def __call__(self, batch: PairedBatch) -> Sums:
        layout = batch.text.layout
        vectors = self.model.head(self.model.states(batch.text.ids, layout), layout)
        sources, targets = (vectors.index_select(0, places) for places in batch.places.unbind(dim=1))
        wrong = None
        if batch.negatives is not None:
            places, numbers = batch.negatives.unbind(dim=1)
            wrong = Negatives(vectors.index_select(0, places), numbers, batch.guide_negatives)
        return contrastive(sources, targets, batch.numbers, self.config, batch.guide, wrong)


class Negatives(NamedTuple):
    """Wrong answers beside the pairs."""

    vectors: Float[Tensor, "negatives width"]
    numbers: Int[Tensor, "negatives"]
    """Equal for equal texts, as those of the pairs; hidden where there is none."""
    guide: Float[Tensor, "negatives other"] | None = None

    def cut(self, width: int, dtype: torch.dtype) -> "Negatives":
        return self._replace(vectors=F.normalize(self.vectors[:, :width].to(dtype), dim=-1))


def contrastive(
    sources: Float[Tensor, "rows width"],
    targets: Float[Tensor, "rows width"],
    numbers: Int[Tensor, "rows 2"],
    config: ContrastiveConfig,
    guide: Float[Tensor, "rows 2 other"] | None = None,
    wrong: Negatives | None = None,
) -> Sums:
    """Of vectors of length 1; those of the `guide`, too. `numbers` tell which texts are the same; rows whose
    numbers are hidden are neither asked nor answers."""
    exact = torch.promote_types(sources.dtype, torch.float32)
    found = [_contrastive(sources, targets, numbers, config, guide, wrong)]
    for width in config.dimensions:
        ours, theirs = (F.normalize(side[:, :width].to(exact), dim=-1) for side in (sources, targets))
        beside = None if wrong is None else wrong.cut(width, exact)
        found.append(_contrastive(ours, theirs, numbers, config, guide, beside))
    loss = torch.stack([each.loss for each in found]).mean()
    return Sums(loss, loss.detach(), found[0].tokens)


def _contrastive(
    sources: Float[Tensor, "rows width"],
    targets: Float[Tensor, "rows width"],
    numbers: Int[Tensor, "rows 2"],
    config: ContrastiveConfig,
    guide: Float[Tensor, "rows 2 other"] | None,
    wrong: Negatives | None,
) -> Sums:
    shown = numbers[:, 0] != HIDDEN
    common = (numbers[:, None, :, None] == numbers[None, :, None, :]).flatten(2).any(dim=2)
    itself = torch.eye(len(numbers), dtype=torch.bool, device=numbers.device)
    visible = itself | (~common & shown & shown[:, None])
    scores = _products(sources, targets) / config.temperature
    there = back = visible
    least = None
    if guide is not None:
        nearness = _products(guide[:, 0], guide[:, 1])
        least = nearness.diagonal() - config.guide_margin
        there = itself | (visible & (nearness <= least[:, None]))
        back = itself | (visible & (nearness <= least))
    right = torch.where(shown, torch.arange(len(numbers), device=numbers.device), HIDDEN)
    choices = scores.masked_fill(~there, -torch.inf)
    if wrong is not None:
        seen = shown[:, None] & _unanswering(numbers, common, wrong.numbers)
        if least is not None and wrong.guide is not None and guide is not None:
            seen = seen & (_products(guide[:, 0], wrong.guide) <= least[:, None])
        others = _products(sources, wrong.vectors) / config.temperature
        choices = torch.cat([choices, others.masked_fill(~seen, -torch.inf)], dim=1)
    loss = _found(choices, right)
    if config.symmetric:
        loss = (loss + _found(scores.masked_fill(~back, -torch.inf).T, right)) / 2
    return Sums(loss, loss.detach(), shown.sum().float())


def _products(ours: Float[Tensor, "ours width"], theirs: Float[Tensor, "theirs width"]) -> Tensor:
    """In single precision at least: a small temperature makes errors large."""
    exact = torch.promote_types(ours.dtype, torch.float32)
    with torch.autocast(ours.device.type, enabled=False):
        return ours.to(exact) @ theirs.to(exact).T


def _unanswering(
    numbers: Int[Tensor, "rows 2"], common: Bool[Tensor, "rows rows"], wrong: Int[Tensor, "negatives"]
) -> Bool[Tensor, "rows negatives"]:
    """Which of these texts are in no pair that has a text in common with the row's own."""
    has = (numbers[:, :, None] == wrong).any(dim=1)  # [pairs, negatives]
    return ((common.float() @ has.float()) == 0) & (wrong != HIDDEN)


def _found(scores: Tensor, right: Tensor) -> Tensor:
    return F.cross_entropy(scores, right, ignore_index=HIDDEN, reduction="sum")
