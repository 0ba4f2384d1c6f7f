"""One token after the other: the likeliest (greedy search), or one drawn at random.

A draw is a function of (seed, key of the source, number of the sample, step) and of the model's scores, not
of the batch: a sentence gets the same samples alone and in any company.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.hashing import GOLDEN, mixed
from regard.decode.config import DecodeConfig, Hypothesis, rank
from regard.decode.rules import Rules, Scores, likeliest, top
from regard.decode.stepper import Request, Search, check_numbers, on_the_way, real, to_host

FEW = 256
"""So many likeliest tokens mostly hold the share of the probability that `top_p` asks for."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step did to the sentences that were still running."""

    running: Int[Tensor, "rows"]
    """Their numbers: source * samples + sample."""
    tokens: Int[Tensor, "rows"]
    """The new token of each; for one that stops here, its end or nothing of note."""
    scores: Float[Tensor, "rows"]
    """Log-probability of all tokens so far; its end's included where one ended."""
    ended: Bool[Tensor, "rows"]
    cut: Bool[Tensor, "rows"]
    """Stopped without an end: at the maximum, or because no token was allowed."""
    history: Int[Tensor, "rows time"]
    """All tokens before this step, as in `regard.decode.rules`."""
    stopped: Bool[Tensor, "rows"]
    """False; whoever reads the steps sets it True where a sentence need not go on."""


def search(request: Request) -> Search:
    """Samples come in the order of their numbers, not of their ranking."""
    config = request.config
    found: list[Hypothesis | None] = [None] * (len(request.prefixes) * config.n_best)
    walk, length, answer = _walk(request), 0, None
    while True:
        try:
            step = walk.send(answer)
        except StopIteration:
            break
        if isinstance(step, Tensor):
            answer = yield step
            continue
        if request.gone:
            sources = step.running // config.n_best
            step.stopped[torch.isin(sources, torch.tensor([*request.gone], device="cpu"))] = True
        for row in (step.ended | step.cut | step.stopped).nonzero()[:, 0].tolist():
            ended, score = bool(step.ended[row]), float(step.scores[row])
            ranking = rank(score, length + ended, config.length_penalty)
            number = int(step.running[row])
            found[number] = Hypothesis(real(step.history[row].numpy()), score, ranking, ended)
            source = number // config.n_best
            own = found[source * config.n_best : (source + 1) * config.n_best]
            if request.told is not None and None not in own:
                request.told(source, [each for each in own if each is not None])
        length, answer = length + 1, None
    whole = [hypothesis for hypothesis in found if hypothesis is not None]
    return [whole[start : start + config.n_best] for start in range(0, len(whole), config.n_best)]


def steps(request: Request) -> Iterator[Step]:
    """Tokens as they come, until every sentence has stopped; stopped ones leave the batch."""
    walk, answer = _walk(request), None
    while True:
        try:
            step = walk.send(answer)
        except StopIteration:
            return
        if isinstance(step, Tensor):
            answer = request.step(step)
        else:
            answer = None
            yield step


@torch.no_grad()  # while a step is made, not between them
def _walk(request: Request) -> Generator[Step | Int[Tensor, "rows"], Any, None]:
    """Each step as it was made, and in between the new tokens, whose scores are to be sent."""
    config = request.config
    logits, rules, history = request.prefill(), request.rules(), request.history()
    running = torch.arange(len(history) * config.n_best, device="cpu")
    maximums = request.maximums.repeat_interleave(config.n_best)
    if config.n_best > 1:
        rows = torch.arange(len(history), device="cpu").repeat_interleave(config.n_best)
        request.state.select(rows)
        logits, history = logits[rows.to(logits.device)], history[rows]
    choose = Chooser(config, rules)
    streams = sample_streams(config.seed, request.keys, config.n_best)
    totals = torch.zeros(len(running), dtype=torch.float64, device="cpu")
    length = 0
    while True:
        early = None
        points = None if config.method == "greedy" else uniform(streams[running.numpy()], length)
        values, tokens = choose(logits, history, length, points)
        if values.device.type == "cpu":
            check_numbers(values.numpy())
        elif request.early and bool((maximums > length).all()):
            wait = on_the_way(values, tokens)
            early = request.step(tokens)  # for those that end here too, for nothing
            values, tokens = wait()
        else:
            values, tokens = to_host(values, tokens)
        possible = values > -torch.inf
        ended = possible & torch.isin(tokens, request.ends)
        cut = ~ended & (~possible | (maximums <= length))
        scores = torch.where(cut, totals, totals + values)
        stopped = torch.zeros_like(ended)
        yield Step(running, tokens, scores, ended, cut, history, stopped)

        going = (~ended & ~cut & ~stopped).nonzero()[:, 0]
        if len(going) == 0:
            return
        totals = scores
        if len(going) < len(running):
            request.state.select(going)
            running, maximums, history = running[going], maximums[going], history[going]
            early = None if early is None else early[going.to(early.device)]
            totals, tokens = totals[going], tokens[going]
        history = torch.cat([history, tokens.unsqueeze(1)], dim=1)
        length += 1
        if len(request.ends) == 0 and bool((maximums <= length).all()):  # no end to ask the model for
            none = torch.zeros(len(running), dtype=torch.bool, device="cpu")
            yield Step(running, tokens, totals, none, ~none, history, none)
            return
        logits = (yield tokens) if early is None else early


class Chooser:
    """What comes next in each row, by one configuration: the likeliest, or what is drawn."""

    def __init__(self, config: DecodeConfig, rules: Rules) -> None:
        self.config, self.rules = config, rules

    def __call__(
        self,
        logits: Float[Tensor, "rows vocab"],
        history: Int[Tensor, "rows time"],
        length: int,
        points: npt.NDArray[np.float64] | None,
    ) -> tuple[Float[Tensor, "rows"], Int[Tensor, "rows"]]:
        """The log-probability of each token, and the token. `length` tokens were generated before; to draw
        takes a number in [0, 1) for each row."""
        if points is not None:
            allowed = self.rules(logits, history, length)
            chosen = draw_tokens(allowed, torch.from_numpy(points).to(allowed.device), self.config)
        elif (best := self.rules.best(logits, length, 1)) is not None:
            values, tokens = best
            return values.squeeze(1), tokens.squeeze(1)
        else:
            allowed = self.rules(logits, history, length)
            chosen = likeliest(allowed)
        return allowed.gather(1, chosen.unsqueeze(1)).squeeze(1), chosen


def draw_tokens(scores: Scores, points: Float[Tensor, "rows"], config: DecodeConfig) -> Int[Tensor, "rows"]:
    """The token in whose part of [0, 1) each row's point falls, the parts being the probabilities of the
    tokens that sampling may take, laid side by side in the order of their ids."""
    ids = None
    scores = scores if config.temperature == 1 else scores / config.temperature
    if 0 < config.top_k < scores.shape[1]:
        scores, ids = top(scores, config.top_k)
    if config.top_p < 1:
        scores = keep_top_p(scores, config.top_p)
    if config.min_p > 0:
        scores = keep_min_p(scores, config.min_p)
    sums = scores.softmax(dim=1).cumsum(dim=1, dtype=torch.float64)
    places = torch.searchsorted(sums, points.unsqueeze(1) * sums[:, -1:], right=True).squeeze(1)
    # where nothing is allowed, or the scores are NaN, the likeliest shows it
    places = places.where(sums[:, -1] > 0, likeliest(scores))
    return places if ids is None else ids.gather(1, places.unsqueeze(1)).squeeze(1)


def keep_top_p(scores: Scores, share: float) -> Scores:
    """-inf for all but the fewest likeliest tokens that together have this share of the probability; of
    equals, lower ids first."""
    likely = scores.log_softmax(dim=1)
    values, ids = top(likely, FEW)
    if bool((values.exp().sum(dim=1) < share).any()):  # a whole vocabulary takes long to sort
        values, ids = top(likely, likely.shape[1])
    ordered, places = torch.sort(values, dim=1, descending=True, stable=True)
    probabilities = ordered.exp().double()
    before = probabilities.cumsum(dim=1) - probabilities
    kept = ordered.where(before < share, -torch.inf)
    return torch.full_like(scores, -torch.inf).scatter_(1, ids.gather(1, places), kept)


def keep_min_p(scores: Scores, share: float) -> Scores:
    """-inf for tokens with less than this share of the likeliest one's probability."""
    best = scores.amax(dim=1, keepdim=True)
    return scores.where((scores - best).exp() >= share, -torch.inf)


Streams = npt.NDArray[np.uint64]


def sample_streams(seed: int, keys: Sequence[int], samples: int) -> Streams:
    """A stream of random numbers for each sample of each source, known by the source's key."""
    numbers = np.array([key % 2**64 for key in keys], dtype=np.uint64)
    by_source = _next(_next(np.full(len(keys), seed % 2**64, dtype=np.uint64)) + numbers)
    return _next(by_source[:, None] + np.arange(samples).astype(np.uint64)).reshape(-1)


def uniform(streams: Streams, step: int | npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """The number of this step in each stream, in [0, 1); of a step for all, or one for each."""
    bits = _next(streams + np.atleast_1d(step).astype(np.uint64) * GOLDEN)
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _next(streams: Streams) -> Streams:
    return mixed(streams + GOLDEN)
