"""A memory behind a service: what was translated before is not translated again.

The file is read as it is at each request, so that an import counts at once. Look-ups are done beside the loop
that serves all callers, one after the other, and no more of them wait than of requests for a model.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from regard.memory import Memory, MemoryFileError, Recall, recall
from regard.memory.recall import Use
from regard.memory.store import NEAR
from regard.serve.aside import Aside
from regard.serve.line import RefusedError
from regard.serve.models import Served
from regard.tasks.translation.aids import recalled
from regard.tasks.translation.result import Translation

LOG = logging.getLogger("regard.serve")


class Remembering:
    def __init__(self, path: Path, use: Use = "exact", waiting: int = 512) -> None:
        self._memory, self.use = Memory(path), use
        self._aside = Aside("regard-memory", waiting)

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
        self, served: Served, texts: Sequence[str], source: str | None, target: str | None, deadline: float
    ) -> list[Translation] | None:
        """Of each text its matches; those that are the memory's are `remembered`, the others not
        translated."""

        def found() -> list[Translation] | None:
            own = self.recall(served, source, target)
            return None if own is None else [recalled(text, own) for text in texts]

        try:
            return await self._aside.do(found, deadline)
        except MemoryFileError as error:
            LOG.exception("the memory cannot be read")
            raise RefusedError("the memory of this service cannot be read at the moment", 503) from error

    def close(self) -> None:
        self._aside.close()
        self._memory.close()
