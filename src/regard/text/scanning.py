"""Tags, comments and text of HTML and XML, and where blocks begin and end. Any text can be read.

Tags that part blocks: those of blocks (`<p>`, `<li>`, `<br>`), those whose other one is missing, and all that
have such within. In XML, where no tag has a meaning, those that have nothing but line ends between them.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_BLOCKS = """
address article aside blockquote body br button caption center col colgroup dd details dialog dir div dl dt
fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe
legend li link main menu meta nav noscript object ol optgroup option p pre script section select style summary
table tbody td template tfoot th thead title tr ul video
"""
_VOID = "area base br col embed hr img input link meta param source track wbr"
BLOCKS, VOID = frozenset(_BLOCKS.split()), frozenset(_VOID.split())
OPTIONAL = frozenset(["dd", "dt", "li", "option", "p", "td", "th", "tr"])
"""Their end may be left out before the next one."""
RAW = frozenset(("script", "style", "textarea"))
"""What is in them are no tags."""
OPAQUE = frozenset(["code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea"])
"""Not translated."""
PICTURES = frozenset(("svg",))
DEEPEST = 100
"""Elements within elements; those further in part blocks."""

_TAG = re.compile(r"""<(/?)([A-Za-z][^\s/<>"'=]*+)((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>""")
_CLASS = r"(?:notranslate|mention)\b"
"""Of what is not translated: the usual one, and that of names and hashtags in what Mastodon shows."""
_UNTRANSLATED = re.compile(
    rf"""\stranslate\s*=\s*["']?no\b|\smtype\s*=\s*["']protected\b|\sclass\s*=\s*(?:"(?:[^"]*\s)?{_CLASS}|'(?:[^']*\s)?{_CLASS}|{_CLASS})""",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"<%(?:(?!%>).){0,400}+%>|\{%(?:(?!%\}).){0,400}+%\}", re.DOTALL)
"""Tags of ERB, EJS; of Jinja, Liquid, Twig."""
_BEGIN = re.compile(r"<|\{%")
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Syntax:
    """How a text is read."""

    kind: Literal["text", "html", "xml"] = "text"
    lines: bool = True
    """A plain text's lines are blocks, and stay lines; else it is one."""
    opaque: frozenset[str] = frozenset()
    """More elements that are not translated."""
    splitting: frozenset[str] = frozenset()
    """More tags that part blocks."""
    joining: frozenset[str] = frozenset()
    """Tags that do not."""
    outline: bool = True
    """In XML, an element that holds elements and no text of its own parts them."""
    tags: bool = False
    """A plain text may have tags, as messages of programs do; nothing else in it is escaped."""
    breaks: bool = False
    """Ends of lines, and other white space, stay where they are."""
    numbers: bool = False
    """These are placeholders."""
    count: bool = False
    """So is #, as in the branches of a plural."""
    branch: bool = False
    """It is a branch of a choice, which a brace of its own would end."""
    printf: bool = False
    """It is known to be a format of printf's."""


@dataclass(slots=True, eq=False)
class Token:
    kind: Literal["text", "open", "close", "mark"]
    raw: str
    name: str = ""
    pair: int | None = None
    """Of a tag: where its other one is."""
    parts: bool = False
    """Two blocks."""
    stands: bool = False
    """Of a mark: it stands for words."""
    blank: bool = False
    """Of a mark: it is white space."""


def scan(text: str, syntax: Syntax) -> list[Token]:
    """One after the other; together they are the text. Elements that are not translated are one."""
    tokens = [*_collapsed([*_scan(text, syntax)], syntax)]
    _match(tokens, syntax)
    _part(tokens, syntax)
    return tokens


def _scan(text: str, syntax: Syntax) -> Iterator[Token]:
    """Tags, comments and text, one after the other; together they are the text."""
    done = at = 0
    while (begins := _BEGIN.search(text, at)) is not None:
        at = begins.start()
        found = _TAG.match(text, at)
        if found is not None:
            token = _tag(found, syntax)
            end = found.end()
            if token.kind == "open" and token.name in RAW and syntax.kind == "html":
                closing = re.compile(rf"</{token.name}\s*>", re.IGNORECASE).search(text, end)
                token = Token("mark", "", token.name, parts=token.name in BLOCKS)
                end = len(text) if closing is None else closing.end()
        elif (template := _TEMPLATE.match(text, at)) is not None:
            token, end = Token("mark", "", stands=True), template.end()
        elif (end := _special(text, at)) > 0:
            token = Token("mark", "")
        else:
            at += 1
            continue
        if done < at:
            yield Token("text", text[done:at])
        token.raw = text[at:end]
        yield token
        done = at = end
    if done < len(text):
        yield Token("text", text[done:])


def _special(text: str, at: int) -> int:
    """Where a comment, a declaration or the like ends that begins here; 0 if none does."""
    for begins, ends in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")):
        if text.startswith(begins, at):
            found = text.find(ends, at + len(begins))
            return len(text) if found < 0 else found + len(ends)
    return 0


def _tag(found: re.Match[str], syntax: Syntax) -> Token:
    name = found[2].lower() if syntax.kind == "html" else found[2]
    if found[1]:
        return Token("close", "", name)
    if found[3].endswith("/") or (syntax.kind == "html" and name in VOID):
        return Token("mark", "", name, parts=_parts_blocks(name, syntax), stands=syntax.kind == "xml")
    return Token("open", "", name)


def _parts_blocks(name: str, syntax: Syntax) -> bool:
    own = syntax.kind == "html" and name in BLOCKS
    return (own or name in syntax.splitting) and name not in syntax.joining


def _match(tokens: Sequence[Token], syntax: Syntax) -> None:
    """Find each tag's other one. A closing tag ends what was opened within and never closed."""
    for token in tokens:
        token.pair = None
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token.kind == "open":
            html_ = syntax.kind == "html"
            if html_ and stack and token.name in OPTIONAL and tokens[stack[-1]].name == token.name:
                stack.pop()
            if len(stack) < DEEPEST:
                stack.append(i)
        elif token.kind == "close":
            depth = next(
                (d for d in reversed(range(len(stack))) if tokens[stack[d]].name == token.name), None
            )
            if depth is not None:
                token.pair, tokens[stack[depth]].pair = stack[depth], i
                del stack[depth:]


class OpenTags:
    """Tags that are open, by what they are called. As quick for tags that nothing ends as for others."""

    def __init__(self) -> None:
        self._open: list[tuple[Hashable, int]] = []
        self._depths: dict[Hashable, list[int]] = {}

    def begin(self, name: Hashable, place: int) -> None:
        self._depths.setdefault(name, []).append(len(self._open))
        self._open.append((name, place))

    def end(self, name: Hashable, above: Hashable = None) -> int | None:
        """The place of the innermost of this name, which ends, and with it all that began within; None if
        there is none, or one called `above` is open within it."""
        depths = self._depths.get(name)
        if not depths or depths[-1] < (self._depths.get(above) or [-1])[-1]:
            return None
        depth = depths[-1]
        place = self._open[depth][1]
        for own, _ in self._open[depth:]:
            self._depths[own].pop()
        del self._open[depth:]
        return place


def bounded(tokens: Sequence[Token]) -> tuple[list[Token], bool]:
    """Of tokens with nested tags: those that are deeper than DEEPEST as marks. Whether there are any: they do
    not enclose, so they have to stay in their order."""
    found: list[Token] = []
    depth, deep = 0, False
    for token in tokens:
        depth += token.kind == "open"
        if depth > DEEPEST and token.kind in ("open", "close"):
            deep = True
            found.append(Token("mark", token.raw))
        else:
            found.append(token)
        depth -= token.kind == "close"
    return found, deep


def _collapsed(tokens: Sequence[Token], syntax: Syntax) -> Iterator[Token]:
    """Elements that are not translated, and in XML those that are empty, become marks."""
    _match(tokens, syntax)
    own = OPAQUE if syntax.kind == "html" else frozenset[str]()
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.kind == "open" and token.pair is not None:
            empty = token.pair == i + 1
            untranslated = _UNTRANSLATED.search(token.raw) is not None or _is_address(tokens, i)
            if untranslated or empty or token.name in own or token.name in syntax.opaque:
                raw = "".join(each.raw for each in tokens[i : token.pair + 1])
                stands = token.name not in PICTURES and not (empty and syntax.kind == "html")
                parts = _parts_blocks(token.name, syntax)
                yield Token("mark", raw, token.name, parts=parts, stands=stands)
                i = token.pair + 1
                continue
        yield token
        i += 1


def _is_address(tokens: Sequence[Token], first: int) -> bool:
    """Whether a link shows an address, be it in several elements."""
    token = tokens[first]
    if token.name != "a" or token.pair is None:
        return False
    text = "".join(each.raw for each in tokens[first + 1 : token.pair] if each.kind == "text")
    return _ADDRESS.fullmatch(text.strip()) is not None


def _part(tokens: Sequence[Token], syntax: Syntax) -> None:
    """Find the tags between which blocks lie: those of blocks, those without the other one, and all that
    have such within."""
    for token in tokens:
        if token.kind in ("open", "close"):
            token.parts = token.pair is None or _parts_blocks(token.name, syntax)
    if syntax.kind == "xml" and syntax.outline:
        _outline(tokens, syntax)
    before = [0]
    for token in tokens:
        before.append(before[-1] + token.parts)
    for i, token in enumerate(tokens):
        if token.kind == "open" and token.pair is not None and before[token.pair] > before[i + 1]:
            token.parts = tokens[token.pair].parts = True


def _outline(tokens: Sequence[Token], syntax: Syntax) -> None:
    """Elements part blocks where nothing but line ends is between them."""
    spans = [(0, len(tokens))]
    while spans:
        start, end = spans.pop()
        inner: list[tuple[int, int]] = []
        i = start
        while i < end:
            token = tokens[i]
            if token.kind == "text" and (token.raw.strip() or "\n" not in token.raw):
                break
            if token.kind == "mark" and token.stands:
                break
            if token.kind == "open" and token.pair is not None:
                if token.name in syntax.joining:
                    break
                inner.append((i, token.pair))
                i = token.pair
            i += 1
        else:
            for first, last in inner:
                tokens[first].parts = tokens[last].parts = True
            spans += [(first + 1, last) for first, last in inner]
