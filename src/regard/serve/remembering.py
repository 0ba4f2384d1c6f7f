"""A memory behind a service: what was translated before is not translated again.

The file is read as it is at each request, so that an import counts at once. Look-ups are done beside the loop
that serves all callers, who take turns, a few texts each; no more wait than of requests for a model.
"""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from regard.memory import Memory, MemoryFileError, Recall, recall
from regard.memory.recall import Use
from regard.memory.store import NEAR
from regard.serve.aside import Turns
from regard.serve.line import RefusedError
from regard.serve.models import Served
from regard.tasks.translation.aids import recalled
from regard.tasks.translation.result import Translation

LOG = logging.getLogger("regard.serve")
FEW = 16
"""Texts that are looked up in one turn."""


class Remembering:
    def __init__(self, path: Path, use: Use = "exact", waiting: int = 512) -> None:
        self._memory, self.use = Memory(path), use
        self._turns = Turns("regard-memory", waiting)

    def recall(self, served: Served, source: str | None, target: str | None) -> Recall | None:
        """For texts of these languages or, where a request does not say, those of the model; and where that
        does not know, of the memory, if it has one pair alone. None if it is not known which."""
        source = source or served.source or getattr(served.predictor, "source_language", None)
        target = target or (served.targets[0] if len(served.targets) == 1 else None)
        try:
            pair = self._memory.pair(source, target)
        except MemoryFileError:
            return None
        fuzzy = served.predictor.fuzzy
        near = NEAR if fuzzy is None else min(NEAR, fuzzy.at_least)
        return recall(self._memory, *pair, use=self.use, at_least=near)

    async def look_up(
        self,
        served: Served,
        caller: str,
        texts: Sequence[str],
        source: str | None,
        target: str | None,
        deadline: float,
    ) -> list[Translation] | None:
        """Of each text its matches; those that are the memory's are `remembered`, the others not
        translated."""

        own: Recall | None = None

        def found(first: int) -> list[Translation]:
            nonlocal own
            if first == 0:
                own = self.recall(served, source, target)
            return [] if own is None else [recalled(text, own) for text in texts[first : first + FEW]]

        results: list[Translation] = []
        try:
            for first in range(0, max(1, len(texts)), FEW):
                results += await self._turns.do(partial(found, first), caller, deadline)
                if own is None:
                    return None
            return results
        except MemoryFileError as error:
            LOG.exception("the memory cannot be read")
            raise RefusedError("the memory of this service cannot be read at the moment", 503) from error

    def close(self) -> None:
        self._turns.close()
        self._memory.close()
