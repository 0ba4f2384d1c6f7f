"""Several batches at once, each from where it stands: a new one joins when the others have become small.

    rows  |aaaaaaa
          |aaaaaaab               A batch gets small as its sentences end, and a product of few rows takes
          |aaaabbbbbb             nearly as long as one of many. So all batches that are under way share
          |aabbbbbbbbcc           each step.
          +------------- steps

What a sentence becomes does not depend on its company, but for rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.config import Hypothesis
from regard.decode.search import search
from regard.decode.stepper import Request, Search

Batch = TypeVar("Batch")
Hypotheses = list[list[Hypothesis]]


class Together(Protocol):
    def together(
        self, asked: Sequence[tuple[Int[Tensor, "rows"], Any]], /
    ) -> Float[Tensor, "all_rows vocab"]:
        """One new token in each row of each state; the scores for what follows, in the same order."""


@dataclass(slots=True, eq=False)
class _Runner(Generic[Batch]):
    batch: Batch
    request: Request
    work: Search
    tokens: Int[Tensor, "rows"] | None = None
    """What comes next in each row; None before the start, and when it is done."""
    found: Hypotheses | None = None

    def go(self, scores: Float[Tensor, "rows vocab"] | None) -> None:
        try:
            self.tokens = self.work.send(cast(Any, scores))  # None begins it
        except StopIteration as end:
            self.tokens, self.found = None, end.value


def relay(
    stepper: Together, batches: Iterator[Batch | None], begin: Callable[[Batch], Request], few: int
) -> Iterator[tuple[Batch, Hypotheses]]:
    """Each batch with the hypotheses of its sources, as it is done. `begin` makes the request of a batch; the
    next one is begun when fewer than `few` rows are under way. None is no batch: there is none at the moment,
    and the next is asked for after another step."""
    running: list[_Runner[Batch]] = []
    more = True
    while more or running:
        while more and sum(len(cast(Tensor, each.tokens)) for each in running) < few:
            try:
                batch = next(batches)
            except StopIteration:
                more = False
                break
            if batch is None:
                break
            request = begin(batch)
            runner = _Runner(batch, request, search(request))
            runner.go(None)
            running.append(runner)
            yield from _done(running)
        if running:
            asked = [(cast(Tensor, each.tokens), each.request.state) for each in running]
            scores = stepper.together(asked).split([len(tokens) for tokens, _ in asked])
            for each, own in zip(running, scores, strict=True):
                each.go(own)
            del asked, scores, each, own  # so that what a batch held goes with it
            yield from _done(running)


def _done(running: list[_Runner[Batch]]) -> Iterator[tuple[Batch, Hypotheses]]:
    """They leave."""
    ended = [each for each in running if each.found is not None]
    running[:] = [each for each in running if each.found is None]
    yield from ((each.batch, cast(Hypotheses, each.found)) for each in ended)
