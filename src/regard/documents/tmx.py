"""TMX, translation memories: a unit that lacks the target language gets it; the others stay as they are.

<tu><tuv xml:lang="en"><seg>...</seg></tuv>  +  <tuv xml:lang="de"><seg>...</seg></tuv></tu>
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.documents.base import Result, Segment, as_it_is
from regard.documents.codes import inline_block
from regard.documents.xmltree import LANGUAGE, Edit, Node, indent_before, quoted, read_xml


@dataclass(frozen=True, slots=True)
class _Unit:
    node: Node
    seg: Node
    source: Node
    target: Node | None
    """The `<seg>` of the target language."""


class Tmx:
    name = "tmx"
    endings = (".tmx",)
    settings = ("target_language",)

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> "OpenedTmx":
        language = settings.get("target_language")
        return OpenedTmx(raw, file, None if language is None else str(language))


class OpenedTmx:
    def __init__(self, raw: bytes, file: str, target_language: str | None) -> None:
        self._tree = tree = read_xml(raw, file)
        root, header, body = tree.root, tree.root.first("header"), tree.root.first("body")
        if root.name != "tmx" or header is None or body is None:
            raise tree.error(root, "not TMX:", f"<{root.name}> without <header> and <body>")
        if target_language is None:
            remedy = "say it with --to"
            raise tree.error(root, "no target language", "", remedy)
        said = header.attributes.get("srclang")
        self.source_language = None if said in (None, "*all*") else said
        self.target_language: str | None = target_language
        self._units: list[_Unit] = []
        found: list[Segment] = []
        for number, unit in enumerate(body.named("tu")):
            own = self._unit(unit)
            raw_source = "" if own is None else tree.raw(own.seg)
            if own is None or not raw_source.strip():
                continue
            self._units.append(own)
            target = "" if own.target is None else tree.raw(own.target)
            found.append(
                Segment(
                    key=unit.attributes.get("tuid", f"#{number}"),
                    line=unit.line,
                    block=inline_block(raw_source),
                    source=raw_source,
                    target=target,
                    state="final" if target.strip() else "new",
                )
            )
        self.segments: Sequence[Segment] = found

    def _unit(self, unit: Node) -> _Unit | None:
        """None for one that has no text of the source language."""
        texts: dict[str, tuple[Node, Node]] = {}
        for each in unit.named("tuv"):
            language, seg = each.attributes.get(LANGUAGE) or each.attributes.get("lang"), each.first("seg")
            if language is None or seg is None:
                raise self._tree.error(each, "a <tuv> without a language, or without a <seg>")
            texts.setdefault(language.lower(), (each, seg))
        wanted = unit.attributes.get("srclang", self.source_language or "")
        source = _of(texts, wanted) if wanted and wanted != "*all*" else None
        if source is None and (not wanted or wanted == "*all*"):
            source = next(iter(texts.values()), None)
        if source is None:
            return None
        target = _of(texts, self.target_language or "")
        if target is not None and target[0] is source[0]:
            return None
        return _Unit(unit, source[1], source[0], None if target is None else target[1])

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        edits: list[Edit] = []
        for segment, unit, result in zip(self.segments, self._units, results, strict=True):
            if result is None or as_it_is(segment, result):
                continue
            if unit.target is not None:
                edits += self._tree.rewrite(unit.target, {}, result.text)
                continue
            data = self._tree.data
            outer, inner = indent_before(data, unit.source.start), indent_before(data, unit.seg.start)
            name = "lang" if "lang" in unit.source.attributes else "xml:lang"
            language = quoted(target_language or self.target_language or "")
            end = indent_before(data, unit.source.inner_end)
            text = f"{outer}<tuv {name}={language}>{inner}<seg>{result.text}</seg>{end}</tuv>"
            last = unit.node.named("tuv")[-1].end
            edits.append(Edit(last, last, text))
        return self._tree.written(edits)


def _of(texts: Mapping[str, tuple[Node, Node]], language: str) -> tuple[Node, Node] | None:
    """In this language; of another region, if there is none of its own."""
    language = language.lower()
    if language in texts:
        return texts[language]
    base = re.split("[-_]", language)[0]
    return next((own for key, own in texts.items() if re.split("[-_]", key)[0] == base), None)
