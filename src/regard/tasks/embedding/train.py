"""Training sentence vectors from pairs that mean the same; contrast.py is what is learned from them.

A text may be its own other: two passes with other dropout (SimCSE, Gao et al. 2021). A start that has prompts
is trained with them: the first of a pair is what is asked, the other what is searched.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from regard.data import Plan
from regard.hub import Checkpoint
from regard.models.headed import Headed
from regard.settings.models import EmbedConfig, PoolConfig
from regard.tasks.base import metrics
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.reading import Reader, quietly
from regard.tasks.base.recipe import Written
from regard.tasks.base.settle import SettledEncoder, settle_encoder
from regard.tasks.base.splits import Split
from regard.tasks.embedding.batches import EncodedPairs, PairedFeed, PairUse, encode
from regard.tasks.embedding.contrast import ContrastiveLoss, contrastive
from regard.tasks.embedding.data import Held, distinct, held_pairs, negatives_of, open_pairs
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.tasks.embedding.recipe import ContrastiveConfig, EmbedRecipe
from regard.text import Pair
from regard.train.ranks import Ranks


def prepare(
    written: Written[EmbedRecipe], folder: Path, ranks: Ranks, console: Console, *, begun: bool = False
) -> Job:
    checked = written.checked
    corpus = open_pairs(checked.data, written.where)
    pairs = words = 0
    for pair, _ in corpus.pairs("train"):
        pairs += 1
        words += sum(len(text.split()) for text in _texts(pair))
    valid, test = (held_pairs(corpus, split, written.where) for split in ("valid", "test"))
    # what is tested on decides what is learned from, if it is left out there
    apart = checked.data.overlap == "skip"
    decisive: tuple[Split, ...] = ("train", "valid", "test") if apart else ("train", "valid")
    settled = settle_encoder(
        written,
        examples=pairs,
        words=words,
        lines=chain.from_iterable(_texts(pair) for pair, _ in corpus.pairs("train")),
        paths=[path for split in decisive for path in corpus.paths(split)],
        head=_head,
        folder=folder,
        ranks=ranks,
        begun=begun,
    )
    recipe, model, reader = settled.recipe, settled.model, settled.reader
    held_out = (*valid, *test) if apart else ()
    measured = frozenset(text for held in held_out for text in (*held.sources, *held.targets))
    guided, skip = bool(recipe.loss.guide), recipe.data.too_long == "skip"
    _check_dimensions(recipe, model)
    embedder = Embedder(reader)
    sides = tuple(embedder.prompt_text(embedder.prompt_of(side)) for side in ("query", "passage"))
    encoded, counts = encode(
        reader, corpus, skip_long=skip, apart=measured, prompts=(sides[0], sides[1]), keep=guided
    )
    if guided:
        settled, encoded = _guided(settled, encoded, written.where)
        recipe = settled.recipe
    plan = settled.plan(encoded.lengths)
    chosen = [distinct(held, recipe.valid.sentences) for held in valid]
    if ranks.first:
        _say(console, recipe, counts, plan, chosen, reader)
    return settled.job(
        loss=ContrastiveLoss(model, recipe.loss),
        feed=PairedFeed(encoded, plan, static=settled.static, rank=ranks.rank, ranks=ranks.count),
        validate=partial(_validate, embedder, chosen, recipe.loss),
        metric=(recipe.valid.metric, better("embed", recipe.valid.metric, ("loss",))),
        root=corpus.root,
        about=embedder.about(),
        data={
            "files": [str(path) for path in corpus.paths("train")],
            **asdict(counts),
            "valid": {held.name: len(held.sources) for held in chosen},
            "test": {held.name: len(held.sources) for held in test},
        },
        test=partial(_test, embedder, test) if test else None,
        unit="pairs",
        perplexity=False,
    )


def _texts(pair: Pair) -> tuple[str, ...]:
    return (pair.source, pair.target, *negatives_of(pair))


def _guided(
    settled: SettledEncoder, encoded: EncodedPairs, where: Path
) -> tuple[SettledEncoder, EncodedPairs]:
    """The training texts with the guide's vectors, each read once, or once for each side that it is on, where
    the guide's prompts differ; and the recipe with its path in full."""
    name = settled.recipe.loss.guide
    folder = next((each for each in (where / name, Path(name)) if each.is_dir()), Path(name)).resolve()
    guide = open_embedder(folder, device=str(settled.ranks.device))
    sides = [guide.prompt_of(side) for side in ("query", "passage")]
    with quietly():
        if guide.prompt_text(sides[0]) == guide.prompt_text(sides[1]):
            every = guide.embed(encoded.written, prompt=sides[0], normalised=True)
            vectors = np.broadcast_to(every[:, None], (len(every), 2, every.shape[1]))
        else:
            vectors = _sided(guide, encoded, sides)
    loss = replace(settled.recipe.loss, guide=str(folder))
    settled = replace(settled, recipe=replace(settled.recipe, loss=loss))
    return settled, replace(encoded, guide=vectors, written=())


def _sided(guide: Embedder, encoded: EncodedPairs, prompts: Sequence[str | None]) -> np.ndarray:
    """float32 [texts, 2, width]; nothing, where a text is not on a side."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for side, prompt in enumerate(prompts):
        mine = np.unique(encoded.pairs[:, side])
        if side == 1 and encoded.negatives is not None:
            mine = np.union1d(mine, encoded.negatives.values)
        texts = [encoded.written[number] for number in mine]
        found.append((mine, guide.embed(texts, prompt=prompt, normalised=True)))
    vectors = np.zeros((len(encoded.written), 2, found[0][1].shape[1]), dtype=np.float32)
    for side, (mine, own) in enumerate(found):
        vectors[mine, side] = own
    return vectors


def _check_dimensions(recipe: EmbedRecipe, model: Headed) -> None:
    width = getattr(model.config.head, "project", 0) or model.config.encoder.d_model
    wrong = [each for each in recipe.loss.dimensions if each >= width]
    if wrong:
        raise ValueError(
            f"loss.dimensions={[*recipe.loss.dimensions]}: vectors have {width}, so choose fewer"
        )


def _head(recipe: EmbedRecipe, start: Checkpoint | None) -> EmbedConfig:
    own = start.config.head if start is not None else None
    known = own if isinstance(own, EmbedConfig) else EmbedConfig()
    return replace(
        known,
        normalised=True,
        similarity="cosine",
        pool=known.pool if recipe.head.pool == "auto" else PoolConfig(kind=recipe.head.pool),
        project=known.project if recipe.head.project is None else recipe.head.project,
    )


def _say(
    console: Console, recipe: EmbedRecipe, counts: PairUse, plan: Plan, valid: Sequence[Held], reader: Reader
) -> None:
    held = "" if recipe.data.valid else ", held out,"
    count = sum(len(each.sources) for each in valid)
    lines = [
        f"{counts.used:,} pairs to learn from, {count:,}{held} to validate on; "
        f"{len(reader.tokenizer):,} tokens in the vocabulary; "
        f"about {counts.used // len(plan.epoch(0)):,} pairs in a batch"
    ]
    if counts.negatives:
        lines.append(f"{counts.negatives:,} texts beside them that do not answer")
    if counts.unused:
        lines.append(
            f"{counts.unused:,} more are left out: also to validate or test on, or longer than "
            f"{reader.longest} tokens"
        )
    if counts.overlap:
        lines.append(f"{counts.overlap:,} pairs have a text to validate or test on: left out")
    if counts.empty:
        lines.append(f"{counts.empty:,} pairs have nothing on a side: left out")
    if counts.long:
        what = "only their beginnings are read" if recipe.data.too_long == "cut" else "left out"
        lines.append(f"{counts.long:,} pairs have texts of more than {reader.longest} tokens: {what}")
    if counts.skipped:
        lines.append(f"left out: {counts.why}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _vectors(embedder: Embedder, held: Held) -> tuple[np.ndarray, np.ndarray]:
    with quietly():
        sources = embedder.embed(held.sources, prompt=embedder.prompt_of("query"))
        return sources, embedder.embed(held.targets, prompt=embedder.prompt_of("passage"))


def _mean(figures: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in figures])) for name in figures[0]}


def _validate(
    embedder: Embedder, valid: Sequence[Held], config: ContrastiveConfig
) -> tuple[dict[str, float], str]:
    """Means over the pairs of files, each both ways. The loss is of all pairs that look for each other at
    once, so that it is no batch's."""
    found = []
    for held in valid:
        sources, targets = _vectors(embedder, held)
        numbers = torch.arange(2 * len(sources)).reshape(-1, 2)
        sums = contrastive(torch.from_numpy(sources), torch.from_numpy(targets), numbers, config)
        both = _mean([metrics.retrieval(sources, targets), metrics.retrieval(targets, sources)])
        own = plugin_figures("embed", sources, targets)
        found.append({"loss": float(sums.loss / sums.tokens), **both, **own})
    return _mean(found), ""


def _test(embedder: Embedder, test: Sequence[Held]) -> tuple[dict[str, Any], list[str]]:
    """On the pairs as they stand, so that figures compare with those of others."""
    files, lines = {}, []
    for held in test:
        sources, targets = _vectors(embedder, held)
        there, back = metrics.retrieval(sources, targets), metrics.retrieval(targets, sources)
        files[held.name] = {**_mean([there, back]), "there": there, "back": back, "pairs": len(sources)}
        lines.append(
            f"{held.name}: {_line(files[held.name])} (accuracy there {there['accuracy_at_1']:.4f}, back "
            f"{back['accuracy_at_1']:.4f}; {len(sources):,} pairs)"
        )
    figures = {name: float(np.mean([own[name] for own in files.values()])) for name in NAMES}
    if len(files) > 1:
        lines.append(f"mean: {_line(figures)}")
    return {**figures, "files": files}, lines


NAMES = ("accuracy_at_1", "recall_at_10", "mrr")


def _line(figures: dict[str, Any]) -> str:
    return "  ".join(f"{name} {figures[name]:.4f}" for name in NAMES)
