"""Running exported graphs by onnxruntime, as far as verifying needs it: padded arrays in, arrays out, and a
translator's greedy search."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from regard.config import ConfigError
from regard.decode import DecodeConfig, Hypothesis
from regard.tasks.translation.engine import Options, Results, search_in_batches
from regard.tasks.translation.pieces import Piece, PieceResult
from regard.tasks.translation.translator import Translator

BUDGET = 2048
"""Tokens that are scored at once, padding among them."""
Arrays = dict[str, np.ndarray]
Row = Sequence[int]


def library() -> Any:
    """onnxruntime, which is an extra, as is what writes graphs."""
    try:
        import_module("onnx")
        import_module("onnxscript")
        return import_module("onnxruntime")
    except ImportError as error:
        raise ConfigError(f"{error.name} is not installed: pip install regard[onnx]") from error


class Graph:
    """One file, ready to run."""

    def __init__(self, file: Path) -> None:
        onnxruntime = library()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.inputs: dict[str, list[Any]] = {each.name: each.shape for each in self._session.get_inputs()}
        """The axes of each: a number, or a name where any will do."""
        self.outputs: dict[str, list[Any]] = {each.name: each.shape for each in self._session.get_outputs()}

    def __call__(self, feed: Arrays) -> Arrays:
        return dict(zip(self.outputs, self._session.run(None, feed), strict=True))


def in_batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """In their order, as many at a time as the budget allows."""
    batch: list[Row] = []
    for row in rows:
        if batch and max(map(len, [*batch, row])) * (len(batch) + 1) > BUDGET:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(rows: Sequence[Row], pad: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ids [rows, longest], and 1 where there is one."""
    lengths = np.array([len(row) for row in rows])
    mask = (np.arange(max(lengths, default=0)) < lengths[:, None]).astype(np.int64)
    ids = np.full(mask.shape, pad, dtype=np.int64)
    ids[mask > 0] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return ids, mask


class OnnxEngine:
    """A `SearchEngine` whose model runs there, greedily; enough to verify what was exported."""

    def __init__(self, ours: Translator, folder: Path) -> None:
        """`ours` is the translator that the folder was exported from."""
        self._ours, self._start, self._end = ours, ours.start, ours.end
        self.device = ours.device
        self.batch_tokens = ours.engine.batch_tokens
        self.room = ours.engine.room
        self.encoder, self.decoder, self.steps = (
            Graph(folder / f"{name}_model.onnx") for name in ("encoder", "decoder", "decoder_with_past")
        )

    def check(self, options: Options) -> None:
        if options.decoding.method != "greedy" or options.align:
            raise ConfigError("exported graphs are searched greedily here, without alignment")

    def attention(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        layer: int | None,
        marks: Sequence[Sequence[int]] = (),
    ) -> NoReturn:
        raise ConfigError("exported graphs give no attention weights: use the model's own folder")

    def search(self, pieces: list[Piece], options: Options) -> Results:
        return search_in_batches(pieces, options, partial(self.decode, options=options), self.device)

    def score(self, sources: Sequence[Row], targets: Sequence[Row]) -> list[list[float]]:
        """The log-probability of each token of the targets, and of the end, given its source; each target
        read whole."""
        found: list[list[float]] = []
        left = iter(zip(sources, targets, strict=True))
        for batch in in_batches([max(pair, key=len) for pair in zip(sources, targets, strict=True)]):
            read, written_ids = zip(*itertools.islice(left, len(batch)), strict=True)
            ids, mask = padded([[self._start, *target] for target in written_ids])
            labels, _ = padded([[*target, self._end] for target in written_ids])
            logits = torch.from_numpy(self.decoder({**self._read(read), "input_ids": ids})["logits"])
            likely = logits.log_softmax(dim=-1).gather(2, torch.from_numpy(labels).unsqueeze(2)).squeeze(2)
            found += [row[own > 0].tolist() for row, own in zip(likely.numpy(), mask, strict=True)]
        return found

    def _read(self, sources: Sequence[Row]) -> Arrays:
        """What the decoder is given of them."""
        ids, mask = padded(sources)
        states = self.encoder({"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
        return {"encoder_hidden_states": states, "encoder_attention_mask": mask}

    def decode(self, batch: list[Piece], options: Options) -> list[PieceResult]:
        """The first token by one graph, all others by the graph that goes on from a past."""
        read = self._read([piece.ids for piece in batch])
        maximums = np.array([piece.maximum for piece in batch])
        written: list[list[int]] = [[] for _ in batch]
        totals, going = np.zeros(len(batch)), np.ones(len(batch), dtype=bool)
        ended = ~going
        outputs = self.decoder({**read, "input_ids": np.full((len(batch), 1), self._start)})
        while True:
            likely = torch.from_numpy(outputs.pop("logits")[:, -1]).log_softmax(dim=-1).numpy()
            likely[:, list(options.suppressed)] = -np.inf
            tokens = likely.argmax(axis=1)
            ending = going & (tokens == self._end)
            going &= ~ending & (np.array([len(ids) for ids in written]) < maximums)
            totals += np.where(going | ending, likely[np.arange(len(batch)), tokens], 0.0)
            ended |= ending
            for row in np.flatnonzero(going):
                written[row].append(int(tokens[row]))
            if not going.any():
                break
            past = {name.replace("present", "past_key_values"): each for name, each in outputs.items()}
            read = {**read, **past}
            feed = {name: read[name] for name in self.steps.inputs if name != "input_ids"}
            outputs = self.steps({**feed, "input_ids": tokens[:, None]})
        return [
            PieceResult([Hypothesis(tuple(ids), float(total), float(total), finished=bool(end))], None)
            for ids, total, end in zip(written, totals, ended, strict=True)
        ]


def onnx_translator(ours: Translator, folder: Path) -> Translator:
    """The same translator with exported graphs for its model."""
    return Translator(
        ours.model,
        ours.tokenizer,
        longest=ours.longest,
        languages=ours.languages,
        several_sentences=ours.several_sentences,
        prompts=ours.prompts,
        default_prompt=ours.default_prompt,
        fuzzy=ours.fuzzy,
        inline=ours.inline,
        calibration=ours.calibration,
        decoding=DecodeConfig(method="greedy", maximum=ours.decoding.maximum),
        engine=OnnxEngine(ours, folder),
    )
