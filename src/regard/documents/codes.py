"""Inline codes of XLIFF and TMX: which of them enclose words, which stand for words, which are neither.

    <bpt id="1">{\\b </bpt>old<ept id="1">}</ept>      a pair around words: goes where they go
    <ph id="2">%s</ph>                                stands for a word: the model reads [X1X]
    <it pos="close" id="3">}</it>                     has its place only

Two that cross others (the one begins within the other and ends behind it) do not enclose; what crosses so, or
what may not be reordered, stays in its order.
"""

import html
import re
from dataclasses import dataclass, replace

from regard.text.markup import Block, read_block
from regard.text.scanning import Syntax, Token

PAIRS = {"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"}
"""What begins, and what ends it."""
WHOLE = frozenset(("bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp", "sub"))
"""Elements that are one mark, whatever is in them."""
STANDS = frozenset(("ph", "x", "ut"))
_ENDS = {end: begin for begin, end in PAIRS.items()}
_KEYS = ("rid", "startRef", "i", "id")
_NO_ORDER = re.compile(r"""\scanReorder\s*=\s*["'](?:no|firstNo)["']""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def inline_block(raw: str, prefix: str = "", *, numbers: bool = False) -> Block:
    """What is between the tags of a source, as one block."""
    names = frozenset(prefix + name for name in WHOLE)
    syntax = Syntax(kind="xml", outline=False, breaks=True, opaque=names, numbers=numbers)
    codes = _Codes(len(prefix))
    block = read_block(
        _CDATA.sub(lambda found: html.escape(found[1], quote=False), raw), syntax, codes.adjust
    )
    return replace(block, ordered=True) if codes.ordered or _NO_ORDER.search(raw) else block


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
        stack: list[tuple[str, str, int]] = []
        begun: set[tuple[str, str]] = set()
        for i, token in enumerate(tokens):
            name = token.name[self.prefix :]
            if token.kind == "open":
                stack.append(("", "", i))
            elif token.kind == "close":
                while stack and stack.pop()[2] != token.pair:
                    pass
            elif token.kind == "mark" and name in PAIRS:
                stack.append((name, _key(token.raw), i))
                begun.add((name, _key(token.raw)))
            elif token.kind == "mark" and name in _ENDS:
                wanted = _ENDS[name], _key(token.raw)
                at = len(stack)
                while at > 0 and stack[at - 1][0] and stack[at - 1][:2] != wanted:
                    at -= 1
                if at > 0 and stack[at - 1][:2] == wanted:
                    other = stack[at - 1][2]
                    partner[i], partner[other] = other, i
                    del stack[at - 1 :]
                elif wanted in begun:
                    self.ordered = True
        return partner


def _key(raw: str) -> str:
    return next((value for name in _KEYS if (value := _attribute(raw, name))), "")


def _attribute(raw: str, name: str) -> str:
    tag = raw[: raw.find(">")]
    found = re.search(rf"""\s{name}\s*=\s*["']([^"']*)["']""", tag)
    return "" if found is None else found[1]
