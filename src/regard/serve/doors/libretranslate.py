"""LibreTranslate's: translations of texts, HTML and files, languages, and which one a text is in.

NeMo Curator asks the same path for {"texts", "src_lang", "tgt_lang"} and reads {"translations"}.
"""

import math
import re
import secrets
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal
from urllib.parse import quote

from starlette.responses import Response

from regard.documents.base import Opened
from regard.documents.package import bounded
from regard.documents.registry import FORMATS, endings, format_of, open_document
from regard.serve.asking import Ask, Json
from regard.serve.detect import Detected, candidates, sources
from regard.serve.documents import translate_documents, translate_opened
from regard.serve.doors import Door, Way
from regard.serve.languages import CODE, name_of, served_pairs
from regard.serve.line import RefusedError
from regard.text import DataError
from regard.text.languages import same
from regard.text.scanning import Syntax
from regard.text.terms import Terms

FILES: dict[str, tuple[Literal["text", "html"], str]] = {
    ".txt": ("text", "text/plain"),
    ".html": ("html", "text/html"),
    ".htm": ("html", "text/html"),
}
"""Kinds of files that are translated: how they are read, and what they are called."""
MARK = "\ufeff"
"""What a file in UTF-8 may begin with, which is none of its text."""
PACKED = b"PK"
"""How a zip begins."""
FAR = 4
"""Times the characters of a request, a file of which most is text may have, with its keys and marks."""
KEPT_FILES, KEPT_SECONDS = 100, 3600.0


async def translate(ask: Ask) -> Response:
    curator = "texts" in ask.fields and "q" not in ask.fields
    texts, several = ask.texts("texts" if curator else "q")
    source, target = _languages(ask, *(("src_lang", "tgt_lang") if curator else ("source", "target")))
    kind = ask.value("format", str, "text")
    if kind not in ("text", "html"):
        raise RefusedError(f"format={kind!r:.40} is none of text, html")
    most = ask.whole("alternatives", 0, ask.service.limits.alternatives - 1, least=0)
    languages = await _sources(ask, texts, source, target)
    found = await translate_documents(
        ask, texts, [each.language for each in languages], target, Syntax(kind=kind), alternatives=most
    )
    if curator:
        return Json({"translations": [each[0] for each in found]})
    answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in found]}
    if source == "auto":
        answer["detectedLanguage"] = [each.to_dict() for each in languages]
    if most:
        answer["alternatives"] = [each[1:] for each in found]
    return Json(answer if several else {key: values[0] for key, values in answer.items()})


def _languages(ask: Ask, source: str, target: str) -> tuple[str, str]:
    found = []
    for name, default in ((source, "auto"), (target, None)):
        code = ask.value(name, str, default)
        if code is None:
            raise RefusedError(f"{name} is missing: give the code of a language, such as de")
        if code != "auto" and not CODE.fullmatch(code):
            raise RefusedError(f"{name}={code!r:.40} is not the code of a language, such as de")
        found.append(code)
    if found[1] == "auto":
        raise RefusedError(f"{target}='auto': give the code of a language, such as de")
    return found[0], found[1]


async def _sources(ask: Ask, texts: list[str], source: str, target: str) -> list[Detected]:
    if source != "auto":
        return [Detected(source, 100.0)] * len(texts)
    return await sources(texts, target, ask.sources(target), partial(ask.beside, 0))


async def languages(ask: Ask) -> Response:
    """Each can be translated to itself: it stays as it is."""
    pairs = served_pairs(ask.service.models)
    codes = sorted({*pairs, *chain.from_iterable(pairs.values())})
    return Json(
        [
            {"code": code, "name": name_of(code), "targets": sorted({code, *pairs.get(code, ())})}
            for code in codes
        ]
    )


async def detect(ask: Ask) -> Response:
    texts, _ = ask.texts("q")
    text = " ".join(texts)
    if not text.strip():
        raise RefusedError("q is empty: give a text")
    pairs = served_pairs(ask.service.models)
    found = await candidates(text, [*pairs, *chain.from_iterable(pairs.values())], partial(ask.beside, 0))
    return Json([each.to_dict() for each in found])


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    content: bytes
    kind: str
    until: float
    caller: str


class _Files:
    """Translated files, for a while."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, _File] = OrderedDict()

    def put(self, file: _File) -> str:
        """The name by which it can be had; it cannot be guessed."""
        now = time.monotonic()
        for key in [key for key, each in self._files.items() if each.until < now]:
            del self._files[key]
        while len(self._files) >= KEPT_FILES:  # who has the most loses the oldest
            held = Counter(each.caller for each in self._files.values())
            most = max(held.values())
            key = next(key for key, each in self._files.items() if held[each.caller] == most)
            del self._files[key]
        key = secrets.token_urlsafe(16)
        self._files[key] = file
        return key

    def get(self, key: str) -> _File | None:
        file = self._files.get(key)
        return None if file is None or file.until < time.monotonic() else file


async def translate_file(ask: Ask) -> Response:
    upload = ask.upload("file")
    name = re.sub(r"[^\w.\- ]", "_", (upload.filename or "").replace("\\", "/").rpartition("/")[2])[-100:]
    found = re.search(r"\.\w+$", name.lower())
    ending = found[0] if found else ""
    if ending not in _endings():
        raise RefusedError(
            f"{name or 'the file'}: {ending or 'a name without an ending'} is not supported; "
            f"there are {', '.join(_endings())}"
        )
    source, target = _languages(ask, "source", "target")
    raw = await upload.read()
    work = _translate_text if ending in FILES else _translate_document
    content, media = await work(ask, name, ending, raw, source, target)
    until = time.monotonic() + KEPT_SECONDS
    file = _File(f"{name[: -len(ending)]}_{target}{ending}", content, media, until, ask.caller)
    key = ask.kept(_Files).put(file)
    return Json({"translatedFileUrl": f"{ask.request.base_url}download_file/{key}"})


async def _terms(ask: Ask, source: str, target: str) -> Terms | None:
    """Of one of the service's glossaries: LibreTranslate has none, so its clients send no such field."""
    one = ask.value("glossary_id", str)
    return None if not one else (await ask.service.glossaries.get(one)).dictionary(source, target).terms


def _endings() -> list[str]:
    return [*dict.fromkeys([*FILES, *endings()])]


async def _translate_text(
    ask: Ask, name: str, ending: str, raw: bytes, source: str, target: str
) -> tuple[bytes, str]:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(f"{name}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    text = text.removeprefix(MARK)
    ask.check_texts([text])
    kind, media = FILES[ending]
    (language,) = await _sources(ask, [text], source, target)
    terms = await _terms(ask, language.language, target)
    found = await translate_documents(
        ask, [text], [language.language], target, Syntax(kind=kind), terms=terms
    )
    mark = MARK if raw.startswith(MARK.encode()) else ""
    return f"{mark}{found[0][0]}".encode(), f"{media}; charset=utf-8"


async def _translate_document(
    ask: Ask, name: str, ending: str, raw: bytes, source: str, target: str
) -> tuple[bytes, str]:
    """What the file says of its languages goes before a guess; one in the target language stays as it is."""
    try:
        most = int(ask.service.limits.unpacking * ask.service.limits.body)

        def opening() -> tuple[Opened, str]:
            with bounded(most):
                opened = open_document(name, raw, settings={"target_language": target})
            texts = (each.block.view().text for each in opened.segments if each.state == "new")
            return opened, "\n".join(texts)

        weight = _weight(ask, name, raw)
        opened, text = await ask.beside(weight, opening)
        ask.check_texts([text])
        if opened.target_language and not same(opened.target_language, target):
            raise RefusedError(f"{name} is to be in {opened.target_language!r}, not {target!r}: ask for that")
        source = opened.source_language or source if source == "auto" else source
        (language,) = await _sources(ask, [text], source, target)
        if same(language.language, target):
            return raw, "application/octet-stream"
        terms = await _terms(ask, language.language, target)
        content = await translate_opened(ask, opened, language.language, target, weight, terms=terms)
    except DataError as error:
        raise RefusedError(str(error)) from error
    return content, "application/octet-stream"


def _weight(ask: Ask, name: str, raw: bytes) -> float:
    """Its size, in characters that take as long: what is packed may be of any. What is far too long is not
    read, but where translations stand beside the sources: there may be none to make."""
    if raw.startswith(PACKED):
        return math.inf
    most = FAR * ask.service.limits.characters
    kind = format_of(name)
    if kind is not None and FORMATS[kind].tells != "sources" and len(raw) > most:
        size = len(raw.decode(errors="replace"))
        if size > most:
            raise RefusedError(f"{name}: {size} characters: at most {most} are read of such a file", 413)
    return len(raw)


async def download_file(ask: Ask) -> Response:
    file = ask.kept(_Files).get(ask.request.path_params["key"])
    if file is None:
        raise RefusedError("no such file: translated files are kept for an hour", 404)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
    return Response(file.content, media_type=file.kind, headers=headers)


async def settings(ask: Ask) -> Response:
    """What LibreTranslate's page, and apps made for it, begin with."""
    pairs = served_pairs(ask.service.models)
    source = next((code for code, targets in pairs.items() if targets), None)
    target = pairs[source][0] if source else None
    named = [None if code is None else {"code": code, "name": name_of(code)} for code in (source, target)]
    return Json(
        {
            "charLimit": ask.service.limits.characters,
            "frontendTimeout": 500,
            "apiKeys": ask.keys_needed,
            "keyRequired": ask.keys_needed,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": _endings(),
            "language": {"source": named[0], "target": named[1]},
        }
    )


LIBRETRANSLATE = Door(
    "libretranslate",
    lambda why, status: {"error": why},
    [
        Way("POST", "/translate", translate),
        Way("GET", "/languages", languages, public=True),
        Way("POST", "/detect", detect),
        Way("POST", "/translate_file", translate_file),
        Way("GET", "/download_file/{key}", download_file, public=True),
        Way("GET", "/frontend/settings", settings, public=True),
    ],
    stranger=403,
)
