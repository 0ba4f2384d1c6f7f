"""Recurrent parts over packed tokens, against torch's cells run on each sequence alone."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn.initialize import initialize
from regard.nn.recurrent import RecurrentDecoder, RecurrentEncoder
from regard.nn.state import Memory
from regard.settings.network import InitialConfig, RecurrentConfig

LAYOUT = Layout.of([3, 0, 5, 1, 5])


def build(part: nn.Module) -> nn.Module:
    initialize(part.double(), InitialConfig())
    return part.eval()


def draw(layout: Layout, width: int = 8) -> torch.Tensor:
    return torch.randn(layout.tokens, width, dtype=torch.float64)


@pytest.mark.spec("4.1")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_packed_encoder_reads_each_sequence_as_if_alone(cell, bidirectional):
    part = build(RecurrentEncoder(8, RecurrentConfig(cell=cell, bidirectional=bidirectional)))
    x = draw(LAYOUT)
    for alone, together in zip(LAYOUT.split(x), LAYOUT.split(part(x, LAYOUT)), strict=True):
        if len(alone):
            assert_close(together, part.cells(alone)[0])


@pytest.mark.spec("4.1")
def test_the_plain_cell_is_its_formula():
    """h_t = tanh(W x_t + U h_(t-1) + b), token after token."""
    part = build(RecurrentEncoder(8, RecurrentConfig(cell="rnn", layers=1, bidirectional=False)))
    x, own = draw(Layout.of([5])), dict(part.cells.named_parameters())
    state, wanted = torch.zeros(8, dtype=torch.float64), []
    for token in x:
        inner = own["weight_ih_l0"] @ token + own["weight_hh_l0"] @ state
        state = torch.tanh(inner + own["bias_ih_l0"] + own["bias_hh_l0"])
        wanted.append(state)
    assert_close(part(x, Layout.of([5])), torch.stack(wanted))


@pytest.mark.spec("4.1")
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_summary_is_the_last_state_of_each_direction(bidirectional):
    part = build(RecurrentEncoder(8, RecurrentConfig(cell="gru", bidirectional=bidirectional)))
    x = draw(LAYOUT)
    summary = part.summary(part(x, LAYOUT), LAYOUT)
    for row, alone in zip(summary, LAYOUT.split(x), strict=True):
        if len(alone):
            last = part.cells(alone)[1]  # of every layer and direction
            assert_close(row, last[-2:].flatten() if bidirectional else last[-1])
        else:
            assert (row == 0).all()


def test_gradients_reach_every_token_and_parameter():
    part = build(RecurrentEncoder(8, RecurrentConfig()))
    x = draw(LAYOUT).requires_grad_()
    part(x, LAYOUT).square().sum().backward()
    assert (x.grad.abs().sum(dim=1) > 0).all()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in part.parameters())


def memory_of(sources: Layout) -> Memory:
    states = draw(sources, 6)
    return Memory(states, sources, torch.randn(sources.sequences, 6, dtype=torch.float64))


@pytest.mark.spec("4.2")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("attention", ["none", "additive", "dot", "scaled"])
def test_a_decoder_steps_as_it_passes_over_whole_targets(cell, attention):
    part = build(RecurrentDecoder(8, RecurrentConfig(cell=cell, attention=attention), d_memory=6))
    targets, memory = Layout.of([4, 4, 4]), memory_of(Layout.of([2, 5, 3]))
    x = draw(targets)
    whole = part(x, targets, memory).view(3, 4, 8)
    state = part.start(rows=3, capacity=4, like=x, memory=memory)
    for t in range(4):
        assert_close(part.step(x.view(3, 4, 8)[:, t], state), whole[:, t])


@pytest.mark.spec("4.2")
def test_without_attention_only_the_summary_is_carried_over():
    part = build(RecurrentDecoder(8, RecurrentConfig(attention="none"), d_memory=6))
    targets, memory = Layout.of([4, 2]), memory_of(Layout.of([2, 5]))
    x = draw(targets)
    other = Memory(draw(memory.layout, 6), memory.layout, memory.summary)
    assert torch.equal(part(x, targets, memory), part(x, targets, other))
    moved = Memory(memory.states, memory.layout, memory.summary + 1)
    assert not torch.allclose(part(x, targets, memory), part(x, targets, moved))


@pytest.mark.spec("4.2")
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_with_attention_the_state_asks_the_encoders_states(attention):
    part = build(RecurrentDecoder(8, RecurrentConfig(attention=attention, cell="gru"), d_memory=8))
    targets, sources = Layout.of([3]), Layout.of([4])
    x, states = draw(targets), draw(sources)
    summary = torch.randn(1, 8, dtype=torch.float64)
    start = torch.tanh(part.bridge(summary)).view(1, 2, 8).transpose(0, 1)
    queries = part.cells(x.unsqueeze(1), start)[0].squeeze(1)
    if attention == "dot":
        scores = queries @ states.T
    else:
        asking, answering = part.attention.match(queries), part.attention.project_keys(states)
        scores = torch.tanh(asking[:, None] + answering[None]) @ part.attention.direction
    context = torch.softmax(scores, dim=-1) @ states
    expected = torch.tanh(torch.cat([context, queries], dim=1) @ part.combine.weight.T)
    assert_close(part(x, targets, Memory(states, sources, summary)), expected)


def test_a_decoder_without_an_encoder_starts_from_zeros():
    part = build(RecurrentDecoder(8, RecurrentConfig(), d_memory=None))
    x, layout = draw(LAYOUT), LAYOUT
    for alone, together in zip(layout.split(x), layout.split(part(x, layout)), strict=True):
        if len(alone):
            assert_close(together, part.cells(alone)[0])


def test_a_state_continues_where_whole_prefixes_end():
    part = build(RecurrentDecoder(8, RecurrentConfig(attention="dot"), d_memory=6))
    memory, prefixes = memory_of(Layout.of([2, 5, 3])), Layout.of([2, 4, 1])
    x, following = draw(prefixes), torch.randn(3, 8, dtype=torch.float64)
    state = part.start(rows=3, capacity=8, like=x, memory=memory)
    part.prefill(x, prefixes, state)
    assert state.lengths.tolist() == [2, 4, 1]
    stepped = part.step(following, state)
    longer = Layout.of([3, 5, 2])
    joined = torch.cat([torch.cat([p, f[None]]) for p, f in zip(prefixes.split(x), following, strict=True)])
    assert_close(stepped, part(joined, longer, memory)[longer.lasts])


def test_no_tokens_at_all_are_no_trouble():
    part, layout = build(RecurrentEncoder(8, RecurrentConfig())), Layout.of([0, 0])
    states = part(torch.zeros(0, 8, dtype=torch.float64), layout)
    assert states.shape == (0, 8)
    assert part.summary(states, layout).tolist() == [[0] * 8] * 2


def test_a_memory_is_given_exactly_when_the_decoder_looks_at_one():
    x, layout = draw(LAYOUT), LAYOUT
    with pytest.raises(ValueError, match="built with the width of one"):
        build(RecurrentDecoder(8, RecurrentConfig(), d_memory=6))(x, layout)
    with pytest.raises(ValueError, match="built with the width of one"):
        build(RecurrentDecoder(8, RecurrentConfig(), d_memory=None))(x, layout, memory_of(layout))


def test_an_odd_width_cannot_be_read_both_ways():
    with pytest.raises(ValueError, match="d_model=7 is odd"):
        RecurrentEncoder(7, RecurrentConfig())
