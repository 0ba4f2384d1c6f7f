"""Another vocabulary for a trained model: tokenizer, embeddings and output matrix are changed together.

A new piece's row is the mean of the rows of the pieces it was made of, in every matrix that has a row for
each piece. So its score is the mean of theirs, never above the highest: greedily, a model writes what it
wrote before, until it is fine-tuned on text that has the piece. The unknown token is never written, and its
score may be high: a piece that was not known before, as a whole or in part, gets the mean of all pieces'
rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from regard.config import ConfigError, from_dict, to_dict
from regard.nn.embedding import Embedding, VocabularyHead
from regard.tasks.base.folder import WEIGHTS, FolderError, whole, write_config, write_weights
from regard.tasks.base.formats import only_lines
from regard.tasks.base.header import unfilled
from regard.tasks.base.predictor import Predictor
from regard.tasks.load import load
from regard.text import Tokenizer, read_lines
from regard.text.vocabulary import Renewed, extended, reduced, unchanged

SHOWN = 12
"""New pieces that the report names."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a vocabulary, by the text it was changed for."""

    pieces: tuple[int, int]
    """Before and after; so are the others."""
    tokens: tuple[int, int]
    """Of the text."""
    unknown: tuple[int, int]
    """Of these."""
    parameters: tuple[int, int]
    words: int
    added: tuple[str, ...]
    dropped: int

    def lines(self) -> Iterable[str]:
        def both(name: str, values: tuple[int, int]) -> str:
            return f"{name:<12}{values[0]:>14,} -> {values[1]:,}"

        yield f"{both('pieces', self.pieces)}  ({len(self.added):,} added, {self.dropped:,} dropped)"
        before, after = (count / max(self.words, 1) for count in self.tokens)
        yield f"{both('tokens', self.tokens)}  ({before:.2f} -> {after:.2f} a word)"
        yield both("unknown", self.unknown)
        yield both("parameters", self.parameters)
        if self.added:
            more = "" if len(self.added) <= SHOWN else ", ..."
            yield f"added: {', '.join(self.added[:SHOWN])}{more}"


def vocabulary(
    folder: Path,
    out: Path,
    *,
    text: Sequence[Path],
    add: int = 1000,
    minimum: int = 2,
    drop_unused: bool = False,
    encoding: str = "utf-8",
    console: Console,
) -> Change:
    """The model of `folder` with another vocabulary, into `out`: at most `add` new pieces for what stands in
    the text at least `minimum` times; and without what the text never uses."""
    for path in text:
        only_lines(path)
    if (out / WEIGHTS).exists():
        raise ConfigError(f"{out} already holds {WEIGHTS}: choose another folder")
    predictor = load(folder, device="cpu", precision="float32")
    tokenizer = predictor.tokenizer
    if tokenizer is None:
        raise FolderError(f"{folder}: it has no tokenizer whose vocabulary could be changed")
    if tokenizer.target.vocabulary != tokenizer.vocabulary:
        raise FolderError(f"{folder}: its sides have vocabularies of their own, which are not changed here")
    lines = [
        *chain.from_iterable((line.text for line in read_lines(path, encoding=encoding)) for path in text)
    ]
    renewed = unchanged(tokenizer)
    if add:
        renewed = extended(tokenizer, lines, most=add, minimum=minimum)
    if drop_unused:
        renewed = renewed.then(reduced(renewed.tokenizer, lines))
    model = changed(predictor.model, renewed)
    _write(predictor, model, renewed.tokenizer, out)
    change = _compared(tokenizer, renewed, lines, (predictor.model, model))
    for line in change.lines():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return change


def changed(model: nn.Module, renewed: Renewed) -> nn.Module:
    """The same model with a row for each piece of the renewed tokenizer."""
    rows, kind = _rows(model), type(model)
    own: Any = model.config
    config = from_dict(type(own), _resized(to_dict(own), len(renewed.made_of)))
    other = unfilled(lambda: kind(config)).to(next(model.parameters()).dtype)
    before = whole(model)
    with torch.no_grad():
        for name, weight in whole(other).items():
            weight.copy_(_means(before[name], renewed) if name in rows else before[name])
    return other.train(model.training)


def _rows(model: nn.Module) -> set[str]:
    """The weights that have a row for each piece."""
    parts = [
        weight
        for part in model.modules()
        for weight in (
            [part.tokens.weight]
            if isinstance(part, Embedding)
            else [part.weight, part.bias]
            if isinstance(part, VocabularyHead)
            else []
        )
    ]
    return {name for name, weight in whole(model).items() if any(weight is part for part in parts)}


def _resized(plain: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """A configuration with so many pieces, wherever it counts them."""
    return {
        key: vocabulary
        if key == "vocabulary"
        else _resized(value, vocabulary)
        if isinstance(value, Mapping)
        else value
        for key, value in plain.items()
    }


def _means(weight: Tensor, renewed: Renewed) -> Tensor:
    single = torch.tensor([ids[0] for ids in renewed.made_of])
    found = weight[single].clone()
    for id, ids in enumerate(renewed.made_of):
        if len(ids) > 1:
            found[id] = weight[list(ids)].mean(dim=0)
    if strange := renewed.were_unknown:
        found[strange] = weight[renewed.kept].mean(dim=0)
    return found


def _write(predictor: Predictor, model: nn.Module, tokenizer: Tokenizer, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(out / "tokenizer.json")
    write_weights(out, whole(model))
    write_config(out, predictor.task, predictor.with_model(model.eval()).about())


def _compared(
    before: Tokenizer, renewed: Renewed, lines: Sequence[str], models: tuple[nn.Module, nn.Module]
) -> Change:
    both = (before, renewed.tokenizer)
    encoded = [each.encode_batch(lines) for each in both]
    old, new = (each.vocabulary for each in both)
    strange = [each.ids.unknown for each in both]
    added = sorted((token for token in new if token not in old), key=lambda token: new[token])
    tokens, unknown, parameters = (
        [sum(map(len, ids)) for ids in encoded],
        [
            sum(row.count(id) for row in ids) if id is not None else 0
            for ids, id in zip(encoded, strange, strict=True)
        ],
        [sum(each.numel() for each in model.parameters()) for model in models],
    )
    return Change(
        pieces=(len(old), len(new)),
        tokens=(tokens[0], tokens[1]),
        unknown=(unknown[0], unknown[1]),
        parameters=(parameters[0], parameters[1]),
        words=sum(len(line.split()) for line in lines),
        added=tuple(added),
        dropped=sum(token not in new for token in old),
    )
