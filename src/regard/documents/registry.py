"""Formats of documents, by the endings of names; each is imported when it is asked for.

opened = open_document("manual.xlf")
regard.register(regard.documents.registry.FormatSpec(name="mine", endings=(".mine",), home="mine:Mine"))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, cast

from regard.config import ConfigError
from regard.documents.base import Format, Opened
from regard.documents.numbers import keep_numbers
from regard.plugins import Registry, load_installed
from regard.text.files import COMPRESSED, open_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatSpec:
    """A row of the table."""

    name: str
    endings: tuple[str, ...]
    """Of file names, in small letters, each with its dot."""
    home: str
    """Where it is: "module:name" of a class that makes a `Format`."""
    tells: Literal["sources", "keys", "nothing"] = "sources"
    """What a translated file tells of its sources: they stand in it, as in PO; or their keys do, which are
    names; or nothing. For the last two, what it was made from is written beside it."""

    def load(self) -> Format:
        module, _, name = self.home.partition(":")
        return cast("Format", getattr(import_module(module), name)())


OWN = (
    FormatSpec(name="po", endings=(".po", ".pot"), home="regard.documents.po:Po"),
    FormatSpec(name="xliff", endings=(".xlf", ".xliff"), home="regard.documents.xliff:Xliff"),
    FormatSpec(name="tmx", endings=(".tmx",), home="regard.documents.tmx:Tmx"),
    FormatSpec(
        name="html",
        endings=(".html", ".htm", ".xhtml"),
        home="regard.documents.html:HtmlFormat",
        tells="nothing",
    ),
    FormatSpec(
        name="markdown",
        endings=(".md", ".markdown", ".mkd"),
        home="regard.documents.markdown:MarkdownFormat",
        tells="nothing",
    ),
    FormatSpec(name="srt", endings=(".srt",), home="regard.documents.subtitles:SrtFormat", tells="nothing"),
    FormatSpec(name="vtt", endings=(".vtt",), home="regard.documents.subtitles:VttFormat", tells="nothing"),
    FormatSpec(
        name="docx",
        endings=(".docx", ".docm", ".dotx", ".dotm"),
        home="regard.documents.word:WordFormat",
        tells="nothing",
    ),
    FormatSpec(
        name="odt",
        endings=(".odt", ".ott"),
        home="regard.documents.opendocument:OpenDocumentFormat",
        tells="nothing",
    ),
    FormatSpec(name="json", endings=(".json",), home="regard.documents.strings:JsonFormat", tells="keys"),
    FormatSpec(name="arb", endings=(".arb",), home="regard.documents.strings:ArbFormat", tells="keys"),
    FormatSpec(
        name="properties",
        endings=(".properties",),
        home="regard.documents.strings:PropertiesFormat",
        tells="keys",
    ),
    FormatSpec(
        name="strings", endings=(".strings",), home="regard.documents.strings:StringsFormat", tells="keys"
    ),
    FormatSpec(
        name="android", endings=(".xml",), home="regard.documents.android:AndroidFormat", tells="keys"
    ),
    FormatSpec(name="yaml", endings=(".yaml", ".yml"), home="regard.documents.yaml:YamlFormat", tells="keys"),
)
COMMON = ("target_language",)
"""Settings that are said for documents of all formats, and given to those that list them."""
FORMATS: Registry[FormatSpec] = Registry(key="documents.format")
FORMATS.settle(FormatSpec, *OWN)


def endings() -> dict[str, str]:
    """Of names of files, and the format of each."""
    return {ending: name for name in FORMATS for ending in FORMATS[name].endings}


def format_of(file: str | Path) -> str | None:
    """The format that a name tells, under that of its compression; None for none of these."""
    path = Path(file)
    plain = path.with_suffix("") if path.suffix in COMPRESSED else path
    return endings().get(plain.suffix.lower())


def open_document(
    file: str | Path,
    raw: bytes | None = None,
    *,
    format: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> Opened:
    """A file, or bytes of this name. `settings` are given to a format that knows them; target_language only
    to one that says so. `numbers` holds for all: these stay as they are."""
    name = format or format_of(file)
    if name is None:
        load_installed()
        name = format_of(file)
    if name is None:
        raise ConfigError(f"{file}: no format has such an ending; give one: {', '.join(FORMATS)}")
    found = FORMATS[name].load()
    if raw is None:
        with open_bytes(file) as stream:
            raw = stream.read()
    known = getattr(found, "settings", None)
    given = {}
    for key, own in (settings or {}).items():
        if key == "numbers":
            continue
        if key in known if known is not None else key not in COMMON:
            given[key] = own
        elif key not in COMMON:
            there = ", ".join(each for each in known or () if each not in COMMON) or "none"
            raise ConfigError(f"{file}: the format {name} has no setting {key!r}; it has {there}")
    opened = found.open(raw, str(file), given)
    if settings is not None and settings.get("numbers"):
        opened.segments = keep_numbers(opened.segments)
    return opened
