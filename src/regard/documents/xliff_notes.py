"""What is flagged, as notes of XLIFF: translators see them in their tools.

    1.2    <trans-unit>  <source/> <target/>  <note from="regard">numbers</note>
    2.x    <unit>  <notes><note category="regard">numbers</note></notes>  <segment/>

Where a unit has several segments, a note begins with the name of its own.
"""

from collections.abc import Mapping
from xml.sax.saxutils import escape

from regard.documents.xmltree import Edit, Node, Tree, attributes_of, indent_before

_OURS = "regard"


def note_of(unit: Node, version: int, name: str) -> str:
    """Its flags; `name` is that of its segment, empty for the only one."""
    found = (_told(each, name) for each in _ours(unit, version))
    return next((each for each in found if each is not None), "")


def note_edits(tree: Tree, prefix: str, unit: Node, version: int, flags: Mapping[str, str]) -> list[Edit]:
    """The notes of some segments of a unit, by their names; those without flags get none."""
    gone = [each for each in _ours(unit, version) if any(_told(each, name) is not None for name in flags)]
    attributes: dict[str, str | None] = {"from" if version == 1 else "category": _OURS}
    tag = f"<{prefix}note{attributes_of(attributes)}>"
    texts = [f"{name}: {told}" if name else told for name, told in flags.items() if told]
    new = [f"{tag}{escape(each)}</{prefix}note>" for each in texts]
    outer = unit if version == 1 else unit.first("notes")
    if not new and version == 2 and outer is not None and outer.children == gone:
        gone = [outer] if gone else []
    edits = [_without(tree, each) for each in gone]
    if not new:
        return edits
    if version == 1:
        last = unit.first("target") or unit.first("seg-source") or unit.named("source")[0]
        indent = indent_before(tree.data, unit.named("source")[0].start)
        return [*edits, Edit(last.end, last.end, "".join(indent + each for each in new))]
    if outer is not None:
        first = outer.children[0].start
        indent = indent_before(tree.data, first)
        return [*edits, Edit(outer.inner, outer.inner, "".join(indent + each for each in new))]
    before = unit.first("originalData") or min(
        (*unit.named("segment"), *unit.named("ignorable")), key=lambda each: each.start
    )
    indent = indent_before(tree.data, before.start)
    whole = f"<{prefix}notes>{''.join(new)}</{prefix}notes>{indent}"
    return [*edits, Edit(before.start, before.start, whole)]


def _ours(unit: Node, version: int) -> list[Node]:
    if version == 1:
        return [each for each in unit.named("note") if each.attributes.get("from") == _OURS]
    notes = unit.first("notes")
    return (
        []
        if notes is None
        else [each for each in notes.named("note") if each.attributes.get("category") == _OURS]
    )


def _told(note: Node, name: str) -> str | None:
    """What a note says of a segment; None if it is another's."""
    if not name:
        return note.text
    return note.text.removeprefix(f"{name}: ") if note.text.startswith(f"{name}: ") else None


def _without(tree: Tree, node: Node) -> Edit:
    return Edit(node.start - len(indent_before(tree.data, node.start).encode()), node.end, "")
