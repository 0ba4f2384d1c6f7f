"""Which language a text is in, by py3langid; it is loaded when it is first asked.

A confidence is the language's share among all languages that are known, in percent, also where only those
that are served come into question: a short text, or one in another language, has a low one.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from regard.serve.languages import name_of
from regard.serve.line import RefusedError
from regard.text.languages import base

READ = 2000
"""Characters that are looked at."""
SURE = 90.0
"""From this confidence on, a text is taken to be in no other language."""
LIKELY = 5.0
"""From this confidence on, a language is named as one of several."""
SHORT = 40
"""Characters that are too few to tell a language by, where there are other texts."""
_TAGS = re.compile("<[^<>]*>")
_OWN = {"nb": "no", "fil": "tl", "gug": "gn"}
"""Languages for which py3langid and those who name models have other codes: Bokmål is told as Norwegian,
Filipino as Tagalog, and Guarani by the code of its largest member."""
NONE = "zxx"
"""What has no language, to py3langid."""
Beside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Where it is told: not in the loop that serves all callers."""


@dataclass(frozen=True, slots=True)
class Detected:
    language: str
    confidence: float
    """In percent."""

    def to_dict(self) -> dict[str, Any]:
        return {"language": self.language, "confidence": round(self.confidence, 1)}


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def load_identifier() -> None:
    """What takes seconds, before anybody asks."""
    _identifier()


def _rank(text: str) -> list[Detected]:
    """All languages, the likeliest first."""
    ranked: list[tuple[str, float]] = _identifier().rank(text[:READ])
    return [Detected(_key(code), 100 * share) for code, share in ranked if code != NONE]


def _key(code: str) -> str:
    """One for all codes of a language, of py3langid and of models."""
    return _OWN.get(base(code), base(code))


async def candidates(
    text: str, languages: Sequence[str], beside: Beside = asyncio.to_thread
) -> list[Detected]:
    """Those of these languages that come into question, the likeliest first; or another one, if it is surely
    that."""
    ranked: list[Detected] = await beside(partial(_rank, text))
    known = {_key(each): base(each) for each in languages}
    if ranked[0].confidence < SURE:
        ranked = [each for each in ranked if each.language in known] or ranked
    ranked = [Detected(known.get(each.language, each.language), each.confidence) for each in ranked]
    return [ranked[0], *(each for each in ranked[1:] if each.confidence >= LIKELY)]


async def sources(
    texts: Sequence[str],
    target: str,
    languages: Sequence[str] | None,
    beside: Beside = asyncio.to_thread,
) -> list[Detected]:
    """The language of each text, one of those from which there is a way to the target (None for any), or
    the target, if it is surely that; an error if it is surely another one. Short texts are taken to be in
    the language of all together."""

    def found() -> list[Detected]:
        plain = [_TAGS.sub(" ", text[: 4 * READ]) for text in texts]
        whole = " ".join(plain)
        read = [whole if len(text) < SHORT else text for text in plain]
        known = {text: _source(text, target, languages) for text in dict.fromkeys(read)}
        return [known[text] for text in read]

    told: list[Detected] = await beside(found)  # of many texts, it takes a while
    return told


def _source(text: str, target: str, languages: Sequence[str] | None) -> Detected:
    ranked = _rank(text)
    best = ranked[0]
    if best.confidence >= SURE and best.language == _key(target):
        return Detected(base(target), best.confidence)
    if languages is None:
        return best
    names = {_key(each): each for each in reversed(languages)}
    if best.confidence >= SURE and best.language not in names:
        raise RefusedError(
            f"the text seems to be in {name_of(best.language)} ({best.language}); what is served translates "
            f"to {target} from {', '.join(languages)}: name the language, if it is one of these"
        )
    fitting = [each for each in ranked if each.language in names]
    if not fitting:  # py3langid knows none of them
        return Detected(languages[0], 0.0)
    return Detected(names[fitting[0].language], fitting[0].confidence)
