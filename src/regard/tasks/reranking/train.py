"""Training a reranker: an encoder that reads query and text at once, and a head with one score s.

softmax     - log( exp(s+) / (exp(s+) + sum_j exp(s_j)) )     the positive against the negatives of its
                                                              query (Gao et al. 2021)
binary      - log sigmoid(s+), - log(1 - sigmoid(s_j))        each pair by itself (Nogueira and Cho 2019)
margin      ((s+ - s_j) - (t+ - t_j))^2                       t are a teacher's scores (Hofstätter et al.
                                                              2020)
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from rich.console import Console
from torch import Tensor

from regard.hub import Checkpoint
from regard.hub.families import ENCODERS
from regard.hub.sentence_facts import Activation
from regard.models.headed import Headed
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig
from regard.tasks.base.encoders import put_weights
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.reading import Reader, quietly
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_encoder
from regard.tasks.reranking.batches import RankedBatch, RankedFeed, encode
from regard.tasks.reranking.data import RankedCorpus
from regard.tasks.reranking.recipe import READ, RankingConfig, RerankRecipe
from regard.tasks.reranking.reranker import Reranker, ranks_of_first
from regard.text import Skipped
from regard.text.rankings import Ranking
from regard.train.objectives import HIDDEN, Sums
from regard.train.ranks import Ranks


class RankingLoss:
    def __init__(self, model: Headed, config: RankingConfig) -> None:
        self.model, self.config = model, config

    def compile(self) -> None:
        """The head is small: there is nothing to win."""

    def __call__(self, batch: RankedBatch) -> Sums:
        layout = batch.text.layout
        states = self.model.states(batch.text.ids, layout, batch.segments)
        scores = self.model.head(states, layout).float().squeeze(1)
        match self.config.kind:
            case "softmax":
                return listwise(scores, batch.groups, batch.first)
            case "binary":
                return binary(scores, batch.groups, batch.first)
            case "margin":
                return margins(scores, batch.teacher, batch.groups, batch.first)


Scores = Float[Tensor, "sequences"]
Groups = Int[Tensor, "sequences"]
First = Int[Tensor, "queries"]


def listwise(scores: Scores, groups: Groups, first: First) -> Sums:
    """Summed over the queries; `groups` and `first` as `RankedBatch` has them."""
    there = first != HIDDEN
    best = scores.new_full(first.shape, -torch.inf)
    best = best.scatter_reduce(0, groups, scores.detach(), "amax")
    best = torch.where(there, best, 0.0)
    sums = torch.zeros_like(best).index_add(0, groups, (scores - best[groups]).exp())
    all_of_them = best + torch.where(there, sums, 1.0).log()
    loss = torch.where(there, all_of_them - scores[first.clamp(min=0)], 0.0).sum()
    return Sums(loss, loss.detach(), there.sum().float())


def binary(scores: Scores, groups: Groups, first: First) -> Sums:
    """Summed over the pairs."""
    shown, positive = _pairs(groups, first)
    each = F.binary_cross_entropy_with_logits(scores, positive.to(scores.dtype), reduction="none")
    loss = torch.where(shown, each, 0.0).sum()
    return Sums(loss, loss.detach(), shown.sum().float())


def margins(scores: Scores, teacher: Scores, groups: Groups, first: First) -> Sums:
    """Summed over the negatives."""
    shown, positive = _pairs(groups, first)
    best = first.clamp(min=0)[groups]
    ahead = (scores[best] - scores) - (teacher[best] - teacher).nan_to_num()
    wrong = shown & ~positive
    loss = torch.where(wrong, ahead**2, 0.0).sum()
    return Sums(loss, loss.detach(), wrong.sum().float())


def _pairs(groups: Groups, first: First) -> tuple[Tensor, Tensor]:
    """Which sequences are no filler, and which are positives."""
    shown = first[groups] != HIDDEN
    places = torch.arange(len(groups), device=groups.device)
    return shown, shown & (first[groups] == places)


def prepare(
    written: Written[RerankRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    checked = written.checked
    corpus, skipped = RankedCorpus(checked.data, written.where), Skipped()
    splits = {
        "train": corpus.read("train", skipped),
        "valid": corpus.read("valid", skipped if checked.data.valid else None),
        "test": corpus.read("test", skipped),
    }
    for split, found in splits.items():
        if not found and (split != "test" or checked.data.test):
            raise ValueError(f"data.{split}: no queries; name files that have some")
    records = splits["train"]
    words = sum(
        len(record.texts) * len(record.query.split()) + sum(len(text.split()) for text in record.texts)
        for record in records
    )
    settled = settle_encoder(
        written,
        examples=len(records),
        words=words,
        lines=(text for record in records for text in (record.query, *record.texts)),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        head=_head,
        folder=folder,
        ranks=ranks,
        begun=begun,
        usual=READ,
    )
    recipe, model, reader, start = settled.recipe, settled.model, settled.reader, settled.start
    if start is not None and start.kind == "rank":  # its head has learned already
        shapes = {name: parameter.shape for name, parameter in model.head.named_parameters(prefix="head")}
        head = {name: start.weights[name] for name in shapes if name in start.weights}
        fits = all(shapes[name] == weight.shape for name, weight in head.items())
        put_weights(model, head if fits else {}, recipe.model.start, strict=False)
    encoded, long = encode(reader, records, skip=recipe.data.too_long == "skip")
    reranker = Reranker(reader, _activation(recipe, start))
    if ranks.first:
        _say(console, recipe, splits, reader, long, skipped)
    return settled.job(
        loss=RankingLoss(model, recipe.loss),
        feed=RankedFeed(
            encoded, settled.plan(encoded.lengths), static=settled.static, rank=ranks.rank, ranks=ranks.count
        ),
        validate=partial(_validate, reranker, splits["valid"]),
        metric=(recipe.valid.metric, better("rerank", recipe.valid.metric, ("loss",))),
        root=corpus.root,
        about=reranker.about(),
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "queries": {split: len(own) for split, own in splits.items()},
            "long": long,
            "skipped": skipped.total,
            "why": str(skipped),
        },
        test=partial(_test, reranker, splits["test"]) if splits["test"] else None,
        unit="queries",
        perplexity=False,
    )


def _head(recipe: RerankRecipe, start: Checkpoint | None) -> ClassifyConfig:
    pool: Any = recipe.head.pool
    inner: Any = "none"
    if pool == "auto":
        if (
            start is not None
            and isinstance(own := start.config.head, ClassifyConfig)
            and start.kind == "rank"
        ):
            return replace(own, dropout=recipe.head.dropout)
        pool, inner = ("mean", "none") if start is None else _as_started(start)
    return ClassifyConfig(labels=1, pool=PoolConfig(kind=pool), inner=inner, dropout=recipe.head.dropout)


def _as_started(start: Checkpoint) -> tuple[str, str]:
    """An embedder's vectors are pooled as it was trained; else as the classifiers of its family have it."""
    if isinstance(start.config.head, EmbedConfig):
        return start.config.head.pool.kind, "none"
    encoder = start.config.encoder
    family = next((each for each in ENCODERS if each.claims(encoder, start.tokenizer)), None)
    return ("mean", "none") if family is None else family.classifier


def _activation(recipe: RerankRecipe, start: Checkpoint | None) -> Activation:
    wanted = recipe.head.activation
    if wanted != "auto":
        return wanted
    return "sigmoid" if recipe.loss.kind == "binary" else "none"


def _say(
    console: Console,
    recipe: RerankRecipe,
    splits: dict[str, list[Ranking]],
    reader: Reader,
    long: int,
    skipped: Skipped,
) -> None:
    held = "" if recipe.data.valid else ", held out,"
    pairs = sum(len(record.texts) for record in splits["train"])
    lines = [
        f"{len(splits['train']):,} queries with {pairs:,} texts to learn from, "
        f"{len(splits['valid']):,}{held} to validate on; {len(reader.tokenizer):,} tokens in the vocabulary"
    ]
    if long:
        what = "only their beginnings are read" if recipe.data.too_long == "cut" else "they are left out"
        lines.append(f"{long:,} queries have texts that make more than {reader.longest} tokens: {what}")
    if skipped.total:
        lines.append(f"left out: {skipped}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def group_scores(reranker: Reranker, records: Sequence[Ranking]) -> list[np.ndarray]:
    """Of each query, raw: its positive first, then its negatives."""
    queries = [record.query for record in records for _ in record.texts]
    every = reranker.scores(queries, [text for record in records for text in record.texts], raw=True)
    return np.split(every, np.cumsum([len(record.texts) for record in records])[:-1])


def measure(scores: Sequence[np.ndarray]) -> dict[str, float]:
    """All figures of the positive's rank among its negatives, the loss first: that of softmax, whatever was
    trained."""
    ranks = ranks_of_first(scores)
    exact = [own.astype(np.float64) for own in scores]
    losses = [np.logaddexp.reduce(own) - own[0] for own in exact]
    own = plugin_figures("rerank", [each.tolist() for each in exact], [0] * len(exact))
    return {
        "loss": float(np.mean(losses)),
        "ndcg_at_10": float(np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0).mean()),
        "mrr": float((1 / ranks).mean()),
        "accuracy_at_1": float((ranks == 1).mean()),
        **own,
    }


def _validate(reranker: Reranker, records: Sequence[Ranking]) -> tuple[dict[str, float], str]:
    with quietly():
        return measure(group_scores(reranker, records)), ""


def _test(reranker: Reranker, records: Sequence[Ranking]) -> tuple[dict[str, Any], list[str]]:
    with quietly():
        figures = measure(group_scores(reranker, records))
    return dict(figures), ["  ".join(f"{name} {value:.4f}" for name, value in figures.items())]
