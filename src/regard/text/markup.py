"""Text with tags and placeholders, cut into blocks that can be translated, and put together again.

    <p>The <b>old</b> [X1X]?</p>     ->    The old [X1X]?     a model reads
    <p>Der <b>alte</b> [X1X]?</p>    <-    Der alte [X1X]?    and writes

Tags that part blocks stay where they are. Within a block, elements and marks go to where their words went
(`placing.py`). A placeholder is first left to the model, in its place or, for an element that is not to be
translated, by a name; where the model does not copy it, the text is translated without, and it is put back.
Every tag and every placeholder is there again once, and attributes are as they were to the byte.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html.entities import html5

from regard.text.blocks import (
    Block,
    Break,
    Document,
    Inline,
    Mark,
    Notation,
    Piece,
    escaped,
    has_letters,
    in_turn,
    names_of,
)
from regard.text.placeholders import by_place, choices, placeholders
from regard.text.scanning import Syntax, Token, bounded, scan

__all__ = ["Block", "Document", "Notation", "block", "parse", "read_block"]

_ENTITY = re.compile(r"&[A-Za-z_][\w.-]*;")
_BREAK = re.compile(r"([ \t]*\r?\n\s*)")
_FIRST, _LAST = "\ue000", "\ue001"
"""Around the number of a choice, while a text is cut at its tags; no text has them."""
_STANDS = re.compile(f"{_FIRST}(\\d+){_LAST}")
_BREAKS = frozenset(["br", "hr"])
_PARTING = "blockquote dd div dl dt h1 h2 h3 h4 h5 h6 li ol p table tbody td tfoot th thead tr ul"
_PARAGRAPHS = frozenset(_PARTING.split())
"""Tags that part what a message says. Others of HTML's blocks are words in what a program says: <option>."""
DEEPEST = 20
"""Choices within choices; those further in are not translated."""


def parse(text: str, syntax: Syntax | None = None) -> Document:
    """Any text can be read: what is no tag is text, and tags that do not match part blocks."""
    syntax = syntax or Syntax()
    if syntax.kind == "text":
        lines = re.split(r"(\r?\n|\r)", text) if syntax.lines else [text]
        parts: list[str | Block] = [_line(line, syntax) for line in lines]
    else:
        parts = [*_blocks(scan(text, syntax), syntax)]
    return Document(parts, [each for each in parts if isinstance(each, Block)])


def block(tokens: Sequence[Token], syntax: Syntax, notation: Notation | None = None) -> Block | None:
    """Of tokens that a format has found itself, tags nested; None where there is nothing to translate."""
    found = _block(tokens, "".join(each.raw for each in tokens), syntax, notation)
    return found if isinstance(found, Block) else None


def _blocks(tokens: Sequence[Token], syntax: Syntax) -> Iterator[str | Block]:
    first = 0
    for i in range(len(tokens) + 1):
        if i == len(tokens) or tokens[i].parts:
            if own := tokens[first:i]:
                yield _block(own, "".join(each.raw for each in own), syntax)
            if i < len(tokens):
                yield tokens[i].raw
            first = i + 1


def _line(line: str, syntax: Syntax) -> str | Block:
    if "{" in line and (whole := read_block(line, replace(syntax, lines=False))).inside:
        return replace(whole, syntax=syntax)
    return _block([Token("text", line)], line, syntax)


def _paired(tokens: list[Token]) -> list[Token]:
    """Tags without their other one are marks."""
    single = [each.kind in ("open", "close") and each.pair is None for each in tokens]
    return [Token("mark", each.raw) if alone else each for each, alone in zip(tokens, single, strict=True)]


def read_block(
    text: str,
    syntax: Syntax,
    adjust: Callable[[list[Token]], list[Token]] = _paired,
    depth: int = 0,
) -> Block:
    """A text that is translated at once, whatever is in it: a tag without its other one is a mark. The
    branches of an ICU message, and of a plain text its lines, are blocks `inside`. `adjust` says which tags
    belong together, `depth` how many choices it is in."""
    before, core, after = _stripped(text)
    stripped, marks = core, list[Mark]()
    if "{" in core and _FIRST not in core:
        core, marks = _without_choices(core, syntax, adjust, depth)
    if syntax.kind == "text" and syntax.lines and len(rows := _rows(core, syntax)) > 1:
        lines = [_read(row, syntax, adjust, marks) for row in rows]
        parts = [each if each.words or each.inside else each.written() for each in lines]
        document = Document(parts, [each for each in parts if isinstance(each, Block)])
        return Block([Mark(stripped, "", document)], syntax, before, after, text)
    return replace(_read(core, syntax, adjust, marks), before=before, after=after, raw=text)


def _rows(text: str, syntax: Syntax) -> list[str]:
    """Its lines and, where it may have tags, what is between those of paragraphs; with what parts them."""
    rows: list[str] = []
    for line in re.split(r"(\r?\n|\r)", text):
        rows.append("")
        for token in scan(line, syntax) if syntax.tags and "<" in line else [Token("text", line)]:
            name = token.name.lower()
            if name in _BREAKS or (name in _PARAGRAPHS and token.pair is not None):
                rows += [token.raw, ""]
            else:
                rows[-1] += token.raw
    return rows


def _read(
    raw: str,
    syntax: Syntax,
    adjust: Callable[[list[Token]], list[Token]],
    marks: Sequence[Mark],
) -> Block:
    before, raw, after = _stripped(raw)
    plain = syntax.kind == "text" and not syntax.tags
    tokens = [Token("text", raw)] if plain else adjust(scan(raw, syntax))
    pieces, ordered = _build(tokens, syntax, marks)
    return Block(pieces, syntax, before, after, ordered=ordered)


def _without_choices(
    text: str, syntax: Syntax, adjust: Callable[[list[Token]], list[Token]], depth: int
) -> tuple[str, list[Mark]]:
    """A text with stand-ins for the choices in it, and what they stand for."""
    marks: list[Mark] = []
    parts, done = [], 0
    for choice in choices(text):
        raw = text[choice.start : choice.end]
        tags = [each for each in scan(raw, syntax) if each.kind in ("open", "close")]
        if syntax.kind != "text" and any(each.pair is None for each in tags):
            continue  # a tag that opens within and closes without
        own = replace(syntax, count=choice.plural or syntax.count, lines=False, branch=True)
        document, at = Document([]), choice.start
        for start, end in choice.branches if depth < DEEPEST else ():
            branch = read_block(text[start:end], own, adjust, depth + 1)
            document.parts.append(text[at:start])
            if branch.words or branch.inside:
                document.parts.append(branch)
                document.blocks.append(branch)
                at = end
            else:
                at = start
        document.parts.append(text[at : choice.end])
        parts += [text[done : choice.start], f"{_FIRST}{len(marks)}{_LAST}"]
        marks.append(Mark(raw, None, document))
        done = choice.end
    return "".join([*parts, text[done:]]), marks


def _block(
    tokens: Sequence[Token], raw: str, syntax: Syntax, notation: Notation | None = None
) -> str | Block:
    """As it stands where there is nothing to translate."""
    before, _, after = _stripped(raw)
    pieces, ordered = _build(tokens, syntax, (), notation)
    if not has_letters(pieces):
        return raw
    return Block(pieces, syntax, before, after, raw, notation, ordered)


def _stripped(raw: str) -> tuple[str, str, str]:
    if not raw.strip():
        return raw, "", ""
    start, end = len(raw) - len(raw.lstrip()), len(raw.rstrip())
    return raw[:start], raw[start:end], raw[end:]


def _build(
    tokens: Sequence[Token], syntax: Syntax, marks: Sequence[Mark], notation: Notation | None = None
) -> tuple[list[Piece], bool]:
    """And whether they have to stay in their order. `marks` are those for which there are stand-ins."""
    tokens, deep = bounded(tokens)
    stack: list[tuple[str, list[Piece]]] = [("", [])]
    for token in tokens:
        opening, pieces = stack[-1]
        raw = _STANDS.sub(lambda found: marks[int(found[1])].raw, token.raw) if marks else token.raw
        match token.kind:
            case "text":
                pieces += _pieces(token.raw, syntax, marks, notation)
            case "mark":
                pieces.append(Mark(raw, None if token.stands else "", blank=token.blank))
            case "open":
                stack.append((raw, []))
            case "close":
                stack.pop()
                stack[-1][1].append(Inline(opening, raw, pieces))
    built = stack[0][1]
    return built, deep or by_place(names_of(built)) or in_turn(built)


def _pieces(raw: str, syntax: Syntax, marks: Sequence[Mark], notation: Notation | None) -> Iterator[Piece]:
    """Text and its placeholders."""
    if notation is not None:
        yield from _placeholders(notation.read(raw), notation.write, syntax)
        return
    if not marks:
        yield from _plain(raw, syntax)
        return
    for i, part in enumerate(_STANDS.split(raw)):
        if i % 2:
            yield marks[int(part)]
        else:
            yield from _plain(part, syntax)


def _plain(raw: str, syntax: Syntax) -> Iterator[Piece]:
    """In XML, an entity that only its own document knows is a placeholder."""
    if syntax.breaks and "\n" in raw:
        for i, part in enumerate(_BREAK.split(raw)):
            if i % 2:
                yield Break(part)
            else:
                yield from _plain(part, syntax)
    elif syntax.kind == "xml":
        done = 0
        for found in _ENTITY.finditer(raw):
            if found[0][1:] not in html5:
                yield from _placeholders(html.unescape(raw[done : found.start()]), escaped, syntax)
                yield Mark(found[0], None)
                done = found.end()
        yield from _placeholders(html.unescape(raw[done:]), escaped, syntax)
    elif syntax.kind == "html":
        yield from _placeholders(html.unescape(raw), escaped, syntax)
    else:
        yield from _placeholders(raw, str, syntax)


def _placeholders(text: str, escape: Callable[[str], str], syntax: Syntax) -> Iterator[Piece]:
    done = 0
    for found in placeholders(numbers=syntax.numbers, count=syntax.count, printf=syntax.printf).finditer(
        text
    ):
        if done < found.start():
            yield text[done : found.start()]
        yield Mark(escape(found[0]), found[0])
        done = found.end()
    if done < len(text):
        yield text[done:]
