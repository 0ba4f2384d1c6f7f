"""What a service takes, and what it refuses; all of it can be set, and is safe as it stands."""

import math
from dataclasses import dataclass

OPTIONS = {"tokens": "--max-in-flight", "seconds": "--deadline", "max_tokens": "--max-tokens"}
"""What they are called on the command line; the others are called --max- and their name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    body: int = 2_000_000
    """Bytes of a request."""
    unpacking: float = 2.0
    """Times `body`, the XML of a document that was sent packed (DOCX, ODT)."""
    bodies: float = 32.0
    """Times `body`, what is held of all requests that are being read or answered; more are told to come back
    later (429)."""
    texts: int = 256
    """Texts of a request."""
    characters: int = 100_000
    """Characters of a request, all its texts together."""
    waiting: int = 512
    """Requests that wait for one model; more are told to come back later (429)."""
    tokens: int = 262_144
    """Tokens, about, that wait for one model or are being worked on."""
    seconds: float = 30.0
    """A request that is not answered by then is given up (503)."""
    sending: float = 30.0
    """Seconds in which a request must have come, and an answer must have been taken."""
    alternatives: int = 8
    """Translations, or texts behind a prompt, of one request."""
    max_tokens: int = 2048
    """That may follow a prompt."""
    connections: int = 2048
    """Open at a time; more are told to come back later (503)."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not 0 < (value := getattr(self, name)) < math.inf:
                option = OPTIONS.get(name, f"--max-{name}")
                raise ValueError(f"{option} {value}: give a number greater than 0")
