"""Training a language model: each token predicted from those before it (Radford et al. 2018).

loss = - sum_t log p(y_t | y_<t)
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from regard.config import to_dict
from regard.data import Store
from regard.decode import DecodeConfig, decode
from regard.models.decoder import Decoder
from regard.nn.adapter import adapt
from regard.nn.stacks import is_static
from regard.tasks.base.adapter import digest, write_adapted
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.feed import Sharing
from regard.tasks.base.job import Job
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import settle_tokenizer
from regard.tasks.base.splits import Split
from regard.tasks.language.data import USUAL, BlockBatch, BlockFeed, build_stream, document_bounds, learned_of
from regard.tasks.language.dialogues import Counts, build_dialogues, check_dialogue
from regard.tasks.language.perplexity import Windows, figures, nll
from regard.tasks.language.recipe import LanguageRecipe, within
from regard.tasks.language.start import built, find_start, lengthened
from regard.text import Tokenizer
from regard.train.objectives import Sums, head_loss
from regard.train.ranks import Ranks

STORES: dict[Split, str] = {"train": "tokens", "valid": "tokens.valid"}
SHOWN = 40
"""Tokens of the example of a validation, and as many to go on from."""


class LanguageLoss:
    def __init__(self, model: Decoder, label_smoothing: float = 0.0) -> None:
        self.model, self.label_smoothing = model, label_smoothing
        self._whole = head_loss

    def compile(self) -> None:
        """So that scores over the vocabulary and their losses are computed together."""
        self._whole = torch.compile(head_loss, fullgraph=True, dynamic=False)

    def __call__(self, batch: BlockBatch) -> Sums:
        states = self.model(batch.text.ids, batch.text.layout)
        return self._whole(self.model.head, states, batch.labels, self.label_smoothing)


def prepare(
    written: Written[LanguageRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    corpus = DocumentCorpus(written.checked.data, written.where, blank=True, check=check_dialogue)
    survey = corpus.survey
    recipe = written.completed(
        survey.documents, survey.words, cuda=ranks.device.type == "cuda", ranks=ranks.count
    )
    start, recipe = find_start(recipe, written.where)
    if start is not None and "tokens" not in written.plain.get("context", {}):
        recipe = within(recipe, start.longest)
    tokenizer = settle_tokenizer(
        recipe,
        start,
        ("\n".join(passage.lines) for passage in corpus.passages("train")),
        paths=[*corpus.paths("train"), *corpus.paths("valid")],
        folder=folder,
        ranks=ranks,
        begun=begun,
    )
    torch.manual_seed(recipe.train.seed)
    size = recipe.context.tokens
    if start is None:
        longest, model = size, Decoder(recipe.model.build(len(tokenizer), size))
    else:
        longest = max(size, start.longest)  # what it could read, it can still read
        model = built(start, recipe.model.start, lengthened(recipe.model.changed(start.config), longest))
        _check_context(size, model, recipe.model.start)
    base = ""
    if recipe.model.adapter.rank:
        base = digest(model)
        adapt(model, recipe.model.adapter)
    model = model.to(ranks.device).train()
    talks = recipe.data.documents == "messages"
    across = recipe.context.across and not talks

    def stores() -> dict[Split, Store]:
        if talks and start is not None:
            return {
                split: build_dialogues(corpus, split, tokenizer, start.conventions, folder / name)
                for split, name in STORES.items()
            }
        conventions = USUAL if start is None else start.conventions
        return {
            split: build_stream(corpus, split, tokenizer, folder / name, conventions)
            for split, name in STORES.items()
        }

    if ranks.builder:
        stores()  # once on a machine, and not by every rank
    ranks.wait()
    text = stores()
    static = ranks.device.type == "cuda" and is_static(model.config.body)
    sharing: Sharing = {"static": static, "rank": ranks.rank, "ranks": ranks.count}
    feed = BlockFeed(text["train"], recipe.batch, size=size, across=across, **sharing)
    validator = Validator(recipe, model, tokenizer, text["valid"], ranks)
    facts: dict[str, dict[str, int]] = {split: _facts(store) for split, store in text.items()}
    counts = [Counts.of(store) for store in text.values()] if talks else []
    refused = sum(each.refused for each in counts)
    if ranks.first:
        ends = corpus.share > 0
        train, valid = facts["train"], facts["valid"]
        what = f"the ends of {_documents(valid)}" if ends else f"{_documents(valid)}"
        lines = [
            f"{train['tokens']:,} tokens in {_documents(train)} to learn from; {valid['tokens']:,}, {what}, "
            f"to validate on; {len(tokenizer):,} tokens in the vocabulary"
        ]
        if validator.scored < valid["tokens"] - 1 - valid["documents"]:
            lines.append(f"validated on {validator.scored:,} tokens")
        if base:
            learning = sum(each.numel() for each in model.parameters() if each.requires_grad)
            lines.append(f"adapters of rank {recipe.model.adapter.rank}: {learning:,} parameters learn")
        lines += _told(counts, text["train"], size)
        if survey.skipped.total:
            lines.append(f"left out: {survey.skipped}")
        console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    adapted: dict[str, Any] = {}
    if base:
        how: Any = {"task": recipe.task, "config": recipe.model.adapter, "base": base}
        adapted["write"] = partial(write_adapted, **how)
    return Job(
        recipe=recipe,
        model=model,
        loss=LanguageLoss(model, recipe.loss.label_smoothing),
        feed=feed,
        validate=validator,
        metric=(recipe.valid.metric, "low"),
        ranks=ranks,
        static=static,
        d_model=model.config.d_model,
        root=corpus.root,
        about={
            "model": to_dict(model.config),
            "longest": longest,
            **(start.conventions.to_dict() if start else {}),
        },
        data={
            "files": [str(path) for path in corpus.paths("train")],
            "words": survey.words,
            **facts,
            "skipped": survey.skipped.total + refused,
            "why": str(survey.skipped),
        },
        **adapted,
    )


def _check_context(size: int, model: Decoder, where: str) -> None:
    positions = model.config.positions
    if positions.kind == "learned" and size > positions.longest:
        raise ValueError(
            f"context.tokens={size}, but the positions of {where} reach {positions.longest}: choose that at "
            "most"
        )


def _told(counts: Sequence[Counts], train: Store, size: int) -> Iterator[str]:
    """Of dialogues: what is not as one might think."""
    dialogues, examples, refused = (
        sum(getattr(each, name) for each in counts) for name in ("dialogues", "examples", "refused")
    )
    if examples > dialogues:
        yield (
            f"{examples:,} examples of {dialogues:,} dialogues: the chat template writes an answer otherwise "
            "when more follows, so each is an example of its own"
        )
    if counts and (long := int((np.diff(document_bounds(train)) > size + 1).sum())):
        yield f"{long:,} dialogues have more than {size} tokens, and are read in parts"
    if refused:
        yield f"left out: {refused:,} dialogues that the chat template takes no example from"


def _facts(store: Store) -> dict[str, int]:
    return {
        "documents": len(document_bounds(store)) - 1,
        "tokens": len(store["ids"].values),
        "bytes": int(np.asarray(store["bytes"].values).sum()),
        "words": int(np.asarray(store["words"].values).sum()),
    }


def _documents(facts: dict[str, int]) -> str:
    count = facts["documents"]
    return f"{count:,} documents" if count != 1 else "1 document"


class Validator:
    """Figures of the model as it stands, and how it goes on from some of the text."""

    def __init__(
        self, recipe: LanguageRecipe, model: Decoder, tokenizer: Tokenizer, store: Store, ranks: Ranks
    ) -> None:
        ids, size = store["ids"].values, recipe.context.tokens
        self._learned = learned_of(store)
        across = recipe.context.across and self._learned is None
        bounds = np.array([0, len(ids)]) if across else document_bounds(store)
        every = Windows.of(bounds, size, recipe.valid.stride or size)
        self._windows = every.spread(recipe.valid.tokens)
        self.scored = int(self._windows.scored.sum())
        """Tokens that are scored."""
        facts = _facts(store)
        share = self.scored / max(int(every.scored.sum()), 1)
        self._sizes = {"size": round(share * facts["bytes"]), "words": round(share * facts["words"])}
        self._ids, self._model, self._tokenizer, self._size = ids, model, tokenizer, size
        self._bfloat16 = recipe.train.bfloat16(ranks.device)
        self._rounds = 0

    def __call__(self) -> tuple[dict[str, float], str]:
        total, tokens = nll(
            self._model, self._ids, self._windows, bfloat16=self._bfloat16, learned=self._learned
        )
        self._rounds += 1
        sizes = self._sizes if self._learned is None else {}
        return figures(total, tokens, **sizes), self._example()

    def _example(self) -> str:
        """How the model goes on from some of the text, another place each time: a sample."""
        count = min(SHOWN, self._size // 2, len(self._ids))
        place = self._rounds * 7919 % max(len(self._ids) - count, 1)
        prefix = self._ids[place : place + count].tolist()
        state = self._model.start(rows=1, capacity=2 * count)
        config = DecodeConfig(method="sample", top_k=20, maximum=count)
        end = len(self._tokenizer)  # none: it shall write on
        nothing = range(end, self._model.config.vocabulary)  # rows without a token
        [[found]] = decode(self._model, state, [prefix], end=end, config=config, suppressed=[*nothing])
        own = self._tokenizer.decode(found.ids[count - 1 :], skip_specials=False)
        return f"  {_line(self._tokenizer.decode(prefix))}\n  -> {_line(own)}"


def _line(text: str) -> str:
    return text.replace("\n", " / ")
