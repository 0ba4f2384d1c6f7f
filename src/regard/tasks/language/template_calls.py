"""What a template of strangers may call: methods of its values, filters, and functions, each within bounds.

What is not in `METHODS`, or not among the filters here, is refused.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial, wraps
from string import Formatter
from typing import Any

from jinja2.runtime import LoopContext, Undefined
from jinja2.utils import Namespace

from regard.tasks.language.template_bounds import (
    CALL,
    STEPS,
    ChatError,
    bound,
    cost,
    counted,
    listed,
    read,
    spend,
)


def percent(left: str, right: Any) -> str:
    """`%` with widths could make anything large."""
    given = right if isinstance(right, tuple) else (right,)
    read(left)
    if re.search("%(?![sd%])", left):
        raise ChatError(f"the chat template formats by {left!r:.60}; only %s and %d are supported")
    bound(len(left) + sum(read(each, plain=True) for each in given))
    return left % right


def free(method: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
    """Nothing of the owner is read, but what the arguments lead to."""
    return method(*args, **kwargs)


def _plain(method: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
    """What it gives is no larger than its owner and arguments."""
    return method(*args, **kwargs)


def _cut(method: Callable[..., Any], owner: str, *args: Any, **kwargs: Any) -> Any:
    """How many pieces there will be is counted first."""
    given = args[0] if args else kwargs.get("sep")
    if method.__name__ == "splitlines":
        pieces = sum(map(owner.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))
    else:
        pieces = owner.count(given) if isinstance(given, str) and given else len(owner) // 8
    spend(CALL * pieces)
    return method(*args, **kwargs)


def _replaced(method: Callable[..., Any], owner: str, old: str, new: str, *args: Any, **kwargs: Any) -> str:
    bound(len(owner) + owner.count(old) * len(new))
    return str(method(old, new, *args, **kwargs))


def _with_joints(method: Callable[..., Any], owner: str, parts: Any) -> str:
    parts = [*counted(parts)]
    bound(read(parts, plain=True) + len(owner) * len(parts))
    return str(method(parts))


def _formatted(method: Callable[..., Any], owner: str, *args: Any, **kwargs: Any) -> str:
    fields = [part for part in Formatter().parse(owner) if part[1] is not None]
    if any(form or not re.fullmatch(r"\w*", name or "") for _, name, form, _ in fields):
        raise ChatError(f"the chat template formats by {owner!r:.60}; only plain {{}} are supported")
    largest = max((read(each, plain=True) for each in (*args, *kwargs.values())), default=0)
    bound(len(owner) + largest * len(fields))
    return str(method(*args, **kwargs))


_LETTERS = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower "
    "isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex "
    "rpartition rstrip startswith strip swapcase title upper"
)
METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    str: {
        **dict.fromkeys(_LETTERS.split(), _plain),
        **dict.fromkeys(("split", "rsplit", "splitlines"), _cut),
        "replace": _replaced,
        "join": _with_joints,
        "format": _formatted,
    },
    list: {"index": _plain, "count": _plain},
    tuple: {"index": _plain, "count": _plain},
    dict: dict.fromkeys(("get", "items", "keys", "values"), free),
    LoopContext: {"cycle": free, "changed": free},
}
"""What may be called, and what keeps it in bounds."""


def _lazily(value: Any) -> Any:
    return value if isinstance(value, Undefined) else counted(value)


def wholly(value: Any) -> Any:
    value = listed(value)
    read(value)
    return value


def as_text(value: Any) -> Any:
    value = listed(value)
    read(value, plain=True)
    return value


def _copied(value: Any) -> Any:
    spend(cost(value))
    return listed(value)


def _slowly(value: Any) -> Any:
    spend(read(value, plain=True))
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _all(names: str, take: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return dict.fromkeys(names.split(), take)


_FILTERS: dict[str, Callable[[Any], Any]] = {
    **_all("count length first last default d items abs float int", _as_it_is),
    **_all("list map reject rejectattr select selectattr", _lazily),
    **_all("dictsort max min sort unique", wholly),
    **_all("capitalize lower safe string trim upper e escape", as_text),
    **_all("title urlencode", _slowly),
    "reverse": _copied,
}
"""Those that may be used, and how they take their value; some more are made in `bounded_filters`."""
_COMPARING = "in == eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le lower upper"


def _bounded(function: Callable[..., Any], take: Callable[[Any], Any]) -> Callable[..., Any]:
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        spend(CALL)
        given = [*args]
        given[first] = take(given[first])
        return function(*given, **kwargs)

    return filtered


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*map(wholly, args))


def _rounded(function: Callable[..., Any], value: Any, precision: int = 0, method: str = "common") -> Any:
    if not -64 <= precision <= 64:
        raise ChatError(f"the chat template rounds to {precision!r:.60} places")
    return function(value, precision, method)


def _join(value: Any, d: str = "") -> str:
    return _with_joints(str(d).join, str(d), [str(as_text(each)) for each in counted(value)])


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = (str(as_text(each)) for each in (value, old, new))
    return _replaced(text.replace, text, old, new, -1 if count is None else count)


def _indent(function: Callable[..., Any], value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> str:
    size = len(width) if isinstance(width, str) else width
    bound(len(as_text(value)) + (value.count("\n") + 2) * size)
    return str(function(value, width, *args, **kwargs))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers does it: plain letters, and no HTML."""
    value = as_text(value)
    pieces, size = [], 0
    if not (indent is None or (isinstance(indent, int) and indent <= 16)):
        raise ChatError(f"the chat template indents by {indent!r:.60}; up to 16 is supported")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    for piece in encoder.iterencode(value):
        size += len(piece)
        bound(size)
        pieces.append(piece)
    return "".join(pieces)


def _range(*bounds: int) -> range:
    found = range(*bounds)
    spend(len(found) if len(found) < STEPS else STEPS + 1)
    return found


def _now(form: object) -> str:
    if len(str(form)) > 100:
        raise ChatError("the chat template asks for the time in a form that is too long")
    return datetime.now().strftime(str(form))


def _refuse(why: object) -> None:
    raise ChatError(f"the chat template refuses these messages: {why}")


FUNCTIONS: dict[str, Any] = {
    "range": _range,
    "dict": dict,
    "namespace": Namespace,
    "raise_exception": _refuse,
    "strftime_now": _now,
}
"""Those that a template has by name."""


def bounded_filters(made: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Of Jinja's filters those that may be used, within bounds."""
    own: dict[str, Callable[..., Any]] = {
        "round": partial(_rounded, made["round"]),
        "indent": partial(_indent, made["indent"]),
        "join": _join,
        "replace": _replace,
        "tojson": _to_json,
    }
    kept = {name: _bounded(made[name], take) for name, take in _FILTERS.items()}
    return kept | {name: _bounded(each, _as_it_is) for name, each in own.items()}


def bounded_tests(made: Mapping[str, Any]) -> dict[str, Any]:
    """Jinja's tests, where those that compare pay for it."""
    return {**made, **{name: _compared(made[name]) for name in _COMPARING.split()}}
