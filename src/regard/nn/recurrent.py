"""Before the Transformer: recurrent encoders and decoders over the same packed tokens.

    h_t = LSTM(x_t, h_(t-1))  or  GRU        Hochreiter and Schmidhuber 1997; Cho et al. 2014
    h_t = tanh(W x_t + U h_(t-1) + b)        the plain cell, Elman 1990
    without attention   the decoder starts from the encoder's last state, which carries the whole sentence
    with attention      c_t = sum_i softmax_i(s(h_t, m_i)) m_i over the encoder's states m,
                        output_t = tanh(W [c_t ; h_t])              Luong et al. 2015, eq. 5

A token must wait for the one before it: that is what the Transformer did away with. The attention of a step
looks at the state of that step and is not fed into the next one (no "input feeding"), so a whole target
sentence needs one recurrent pass and then one packed attention.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.layout import Layout
from regard.nn import Stream
from regard.nn.pooling import ScoredAttention, pool_ends, pool_last
from regard.nn.state import Memory, RecurrentState, Sources
from regard.settings.network import Cell, RecurrentConfig

Hidden = Float[Tensor, "layers sequences d_hidden"]
Cells = nn.LSTM | nn.GRU | nn.RNN
CELLS: dict[Cell, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn": nn.RNN,
}

# Training keeps all weights in one vector, in an order of its own; cuDNN copies the cells' into its order.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")


def _build_cells(config: RecurrentConfig, d_model: int, *, bidirectional: bool) -> Cells:
    return CELLS[config.cell](
        d_model,
        d_model // 2 if bidirectional else d_model,
        num_layers=config.layers,
        bidirectional=bidirectional,
        dropout=config.dropout if config.layers > 1 else 0.0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _TimeOrder:
    """The packed tokens of a layout in the order that recurrent kernels want: all first tokens, all second
    tokens, ..., longer sequences first. Empty sequences take no part."""

    tokens: Int[Tensor, "tokens"]
    back: Int[Tensor, "tokens"]
    counts: Int[Tensor, "steps"]
    """How many sequences are still running at each step; on the host."""
    sequences: Int[Tensor, "running"]

    @classmethod
    def of(cls, layout: Layout) -> "_TimeOrder":
        device = layout.offsets.device
        offsets = layout.host_offsets.long()
        lengths = offsets.diff()
        ranking = lengths.argsort(descending=True, stable=True)
        rank = torch.empty_like(ranking)
        rank[ranking] = torch.arange(len(ranking), device="cpu")
        owners = torch.arange(len(lengths), device="cpu").repeat_interleave(lengths)
        positions = torch.arange(layout.tokens, device="cpu") - offsets[owners]
        order = (positions * len(lengths) + rank[owners]).argsort()
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device="cpu")
        running = ranking[: int((lengths > 0).sum())]
        return cls(order.to(device), back.to(device), torch.bincount(positions), running.to(device))


def _run(
    cells: Cells, x: Stream, layout: Layout, hidden: Hidden | None = None, cell: Hidden | None = None
) -> tuple[Stream, Hidden, Hidden | None]:
    """All tokens through the recurrent layers; the state after each, and each sequence's last hidden (and
    cell) state. Sequences start from `hidden` and `cell`, or from zeros; an empty one stays where it
    starts."""
    x = x.to(_kind(cells))
    directions = 2 if cells.bidirectional else 1
    shape = (cells.num_layers * directions, layout.sequences, cells.hidden_size)
    hidden = x.new_zeros(shape) if hidden is None else hidden.to(x.dtype)  # autocast may have made it half
    cell = x.new_zeros(shape) if cell is None and isinstance(cells, nn.LSTM) else cell
    cell = None if cell is None else cell.to(x.dtype)
    if layout.tokens == 0:
        return x.new_zeros(0, directions * cells.hidden_size), hidden, cell
    order = _TimeOrder.of(layout)
    steps = PackedSequence(x.index_select(0, order.tokens), order.counts)
    start = hidden.index_select(1, order.sequences)
    with _full_precision(x):
        if cell is None:
            output, last = cells(steps, start)
        else:
            output, (last, last_cell) = cells(steps, (start, cell.index_select(1, order.sequences)))
            cell = cell.index_copy(1, order.sequences, last_cell)
    return output.data.index_select(0, order.back), hidden.index_copy(1, order.sequences, last), cell


def _kind(cells: Cells) -> torch.dtype:
    return next(cells.parameters()).dtype


@contextmanager
def _full_precision(x: Float[Tensor, "..."]) -> Iterator[None]:
    """Autocast would turn the cells to float16, whatever type it was asked for. And cuDNN takes factors of
    float32 products as TF32, with 10 bits: more than bfloat16 has, but too few where that was not asked
    for."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = before and torch.is_autocast_enabled(x.device.type)
    try:
        with torch.autocast(x.device.type, enabled=False):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


class RecurrentEncoder(nn.Module):
    def __init__(self, d_model: int, config: RecurrentConfig) -> None:
        super().__init__()
        if config.bidirectional and d_model % 2:
            raise ValueError(f"d_model={d_model} is odd: a bidirectional encoder needs an even width")
        self.cells = _build_cells(config, d_model, bidirectional=config.bidirectional)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Stream, layout: Layout) -> Stream:
        return self.dropout(_run(self.cells, x, layout)[0])

    def summary(self, states: Stream, layout: Layout) -> Float[Tensor, "sequences d_model"]:
        """The last state of each direction: forwards at the last token, backwards at the first. Zeros for an
        empty sequence."""
        return (pool_ends if self.cells.bidirectional else pool_last)(states, layout)


class RecurrentDecoder(nn.Module):
    """With a memory it starts from the memory's summary, through a trained matrix; without one, from
    zeros."""

    def __init__(self, d_model: int, config: RecurrentConfig, *, d_memory: int | None) -> None:
        super().__init__()
        self.cells = _build_cells(config, d_model, bidirectional=False)
        self.dropout = nn.Dropout(config.dropout)
        self.bridge: nn.Linear | None = None
        self.attention: ScoredAttention | None = None
        if d_memory is not None:
            parts = 2 if config.cell == "lstm" else 1
            self.bridge = nn.Linear(d_memory, parts * config.layers * d_model)
            if config.attention != "none":
                self.attention = ScoredAttention(config.attention, d_query=d_model, d_key=d_memory)
                self.combine = nn.Linear(d_memory + d_model, d_model, bias=False)

    def forward(self, x: Stream, layout: Layout, memory: Memory | None = None) -> Stream:
        return self.prefill(x, layout, self.start(rows=layout.sequences, capacity=0, like=x, memory=memory))

    def prefill(self, x: Stream, layout: Layout, state: RecurrentState) -> Stream:
        """Whole prefixes, sequence r for row r; the state moves past them."""
        output, state.hidden, state.cell = _run(self.cells, x, layout, state.hidden, state.cell)
        state.lengths = state.lengths + layout.lengths
        state.longest += layout.longest
        asking = None if state.sources is None else state.sources.queries(layout)
        return self._across(output, state, asking)

    def _across(self, output: Stream, state: RecurrentState, asking: Layout | None) -> Stream:
        """With what the encoder's states say to these, where the decoder attends to them."""
        if self.attention is None or state.sources is None or asking is None:
            return self.dropout(output)
        context = self.attention(output, state.prepared, state.values, asking, state.sources.layout)
        return self.dropout(torch.tanh(self.combine(torch.cat([context, output], dim=1))))

    def start(
        self, *, rows: int, capacity: int, like: Float[Tensor, "..."], memory: Memory | None = None
    ) -> RecurrentState:
        """A state with nothing decoded yet; `capacity` is for decoders whose memory of the past grows."""
        layers, d_model = self.cells.num_layers, self.cells.hidden_size
        lengths = torch.zeros(rows, dtype=torch.int64, device=like.device)
        if (memory is None) != (self.bridge is None):
            raise ValueError("a decoder takes a memory exactly when it was built with the width of one")
        if memory is None or self.bridge is None:
            hidden = like.new_zeros(layers, rows, d_model)
            cell = torch.zeros_like(hidden) if isinstance(self.cells, nn.LSTM) else None
            return RecurrentState(hidden=hidden, cell=cell, lengths=lengths)
        parts = torch.tanh(self.bridge(memory.summary)).to(_kind(self.cells))
        first = parts.unflatten(1, (-1, layers, d_model)).permute(1, 2, 0, 3)
        return RecurrentState(
            hidden=first[0].contiguous(),
            cell=first[1].contiguous() if isinstance(self.cells, nn.LSTM) else None,
            lengths=lengths,
            sources=Sources(memory.layout),
            prepared=None if self.attention is None else self.attention.prepare(memory.states),
            values=memory.states,
        )

    def step(self, x: Float[Tensor, "rows d_model"], state: RecurrentState) -> Float[Tensor, "rows d_model"]:
        x = x.to(state.hidden.dtype)
        with _full_precision(x):
            if state.cell is None:
                output, state.hidden = self.cells(x.unsqueeze(0), state.hidden)
            else:
                output, (state.hidden, state.cell) = self.cells(x.unsqueeze(0), (state.hidden, state.cell))
        state.lengths = state.lengths + 1
        state.longest += 1
        output = output.squeeze(0)
        return self._across(output, state, None if state.sources is None else state.sources.asking)
