"""What dialects of Markdown add to CommonMark: lines that are not of the text, maths, template tags.

> [!NOTE]            of GitHub            :::tip         of VitePress, Docusaurus
!!! warning "x"      of MkDocs            $x_1$          of GitHub, Pandoc
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from regard.documents.inlines import Inline

MARKS = re.compile(
    r"\[\^[^\[\]\s]+\]:?|\{%(?:(?!%\}).){0,400}+%\}|<%(?:(?!%>).){0,400}+%>|\{[#.:][^{}\n]*\}"
    r"|^\[[ xX]\](?=\s)|\[\[[^\[\]\n]*\]\]",
    re.DOTALL,
)
"""Of dialects: footnotes, template tags, attributes, boxes to tick, links of wikis."""
_DIALECT = re.compile(
    r"^[ \t]*(?:\[![\w-]+\].*|:{3,}.*|(?:!!!|\?\?\?\+?)[ \t]+\w.*)$|^[ \t]*:[ \t]+"
    r"|(\$\$(?s:.+?)\$\$|(?<![\w$\\])\$(?=[^\s{])(?:[^$\n\\]|\\.)+(?<=[^\s\\])\$(?![\w{]))",
    re.MULTILINE,
)
"""Lines that are not of the text (alerts, containers, admonitions), what begins a definition; and maths."""
_TWO_WORDS = re.compile(r"[^\W\d_]{2,}\s+[^\W\d_]{2,}")


def of_dialect(content: str, inlines: Sequence[Inline], paragraph: bool) -> Iterator[tuple[int, int, bool]]:
    """Start, end, and whether it parts blocks: what crosses nothing that Markdown has found. Only paragraphs
    have lines that are not of the text."""
    signs: list[tuple[int, int, Inline]] = []
    for each in inlines:
        first, last = each.inner if each.kind == "pair" else (each.end, each.end)
        signs += ((each.start, first, each), (last, each.end, each))
    signs.sort(key=lambda sign: sign[:2])
    starts = [start for start, _, _ in signs]
    for found in _DIALECT.finditer(content):
        start, end = found.span()
        maths = found[1]
        if maths is None and not paragraph:
            continue
        if maths and "\\" not in maths and maths[1] != "$" and _TWO_WORDS.search(maths):
            continue
        near = signs[max(bisect_left(starts, start) - 1, 0) : bisect_left(starts, end)]
        if all(last <= start or (start <= each.start and each.end <= end) for _, last, each in near):
            yield start, end, maths is None


def overlaps(spans: Sequence[tuple[int, int]], start: int, end: int, *, wholly: bool = False) -> bool:
    """Whether a place meets one of these spans, or lies in it; they are sorted, and do not meet."""
    index = bisect_left(spans, (end, -1)) - 1
    if index < 0:
        return False
    first, last = spans[index]
    return first <= start and end <= last if wholly else last > start
