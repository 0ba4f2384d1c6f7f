"""What XLIFF 2.x demands of a file, as far as somebody who translates it has to care.

Structure, ids, languages, states, and inline codes: what is wrong there would be carried into the
translation, or put it in the wrong place. What only other modules and references to other places are about is
not looked at.
"""

import re
from collections.abc import Iterator, Mapping

from regard.documents.xmltree import LANGUAGE, SPACE, Node, Tree, clean

_INLINE = frozenset(("pc", "sc", "ec", "ph", "cp", "mrk", "sm", "em"))
_CHILDREN: Mapping[str, frozenset[str]] = {
    "xliff": frozenset(("file",)),
    "file": frozenset(("skeleton", "notes", "unit", "group")),
    "group": frozenset(("notes", "unit", "group")),
    "unit": frozenset(("notes", "originalData", "segment", "ignorable")),
    "segment": frozenset(("source", "target")),
    "ignorable": frozenset(("source", "target")),
    "notes": frozenset(("note",)),
    "originalData": frozenset(("data",)),
    "data": frozenset(("cp",)),
    **dict.fromkeys(("source", "target", "pc", "mrk"), _INLINE),
}
_OPEN = frozenset(("file", "group", "unit", "skeleton"))
"""Elements of others may be in these."""
_BODY = frozenset(("unit", "group", "segment", "ignorable"))
"""What comes behind everything else of a file, group or unit."""
_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "segment": frozenset(("id", "canResegment", "state", "subState")),
    "ignorable": frozenset(("id",)),
    "source": frozenset((LANGUAGE, SPACE)),
    "target": frozenset((LANGUAGE, SPACE, "order")),
}
_OF_XLIFF = "urn:oasis:names:tc:xliff:"
_NEEDS_ID = ("file", "group", "unit", "data", "pc", "sc", "ph", "mrk", "sm")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_TOKEN = re.compile(r"[\w:.\-·]+")
_STATES = ("initial", "translated", "reviewed", "final")
_TYPES = ("fmt", "ui", "quote", "link", "image", "other")
_SUBTYPES = {
    "xlf:lb": "fmt",
    "xlf:pb": "fmt",
    "xlf:b": "fmt",
    "xlf:i": "fmt",
    "xlf:u": "fmt",
    "xlf:var": "ui",
}


def check_2(tree: Tree) -> None:
    """Raises `DataError` at the first fault."""
    root = tree.root
    for name in ("srcLang", "trgLang"):
        said = root.attributes.get(name)
        if said is None and name == "srcLang":
            raise tree.error(root, "no srcLang")
        if said is not None and not _LANGUAGE.fullmatch(said):
            raise tree.error(root, f"{name}={said!r} is no code of a language")
    _once(tree, root.named("file"), "file")
    for node in root.walk():
        if node.space == root.space:
            _check_node(tree, node)
    for file in root.named("file"):
        own = [each for each in file.walk() if each.space == root.space]
        _once(tree, [each for each in own if each.name == "unit"], "unit")
        _once(tree, [each for each in own if each.name == "group"], "group")
        units = {each.attributes["id"] for each in own if each.name == "unit"}
        for unit in own:
            if unit.name == "unit":
                _check_unit(tree, unit, units)


def _check_node(tree: Tree, node: Node) -> None:
    _check_children(tree, node)
    allowed = _ATTRIBUTES.get(node.name)
    for name in node.attributes:
        space = name.rpartition(" ")[0]
        foreign = bool(space) and name not in (LANGUAGE, SPACE) and not space.startswith(_OF_XLIFF)
        if (allowed is not None and name not in allowed and not space.startswith(_OF_XLIFF)) or (
            foreign and node.name in ("pc", "sc", "ec", "ph", "cp", "segment", "source", "target")
        ):
            raise tree.error(node, f"<{node.name}> cannot have the attribute", repr(name.rpartition(" ")[2]))
    own = node.attributes
    if node.name in _NEEDS_ID and "id" not in own:
        raise tree.error(node, f"<{node.name}> without an id")
    if "id" in own and not _TOKEN.fullmatch(own["id"]):
        raise tree.error(node, f"<{node.name}> with a malformed id", repr(own["id"]))
    match node.name:
        case "notes":
            _once(tree, [each for each in node.named("note") if "id" in each.attributes], "note")
        case "segment":
            if own.get("state", "initial") not in _STATES:
                raise tree.error(
                    node, "unknown state", repr(own["state"]), f"it is one of {', '.join(_STATES)}"
                )
            if "subState" in own and "state" not in own:
                raise tree.error(node, "a subState without a state")
        case "skeleton":
            if bool(node.text.strip() or node.children) == ("href" in own):
                raise tree.error(node, "<skeleton> has either a href or content, never both")
        case "cp":
            code = own.get("hex", "")
            if not re.fullmatch(r"[0-9A-Fa-f]{4,6}", code) or _can_be_written(int(code, 16)):
                raise tree.error(node, "<cp> stands for no character that XML cannot hold:", repr(code))
        case "mrk" | "sm":
            if own.get("type") == "comment" and ("value" in own) == ("ref" in own):
                raise tree.error(node, "a comment has either a value or a ref")
        case "source" | "target":
            _check_language(tree, node)


def _check_children(tree: Tree, node: Node) -> None:
    allowed, behind = _CHILDREN.get(node.name), False
    for child in node.children:
        own = child.space == node.space
        if allowed is None:
            continue
        if (own and child.name not in allowed) or (not own and node.name not in _OPEN):
            raise tree.error(child, f"<{child.name}> cannot stand in <{node.name}>")
        body = own and child.name in _BODY
        if behind and not body:
            raise tree.error(child, f"<{child.name}> must come before the units and segments")
        behind = behind or body
    counts = {name: len(node.named(name)) for name in allowed or ()}
    match node.name:
        case "segment" | "ignorable":
            good = counts["source"] == 1 and counts["target"] <= 1
            what = "one <source>, and at most one <target>"
        case "unit":
            good, what = counts["segment"] > 0, "a <segment>"
        case "file":
            good, what = counts["unit"] + counts["group"] > 0, "a <unit> or <group>"
        case "xliff" | "notes" | "originalData":
            (only,) = counts
            good, what = counts[only] > 0, f"a <{only}>"
        case _:
            return
    if not good:
        raise tree.error(node, f"<{node.name}> must have {what}")


def _check_language(tree: Tree, node: Node) -> None:
    name = "srcLang" if node.name == "source" else "trgLang"
    wanted = tree.root.attributes.get(name)
    if wanted is None:
        raise tree.error(node, f"a <{node.name}>, but the file has no {name}")
    said = node.inherited(LANGUAGE, wanted)
    if said.lower() != wanted.lower():
        raise tree.error(node, f"<{node.name}> is in {said!r},", f"but {name}={wanted!r}")
    if node.name == "target" and node.parent is not None:
        source = node.parent.first("source")
        if source is not None and source.inherited(SPACE, "default") != node.inherited(SPACE, "default"):
            raise tree.error(node, "<source> and <target> differ in xml:space")


def _check_unit(tree: Tree, unit: Node, units: set[str]) -> None:
    parts = unit.named("segment") + unit.named("ignorable")
    _once(tree, [each for each in parts if "id" in each.attributes], "segment or ignorable")
    data = [each for own in unit.named("originalData") for each in own.named("data")]
    _once(tree, data, "data")
    _check_order(tree, [each for each in unit.children if each in parts])
    sources = [node for part in unit.children if (node := part.first("source")) is not None]
    targets = [node for part in unit.children if (node := part.first("target")) is not None]
    known = {each.attributes["id"] for each in data}
    notes = {each.attributes.get("id") for own in unit.named("notes") for each in own.named("note")}
    for codes in (_codes(sources), _codes(targets)):
        by_id = {each.attributes["id"]: each for each in codes if "id" in each.attributes}
        for code in codes:
            _check_comment(tree, code, unit.attributes["id"], notes)
            _check_code(tree, code, known, by_id, units)
    _check_spans(tree, _codes(sources))
    _check_kept(tree, unit)


def _check_comment(tree: Tree, code: Node, unit: str, notes: set[str | None]) -> None:
    ref = code.attributes.get("ref")
    if code.attributes.get("type") == "comment" and ref is not None:
        note = re.fullmatch(rf"#(?:(?:/?f=[^/]+/)?u={re.escape(unit)}/)?n=([^/]+)", ref)
        if note is None or note[1] not in notes:
            raise tree.error(code, f"ref={ref!r}: the unit has no such <note>")


def _check_order(tree: Tree, parts: list[Node]) -> None:
    seen: set[str] = set()
    for number, part in enumerate(parts, 1):
        target = part.first("target")
        if target is not None:
            order = target.attributes.get("order", str(number))
            if order in seen:
                raise tree.error(target, "two targets with the same order", repr(order))
            seen.add(order)


def _codes(nodes: list[Node]) -> list[Node]:
    return [each for node in nodes for each in node.walk() if each is not node]


def _check_code(tree: Tree, code: Node, data: set[str], by_id: Mapping[str, Node], units: set[str]) -> None:
    own = code.attributes
    for name in ("dataRef", "dataRefStart", "dataRefEnd"):
        if name in own and own[name] not in data:
            raise tree.error(code, f"{name}={own[name]!r}: the unit has no such <data>")
    if "copyOf" in own:
        other = by_id.get(own["copyOf"])
        if other is None or other.attributes.get("canCopy") == "no" or "dataRef" in own:
            raise tree.error(code, f"copyOf={own['copyOf']!r} is not the id of a code that can be copied")
    for name in ("subFlows", "subFlowsStart", "subFlowsEnd"):
        if any(each not in units for each in own.get(name, "").split()):
            raise tree.error(code, f"{name}={own[name]!r}: the file has no such <unit>")
    if code.name in ("pc", "sc", "ec", "ph"):
        kind, sub = own.get("type"), own.get("subType")
        if kind is not None and kind not in _TYPES:
            raise tree.error(code, "unknown type", repr(kind), f"it is one of {', '.join(_TYPES)}")
        if sub is not None and (kind is None or _SUBTYPES.get(sub, kind) != kind):
            raise tree.error(code, f"subType={sub!r} does not fit type={kind!r}")
        if own.get("canReorder") == "firstNo" and (own.get("canCopy"), own.get("canDelete")) != ("no", "no"):
            raise tree.error(code, "canReorder='firstNo' demands canCopy='no' and canDelete='no'")


def _check_spans(tree: Tree, codes: list[Node]) -> None:
    """Codes that begin and end a span, and those that keep their order."""
    begun: dict[tuple[str, str], Node] = {}
    ended: set[tuple[str, str]] = set()
    fixed = False
    for code in codes:
        own = code.attributes
        isolated = own.get("isolated") == "yes"
        if code.name in ("sc", "sm"):
            begun[code.name, own["id"]] = code
        elif code.name in ("ec", "em"):
            if isolated != ("id" in own) or isolated == ("startRef" in own):
                raise tree.error(code, f"<{code.name}> has an id if it is isolated, else a startRef")
            key = code.name.replace("e", "s", 1), own.get("startRef", "")
            if not isolated and key not in begun:
                raise tree.error(code, f"<{code.name}> ends {key[1]!r}, which has not begun")
            if not isolated:
                ended.add(key)
                _check_alike(tree, begun[key], code)
        order = own.get("canReorder", "yes")
        if order == "no" and not fixed:
            raise tree.error(code, "canReorder='no' without a code before it that has 'firstNo'")
        fixed = order != "yes" if code.name in ("pc", "sc", "ec", "ph") else fixed
    for key, code in begun.items():
        if (key in ended) == (code.attributes.get("isolated") == "yes"):
            raise tree.error(code, f"<{key[0]}> {key[1]!r} must be ended, or isolated='yes'")


def _check_alike(tree: Tree, begin: Node, end: Node) -> None:
    for name, default in (
        ("canCopy", "yes"),
        ("canDelete", "yes"),
        ("canOverlap", "yes"),
        ("canReorder", "yes"),
    ):
        one, other = begin.attributes.get(name, default), end.attributes.get(name, default)
        one = "no" if one == "firstNo" else one
        if one != other:
            raise tree.error(end, f"{name} differs from that of the code that it ends")


def _check_kept(tree: Tree, unit: Node) -> None:
    """What a target must have of its source."""
    every = {
        each.attributes.get("id")
        for part in unit.children
        if (target := part.first("target")) is not None
        for each in _codes([target])
    }
    for part in unit.named("segment"):
        source, target = part.first("source"), part.first("target")
        if source is None or target is None:
            continue
        for code in _codes([source]):
            if code.attributes.get("canDelete") == "no" and code.attributes.get("id", code) not in {
                *every,
                code,
            }:
                raise tree.error(target, f"the code {code.attributes.get('id')!r} must not be deleted")
        for run in _fixed_runs([*_events(source)]):
            found = [*_events(target)]
            places = [place for place, each in enumerate(found) if each in run]
            between = found[places[0] : places[-1] + 1] if places else []
            if [each for each in between if each in run] != run or len(between) != len(run):
                raise tree.error(target, "codes that must keep their order do not")


def _events(node: Node) -> Iterator[tuple[str, str, str]]:
    """(what, id, canReorder) of codes, as they begin and end."""
    for child in node.children:
        own = child.attributes
        key, order = own.get("id") or own.get("startRef", ""), own.get("canReorder", "yes")
        if child.name in ("mrk", "sm", "em", "cp"):
            yield from _events(child)
            continue
        yield child.name, key, order
        yield from _events(child)
        if child.name == "pc":
            yield "/pc", key, "no" if order != "yes" else order


def _fixed_runs(events: list[tuple[str, str, str]]) -> list[list[tuple[str, str, str]]]:
    runs: list[list[tuple[str, str, str]]] = []
    open_run = False
    for event in events:
        if event[2] == "firstNo":
            runs.append([event])
            open_run = True
        elif event[2] == "no" and open_run:
            runs[-1].append(event)
        else:
            open_run = False
    return runs


def _once(tree: Tree, nodes: list[Node], what: str) -> None:
    seen: set[str] = set()
    for node in nodes:
        key = node.attributes.get("id", "")
        if key in seen:
            raise tree.error(node, f"two of id {key!r}", f"({what})")
        seen.add(key)


def _can_be_written(code: int) -> bool:
    return code <= 0x10FFFF and clean(chr(code)) != ""
