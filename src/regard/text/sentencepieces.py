"""SentencePiece models inside a tokenizer: the model cuts a text, a vocabulary of its own numbers the pieces.

    text to pieces    by the library `sentencepiece` itself. Others cut runs of equal characters otherwise: it
                      adds up scores in float32, and sums that should be equal fall by their rounding
    piece to id       by the vocabulary; a piece that is not in it is unknown, and so is one that is spelled
                      as a special token
    ids to text       pieces joined; ▁ is a space

In a tokenizer.json it is a model of type SentencePiece, which only regard knows: the model's file in base 64,
the vocabulary and, for a translator whose sides differ, the same of the side that it writes.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.text.specials import ROLES, Specials

TYPE = "SentencePiece"
MOST_BYTES = 64 * 2**20
"""Of a model's file."""
FEW = 64
"""Texts that are not worth being shared out over the cores."""


def library() -> Any:
    """sentencepiece, which is an extra."""
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "this tokenizer is a SentencePiece model, and sentencepiece is not installed: "
            "pip install 'regard[desk]'"
        ) from error
    return sentencepiece


@dataclass(frozen=True, slots=True)
class Cut:
    """A text in pieces, as the library `tokenizers` describes one."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]
    sequence_ids: list[int | None]

    @property
    def type_ids(self) -> list[int]:
        return [0] * len(self.ids)


class SentencePieces:
    """What `Tokenizer` needs of a `tokenizers.Tokenizer`, by a SentencePiece model."""

    normalizer = None
    pre_tokenizer = None

    def __init__(self, state: Mapping[str, Any], *, specials_in_text: bool = False) -> None:
        """`state` is a parsed tokenizer.json."""
        self._state = state
        model = state["model"]
        self._vocabulary: dict[str, int] = model["vocab"]
        if not all(type(id) is int and id >= 0 for id in self._vocabulary.values()):
            raise ValueError("ids of a vocabulary are whole numbers from 0 on")
        self._special = {each["content"] for each in state["added_tokens"]}
        lacking = self._special - self._vocabulary.keys()
        if lacking:
            raise ValueError(f"the special token {min(lacking)!r} is not in the vocabulary")
        self._unknown = self._vocabulary[state["post_processor"]["special_tokens"]["unknown"]["tokens"][0]]
        self._numbers = {piece: id for piece, id in self._vocabulary.items() if piece not in self._special}
        self._tokens = {id: piece for piece, id in self._vocabulary.items()}
        self._model = _opened(model["proto"])
        self._marked = _pattern(self._special) if specials_in_text else None

    def to_str(self) -> str:
        return json.dumps(self._state, ensure_ascii=False)

    def get_vocab(self) -> dict[str, int]:
        return self._vocabulary

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        return 0

    def encode(
        self,
        text: str | Sequence[str],
        second: None = None,
        *,
        is_pretokenized: bool = False,
        add_special_tokens: bool = False,
    ) -> Cut:
        """Words that are given apart are cut apart; else, a word is what begins with ▁."""
        found = Cut([], [], [], [])
        for word, part in enumerate(text if is_pretokenized else [str(text)]):
            self._append(found, part, word if is_pretokenized else None)
        found.sequence_ids.extend([0] * len(found.ids))
        return found

    def encode_batch_fast(self, texts: Sequence[str], *, add_special_tokens: bool = False) -> list[Cut]:
        """The ids alone, as its namesake gives them."""
        pieces = self._model.encode(list(texts), return_type=str, num_threads=1 if len(texts) < FEW else -1)
        return [Cut([self._number(piece) for piece in row], [], [], []) for row in pieces]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        text, run = "", list[str]()
        for token in (self._tokens[id] for id in ids):
            if token not in self._special:
                run.append(token)
            elif not skip_special_tokens:
                text, run = text + self._joined(run) + token, []
        return text + self._joined(run)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special_tokens: bool = True) -> list[str]:
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]

    def _joined(self, pieces: list[str]) -> str:
        # those that only the other side's model knows are left as they are
        return str(self._model.decode_pieces(pieces)).replace("▁", " ") if pieces else ""

    def _number(self, piece: str) -> int:
        return self._numbers.get(piece, self._unknown)

    def _append(self, found: Cut, text: str, word: int | None) -> None:
        parts = [text] if self._marked is None else self._marked.split(text)
        start = 0
        for part in parts:
            if self._marked is not None and part in self._special:
                found.ids.append(self._vocabulary[part])
                found.offsets.append((start, start + len(part)))
                found.word_ids.append(_next(found.word_ids) if word is None else word)
            elif part:
                cut = self._model.encode(part, return_type="offset_mapping")
                for piece, (begin, end) in zip(cut["pieces"], cut["offsets"], strict=True):
                    new = piece.startswith("▁") or not found.word_ids
                    number = (_next(found.word_ids) if new else found.word_ids[-1]) if word is None else word
                    found.ids.append(self._number(piece))
                    found.offsets.append((start + begin, start + end))
                    found.word_ids.append(number)
            start += len(part)


def _next(words: Sequence[int | None]) -> int:
    return (words[-1] or 0) + 1 if words else 0


def _pattern(special: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(special, key=lambda token: (-len(token), token))
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})")


def _opened(proto: str) -> Any:
    pieces = library()
    try:
        content = base64.b64decode(proto, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"a SentencePiece model that is not in base 64 ({error})") from error
    if len(content) > MOST_BYTES:
        raise ValueError(
            f"a SentencePiece model of {len(content):,} bytes, but at most {MOST_BYTES:,} are read"
        )
    try:
        return pieces.SentencePieceProcessor(model_proto=content)
    except (RuntimeError, OSError) as error:
        raise ValueError(f"no SentencePiece model ({error})") from error


def is_pieces(state: Any) -> bool:
    model = state.get("model") if isinstance(state, dict) else None
    return isinstance(model, dict) and model.get("type") == TYPE


def piece_state(
    proto: bytes,
    vocabulary: Mapping[str, int],
    specials: Specials,
    *,
    target: bytes | None = None,
    target_vocabulary: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A tokenizer.json of a model's file and the numbers of its pieces. `target` is for what is written,
    where another model cuts that, and `target_vocabulary` where its pieces have numbers of their own."""
    model: dict[str, Any] = {"type": TYPE, "proto": _coded(proto), "vocab": dict(vocabulary)}
    if target is not None:
        model["target"] = {"proto": _coded(target)}
        if target_vocabulary is not None:
            model["target"]["vocab"] = dict(target_vocabulary)
    return _with_specials({"version": "1.0", "model": model}, specials)


def written_state(state: Mapping[str, Any], specials: Specials) -> dict[str, Any] | None:
    """The tokenizer.json of the side that is written; None where one serves both."""
    own = state["model"].get("target") if is_pieces(state) else None
    if own is None:
        return None
    model = {key: value for key, value in state["model"].items() if key != "target"} | own
    known = tuple(token for token in specials.extra if token in model["vocab"])
    roles = {role: getattr(specials, role) for role in ROLES}
    return _with_specials({**state, "model": model}, Specials(**roles, extra=known))


def model_files(state: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The models of both sides as the files that they were."""
    model = state["model"]
    return tuple(base64.b64decode(each["proto"]) for each in (model, model.get("target", model)))  # type: ignore[return-value]


def _coded(proto: bytes) -> str:
    return base64.b64encode(proto).decode("ascii")


def _with_specials(state: dict[str, Any], specials: Specials) -> dict[str, Any]:
    numbers = state["model"]["vocab"]
    roles = {role: getattr(specials, role) for role in ROLES if getattr(specials, role) is not None}
    return {
        **state,
        "added_tokens": [{"id": numbers.get(token), "content": token, "special": True} for token in specials],
        "post_processor": {
            "special_tokens": {role: {"id": role, "tokens": [token]} for role, token in roles.items()}
        },
    }
