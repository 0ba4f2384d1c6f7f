"""Every configuration of the project, found in the source; and which field a path of keys leads to."""

import ast
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tests.conftest import ROOT

SOURCE = ROOT / "src"


@cache
def configurations() -> dict[str, type]:
    """All frozen, keyword-only dataclasses, by module and name: what every configuration is."""
    found = {}
    for path in sorted((SOURCE / "regard").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_frozen(node):
                found[f"{module}.{node.name}"] = getattr(import_module(module), node.name)
    return found


def _is_frozen(node: ast.ClassDef) -> bool:
    written = [ast.unparse(each) for each in node.decorator_list]
    return any("frozen=True" in each and "kw_only=True" in each for each in written)


def settings(config: type) -> Iterator[str]:
    """The fields with more than one value. Tables are changed field by field, and what has one choice, like
    the kind that tells configurations apart, cannot be changed."""
    for name, hint in get_type_hints(config, include_extras=True).items():
        one = get_origin(hint) is Literal and len(get_args(hint)) == 1
        if not one and (get_origin(hint) is tuple or not _tables(hint)):
            yield name


def named(config: type, plain: Mapping[str, Any], path: str) -> tuple[type, str]:
    """The configuration and its field that this path leads to, in plain data of a `config`."""
    value: Any = plain
    *above, last = path.split(".")
    for key in above:
        if key.isdigit():
            value = value[int(key)]
            continue
        value = value.get(key, {})
        tables = _tables(get_type_hints(config, include_extras=True)[key])
        kind = value.get("kind") if isinstance(value, Mapping) else None
        config = next((each for each in tables if kind in _kinds(each)), tables[0])
    if last not in {spec.name for spec in fields(config)}:
        raise KeyError(f"{path}: {config.__name__} has no field {last!r}")
    return config, last


def _tables(hint: Any) -> list[Any]:
    """The configurations that a field may hold; those of a registry are its parts'."""
    if get_origin(hint) is Annotated and get_args(hint)[0] is Any:
        return [registry[name].config for registry in hint.__metadata__ for name in registry]
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return [each for part in get_args(hint) for each in _tables(part)]
    return [hint] if isinstance(hint, type) and is_dataclass(hint) else []


def _kinds(config: type) -> tuple[str, ...]:
    return get_args(get_type_hints(config).get("kind"))


def put(plain: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The same data with this value there."""
    first, _, rest = path.partition(".")
    if first.isdigit():
        items: Any = list(plain)
        items[int(first)] = put(items[int(first)], rest, value)
        return items
    return {**plain, first: put(plain.get(first, {}), rest, value) if rest else value}
