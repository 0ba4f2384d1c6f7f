"""Training a translator: from a recipe to a job for the trainer.

read_corpus   read the text, learn the tokenizer, fill the token store, build the model
job_of        the loss, validation by decoding, and the test, as the trainer takes them
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from torch import Tensor

from regard.config import ConfigError
from regard.data import Mix, Plan, Store, joined
from regard.decode import DecodeConfig
from regard.models.seq2seq import Seq2Seq
from regard.nn.adapter import adapt
from regard.nn.embedding import VocabularyHead
from regard.nn.stacks import is_static
from regard.settings.training import BatchConfig, LossConfig
from regard.tasks.base.adapter import clear_adapter, digest, write_adapted
from regard.tasks.base.feed import in_pieces
from regard.tasks.base.folder import clear
from regard.tasks.base.job import Job
from regard.tasks.base.measures import better, plugin_figures
from regard.tasks.base.pairs import Corpus
from regard.tasks.base.recipe import Written
from regard.tasks.translation.batches import PairBatch, PairFeed
from regard.tasks.translation.confidence import CONFIDENCE, fit, quality
from regard.tasks.translation.data import (
    MIXED,
    STORES,
    PairCounts,
    Pairs,
    build_store,
    epoch_of,
    least_tokens,
    pair_lengths,
    settle_text,
    target_words,
)
from regard.tasks.translation.evaluate import MetricName, score
from regard.tasks.translation.fuzzy import Fuzzy
from regard.tasks.translation.inline import Inline
from regard.tasks.translation.prompts import prompt_facts, prompt_text, with_prompt
from regard.tasks.translation.recipe import TranslateRecipe
from regard.tasks.translation.result import Translation
from regard.tasks.translation.start import built, described, find_start
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Origin, Tokenizer
from regard.train.objectives import Sums, agreeing_loss, head_loss
from regard.train.ranks import Ranks

Item = TypeVar("Item")

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
    general: PairCounts | None
    """What became of the pairs that are mixed in."""
    start: Translator | None
    ranks: Ranks
    static: bool

    @property
    def longest(self) -> int:
        """The most tokens of a source that the model was trained on."""
        known = [each.longest[0] for each in (self.counts, self.general) if each is not None]
        return max(known if self.start is None else [*known, self.start.longest])

    @property
    def languages(self) -> tuple[str, ...]:
        return self.recipe.data.languages if self.start is None else self.start.languages

    @property
    def prompts(self) -> tuple[Mapping[str, str], str]:
        """What may stand before a source, and the name of the one that does."""
        return prompts_of(self.recipe, self.start)

    @property
    def several_sentences(self) -> float | None:
        """The share of sources with several sentences, where there were the most: what can be translated at
        once does not become less."""
        counted = [each.share_of_several for each in (self.counts, self.general) if each is not None]
        started = None if self.start is None else self.start.several_sentences
        return max((each for each in (*counted, started) if each is not None), default=None)

    @property
    def fuzzy(self) -> Fuzzy | None:
        """How the model is given near matches."""
        known = [each.longest_matched for each in (self.counts, self.general) if each is not None]
        started = None if self.start is None else self.start.fuzzy
        if not any(known):
            return started
        longest = max(known if started is None else [*known, started.longest])
        return Fuzzy(at_least=self.recipe.data.fuzzy.at_least, longest=longest)

    @property
    def inline(self) -> Inline | None:
        """How the model is given terms."""
        known = [each.longest_annotated for each in (self.counts, self.general) if each is not None]
        started = None if self.start is None else self.start.inline
        if not any(known):
            return started
        return Inline(longest=max(known if started is None else [*known, started.longest]))


def prompts_of(recipe: TranslateRecipe, start: Translator | None) -> tuple[Mapping[str, str], str]:
    known, default = ({}, "") if start is None else (start.prompts, start.default_prompt)
    return with_prompt(known, default, recipe.data.prompt)


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
    words = target_words(corpus)
    sizes = epoch_of(corpus, words, written.checked.data.mix.share)
    recipe = written.completed(*sizes, cuda=ranks.device.type == "cuda", ranks=ranks.count)
    start, recipe = find_start(recipe, written)
    reads = None if start is None else start.reads()
    if start is not None:
        say(described(start, recipe.model.start))
    prompt = prompt_text(*prompts_of(recipe, start), None)
    if ranks.builder:
        if not begun:
            clear(folder)
            clear_adapter(folder)
        own = None if start is None else start.tokenizer
        settle_text(recipe, corpus, folder, begun=begun, own=own, reads=reads, prompt=prompt)
    ranks.wait()
    tokenizer = Tokenizer.load(folder)
    how: Any = {"reads": reads, "prompt": prompt}
    store, counts = build_store(corpus, "train", tokenizer, folder / STORES["train"], **how)
    rest = corpus.size - counts.read - counts.skipped
    held = "" if recipe.data.valid else f", {rest:,} held out to validate on"
    say(
        f"{counts.used:,} pairs to learn from{held}; {words:,} target words; "
        f"{len(tokenizer):,} tokens in the vocabulary" + _left_out(counts, recipe)
    )
    source, mix, general = _mixed(recipe, corpus, store, tokenizer, folder, how)
    if mix is not None and general is not None:
        say(
            f"mixed in: {mix.drawn:,} of {general.used:,} general pairs an epoch, for "
            f"{recipe.data.mix.share:.0%} of its target tokens" + _left_out(general, recipe)
        )
    if recipe.data.fuzzy.share:
        say(_matched(recipe, [each for each in (counts, general) if each is not None]))
    if recipe.data.terms.share:
        say(_annotated([each for each in (counts, general) if each is not None]))
    if recipe.tokenizer.kind == "words" and start is None and not begun:
        _warn_of_changes(tokenizer, corpus, say)
    torch.manual_seed(recipe.train.seed)
    if start is None:
        shape = recipe.model.build(len(tokenizer))
        model = Seq2Seq(shape)
    else:
        shape = recipe.model.changed(start.model.config)
        model = built(start, shape)
        if recipe.model.adapter.rank:
            adapt(model, recipe.model.adapter)
            learning = sum(each.numel() for each in model.parameters() if each.requires_grad)
            say(f"adapters of rank {recipe.model.adapter.rank}: {learning:,} parameters learn")
    model = model.to(ranks.device).train()
    bodies = (shape.encoder.body, shape.decoder.body)
    static = ranks.device.type == "cuda" and all(map(is_static, bodies))
    plan = Plan(pair_lengths(source), recipe.batch, mix)
    feed = PairFeed(source, plan, static=static, rank=ranks.rank, ranks=ranks.count)
    return Prepared(recipe, corpus, tokenizer, model, feed, counts, general, start, ranks, static)


def _mixed(
    recipe: TranslateRecipe,
    corpus: Corpus,
    store: Store,
    tokenizer: Tokenizer,
    folder: Path,
    how: Mapping[str, Any],
) -> tuple[Pairs, Mix | None, PairCounts | None]:
    """What batches are made of: own pairs, with general ones behind them where some are mixed in."""
    if corpus.general is None:
        return store, None, None
    general, counts = build_store(corpus.general, "train", tokenizer, folder / MIXED, **how)
    targets, others = pair_lengths(store)[1], pair_lengths(general)[1]
    mix = Mix.of(targets, others, recipe.data.mix.share, recipe.batch.seed)
    return joined(store, general), mix, counts


def _matched(recipe: TranslateRecipe, counts: Sequence[PairCounts]) -> str:
    config, count = recipe.data.fuzzy, sum(each.matched for each in counts)
    used = sum(each.used for each in counts)
    if not count:
        raise ConfigError(
            f"data.fuzzy: none of {used:,} sources has a near match of {config.at_least} % or more; lower "
            "data.fuzzy.at_least, raise its share, name another memory, or leave it out"
        )
    return f"near matches: {count:,} of {used:,} sources have one behind them, of {config.at_least} % or more"


def _annotated(counts: Sequence[PairCounts]) -> str:
    count, used = sum(each.annotated for each in counts), sum(each.used for each in counts)
    if not count:
        raise ConfigError(
            f"data.terms: none of {used:,} pairs has a term on both sides; name another glossary, raise "
            "data.terms.share, or leave it out"
        )
    return f"terms: {count:,} of {used:,} sources have some inside"


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
        reads = None if prepared.start is None else prepared.start.reads()
        place, prompt = folder / STORES["valid"], prompt_text(*prepared.prompts, None)
        store, _ = build_store(corpus, "valid", prepared.tokenizer, place, reads=reads, prompt=prompt)
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
        return {"loss": in_pieces(self._loss), **figures, **self._calibrated(found)}, example

    def _calibrated(self, found: Sequence[Translation]) -> dict[str, float]:
        """What its probabilities say of how good its translations are."""
        worth = [quality(each.text, own) for each, own in zip(found, self._references, strict=True)]
        fitted = fit([each.confidence for each in found], worth)
        known = {} if fitted is None else asdict(fitted)
        return {f"{CONFIDENCE}.{key}": value for key, value in known.items()}

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


def _learned(figures: Mapping[str, float]) -> dict[str, Any]:
    """The calibration among the figures of a validation, as config.json has it."""
    start = f"{CONFIDENCE}."
    own = {key.removeprefix(start): value for key, value in figures.items() if key.startswith(start)}
    return {CONFIDENCE: own} if own else {}


def spread_out(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly from the first to the last: files come one after the other."""
    count = min(most, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def translator_of(prepared: Prepared, decoding: DecodeConfig) -> Translator:
    start = prepared.start
    told: Any = {} if start is None else {"marks": start.marks, "source_language": start.source_language}
    prompts, default = prepared.prompts
    return Translator(
        prepared.model,
        prepared.tokenizer,
        longest=max(prepared.longest, 3),
        languages=prepared.languages,
        several_sentences=prepared.several_sentences,
        prompts=prompts,
        default_prompt=default,
        fuzzy=prepared.fuzzy,
        inline=prepared.inline,
        decoding=decoding,
        precision="bfloat16" if prepared.recipe.train.bfloat16(prepared.ranks.device) else "float32",
        **told,
    )


def job_of(prepared: Prepared, folder: Path) -> Job:
    recipe = prepared.recipe
    mixed = {} if prepared.general is None else {"mix": asdict(prepared.general)}
    files = [str(path) for path in prepared.corpus.paths("train")]
    adapted: dict[str, Any] = {}
    if recipe.model.adapter.rank and prepared.start is not None:
        base = digest(prepared.start.model)
        how: Any = {"task": recipe.task, "config": recipe.model.adapter, "base": base}
        how["told"] = prompt_facts(*prepared.prompts)
        adapted["write"] = partial(write_adapted, **how)
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
        about=translator_of(prepared, recipe.decode).about(),
        data={"files": files, **asdict(prepared.counts), **mixed},
        learned=_learned,
        test=partial(_test, prepared) if recipe.data.test else None,
        **adapted,
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
