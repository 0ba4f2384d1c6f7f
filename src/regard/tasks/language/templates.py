"""Jinja for templates of strangers: they change nothing, reach nothing, and come to an end.

Jinja's sandbox guards what a template reaches, not what it costs: `'%50000000d' % 1`, a text that doubles in
a loop, or loops over texts inside each other are all allowed there. So a template is compiled with a count of
steps here: each round of a loop and each call costs some, by how much is written inside it; each operation
costs what it reads and writes (`template_bounds`). Filters and methods are those that are known to keep to
this (`template_calls`).

    {% generation %} ... {% endgeneration %}    what the assistant writes, as in transformers; `marks` stand
                                                around its text where they are asked for
"""

import operator
from collections.abc import Mapping, Sized
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from regard.tasks.language.template_bounds import (
    CALL,
    LETTERS,
    LONGEST,
    LONGEST_TEMPLATE,
    WIDEST,
    ChatError,
    bound,
    cost,
    limited,
    read,
    spend,
)
from regard.tasks.language.template_calls import (
    FUNCTIONS,
    METHODS,
    as_text,
    bounded_filters,
    bounded_tests,
    free,
    percent,
    wholly,
)

_marks: ContextVar[tuple[str, str]] = ContextVar("_marks", default=("", ""))


def run(template: str, values: Mapping[str, Any], marks: tuple[str, str] = ("", "")) -> str:
    """What a template writes of these values, which are plain data. `marks` are put around what it says that
    the assistant writes."""
    token = _marks.set(marks)
    try:
        with limited():
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
        _marks.reset(token)


class _Generation(Extension):
    """The block that says what the assistant writes."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        begin, end = (nodes.Output([_call("mark", nodes.Const(which))]) for which in (0, 1))
        return [each.set_lineno(line) for each in (begin, nodes.Scope(body), end)]


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
    own = frozenset({"rounds", "spend", "joined", "copied", "looked_at", "mark"})
    """What `_Counting` and `_Generation` call; a template has no name for any of them."""

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
        spend(CALL)
        if isinstance(__obj, Undefined):
            return __obj()  # which is told in Jinja's words
        if isinstance(__obj, Macro):
            return __context.call(__obj, *args, **kwargs)
        kwargs = {name: each for name, each in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
        args = tuple(map(wholly, args))
        for each in kwargs.values():
            read(each)
        if any(__obj is each for each in __self.globals.values()):
            return __obj(*args, **kwargs)
        kind = next((kind for kind in METHODS if isinstance(owner, kind)), None)
        if kind is None or name not in METHODS[kind]:
            raise SecurityError(f"{name or type(__obj).__name__} is not safely callable")
        guard = METHODS[kind][name]
        if guard is not free:
            read(owner)
        return guard(__obj, owner, *args, **kwargs)

    def call_binop(self, context: Any, operator_: str, left: Any, right: Any) -> Any:
        spend(1)
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator_ == "%" and isinstance(left, str):
            return percent(left, right)
        if operator_ in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = abs(left).bit_length()
            wide = bits * abs(right) if operator_ == "**" else bits + abs(right).bit_length()
            bound(0 if wide <= WIDEST else LONGEST + 1)
        elif operator_ == "*" and not numbers:
            for one, times in ((left, right), (right, left)):
                if isinstance(one, Sized) and isinstance(times, int):
                    bound(len(one) * abs(times))
                    spend(cost(one) * abs(times))
        elif operator_ == "+" and isinstance(left, Sized) and isinstance(right, Sized):
            bound(len(left) + len(right))
            spend(cost(left) + cost(right))
        return _BINARY[operator_](left, right)

    def rounds(self, values: Any, weight: int) -> list[Any]:
        """What a loop goes through; `weight` is a round's steps."""
        found = []
        for each in values:
            spend(weight)
            found.append(each)
        return found

    def spend(self, steps: int) -> None:
        spend(steps)

    def joined(self, *values: Any) -> str:
        bound(sum(read(each, plain=True) for each in values))
        return "".join(map(str, values))

    def copied(self, value: Any) -> Any:
        spend(cost(value))
        return value

    def looked_at(self, value: Any) -> Any:
        return wholly(value)

    def mark(self, which: int) -> str:
        return _marks.get()[which]


_BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}


@pass_context
def _finalize(context: Any, value: Any) -> Any:
    """With the context, so that nothing is worked out while compiling."""
    return as_text(value)


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    if len(template) > LONGEST_TEMPLATE:
        raise ChatError(f"the chat template has more than {LONGEST_TEMPLATE:,} characters")
    extensions = [_Generation, loopcontrols]
    environment = _Bounded(trim_blocks=True, lstrip_blocks=True, extensions=extensions, optimized=False)
    environment.finalize = _finalize
    environment.filters = bounded_filters(environment.filters)
    environment.tests = bounded_tests(environment.tests)
    environment.globals = {**FUNCTIONS}
    return environment.from_string(template)
