"""How good a model is, as numbers that head tools can ask for again and again: more is better.

    bleu              of a translator, on pairs
    pair_likelihood   the same by - loss: mean log p of a token
    text_likelihood   of a language model: mean log p of a token, minus the log of its perplexity
    accuracy          of a classifier
    tag_f1            of a tagger

Pairs, texts and labels are lists, or files of a line for each.

>>> classifier = regard.load("runs/sentiment", regard.Classifier)
>>> accuracy = regard.look.measures.accuracy(classifier, ["A moving, funny film."], ["positive"])
>>> accuracy()
1.0
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch.nn.functional as F

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.look.heads import Metric
from regard.tasks.base.formats import only_lines
from regard.tasks.base.reading import quietly
from regard.tasks.classification.classifier import Classifier
from regard.tasks.language.generator import Generator
from regard.tasks.language.perplexity import Windows, nll
from regard.tasks.tagging.tagger import Tagger
from regard.tasks.tagging.train import measure as tag_figures
from regard.tasks.translation.evaluate import score
from regard.tasks.translation.translator import Translator
from regard.text import Tagged, read_conll, read_lines

Lines = Path | str | Sequence[str]
"""A file, or what would be its lines."""

GREEDY = DecodeConfig(method="greedy")


def lines_of(texts: Lines) -> list[str]:
    if isinstance(texts, Path | str):
        only_lines(texts)
        return [line.text for line in read_lines(texts)]
    return [*texts]


def bleu(
    translator: Translator,
    sources: Lines,
    references: Lines,
    *,
    to: str | None = None,
    decoding: DecodeConfig = GREEDY,
) -> Metric:
    """From 0 to 100; by greedy search, unless another is given."""
    texts, wanted = _side_by_side(sources, references)

    def measure() -> float:
        found = translator.translate(texts, to=to, decoding=decoding)
        return score([each.text for each in found], wanted, ["bleu"])["bleu"].value

    return measure


def pair_likelihood(
    translator: Translator, sources: Lines, targets: Lines, *, to: str | None = None, batch: int = 64
) -> Metric:
    """Mean log p of a token of the targets and of their ends, `batch` pairs at a time."""
    texts, wanted = _side_by_side(sources, targets)
    languages = translator.languages_of(to, len(texts))
    end, read = translator.end, translator.encode(texts, languages)
    written = translator.tokenizer.target.encode_batch(wanted)
    starts = [[translator.start, *translator.mark(language)] for language in languages]

    def measure() -> float:
        total, tokens = 0.0, 0
        with translator.ready():
            for first in range(0, len(read), batch):
                own = written[first : first + batch]
                source = pack(read[first : first + batch]).to(translator.device)
                begun = zip(starts[first : first + batch], own, strict=True)
                target = pack([[*start, *ids] for start, ids in begun]).to(translator.device)
                labels = pack([[*ids, end] for ids in own]).ids.to(translator.device)
                states = translator.model(source.ids, source.layout, target.ids, target.layout)
                states = states[target.layout.positions >= len(starts[first]) - 1]
                logits = translator.model.decoder.head(states).float()
                total -= float(F.cross_entropy(logits, labels, reduction="sum"))
                tokens += len(labels)
        return total / tokens

    return measure


def text_likelihood(generator: Generator, texts: Lines, *, context: int | None = None) -> Metric:
    """Mean log p of a token of a language model, all lines one text, in windows of a `context` (as long as
    the model reads, and at most 512, unless given) that move on by half."""
    if generator.tokenizer is None:
        raise ValueError("this generator has no tokenizer: measure its model by a function of your own")
    size = context or min(generator.longest or 512, 512)
    ids = np.array(generator.tokenizer.encode("\n".join(lines_of(texts))).ids, dtype=np.int64)
    if len(ids) < 2:
        raise ValueError(f"a text of {len(ids)} tokens predicts nothing: give a longer one")
    windows = Windows.over(0, len(ids), size, max(size // 2, 1))

    def measure() -> float:
        with generator.ready():
            total, tokens = nll(generator.model, ids, windows, bfloat16=generator.precision == "bfloat16")
        return -total / tokens

    return measure


def accuracy(classifier: Classifier, texts: Lines, labels: Lines, seconds: Lines | None = None) -> Metric:
    """The share of texts whose likeliest label is theirs."""
    read, wanted = _side_by_side(texts, labels)
    others = None if seconds is None else lines_of(seconds)
    for label in wanted:
        if label not in classifier.labels:
            raise ValueError(f"{label!r} is no label of this model: {', '.join(classifier.labels)}")

    def measure() -> float:
        with quietly():
            found = classifier.classify(read, others)
        return float(np.mean([own.label == label for own, label in zip(found, wanted, strict=True)]))

    return measure


def tag_f1(tagger: Tagger, sentences: Path | str | Sequence[Tagged]) -> Metric:
    """F1 of the spans, or the accuracy of the tags where they mark none; of sentences, or of a file in
    columns (CoNLL), the word first and the tag last."""
    records = [*read_conll(sentences)] if isinstance(sentences, Path | str) else [*sentences]
    laid = tagger.lay_out([record.words for record in records])
    wanted = [record.tags for record in records]

    def measure() -> float:
        figures = tag_figures(tagger, tagger.score(laid), wanted)
        return figures["f1"] if tagger.spans else figures["accuracy"]

    return measure


def _side_by_side(one: Lines, other: Lines) -> tuple[list[str], list[str]]:
    both = lines_of(one), lines_of(other)
    if len(both[0]) != len(both[1]) or not both[0]:
        raise ValueError(f"{len(both[0])} lines beside {len(both[1])}: give as many of both, and some")
    return both
