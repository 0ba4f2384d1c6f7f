"""Is what onnxruntime computes what the model computes? Numbers first, then what they mean:

    classify    labels, probabilities        embed       the cosine of one with the other
    tag         tags of tokens               generate    likeliest next tokens, perplexity
    fill        fills of a masked token      answer      likeliest starts and ends

Numbers may differ by rounding, beside the greatest of their kind, and choices only where two are nearly as
good.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from regard.data.packing import Packed, pack
from regard.deploy.export import Difference, ExportError
from regard.deploy.onnx_run import Arrays, Graph, in_batches, padded
from regard.models.headed import Headed
from regard.models.heads import ClassifyHead, EmbedHead, MaskedHead, SpanHead, TagHead
from regard.tasks.base.reading import EncoderPredictor, Piece, quietly
from regard.tasks.base.terminal import say
from regard.tasks.classification.classifier import probabilities
from regard.tasks.classification.data import Problem
from regard.tasks.language.generator import Generator

ROUNDING = 1e-3
"""What float32's rounding may change of a number, at most, beside the greatest of them. Usual is 1e-6."""
SPANS = ("start_logits", "end_logits")
"""Outputs with a number for each token."""
LEAST = 0.99
"""The share of labels, tags, fills and next tokens that must be the same: only near ties may fall apart."""


class Gaps:
    """How far two rows of arrays are apart."""

    def __init__(self) -> None:
        self.total, self.count, self.most, self.greatest = 0.0, 0, 0.0, 0.0
        self.same, self.chosen = 0, 0

    def add(self, theirs: np.ndarray, ours: np.ndarray) -> None:
        gaps = np.abs(theirs - ours)
        self.total, self.count = self.total + float(gaps.sum()), self.count + gaps.size
        # nan compares as no maximum, and must not pass for equal
        self.most = max(self.most, float(np.nan_to_num(gaps, nan=np.inf).max(initial=0.0)))
        self.greatest = max(self.greatest, float(np.abs(ours).max(initial=0.0)))

    def agree(self, theirs: np.ndarray, ours: np.ndarray) -> None:
        """Choices, row by row."""
        same = (theirs == ours).reshape(len(ours), -1).all(axis=1)
        self.same, self.chosen = self.same + int(same.sum()), self.chosen + len(same)

    def report(self, what: str, console: Console) -> Difference:
        if not self.count:
            raise ExportError(f"{what}: no text left a token to compare; give others (--samples)")
        bound = ROUNDING * max(1.0, self.greatest)
        mean = self.total / self.count
        found = f"{what}: {mean:.1g} apart on average, {self.most:.1g} at most"
        say(console, found)
        if not self.most <= bound:
            raise ExportError(
                f"{found}, which is more than rounding: what was exported is another model, and was not "
                "kept; use the model's own folder"
            )
        return Difference(self.count, self.most, bound)

    def report_choices(self, what: str, console: Console) -> None:
        found = f"{self.same} of {self.chosen} {what} the same"
        say(console, found)
        if self.same < LEAST * self.chosen:
            raise ExportError(
                f"{found}, but at least {LEAST:.0%} are wanted: nothing was kept; give texts like those it "
                "was trained on (--samples)"
            )


def compare_encoder(
    model: EncoderPredictor, folder: Path, texts: Sequence[str], console: Console
) -> list[Difference]:
    """One for each output. Of texts too long to be read at once, the beginnings."""
    graph, reader = Graph(folder / "model.onnx"), model.reader
    with quietly():
        pieces = reader.pieces(texts)
    if isinstance(reader.model.head, MaskedHead):
        pieces = [_masked(piece, reader.tokenizer.require("mask")) for piece in pieces]
    numbers = {name: Gaps() for name in graph.outputs}
    choices = _Choices(model)
    for rows in in_batches([piece.ids for piece in pieces]):
        packed, feed = pack(rows), _feed(graph, rows)
        real = feed["attention_mask"] > 0
        segments = torch.from_numpy(feed["token_type_ids"][real]) if "token_type_ids" in feed else None
        ours = _encoded(reader.model, packed, segments)
        theirs = {
            name: each[real] if each.ndim == 3 or name in SPANS else each
            for name, each in graph(feed).items()
        }
        for name, gaps in numbers.items():
            gaps.add(theirs[name], ours[name])
        choices.add(theirs, ours, packed)
    found = [gaps.report(name, console) for name, gaps in numbers.items()]
    choices.report(console)
    return found


def _encoded(model: Headed, packed: Packed, segments: Tensor | None) -> Arrays:
    """The model's own outputs, by the names that they have in a graph."""
    head = model.head
    with torch.no_grad():
        states = model.states(packed.ids, packed.layout, segments)
        match head:
            case EmbedHead():
                found = {"last_hidden_state": states, "sentence_embedding": head(states, packed.layout)}
            case ClassifyHead():
                found = {"logits": head(states, packed.layout)}
            case MaskedHead() if head.next_sentence is not None:
                follows = head.follows(states, packed.layout)
                found = {"logits": head(states), "seq_relationship_logits": follows}
            case SpanHead():
                starts, ends = head(states).T
                found = {"start_logits": starts, "end_logits": ends}
            case _:
                found = {"logits": cast(nn.Module, head)(states)}
    return {name: each.numpy() for name, each in found.items()}


class _Choices:
    """What the numbers mean to a task."""

    def __init__(self, model: EncoderPredictor) -> None:
        self.head = model.model.head
        self.problem: Problem = model.about().get("problem", "single")
        self.mask = model.tokenizer.ids.mask
        self.found, self.chances = Gaps(), Gaps()
        self.cosine = 1.0

    def add(self, theirs: Arrays, ours: Arrays, packed: Packed) -> None:
        match self.head:
            case EmbedHead():
                self.cosine = min(
                    self.cosine, *_cosines(theirs["sentence_embedding"], ours["sentence_embedding"])
                )
            case ClassifyHead() if self.problem != "number":
                both = [probabilities(each["logits"], self.problem) for each in (theirs, ours)]
                self.chances.add(*both)
                many = self.problem == "multi"
                self.found.agree(*(each > 0.5 if many else each.argmax(axis=1) for each in both))
            case TagHead():
                self.found.agree(*(each["logits"].argmax(axis=1) for each in (theirs, ours)))
            case SpanHead():
                ends = np.cumsum(packed.layout.host_lengths)[:-1]
                for name in SPANS:
                    sides = [np.split(each[name], ends) for each in (theirs, ours)]
                    self.found.agree(*(np.array([row.argmax() for row in rows]) for rows in sides))
            case MaskedHead():
                hidden = packed.ids.numpy() == self.mask
                both = [probabilities(each["logits"][hidden], "single") for each in (theirs, ours)]
                self.chances.add(*both)
                self.found.agree(*(each.argmax(axis=1) for each in both))
            case _:
                pass  # a number means itself

    def report(self, console: Console) -> None:
        if isinstance(self.head, EmbedHead):
            say(console, f"cosines of one with the other: {self.cosine:.6f} at least")
        if self.chances.count:
            self.chances.report("probabilities", console)
        if self.found.chosen:
            what = {ClassifyHead: "labels", TagHead: "tags of tokens", MaskedHead: "fills"}
            self.found.report_choices(what.get(type(self.head), "starts and ends"), console)


def _masked(piece: Piece, mask: int) -> Piece:
    """With the mask in the place of the token in the middle."""
    middle = len(piece.ids) // 2
    return Piece([*piece.ids[:middle], mask, *piece.ids[middle + 1 :]], piece.segments, piece.text)


def _feed(graph: Graph, rows: Sequence[Sequence[int]]) -> Arrays:
    """What the graph wants; where it tells segments apart, the second half of each row is in the second."""
    ids, mask = padded(rows)
    places = np.maximum(mask.cumsum(axis=1) - 1, 0)
    segments = (places >= mask.sum(axis=1, keepdims=True) // 2).astype(np.int64)
    every = {"input_ids": ids, "attention_mask": mask, "position_ids": places, "token_type_ids": segments}
    return {name: every[name] for name in graph.inputs}


def _cosines(theirs: np.ndarray, ours: np.ndarray) -> list[float]:
    lengths: Any = np.linalg.norm(theirs, axis=1) * np.linalg.norm(ours, axis=1)
    return ((theirs * ours).sum(axis=1) / np.maximum(lengths, 1e-12)).tolist()


def compare_language(
    model: Generator, folder: Path, texts: Sequence[str], console: Console
) -> list[Difference]:
    """Of long texts only the beginnings, which will do to tell two models apart."""
    graph, tokenizer = Graph(folder / "model.onnx"), model.tokenizer
    if tokenizer is None:
        raise ValueError("this generator has no tokenizer: give it one")
    begin = [tokenizer.require("start")] if model.begins else []
    read = [[*begin, *ids][: model.longest] for ids in tokenizer.encode_batch(texts)]
    read = [ids for ids in read if ids]
    numbers, sums, count = Gaps(), np.zeros(2), 0
    for rows in in_batches(read):
        packed, feed = pack(rows), _feed(graph, rows)
        with torch.no_grad():
            ours = model.model.head(model.model(packed.ids, packed.layout)).numpy()
        theirs = graph(feed)["logits"][feed["attention_mask"] > 0]
        numbers.add(theirs, ours)
        numbers.agree(theirs.argmax(axis=1), ours.argmax(axis=1))
        follows = np.concatenate([[*ids[1:], -1] for ids in rows])
        places = np.flatnonzero(follows >= 0)
        count += len(places)
        for each, logits in enumerate((theirs, ours)):
            chances = torch.from_numpy(logits[places]).double().log_softmax(dim=-1).numpy()
            sums[each] += chances[np.arange(len(places)), follows[places]].sum()
    found = numbers.report("logits", console)
    numbers.report_choices("likeliest next tokens", console)
    theirs_too, own = np.exp(-sums / max(count, 1))
    say(console, f"perplexity of the texts: {theirs_too:.4f}, the model's own {own:.4f}")
    return [found]
