"""Text to ids and back, over the Rust `tokenizers` library.

A tokenizer is one `tokenizer.json` in the Hugging Face format, trained here or by others. What regard adds: a
text that happens to hold `[MASK]` or `<eos>` is text, unless the caller says otherwise; nothing is ever
padded or cut; the special tokens have roles; and training and subword sampling can be repeated to the bit.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, cast, runtime_checkable

import tokenizers

from regard.disk import full_disk, read_plain
from regard.text.encoding import Encoding
from regard.text.sampling import DropoutBPE
from regard.text.sentencepieces import TYPE, SentencePieces, is_pieces, written_state
from regard.text.specials import BYTES, ROLES, Role, SpecialIds, Specials, find_ids, guard, read_specials
from regard.text.training import TokenizerConfig, each_text, train

Template = Literal["none", "sentence", "cls"]
"""What is set around a text. none: nothing. sentence: `<sos> a <eos>`. cls: `[CLS] a [SEP]` and
`[CLS] a [SEP] b [SEP]`, or what a loaded file has in its place (RoBERTa: `<s> a </s></s> b </s>`)."""

FILE = "tokenizer.json"
MOST_IDS = 2**24
"""More than any vocabulary has."""


@runtime_checkable
class _Array(Protocol):
    """A row of numpy or torch, which this module does not import."""

    def tolist(self) -> list[int]: ...


Ids = Sequence[int] | _Array


class Tokenizer:
    """Made by `Tokenizer.train` or `Tokenizer.load`. It never changes, and may be shared between threads."""

    specials: Specials
    ids: SpecialIds
    vocabulary: Mapping[str, int]
    """Token to id."""

    def __init__(self, text: str) -> None:
        """`text` is the content of a `tokenizer.json`."""
        rust = _opened(text)
        self._json = rust.to_str()
        self._state: dict[str, Any] = json.loads(self._json)
        self.specials = read_specials(self._state)
        self.vocabulary = MappingProxyType(rust.get_vocab())
        self.ids = find_ids(self.specials, self.vocabulary)
        self._tokens = {id: token for token, id in self.vocabulary.items()}
        self._special_ids = frozenset(self.vocabulary[token] for token in self.specials)
        self._rust: Any = rust
        if isinstance(rust, SentencePieces):  # which takes special tokens for text
            return
        reserved = (*self.specials, *(BYTES if self._state["model"].get("byte_fallback") else ()))
        guarded = guard(rust.pre_tokenizer, reserved)
        if guarded is not None:
            rust.pre_tokenizer = guarded
        rust.encode_special_tokens = True  # the library's name for taking them as ordinary text

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Learn a vocabulary from text: the same file, byte for byte, each time the text is the same."""
        return cls(train(lines, config).to_str())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Tokenizer":
        """Read a `tokenizer.json`, or the one in a folder. Its padding and truncation are switched off."""
        file = _file(path)
        if not file.exists():
            raise FileNotFoundError(
                f"{file}: no such file; train a tokenizer and save it there, or correct the path"
            )
        try:
            text = read_plain(file)
        except ValueError as error:
            raise ValueError(
                f"{file}: not JSON in UTF-8 ({error}); the file may be cut short: copy it anew"
            ) from error
        return cls.parse(text, file)

    @classmethod
    def parse(cls, text: str, file: str | PathLike[str], ids: int = MOST_IDS) -> "Tokenizer":
        """The same from the content of a `tokenizer.json`; errors name the file. One that has more than so
        many `ids` is refused before the library makes room for all of them."""
        try:
            state = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{file}: not JSON in UTF-8 ({error}); the file may be cut short: copy it anew"
            ) from error
        if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
            raise ValueError(
                f"{file}: JSON, but not a tokenizer: it has no 'model'; give the {FILE} "
                "that Hugging Face tokenizers or Tokenizer.save write"
            )
        if (highest := _highest_id(state)) >= ids:
            raise ValueError(
                f"{file}: ids up to {highest}, but room for {ids}: it is of another model; copy it anew"
            )
        try:
            return cls(text)
        except ImportError as error:
            raise ValueError(f"{file}: {error}") from error
        except Exception as error:  # the library raises bare Exception
            raise ValueError(
                f"{file}: this version of tokenizers ({tokenizers.__version__}) cannot read it ({error}); "
                "check that the file is whole, or update the library"
            ) from error

    def save(self, path: str | PathLike[str]) -> Path:
        """Write everything into one file, or as `tokenizer.json` into a folder; returns the file.

        A path that does not exist yet is taken for the file. Missing folders above it are made.
        """
        file = _file(path)
        with full_disk(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._json, encoding="utf-8")
        return file

    def fingerprint(self) -> str:
        """A hash of all that decides how text is encoded and decoded, whatever the layout of the file."""
        return hashlib.sha256(json.dumps(self._state, sort_keys=True).encode()).hexdigest()

    @property
    def state(self) -> Mapping[str, Any]:
        """What a `tokenizer.json` of it holds, parsed; not to be changed."""
        return self._state

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[str]]:
        return Tokenizer, (self._json,)  # so that worker processes can have one

    def __len__(self) -> int:
        """One more than the highest id: the rows an embedding needs."""
        return max(self._tokens) + 1

    @cached_property
    def target(self) -> "Tokenizer":
        """For what a translator writes: itself, unless the file has a model of its own for that side."""
        state = written_state(self._state, self.specials)
        return self if state is None else Tokenizer(json.dumps(state))

    def token(self, id: int) -> str:
        if id not in self._tokens:
            raise KeyError(f"id {id} is not in the vocabulary: ids go from 0 to {len(self) - 1}")
        return self._tokens[id]

    def require(self, role: Role) -> int:
        """The id for a role, for those who cannot do without it."""
        id: int | None = getattr(self.ids, role)
        if id is None:
            present = ", ".join(name for name in ROLES if getattr(self.ids, name) is not None)
            raise ValueError(
                f"this tokenizer has no {role!r} token (it has: {present or 'none'}); use another one"
            )
        return id

    def encode(
        self,
        text: str,
        second: str | None = None,
        *,
        template: Template = "none",
        specials_in_text: bool = False,
    ) -> Encoding:
        """Encode a text or, with the cls template, a pair of them.

        `specials_in_text` makes `[MASK]` in a text the special token; without it, it is six characters. Never
        set it for text from strangers.
        """
        if second is not None and template != "cls":
            raise ValueError(f"template={template!r} takes one text, not two: use template='cls' for a pair")
        self._check_template(template)
        rust = self._with_specials if specials_in_text else self._rust
        encoded = rust.encode(text, second, add_special_tokens=template == "cls")
        encoding = self._trace(encoded, [text] if second is None else [text, second])
        return self._framed(encoding) if template == "sentence" else encoding

    def encode_words(self, words: Sequence[str], *, template: Template = "none") -> Encoding:
        """Encode a text that is already split into words: `Encoding.words` then counts these.

        Each word is cut as it would be inside a sentence. A word may yield several tokens, or none.
        """
        if isinstance(words, str):
            raise TypeError(
                f"words is the string {words!r}, but this takes a sequence of words: use encode for text"
            )
        self._check_template(template)
        gap = " " if self._spaces_words else ""
        spaced = [word if i == 0 or not word else gap + word for i, word in enumerate(words)]
        encoded = self._rust.encode(spaced, is_pretokenized=True, add_special_tokens=template == "cls")
        encoding = self._trace(encoded, [spaced], gaps=len(gap))
        return self._framed(encoding) if template == "sentence" else encoding

    def encode_batch(self, texts: Iterable[str], *, template: Template = "none") -> list[list[int]]:
        """The ids of many texts, on all cores: as `encode` gives them, without where they come from."""
        self._check_template(template)
        encoded = self._rust.encode_batch_fast([*each_text(texts)], add_special_tokens=template == "cls")
        if template == "sentence":
            start, end = self.require("start"), self.require("end")
            return [[start, *each.ids, end] for each in encoded]
        return [each.ids for each in encoded]

    def encode_pairs(
        self, texts: Iterable[str], seconds: Iterable[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of many pairs, and their segments, on all cores: as `encode` gives them with the cls
        template, the only one that takes pairs."""
        self._check_template("cls")
        firsts, others = [*each_text(texts)], [*each_text(seconds)]
        if len(firsts) != len(others):
            raise ValueError(f"{len(firsts)} texts and {len(others)} seconds make no pairs: give as many")
        encoded = self._rust.encode_batch_fast([*zip(firsts, others, strict=True)])
        return [each.ids for each in encoded], [each.type_ids for each in encoded]

    def sample(self, text: str, *, dropout: float, seed: int) -> list[int]:
        """The ids of one segmentation drawn by BPE-dropout: the same for the same seed. 0.1 is usual."""
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout={dropout} is no probability: choose a number from 0 to 1")
        return self._sampler.sample(self.words(text), dropout, seed)

    def words(self, text: str) -> list[str]:
        """What a text is parted into before it is cut: no token crosses their bounds."""
        normalizer, pre_tokenizer = self._rust.normalizer, self._rust.pre_tokenizer
        clean = text if normalizer is None else normalizer.normalize_str(text)
        split = [(clean, None)] if pre_tokenizer is None else pre_tokenizer.pre_tokenize_str(clean)
        return [word for word, _ in split]

    def pieces(self, word: str) -> tuple[int, ...]:
        """The ids of one of `words`."""
        return tuple(token.id for token in self._rust.model.tokenize(word))

    def decode(self, ids: Ids, *, skip_specials: bool = True) -> str:
        """The text of ids. What a round trip keeps depends on the kind:

        byte-bpe keeps everything; bpe and unigram too, with byte fallback, save that '▁' becomes a space;
        characters keeps what is known; wordpiece and words keep the words, with spaces as punctuation wants
        them; whitespace keeps them with one space between. Normalisation, lower case and stripped accents are
        not undone.
        """
        return str(self._rust.decode(self._checked(ids), skip_special_tokens=skip_specials))

    def changed(self, texts: Iterable[str]) -> tuple[int, tuple[str, str] | None]:
        """How many texts of known words do not come back as they were, and the first: it, and what came."""
        count, first = 0, None
        for text in texts:
            ids = self.encode(text).ids
            found = self.decode(ids)
            if found != text and self.ids.unknown not in ids:
                count, first = count + 1, first or (text, found)
        return count, first

    def decode_batch(self, batch: Iterable[Ids], *, skip_specials: bool = True) -> list[str]:
        checked = [self._checked(ids) for ids in batch]
        return [*self._rust.decode_batch(checked, skip_special_tokens=skip_specials)]

    def _checked(self, ids: Ids) -> list[int]:
        plain = isinstance(ids, list | tuple)  # a protocol is slow to ask
        listed = ids.tolist() if not plain and isinstance(ids, _Array) else list(cast(Sequence[int], ids))
        for id in listed:
            if id not in self._tokens:
                self.token(id)  # which raises
        return listed

    @cached_property
    def _with_specials(self) -> Any:
        """A second copy, because the switch is a state of the library's object and threads may share that."""
        if isinstance(self._rust, SentencePieces):
            return SentencePieces(self._state, specials_in_text=True)
        return tokenizers.Tokenizer.from_str(self._json)

    @cached_property
    def _sampler(self) -> DropoutBPE:
        return DropoutBPE(self._state["model"])

    @cached_property
    def _spaces_words(self) -> bool:
        """Whether words in a sentence carry a space that the library does not add to words given apart."""
        pre_tokenizer = self._state.get("pre_tokenizer") or {}
        parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
        return any(part.get("type") == "ByteLevel" and not part["add_prefix_space"] for part in parts)

    def _check_template(self, template: Template) -> None:
        match template:
            case "none":
                pass
            case "sentence":
                self.require("start")
                self.require("end")
            case "cls":
                if not self._rust.num_special_tokens_to_add(False):
                    raise ValueError("this tokenizer has no cls template: use template='none' or 'sentence'")
            case _:
                raise ValueError(f"template={template!r} is not known: choose none, sentence or cls")

    def _framed(self, bare: Encoding) -> Encoding:
        start, end = self.require("start"), self.require("end")
        return Encoding(
            ids=(start, *bare.ids, end),
            tokens=(self._tokens[start], *bare.tokens, self._tokens[end]),
            segments=(0, *bare.segments, 0),
            texts=(None, *bare.texts, None),
            offsets=((0, 0), *bare.offsets, (0, 0)),
            words=(None, *bare.words, None),
            word_counts=bare.word_counts,
        )

    def _trace(self, encoded: Any, texts: Sequence[Sequence[str]], gaps: int = 0) -> Encoding:
        """`texts` are strings, or one list of words, all but the first with `gaps` spaces put before."""
        offsets = []
        given_words = not isinstance(texts[0], str)
        counts = [len(texts[0]) if given_words else 0 for _ in texts]
        for text, word, (start, end) in zip(
            encoded.sequence_ids, encoded.word_ids, encoded.offsets, strict=True
        ):
            if text is None or word is None:
                offsets.append((0, 0))
                continue
            counts[text] = max(counts[text], word + 1)
            source = texts[text][word] if given_words else texts[text]
            start, end = _without_space(source, start, end)
            shift = gaps if given_words and word > 0 else 0
            offsets.append((max(0, start - shift), max(0, end - shift)))
        return Encoding(
            ids=tuple(encoded.ids),
            tokens=tuple(self._tokens[id] for id in encoded.ids),
            segments=tuple(encoded.type_ids),
            texts=tuple(encoded.sequence_ids),
            offsets=tuple(offsets),
            words=tuple(encoded.word_ids),
            word_counts=tuple(counts),
        )


def _opened(text: str) -> tokenizers.Tokenizer | SentencePieces:
    """What cuts, from the content of a `tokenizer.json`."""
    if TYPE in text and is_pieces(state := json.loads(text)):
        return SentencePieces(state)
    rust = tokenizers.Tokenizer.from_str(text)
    rust.no_truncation()
    rust.no_padding()
    return rust


def _without_space(text: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends, unless that is all there is."""
    inner_start, inner_end = start, end
    while inner_start < inner_end and text[inner_start].isspace():
        inner_start += 1
    while inner_start < inner_end and text[inner_end - 1].isspace():
        inner_end -= 1
    return (inner_start, inner_end) if inner_start < inner_end else (start, end)


def _highest_id(state: Mapping[str, Any]) -> int:
    """That a `tokenizer.json` names; -1 for none."""
    words, added = state["model"].get("vocab"), state.get("added_tokens")
    ids: list[Any] = [*words.values()] if isinstance(words, dict) else []
    if isinstance(words, list):  # those of Unigram are counted
        ids.append(len(words) - 1)
    if isinstance(added, list):
        ids += [token.get("id") for token in added if isinstance(token, dict)]
    return max((id for id in ids if type(id) is int), default=-1)


def _file(path: str | PathLike[str]) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
