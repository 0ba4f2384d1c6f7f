"""Training a tagger: an encoder and a new head, all of it learning (Devlin et al. 2019, 4 and 5.3).

    loss    - sum of log softmax(scores)[tag] over words, at the first token of each, or at their mean;
            of numbers, the sum of (score - number)^2

Tags that mark spans are learned as IOB2, and measured by the spans that are right.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console

from regard.models.headed import Headed
from regard.models.heads import TagHead
from regard.settings.models import TagConfig
from regard.settings.training import LossConfig
from regard.tasks.base import metrics
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.reading import quietly
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_encoder
from regard.tasks.tagging.batches import EncodedSentences, TagBatch, TagFeed, encode
from regard.tasks.tagging.data import TaggedCorpus, mark_spans, tag_names
from regard.tasks.tagging.recipe import TagRecipe
from regard.tasks.tagging.tagger import Laid, Tagger, log_softmax
from regard.text import Skipped, Tagged
from regard.train.objectives import Sums, agreeing_loss, number_loss, token_loss
from regard.train.ranks import Ranks


class TaggingLoss:
    def __init__(self, model: Headed, config: LossConfig) -> None:
        self.model, self.config = model, config

    def compile(self) -> None:
        """The head is small: there is nothing to win."""

    def __call__(self, batch: TagBatch) -> Sums:
        twice = self.config.r_drop > 0
        text, places = batch.text, batch.places
        layout = text.layout.twice() if twice else text.layout
        ids = text.ids.repeat(2) if twice else text.ids
        if twice and places is not None:
            places = torch.cat([places, places + len(places)])
        states = self.model.states(ids, layout)
        scores = cast(TagHead, self.model.head)(states, places).float()
        if batch.labels.is_floating_point():
            return number_loss(scores, batch.labels.unsqueeze(1), self.config.r_drop)
        if twice:
            return agreeing_loss(scores, batch.labels, self.config.label_smoothing, self.config.r_drop)
        return token_loss(scores, batch.labels, self.config.label_smoothing)


@dataclass(frozen=True, slots=True)
class TaggedSplit:
    """The sentences of a split."""

    records: list[Tagged]

    @property
    def words(self) -> list[tuple[str, ...]]:
        return [record.words for record in self.records]

    @property
    def tags(self) -> list[tuple[str, ...]]:
        return [record.tags for record in self.records]

    @property
    def size(self) -> int:
        return sum(map(len, self.words))

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Tags of words that are none of these, as often as they come."""
        known = set(names)
        return [tag for tags in self.tags for tag in tags if tag not in known]


def prepare(
    written: Written[TagRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    checked = written.checked
    corpus, skipped = TaggedCorpus(checked.data, written.where), Skipped()
    read = {
        "train": TaggedSplit(corpus.read("train", skipped)),
        "valid": TaggedSplit(corpus.read("valid")),
        "test": TaggedSplit(corpus.read("test")),
    }
    for split, own in read.items():
        if not own.records and (split != "test" or checked.data.test):
            raise ValueError(f"data.{split}: no sentences; name files that have some")
    numbers = checked.data.problem == "number"
    names = () if numbers else tag_names(read["train"].records)
    if len(names) < 2 and not numbers:
        raise ValueError(f"data.train: all words have the tag {names[0]!r}; there is nothing to learn")
    metric = checked.metric(spans=mark_spans(names))
    settled = settle_encoder(
        written,
        examples=len(read["train"].records),
        words=read["train"].size,
        lines=(" ".join(words) for words in read["train"].words),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        head=lambda recipe, start: TagConfig(
            tags=max(len(names), 1), words=recipe.head.words, dropout=recipe.head.dropout
        ),
        folder=folder,
        ranks=ranks,
        begun=begun,
    )
    recipe, model, reader = settled.recipe, settled.model, settled.reader
    by_name = None if numbers else {name: number for number, name in enumerate(names)}
    text = encode(reader.tokenizer, read["train"].records, by_name, reader.longest)
    if numbers:
        with torch.no_grad():
            cast(TagHead, model.head).output.bias.fill_(float(np.nanmean(text.labels.values)))
    plan, mean = settled.plan(text.ids.lengths), recipe.head.words == "mean"
    tagger = Tagger(reader, names, decode=recipe.head.decode)
    with quietly():  # words that are cut are counted below
        laid = tagger.lay_out(read["valid"].words)
    if ranks.first:
        _say(console, recipe, read, tagger, text, skipped)
    return settled.job(
        loss=TaggingLoss(model, recipe.loss),
        feed=TagFeed(text, plan, mean=mean, static=settled.static, rank=ranks.rank, ranks=ranks.count),
        validate=partial(_validate, tagger, laid, read["valid"]),
        metric=(metric, better("tag", metric, ("loss", "mse"))),
        root=corpus.root,
        about=tagger.about(),
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "sentences": {split: len(own.records) for split, own in read.items() if own.records},
            "words": {split: own.size for split, own in read.items() if own.records},
            "windows": len(text.ids),
            "silent": text.silent,
            "cut": text.cut,
            "skipped": skipped.total,
            "why": str(skipped),
        },
        test=partial(_test, tagger, read["test"]) if read["test"].records else None,
        unit="words",
        perplexity=False,
    )


def _say(
    console: Console,
    recipe: TagRecipe,
    read: dict[str, TaggedSplit],
    tagger: Tagger,
    text: EncodedSentences,
    skipped: Skipped,
) -> None:
    longest, sentences = tagger.reader.longest, len(read["train"].records)
    held = "" if recipe.data.valid else ", held out,"
    lines = [
        f"{sentences:,} sentences to learn from, {len(read['valid'].records):,}{held} to validate on; "
        f"{_kinds(tagger)}; "
        f"{len(tagger.reader.tokenizer):,} tokens in the vocabulary"
    ]
    if len(text.ids) > sentences:
        lines.append(f"sentences of more than {longest} tokens are read in windows: {len(text.ids):,} in all")
    if text.cut:
        lines.append(f"{text.cut:,} words have more tokens than a window: their first ones speak for them")
    if text.silent:
        lines.append(f"{text.silent:,} words leave no token: their tags are not learned")
    for split in ("valid", "test") if tagger.labels else ():
        if unknown := read[split].unknown(tagger.labels):
            listed = ", ".join(sorted(set(unknown))[:5])
            lines.append(
                f"data.{split}: {len(unknown):,} words have tags that no training sentence has ({listed}); "
                "they will count as mistakes"
            )
    if skipped.total:
        lines.append(f"left out: {skipped}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _kinds(tagger: Tagger) -> str:
    return f"{len(tagger.labels)} tags{' (IOB2)' if tagger.spans else ''}" if tagger.labels else "numbers"


def _measure_numbers(scores: Sequence[np.ndarray], wanted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Over words that left a token."""
    found = np.concatenate(scores)[:, 0]
    truth = np.array([float(tag) for tags in wanted for tag in tags])
    spoken = ~np.isnan(found)
    figures = metrics.regression(found[spoken], truth[spoken])
    own = plugin_figures(
        "tag", [each[:, 0].tolist() for each in scores], [[float(t) for t in w] for w in wanted]
    )
    return {"loss": figures["mse"], **figures, **own}


def measure(
    tagger: Tagger, scores: Sequence[np.ndarray], wanted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """The loss over words whose tags are known and which left a token, and what `metrics.tagging` says; of
    numbers, how they correlate."""
    if not tagger.labels:
        return _measure_numbers(scores, wanted)
    numbers = {name: number for number, name in enumerate(tagger.labels)}
    predicted = [[tagger.labels[number] for number in tagger.choose(each)] for each in scores]
    figures = {
        "loss": _loss(scores, [[numbers.get(tag, -1) for tag in tags] for tags in wanted]),
        **plugin_figures("tag", predicted, wanted),
    }
    if tagger.spans:
        return {
            **figures,
            **dict.fromkeys(("accuracy", "precision", "recall", "f1"), 0.0),  # of spans that nobody has
            **metrics.tagging(predicted, wanted),
        }
    # Numbers, so that tags which only look like those of a scheme are not read as such.
    plain = [[[str(numbers.get(tag, -1)) for tag in tags] for tags in each] for each in (predicted, wanted)]
    return {**figures, **metrics.tagging(*plain)}


def _loss(scores: Sequence[np.ndarray], wanted: Sequence[Sequence[int]]) -> float:
    flat = np.concatenate([np.asarray(tags, dtype=np.int64) for tags in wanted])
    logs = log_softmax(np.concatenate(scores))
    own = logs[np.arange(len(flat)), np.maximum(flat, 0)]
    counted = (flat >= 0) & ~np.isnan(own)
    return float(-own[counted].mean()) if counted.any() else float("nan")


def _validate(tagger: Tagger, laid: Laid, read: TaggedSplit) -> tuple[dict[str, float], str]:
    return measure(tagger, tagger.score(laid), read.tags), ""


def _test(tagger: Tagger, read: TaggedSplit) -> tuple[dict[str, Any], list[str]]:
    with quietly():
        scores = tagger.scores(read.words)
    figures: dict[str, Any] = dict(measure(tagger, scores, read.tags))
    lines = ["  ".join(f"{name} {value:.4f}" for name, value in figures.items())]
    if tagger.spans:
        predicted = [[tagger.labels[number] for number in tagger.choose(each)] for each in scores]
        by_label = metrics.per_label_spans(predicted, read.tags)
        figures["spans"] = {label: asdict(each) for label, each in by_label.items()}
        lines += [
            f"{label}: precision {each.precision:.4f}  recall {each.recall:.4f}  f1 {each.f1:.4f}  "
            f"({each.count} spans)"
            for label, each in by_label.items()
        ]
    return figures, lines
