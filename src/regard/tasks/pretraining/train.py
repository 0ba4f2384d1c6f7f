"""Pretraining an encoder on plain text: masked tokens, and next sentences too (Devlin et al. 2019, 3.1).

    loss = - sum log p(token | text with masks) + weight sum over sequences - log p(follows or not)

Both are sums, so that parts of a batch add up to the batch; the trainer divides by the number of masked
tokens. A sequence has m of them on average, m = share times its mean length, a constant of the run; with

    weight = next_weight m

the mean loss of the next sentences counts `next_weight` times as much as that of the masked tokens.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from regard.config import to_dict
from regard.data import Store
from regard.data.corruption import Corruption, word_starts
from regard.models.headed import Headed
from regard.models.heads import MaskedHead
from regard.settings.models import MaskedConfig
from regard.settings.training import BatchConfig, MaskingConfig
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.feed import in_pieces
from regard.tasks.base.job import Job
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_encoder
from regard.tasks.base.splits import Split
from regard.tasks.pretraining.chunks import build_store
from regard.tasks.pretraining.data import Frame, MaskedBatch, MaskedFeed, NextChunks
from regard.tasks.pretraining.recipe import PretrainRecipe
from regard.text import Tokenizer
from regard.train.objectives import HIDDEN, Sums, head_loss, wide
from regard.train.ranks import Ranks

BETTER: dict[str, Literal["high", "low"]] = {"loss": "low", "accuracy": "high", "next_accuracy": "high"}
STORES: dict[Split, str] = {"train": "tokens", "valid": "tokens.valid"}
VALIDATION = 1_000_003
"""Seeds what validation text is asked for, whatever the run's seed: figures can be compared."""
SHOWN = 24
"""Tokens of the example of a validation."""


class PretrainLoss:
    def __init__(self, model: Headed, weight: float = 0.0) -> None:
        """`weight` of a sequence's loss beside that of a masked token, where next sentences are predicted."""
        self.model, self.weight = model, weight
        self._masked = _masked_loss

    def compile(self) -> None:
        """So that scores over the vocabulary and their losses are computed together."""
        self._masked = torch.compile(_masked_loss, fullgraph=True, dynamic=False)

    def __call__(self, batch: MaskedBatch) -> Sums:
        head, text = cast(MaskedHead, self.model.head), batch.text
        states = self.model.states(text.ids, text.layout, batch.segments)
        sums = self._masked(head, states, batch.places, batch.labels)
        if batch.follows is None:
            return sums
        follows = F.cross_entropy(
            wide(head.follows(states, text.layout)), batch.follows, ignore_index=HIDDEN, reduction="sum"
        )
        return sums._replace(loss=sums.loss + self.weight * follows)


def _masked_loss(head: MaskedHead, states: Tensor, places: Tensor, labels: Tensor) -> Sums:
    return head_loss(head.vocabulary, head.before(states.index_select(0, places)), labels, 0.0)


def prepare(
    written: Written[PretrainRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    corpus = DocumentCorpus(written.checked.data, written.where)
    survey = corpus.survey
    settled = settle_encoder(
        written,
        examples=survey.documents,
        words=survey.words,
        lines=corpus.lines("train"),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        head=lambda recipe, start: _head(recipe.objective.next_sentence, start and start.config.head),
        folder=folder,
        ranks=ranks,
        begun=begun,
    )
    recipe, model, tokenizer = settled.recipe, settled.model, settled.reader.tokenizer
    objective, seed, longest = recipe.objective, recipe.train.seed, settled.reader.longest
    frame = Frame(tokenizer, pair=objective.next_sentence)
    size = (longest - frame.extra) // (2 if objective.next_sentence else 1)

    def stores() -> dict[Split, Store]:
        return {
            split: build_store(corpus, split, tokenizer, folder / name, size)
            for split, name in STORES.items()
        }

    if ranks.builder:
        stores()  # once on a machine, and not by every rank
    ranks.wait()
    text = stores()
    feed = MaskedFeed(
        text["train"],
        frame,
        corruption(objective.masking(), tokenizer, seed),
        recipe.batch,
        nexts=NextChunks(_documents(text["train"]), seed, folder) if objective.next_sentence else None,
        static=settled.static,
        rank=ranks.rank,
        ranks=ranks.count,
    )
    validator = Validator(recipe, model, tokenizer, text["valid"], frame, ranks)
    facts: dict[str, dict[str, int]] = {split: _facts(store) for split, store in text.items()}
    if ranks.first:
        _say(console, recipe, corpus, facts, feed, validator, len(tokenizer))
    return settled.job(
        loss=PretrainLoss(model, next_weight(recipe, text["train"], feed)),
        feed=feed,
        validate=validator,
        metric=(recipe.valid.metric, BETTER[recipe.valid.metric]),
        root=corpus.root,
        about={"model": to_dict(model.config), "longest": longest, "labels": []},
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "words": survey.words,
            **facts,
            "skipped": survey.skipped.total,
            "why": str(survey.skipped),
        },
        unit="masked tokens",
    )


def _head(next_sentence: bool, start: object) -> MaskedConfig:
    """The start's own, if it has one: its weights would not fit another."""
    own = start if isinstance(start, MaskedConfig) else MaskedConfig()
    return replace(own, next_sentence=next_sentence)


def corruption(config: MaskingConfig, tokenizer: Tokenizer, seed: int) -> Corruption:
    return Corruption(
        config,
        mask=tokenizer.require("mask"),
        vocabulary=len(tokenizer),
        specials={tokenizer.vocabulary[token] for token in tokenizer.specials},
        seed=seed,
        starts=None if config.unit == "token" else word_starts(tokenizer),
    )


def next_weight(recipe: PretrainRecipe, store: Store, feed: MaskedFeed) -> float:
    """What the loss of a sequence counts beside that of a masked token."""
    sizes = store["ids"].lengths
    length = float(sizes[feed.rows].mean() + sizes.mean())
    return recipe.objective.next_weight * recipe.objective.share * length


def _documents(store: Store) -> np.ndarray:
    return np.asarray(store["document"].values)


def _facts(store: Store) -> dict[str, int]:
    return {
        "documents": len(np.unique(_documents(store))),
        "chunks": len(store),
        "tokens": int(store["ids"].offsets[-1]),
    }


def _of_documents(facts: Mapping[str, int]) -> str:
    count = facts["documents"]
    return f"{count:,} documents" if count != 1 else "1 document"


def _say(
    console: Console,
    recipe: PretrainRecipe,
    corpus: DocumentCorpus,
    facts: Mapping[str, Mapping[str, int]],
    feed: MaskedFeed,
    validator: "Validator",
    vocabulary: int,
) -> None:
    train, valid, skipped = facts["train"], facts["valid"], corpus.survey.skipped
    place = f" in {_of_documents(valid)}" + ("" if recipe.data.valid else ", held out,")
    if corpus.share:
        place = f", the {'end' if valid['documents'] == 1 else 'ends'} of {_of_documents(valid)},"
    lines = [
        f"{train['tokens']:,} tokens in {_of_documents(train)} to learn from, {valid['tokens']:,} tokens"
        f"{place} to validate on; {vocabulary:,} tokens in the vocabulary"
    ]
    if len(validator.rows) < validator.whole:
        lines.append(f"validated on {len(validator.rows):,} of {validator.whole:,} sequences")
    if recipe.objective.next_sentence:
        lines.append(
            f"{len(feed.rows):,} of {train['chunks']:,} chunks have another behind them and stand first"
        )
        if train["documents"] == 1:
            lines.append("there is one document: what does not follow is from elsewhere in it")
    if skipped.total:
        lines.append(f"left out: {skipped}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


class Validator:
    """Figures of the model as it stands, on masks that are the same every time."""

    def __init__(
        self,
        recipe: PretrainRecipe,
        model: Headed,
        tokenizer: Tokenizer,
        store: Store,
        frame: Frame,
        ranks: Ranks,
    ) -> None:
        objective = recipe.objective
        nexts = NextChunks(_documents(store), VALIDATION, store.folder) if objective.next_sentence else None
        lengths = store["ids"].lengths
        self.whole = len(store) if nexts is None else len(nexts.firsts)
        """Sequences that there are."""
        room = frame.extra + int(lengths.max()) * (1 if nexts is None else 2)
        self._feed = MaskedFeed(
            store,
            frame,
            corruption(objective.masking(), tokenizer, VALIDATION),
            BatchConfig(tokens=max(recipe.batch.tokens, room)),
            nexts=nexts,
            most=recipe.valid.sequences,
            static=False,
        )
        self.rows = self._feed.rows
        self._model, self._tokenizer = model, tokenizer
        self._device, self._bfloat16 = ranks.device, recipe.train.bfloat16(ranks.device)
        self._rounds = 0

    def __call__(self) -> tuple[dict[str, float], str]:
        totals = in_pieces(self._totals).tolist()
        loss, right, tokens, followed, sequences = totals
        loss = loss / max(tokens, 1)
        figures = {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / max(tokens, 1)}
        if sequences:
            figures["next_accuracy"] = followed / sequences
        self._rounds += 1
        return figures, self._example()

    def _totals(self, split: int) -> Tensor:
        totals = torch.zeros(5, dtype=torch.float64, device=self._device)
        for step in range(1, self._feed.plan.steps(0) + 1):
            for _, part in self._feed.parts(step, split):
                totals += self._sums(part.to(self._device))
        return totals

    def _sums(self, batch: MaskedBatch) -> Tensor:
        """Negative log-likelihood, tokens predicted right, tokens; next sentences right, sequences."""
        states, scores = self._scores(batch)
        nll = F.cross_entropy(scores, batch.labels, reduction="sum")
        right = (scores.argmax(dim=-1) == batch.labels).sum()
        found = [nll, right, len(batch.labels), 0, 0]
        if batch.follows is not None:
            with self._precision():
                head = cast(MaskedHead, self._model.head)
                followed = head.follows(states, batch.text.layout).argmax(dim=-1) == batch.follows
            found[3:] = [followed.sum(), len(followed)]
        return torch.stack([torch.as_tensor(each, device=self._device).double() for each in found])

    def _scores(self, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        with self._precision():
            states = self._model.states(batch.text.ids, batch.text.layout, batch.segments)
            return states, self._model.head(states.index_select(0, batch.places)).float()

    def _precision(self) -> Any:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16)

    def _example(self) -> str:
        """The beginning of a sequence, another one each time, with what the model would put in."""
        row = np.array([self._rounds * 7 % len(self.rows)])
        batch = self._feed.batch(row, None, 0).to(self._device)
        guessed = self._scores(batch)[1].argmax(dim=-1)
        ids = batch.text.ids.clone()
        whole = ids.index_copy(0, batch.places, guessed)
        asked, said = (
            self._tokenizer.decode(each[1 : 1 + SHOWN], skip_specials=False).replace("\n", " ")
            for each in (ids, whole)
        )
        return f"  {asked}\n  -> {said}"
