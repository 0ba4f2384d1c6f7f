"""Decoders for long texts: windows, shared key heads and scaled angles, whole and step by step.

The shape is that of today's language models: rotary positions, RMSNorm before each layer, SwiGLU, key heads
that serve several queries. Cached steps equal the whole pass whatever the window, the kernel and the rows.
"""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.kernels import attend_cached
from regard.settings.network import PositionsConfig
from tests.models.families import MODERN, VOCABULARY, decoder

TIGHT = {"atol": 1e-10, "rtol": 1e-10}
SCALINGS = {
    "none": {},
    "linear": {"scaling": "linear", "factor": 4.0},
    "ntk": {"scaling": "ntk", "factor": 4.0},
    "yarn": {"scaling": "yarn", "factor": 4.0, "trained": 8},
}


def modern(*, kernel: str = "auto", kv_heads: int = 2, scaling: str = "none", **body) -> Decoder:
    attention = dataclasses.replace(MODERN.attention, kernel=kernel, kv_heads=kv_heads)
    positions = PositionsConfig(kind="rotary", **SCALINGS[scaling])
    config = decoder(dataclasses.replace(MODERN, attention=attention, **body), positions, tied=False)
    return Decoder(config).double().eval()


def last(model: Decoder, sentence: list[int]) -> torch.Tensor:
    """The scores for what follows a sentence, from the whole pass."""
    return model.head(model(torch.tensor(sentence), Layout.of([len(sentence)])))[-1]


def follow(model: Decoder, rows: list[list[int]], moves: list[list[int] | None]) -> None:
    """Prefixes, then a step for each None and a selection of rows for each list (numbers modulo the rows);
    after each step, every row is compared with the whole pass over what it holds."""
    layout = Layout.of([len(row) for row in rows])
    state = model.start(rows=len(rows), capacity=2)
    scores = model.prefill(torch.tensor([token for row in rows for token in row]), layout, state)
    assert_close(scores, torch.stack([last(model, row) for row in rows]), **TIGHT)
    for move in moves:
        if move is not None:
            chosen = [number % len(rows) for number in move]
            state.select(chosen)
            rows = [rows[number] for number in chosen]
            continue
        tokens = torch.randint(0, VOCABULARY, (len(rows),))
        rows = [[*row, int(token)] for row, token in zip(rows, tokens, strict=True)]
        scores = model.step(tokens, state)
        assert_close(scores, torch.stack([last(model, row) for row in rows]), **TIGHT)


def sentences(lengths: list[int]) -> list[list[int]]:
    return [torch.randint(0, VOCABULARY, (length,)).tolist() for length in lengths]


@pytest.mark.parametrize("kernel", ["auto", "equation", "grouped", "padded"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(
    "window",
    [{}, {"window": 2}, {"window": 2, "layers": 4, "global_every": 2}],
    ids=["everything", "window", "global layers"],
)
@torch.no_grad()
def test_a_modern_decoder_steps_as_it_reads_on_every_kernel(kernel, kv_heads, window):
    model = modern(kernel=kernel, kv_heads=kv_heads, **window)
    follow(model, sentences([5, 1, 3]), [None, None, [2, 0, 0], None])


@pytest.mark.parametrize("scaling", SCALINGS)
@torch.no_grad()
def test_a_modern_decoder_steps_as_it_reads_whatever_the_scaling(scaling):
    model = modern(scaling=scaling, window=4)
    follow(model, sentences([12, 7]), [None, [1, 1, 0], None])


@pytest.mark.usefixtures("unchecked")
@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    moves=st.lists(st.none() | st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=6),
    window=st.integers(1, 8),
    global_every=st.sampled_from([0, 2, 3]),
    seed=st.integers(0, 99),
)
@torch.no_grad()
def test_windows_hold_in_any_course_of_prefixes_steps_and_selections(
    lengths, moves, window, global_every, seed
):
    torch.manual_seed(seed)
    follow(modern(layers=3, window=window, global_every=global_every), sentences(lengths), moves)


@pytest.mark.parametrize("lengths", [[30, 30], [30, 22]], ids=["level", "not level"])
@torch.no_grad()
def test_a_step_reads_no_more_of_the_cache_than_its_rows_can_see(lengths, monkeypatch):
    model = modern(layers=2, window=4, global_every=2)
    read = []

    def watched(queries, keys, *rest, **settings):
        read.append(keys.shape[2])
        return attend_cached(queries, keys, *rest, **settings)

    monkeypatch.setattr("regard.nn.multihead.attend_cached", watched)
    follow(model, sentences(lengths), [None])
    apart = max(lengths) - min(lengths)
    assert read == [4 + 1 + apart, 31]  # the window, itself, and how far the rows are apart; everything


@torch.no_grad()
def test_what_no_window_reaches_cannot_be_felt():
    """Two layers of three tokens before each reach six tokens back, and a global layer any number."""
    for every, felt in ((0, False), (2, True)):
        model = modern(layers=2, window=3, global_every=every)
        ids, layout = torch.randint(0, VOCABULARY, (12,)), Layout.of([12])
        before = model(ids, layout)
        ids[0] = (ids[0] + 1) % VOCABULARY
        after = model(ids, layout)
        assert not torch.equal(after[6], before[6])
        assert torch.equal(after[7:], before[7:]) is not felt
