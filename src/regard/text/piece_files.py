"""The file of a SentencePiece model: its pieces with their scores, and the table of its normaliser.

It is a message of Protocol Buffers (sentencepiece_model.proto). The few fields that a tokenizer.json is made
from are read here, so that neither sentencepiece nor protobuf is needed for it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["unigram", "bpe", "word", "char"]
_KINDS: dict[int, Kind] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclass(frozen=True, slots=True)
class PieceFile:
    kind: Kind
    pieces: tuple[tuple[str, float], ...]
    """In the order of their ids, each with its score."""
    marks: frozenset[int]
    """The ids of pieces that are no text: controls, unknown."""
    added: tuple[str, ...]
    """Pieces that a text is never cut inside of."""
    charsmap: bytes
    """What its normaliser does with characters, compiled; empty if nothing."""
    byte_fallback: bool


def read_piece_file(content: bytes) -> PieceFile:
    """An error says what the file is not."""
    pieces: list[tuple[str, float]] = []
    marks, added = set(), []
    kind, charsmap, fallback = 1, b"", False
    try:
        for number, value in _fields(content):
            if number == 1 and isinstance(value, bytes):
                text, score, sort = _piece(value)
                if sort in (2, 3):
                    marks.add(len(pieces))
                elif sort == 4:
                    added.append(text)
                pieces.append((text, score))
            elif number == 2 and isinstance(value, bytes):
                spec = dict(_fields(value))
                kind, fallback = int(spec.get(3, 1)), bool(spec.get(35, 0))
            elif number == 3 and isinstance(value, bytes):
                compiled = dict(_fields(value)).get(2)
                charsmap = compiled if isinstance(compiled, bytes) else b""
    except (IndexError, struct.error, UnicodeDecodeError, TypeError, ValueError) as error:
        raise ValueError(f"no SentencePiece model ({error})") from error
    if not pieces or kind not in _KINDS:
        raise ValueError("no SentencePiece model: it has no pieces")
    return PieceFile(_KINDS[kind], tuple(pieces), frozenset(marks), tuple(added), charsmap, fallback)


def _piece(message: bytes) -> tuple[str, float, int]:
    text, score, sort = "", 0.0, 1
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            text = value.decode("utf-8")
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            sort = value
    return text, score, sort


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: numbers, floats of four bytes, and strings."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        match key & 7:
            case 0:
                value, place = _varint(message, place)
                yield key >> 3, value
            case 1:
                place += 8
            case 2:
                length, place = _varint(message, place)
                if place + length > len(message):
                    raise ValueError("cut short")
                yield key >> 3, message[place : place + length]
                place += length
            case 5:
                yield key >> 3, struct.unpack_from("<f", message, place)[0]
                place += 4
            case other:
                raise ValueError(f"a field of the type {other}")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
