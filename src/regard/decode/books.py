"""Beam searches on a CPU whose steps are made by C: `beam.search`, over `BeamGroups`.

A step of a beam is a hundred small operations besides its products. One by one they take a third of the time
in 8 bits, and hold Python's lock against all other threads. Here a step of all searches under way is one
call; Python hears of it when a source is done or grids must change. What is found is the same, but for
rounding: tests/decode/test_books.py.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from torch import nn

from regard.decode.beam import is_watched
from regard.decode.config import Hypothesis, most_kept, rank
from regard.decode.groups import BeamGroups, BeamGroupState
from regard.decode.stepper import Request, no_numbers
from regard.nn.decoder_passes import EVERYWHERE, DecoderPasses, readable
from regard.nn.embedding import Embedding
from regard.nn.native import beam as native
from regard.nn.native.linear import Panels
from regard.nn.native.structs import Ends
from regard.nn.positions import AddedTable, LearnedPositions


class BookedSearch:
    def __init__(self, request: Request) -> None:
        """Reads the prefixes and takes the first step; `serves` says of which requests."""
        self.found: list[list[Hypothesis]] | None = None
        """What every source has become, when all are done."""
        self._request, self._state = request, cast(BeamGroupState, request.state)
        self._kept: list[list[Hypothesis]] = [[] for _ in request.prefixes]
        self._gone: set[int] = set()
        config = request.config
        scores = request.prefill()
        self.books = native.Books(
            beam=config.beam,
            n_best=most_kept(config),
            end=int(request.ends[0]),
            stop=config.stop,
            minimum=config.minimum,
            penalty=config.length_penalty,
            maximums=request.maximums.numpy(),
            hidden=request.suppressed.numpy(),
            prefixes=np.array([len(prefix) for prefix in request.prefixes]),
            keys=self._state.sources.numpy(),
            grids=self._state.grids(),
        )
        self._longest = max(map(len, request.prefixes))
        self._leave()
        self.books.begin(scores)
        self._settle()

    @staticmethod
    def serves(request: Request) -> bool:
        """Not where what may come depends on what came, where phrases are to be held, or where somebody
        looks."""
        config, groups = request.config, request.stepper
        ends = request.ends.tolist()
        return (
            isinstance(groups, BeamGroups)
            and config.method == "beam"
            and config.beam <= native.WIDEST
            and config.repetition_penalty == 1
            and not config.no_repeat
            and not any(request.phrases)
            and len(ends) == 1
            and ends[0] not in request.suppressed.tolist()
            and not is_watched()
            and 2 * config.beam < groups.model.config.decoder.vocabulary
            and _quiet(groups) is not None
        )

    @staticmethod
    def step(groups: BeamGroups, searches: Sequence["BookedSearch"]) -> None:
        """One new token in each row of each search."""
        passes = _quiet(groups)
        if passes is None:
            raise ValueError("a hook came, or gradients were switched on, in the middle of a search")
        longest = max(search.longest for search in searches)
        ends = _ends(groups.model.decoder.embedding, groups.model.decoder.head, longest)
        for search in searches:
            search._leave()
        if native.step(passes.passes, ends, [search.books for search in searches]):
            for search in searches:
                search._settle()

    @property
    def rows(self) -> int:
        return self.books.rows

    @property
    def longest(self) -> int:
        """Tokens of its longest row, with the one that comes."""
        return self._longest + self.books.length

    def _leave(self) -> None:
        """What nobody waits for any more."""
        if len(self._request.gone) > len(self._gone):
            for source in {*self._request.gone} - self._gone:
                self.books.give_up(source)
                self._gone.add(source)

    def _settle(self) -> None:
        """What C has told, and left to do."""
        told = self.books.told
        if told & native.BROKEN:
            raise no_numbers()
        if told & native.LEFT:
            for source in self.books.left():
                self._done(source)
        if told & native.OVER:
            self.found = self._kept
            return
        if told & native.SPARSE:
            self._state.keep_groups(self.books.present())
            self.books.close()
        if told & native.NARROW:
            self._state.widen(self.books.needed)
        if told & (native.SPARSE | native.NARROW):
            self.books.lay(self._state.grids())
        if told & native.NARROW:
            self.books.place()

    def _done(self, source: int) -> None:
        forced, penalty = tuple(self._request.prefixes[source][1:]), self._request.config.length_penalty
        self._kept[source] = [
            Hypothesis((*forced, *ids), score, rank(score, len(ids) + finished, penalty), finished=finished)
            for ids, score, finished in self.books.kept(source)
        ][: self._request.config.n_best]
        if self._request.told is not None:
            self._request.told(source, self._kept[source])


def _quiet(groups: BeamGroups) -> DecoderPasses | None:
    """The layers as C has them, if all of the decoder has a counterpart there and nobody listens."""
    embedding, head, passes = groups.model.decoder.embedding, groups.model.decoder.head, groups.passes
    parts: list[nn.Module | None] = [embedding, embedding.tokens, embedding.positions, head]
    hooked = any(part is not None and (part._forward_hooks or part._forward_pre_hooks) for part in parts)
    if passes is None or hooked or any(EVERYWHERE) or not passes.unseen():
        return None
    positions = embedding.positions
    known = (
        positions is None
        or isinstance(positions, AddedTable)
        or (type(positions) is LearnedPositions and readable(positions.table.weight))
    )
    plain = type(embedding) is Embedding and embedding.norm is None and embedding.segments is None
    quiet = isinstance(embedding.dropout, nn.Identity) or not embedding.dropout.training
    products = isinstance(getattr(head, "products", None), Panels)
    return passes if known and plain and quiet and products and readable(embedding.tokens.weight) else None


def _ends(embedding: Embedding, head: nn.Module, longest: int) -> Ends:
    """Where the rows of tokens and of positions below `longest` lie, and the product at the end."""
    weight, positions, where = embedding.tokens.weight, embedding.positions, None
    if isinstance(positions, AddedTable):
        where = positions.reaching(longest).data_ptr()
    elif isinstance(positions, LearnedPositions):
        positions.check(longest)
        where = positions.table.weight.data_ptr() + 4 * positions.first * weight.shape[1]
    products = cast(Panels, head.products)
    return Ends(
        weight.shape[1], products.outputs, weight.data_ptr(), where, products.address, embedding.scale
    )
