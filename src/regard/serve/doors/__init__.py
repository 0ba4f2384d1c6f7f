"""The protocols that a service speaks. A door is a list of routes; each has its own way to tell an error."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.serve.asking import Handler, Shape


@dataclass(frozen=True, slots=True)
class Way:
    """A route: how it is asked, and what answers."""

    method: str
    path: str
    handler: Handler
    public: bool = False
    """It takes no key."""


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    shape: Shape
    """What an error looks like: shape(why, status)."""
    ways: Sequence[Way]
    stranger: int = 401
    """The status that tells someone without a key so."""
    below: tuple[str, ...] = ()
    """Where its clients look for more than there is: what no door has there is refused in its shape."""
