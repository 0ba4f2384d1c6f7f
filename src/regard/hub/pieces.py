"""Tokenizers of translators, both ways: what their families share. SentencePiece models cut, a table
numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.hub.facts import Facts
from regard.hub.files import HubError, read_bytes, read_json, read_table_if_there, write_json
from regard.hub.keys import refuse_code
from regard.hub.names import Family
from regard.text import Tokenizer
from regard.text.sentencepieces import MOST_BYTES
from regard.text.specials import Specials

LIMIT = 256 * 2**20
VOCABULARY, CONFIG = "vocab.json", "tokenizer_config.json"
_COPY = "copy the folder anew"


@dataclass(frozen=True, slots=True)
class Pieces:
    """A folder's tokenizer, and what its files say besides."""

    tokenizer: Tokenizer
    languages: tuple[str, ...] = ()
    source_language: str | None = None
    most: int | None = None
    """Tokens that an input may have."""


def read_pieces(
    folder: Path, reader: Callable[[Path, Mapping[str, Any]], Pieces], rows: tuple[int, int]
) -> Pieces:
    """By the reader of a family. `rows` are the vectors that the model has for tokens that it reads, and
    writes."""
    path = folder / CONFIG
    facts = {**read_table_if_there(folder / "special_tokens_map.json"), **read_table_if_there(path)}
    refuse_code(facts, path)
    if facts.get("legacy_behaviour"):
        raise HubError(
            f"{path}: legacy_behaviour=true is not supported, only false: the language stands before the text"
        )
    try:
        pieces = reader(folder, facts)
    except HubError:
        raise
    except ImportError as error:
        raise HubError(f"{folder}: {error}") from error
    except Exception as error:  # tokenizers raises bare Exception
        raise HubError(f"{folder}: no tokenizer that can be read ({error}); {_COPY}") from error
    for own, most, key in (
        (pieces.tokenizer, rows[0], "vocab_size"),
        (pieces.tokenizer.target, rows[1], "decoder_vocab_size"),
    ):
        if len(own) > most:
            raise HubError(
                f"{folder / VOCABULARY}: ids up to {len(own) - 1}, but the model has vectors for {most} "
                f"({key} in config.json): they are not of one model"
            )
    length = facts.get("model_max_length")
    return replace(pieces, most=length if type(length) is int and length > 0 else None)


def check_specials(facts: Facts[Family], tokenizer: Tokenizer) -> None:
    """That config.json and the tokenizer's files mean the same tokens."""
    target = tokenizer.target
    for word, token in (("start", target.ids.start), ("end", target.ids.end), ("pad", target.ids.pad)):
        if type(facts.get(word)) is not int or facts.get(word) != token:
            raise HubError(
                f"{facts.path}: {facts.family.keys[word]}={facts.get(word)!r:.60}, but in the vocabulary it "
                f"is {token}: they are not of one model"
            )


def specials_of(named: Mapping[str, str], *, start: str, extra: tuple[str, ...]) -> Specials:
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


def named_tokens(facts: Mapping[str, Any]) -> dict[str, str]:
    named = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    for role in named:
        token = facts.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        named[role] = str(token) if token else named[role]
    return named


def read_vocabulary(path: Path) -> dict[str, int]:
    table = read_json(path, LIMIT)
    if (
        not isinstance(table, dict)
        or not table
        or not all(type(id) is int and id >= 0 for id in table.values())
    ):
        raise HubError(f"{path}: no table of pieces and their ids; {_COPY}")
    if len({*table.values()}) != len(table):
        raise HubError(f"{path}: two pieces have one id; {_COPY}")
    return table


def read_model(path: Path) -> bytes:
    """The file of a SentencePiece model."""
    return read_bytes(path, MOST_BYTES)


def write_pieces(folder: Path, tokenizer: Tokenizer, own: Mapping[str, Any], *, longest: int) -> None:
    """tokenizer_config.json, with what a family says there besides."""
    specials = tokenizer.specials
    named = {"pad_token": specials.pad, "unk_token": specials.unknown, "eos_token": specials.end}
    facts = {"model_max_length": longest, **named, **own}
    write_json(folder / CONFIG, {key: value for key, value in facts.items() if value is not None})
