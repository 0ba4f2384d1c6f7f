"""Beam search for hypotheses that hold given phrases (grid beam search, Hokamp & Liu 2017; the beam is shared
out among the grid's columns as it goes, Post & Vilar 2018).

A hypothesis has a place in a grid: how many tokens of its phrases it has. Besides the likeliest tokens, each
hypothesis is continued by the next token of the phrase that it is in or, if it is in none, by the first token
of every phrase that it lacks. Of all continuations of a source the beam takes the best of every column in
turn, from those that lack least, so that each column lives on beside the others:

    tokens it has    0    1    2    3
    beam of 5        x    x    xx   x         and only the last column may end

A phrase that is broken off counts for nothing. Behind a whole phrase no token may come that goes on with its
last word (`inner`): it would be another word. Scores are those of the model; nothing is added for a phrase.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.beam import Best, reach
from regard.decode.config import most_kept
from regard.decode.rules import merge_ends_, top
from regard.decode.stepper import Request, Search, real, to_host

Phrase = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Which phrases a hypothesis has."""

    phrases: tuple[Phrase, ...]
    done: frozenset[int] = frozenset()
    within: int = -1
    """The phrase it is in; -1 for none."""
    tokens: int = 0
    """How many of that one it has."""
    just: bool = False
    """Whether the last token has ended a phrase."""

    @property
    def column(self) -> int:
        return sum(len(self.phrases[each]) for each in self.done) + self.tokens

    @property
    def whole(self) -> bool:
        return len(self.done) == len(self.phrases)

    def wanted(self) -> list[int]:
        """Tokens that lead on."""
        if self.within >= 0:
            return [self.phrases[self.within][self.tokens]]
        return [*dict.fromkeys(own[0] for i, own in enumerate(self.phrases) if i not in self.done)]

    def after(self, token: int) -> "Progress":
        """With one more token: the longest end of what it has that begins a phrase (of two phrases that begin
        alike, the longer one)."""
        tail = (*(self.phrases[self.within][: self.tokens] if self.within >= 0 else ()), token)
        lacking = [i for i in range(len(self.phrases)) if i not in self.done]
        for size in range(len(tail), 0, -1):
            begun = [i for i in lacking if self.phrases[i][:size] == tail[-size:]]
            if begun:
                own = self.within if self.within in begun else max(begun, key=lambda i: len(self.phrases[i]))
                return self._having(own, size)
        return Progress(self.phrases, self.done)

    def _having(self, phrase: int, tokens: int) -> "Progress":
        if tokens == len(self.phrases[phrase]):
            return Progress(self.phrases, self.done | {phrase}, just=True)
        return Progress(self.phrases, self.done, phrase, tokens)


@dataclass(frozen=True, slots=True)
class _Continuation:
    score: float
    row: int
    token: int
    progress: Progress


def search(request: Request) -> Search:
    config, sources = request.config, len(request.prefixes)
    logits = request.prefill()
    _check_ids(request, logits.shape[1])
    rules, end = request.rules(), int(request.ends[0])
    inner = request.inner.to(request.device)
    best = Best(sources, most_kept(config), config.length_penalty)
    owners, scores = [*range(sources)], [0.0] * sources
    states = [Progress(tuple(phrases)) for phrases in request.phrases]
    history = request.history()
    length = 0
    while True:
        likely = merge_ends_(rules(logits, history, length), rules.ends)
        _forbid_(likely, states, inner, rules.ends)
        found = _continued(likely, states, scores, 2 * config.beam)
        every: list[list[_Continuation]] = [[] for _ in range(sources)]
        for each in found:
            every[owners[each.row]].append(each)
        kept: list[_Continuation] = []
        done: list[int] = []
        leaving = np.zeros(sources, dtype=bool)
        reached = reach(request, length)
        for source, own in enumerate(every):
            own.sort(key=lambda each: (-each.score, each.row, each.token))
            whole = [each for each in own if each.progress.whole][: config.beam]  # others cannot end
            ended = [each for each in whole if each.token == end]
            best.add(source, [(each.score, real(history[each.row].numpy())) for each in ended], length)
            done += [each.row for each in ended]
            over = request.maximums[source] <= length or source in request.gone
            over = over or (config.stop == "full" and best.finished[source] >= config.beam)
            worst = float(best.worst[source])
            alive = [
                each for each in own if each.token != end and each.score / float(reached[source]) > worst
            ]
            if config.stop == "estimate" and alive:
                over = over or alive[0].score / (length + 1) ** config.length_penalty <= worst
            chosen = [] if over else _share_out(alive, config.beam)
            leaving[source] = not chosen
            kept += chosen
        rows = np.array(owners), np.array(scores)
        best.cut_off(*rows, leaving, np.array(done, dtype=np.int64), history.numpy(), length)
        if request.told is not None:
            for source in sorted({owner for owner in owners if leaving[owner]}):
                request.told(source, best.kept[source][: config.n_best])
        if not kept:
            return [each[: config.n_best] for each in best.kept]
        owners = [owners[each.row] for each in kept]
        scores, states = [each.score for each in kept], [each.progress for each in kept]
        rows_ = torch.tensor([each.row for each in kept], device="cpu")
        tokens = torch.tensor([each.token for each in kept], device="cpu")
        history = torch.cat([history[rows_], tokens.unsqueeze(1)], dim=1)
        request.state.select(rows_)
        logits = yield tokens
        length += 1


def _check_ids(request: Request, vocabulary: int) -> None:
    given = [id for own in request.phrases for phrase in own for id in phrase]
    for name, ids in (("phrases", given), ("inner", request.inner.tolist())):
        if ids and not 0 <= min(ids) <= max(ids) < vocabulary:
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise ValueError(f"{name} has {wrong}: the ids of this model are 0 to {vocabulary - 1}")


def _forbid_(
    scores: Float[Tensor, "rows vocab"],
    states: Sequence[Progress],
    inner: Int[Tensor, "inner"],
    ends: Int[Tensor, "ends"],
) -> None:
    """No end before all phrases are there; no end of another word behind one."""
    open_rows = [i for i, state in enumerate(states) if not state.whole]
    if open_rows:
        rows = torch.tensor(open_rows, device=scores.device)
        scores[rows.unsqueeze(1), ends] = -torch.inf
    just = [i for i, state in enumerate(states) if state.just]
    if just and len(inner):
        rows = torch.tensor(just, device=scores.device)
        scores[rows.unsqueeze(1), inner] = -torch.inf


def _continued(
    likely: Float[Tensor, "rows vocab"], states: Sequence[Progress], scores: Sequence[float], most: int
) -> list[_Continuation]:
    """By the likeliest tokens of each row, and by those that lead on in its phrases."""
    values, ids = to_host(*top(likely, most))
    wanted = [state.wanted() for state in states]
    width = max(map(len, wanted))
    also = torch.tensor(
        [own + [0] * (width - len(own)) for own in wanted], dtype=torch.int64, device=likely.device
    )
    theirs, _ = to_host(likely.gather(1, also), also)
    found = []
    for row, state in enumerate(states):
        pairs = dict(zip(ids[row].tolist(), values[row].tolist(), strict=True))
        pairs |= dict(zip(wanted[row], theirs[row].tolist(), strict=False))
        for token, value in pairs.items():
            if value > -torch.inf:
                found.append(_Continuation(scores[row] + value, row, token, state.after(token)))
    return found


def _share_out(alive: Sequence[_Continuation], beam: int) -> list[_Continuation]:
    """The best of every column in turn; `beam` of them, or one of each column if there are more."""
    columns: dict[int, list[_Continuation]] = {}
    for each in alive:
        columns.setdefault(each.progress.column, []).append(each)
    chosen: list[_Continuation] = []
    place = 0
    while len(chosen) < beam and any(place < len(own) for own in columns.values()):
        for column in sorted(columns, reverse=True):
            if place < len(columns[column]) and (place == 0 or len(chosen) < beam):
                chosen.append(columns[column][place])
        place += 1
    return sorted(chosen, key=lambda each: (-each.score, each.row, each.token))
