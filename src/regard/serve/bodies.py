"""Bodies of requests, bounded all together: what has been sent, with a key or without, takes memory until it
is answered."""

from collections import Counter

from regard.serve.line import SHARE, BusyError


class Bodies:
    """Bytes that are there, by caller. The last of the room is kept for callers who have little of it."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._whole = 0

    def check(self, caller: str, size: int, most: float) -> None:
        """A BusyError where so many more do not fit."""
        own = self._held[caller] + size
        if self._whole + size > most * (1.0 if own <= most * (1 - SHARE) / 2 else SHARE):
            raise BusyError(1)

    def take(self, caller: str, size: int, most: float) -> None:
        self.check(caller, size, most)
        self._held[caller] += size
        self._whole += size

    def give_back(self, caller: str, size: int) -> None:
        self._whole -= size
        self._held[caller] -= size
        if not self._held[caller]:
            del self._held[caller]
