"""Which keys a query may see. True means visible, everywhere.

A mask is a description, not a tensor: kernels that know the description never build the matrix. `before` and
`after` count from the query's own place:

    full       before=None  after=None     sliding    before=2  after=0
    1 1 1 1                                1 . . .
    1 1 1 1    causal       after=0        1 1 . .
    1 1 1 1    1 . . .                     1 1 1 .
    1 1 1 1    1 1 . .                     . 1 1 1
               1 1 1 .
               1 1 1 1

Where a sequence has fewer queries than keys, its queries are the last ones: query i of q stands at key
i + (keys - q). So a causal row means the same in a whole pass and in a step that brings one new token.
A query that sees no key at all attends to nothing: its weights and its output are zero.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Lengths = Int[Tensor, "sequences"]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    before: int | None = None
    """How many keys before its own place a query sees; None for all."""
    after: int | None = None
    """How many keys after its own place a query sees; None for all, 0 for causal."""
    chosen: Bool[Tensor, "sequences query key"] | None = None
    """Any further rule: a key is visible where this is True as well. Padded to the longest sequence; what
    lies past a sequence's own lengths is not read."""

    def __post_init__(self) -> None:
        for name, reach in (("before", self.before), ("after", self.after)):
            if reach is not None and reach < 0:
                raise ValueError(f"Mask({name}={reach}): a reach is 0 or more, or None for all")

    def visible(
        self, queries: int, keys: int, sequence: int = 0, device: torch.device | str | None = None
    ) -> Bool[Tensor, "query key"]:
        """The matrix of one sequence: the meaning of the description."""
        place = torch.arange(queries, device=device)[:, None] + (keys - queries)
        distance = torch.arange(keys, device=device)[None, :] - place
        visible = torch.ones(queries, keys, dtype=torch.bool, device=device)
        if self.before is not None:
            visible &= distance >= -self.before
        if self.after is not None:
            visible &= distance <= self.after
        if self.chosen is not None:
            visible &= self.chosen[sequence, :queries, :keys]
        return visible

    def grid(
        self, query_lengths: Lengths, key_lengths: Lengths, queries: int, keys: int
    ) -> Bool[Tensor, "sequences query key"]:
        """The matrices of all sequences at once, padded to this many queries and keys; no key is visible
        past a sequence's own keys. tests/nn/test_masks.py holds it equal to `visible`."""
        columns = torch.arange(keys, device=key_lengths.device)
        places = (
            torch.arange(queries, device=key_lengths.device)[:, None]
            + (key_lengths - query_lengths)[:, None, None]
        )
        visible = (columns < key_lengths[:, None, None]).expand(-1, queries, -1)
        if self.before is not None:
            visible = visible & (columns - places >= -self.before)
        if self.after is not None:
            visible = visible & (columns - places <= self.after)
        if self.chosen is not None:
            visible = visible & self.chosen[:, :queries, :keys]
        return visible


FULL = Mask()
CAUSAL = Mask(after=0)
