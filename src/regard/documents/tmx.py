"""TMX, translation memories: a unit that lacks the target language gets it; the others stay as they are.

    <tu><tuv xml:lang="en"><seg>...</seg></tuv>
        <tuv xml:lang="de" creationid="regard:machine"><prop type="x-regard-flags">numbers</prop>
             <seg>...</seg></tuv></tu>

What a model wrote says so, and is a draft, until somebody has changed it and is named as who did (changeid).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.documents.base import Result, Segment, State, as_it_is
from regard.documents.codes import inline_block
from regard.documents.xmltree import LANGUAGE, Edit, Node, attributes_of, clean, indent_before, read_xml
from regard.text.tmx import MACHINE


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
                    state=_state(own, target),
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
            if unit.target is not None and unit.target.parent is not None:
                edits += self._tree.rewrite(unit.target, {}, result.text)
                edits += self._tree.rewrite(
                    unit.target.parent, {"creationid": MACHINE} if result.draft else {}
                )
                continue
            data = self._tree.data
            outer, inner = indent_before(data, unit.source.start), indent_before(data, unit.seg.start)
            name = "lang" if "lang" in unit.source.attributes else "xml:lang"
            own: dict[str, str | None] = {name: target_language or self.target_language or ""}
            own["creationid"] = MACHINE if result.draft else None
            flags = clean(", ".join(result.flags)).replace("&", "&amp;").replace("<", "&lt;")
            prop = f'{inner}<prop type="x-regard-flags">{flags}</prop>' if flags else ""
            end = indent_before(data, unit.source.inner_end)
            text = f"{outer}<tuv{attributes_of(own)}>{prop}{inner}<seg>{result.text}</seg>{end}</tuv>"
            last = unit.node.named("tuv")[-1].end
            edits.append(Edit(last, last, text))
        return self._tree.written(edits)


def _state(unit: _Unit, target: str) -> State:
    if unit.target is None or not target.strip():
        return "new"
    variant = unit.target.parent
    said = {} if variant is None else variant.attributes
    return "draft" if said.get("creationid") == MACHINE and not said.get("changeid") else "final"


def _of(texts: Mapping[str, tuple[Node, Node]], language: str) -> tuple[Node, Node] | None:
    """In this language; of another region, if there is none of its own."""
    language = language.lower()
    if language in texts:
        return texts[language]
    base = re.split("[-_]", language)[0]
    return next((own for key, own in texts.items() if re.split("[-_]", key)[0] == base), None)
