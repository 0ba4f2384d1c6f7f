"""Inline codes of XLIFF and TMX: which of them enclose words, which stand for words, which are neither.

    <bpt id="1">{\\b </bpt>old<ept id="1">}</ept>      a pair around words: goes where they go
    <ph id="2">%s</ph>                                stands for a word: the model reads [X1X]
    <it pos="close" id="3">}</it>                     has its place only
    <x id="START_LINK"/>old<x id="CLOSE_LINK"/>       a pair too, as Angular writes it

What a code holds as `<sub>` (the text of an image, in the code that shows it) is translated by itself.
Two that cross others (the one begins within the other and ends behind it) do not enclose; what crosses so, or
what may not be reordered, stays in its order.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.text.blocks import Block, Document, Inline, Mark, Notation, Piece, escaped
from regard.text.markup import read_block
from regard.text.scanning import VOID, OpenTags, Syntax, Token, scan

PAIRS = {"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"}
"""What begins, and what ends it."""
WHOLE = frozenset(("bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp", "sub"))
"""Elements that are one mark, whatever is in them."""
STANDS = frozenset(("ph", "x", "ut"))
_ELEMENT = "element"
_ENDS = {end: begin for begin, end in PAIRS.items()}
_KEYS = ("rid", "startRef", "i", "id")
_HALF = re.compile(r"(START|CLOSE)_([A-Z][A-Z0-9_]*?)(?:_\d+)?")
"""The name of a placeholder that begins or ends something; of several that begin alike, with a number."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^<>]*(?<!/)>")
"""What it stands for."""
_START = re.compile(r"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_NO_ORDER = re.compile(r"""\scanReorder\s*=\s*["'](?:no|firstNo)["']""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def inline_block(raw: str, prefix: str = "") -> Block:
    """What is between the tags of a source, as one block."""
    names = frozenset(prefix + name for name in WHOLE)
    syntax = Syntax(kind="xml", outline=False, breaks=True, opaque=names)
    codes = _Codes(len(prefix))
    block = read_block(
        _CDATA.sub(lambda found: html.escape(found[1], quote=False), raw), syntax, codes.adjust
    )
    if "<" + prefix + "sub" in raw:
        block = replace(block, pieces=_with_texts(block.pieces, prefix))
    return replace(block, ordered=True) if codes.ordered or _NO_ORDER.search(raw) else block


def _with_texts(pieces: Sequence[Piece], prefix: str) -> list[Piece]:
    """Codes with the texts that are in them."""
    found: list[Piece] = []
    for piece in pieces:
        match piece:
            case Mark(raw, name, None) if (inside := _texts(raw, prefix)) is not None:
                found.append(Mark(raw, name, inside))
            case Inline(opening, closing, inner):
                found.append(Inline(opening, closing, _with_texts(inner, prefix), _texts(opening, prefix)))
            case _:
                found.append(piece)
    return found


def _texts(code: str, prefix: str) -> Document | None:
    tokens = scan(code, Syntax(kind="xml", outline=False))
    parts: list[str | Block] = []
    at = 0
    while at < len(tokens):
        token, last = tokens[at], tokens[at].pair
        if token.kind == "open" and token.name == f"{prefix}sub" and last is not None:
            own = inline_block("".join(each.raw for each in tokens[at + 1 : last]), prefix)
            if own.words or own.inside:
                quote = html.unescape(tokens[at - 1].raw)[-1:] if at > 0 else ""
                parts += [token.raw, replace(own, notation=_QUOTED.get(quote))]
                at = last
                continue
        parts.append(token.raw)
        at += 1
    blocks = [each for each in parts if isinstance(each, Block)]
    return Document(parts, blocks) if blocks else None


def _unlike(sign: str, other: str) -> Notation:
    """Of text within quotation marks of code: what a translation has of them are others."""
    return Notation(write=lambda text: escaped(text.replace(sign, other)))


_QUOTED = {'"': _unlike('"', "\u201d"), "'": _unlike("'", "\u2019")}


@dataclass
class _Codes:
    prefix: int
    ordered: bool = False

    def adjust(self, tokens: list[Token]) -> list[Token]:
        partner = self._partners(tokens)
        found, i = [], 0
        while i < len(tokens):
            token, name = tokens[i], tokens[i].name[self.prefix :]
            if i in partner and name == "sm" and _attribute(token.raw, "translate") == "no":
                raw = "".join(each.raw for each in tokens[i : partner[i] + 1])
                found.append(Token("mark", raw, stands=True))
                i = partner[i]
            elif i in partner:
                found.append(Token("open" if partner[i] > i else "close", token.raw))
            elif token.kind == "mark":
                known = name in WHOLE
                found.append(Token("mark", token.raw, stands=name in STANDS if known else token.stands))
            elif token.pair is None and token.kind in ("open", "close"):
                found.append(Token("mark", token.raw))
            else:
                found.append(token)
            i += 1
        return found

    def _partners(self, tokens: list[Token]) -> dict[int, int]:
        """Of codes that enclose: where the other one is."""
        partner: dict[int, int] = {}
        opened = OpenTags()
        begun: set[tuple[str, str]] = set()
        halves: list[int] = []
        for i, token in enumerate(tokens):
            side, wanted = self._half(token)
            halves += [i] * (wanted[0] == "x")
            if token.kind == "open" and token.pair is not None:
                opened.begin(_ELEMENT, i)
            elif token.kind == "close" and token.pair is not None:
                opened.end(_ELEMENT)
            elif side == "begin":
                opened.begin(wanted, i)
                begun.add(wanted)
            elif side == "end":
                other = opened.end(wanted, above=_ELEMENT)
                if other is not None:
                    partner[i], partner[other] = other, i
                elif wanted in begun:
                    self.ordered = True
        self.ordered |= any(i not in partner for i in halves)
        return partner

    def _half(self, token: Token) -> tuple[str, tuple[str, str]]:
        """Whether a code begins or ends something, and what that is called."""
        name = token.name[self.prefix :] if token.kind == "mark" else ""
        if name in PAIRS:
            return "begin", (name, _key(token.raw))
        if name in _ENDS:
            return "end", (_ENDS[name], _key(token.raw))
        if name == "x" and (half := _HALF.fullmatch(_attribute(token.raw, "id"))) is not None:
            return "begin" if half[1] == "START" else "end", (name, half[2])
        meant = html.unescape(_attribute(token.raw, "equiv-text")) if name == "x" else ""
        if (tag := _TAG.fullmatch(meant)) is not None and tag[2].lower() not in VOID:
            return "end" if tag[1] else "begin", (name, tag[2].lower())
        return "", ("", "")


def _key(raw: str) -> str:
    return next((value for name in _KEYS if (value := _attribute(raw, name))), "")


def _attribute(raw: str, name: str) -> str:
    tag = _START.match(raw)
    found = re.search(rf"""\s{name}\s*=\s*("[^"]*"|'[^']*')""", "" if tag is None else tag[0])
    return "" if found is None else found[1][1:-1]
