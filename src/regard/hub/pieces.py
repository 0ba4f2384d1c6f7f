"""Tokenizers of translators, both ways.

MarianMT    source.spm and target.spm cut, vocab.json numbers the pieces of both sides (target_vocab.json
            those that are written, if the sides have vocabularies of their own); >>fra<< are languages
M2M100      sentencepiece.bpe.model cuts, vocab.json numbers; languages, __fr__, follow in a known order
NLLB        tokenizer.json; languages, fra_Latn, are among its special tokens
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers

from regard.hub.families import M2M100, MARIAN, Family
from regard.hub.files import HubError, check_plain, read_json, read_table_if_there, write_json
from regard.hub.keys import refuse_code
from regard.text import Tokenizer
from regard.text.sentencepieces import MOST_BYTES, is_pieces, model_files, piece_state
from regard.text.specials import Specials, template

_LIMIT = 256 * 2**20
_SOURCE, _TARGET, _BOTH = "source.spm", "target.spm", "sentencepiece.bpe.model"
_VOCABULARY, _TARGET_VOCABULARY, _FAST = "vocab.json", "target_vocab.json", "tokenizer.json"
_CONFIG = "tokenizer_config.json"
_MARIANS = re.compile(r">>(.+)<<")
_NLLBS = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_COPY = "copy the folder anew"


@dataclass(frozen=True, slots=True)
class Pieces:
    """A folder's tokenizer, and what its files say besides."""

    tokenizer: Tokenizer
    languages: tuple[str, ...]
    source_language: str | None
    most: int | None
    """Tokens that an input may have."""


def read_pieces(folder: Path, family: Family, rows: tuple[int, int]) -> Pieces:
    """`rows` are the vectors that the model has for tokens that it reads, and writes."""
    path = folder / _CONFIG
    facts = {**read_table_if_there(folder / "special_tokens_map.json"), **read_table_if_there(path)}
    refuse_code(facts, path)
    if facts.get("legacy_behaviour"):
        raise HubError(
            f"{path}: legacy_behaviour=true is not supported, only false: the language stands before the text"
        )
    try:
        tokenizer, languages = _tokenizer(folder, family, facts)
    except HubError:
        raise
    except ImportError as error:
        raise HubError(f"{folder}: {error}") from error
    except Exception as error:  # tokenizers raises bare Exception
        raise HubError(f"{folder}: no tokenizer that can be read ({error}); {_COPY}") from error
    for own, most, key in (
        (tokenizer, rows[0], "vocab_size"),
        (tokenizer.target, rows[1], "decoder_vocab_size"),
    ):
        if len(own) > most:
            raise HubError(
                f"{folder / _VOCABULARY}: ids up to {len(own) - 1}, but the model has vectors for {most} "
                f"({key} in config.json): they are not of one model"
            )
    reads = facts.get("src_lang") if family is M2M100 else None
    length = facts.get("model_max_length")
    return Pieces(
        tokenizer,
        languages,
        reads if isinstance(reads, str) and reads in languages else None,
        length if type(length) is int and length > 0 else None,
    )


def _tokenizer(folder: Path, family: Family, facts: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...]]:
    if family is MARIAN:
        return _marians(folder, facts)
    if (folder / _FAST).exists():
        return _nllbs(folder)
    return _m2ms(folder, facts)


def _marians(folder: Path, facts: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...]]:
    vocabulary = _read_vocabulary(folder / _VOCABULARY)
    separate = facts.get("separate_vocabs") is True
    target = _read_vocabulary(folder / _TARGET_VOCABULARY) if separate else None
    languages = {found[1]: token for token in vocabulary if (found := _MARIANS.fullmatch(token))}
    named = _named(facts)
    specials = _specials(named, start=named["pad"], extra=tuple(languages.values()))
    state = piece_state(
        _read_model(folder / _SOURCE),
        vocabulary,
        specials,
        target=_read_model(folder / _TARGET),
        target_vocabulary=target,
    )
    # with one alone, transformers sets nothing before a source
    return Tokenizer(json.dumps(state)), tuple(languages) if len(languages) > 1 else ()


def _m2ms(folder: Path, facts: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...]]:
    vocabulary = _read_vocabulary(folder / _VOCABULARY)
    codes = facts.get("language_codes", "m2m100")
    if codes not in M2M100.languages:
        raise HubError(
            f"{folder / _CONFIG}: language_codes={codes!r:.60} is none of {', '.join(M2M100.languages)}"
        )
    languages = tuple(M2M100.languages[codes].split())
    tokens = {f"__{code}__": len(vocabulary) + place for place, code in enumerate(languages)}
    named = _named(facts)
    specials = _specials(named, start=named["eos"], extra=tuple(tokens))
    state = piece_state(_read_model(folder / _BOTH), {**vocabulary, **tokens}, specials)
    return Tokenizer(json.dumps(state)), languages


def _nllbs(folder: Path) -> tuple[Tokenizer, tuple[str, ...]]:
    text = json.dumps(read_json(folder / _FAST, _LIMIT))
    found = Tokenizer(text)
    languages = tuple(token for token in found.vocabulary if _NLLBS.fullmatch(token))
    ordered = sorted(languages, key=lambda token: found.vocabulary[token])
    specials = found.specials
    extra = dict.fromkeys(("<s>", *specials.extra, *ordered))
    known = tuple(token for token in extra if token in found.vocabulary and token not in ("</s>", "<pad>"))
    roles = replace(specials, start="</s>", end="</s>", cls=None, sep=None, extra=())
    held = {*roles}
    roles = replace(roles, extra=tuple(token for token in known if token not in held))
    rust = tokenizers.Tokenizer.from_str(text)
    rust.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in roles])
    rust.post_processor = template(roles, rust.get_vocab())
    return Tokenizer(rust.to_str()), tuple(ordered)


def _specials(named: Mapping[str, str], *, start: str, extra: tuple[str, ...]) -> Specials:
    return Specials(
        pad=named["pad"],
        unknown=named["unk"],
        start=start,
        end=named["eos"],
        cls=None,
        sep=None,
        mask=None,
        extra=extra,
    )


def _named(facts: Mapping[str, Any]) -> dict[str, str]:
    named = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    for role in named:
        token = facts.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        named[role] = str(token) if token else named[role]
    return named


def _read_vocabulary(path: Path) -> dict[str, int]:
    table = read_json(path, _LIMIT)
    if (
        not isinstance(table, dict)
        or not table
        or not all(type(id) is int and id >= 0 for id in table.values())
    ):
        raise HubError(f"{path}: no table of pieces and their ids; {_COPY}")
    if len({*table.values()}) != len(table):
        raise HubError(f"{path}: two pieces have one id; {_COPY}")
    return table


def _read_model(path: Path) -> bytes:
    check_plain(path)
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise HubError(
                f"{path}: {size:,} bytes, but at most {MOST_BYTES:,} are read; is it the right file?"
            )
        return path.read_bytes()
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; {_COPY}") from error


def write_pieces(
    folder: Path,
    tokenizer: Tokenizer,
    family: Family,
    *,
    longest: int,
    languages: tuple[str, ...],
    source_language: str | None,
) -> None:
    specials = tokenizer.specials
    named = {"pad_token": specials.pad, "unk_token": specials.unknown, "eos_token": specials.end}
    facts: dict[str, Any] = {"model_max_length": longest, **named}
    state = tokenizer.state
    if family is MARIAN:
        if not is_pieces(state):
            raise HubError(
                "the tokenizer is no SentencePiece model, as MarianMT's are: start the training from a "
                "MarianMT folder, or keep the model in a folder of regard"
            )
        for name, content in zip((_SOURCE, _TARGET), model_files(state), strict=True):
            (folder / name).write_bytes(content)
        separate = tokenizer.target.vocabulary != tokenizer.vocabulary
        write_json(folder / _VOCABULARY, dict(tokenizer.vocabulary))
        if separate:
            write_json(folder / _TARGET_VOCABULARY, dict(tokenizer.target.vocabulary))
        facts |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    elif is_pieces(state):
        codes = next(
            (key for key, each in M2M100.languages.items() if tuple(each.split()) == languages), None
        )
        if codes is None:
            raise HubError(
                "the languages of the tokenizer are not M2M100's: keep the model in a folder of regard"
            )
        (folder / _BOTH).write_bytes(model_files(state)[0])
        tokens = {f"__{code}__" for code in languages}
        own = {token: id for token, id in tokenizer.vocabulary.items() if token not in tokens}
        write_json(folder / _VOCABULARY, own)
        facts |= {"tokenizer_class": "M2M100Tokenizer", "language_codes": codes, "src_lang": source_language}
    else:
        tokenizer.save(folder / _FAST)
        facts |= {"tokenizer_class": "NllbTokenizer", "src_lang": source_language, "legacy_behaviour": False}
    write_json(folder / _CONFIG, {key: value for key, value in facts.items() if value is not None})
