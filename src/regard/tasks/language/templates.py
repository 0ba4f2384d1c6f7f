"""Jinja for templates of strangers: they change nothing, reach nothing, and come to an end.

Jinja's sandbox guards what a template reaches, not what it costs: `'%50000000d' % 1`, a text that doubles in
a loop, or loops over texts inside each other are all allowed there. So a template is compiled with a count of
steps here: each round of a loop and each call costs some, by how much is written inside it; each operation
costs what it reads and writes. What would be large is refused before it is made. Filters and methods are
those that are known to keep to this (`_FILTERS`, `_METHODS`).
"""

import json
import operator
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sized, ValuesView
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache, partial, wraps
from string import Formatter
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

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


def run(template: str, values: Mapping[str, Any]) -> str:
    """What a template writes of these values, which are plain data."""
    from jinja2 import TemplateError

    token = _left.set([STEPS])
    try:
        pieces, size = [], 0
        for piece in _compiled(template).generate(**values):
            size += len(piece)
            if size > LONGEST:
                raise ChatError(f"the chat template writes more than {LONGEST:,} characters")
            pieces.append(piece)
        return "".join(pieces)
    except ChatError:
        raise
    except (
        TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        SyntaxError,
        RuntimeError,
        AssertionError,
        MemoryError,
    ) as error:
        if isinstance(error, RecursionError | MemoryError):
            raise ChatError(f"the chat template does not end ({type(error).__name__})") from error
        raise ChatError(f"the chat template fails on these messages: {error}") from error
    finally:
        _left.reset(token)


def _spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise ChatError(f"the chat template does not end within {STEPS:,} steps")


def _bound(size: int) -> None:
    if size > LONGEST:
        raise ChatError(f"the chat template makes something larger than {LONGEST:,} characters")


def _read(value: Any, *, plain: bool = False) -> int:
    """The characters of a value and all that is in it, each step paid for. With `plain`, it must be data that
    can be written out, and not too large for it."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        match each:
            case str():
                size += len(each)
                _spend(1 + len(each) // LETTERS)
            case dict():
                _spend(1 + len(each))
                waiting += [*each.keys(), *each.values()]
                size += 6 * len(each)
            case list() | tuple():
                _spend(1 + len(each))
                waiting += each
                size += 2 * len(each)
            case int() if each.bit_length() > WIDEST:
                raise ChatError(f"the chat template makes a number larger than {WIDEST} bits")
            case None | int() | float() | Undefined():
                _spend(1)
                size += 8
            case _ if plain:
                raise ChatError(f"the chat template writes {type(each).__name__!r}, which is no plain data")
            case _:
                _spend(1)
        if plain:
            _bound(size)
    return size


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        _spend(CALL)
        yield each


def _listed(value: Any) -> Any:
    """What is not there yet as a list; anything else as it is."""
    return [*_counted(value)] if isinstance(value, Iterator | KeysView | ValuesView | ItemsView) else value


class _Counting(NodeTransformer):
    """Puts the counting into a template."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        weight = _weight(node) if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock) else 0
        node = self.generic_visit(node)
        match node:
            case nodes.For():
                if node.recursive:
                    raise ChatError("the chat template has a recursive loop, which is not supported")
                node.iter = _call("rounds", node.iter, nodes.Const(weight))
            case nodes.Macro() | nodes.CallBlock():
                node.body.insert(0, nodes.ExprStmt(_call("spend", nodes.Const(weight))))
            case nodes.Concat():
                return _call("joined", *node.nodes)
            case nodes.Getitem():
                if isinstance(node.arg, nodes.Slice):
                    return _call("copied", node)
                node.arg = _looked_at(node.arg)
            case nodes.Pair():
                node.key = _looked_at(node.key)
            case nodes.Compare():
                node.expr = _looked_at(node.expr)
                for operand in node.ops:
                    operand.expr = _looked_at(operand.expr)
        return node


def _weight(node: nodes.Node) -> int:
    letters = sum(len(each.data) for each in node.find_all(nodes.TemplateData))
    return CALL + sum(1 for _ in node.find_all(nodes.Node)) + letters // LETTERS


def _call(name: str, *args: nodes.Node) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), [*args], [], None, None)


def _looked_at(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _call("looked_at", node)


class _Bounded(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    own = frozenset({"rounds", "spend", "joined", "copied", "looked_at"})
    """What `_Counting` calls; a template has no name for any of them."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        _Counting().visit(parsed)
        return parsed

    def wrap_str_format(self, value: Any) -> None:
        """As any other method: `call` knows it."""

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if owner is __self and name in __self.own:
            return __obj(*args)
        _spend(CALL)
        if isinstance(__obj, Undefined):
            return __obj()  # which is told in Jinja's words
        if isinstance(__obj, Macro):
            return __context.call(__obj, *args, **kwargs)
        kwargs = {name: each for name, each in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
        args = tuple(map(_wholly, args))
        for each in kwargs.values():
            _read(each)
        if any(__obj is each for each in __self.globals.values()):
            return __obj(*args, **kwargs)
        kind = next((kind for kind in _METHODS if isinstance(owner, kind)), None)
        if kind is None or name not in _METHODS[kind]:
            raise SecurityError(f"{name or type(__obj).__name__} is not safely callable")
        guard = _METHODS[kind][name]
        if guard is not _free:
            _read(owner)
        return guard(__obj, owner, *args, **kwargs)

    def call_binop(self, context: Any, operator_: str, left: Any, right: Any) -> Any:
        _spend(1)
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator_ == "%" and isinstance(left, str):
            return _percent(left, right)
        if operator_ in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = abs(left).bit_length()
            wide = bits * abs(right) if operator_ == "**" else bits + abs(right).bit_length()
            _bound(0 if wide <= WIDEST else LONGEST + 1)
        elif operator_ == "*" and not numbers:
            for one, times in ((left, right), (right, left)):
                if isinstance(one, Sized) and isinstance(times, int):
                    _bound(len(one) * abs(times))
                    _spend(_cost(one) * abs(times))
        elif operator_ == "+" and isinstance(left, Sized) and isinstance(right, Sized):
            _bound(len(left) + len(right))
            _spend(_cost(left) + _cost(right))
        return _BINARY[operator_](left, right)

    def rounds(self, values: Any, weight: int) -> list[Any]:
        """What a loop goes through; `weight` is a round's steps."""
        found = []
        for each in values:
            _spend(weight)
            found.append(each)
        return found

    def spend(self, steps: int) -> None:
        _spend(steps)

    def joined(self, *values: Any) -> str:
        _bound(sum(_read(each, plain=True) for each in values))
        return "".join(map(str, values))

    def copied(self, value: Any) -> Any:
        _spend(_cost(value))
        return value

    def looked_at(self, value: Any) -> Any:
        return _wholly(value)


_BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}


def _cost(value: Any) -> int:
    """Of a copy, without what is inside."""
    size = len(value) if isinstance(value, Sized) else 0
    return 1 + (size // LETTERS if isinstance(value, str) else size)


def _percent(left: str, right: Any) -> str:
    """`%` with widths could make anything large."""
    given = right if isinstance(right, tuple) else (right,)
    _read(left)
    if re.search("%(?![sd%])", left):
        raise ChatError(f"the chat template formats by {left!r:.60}; only %s and %d are supported")
    _bound(len(left) + sum(_read(each, plain=True) for each in given))
    return left % right


def _free(method: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
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
    _spend(CALL * pieces)
    return method(*args, **kwargs)


def _replaced(method: Callable[..., Any], owner: str, old: str, new: str, *args: Any, **kwargs: Any) -> str:
    _bound(len(owner) + owner.count(old) * len(new))
    return str(method(old, new, *args, **kwargs))


def _with_joints(method: Callable[..., Any], owner: str, parts: Any) -> str:
    parts = [*_counted(parts)]
    _bound(_read(parts, plain=True) + len(owner) * len(parts))
    return str(method(parts))


def _formatted(method: Callable[..., Any], owner: str, *args: Any, **kwargs: Any) -> str:
    fields = [part for part in Formatter().parse(owner) if part[1] is not None]
    if any(form or not re.fullmatch(r"\w*", name or "") for _, name, form, _ in fields):
        raise ChatError(f"the chat template formats by {owner!r:.60}; only plain {{}} are supported")
    largest = max((_read(each, plain=True) for each in (*args, *kwargs.values())), default=0)
    _bound(len(owner) + largest * len(fields))
    return str(method(*args, **kwargs))


_LETTERS = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower "
    "isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex "
    "rpartition rstrip startswith strip swapcase title upper"
)
_METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    str: {
        **dict.fromkeys(_LETTERS.split(), _plain),
        **dict.fromkeys(("split", "rsplit", "splitlines"), _cut),
        "replace": _replaced,
        "join": _with_joints,
        "format": _formatted,
    },
    list: {"index": _plain, "count": _plain},
    tuple: {"index": _plain, "count": _plain},
    dict: dict.fromkeys(("get", "items", "keys", "values"), _free),
    LoopContext: {"cycle": _free, "changed": _free},
}
"""What may be called, and what keeps it in bounds."""


def _lazily(value: Any) -> Any:
    return value if isinstance(value, Undefined) else _counted(value)


def _wholly(value: Any) -> Any:
    value = _listed(value)
    _read(value)
    return value


def _as_text(value: Any) -> Any:
    value = _listed(value)
    _read(value, plain=True)
    return value


def _copied(value: Any) -> Any:
    _spend(_cost(value))
    return _listed(value)


def _slowly(value: Any) -> Any:
    _spend(_read(value, plain=True))
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _all(names: str, take: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return dict.fromkeys(names.split(), take)


_FILTERS: dict[str, Callable[[Any], Any]] = {
    **_all("count length first last default d items abs float int", _as_it_is),
    **_all("list map reject rejectattr select selectattr", _lazily),
    **_all("dictsort max min sort unique", _wholly),
    **_all("capitalize lower safe string trim upper e escape", _as_text),
    **_all("title urlencode", _slowly),
    "reverse": _copied,
}
"""Those that may be used, and how they take their value; some more are made here."""
_COMPARING = "in == eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le lower upper"


def _bounded(function: Callable[..., Any], take: Callable[[Any], Any]) -> Callable[..., Any]:
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        _spend(CALL)
        given = [*args]
        given[first] = take(given[first])
        return function(*given, **kwargs)

    return filtered


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*map(_wholly, args))


def _rounded(function: Callable[..., Any], value: Any, precision: int = 0, method: str = "common") -> Any:
    if not -64 <= precision <= 64:
        raise ChatError(f"the chat template rounds to {precision!r:.60} places")
    return function(value, precision, method)


def _join(value: Any, d: str = "") -> str:
    return _with_joints(str(d).join, str(d), [str(_as_text(each)) for each in _counted(value)])


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = (str(_as_text(each)) for each in (value, old, new))
    return _replaced(text.replace, text, old, new, -1 if count is None else count)


def _indent(function: Callable[..., Any], value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> str:
    size = len(width) if isinstance(width, str) else width
    _bound(len(_as_text(value)) + (value.count("\n") + 2) * size)
    return str(function(value, width, *args, **kwargs))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers does it: plain letters, and no HTML."""
    value = _as_text(value)
    pieces, size = [], 0
    if not (indent is None or (isinstance(indent, int) and indent <= 16)):
        raise ChatError(f"the chat template indents by {indent!r:.60}; up to 16 is supported")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    for piece in encoder.iterencode(value):
        size += len(piece)
        _bound(size)
        pieces.append(piece)
    return "".join(pieces)


def _range(*bounds: int) -> range:
    found = range(*bounds)
    _spend(len(found) if len(found) < STEPS else STEPS + 1)
    return found


def _now(form: object) -> str:
    if len(str(form)) > 100:
        raise ChatError("the chat template asks for the time in a form that is too long")
    return datetime.now().strftime(str(form))


def _refuse(why: object) -> None:
    raise ChatError(f"the chat template refuses these messages: {why}")


@pass_context
def _finalize(context: Any, value: Any) -> Any:
    """With the context, so that nothing is worked out while compiling."""
    return _as_text(value)


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    if len(template) > LONGEST_TEMPLATE:
        raise ChatError(f"the chat template has more than {LONGEST_TEMPLATE:,} characters")
    environment = _Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], optimized=False)
    environment.finalize = _finalize
    made = environment.filters
    environment.filters = {name: _bounded(made[name], take) for name, take in _FILTERS.items()}
    own: dict[str, Callable[..., Any]] = {
        "round": partial(_rounded, made["round"]),
        "indent": partial(_indent, made["indent"]),
        "join": _join,
        "replace": _replace,
        "tojson": _to_json,
    }
    environment.filters |= {name: _bounded(each, _as_it_is) for name, each in own.items()}
    tests: dict[str, Any] = environment.tests
    tests |= {name: _compared(tests[name]) for name in _COMPARING.split()}
    environment.globals = {
        "range": _range,
        "dict": dict,
        "namespace": Namespace,
        "raise_exception": _refuse,
        "strftime_now": _now,
    }
    return environment.from_string(template)
