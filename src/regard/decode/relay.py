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

from regard.decode.books import BookedSearch
from regard.decode.config import Hypothesis
from regard.decode.groups import BeamGroups
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

    @property
    def rows(self) -> int:
        return len(cast(Tensor, self.tokens))

    def go(self, scores: Float[Tensor, "rows vocab"] | None) -> None:
        try:
            self.tokens = self.work.send(cast(Any, scores))  # None begins it
        except StopIteration as end:
            self.tokens, self.found = None, end.value


@dataclass(slots=True, eq=False)
class _Booked(Generic[Batch]):
    """The same, by C."""

    batch: Batch
    search: BookedSearch

    @property
    def rows(self) -> int:
        return self.search.rows

    @property
    def found(self) -> Hypotheses | None:
        return self.search.found


def _begun(batch: Batch, request: Request) -> "_Runner[Batch] | _Booked[Batch]":
    if BookedSearch.serves(request):
        return _Booked(batch, BookedSearch(request))
    runner = _Runner(batch, request, search(request))
    runner.go(None)
    return runner


def relay(
    stepper: Together, batches: Iterator[Batch | None], begin: Callable[[Batch], Request], few: int
) -> Iterator[tuple[Batch, Hypotheses]]:
    """Each batch with the hypotheses of its sources, as it is done. `begin` makes the request of a batch; the
    next one is begun when fewer than `few` rows are under way. None is no batch: there is none at the moment,
    and the next is asked for after another step."""
    running: list[_Runner[Batch] | _Booked[Batch]] = []
    more = True
    while more or running:
        while more and sum(each.rows for each in running) < few:
            try:
                batch = next(batches)
            except StopIteration:
                more = False
                break
            if batch is None:
                break
            running.append(_begun(batch, begin(batch)))
            yield from _done(running)
        if running:
            _step(stepper, running)
            yield from _done(running)


def _step(stepper: Together, running: "Sequence[_Runner[Batch] | _Booked[Batch]]") -> None:
    booked = [each.search for each in running if isinstance(each, _Booked)]
    if booked:
        BookedSearch.step(cast(BeamGroups, stepper), booked)
    others = [each for each in running if isinstance(each, _Runner)]
    if others:
        asked = [(cast(Tensor, each.tokens), each.request.state) for each in others]
        scores = stepper.together(asked).split([len(tokens) for tokens, _ in asked])
        for each, own in zip(others, scores, strict=True):
            each.go(own)


def _done(running: "list[_Runner[Batch] | _Booked[Batch]]") -> Iterator[tuple[Batch, Hypotheses]]:
    """They leave."""
    ended = [each for each in running if each.found is not None]
    running[:] = [each for each in running if each.found is None]
    yield from ((each.batch, cast(Hypotheses, each.found)) for each in ended)
