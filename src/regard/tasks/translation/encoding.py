"""Texts as the ids that a translator reads, with the tokens of languages, near matches and terms. Imports no
torch."""

from collections.abc import Mapping, Sequence

from regard.text import Tokenizer


def encode_sources(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    to: str | Sequence[str | None] | None = None,
    *,
    prompt: str = "",
) -> list[list[int]]:
    """The ids a model reads: each text behind its language token, if there is one, and a prompt, and before
    the end token. `to` is the language of all of them, or of each."""
    languages = [to] * len(texts) if to is None or isinstance(to, str) else list(to)
    if len(languages) != len(texts):
        raise ValueError(f"{len(languages)} languages for {len(texts)} texts: give one, or one for each")
    marks = {language: language_token(tokenizer, language) for language in dict.fromkeys(languages)}
    end = tokenizer.require("end")
    encoded = zip(languages, tokenizer.encode_batch(texts), strict=True)
    before = prompt_ids(tokenizer, prompt)
    return [[*marks[language], *before, *ids, end] for language, ids in encoded]


def prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Of what stands before a text."""
    return tokenizer.encode_batch([prompt])[0] if prompt else []


MATCH = "<match>"
"""What stands between a source and the translation of its near match."""
TERM_TOKENS = ("<term>", "<trans>", "</term>")
"""What stands before a term, between it and what it must become, and behind that."""


def match_token(tokenizer: Tokenizer) -> int:
    if MATCH not in tokenizer.ids.extra:
        raise ValueError(f"no token {MATCH} for near matches: this tokenizer was not learned for data.fuzzy")
    return tokenizer.ids.extra[MATCH]


def with_match(source: list[int], separator: int, match: Sequence[int]) -> list[int]:
    """ids <match> ids of the match's translation <eos>"""
    return [*source[:-1], separator, *match, source[-1]]


SPELLINGS = ("<2{}>", ">>{}<<", "__{}__", "{}")
"""How a language's token is spelled: by regard, MarianMT, M2M100, NLLB."""


def language_token(tokenizer: Tokenizer, language: str | None) -> list[int]:
    if language is None:
        return []
    for spelling in SPELLINGS:
        if (token := spelling.format(language)) in tokenizer.ids.extra:
            return [tokenizer.ids.extra[token]]
    present = ", ".join(t[2:-1] for t in tokenizer.ids.extra if t.startswith("<2"))
    raise ValueError(
        f"no token <2{language}> for the language {language!r}: this tokenizer has {present or 'none'}"
    )


def target_languages(known: tuple[str, ...], to: str | Sequence[str] | None, count: int) -> list[str | None]:
    """The language of each of so many texts, of those that a model knows; None for all where it is told
    none."""
    listed = ", ".join(known)
    if to is None and len(known) == 1:
        to = known[0]
    if to is None:
        if known:
            raise ValueError(f"this model writes several languages: say to which, one of {listed}")
        return [None] * count
    wanted = [to] * count if isinstance(to, str) else list(to)
    for language in wanted:
        if language not in known:
            choice = f"choose one of {listed}" if listed else "it writes one language only: leave it out"
            raise ValueError(f"to={language!r} is no language of this model; {choice}")
    if len(wanted) != count:
        raise ValueError(f"{len(wanted)} languages for {count} texts: give one, or one for each")
    return [*wanted]


def told_language(known: tuple[str, ...], found: str | None) -> str:
    """The language that a model is told it reads."""
    if found is None or found not in known:
        said = "say from which language" if found is None else f"source_language={found!r} is none of them"
        raise ValueError(f"this model is told what it reads: {said}, one of {', '.join(known)}")
    return found


def spellings(tokenizer: Tokenizer) -> dict[str, list[int]]:
    """The tokens that write a whole word, with a space before it or without."""
    found: dict[str, list[int]] = {}
    ids = sorted(tokenizer.vocabulary.values())
    for id, text in zip(ids, tokenizer.decode_batch([[id] for id in ids]), strict=True):
        found.setdefault(text.strip(), []).append(id)
    return found


def suppressed_ids(tokenizer: Tokenizer, known: Mapping[str, list[int]], words: Sequence[str]) -> list[int]:
    """The tokens of words that must not be written; `known` are the tokenizer's `spellings`."""
    unknown = [word for word in words if not word.strip() or word.strip() not in known]
    if unknown:
        pieces = " ".join(tokenizer.encode(unknown[0]).tokens)
        raise ValueError(
            f"the word {unknown[0]!r} cannot be suppressed: it is no token of its own, but made of "
            f"several ({pieces}), which other words need too; suppress words that are one token, or "
            "choose among several translations (n_best) one without it"
        )
    return [id for word in words for id in known[word.strip()]]
