"""Android's strings.xml: strings, arrays and plurals; what says translatable="false" stays.

Tags within a string, `xliff:g` among them, are tags; so are those that are written as entities or in CDATA.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from html import unescape

from regard.config import from_dict
from regard.documents.splicing import Site, Spliced
from regard.documents.strings import PAIR, read_escape
from regard.documents.values import Escapes, StringsSettings, Value, value_sites
from regard.documents.xml import CDATA, Node, Tree, read_xml

_OWN = rf"{PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|\s*[\r\n]\s*"
_QUOTED = re.compile(r'\s*"(?:[^"\\]|\\.)*"\s*', re.DOTALL)
_REFERENCE = re.compile(r"[@?][\w:.+]+/[\w.]+|@(?:null|empty)")
"""To another resource, or to an attribute of a theme."""
_ENTITY = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);"


def _read(escape: str) -> str:
    if escape.startswith("&"):
        return unescape(escape)
    if not escape.startswith("\\"):  # a line end is white space like any other; only \n is one
        return " "
    return read_escape(escape) if len(escape) > 2 or escape[1] in "nt" else escape[1:]


def _write(text: str) -> str:
    written = {"\n": "\\n", "\t": "\\t", "\r": ""}
    return re.sub(r"[\\'\"\n\t\r]", lambda found: written.get(found[0], "\\" + found[0]), text)


def _finish(text: str) -> str:
    """At the start, @ and ? would make a reference of it."""
    text = text.strip()
    return f"\\{text}" if text.startswith(("@", "?")) else text


def _write_xml(text: str) -> str:
    return _write(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_IN_TEXT = Escapes(re.compile(f"{_OWN}|{_ENTITY}", re.DOTALL), _read, _write_xml)
_IN_CDATA = Escapes(re.compile(_OWN, re.DOTALL), _read, lambda text: _write(text).replace("]]>", "]] >"))


class AndroidFormat:
    name = "android"
    endings = (".xml",)
    settings = tuple(each.name for each in fields(StringsSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        own = from_dict(StringsSettings, settings)
        tree = read_xml(raw, file, doctype=True)
        if tree.root.name != "resources":
            what = f"<{tree.root.name}> is no file of Android's strings:"
            raise tree.source.error(tree.root.start, what, "it begins with <resources>")
        sites: list[Site] = []
        for key, node in _strings(tree):
            if own.wants(key):
                sites += _sites(tree, key, node)
        return Spliced(tree.source, sites, missing="entities")


def _strings(tree: Tree) -> Iterator[tuple[str, Node]]:
    for node in tree.root.children:
        found = tree.attributes(node)
        name = found.get("name", "")
        if found.get("translatable") == "false":
            continue
        if node.name == "string":
            yield name, node
        elif node.name in ("plurals", "string-array"):
            items = [each for each in node.children if each.name == "item"]
            for i, item in enumerate(items):
                yield f"{name}.{tree.attributes(item).get('quantity', i)}", item


def _sites(tree: Tree, key: str, node: Node) -> Iterator[Site]:
    """CDATA and what is around it, each by its own rules."""
    start = node.inner
    count = 0
    for cut in [*(each for each in node.children if each.name == CDATA), None]:
        spans = [(start, node.inner_end if cut is None else cut.start, _IN_TEXT)]
        if cut is not None:
            spans.append((cut.start + len("<![CDATA["), cut.end - len("]]>"), _IN_CDATA))
            start = cut.end
        for first, last, escapes in spans:
            raw = tree.source.text[first:last]
            if _QUOTED.fullmatch(raw):
                first, last = first + raw.index('"') + 1, first + raw.rindex('"')
            if not raw.strip() or _REFERENCE.fullmatch(raw.strip()):
                continue
            count += 1
            named = key if count == 1 else f"{key}|{count}"
            value = Value.read(tree.source, [(first, last)], escapes)
            is_html = escapes is _IN_CDATA or "&lt;" in raw
            for site in value_sites(value, escapes, named, html=is_html, entities=escapes is _IN_TEXT):
                if not tree.source.text[first : site.start].strip():
                    site.finish = _finish
                yield site


FORMAT = AndroidFormat()
