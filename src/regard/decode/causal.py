"""Steps of a language model of Llama's make in 4 or 8 bits: all layers in one call of C, over a cache of
halves.

`CausalStepper.why_not` says for which models. It serves decoding as a `Decoder` does (start, prefill, step),
and what it gives is the model with its weights rounded (`regard.nn.native.groups`), but for the rounding of
tokens and of keys and values. tests/decode/test_causal.py holds the two near each other.

A prompt that begins as the last text did goes on from there: what was read then is not read again. And of
prompts that begin alike, what they share is read once.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn import Ids
from regard.nn.layers import FeedForward, RMSNorm
from regard.nn.native import library
from regard.nn.native.groups import PANEL, GroupedWeight, Kind, fits, is_made_of
from regard.nn.native.structs import Causal, CausalAsked, CausalLayer
from regard.nn.positions import RotaryPositions
from regard.nn.stacks import Stack
from regard.nn.state import KeyValueCache, TransformerState
from regard.settings.models import DecoderConfig

Bits = Literal["int4", "int8"]
KINDS: dict[Bits, tuple[Kind, Kind]] = {"int4": ("q4_1", "q8_0"), "int8": ("q8_0", "q8_0")}
"""Of the layers, and of the vocabulary; layers that are q4_0 already stay that."""
Token = tuple[int, int, int]
"""Its id, its row, and its place there."""
MOST = 512
"""Tokens that are read at a time."""


class CausalStepper:
    def __init__(self, model: Decoder, bits: Bits) -> None:
        """Of a model that has a counterpart in C: see `why_not`."""
        body = cast(Stack, model.body)
        inner, outer = KINDS[bits]
        self.model, self.config = model, model.config
        self._embedding = model.embedding.tokens.weight.detach()
        self._kept: list[Any] = []
        layers = (CausalLayer * len(body.each))()
        for number, layer in enumerate(body.each):
            attention, network = layer.attention, layer.feed_forward
            parts = (attention.project, attention.output, network.inner, network.output)
            weights = [GroupedWeight(part.weight, part.bias, _kind(part.weight, inner)) for part in parts]
            norms = [
                _weight(layer.attention_residual.norm),
                _weight(attention.query_norm),
                _weight(attention.key_norm),
                _weight(layer.feed_forward_residual.norm),
            ]
            self._kept += [*weights, *norms]
            before = body.masks[number].before
            layers[number] = CausalLayer(
                *(each.address for each in weights),
                *(None if each is None else each.data_ptr() for each in norms),
                -1 if before is None else before,
            )
        self._rotary = cast(RotaryPositions, body.each[0].attention.rotary)
        head = GroupedWeight(model.head.scaled_weight, model.head.bias, outer)
        final = cast(Tensor, _weight(body.final_norm))
        attention = body.each[0].attention
        self._causal = Causal(
            len(body.each),
            model.config.d_model,
            attention.heads,
            attention.kv_heads,
            attention.d_head,
            body.each[0].feed_forward.output.in_features,
            ctypes.addressof(layers),
            final.data_ptr(),
            head.address,
            cast(RMSNorm, body.final_norm).eps,
            1 / math.sqrt(attention.d_head),
        )
        self._kept += [layers, final, head]
        self._last: tuple[list[int], TransformerState] | None = None
        """The ids of the last text, all in one row, and where its keys are. Threads exchange it whole."""

    @staticmethod
    def why_not(model: Decoder) -> str | None:
        """What of a model has no counterpart in C, in a few words; None where nothing is missing."""
        if library() is None:
            return "there is no library of C (regard doctor says why)"
        return _lacking(model.config) or _unlike(model)

    @property
    def bytes(self) -> int:
        """That the weights take."""
        return sum(each.bytes for each in self._kept if isinstance(each, GroupedWeight))

    def start(self, *, rows: int, capacity: int = 256) -> TransformerState:
        body = cast(Stack, self.model.body)
        return body.start(
            rows=rows, capacity=capacity, like=self._embedding.new_empty(0, dtype=torch.float16)
        )

    def prefill(self, ids: Ids, layout: Layout, state: TransformerState) -> Float[Tensor, "sequences vocab"]:
        if state.longest or layout.sequences != state.rows:
            raise ValueError(
                f"prefill takes a fresh state and one prefix for each row: {layout.sequences} prefixes, "
                f"{state.rows} rows of up to {state.longest} tokens"
            )
        rows = [part.tolist() for part in ids.split(layout.host_lengths)]
        if not all(rows):
            raise ValueError("a prefix is empty: nothing can follow it; give it a start token at least")
        cache = state.cache
        cache.reserve(layout.longest)
        known = self._recalled(rows[0], cache)
        shared = [known, *(_alike(rows[0], row, len(row) - 1) for row in rows[1:])]
        if (begun := max(shared)) > known:  # read once what others begin with too
            self._read([rows[0][known:begun]], [0], [known], cache, scored=False)
            shared[0] = min(begun, len(rows[0]) - 1)
        for number, count in enumerate(shared[1:], start=1):
            cache._keys[:, number, :, :count] = cache._keys[:, 0, :, :count]
            cache._values[:, number, :, :count] = cache._values[:, 0, :, :count]
        rest = [row[count:] for row, count in zip(rows, shared, strict=True)]
        scores = self._read(rest, range(len(rows)), shared, cache, scored=True)
        cache.advance(layout.host_offsets.diff().long())
        self._last = (rows[0], state) if len(rows) == 1 else None
        return scores

    def step(self, tokens: Int[Tensor, "rows"], state: TransformerState) -> Float[Tensor, "rows vocab"]:
        cache = state.cache
        cache.reserve(1)
        listed, lengths = tokens.tolist(), cache._host_lengths.tolist()
        scores = self._read([[each] for each in listed], range(len(listed)), lengths, cache, scored=True)
        cache.advance()
        last = self._last
        if last is not None and last[1] is state:
            if len(listed) == 1:
                last[0].append(listed[0])
            else:  # whichever row is left in the end is not what the ids say
                self._last = None
        return scores

    def _recalled(self, ids: Sequence[int], cache: KeyValueCache) -> int:
        """How many tokens of a prompt were read for the last text; their keys are put into the cache."""
        last = self._last
        if last is None:
            return 0
        known, old = last[0], last[1].cache
        if old.rows != 1 or old.longest != len(known):
            return 0
        count = _alike(known, ids, len(ids) - 1)
        cache._keys[:, 0, :, :count] = old._keys[:, 0, :, :count]
        cache._values[:, 0, :, :count] = old._values[:, 0, :, :count]
        return count

    def _read(
        self,
        tokens: Sequence[Sequence[int]],
        rows: Sequence[int],
        places: Sequence[int],
        cache: KeyValueCache,
        *,
        scored: bool,
    ) -> Tensor:
        """Tokens of some rows, each list behind what its row holds; the scores for what follows each list."""
        triples = [
            (id, row, place + number)
            for listed, row, place in zip(tokens, rows, places, strict=True)
            for number, id in enumerate(listed)
        ]
        ends = [number for number, (_, row, _) in enumerate(triples) if _is_last(triples, number, row)]
        scores = torch.empty(len(tokens) if scored else 0, self.config.vocabulary, device="cpu")
        done = 0
        for first in range(0, len(triples), MOST):
            part = triples[first : first + MOST]
            wanted = [each - first for each in ends if first <= each < first + len(part)] if scored else []
            self._pass(part, wanted, cache, scores[done : done + len(wanted)])
            done += len(wanted)
        return scores

    def _pass(
        self,
        part: Sequence[tuple[int, int, int]],
        wanted: Sequence[int],
        cache: KeyValueCache,
        scores: Tensor,
    ) -> None:
        ids, rows, places = torch.tensor(part, dtype=torch.int64, device="cpu").t().contiguous()
        lasts = torch.tensor(wanted, dtype=torch.int64, device="cpu")
        longest = max(place for _, _, place in part) + 1
        x, turns = self._embedding[ids], self._rotary.reaching(longest)
        keys, values = cache._keys, cache._values
        asked = CausalAsked(
            len(part),
            len(wanted),
            len({row for _, row, _ in part}) == len(part),
            *(each.data_ptr() for each in (x, rows, places, lasts, turns, keys, values)),
            keys.shape[1],
            keys.shape[3],
            scores.data_ptr(),
        )
        made: Any = library()
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        made.causal_pass.argtypes, made.causal_pass.restype = [pointer, pointer, whole, whole], whole
        causal, given = ctypes.addressof(self._causal), ctypes.addressof(asked)
        if made.causal_pass(causal, given, longest, torch.get_num_threads()):
            raise MemoryError(f"no memory for {len(part)} tokens")


def _kind(weight: Tensor, wanted: Kind) -> Kind:
    """What was 4 bits around 0 before, as in a GGUF file of Q4_0, stays what it was."""
    if wanted != "q4_1":
        return wanted
    some = weight.detach()[: PANEL * 2]
    whole = is_made_of(some, "q4_0") and is_made_of(weight, "q4_0")
    return "q4_0" if whole else wanted


def _is_last(triples: Sequence[Token], number: int, row: int) -> bool:
    return number + 1 == len(triples) or triples[number + 1][1] != row


def _alike(a: Sequence[int], b: Sequence[int], most: int) -> int:
    """How many tokens two texts begin with alike, `most` at most."""
    count = 0
    for one, other in zip(a[:most], b[:most], strict=False):
        if one != other:
            break
        count += 1
    return count


def _weight(norm: Any) -> Tensor | None:
    return None if norm is None else norm.weight.detach().float().contiguous().clone()


def _lacking(config: DecoderConfig) -> str | None:
    if getattr(config.body, "kind", "") != "transformer":
        return "it is recurrent"
    if config.positions.kind != "rotary":
        return f"positions.kind={config.positions.kind!r}, not rotary"
    if config.positions.local_base is not None:
        return "layers with a window have rotary positions of their own"
    if config.embedding.scaled or config.embedding.normed or config.embedding.segments:
        return "its embedding is scaled, normalised or has segments"
    return None


def _unlike(model: Decoder) -> str | None:
    body = cast(Stack, model.body)
    if body.final_norm is None or any(layer.attention_residual.place != "pre" for layer in body.each):
        return "norm.place is not 'pre'"
    norms = [body.final_norm, *(layer.attention_residual.norm for layer in body.each)]
    if not all(isinstance(each, RMSNorm) for each in norms):
        return "norm.kind is not 'rms'"
    for layer in body.each:
        attention, network = layer.attention, layer.feed_forward
        if attention.rescale != 1:
            return "attention.scale is set"
        if attention.score is not None or attention.bias is not None or attention.d_value != attention.d_head:
            return "its attention has a score, a bias or values of another kind"
        if not isinstance(attention.rotary, RotaryPositions) or attention.d_head % PANEL:
            return f"d_head={attention.d_head} is no multiple of {PANEL}"
        if not isinstance(network, FeedForward) or network.activation != "swiglu":
            return "feed_forward.activation is not 'swiglu'"
        if attention.heads != body.each[0].attention.heads:
            return "heads were pruned"
        parts = (attention.project, attention.output, network.inner, network.output)
        if not all(isinstance(part, torch.nn.Linear) and fits(part.weight) for part in parts):
            return "its widths are no multiples of 32"
    return None
