"""Training an answerer: an encoder and a new head, all of it learning (Devlin et al. 2019, 4.2 and 4.3).

loss    - (log p(start) + log p(end)) / 2 for each window, each a softmax over the tokens of the text and
        [CLS], which stands for no answer; where there are several gold answers, the mean over them
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from regard.models.headed import Headed
from regard.settings.models import SpanConfig
from regard.settings.training import LossConfig
from regard.tasks.answering import score
from regard.tasks.answering.answerer import Answerer
from regard.tasks.answering.batches import EncodedQuestions, QuestionBatch, QuestionFeed, encode
from regard.tasks.answering.data import CANNOT, QuestionCorpus
from regard.tasks.answering.recipe import AnswerRecipe
from regard.tasks.answering.spans import best_threshold
from regard.tasks.answering.windows import Laid, QuestionError
from regard.tasks.base.folder import read_config
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_encoder
from regard.text import DataError, Question, Skipped
from regard.train.objectives import Sums
from regard.train.ranks import Ranks

REMEDY = "shorten it, raise data.longest, or leave such questions out with data.on_error=skip"
HIDDEN = -1e9
"""The score of a token where no answer can be."""
READ = 384
"""Tokens that are read at once, where nothing else says (Devlin et al. 2019 for SQuAD)."""


class AnsweringLoss:
    def __init__(self, model: Headed, config: LossConfig) -> None:
        self.model, self.config = model, config

    def compile(self) -> None:
        """The head is small: there is nothing to win."""

    def __call__(self, batch: QuestionBatch) -> Sums:
        twice = self.config.r_drop > 0
        text, segments = batch.text, batch.segments
        layout = text.layout.twice() if twice else text.layout
        ids = text.ids.repeat(2) if twice else text.ids
        marks = segments.repeat(2) if twice and segments is not None else segments
        scores = self.model.head(self.model.states(ids, layout, marks)).float()
        golds = torch.stack([batch.starts, batch.ends], dim=1)
        golds = golds.repeat(2, 1) if twice else golds
        return self._sums(layout.to_grid(scores), layout.to_grid(golds + 1) - 1)

    def _sums(self, scores: Tensor, golds: Tensor) -> Sums:
        """Of grids [windows, longest, 2]; a cell where no answer can be has CANNOT."""
        possible = golds != CANNOT
        logs = torch.where(possible, scores, HIDDEN).log_softmax(dim=1)
        counts = golds.clamp(min=0).float()
        shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
        nll = -(shares * logs).sum() / 2
        loss = nll
        if smoothing := self.config.label_smoothing:
            known = torch.where(possible, logs, 0.0).sum(dim=1) / possible.sum(dim=1).clamp(min=1)
            loss = (1 - smoothing) * nll - smoothing * known.sum() / 2
        windows = shares.sum() / 2
        if not self.config.r_drop:
            return Sums(loss, nll.detach(), windows)
        first, second = logs.chunk(2)
        apart = ((first.exp() - second.exp()) * (first - second)).sum() / 2
        return Sums(loss / 2 + self.config.r_drop * apart / 2, nll.detach() / 2, windows / 2)


@dataclass(frozen=True, slots=True)
class QuestionSplit:
    """The questions of a split, as they are read."""

    records: list[Question]
    laid: list[Laid]

    @property
    def contexts(self) -> list[str]:
        return [record.context for record in self.records]

    @property
    def golds(self) -> list[list[str]]:
        return [[gold.text for gold in record.answers] for record in self.records]


def prepare(
    written: Written[AnswerRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    checked = written.checked
    corpus, skipped = QuestionCorpus(checked.data, written.where), Skipped()
    records = {
        "train": corpus.read("train", skipped),
        "valid": corpus.read("valid"),
        "test": corpus.read("test"),
    }
    for split, own in records.items():
        if not own and (split != "test" or checked.data.test):
            raise ValueError(f"data.{split}: no questions; name files that have some")
    texts = [text for record in records["train"] for text in (record.text, record.context)]
    settled = settle_encoder(
        written,
        examples=len(records["train"]),
        words=sum(len(text.split()) for text in texts),
        lines=dict.fromkeys(texts),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        head=lambda recipe, start: SpanConfig(dropout=recipe.head.dropout),
        folder=folder,
        ranks=ranks,
        begun=begun,
        usual=READ,
    )
    recipe, model, reader = settled.recipe, settled.model, settled.reader
    none = recipe.head.none == "always" or (
        recipe.head.none == "auto" and any(not record.answers for record in records["train"])
    )
    plain = Answerer(reader, overlap=recipe.data.overlap, threshold=0.0 if none else None)
    skip = checked.data.on_error == "skip"
    read = {split: _lay_out(plain, own, skipped if skip else None) for split, own in records.items()}
    longest = recipe.head.longest_answer or _longest(read["train"])
    answerer = Answerer(reader, longest_answer=longest, overlap=plain.overlap, threshold=plain.threshold)
    questions = encode(read["train"].laid, read["train"].records, paired=reader.paired)
    plan = settled.plan(questions.ids.lengths)
    if ranks.first:
        _say(console, recipe, read, answerer, questions, skipped)
    return settled.job(
        loss=AnsweringLoss(model, recipe.loss),
        feed=QuestionFeed(questions, plan, static=settled.static, rank=ranks.rank, ranks=ranks.count),
        validate=partial(_validate, answerer, read["valid"]),
        metric=(recipe.valid.metric, better("answer", recipe.valid.metric, ("loss",))),
        root=corpus.root,
        about=answerer.about(),
        learned=(lambda figures: {"threshold": figures["threshold"]}) if none else None,
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "questions": {split: len(own.records) for split, own in read.items() if own.records},
            "without_answer": sum(not record.answers for record in read["train"].records),
            "windows": len(questions.ids),
            "silent": questions.silent,
            "skipped": skipped.total,
            "why": str(skipped),
        },
        test=partial(_test, answerer, read["test"], folder) if records["test"] else None,
        unit="windows",
        perplexity=False,
    )


def _lay_out(answerer: Answerer, records: Sequence[Question], skipped: Skipped | None) -> QuestionSplit:
    """Those that leave room for their texts; the others are counted, if they may be skipped."""
    kept, laid = [], []
    for record in records:
        try:
            laid.append(answerer.lay_one(record.text, record.context))
        except QuestionError as error:
            broken = DataError(record.origin, "too long a question", f"(id {record.id!r}): {error}", REMEDY)
            if skipped is None:
                raise broken from error
            skipped.add(broken)
            continue
        kept.append(record)
    if records and not kept:
        raise DataError(
            records[0].origin, "no question leaves room for its text", remedy="raise data.longest"
        )
    return QuestionSplit(kept, laid)


def _longest(read: QuestionSplit) -> int:
    """As many tokens as 99 of 100 gold answers have."""
    sizes = [
        last - first + 1
        for laid, record in zip(read.laid, read.records, strict=True)
        for first, last in laid.spans(record.answers)
    ]
    return int(np.ceil(np.percentile(sizes, 99))) if sizes else 1


def _say(
    console: Console,
    recipe: AnswerRecipe,
    read: dict[str, QuestionSplit],
    answerer: Answerer,
    questions: EncodedQuestions,
    skipped: Skipped,
) -> None:
    records = read["train"].records
    held = "" if recipe.data.valid else ", held out,"
    unanswered = sum(not record.answers for record in records)
    without = f"; {unanswered:,} have no answer" if unanswered else ""
    lines = [
        f"{len(records):,} questions to learn from, {len(read['valid'].records):,}{held} to validate on"
        f"{without}; answers of at most {answerer.longest_answer} tokens; {len(answerer.tokenizer):,} tokens "
        "in the vocabulary"
    ]
    if len(questions.ids) > len(records):
        lines.append(
            f"texts of more than {answerer.longest} tokens, with the question, are read in windows: "
            f"{len(questions.ids):,} in all, {questions.answered:,} with an answer"
        )
    if questions.silent:
        lines.append(
            f"{questions.silent:,} questions have answers that left no token: learned as without one"
        )
    if skipped.total:
        lines.append(f"left out: {skipped}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def measure(answerer: Answerer, read: QuestionSplit, *, learn: bool = False) -> dict[str, float]:
    """The loss of the windows, and SQuAD's figures. `learn`: with the threshold that is best for f1 here."""
    rows = answerer.rows(read.laid)
    scores = [answerer.join(*each) for each in zip(read.laid, rows, strict=True)]
    spans = [answerer.best(*each) for each in zip(read.laid, scores, read.contexts, strict=True)]
    golds = read.golds
    threshold = answerer.threshold
    margins = np.clip([each.margin for each in scores], -1e9, 1e9)
    if threshold is not None and learn:
        answered = np.array([score.f1(*each) for each in zip(spans, golds, strict=True)])
        threshold = best_threshold(margins, answered, np.array([float(not gold) for gold in golds]))
    found = [
        span if threshold is None or margin <= threshold else ""
        for span, margin in zip(spans, margins.tolist(), strict=True)
    ]
    figures = {
        "loss": _loss(read, rows),
        **score.squad(found, golds),
        **plugin_figures("answer", found, golds),
    }
    return figures if threshold is None else {**figures, "threshold": threshold}


def _loss(read: QuestionSplit, rows: Sequence[Sequence[np.ndarray]]) -> float:
    """As in training, without smoothing."""
    losses = []
    for laid, record, own in zip(read.laid, read.records, rows, strict=True):
        spans = laid.spans(record.answers)
        for window, row in zip(laid.windows, own, strict=True):
            wide = row.astype(np.float64)
            text = wide[window.first : window.first + window.count]
            logs = wide - np.logaddexp.reduce(np.concatenate([wide[:1], text]), axis=0)
            places = np.array(window.places(spans))
            losses.append(-(logs[places[:, 0], 0].mean() + logs[places[:, 1], 1].mean()) / 2)
    return float(np.mean(losses)) if losses else float("nan")


def _validate(answerer: Answerer, read: QuestionSplit) -> tuple[dict[str, float], str]:
    return measure(answerer, read, learn=True), ""


def _test(answerer: Answerer, read: QuestionSplit, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """With the threshold that was learned on the validation set."""
    if answerer.threshold is not None:
        answerer = answerer.with_threshold(float(read_config(folder)["threshold"]))
    figures = measure(answerer, read)
    return dict(figures), ["  ".join(f"{name} {value:.4f}" for name, value in figures.items())]
