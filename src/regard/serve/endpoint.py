"""What `/openapi.json` says of a route: its fields, and an example of a request and its answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXT, WHOLE, NUMBER, TRUTH = "string", "integer", "number", "boolean"
TEXTS = "texts"
"""A text, or a list of them."""
MESSAGES, OBJECT, FILE = "messages", "object", "file"
SCHEMAS: dict[str, dict[str, Any]] = {
    TEXTS: {"oneOf": [{"type": TEXT}, {"type": "array", "items": {"type": TEXT}}]},
    MESSAGES: {"type": "array", "items": {"type": OBJECT}},
    FILE: {"type": TEXT, "format": "binary"},
    "any": {},
}
MODEL = {"model": (TEXT, "its name; the first that fits, if none is given")}
TRUNCATE = {
    "truncate": (TRUTH, "true: what is too long is cut; false: it is refused"),
    "truncation_direction": (TEXT, "Right or Left: where it is cut; Left keeps the end"),
}
PROMPT = {"prompt": (TEXT, "the name of the model's prompt before each text; '' for none")}
TOO_LONG = {"too_long": (TEXT, "cut, windows or error: what is done with texts that are too long")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    path: str
    door: str
    about: str
    method: str = "post"
    fields: Mapping[str, tuple[str, str]]
    """Type and meaning of each; those that are needed have a meaning that ends in (needed)."""
    asked: Mapping[str, Any]
    """An example."""
    answered: Any
    """What comes back for it; None for nothing."""
    status: int = 200
    """Of the answer."""
    media: str = "application/json"
    """Of the answer."""
    form: bool = False
    """It is asked by a form, as it takes a file, and not in JSON."""

    @property
    def in_path(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)}", self.path))
