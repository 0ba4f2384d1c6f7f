"""What a template of strangers may cost: steps, and the size of what it makes.

Every step is paid for with `spend`, and what would be large is refused with `bound` before it is made.
"""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sized, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jinja2.runtime import Undefined

LONGEST = 2**22
"""Characters that a template may write, or make on the way."""
LONGEST_TEMPLATE = 2**16
"""Its own characters."""
STEPS = 2**21
"""That a template may take."""
CALL = 20
"""Steps of a call, and of a round of a loop, beside what is inside."""
LETTERS = 16
"""Characters that are read or written in a step."""
WIDEST = 1024
"""Bits of a whole number."""
_left: ContextVar[list[int]] = ContextVar("_left")


class ChatError(ValueError):
    """Messages that make no dialogue, or a template that does not work; the message says which."""


@contextmanager
def limited() -> Iterator[None]:
    """Around one run of a template."""
    token = _left.set([STEPS])
    try:
        yield
    finally:
        _left.reset(token)


def spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise ChatError(f"the chat template does not end within {STEPS:,} steps")


def bound(size: int) -> None:
    if size > LONGEST:
        raise ChatError(f"the chat template makes something larger than {LONGEST:,} characters")


def read(value: Any, *, plain: bool = False) -> int:
    """The characters of a value and all that is in it, each step paid for. With `plain`, it must be data that
    can be written out, and not too large for it."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        match each:
            case str():
                size += len(each)
                spend(1 + len(each) // LETTERS)
            case dict():
                spend(1 + len(each))
                waiting += [*each.keys(), *each.values()]
                size += 6 * len(each)
            case list() | tuple():
                spend(1 + len(each))
                waiting += each
                size += 2 * len(each)
            case int() if each.bit_length() > WIDEST:
                raise ChatError(f"the chat template makes a number larger than {WIDEST} bits")
            case None | int() | float() | Undefined():
                spend(1)
                size += 8
            case _ if plain:
                raise ChatError(f"the chat template writes {type(each).__name__!r}, which is no plain data")
            case _:
                spend(1)
        if plain:
            bound(size)
    return size


def counted(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        spend(CALL)
        yield each


def listed(value: Any) -> Any:
    """What is not there yet as a list; anything else as it is."""
    return [*counted(value)] if isinstance(value, Iterator | KeysView | ValuesView | ItemsView) else value


def cost(value: Any) -> int:
    """Of a copy, without what is inside."""
    size = len(value) if isinstance(value, Sized) else 0
    return 1 + (size // LETTERS if isinstance(value, str) else size)
