"""The explorer's page: one HTML file with its style and script inside, and with answers, if it is saved.

    page(None)               asks the server that gave it
    page(recorded(...))      carries its answers, and opens from a disk

A saved page asks the same questions as a live one; it finds the answers in a table inside, compressed. Its
own policy lets it run this one script and reach nothing but, when it is served, its server.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from regard.look.explorer.explorer import Answer, Call, Explorer, Numbers, Refused, spelled
from regard.look.explorer.questions import script

SHARED = ("parts.js", "colours.js", "shares.js", "frame.js")
"""Scripts that the page of `regard serve` has too; they stand, like the frame, in page/shared."""
SCRIPTS = ("core.js", "draw.js", "plots.js", "text.js")
VIEWS = (
    "translate", "fill", "continue", "label", "answer", "heads", "neuron", "layers", "positions", "context",
    "tour",
)  # fmt: skip
"""In the order of their tabs."""

Recorded = Mapping[str, Answer]
"""Answers by their questions, as the page spells these."""


def page(recorded: Recorded | None) -> str:
    scripts = [*SCRIPTS, *(f"views/{view}.js" for view in VIEWS), "start.js"]
    data = "" if recorded is None else packed(recorded)
    return one_page(files("regard.look") / "page", scripts, data, reaches=recorded is None)


def one_page(folder: Traversable, scripts: Sequence[str], data: str, *, reaches: bool) -> str:
    """The frame with what all pages share, then a folder's own style and scripts in it. `data` stands where
    no markup is read, and may hold no `<`; `reaches` is whether it may ask its server."""
    shared = files("regard.look") / "page" / "shared"
    sources = [*(shared / name for name in SHARED), *(folder / name for name in scripts)]
    code = "\n".join(["'use strict';", *(each.read_text("utf-8") for each in sources)])
    style = "\n".join(each.read_text("utf-8") for each in (shared / "base.css", folder / "style.css"))
    reach = "'self'" if reaches else "'none'"
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {reach}; base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "data": data, "script": code}
    html = (shared / "index.html").read_text("utf-8")
    for name, part in parts.items():
        before, after = html.split(f"{{{{{name}}}}}")
        html = before + part + after
    return html


def packed(recorded: Recorded) -> str:
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def key(question: str, given: Mapping[str, Any]) -> str:
    """As the page spells it: arguments in the order of their names, without those that are null."""
    own = {name: given[name] for name in sorted(given) if given[name] is not None}
    return f"{question} {json.dumps(own, ensure_ascii=False, separators=(',', ':'))}"


def record(
    explorer: Explorer,
    texts: Sequence[tuple[str, str | None, str | None]],
    progress: Callable[[int], None] | None = None,
) -> dict[str, Answer]:
    """The answers to all that the page may ask about these texts: (text, second, to)."""
    asked: list[Call] = [("about", {})]
    for text, second, to in texts:
        asked += script(explorer, text, second, to)
    found: dict[str, Answer] = {}
    for question, given in asked:
        try:
            answer = _shorter(explorer.ask(question, given))
        except Refused as error:  # the page says it where it would say it live
            answer = {"refused": str(error)}
        found[key(question, given)] = answer
        if progress is not None:
            progress(1)
    found["texts"] = {"texts": [{"text": text, "second": second, "to": to} for text, second, to in texts]}
    return found


def _shorter(answer: Any) -> Any:
    """With numbers of 32 bits in 16: a picture does not show the difference, and a file is half as long."""
    match answer:
        case Numbers() if answer.startswith("f4:"):
            numbers = np.frombuffer(base64.b64decode(answer[3:]), "<f4")
            return spelled(numbers.clip(-65504, 65504).astype("<f2"))
        case dict():
            return {name: _shorter(each) for name, each in answer.items()}
        case list():
            return [_shorter(each) for each in answer]
    return answer


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
