"""DeepL's: translations, languages, usage, and glossaries (version 2, and 3 with several languages in one).

What only changes DeepL's own models (formality, context, model_type, style rules) is taken, and has no
effect.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import PlainTextResponse, Response

from regard.serve.asking import Ask, Json
from regard.serve.detect import Detected, sources
from regard.serve.documents import translate_documents
from regard.serve.doors import Door, Way
from regard.serve.glossaries import Dictionary, Glossary, read_entries
from regard.serve.languages import CODE, name_of, served_pairs
from regard.serve.line import RefusedError, in_time
from regard.text.languages import base, same
from regard.text.scanning import Syntax
from regard.text.terms import Terms

REGIONS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-PT", "PT-BR")}
"""Targets that DeepL's clients ask for by region only."""
NAMES = {
    "EN-GB": "English (British)",
    "EN-US": "English (American)",
    "PT-PT": "Portuguese",
    "PT-BR": "Portuguese (Brazilian)",
}
T = TypeVar("T")
NO_LIMIT = 1_000_000_000_000


class _Usage:
    def __init__(self) -> None:
        self.characters = 0


async def translate(ask: Ask) -> Response:
    texts, _ = ask.texts("text")
    target = _code(ask, "target_lang")
    source = _code(ask, "source_lang", needed=False)
    syntax = _syntax(ask)
    terms = await _terms(ask, source, target)
    if source is not None:
        languages = [Detected(source, 100.0)] * len(texts)
    else:
        languages = await sources(texts, target, ask.sources(target))
    split = "never" if str(ask.fields.get("split_sentences", "1")) == "0" else "auto"
    read = [each.language for each in languages]
    found = await translate_documents(ask, texts, read, target, syntax, terms=terms, split=split)
    ask.kept(_Usage).characters += sum(map(len, texts))
    billed = ask.value("show_billed_characters", bool, False)
    answers = [
        {
            "detected_source_language": base(each.language).upper(),
            "text": output[0],
            **({"billed_characters": len(text)} if billed else {}),
        }
        for text, each, output in zip(texts, languages, found, strict=True)
    ]
    return Json({"translations": answers})


def _code(ask: Ask, name: str, *, needed: bool = True) -> Any:
    code = ask.value(name, str) or None
    if code is None and needed:
        raise RefusedError(f"{name} is missing: give the code of a language, such as DE")
    if code is not None and not CODE.fullmatch(code):
        raise RefusedError(f"{name}={code!r:.40} is not the code of a language, such as DE")
    return code


def _syntax(ask: Ask) -> Syntax:
    kind: Any = ask.value("tag_handling", str) or "text"
    if kind not in ("text", "xml", "html"):
        raise RefusedError(f"tag_handling={kind!r:.40} is none of xml, html")
    return Syntax(
        kind=kind,
        lines=str(ask.fields.get("split_sentences", "1")) == "1",
        opaque=_tags(ask, "ignore_tags"),
        splitting=_tags(ask, "splitting_tags"),
        joining=_tags(ask, "non_splitting_tags"),
        outline=ask.value("outline_detection", bool, True),
    )


def _tags(ask: Ask, name: str) -> frozenset[str]:
    """A list, or names with commas between."""
    found, _ = ask.texts(name, needed=False)
    return frozenset(tag.strip() for each in found for tag in each.split(",") if tag.strip())


async def _terms(ask: Ask, source: str | None, target: str) -> Terms | None:
    one = ask.value("glossary_id", str)
    several, _ = ask.texts("glossary_ids", needed=False)
    ids = [one] if one else several
    if not ids:
        return None
    if source is None:
        raise RefusedError("a glossary needs source_lang")
    found = [(await ask.service.glossaries.get(each)).dictionary(source, target) for each in ids]
    return found[0].terms if len(found) == 1 else await asyncio.to_thread(_joined, found)


def _joined(found: Sequence[Dictionary]) -> Terms:
    entries: dict[str, str] = {}
    for each in reversed(found):  # the first counts
        entries |= each.entries
    exact, any_case = (
        {term for each in found for term in getattr(each, name)} for name in ("exact", "any_case")
    )
    return Terms(entries, exact=exact, any_case=any_case)


async def languages(ask: Ask) -> Response:
    kind = ask.value("type", str, "source")
    if kind not in ("source", "target"):
        raise RefusedError(f"type={kind!r:.40} is none of source, target")
    pairs = served_pairs(ask.service.models)
    if kind == "source":
        codes = sorted({base(code).upper() for code, targets in pairs.items() if targets})
        return Json([{"language": code, "name": name_of(code.lower())} for code in codes])
    targets = {target for each in pairs.values() for target in each}
    found: dict[str, str] = {}
    for target in sorted(targets):
        own = base(target) if sum(same(target, other) for other in targets) == 1 else target
        for code in REGIONS.get(own, (own.replace("_", "-").upper(),)):
            found[code] = NAMES.get(code, name_of(target))
    return Json(
        [{"language": code, "name": name, "supports_formality": False} for code, name in found.items()]
    )


async def usage(ask: Ask) -> Response:
    """Characters since the service began; there is no limit."""
    return Json({"character_count": ask.kept(_Usage).characters, "character_limit": NO_LIMIT})


async def pairs(ask: Ask) -> Response:
    found = {
        (base(source), base(target))
        for source, targets in served_pairs(ask.service.models).items()
        for target in targets
    }
    return Json(
        {"supported_languages": [{"source_lang": one, "target_lang": other} for one, other in sorted(found)]}
    )


async def _glossary(ask: Ask) -> Glossary:
    return await ask.service.glossaries.get(ask.request.path_params["id"])


async def _add(ask: Ask, glossary: Glossary) -> Glossary:
    return await in_time(ask.service.glossaries.add(glossary), ask.deadline)


async def _change(ask: Ask, edit: Callable[[Glossary], T]) -> T:
    id = ask.request.path_params["id"]
    return await in_time(ask.service.glossaries.change(id, edit), ask.deadline)


def _dictionary(ask: Ask, plain: Any = None) -> Dictionary:
    """From the fields of a request, or from an object in one."""
    given = ask.fields if plain is None else plain
    if not isinstance(given, dict):
        raise RefusedError("dictionaries should be a list of objects")
    values = {key: given.get(key) for key in ("source_lang", "target_lang", "entries")}
    for key, value in values.items():
        if not isinstance(value, str) or not value:
            raise RefusedError(f"{key} should be a text")
        if key != "entries" and not CODE.fullmatch(value):
            raise RefusedError(f"{key}={value!r:.40} is not the code of a language, such as DE")
    entries = read_entries(str(values["entries"]), str(given.get("entries_format", "tsv")))
    return Dictionary(base(str(values["source_lang"])), base(str(values["target_lang"])), entries)


def _name(ask: Ask) -> str:
    name: str = ask.value("name", str, "")
    if not name.strip():
        raise RefusedError("name is missing: a glossary needs one")
    return name


def _about(dictionary: Dictionary) -> dict[str, Any]:
    return {
        "source_lang": dictionary.source,
        "target_lang": dictionary.target,
        "entry_count": len(dictionary.entries),
    }


def _told(glossary: Glossary) -> dict[str, Any]:
    """As version 2 has it: one pair of languages."""
    own = {"glossary_id": glossary.id, "name": glossary.name, "ready": True}
    return {**own, **_about(glossary.dictionaries[0]), "creation_time": glossary.created}


def _told_whole(glossary: Glossary) -> dict[str, Any]:
    """As version 3 has it."""
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [_about(each) for each in glossary.dictionaries],
        "creation_time": glossary.created,
    }


async def create(ask: Ask) -> Response:
    glossary = Glossary(_name(ask), [await asyncio.to_thread(_dictionary, ask)])
    return Json(_told(await _add(ask, glossary)), status_code=201)


async def listed(ask: Ask) -> Response:
    single = [each for each in await ask.service.glossaries.all() if len(each.dictionaries) == 1]
    return Json({"glossaries": [_told(each) for each in single]})


async def get(ask: Ask) -> Response:
    glossary = await _glossary(ask)
    if len(glossary.dictionaries) != 1:
        raise RefusedError("this glossary has several languages: ask /v3/glossaries for it", 404)
    return Json(_told(glossary))


async def entries(ask: Ask) -> Response:
    dictionary = (await _glossary(ask)).dictionaries[0]
    return PlainTextResponse(dictionary.tsv, media_type="text/tab-separated-values")


async def delete(ask: Ask) -> Response:
    await in_time(ask.service.glossaries.remove(ask.request.path_params["id"]), ask.deadline)
    return Response(status_code=204)


def _dictionaries(ask: Ask) -> list[Dictionary]:
    return [_dictionary(ask, each) for each in ask.value("dictionaries", list, [])]


def _whole(ask: Ask) -> Glossary:
    glossary = Glossary(_name(ask), [])
    for each in _dictionaries(ask):
        glossary.put(each, merge=True)
    if not glossary.dictionaries:
        raise RefusedError("dictionaries is empty: a glossary needs one at least")
    return glossary


async def create_whole(ask: Ask) -> Response:
    glossary = await asyncio.to_thread(_whole, ask)
    return Json(_told_whole(await _add(ask, glossary)), status_code=201)


async def list_whole(ask: Ask) -> Response:
    return Json({"glossaries": [_told_whole(each) for each in await ask.service.glossaries.all()]})


async def get_whole(ask: Ask) -> Response:
    return Json(_told_whole(await _glossary(ask)))


async def edit(ask: Ask) -> Response:
    """A new name, or entries that are added."""
    new = await asyncio.to_thread(_dictionaries, ask)
    name = _name(ask) if "name" in ask.fields else None

    def change(glossary: Glossary) -> dict[str, Any]:
        glossary.name = glossary.name if name is None else name
        for each in new:
            glossary.put(each, merge=True)
        return _told_whole(glossary)

    return Json(await _change(ask, change))


async def entries_of(ask: Ask) -> Response:
    glossary = await _glossary(ask)
    wanted = [_code(ask, name, needed=False) for name in ("source_lang", "target_lang")]
    found = [
        each
        for each in glossary.dictionaries
        if all(
            code is None or same(code, own)
            for code, own in zip(wanted, (each.source, each.target), strict=True)
        )
    ]
    return Json(
        {"dictionaries": [{**_about(each), "entries": each.tsv, "entries_format": "tsv"} for each in found]}
    )


async def replace(ask: Ask) -> Response:
    new = await asyncio.to_thread(_dictionary, ask)
    return Json(_about(await _change(ask, lambda glossary: glossary.put(new))))


async def remove(ask: Ask) -> Response:
    source, target = _code(ask, "source_lang"), _code(ask, "target_lang")

    def change(glossary: Glossary) -> None:
        dictionary = glossary.dictionary(source, target)
        if len(glossary.dictionaries) == 1:
            raise RefusedError("it is the glossary's only dictionary: delete the glossary")
        glossary.dictionaries.remove(dictionary)

    await _change(ask, change)
    return Response(status_code=204)


DEEPL = Door(
    "deepl",
    lambda why, status: {"message": why},
    [
        Way("POST", "/v2/translate", translate),
        Way("GET", "/v2/languages", languages),
        Way("GET", "/v2/usage", usage),
        Way("GET", "/v2/glossary-language-pairs", pairs),
        Way("POST", "/v2/glossaries", create),
        Way("GET", "/v2/glossaries", listed),
        Way("GET", "/v2/glossaries/{id}", get),
        Way("GET", "/v2/glossaries/{id}/entries", entries),
        Way("DELETE", "/v2/glossaries/{id}", delete),
        Way("POST", "/v3/glossaries", create_whole),
        Way("GET", "/v3/glossaries", list_whole),
        Way("GET", "/v3/glossaries/{id}", get_whole),
        Way("PATCH", "/v3/glossaries/{id}", edit),
        Way("DELETE", "/v3/glossaries/{id}", delete),
        Way("GET", "/v3/glossaries/{id}/entries", entries_of),
        Way("PUT", "/v3/glossaries/{id}/dictionaries", replace),
        Way("DELETE", "/v3/glossaries/{id}/dictionaries", remove),
    ],
    stranger=403,
    below=("/v2/", "/v3/"),
)
