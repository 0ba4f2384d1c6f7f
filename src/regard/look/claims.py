"""What the Transformer is said to be better at (Vaswani et al. 2017, 4), measured where this runs.

    steps      the longest chain of matrix products that wait for one another in a layer's pass, counted in
               the graph that autograd has written down                                recurrent N, else 6
    paths      how often a layer acts on its tokens, or a cell on its states, before the last of N tokens
               can feel the first: found by gradients                                  recurrent N - 1, else 1
    speeds     tokens a second, forwards and backwards
    accuracy   models that must say at the last token what the first one was, each trained at one distance
    fading     |dy_N / dx_1| over |dy_N / dx_N|: what is left of the gradient at the first of N tokens, before
               anything was learned (Bengio et al. 1994); the plain tanh cell stands beside the LSTM
    recency    |dy_N / dx_i| by the distance N - i, as a share of the sum over all tokens: in a recurrent
               layer the last tokens weigh most

A recurrent layer is an LSTM that reads forwards; both models answer from the state of the last token, and are
of one width. An LSTM on a CPU may well be the faster one: there is little there that could run at once.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.encoder import Encoder
from regard.models.headed import Headed, HeadedConfig
from regard.nn.multihead import SelfAttention
from regard.nn.recurrent import RecurrentEncoder
from regard.settings.models import ClassifyConfig, EncoderConfig, PoolConfig
from regard.settings.network import (
    AttentionConfig,
    NormConfig,
    PositionsConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.tasks.base.faster import thread_count
from regard.train.ranks import find_device

Kind = Literal["transformer", "recurrent", "plain"]
KINDS: tuple[Kind, Kind] = ("transformer", "recurrent")
GRADED: tuple[Kind, Kind, Kind] = ("transformer", "recurrent", "plain")
"""With the plain tanh cell, whose gradients fade soonest."""
DIRECTIONS = 16
"""Drawn to estimate how long a gradient is."""
PRODUCTS = ("MmBackward0", "AddmmBackward0", "BmmBackward0", "BaddbmmBackward0")
"""Matrix products, as autograd calls them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimsConfig:
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    """Tokens, where steps and paths are counted."""
    d_model: int = 64
    """Width of the models that are counted and of those that remember."""
    timed_lengths: tuple[int, ...] = (8, 32, 128, 512, 1024)
    timed_tokens: int = 2048
    """In a batch, whatever their length."""
    timed_width: int = 256
    timed_layers: int = 2
    repeats: int = 7
    """Timed passes; the quickest counts, as the one that was disturbed least."""
    distances: tuple[int, ...] = (4, 8, 16, 24, 32, 64, 128)
    """From the token that matters to the one that asks for it."""
    symbols: int = 16
    """That are to be distinguished: guessing is right once in so many times."""
    train_steps: int = 300
    batch: int = 32
    rate: float = 3e-3
    seeds: int = 3
    """Models of each kind at each distance."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lengths", "timed_lengths", "distances"):
            values = getattr(self, name)
            if not values or min(values) < 2:
                raise ValueError(f"{name}={values}: name at least one, and none below 2")
        if max(self.timed_lengths) > self.timed_tokens:
            raise ValueError(
                f"timed_lengths has {max(self.timed_lengths)}, but timed_tokens={self.timed_tokens}: a batch "
                "holds one sequence at least"
            )
        for name in ("repeats", "train_steps", "batch", "seeds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


QUICK = ClaimsConfig(
    lengths=(8, 16, 32, 64),
    timed_lengths=(8, 32, 128, 512),
    timed_tokens=512,
    repeats=3,
    distances=(4, 8, 16, 32, 64),
    train_steps=150,
    seeds=1,
)
ON_GPU: dict[str, Any] = {"timed_lengths": ClaimsConfig().timed_lengths, "timed_tokens": 32_768}
"""What fills one; with fewer tokens it would be timed waiting for the host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What was found: for each kind one value for each length, in the configuration's order."""

    config: ClaimsConfig
    machine: str
    """What the speeds are those of."""
    steps: dict[Kind, list[int]]
    paths: dict[Kind, list[int]]
    speeds: dict[Kind, list[float]]
    """Tokens a second."""
    weights: dict[Kind, int]
    """Of the models that were timed."""
    accuracies: dict[Kind, list[list[float]]]
    """Of each seed."""
    fading: dict[Kind, list[float]]
    """By length."""
    recency: dict[Kind, list[float]]
    """By distance from the end, 0, 1, 2, 4, ..., of the longest length."""


def measure(
    config: ClaimsConfig | None = None, *, device: str = "auto", tell: Callable[[str], None] | None = None
) -> Claims:
    """All of them. `tell` hears what is being done next. Speeds differ from run to run; all else is a
    function of the configuration, on one machine."""
    config = config or ClaimsConfig()
    tell = tell or (lambda line: None)
    place = torch.device(find_device(device))
    found = Claims(
        config=config,
        machine=_machine(place),
        steps={kind: [] for kind in KINDS},
        paths={kind: [] for kind in KINDS},
        speeds={kind: [] for kind in KINDS},
        weights={kind: _weights(kind, config) for kind in KINDS},
        accuracies={kind: [] for kind in KINDS},
        fading={kind: [] for kind in GRADED},
        recency={kind: [] for kind in GRADED},
    )
    for kind in GRADED:
        tell(f"following gradients: {kind}")
        every = {length: gradient_norms(kind, length, config) for length in config.lengths}
        found.fading[kind].extend(float(norms[0] / norms[-1]) for norms in every.values())
        longest = every[max(config.lengths)]
        shares = (longest / longest.sum()).flip(0)
        found.recency[kind].extend(float(shares[distance]) for distance in recent(config))
    for length in config.lengths:
        tell(f"counting steps and paths of {length} tokens")
        for kind in KINDS:
            encoder = build_encoder(kind, config.d_model, layers=1)
            found.steps[kind].append(sequential_steps(encoder, length))
            found.paths[kind].append(path_length(encoder, length))
    for length in config.timed_lengths:
        tell(f"timing sequences of {length} tokens")
        for kind in KINDS:
            found.speeds[kind].append(training_speed(kind, length, config, place))
    for distance in config.distances:
        for kind in KINDS:
            tell(f"training at distance {distance}: {kind}")
            runs = [recall_accuracy(kind, distance, config, seed) for seed in range(config.seeds)]
            found.accuracies[kind].append(runs)
    return found


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"the CPU, {threads} thread{'s' if threads > 1 else ''}"


def _weights(kind: Kind, config: ClaimsConfig) -> int:
    body = build_encoder(kind, config.timed_width, layers=config.timed_layers).body
    return sum(each.numel() for each in body.parameters())


def build_encoder(
    kind: Kind, d_model: int, *, layers: int, vocabulary: int = 32, window: int | None = None
) -> Encoder:
    """Without dropout. A `window` is for Transformers."""
    body: TransformerConfig | RecurrentConfig = (
        TransformerConfig(
            layers=layers,
            attention=AttentionConfig(heads=4),
            norm=NormConfig(place="pre"),
            dropout=0.0,
            window=window,
        )
        if kind == "transformer"
        else RecurrentConfig(
            cell="rnn" if kind == "plain" else "lstm", layers=layers, bidirectional=False, dropout=0.0
        )
    )
    positions = PositionsConfig(kind="sinusoidal" if kind == "transformer" else "none")
    return Encoder(EncoderConfig(vocabulary=vocabulary, d_model=d_model, body=body, positions=positions))


def sequential_steps(encoder: Encoder, length: int) -> int:
    """The longest chain of matrix products that wait for one another when so many tokens are read."""
    return longest_chain(_step_by_step(encoder)(torch.zeros(length, dtype=torch.int64), Layout.of([length])))


def _step_by_step(encoder: Encoder) -> Encoder:
    """A copy without fused kernels, which are one node of the graph whatever they do inside: attention by the
    equation, and cells in float64 on the CPU, which no library has one for."""
    plain = deepcopy(encoder).to("cpu", torch.float64)
    for part in plain.modules():
        if isinstance(part, SelfAttention):
            part.kernel = "equation"
    return plain


def longest_chain(output: Tensor) -> int:
    """The most matrix products on any one way from an output back to the leaves of its graph."""
    last = output.grad_fn
    longest: dict[torch.autograd.graph.Node, int] = {}
    waiting = [] if last is None else [last]
    while waiting:  # not by recursion: chains are longer than Python's stack
        node = waiting[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        if missing := [each for each in before if each not in longest]:
            waiting += missing
            continue
        waiting.pop()
        longest[node] = max((longest[each] for each in before), default=0) + (node.name() in PRODUCTS)
    return 0 if last is None else longest[last]


def path_length(encoder: Encoder, length: int) -> int:
    """How often what an encoder repeats must act before the last of so many tokens can feel the first. A
    Transformer repeats its layer, a recurrent encoder of one layer its cell."""
    body, width = encoder.body, encoder.config.d_model
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(length, width, generator=generator)
    if isinstance(body, RecurrentEncoder):
        before = torch.randn(length, 2 * width, generator=generator, requires_grad=True)
        after = step_cells(body, inputs, before)
    else:
        before = inputs.requires_grad_()
        after = body.each[0](before, Layout.of([length]), body.masks[0])
    directions = torch.randn(after.shape, generator=generator)
    felt = torch.arange(length) == length - 1
    for times in range(1, length):
        (gradients,) = torch.autograd.grad(after, before, directions * felt[:, None], retain_graph=True)
        felt = gradients.ne(0).any(dim=1)
        if felt[0]:
            return times
    raise ValueError(
        f"the last of {length} tokens never feels the first: nothing leads from one to the other"
    )


def step_cells(
    body: RecurrentEncoder, inputs: Float[Tensor, "tokens d_model"], states: Float[Tensor, "tokens both"]
) -> Float[Tensor, "tokens both"]:
    """One step at every token at once, each from the state [hidden ; cell] of the token before it, the first
    from zeros. Done once for each token, it is the layer."""
    hidden, cell = F.pad(states[:-1], (0, 0, 1, 0)).unsqueeze(0).chunk(2, dim=-1)
    _, (hidden, cell) = body.cells(inputs.unsqueeze(0), (hidden.contiguous(), cell.contiguous()))
    return torch.cat([hidden, cell], dim=-1).squeeze(0)


def recent(config: ClaimsConfig) -> list[int]:
    """Distances from the last token: 0, 1, 2, 4, ..., as far as the longest length goes."""
    return [0, *(2**power for power in range((max(config.lengths) - 1).bit_length()))]


def gradient_norms(kind: Kind, length: int, config: ClaimsConfig) -> Float[Tensor, "tokens"]:
    """|dy_N / dx_i| of each of so many tokens of one layer, the mean over seeds: the root of the mean square
    of the gradient along random directions, which is that of the Jacobian's entries."""
    found = torch.zeros(length, dtype=torch.float64)
    for seed in range(config.seeds):
        torch.manual_seed(1000 * config.seed + seed)
        body = build_encoder(kind, config.d_model, layers=1).double().body
        inputs = torch.randn(length, config.d_model, dtype=torch.float64, requires_grad=True)
        last = body(inputs, Layout.of([length]))[-1]
        squares = torch.zeros(length, dtype=torch.float64)
        for direction in torch.randn(DIRECTIONS, config.d_model, dtype=torch.float64):
            (gradients,) = torch.autograd.grad(last, inputs, direction, retain_graph=True)
            squares += gradients.square().sum(dim=1)
        found += (squares / DIRECTIONS).sqrt() / config.seeds
    return found


def training_speed(kind: Kind, length: int, config: ClaimsConfig, device: torch.device) -> float:
    """Tokens a second, forwards and backwards, in float32; a batch has as many sequences as fill it."""
    torch.manual_seed(config.seed)
    encoder = build_encoder(kind, config.timed_width, layers=config.timed_layers).to(device)
    sequences = config.timed_tokens // length
    layout = Layout.of([length] * sequences).to(device)
    ids = torch.randint(32, (layout.tokens,), device=device)
    quickest = float("inf")
    for turn in range(config.repeats + 1):
        _finish(device)
        start = time.perf_counter()
        encoder(ids, layout).sum().backward()
        _finish(device)
        spent = time.perf_counter() - start
        if turn:  # the first one warms up
            quickest = min(quickest, spent)
        encoder.zero_grad()
    return layout.tokens / quickest


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def recall_batch(
    examples: int, distance: int, symbols: int, generator: torch.Generator
) -> tuple[Int[Tensor, "examples tokens"], Int[Tensor, "examples"]]:
    """A symbol, then others like it, then the question: what was the first? With the answers. The question
    stands `distance` tokens behind what it asks for, and is the last id, `symbols`."""
    drawn = torch.randint(symbols, (examples, distance), generator=generator)
    return F.pad(drawn, (0, 1), value=symbols), drawn[:, 0]


def recall_accuracy(kind: Kind, distance: int, config: ClaimsConfig, seed: int) -> float:
    """Share of right answers on fresh examples after training on others, always of this distance. On one
    thread of the CPU, so that it is the same everywhere and no other work can slow it down much."""
    with thread_count(1):
        torch.manual_seed(1000 * config.seed + seed)
        generator = torch.Generator().manual_seed(1000 * config.seed + seed)
        encoder = build_encoder(kind, config.d_model, layers=1, vocabulary=config.symbols + 1).config
        head = ClassifyConfig(labels=config.symbols, pool=PoolConfig(kind="last"), dropout=0.0)
        model = Headed(HeadedConfig(encoder=encoder, head=head))
        _train(model, distance, config, generator)
        ids, answers = recall_batch(512, distance, config.symbols, generator)
        with torch.no_grad():
            guesses = model(ids.flatten(), Layout.of([distance + 1] * len(ids))).argmax(dim=1)
        return float((guesses == answers).float().mean())


def _train(model: Headed, distance: int, config: ClaimsConfig, generator: torch.Generator) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, weight_decay=0.0)
    layout = Layout.of([distance + 1] * config.batch)
    for step in range(config.train_steps):
        ids, answers = recall_batch(config.batch, distance, config.symbols, generator)
        for group in optimizer.param_groups:
            group["lr"] = config.rate * min(1.0, (step + 1) / 20)
        optimizer.zero_grad()
        F.cross_entropy(model(ids.flatten(), layout), answers).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
