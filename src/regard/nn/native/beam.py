"""The steps of beam searches by beam.c. `Books` are those of one search; `step` makes one of several."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal
from weakref import finalize

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.nn.native import library
from regard.nn.native.decoder import Grids, Passes
from regard.nn.native.structs import Ends

LEFT, NARROW, SPARSE, OVER, BROKEN = 1, 2, 4, 8, 16
"""What a step tells: sources are done, the grids are too small, half of them are empty, no rows are left, a
score is no number."""
WIDEST = 64
"""The widest beam: its books lie on a thread's stack."""


@cache
def _functions() -> Any:
    made: Any = library()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for name, given, back in (
        ("new", [*[number] * 6, ctypes.c_double, *[pointer] * 2, number, *[pointer] * 2, number], pointer),
        ("free", [pointer], None),
        ("lay", [pointer, *[number] * 3, pointer], ctypes.c_int),
        ("begin", [pointer, pointer, number, number, ctypes.c_int], number),
        ("step", [pointer, pointer, pointer, number, pointer, ctypes.c_int], number),
        ("room", [pointer, pointer, number], number),
        ("gone", [pointer, number], None),
        ("close", [pointer], None),
        ("present", [pointer, pointer], number),
        ("left", [pointer, pointer], number),
        ("count", [pointer, number], number),
        ("kept", [pointer, number, number, *[pointer] * 3], number),
        *((name, [pointer], number) for name in ("rows", "flags", "needed", "place", "length")),
    ):
        function = getattr(made, f"books_{name}")
        function.argtypes, function.restype = given, back
    return made


STOPS = ("exact", "full", "estimate")
"""As C counts them."""


class Books:
    """Of one search, from where its prefixes have been read."""

    def __init__(
        self,
        *,
        beam: int,
        n_best: int,
        end: int,
        stop: Literal["exact", "full", "estimate"],
        minimum: int,
        penalty: float,
        maximums: Int64[np.ndarray, "sources"],
        hidden: Int64[np.ndarray, "hidden"],
        prefixes: Int64[np.ndarray, "sources"],
        keys: Int64[np.ndarray, "sources"],
        grids: Grids,
    ) -> None:
        """`hidden` are ids that never come, going up, the end not among them; `prefixes` how many tokens each
        row has read; `keys` how many its source has; `maximums` how many more may come."""
        if not 0 < beam <= WIDEST:
            raise ValueError(f"beam={beam} is kept by C up to {WIDEST}: search with decode/beam.py")
        self._made = _functions()
        early = np.sort(np.append(hidden, end))
        never = np.concatenate([hidden, early])
        self.sources = len(maximums)
        given = [np.ascontiguousarray(each, dtype=np.int64) for each in (maximums, never, prefixes, keys)]
        limits, ids, read, asked = (each.ctypes.data for each in given)
        self.address: int | None = self._made.books_new(
            self.sources, beam, n_best, end, STOPS.index(stop), minimum, penalty, limits, ids, len(hidden),
            read, asked, grids.own_room,
        )  # fmt: skip
        if self.address is None:
            raise MemoryError(f"no memory for a beam of {beam} for {self.sources} sources")
        finalize(self, self._made.books_free, self.address)
        self.lay(grids)

    def lay(self, grids: Grids) -> None:
        """Here are the keys from now on."""
        self._grids = grids  # they must outlive their addresses
        where = ctypes.addressof(grids.addresses)
        if self._made.books_lay(self.address, grids.own_room, grids.other_room, grids.half, where):
            raise MemoryError(f"no memory for a search in grids of {grids.own_room} tokens")

    def begin(self, scores: Float[Tensor, "sources vocab"]) -> int:
        """What follows the prefixes. What is told."""
        if scores.shape[0] != self.sources or scores.dtype != torch.float32 or scores.stride(1) != 1:
            raise ValueError(
                f"{tuple(scores.shape)} in {scores.dtype}: scores of {self.sources} rows begin it"
            )
        told: int = self._made.books_begin(
            self.address, scores.data_ptr(), scores.stride(0), scores.shape[1], torch.get_num_threads()
        )
        return checked(told)

    @property
    def rows(self) -> int:
        return int(self._made.books_rows(self.address))

    @property
    def length(self) -> int:
        """Tokens of its longest hypothesis."""
        return int(self._made.books_length(self.address))

    @property
    def told(self) -> int:
        """Of the last step."""
        return int(self._made.books_flags(self.address))

    @property
    def needed(self) -> int:
        """Slots that a group needs, where the grids are too small."""
        return int(self._made.books_needed(self.address))

    def place(self) -> None:
        """Once more, in grids that are large enough now."""
        if needed := self._made.books_place(self.address):
            raise ValueError(
                f"grids of {self._grids.own_room} tokens, but {needed} are needed: lay larger ones"
            )

    def give_up(self, source: int) -> None:
        """Nobody waits for it any more."""
        if not 0 <= source < self.sources:
            raise IndexError(f"source {source} of {self.sources}")
        self._made.books_gone(self.address, source)

    def present(self) -> Int64[np.ndarray, "groups"]:
        """The groups that still have rows."""
        found = np.empty(self.sources, dtype=np.int64)
        return found[: self._made.books_present(self.address, found.ctypes.data)]

    def close(self) -> None:
        """Only those have grids from now on."""
        self._made.books_close(self.address)

    def left(self) -> list[int]:
        """Sources that the last step was done with."""
        found = np.empty(self.sources, dtype=np.int64)
        return found[: self._made.books_left(self.address, found.ctypes.data)].tolist()

    def kept(self, source: int) -> list[tuple[list[int], float, bool]]:
        """Tokens, score, and whether it came to its end, of each hypothesis of a source; best first."""
        found = []
        ids = np.empty(self.length + 1, dtype=np.int64)
        score, finished = ctypes.c_double(), ctypes.c_int64()
        for number in range(self._made.books_count(self.address, source)):
            length = self._made.books_kept(
                self.address, source, number, ctypes.byref(score), ctypes.byref(finished), ids.ctypes.data
            )
            found.append((ids[:length].tolist(), score.value, bool(finished.value)))
        return found


def step(passes: Passes, ends: Ends, searches: Sequence[Books]) -> int:
    """One new token in each row of each search: what any of them tells."""
    made, where = _functions(), ctypes.addressof(ends)
    rows = sum(search.rows for search in searches)
    room = passes.working_room(made.books_room(passes.address, where, rows))
    addresses = (ctypes.c_void_p * len(searches))(*(search.address for search in searches))
    told: int = made.books_step(
        passes.address, where, addresses, len(searches), room.data_ptr(), torch.get_num_threads()
    )
    return checked(told)


def checked(told: int) -> int:
    if told < 0:
        raise MemoryError("no memory for a step of a beam search")
    return told
