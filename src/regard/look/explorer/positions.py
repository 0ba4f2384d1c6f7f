"""The positions of the model, as numbers.

rows       a vector for each position                      sinusoidal, learned
angles     how far pairs turn from one to the next         rotary
biases     what heads add to their scores, by distance     relative, ALiBi
nothing    and why
"""

import re
from collections.abc import Iterator

import torch

from regard.look.explorer.explorer import Answer, Call, Explorer, Refused, floats
from regard.look.parts import Side
from regard.look.plot_positions import LENGTH, Biases, positions_of
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.nn.positions import RotaryPositions
from regard.nn.stacks import Stack

MOST = 512
"""Positions that are shown."""


def positions(explorer: Explorer, *, side: Side, length: int | None = None) -> Answer:
    """The first `length` of one side of the model; unless given, as many as a picture shows at first."""
    sides = explorer.parts.sides
    if side not in sides:
        raise Refused(f"this model has no {side}: ask for its {' or '.join(sides)}")
    part = sides[side]
    kind = part.config.positions.kind
    if kind == "none":
        return {"has": "nothing", "kind": kind, "why": _why_not(part)}
    most = min(MOST, part.config.positions.longest) if kind == "learned" else MOST
    length = min(LENGTH, most) if length is None else length
    if not min(2, most) <= length <= most:
        raise Refused(f"length={length}: from 2 to {most:,} positions can be shown")
    found = positions_of(explorer.task, length, side)
    about = {"kind": kind, "title": found.title, "length": length, "most": most}
    if isinstance(found, Biases):
        return {
            **about,
            "has": "biases",
            "heads": [_counted_from_1(head) for head in found.heads],
            "first": int(found.distances[0]),
            "last": int(found.distances[-1]),
            "values": floats(torch.from_numpy(found.values)),
        }
    rotary = part.body.each[0].attention.rotary if isinstance(part.body, Stack) else None
    if isinstance(rotary, RotaryPositions):
        # not in 16 bits, as a saved page has its tables: at far positions the angles would be others
        turns = rotary.frequencies.tolist()
        return {**about, "has": "angles", "frequencies": turns, "stretch": rotary.stretch}
    rows = floats(torch.from_numpy(found.rows))
    return {**about, "has": "rows", "width": found.rows.shape[1], "rows": rows}


def _why_not(part: Encoder | Decoder) -> str:
    if isinstance(part.body, Stack):
        return (
            "This model has no positions (positions.kind is 'none'): it cannot tell one order of tokens "
            "from another, but for what a mask hides."
        )
    return "This model has no positions: it reads one token after the other, and so knows their order."


def _counted_from_1(name: str) -> str:
    """As the page counts layers and heads."""
    return re.sub(r"\d+", lambda number: str(int(number[0]) + 1), name)


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page asks of any model, whatever the text."""
    for side in explorer.parts.sides:
        yield "positions", {"side": side}


QUESTIONS = {"positions": positions}
