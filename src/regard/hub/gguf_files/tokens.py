"""The tokenizer inside a GGUF file, as a tokenizer.json: byte-level BPE, or SentencePiece's BPE with bytes
for what is not in the vocabulary."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub.files import HubError, HubWarning
from regard.text import Tokenizer
from regard.text.conventions import MOST, Conventions
from regard.text.specials import Specials, template

_UNKNOWN, _CONTROL, _OWN = 2, 3, 4
"""Types of tokens: unknown, special, and added ones that are text."""
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_PARTED: Mapping[str, Sequence[Any]] = {
    "default": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "gpt-2": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "smollm": (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ),
    "llama-bpe": (
        pre_tokenizers.Split(Regex(_WORDS % "{1,3}"), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
    "qwen2": (
        pre_tokenizers.Split(Regex(_WORDS % ""), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
}
"""How a text is parted before it is cut, by `tokenizer.ggml.pre`."""
_SAME = {"llama3": "llama-bpe", "llama-v3": "llama-bpe"}
"""Other names of theirs for one of those."""
_BEGUN = ("llama-bpe",)
"""Those of byte-level BPE that begin a text, unless the file says otherwise."""


def read_tokenizer(path: Path, fields: Mapping[str, Any], rows: int) -> Tokenizer:
    tokens, kinds = _list(path, fields, "tokens", str), _list(path, fields, "token_type", int)
    if not 0 < len(tokens) <= rows or len(kinds) != len(tokens):
        raise HubError(
            f"{path}: {len(tokens)} tokens and {len(kinds)} types of them, where the model has {rows} vectors"
        )
    vocabulary = {token: id for id, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        raise HubError(f"{path}: tokenizer.ggml.tokens has a token twice")
    match fields.get("tokenizer.ggml.model"):
        case "gpt2":
            rust = _byte_level(path, fields, vocabulary)
        case "llama":
            rust = _pieces(path, fields, vocabulary, kinds)
        case other:
            raise HubError(f"{path}: tokenizer.ggml.model={other!r:.60} is none of gpt2, llama")
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind in (_UNKNOWN, _CONTROL)]
    own = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _OWN]
    rust.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    rust.add_tokens([AddedToken(token, special=False, normalized=False) for token in own])
    start, end, unknown, pad = (
        _named(path, fields, role, tokens) for role in ("bos", "eos", "unknown", "padding")
    )
    specials = Specials(start=start, end=end, unknown=unknown, pad=pad, cls=None, sep=None, mask=None)
    lacking = [token for token in specials if token not in special]
    rust.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in lacking])
    rust.post_processor = template(specials, vocabulary, begins=_begins(fields, start))
    try:
        return Tokenizer(rust.to_str())
    except Exception as error:  # the library raises bare Exception
        raise HubError(
            f"{path}: no tokenizer that tokenizers {tokenizers.__version__} takes ({error!r})"
        ) from error


def read_conventions(path: Path, fields: Mapping[str, Any], tokenizer: Tokenizer) -> Conventions:
    found = fields.get("tokenizer.chat_template")
    if found is not None and (not isinstance(found, str) or len(found) > MOST):
        raise HubError(f"{path}: tokenizer.chat_template={found!r:.60} must be a text of 1 MB at most")
    ends = (fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eot", "eom"))
    listed = dict.fromkeys(int(each) for each in ends if each is not None and each != tokenizer.ids.end)
    begins = _begins(fields, tokenizer.specials.start)
    return Conventions(begins=begins, ends=tuple(listed), chat_template=found)


def _begins(fields: Mapping[str, Any], start: str | None) -> bool:
    """Unless it is said, a tokenizer of pieces begins a text, and of those of bytes only Llama 3's does."""
    usual = fields.get("tokenizer.ggml.model") == "llama" or _pre(fields) in _BEGUN
    return start is not None and bool(fields.get("tokenizer.ggml.add_bos_token", usual))


def _list(path: Path, fields: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    found = fields.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, list) or any(not isinstance(each, kind) for each in found):
        raise HubError(f"{path}: tokenizer.ggml.{name} is no list of {kind.__name__}; copy the file anew")
    return found


def _named(path: Path, fields: Mapping[str, Any], role: str, tokens: Sequence[str]) -> str | None:
    id = fields.get(f"tokenizer.ggml.{role}_token_id")
    if id is None:
        return None
    if not isinstance(id, int) or not 0 <= id < len(tokens):
        raise HubError(f"{path}: tokenizer.ggml.{role}_token_id={id!r:.60} is no id of the vocabulary")
    return tokens[id]


def _pre(fields: Mapping[str, Any]) -> str:
    kind = str(fields.get("tokenizer.ggml.pre", "default"))
    return _SAME.get(kind, kind)


def _byte_level(path: Path, fields: Mapping[str, Any], vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    kind = _pre(fields)
    if kind not in _PARTED:
        known = ", ".join([*_PARTED, *_SAME])
        raise HubError(
            f"{path}: tokenizer.ggml.pre={kind!r:.60} is none of {known}: how it parts a text is not known "
            "here; take the folder of Hugging Face's"
        )
    if kind == "default":
        warnings.warn(
            f"{path}: tokenizer.ggml.pre does not say how a text is parted, so it is parted as GPT-2's, and "
            "the model may have learned it otherwise; take a newer file",
            HubWarning,
            stacklevel=6,
        )
    pairs = [tuple(line.split(" ")) for line in _list(path, fields, "merges", str)]
    if any(len(pair) != 2 for pair in pairs):
        raise HubError(f"{path}: tokenizer.ggml.merges has a line that is no pair of tokens")
    rust = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=kind == "llama-bpe"))
    if kind == "qwen2":
        rust.normalizer = normalizers.NFC()
    parts = _PARTED[kind]
    rust.pre_tokenizer = parts[0] if len(parts) == 1 else pre_tokenizers.Sequence([*parts])
    rust.decoder = decoders.ByteLevel()
    rust.post_processor = processors.ByteLevel(trim_offsets=False)
    return rust


def _pieces(
    path: Path, fields: Mapping[str, Any], vocabulary: dict[str, int], kinds: Sequence[int]
) -> tokenizers.Tokenizer:
    scores = _list(path, fields, "scores", float)
    if len(scores) != len(vocabulary):
        raise HubError(f"{path}: {len(scores)} scores for {len(vocabulary)} tokens")
    plain = {token for token, id in vocabulary.items() if kinds[id] == 1}
    found = []
    for token in plain:
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in plain and right in plain:
                order = (-scores[vocabulary[token]], vocabulary[left], vocabulary[right])
                found.append((order, (left, right)))
    merges = [pair for _, pair in sorted(found)]
    unknown = _named(path, fields, "unknown", [*vocabulary]) or next(
        (token for token, id in vocabulary.items() if kinds[id] == _UNKNOWN), None
    )
    rust = tokenizers.Tokenizer(
        models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaced = fields.get("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Prepend(prepend="▁")] if spaced else []
    rust.normalizer = normalizers.Sequence([*steps, normalizers.Replace(pattern=" ", content="▁")])
    parts: list[Any] = [
        decoders.Replace(pattern="▁", content=" "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    parts += [decoders.Strip(content=" ", left=1, right=0)] if spaced else []
    rust.decoder = decoders.Sequence(parts)
    return rust
