"""Training a classifier: an encoder and a new head, all of it learning (Devlin et al. 2019, 3.2).

one label of several    cross-entropy of softmax(scores)
any number of labels    cross-entropy of sigmoid(score), label by label
a number                (score - number)^2
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from regard.hub import Checkpoint
from regard.models.headed import Headed
from regard.models.heads import ClassifyHead
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig
from regard.tasks.base import metrics
from regard.tasks.base.job import Job, Shortcut
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.reading import Piece, Reader, quietly
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_encoder
from regard.tasks.classification.batches import EncodedTexts, LabelledBatch, LabelledFeed, encode
from regard.tasks.classification.classifier import Classifier, probabilities
from regard.tasks.classification.data import LabelledCorpus, Problem, label_names, targets
from regard.tasks.classification.frozen import FrozenClassifier, FrozenError
from regard.tasks.classification.recipe import ClassifyLossConfig, ClassifyRecipe
from regard.text import Labelled, Skipped
from regard.train.objectives import HIDDEN, Sums, agreeing_loss, disagreement, number_loss, token_loss
from regard.train.ranks import Ranks

LOGISTIC = "head.fit=logistic: the encoder stays as it is, and the head is solved for"
TRIED = 500
"""Texts by which it is said how long that would take."""
NEVER = -1e4
"""The score of a label that no text has."""


class ClassificationLoss:
    def __init__(
        self, model: Headed, config: ClassifyLossConfig, problem: Problem, weights: Tensor | None = None
    ) -> None:
        """`weights` of the labels, where they do not all count alike."""
        self.model, self.config, self.problem, self._weights = model, config, problem, weights

    def compile(self) -> None:
        """The head is small: there is nothing to win."""

    def __call__(self, batch: LabelledBatch) -> Sums:
        twice = self.config.r_drop > 0
        text, segments = batch.text, batch.segments
        layout = text.layout.twice() if twice else text.layout
        ids = text.ids.repeat(2) if twice else text.ids
        marks = segments.repeat(2) if twice and segments is not None else segments
        states = self.model.states(ids, layout, marks)
        scores = self.model.head(states, layout).float()
        match self.problem:
            case "single":
                return self._of_labels(scores, batch.labels)
            case "multi":
                each = F.binary_cross_entropy_with_logits
                return number_loss(scores, batch.labels, self.config.r_drop, each)
            case "number":
                return number_loss(scores, batch.labels.unsqueeze(1), self.config.r_drop)

    def _of_labels(self, scores: Tensor, labels: Tensor) -> Sums:
        config, passes = self.config, 2 if self.config.r_drop else 1
        if config.r_drop:
            sums = agreeing_loss(scores, labels, config.label_smoothing, config.r_drop)
        else:
            sums = token_loss(scores, labels, config.label_smoothing)
        if self._weights is None:
            return sums
        crossed = F.cross_entropy(
            scores,
            labels.repeat(passes),
            weight=self._weights,
            ignore_index=HIDDEN,
            reduction="sum",
            label_smoothing=config.label_smoothing,
        )
        loss = crossed / passes
        if config.r_drop:
            first, second = F.log_softmax(scores, dim=-1).chunk(2)
            loss = loss + config.r_drop * disagreement(first, second, labels)
        return sums._replace(loss=loss)


@dataclass(frozen=True, slots=True)
class LabelledSplit:
    """The texts of a split, with their labels as numbers."""

    records: list[Labelled]
    labels: np.ndarray

    @property
    def texts(self) -> list[str]:
        return [record.text for record in self.records]

    @property
    def seconds(self) -> list[str] | None:
        return [str(record.second) for record in self.records] if self.records[0].second is not None else None


def prepare(
    written: Written[ClassifyRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    checked = written.checked
    corpus, skipped = LabelledCorpus(checked.data, written.where), Skipped()
    records = corpus.read("train", skipped)
    held_out = [] if checked.data.valid else corpus.read("valid")
    splits = {
        "train": records,
        "valid": held_out or corpus.read("valid", skipped),
        "test": corpus.read("test", skipped),
    }
    for split, found in splits.items():
        if not found and (split != "test" or checked.data.test):
            raise ValueError(f"data.{split}: no texts; name files that have some")
    problem = checked.data.problem
    # a rare label may be held out with all its texts: nobody can learn it, but it is no mistake
    names = () if problem == "number" else label_names([*records, *held_out])
    if problem == "single" and len(names) < 2:
        raise ValueError(f"data.train: all texts have the label {names[0]!r}; there is nothing to learn")
    if problem == "multi" and not names:
        raise ValueError("data.train: no text has a label; there is nothing to learn")
    words = sum(len(record.text.split()) + len((record.second or "").split()) for record in records)
    settled = settle_encoder(
        written,
        examples=len(records),
        words=words,
        lines=(text for record in records for text in (record.text, record.second) if text),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        head=lambda recipe, start: _head(recipe, start, max(len(names), 1)),
        folder=folder,
        ranks=ranks,
        begun=begun,
    )
    recipe, model, reader = settled.recipe, settled.model, settled.reader
    read = {split: LabelledSplit(own, targets(own, names, problem)) for split, own in splits.items() if own}
    if problem == "number":
        with torch.no_grad():
            cast(ClassifyHead, model.head).output.bias.fill_(float(read["train"].labels.mean()))
    texts, long = encode(reader, records, read["train"].labels, skip=recipe.data.too_long == "skip")
    plan = settled.plan(texts.ids.lengths)
    classifier = Classifier(reader, names, problem)
    if ranks.first:
        _say(console, recipe, read, names, reader, long, skipped)
    return settled.job(
        loss=ClassificationLoss(model, recipe.loss, problem, _weights(recipe, texts.labels, names, ranks)),
        feed=LabelledFeed(texts, plan, static=settled.static, rank=ranks.rank, ranks=ranks.count),
        validate=partial(_validate, classifier, read["valid"]),
        metric=(recipe.metric, better("classify", recipe.metric, ("loss", "mse"))),
        root=corpus.root,
        about={**classifier.about(), "pairs": read["train"].seconds is not None},
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "texts": {split: len(own.records) for split, own in read.items()},
            "long": long,
            "skipped": skipped.total,
            "why": str(skipped),
        },
        test=partial(_test, classifier, read["test"]) if "test" in read else None,
        unit="texts",
        perplexity=False,
        solve=partial(_solve, reader, texts, names, recipe) if recipe.head.fit == "logistic" else None,
        shortcut=Shortcut(LOGISTIC, partial(_tried, reader, texts, names, recipe))
        if recipe.model.start and names and recipe.head.pool != "attention"
        else None,
    )


def _solve(reader: Reader, texts: EncodedTexts, names: Sequence[str], recipe: ClassifyRecipe) -> None:
    """The head by logistic regression on the encoder's vectors."""
    head = cast(ClassifyHead, reader.model.head)
    found, size = _regression(_vectors(reader, texts, range(len(texts.ids))), texts.labels, names, recipe)
    order = [names.index(name) for name in found.facts.labels]
    with torch.no_grad():
        head.output.weight.zero_()
        head.output.bias.fill_(NEVER)
        head.output.weight[order] = torch.from_numpy(found.weights / size).to(head.output.weight)
        head.output.bias[order] = torch.from_numpy(found.bias).to(head.output.bias)


def _vectors(reader: Reader, texts: EncodedTexts, rows: Sequence[int]) -> np.ndarray:
    head, marks = cast(ClassifyHead, reader.model.head), texts.segments
    pieces = [
        Piece(texts.ids[row].tolist(), None if marks is None else marks[row].tolist(), place)
        for place, row in enumerate(rows)
    ]
    return np.stack(reader.read(pieces, lambda states, packed: head.pool(states, packed.layout)))


def _regression(
    vectors: np.ndarray, given: np.ndarray, names: Sequence[str], recipe: ClassifyRecipe
) -> tuple[FrozenClassifier, float]:
    """For vectors whose labels these are; and their mean length, by which they were divided."""
    multi, seed = recipe.data.problem == "multi", recipe.train.seed
    labels: Any = (
        [[names[place] for place in np.flatnonzero(row).tolist()] for row in given]
        if multi
        else [names[place] for place in given.tolist()]
    )
    size = float(np.linalg.norm(vectors, axis=1).mean())  # strengths are meant for vectors of length 1
    weight = recipe.loss.class_weights
    found = FrozenClassifier.fit(vectors / size, labels, seed=seed, class_weight=weight, multilabel=multi)
    return found, size


def _tried(reader: Reader, texts: EncodedTexts, names: Sequence[str], recipe: ClassifyRecipe) -> float:
    """How long `_solve` would take, by some of the texts; a regression on more of them is hardly slower."""
    rows = range(0, len(texts.ids), max(1, len(texts.ids) // TRIED))
    began = time.perf_counter()
    vectors = _vectors(reader, texts, rows)
    read = time.perf_counter()
    with suppress(FrozenError):  # these may all have one label
        _regression(vectors, texts.labels[np.asarray(rows)], names, recipe)
    return (read - began) * len(texts.ids) / len(rows) + time.perf_counter() - read


def _head(recipe: ClassifyRecipe, start: Checkpoint | None, labels: int) -> ClassifyConfig:
    pool = recipe.head.pool
    if pool == "auto":
        pool = "attention" if start is None and recipe.model.preset == "recurrent" else "mean"
        if start is not None and isinstance(start.config.head, ClassifyConfig | EmbedConfig):
            pool = start.config.head.pool.kind
            if pool == "attention" and recipe.head.fit == "logistic":
                pool = "mean"  # what is asked would be left at random
        elif start is not None and start.config.encoder.pooler:
            pool = "pooler"
    return ClassifyConfig(
        labels=labels,
        pool=PoolConfig(kind=pool, query=recipe.head.query, score=recipe.head.score),
        dropout=recipe.head.dropout,
    )


def _weights(recipe: ClassifyRecipe, labels: np.ndarray, names: Sequence[str], ranks: Ranks) -> Tensor | None:
    """Of the labels, so that a text counts 1 in the mean."""
    if recipe.loss.class_weights == "none":
        return None
    counts = np.bincount(labels, minlength=len(names))
    weights = len(labels) / (len(names) * np.maximum(counts, 1))
    return torch.tensor(weights, dtype=torch.float32, device=ranks.device)


def _say(
    console: Console,
    recipe: ClassifyRecipe,
    read: dict[str, LabelledSplit],
    names: Sequence[str],
    reader: Reader,
    long: int,
    skipped: Skipped,
) -> None:
    kind = f"{len(names)} labels" if names else "numbers"
    held = "" if recipe.data.valid else ", held out,"
    lines = [
        f"{len(read['train'].records):,} texts to learn from, {len(read['valid'].records):,}{held} to "
        f"validate on; {kind}; {len(reader.tokenizer):,} tokens in the vocabulary"
    ]
    if long:
        what = "only their beginnings are read" if recipe.data.too_long == "cut" else "left out"
        lines.append(f"{long:,} texts have more than {reader.longest} tokens: {what}")
    if skipped.total:
        lines.append(f"left out: {skipped}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def measure(classifier: Classifier, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """All figures that fit the problem, the loss first."""
    problem, names = classifier.problem, classifier.labels
    if problem == "number":
        figures = metrics.regression(scores[:, 0], labels)
        own = plugin_figures("classify", scores[:, 0].tolist(), labels.tolist())
        return {"loss": figures["mse"], **figures, **own}
    chances = probabilities(scores, problem)
    tiny = 1e-12
    if problem == "multi":
        right = np.where(labels, chances, 1 - chances)
        figures = metrics.multi_label(chances > 0.5, labels)
        found, wanted = (
            [[names[i] for i in np.flatnonzero(row)] for row in rows] for rows in (chances > 0.5, labels)
        )
    else:
        right = chances[np.arange(len(labels)), labels]
        figures = metrics.classification(chances.argmax(axis=1), labels, len(names))
        found, wanted = ([names[i] for i in row] for row in (chances.argmax(axis=1), labels))
    own = plugin_figures("classify", found, wanted)
    return {"loss": float(-np.log(right + tiny).mean()), **figures, **own}


def _validate(classifier: Classifier, read: LabelledSplit) -> tuple[dict[str, float], str]:
    with quietly():
        scores = classifier.scores(read.texts, read.seconds)
    return measure(classifier, scores, read.labels), ""


def _test(classifier: Classifier, read: LabelledSplit) -> tuple[dict[str, Any], list[str]]:
    with quietly():
        scores = classifier.scores(read.texts, read.seconds)
    figures: dict[str, Any] = dict(measure(classifier, scores, read.labels))
    line = "  ".join(f"{name} {value:.4f}" for name, value in figures.items())
    if classifier.problem == "single":
        figures["confusion"] = metrics.confusion(
            scores.argmax(axis=1), read.labels, len(classifier.labels)
        ).tolist()
    return figures, [line]
