"""Training a translator: from a recipe to a job for the trainer.

read_corpus   read the text, learn the tokenizer, fill the token store, build the model
job_of        the loss, validation by decoding, and the test, as the trainer takes them
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from torch import Tensor

from regard.config import to_dict
from regard.data import Plan, fingerprint
from regard.decode import DecodeConfig
from regard.models.seq2seq import Seq2Seq
from regard.nn.embedding import VocabularyHead
from regard.nn.stacks import is_static
from regard.settings.training import BatchConfig, LossConfig
from regard.tasks.base.feed import in_pieces
from regard.tasks.base.folder import clear, settled_tokenizer
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.pairs import Corpus, texts
from regard.tasks.base.recipe import Written
from regard.tasks.base.splits import Split
from regard.tasks.translation.data import (
    PairBatch,
    PairCounts,
    PairFeed,
    build_store,
    least_tokens,
    pair_lengths,
)
from regard.tasks.translation.evaluate import MetricName, score
from regard.tasks.translation.recipe import TranslateRecipe
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin, Tokenizer
from regard.train.objectives import Sums, agreeing_loss, head_loss
from regard.train.ranks import Ranks

Item = TypeVar("Item")

STORES: dict[Split, str] = {"train": "tokens", "valid": "tokens.valid"}
LOOKED_AT = 2000
"""Texts that say whether a tokenizer gives back what it was given."""


class TranslationLoss:
    """Cross-entropy of the targets, each token predicted from the source and the ones before it."""

    def __init__(self, model: Seq2Seq, config: LossConfig) -> None:
        self.model = model
        self.config = config
        self._whole = head_loss
        self._twice = _agreeing_loss

    def compile(self) -> None:
        """So that scores over the vocabulary and their losses are computed together."""
        self._whole = torch.compile(head_loss, fullgraph=True, dynamic=False)
        self._twice = torch.compile(_agreeing_loss, fullgraph=True, dynamic=False)

    def __call__(self, batch: PairBatch) -> Sums:
        head, smoothing = self.model.decoder.head, self.config.label_smoothing
        source, inputs = batch.source, batch.inputs
        if not self.config.r_drop:
            states = self.model(source.ids, source.layout, inputs.ids, inputs.layout)
            return self._whole(head, states, batch.labels, smoothing)
        # Both passes in one: every sentence stands in the batch twice, and dropout falls differently on each.
        states = self.model(
            source.ids.repeat(2), source.layout.twice(), inputs.ids.repeat(2), inputs.layout.twice()
        )
        return self._twice(head, states, batch.labels, smoothing, self.config.r_drop)


def _agreeing_loss(
    head: VocabularyHead, states: Tensor, labels: Tensor, smoothing: float, r_drop: float
) -> Sums:
    return agreeing_loss(head(states), labels, smoothing, r_drop)


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is settled before the first step."""

    recipe: TranslateRecipe
    corpus: Corpus
    tokenizer: Tokenizer
    model: Seq2Seq
    feed: PairFeed
    counts: PairCounts
    ranks: Ranks
    static: bool


def prepare(
    written: Written[TranslateRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    return job_of(read_corpus(written, folder, ranks, console, begun=begun), folder)


def read_corpus(
    written: Written[TranslateRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Prepared:
    """Read the text, learn the tokenizer, fill the token store, build the model. A run that is `begun` has
    its tokenizer already."""
    corpus = Corpus(written.checked.data, written.where)

    def say(text: str) -> None:
        if ranks.first:
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    if written.checked.data.test and next(corpus.pairs("test"), None) is None:
        origin = Origin(str(corpus.paths("test")[0]))
        raise DataError(
            origin, "no pairs to test on", remedy="name files that have some, or leave data.test out"
        )
    words = sum(len(pair.target.split()) for pair, _ in corpus.pairs("train"))
    recipe = written.completed(corpus.size, words, cuda=ranks.device.type == "cuda", ranks=ranks.count)
    if ranks.first:
        if not begun:
            clear(folder)
        tokenizer = _tokenizer(recipe, corpus, folder, begun=begun)
        for split in ("train", "valid"):
            build_store(corpus, split, tokenizer, folder / STORES[split])
    ranks.wait()
    tokenizer = Tokenizer.load(folder)
    store, counts = build_store(corpus, "train", tokenizer, folder / STORES["train"])
    rest = corpus.size - counts.read - counts.skipped
    held = "" if recipe.data.valid else f", {rest:,} held out to validate on"
    say(
        f"{counts.used:,} pairs to learn from{held}; {words:,} target words; "
        f"{len(tokenizer):,} tokens in the vocabulary" + _left_out(counts, recipe)
    )
    if recipe.tokenizer.kind == "words" and not begun:
        _warn_of_changes(tokenizer, corpus, say)
    torch.manual_seed(recipe.train.seed)
    shape = recipe.model.build(len(tokenizer))
    model = Seq2Seq(shape).to(ranks.device).train()
    bodies = (shape.encoder.body, shape.decoder.body)
    static = ranks.device.type == "cuda" and all(map(is_static, bodies))
    plan = Plan(pair_lengths(store), recipe.batch)
    feed = PairFeed(store, plan, static=static, rank=ranks.rank, ranks=ranks.count)
    return Prepared(recipe, corpus, tokenizer, model, feed, counts, ranks, static)


def _warn_of_changes(tokenizer: Tokenizer, corpus: Corpus, say: Callable[[str], None]) -> None:
    """Words with every sign by itself may not come back as they were: then no translation will be right."""
    texts = [pair.target.strip() for pair, _ in islice(corpus.pairs("train"), LOOKED_AT)]
    count, first = tokenizer.changed(texts)
    if first is not None:
        say(
            f"tokenizer.kind='words': {count:,} of the first {len(texts):,} target texts do not come back as "
            f"they were, like {first[0]!r}, which becomes {first[1]!r}; where spaces part the words, choose "
            "tokenizer.kind=whitespace"
        )


def _left_out(counts: PairCounts, recipe: TranslateRecipe) -> str:
    parts = []
    if counts.long:
        parts.append(f"{counts.long:,} with more than {recipe.data.longest} tokens on a side")
    if counts.empty:
        parts.append(f"{counts.empty:,} with an empty side")
    if counts.skipped:
        parts.append(counts.why)
    return f"\nleft out: {'; '.join(parts)}" if parts else ""


def _tokenizer(recipe: TranslateRecipe, corpus: Corpus, folder: Path, *, begun: bool) -> Tokenizer:
    """The one in the folder if it was learned from the same text with the same settings."""
    text = replace(recipe.data, root="", test=())
    settings = json.dumps([to_dict(recipe.tokenizer), to_dict(text)])
    # of what it is validated on as well: figures of other text cannot be compared
    wanted = fingerprint([*corpus.paths("train"), *corpus.paths("valid")], settings)
    return settled_tokenizer(
        folder, wanted, begun=begun, make=lambda: Tokenizer.train(texts(corpus, "train"), recipe.tokenizer)
    )


class Validator:
    """Figures of the model as it stands, on the validation pairs."""

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        self._prepared = prepared
        recipe, corpus = prepared.recipe, prepared.corpus
        pairs = [
            (pair, to) for pair, to in corpus.pairs("valid") if pair.source.strip() and pair.target.strip()
        ]
        chosen = spread_out(pairs, recipe.valid.sentences)
        self._sources = [pair.source for pair, _ in chosen]
        self._references = [pair.target for pair, _ in chosen]
        self._to = [to for _, to in chosen if to is not None] or None
        store, _ = build_store(corpus, "valid", prepared.tokenizer, folder / STORES["valid"])
        lengths = pair_lengths(store)
        plan = Plan(lengths, BatchConfig(tokens=max(recipe.batch.tokens, least_tokens(lengths))))
        self._feed = PairFeed(store, plan, static=prepared.static)
        beam = recipe.valid.beam
        self._decoding = DecodeConfig(method="greedy") if beam == 1 else DecodeConfig(beam=beam)
        self._rounds = 0

    def __call__(self) -> tuple[dict[str, float], str]:
        translator = translator_of(self._prepared, self._decoding)
        found = translator.translate(self._sources, to=self._to)
        slow: tuple[MetricName, ...] = ("chrf",) if self._prepared.recipe.valid.metric == "chrf" else ()
        scores = score([each.text for each in found], [self._references], ("bleu", "exact", *slow))
        figures = {name: each.value for name, each in scores.items()}
        figures |= plugin_figures("translate", [each.text for each in found], self._references)
        shown = self._rounds % len(found)  # another one each time
        self._rounds += 7
        example = f"  {self._sources[shown]}\n  -> {found[shown].text}"
        return {"loss": in_pieces(self._loss), **figures}, example

    def _loss(self, split: int) -> float:
        """Mean nll of a token."""
        loss = TranslationLoss(self._prepared.model, LossConfig(label_smoothing=0.0))
        device = self._prepared.ranks.device
        totals = torch.zeros(len(Sums._fields), device=device)
        bfloat16 = self._prepared.recipe.train.bfloat16(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            for step in range(1, self._feed.plan.steps(0) + 1):
                for _, part in self._feed.parts(step, split):
                    totals += torch.stack([*loss(part.to(device))])
        return float(totals[1] / totals[2])


def spread_out(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly from the first to the last: files come one after the other."""
    count = min(most, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def translator_of(prepared: Prepared, decoding: DecodeConfig) -> Translator:
    return Translator(
        prepared.model,
        prepared.tokenizer,
        longest=max(prepared.counts.longest[0], 3),
        languages=prepared.recipe.data.languages,
        several_sentences=prepared.counts.share_of_several,
        decoding=decoding,
        precision="bfloat16" if prepared.recipe.train.bfloat16(prepared.ranks.device) else "float32",
    )


def job_of(prepared: Prepared, folder: Path) -> Job:
    recipe, counts = prepared.recipe, prepared.counts
    files = [str(path) for path in prepared.corpus.paths("train")]
    return Job(
        recipe=recipe,
        model=prepared.model,
        loss=TranslationLoss(prepared.model, recipe.loss),
        feed=prepared.feed,
        validate=Validator(prepared, folder),
        metric=(recipe.valid.metric, better("translate", recipe.valid.metric, ("loss",))),
        ranks=prepared.ranks,
        static=prepared.static,
        d_model=prepared.model.config.decoder.d_model,
        root=prepared.corpus.root,
        about={
            "model": to_dict(prepared.model.config),
            "longest": counts.longest[0],
            "languages": list(recipe.data.languages),
            **({} if counts.several is None else {"several_sentences": counts.share_of_several}),
            "decode": to_dict(recipe.decode),
        },
        data={"files": files, **asdict(counts)},
        test=partial(_test, prepared) if recipe.data.test else None,
    )


def _test(prepared: Prepared) -> tuple[dict[str, Any], list[str]]:
    """The model on the test pairs, as it will be used."""
    pairs = list(prepared.corpus.pairs("test"))
    to = [to for _, to in pairs if to is not None] or None
    translator = translator_of(prepared, prepared.recipe.decode)
    found = translator.translate([pair.source for pair, _ in pairs], to=to)
    scores = score([each.text for each in found], [[pair.target for pair, _ in pairs]])
    lines = [f"{each.name} {each.value:.2f}  {each.signature}" for each in scores.values()]
    return {name: each.to_dict() for name, each in scores.items()}, lines
