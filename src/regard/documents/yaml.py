"""YAML: strings that are values, by ruamel.yaml's events. Comments, quotes, anchors and layout stay.

A plain string that its translation would make something else (a number, a mapping, `no`) is put in double
quotes. A literal block (|) is translated line by line, a folded one (>) paragraph by paragraph; a string that
ran over several lines in another way is written in one.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from regard.config import ConfigError, from_dict
from regard.documents.splicing import Hole, Site, Source, Spliced
from regard.documents.values import Escapes, StringsSettings, Value, value_sites
from regard.text import DataError, Origin
from regard.text.scanning import DEEPEST

_FOLD = r"[ \t]*(?:\r\n|\r|\n)\s*"
_PROPERTIES = re.compile(r"(?:[&!][^\s]*\s+)*")
_OTHER = re.compile(
    r"""(?:~|null|true|false|yes|no|on|off|y|n|[-+]?\.?\d[\d_.,:]*(?:e[-+]?\d+)?|0x[\da-f]+|0o?[0-7]+|[-+]?\.inf
    |\.nan|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|=|<<|:[a-z_]\w*)?""",
    re.IGNORECASE | re.VERBOSE,
)
"""What is no string without quotes, in YAML 1.1 or 1.2; or a symbol of Ruby's, :year."""
_UNSAFE = re.compile(
    r"""^[-?:](?:\s|$)|^[,\[\]{}#&*!|>'"%@`]|^(?:---|\.\.\.)|:(?:\s|$)|\s\#|^\s|\s$
    |[\x00-\x1f\x7f-\x9f\ufeff]""",
    re.VERBOSE,
)
_HEADER = re.compile(r"[|>](?:([1-9])|[-+])*[^\r\n]*(?:\r\n|\r|\n)?")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def _folded(breaks: str) -> str:
    lines = len(re.findall(r"\r\n|\r|\n", breaks))
    return " " if lines == 1 else "\n" * (lines - 1)


def _read_double(escape: str) -> str:
    if not escape.startswith("\\"):
        return _folded(escape)
    if escape[1] in "\r\n":
        return ""
    if escape[1] in "xuU":
        pairs = re.findall(r"\\[xuU]([0-9a-fA-F]+)", escape)
        if len(pairs) == 2:
            return bytes.fromhex("".join(pairs)).decode("utf-16-be", "replace")
        code = int(pairs[0], 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return _DOUBLE_SHORT.get(escape[1], escape[1:])


_DOUBLE_SHORT = dict(zip("0abefnrtvN_LP", "\0\a\b\x1b\f\n\r\t\v\x85\xa0\u2028\u2029", strict=True))
_DOUBLE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\(?:\r\n|\r|\n)[ \t]*|\\.|" + _FOLD
)
_ESCAPES = {
    None: Escapes(re.compile(_FOLD), _folded, str),
    "'": Escapes(
        re.compile(f"''|{_FOLD}"),
        lambda escape: "'" if escape == "''" else _folded(escape),
        lambda text: text.replace("'", "''"),
    ),
    '"': Escapes(_DOUBLE, _read_double, lambda text: json.dumps(text, ensure_ascii=False)[1:-1]),
}
_IN_BLOCK = Escapes(re.compile(_FOLD), lambda _: " ", lambda text: re.sub(r"\s*[\r\n]\s*", " ", text))


class YamlFormat:
    name = "yaml"
    endings = (".yaml", ".yml")
    settings = tuple(each.name for each in fields(StringsSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(StringsSettings, settings)
        source = Source.read(raw, file, own.encoding)
        start = len(source.text) - len(source.text.removeprefix("\ufeff"))
        return Spliced(source, yaml_sites(source, start, len(source.text), own.wants))


def yaml_sites(source: Source, start: int, end: int, wants: Callable[[str], bool]) -> list[Site | Hole]:
    """Of this part of the text, whose strings are wanted by their paths of keys."""
    return [
        site
        for scalar in _scalars(source, start, end)
        if wants(scalar.path)
        for site in _sites(source, scalar)
    ]


@dataclass(frozen=True, slots=True)
class _Scalar:
    path: str
    start: int
    end: int
    style: str | None
    flow: bool


def _scalars(source: Source, skipped: int, end: int) -> Iterator[_Scalar]:
    """Values, and where they stand without anchor and tag."""
    stack: list[list[Any]] = []  # of each collection: the key of what is next, whether that is a key, flow

    def step() -> None:
        if stack:
            own = stack[-1]
            if own[1] is None:
                own[0] += 1
            else:
                own[1] = not own[1]

    for event in _events(source, skipped, end):
        match type(event).__name__:
            case "MappingStartEvent" | "SequenceStartEvent" as kind:
                if len(stack) == DEEPEST:
                    what = f"YAML nested too deeply: more than {DEEPEST} collections within each other"
                    raise source.error(event.start_mark.index + skipped, what)
                if stack and stack[-1][1]:
                    stack[-1][0] = "?"
                is_map = kind == "MappingStartEvent"
                stack.append(["" if is_map else 0, True if is_map else None, event.flow_style])
            case "MappingEndEvent" | "SequenceEndEvent":
                stack.pop()
                step()
            case "AliasEvent":
                step()
            case "ScalarEvent":
                if stack and stack[-1][1]:
                    stack[-1][0] = event.value
                elif event.ctag is None or str(event.ctag) in ("None", "!", "tag:yaml.org,2002:str"):
                    found = _PROPERTIES.match(source.text, event.start_mark.index + skipped)
                    start = event.start_mark.index + skipped if found is None else found.end()
                    path = ".".join(str(key) for key, *_ in stack)
                    flow = any(own[2] for own in stack)
                    yield _Scalar(path, start, event.end_mark.index + skipped, event.style, flow)
                step()
            case "DocumentStartEvent":
                stack.clear()


def _events(source: Source, start: int, end: int) -> Iterator[Any]:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError:
        raise ConfigError("YAML is read with ruamel.yaml: pip install regard[desk]") from None
    try:
        yield from YAML(typ="safe", pure=True).parse(source.text[start:end])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = source.line(start) + (mark.line if mark else 0)
        what = f"no YAML: {error.problem or error.context}"
        raise DataError(Origin(source.file, line), what, remedy="correct the file") from None
    except YAMLError as error:
        at = start + getattr(error, "position", 0)
        what = f"no YAML: {getattr(error, 'reason', error)}"
        raise DataError(Origin(source.file, source.line(at)), what, remedy="correct the file") from None


def _sites(source: Source, scalar: _Scalar) -> Iterator[Site | Hole]:
    start, end, style = scalar.start, scalar.end, scalar.style
    if style in ("|", ">"):
        yield from _in_block(source, scalar)
        return
    raw = source.text[start:end]
    if style is None:
        if _OTHER.fullmatch(raw.strip()):
            return
    else:
        start, end = start + 1, end - 1
    escapes = _ESCAPES[style]
    value = Value.read(source, [(start, end)], escapes)
    sites = value_sites(value, escapes, scalar.path)
    if style is None and sites:
        yield Hole(start, end, sites, partial(_plain, flow=scalar.flow))
    else:
        yield from sites


def _plain(text: str, flow: bool) -> str:
    """Without quotes, if it is the same string so."""
    text = _ESCAPES[None].pattern.sub(lambda found: _folded(found[0]), text)
    unsafe = _UNSAFE.search(text) or (flow and re.search(r"[,\[\]{}]|:$|^[-?:]", text))
    return json.dumps(text, ensure_ascii=False) if unsafe or _OTHER.fullmatch(text) else text


def _in_block(source: Source, scalar: _Scalar) -> Iterator[Site]:
    text = source.text
    header = _HEADER.match(text, scalar.start, scalar.end)
    at = scalar.start if header is None else header.end()
    lines: list[tuple[int, int]] = []  # without line end, with indentation
    while at < scalar.end:
        found = _LINE.match(text, at, scalar.end)
        end = scalar.end if found is None else found.end()
        lines.append((at, at + len(text[at:end].rstrip("\r\n"))))
        at = end
    deep = [_depth(text, line) for line in lines]
    own = min((each for each in deep if each is not None), default=0)
    paragraphs: list[tuple[int, int]] = []
    joining = False
    for (start, end), depth in zip(lines, deep, strict=True):
        if depth is None:
            joining = False
            continue
        if joining and scalar.style == ">" and depth == own:
            paragraphs[-1] = (paragraphs[-1][0], end)
        else:
            paragraphs.append((start + depth, end))
        joining = depth == own
    for i, (start, end) in enumerate(paragraphs):
        key = scalar.path if i == 0 else f"{scalar.path}|{i + 1}"
        value = Value.read(source, [(start, end)], _IN_BLOCK)
        yield from value_sites(value, _IN_BLOCK, key)


def _depth(text: str, line: tuple[int, int]) -> int | None:
    """How far it is indented; None for one without text."""
    own = text[slice(*line)]
    return len(own) - len(own.lstrip(" ")) if own.strip() else None


FORMAT = YamlFormat()
