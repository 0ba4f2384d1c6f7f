"""XLIFF 1.2 and 2.x: what a `<source>` says is translated into its `<target>`; nothing else is touched.

                           1.2                                            2.x
    a model's              state="needs-review-translation"               state="translated"
                           state-qualifier="leveraged-mt"                 subState="regard:machine"
    with flags             state-qualifier="x-flagged-mt"                 subState="regard:flagged"
    from a memory          state="translated", "exact-match"              state="translated"

A note says what is flagged, until the segment gets another translation (`xliff_notes.py`).
A target that is there already is kept, unless its state says that it is none yet. Sources that are cut into
segments (`seg-source`) are translated segment by segment, unless the target is there without those segments,
or is approved or final: then the unit is one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regard.documents.base import Result, Segment, State, as_it_is
from regard.documents.codes import inline_block
from regard.documents.xliff_notes import note_edits, note_of
from regard.documents.xliff_rules import check_2
from regard.documents.xmltree import LANGUAGE, SPACE, Edit, Node, Tree, attributes_of, indent_before, read_xml

SPACES_1 = ("urn:oasis:names:tc:xliff:document:1.2", "urn:oasis:names:tc:xliff:document:1.1", "")
SPACES_2 = ("urn:oasis:names:tc:xliff:document:2.0", "urn:oasis:names:tc:xliff:document:2.2")
SIZES = "urn:oasis:names:tc:xliff:sizerestriction:2.0"
_STATES_1 = ("state", "state-qualifier")
_STATES_2 = ("state", "subState")
_FINAL = ("final", "signed-off", "translated")
_NEW = ("new", "needs-translation")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a segment's source and target are."""

    source: Node
    target: Node | None
    holder: Node
    """The trans-unit or segment."""
    mid: str | None = None
    """Of a segment of a `seg-source`."""
    name: str = ""
    """Of one of several segments, as notes call it."""

    @property
    def unit(self) -> Node:
        outer = self.holder.parent
        return self.holder if self.holder.name != "segment" or outer is None else outer


class Xliff:
    name = "xliff"
    endings = (".xlf", ".xliff")

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> "OpenedXliff":
        tree = read_xml(raw, file)
        root = tree.root
        version = root.attributes.get("version", "")
        if root.name == "xliff" and root.space in SPACES_1 and version.startswith("1."):
            return OpenedXliff(tree, 1)
        if root.name == "xliff" and root.space in SPACES_2 and version.startswith("2."):
            check_2(tree)
            return OpenedXliff(tree, 2)
        what = f"<{root.name}> version {version!r} of namespace {root.space!r}"
        raise tree.error(root, "not XLIFF 1.2 or 2.x:", what, "write it as XLIFF 1.2 or 2.1")


class OpenedXliff:
    def __init__(self, tree: Tree, version: int) -> None:
        self._tree, self._version = tree, version
        root = tree.root
        self._files = root.named("file")
        if version == 1 and not self._files:
            raise tree.error(root, "no <file>")
        languages = [
            (each.attributes.get("source-language"), each.attributes.get("target-language"))
            for each in self._files
        ]
        if version == 2:
            languages = [(root.attributes.get("srcLang"), root.attributes.get("trgLang"))]
        if len({each for _, each in languages if each}) > 1:
            raise tree.error(root, "several target languages", "", "split the file, one language in each")
        self.source_language = languages[0][0]
        self.target_language = next((each for _, each in languages if each), None)
        tag = tree.data[root.start : root.inner].decode()
        prefix = re.match(r"<((?:[^\s/>:]+:)?)", tag)
        self._prefix = "" if prefix is None else prefix[1]
        self._places: list[_Place] = []
        found: list[Segment] = []
        for number, file in enumerate(self._files):
            for key, place in _places_1(tree, file) if version == 1 else _places_2(file):
                raw = tree.raw(place.source)
                if not raw.strip() or _untranslated(place.source):
                    continue
                self._places.append(place)
                target = "" if place.target is None else tree.raw(place.target)
                found.append(
                    Segment(
                        key=f"{number}/{key}",
                        line=place.source.line,
                        block=inline_block(raw, self._prefix),
                        source=raw,
                        target=target,
                        state=self._state(place, raw, target),
                        mark=self._mark(place),
                        context=_context(place.holder),
                        longest=_longest(place.holder),
                    )
                )
        self.segments: Sequence[Segment] = found

    def _state(self, place: _Place, source: str, target: str) -> State:
        if place.target is None or not target.strip():
            return "new"
        if self._version == 2:
            state, sub = (place.holder.attributes.get(name) for name in ("state", "subState"))
            if state is None or state == "initial":
                return "new" if state and target == source else "draft"
            return "draft" if (sub or "").startswith("regard:") else "final"
        node = place.target if place.mid is None else place.holder.first("target")
        state = None if node is None else node.attributes.get("state")
        if place.holder.attributes.get("approved") == "yes" or state is None or state in _FINAL:
            return "final"
        return "new" if state in _NEW else "draft"

    def _mark(self, place: _Place) -> str:
        node, names = (
            (place.holder, _STATES_2) if self._version == 2 else (place.holder.first("target"), _STATES_1)
        )
        states = ("", "") if node is None else (node.attributes.get(name, "") for name in names)
        return "|".join([*states, note_of(place.unit, self._version, place.name)])

    def write(self, results: Sequence[Result | None], target_language: str | None = None) -> bytes:
        edits: list[Edit] = []
        parts: dict[Node, list[tuple[_Place, Result | None]]] = {}
        notes: dict[Node, dict[str, str]] = {}
        language = self.target_language or target_language
        for segment, place, result in zip(self.segments, self._places, results, strict=True):
            if result is not None and not as_it_is(segment, result):
                notes.setdefault(place.unit, {})[place.name] = _noted(result)
            if place.mid is not None:
                given = None if result is None or as_it_is(segment, result) else result
                parts.setdefault(place.holder, []).append((place, given))
            elif result is not None and not as_it_is(segment, result):
                edits += self._target(place, result, language)
        for unit, own in parts.items():
            edits += self._cut(unit, own)
        for unit, flags in notes.items():  # behind their targets
            edits += note_edits(self._tree, self._prefix, unit, self._version, flags)
        if edits:
            edits += self._languages(language)
        return self._tree.written(edits)

    def _target(self, place: _Place, result: Result, language: str | None) -> list[Edit]:
        states = _states_1(result) if self._version == 1 else {}
        edits = self._doubted(place.holder, [result])
        if self._version == 2:
            edits = self._tree.rewrite(place.holder, _states_2(result))
        if place.target is not None:
            return edits + self._tree.rewrite(place.target, states, result.text)
        attributes: dict[str, str | None] = {**states, "xml:space": place.source.attributes.get(SPACE)}
        if self._version == 2 and place.source.inherited(LANGUAGE, language or "") != language:
            attributes["xml:lang"] = language
        return [*edits, self._new_target(place.source, place.holder, attributes, result.text)]

    def _doubted(self, unit: Node, given: Sequence[Result]) -> list[Edit]:
        """What nobody has read yet is not approved, whatever the unit said of an empty target."""
        approved = unit.attributes.get("approved") == "yes"
        draft = any(each.draft for each in given)
        return self._tree.rewrite(unit, {"approved": "no"}) if approved and draft else []

    def _new_target(self, source: Node, unit: Node, attributes: Mapping[str, str | None], text: str) -> Edit:
        behind = unit.first("seg-source") or source
        indent, name = indent_before(self._tree.data, source.start), f"{self._prefix}target"
        return Edit(behind.end, behind.end, f"{indent}<{name}{attributes_of(attributes)}>{text}</{name}>")

    def _cut(self, unit: Node, own: list[tuple[_Place, Result | None]]) -> list[Edit]:
        """The target of a unit whose source is cut into segments."""
        given = [result for _, result in own if result is not None]
        if not given:
            return []
        target = unit.first("target")
        states = _states_1(max(given, key=lambda each: (each.draft, bool(each.flags))))
        if target is not None and all(place.target is not None for place, _ in own):
            edits = self._doubted(unit, given) + self._tree.rewrite(target, states)
            for place, result in own:
                if result is not None and place.target is not None:
                    edits += self._tree.rewrite(place.target, {}, result.text)
            return edits
        cut, source = unit.first("seg-source"), unit.first("source")
        if cut is None or source is None:
            return []
        text, done = "", cut.inner
        for place, result in own:
            there = "" if place.target is None else self._tree.raw(place.target)
            text += self._tree.data[done : place.source.inner].decode()
            text += there if result is None else result.text
            done = place.source.inner_end
        text += self._tree.data[done : cut.inner_end].decode()
        if target is not None:
            return self._doubted(unit, given) + self._tree.rewrite(target, states, text)
        return [*self._doubted(unit, given), self._new_target(source, unit, states, text)]

    def _languages(self, language: str | None) -> list[Edit]:
        """Said where it was not."""
        if self._version == 1:
            missing = [each for each in self._files if "target-language" not in each.attributes]
            return [
                edit
                for each in missing
                if language is not None
                for edit in self._tree.rewrite(each, {"target-language": language})
            ]
        if language is None:
            remedy = "say it with --to, or in the file as trgLang"
            raise self._tree.error(self._tree.root, "no target language", "", remedy)
        return self._tree.rewrite(self._tree.root, {"trgLang": language})


def _places_1(tree: Tree, file: Node) -> Iterator[tuple[str, _Place]]:
    for unit in file.walk():
        if unit.name != "trans-unit" or unit.space != file.space:
            continue
        key, sources, targets = unit.attributes.get("id"), unit.named("source"), unit.named("target")
        if key is None:
            raise tree.error(unit, "a <trans-unit> without an id")
        if len(sources) != 1 or len(targets) > 1:
            counts = f"{key!r} with {len(sources)} <source> and {len(targets)} <target>"
            raise tree.error(unit, "a <trans-unit>", counts)
        target = targets[0] if targets else None
        cut = unit.first("seg-source")
        parts = [] if cut is None else _segments(cut)
        there = {} if target is None else dict(_segments(target))
        if not parts or (target is not None and _is_whole(tree, unit, target, {*there}, {*dict(parts)})):
            yield key, _Place(sources[0], target, unit)
            continue
        for mid, part in parts:
            yield f"{key}/{mid}", _Place(part, there.get(mid), unit, mid, mid)


def _segments(node: Node) -> list[tuple[str, Node]]:
    return [(each.attributes.get("mid", ""), each) for each in node.walk() if _is_segment(each)]


def _is_whole(tree: Tree, unit: Node, target: Node, there: set[str], parts: set[str]) -> bool:
    """Whether a target counts as it stands, though it is not cut as its source is: what somebody has written
    must not be written over segment by segment."""
    state = target.attributes.get("state")
    if not tree.raw(target).strip():
        return False
    if unit.attributes.get("approved") == "yes" or state in _FINAL:
        return not parts <= there
    return state not in _NEW and (not there or not there <= parts)


def _is_segment(node: Node) -> bool:
    return node.name == "mrk" and node.attributes.get("mtype") == "seg"


def _places_2(file: Node) -> Iterator[tuple[str, _Place]]:
    for unit in file.walk():
        if unit.name != "unit" or unit.space != file.space:
            continue
        segments = unit.named("segment")
        for number, segment in enumerate(segments):
            source = segment.first("source")
            if source is not None:
                key = segment.attributes.get("id", f"#{number}")
                place = _Place(
                    source, segment.first("target"), segment, name=key if len(segments) > 1 else ""
                )
                yield f"{unit.attributes['id']}/{key}", place


def _untranslated(source: Node) -> bool:
    return source.inherited("translate", "yes") == "no"


def _context(holder: Node) -> str:
    unit = holder.parent if holder.name == "segment" else holder
    return "" if unit is None else unit.attributes.get("resname") or unit.attributes.get("name") or ""


def _longest(holder: Node) -> int | None:
    """In characters; widths in other units are not known here."""
    if holder.inherited("size-unit", "pixel") == "char":
        said = holder.inherited("maxwidth", "")
    else:
        said = holder.inherited(f"{SIZES} sizeRestriction", "").rpartition(",")[2].strip()
    return int(said) if said.isdecimal() and said.isascii() else None


def _states_1(result: Result) -> dict[str, str | None]:
    if result.mark is not None:
        return _marked(result.mark, _STATES_1)
    made = "x-flagged-mt" if result.draft and result.flags else "leveraged-mt"
    qualifier = {"model": made, "memory": "exact-match"}.get(result.origin)
    state = "needs-review-translation" if result.draft else "translated"
    return dict(zip(_STATES_1, (state, qualifier), strict=True))


def _states_2(result: Result) -> dict[str, str | None]:
    if result.mark is not None:
        return _marked(result.mark, _STATES_2)
    sub = None if not result.draft else "regard:flagged" if result.flags else "regard:machine"
    return dict(zip(_STATES_2, ("translated", sub), strict=True))


def _marked(mark: str, names: tuple[str, str]) -> dict[str, str | None]:
    return {name: value or None for name, value in zip(names, mark.split("|", 2), strict=False)}


def _noted(result: Result) -> str:
    if result.mark is not None:
        return result.mark.split("|", 2)[2]
    return ", ".join(result.flags) if result.draft else ""
