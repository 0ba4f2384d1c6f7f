"""A model that is tested: its inputs, and what it computes from them, whatever its task."""

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import ConfigError
from regard.data.packing import Packed, pack
from regard.decode.groups import BeamGroups
from regard.models.decoder import Decoder
from regard.models.headed import Headed
from regard.models.seq2seq import Seq2Seq
from regard.nn.quantized import QuantizedLinear
from regard.tasks.base.faster import Faster
from regard.tasks.base.predictor import Predictor
from regard.tasks.load import load

LENGTHS = (7, 1, 23, 12, 3, 16)
"""Of the sequences of a batch; no two alike, and one of a single token."""
PREFIX, STEPS = 3, 5
"""Tokens of the longest prefix, and those decoded behind it."""


@dataclass(frozen=True)
class Subject:
    name: str
    predictor: Predictor
    exported: bool = True
    """Whether it is exported too."""

    @classmethod
    def open(cls, name: str, folder: Path, *, exported: bool = True) -> "Subject":
        predictor = load(folder, device="cpu", precision="float32")
        if not isinstance(predictor.model, Seq2Seq | Decoder | Headed):
            kind = type(predictor.model).__name__
            raise ConfigError(f"{folder}: a {kind} is none of the models that can be tested here")
        return cls(name, predictor, exported)

    @property
    def model(self) -> Any:
        return self.predictor.model

    @cached_property
    def fast(self) -> Any:
        """The copy that inference runs: products and attention in C, where there is C."""
        return Faster(self.model, "float32").current()

    @cached_property
    def rows(self) -> list[list[int]]:
        """Random words of its own vocabulary."""
        return _draw(self.predictor, [min(length, self._most) for length in LENGTHS], seed=0)

    @cached_property
    def sources(self) -> list[list[int]]:
        """Of a translator: as many, of other lengths."""
        return _draw(self.predictor, [min(length, self._most) for length in LENGTHS[::-1]], seed=1)

    @property
    def _most(self) -> int:
        return self.predictor.longest or max(LENGTHS)

    @property
    def writes(self) -> bool:
        """Whether it decodes."""
        return not isinstance(self.model, Headed)


def _draw(predictor: Predictor, lengths: list[int], seed: int) -> list[list[int]]:
    tokenizer, config = predictor.tokenizer, predictor.model.config
    if tokenizer is None:
        usual = [*range(config.vocabulary)]
    else:
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        usual = sorted({*tokenizer.vocabulary.values()} - special)
    chance = random.Random(seed)
    return [chance.choices(usual, k=length) for length in lengths]


def outputs(
    model: nn.Module, rows: list[list[int]], sources: list[list[int]], device: str = "cpu"
) -> tuple[Tensor, ...]:
    """All that a model says of a batch: scores of every token, and an encoder's states."""
    read = pack(rows).to(device)
    match model:
        case Seq2Seq():
            source = pack(sources).to(device)
            return (model.decoder.head(model(source.ids, source.layout, read.ids, read.layout)),)
        case Decoder():
            return (model.head(model(read.ids, read.layout)),)
        case Headed():
            return model.states(read.ids, read.layout), model(read.ids, read.layout)
        case _:
            raise TypeError(f"a {type(model).__name__} is none of the models that can be tested here")


@dataclass(frozen=True)
class Decoding:
    """Tokens that are forced on a decoder: `rows` prefixes, each of which has two continuations, that part
    after one token, as beams do."""

    sources: list[list[int]]
    rows: list[list[int]]
    """Two for each source: prefix and continuation."""
    prefixes: list[int]
    """How many tokens of each row are its prefix."""

    @classmethod
    def of(cls, subject: Subject) -> "Decoding":
        lengths = [min(1 + number % PREFIX, subject._most - STEPS) for number in range(len(subject.sources))]
        begun = _draw(subject.predictor, [length + 1 for length in lengths], seed=2)
        ends = _draw(subject.predictor, [STEPS - 1] * (2 * len(begun)), seed=3)
        rows = [[*begun[number // 2], *end] for number, end in enumerate(ends)]
        return cls(subject.sources, rows, [length for length in lengths for _ in range(2)])

    def whole(self, model: nn.Module) -> Tensor:
        """The scores behind each prefix and each token after it, from one pass over all tokens."""
        scores = outputs(model, self.rows, [source for source in self.sources for _ in range(2)])[0]
        found = [
            own[start - 1 :]
            for own, start in zip(pack(self.rows).layout.split(scores), self.prefixes, strict=True)
        ]
        return torch.stack(found, dim=1)

    def stepped(self, model: Any, stepper: Any) -> Tensor:
        """The same from a cache, token by token; `stepper` is the model, or beam groups on it."""
        first, source = self.rows[::2], pack(self.sources)
        state = model.start(rows=len(first)) if isinstance(model, Decoder) else _started(stepper, source)
        begun = pack([row[:start] for row, start in zip(first, self.prefixes[::2], strict=True)])
        twice = [number for number in range(len(first)) for _ in range(2)]
        found = [stepper.prefill(begun.ids, begun.layout, state)[twice]]
        found.append(stepper.step(self._tokens(0)[::2], state)[twice])
        state.select(twice)
        found += [stepper.step(self._tokens(step), state) for step in range(1, STEPS)]
        return torch.stack(found)

    def _tokens(self, step: int) -> Tensor:
        return torch.tensor([row[start + step] for row, start in zip(self.rows, self.prefixes, strict=True)])


def _started(stepper: Any, source: Packed) -> Any:
    return stepper.start(source.ids, source.layout)


def steppers(model: Any) -> dict[str, Any]:
    """What takes the steps of a model in inference: itself, and on a CPU with C a translator's groups."""
    groups = isinstance(model, Seq2Seq) and BeamGroups.serve(model)
    return {"steps": model, **({"beam groups": BeamGroups(model)} if groups else {})}


@torch.no_grad()
def numbers(subject: Subject) -> dict[str, Tensor]:
    """What inference computes here, in C or not: to be compared with another process."""
    model = subject.fast
    found = {f"output {n}": each for n, each in enumerate(outputs(model, subject.rows, subject.sources))}
    if subject.writes:
        found["steps"] = Decoding.of(subject).stepped(model, [*steppers(model).values()][-1])
    if torch.backends.mkldnn.is_available():
        layer = next((part for part in subject.model.modules() if isinstance(part, nn.Linear)), None)
        if layer is not None:
            tokens = torch.randn(32, layer.in_features, generator=torch.Generator().manual_seed(0))
            found["int8"] = QuantizedLinear(layer.weight, layer.bias)(tokens)
    return {name: each.contiguous() for name, each in found.items()}
