"""Special tokens: what each is for, and how the roles are kept inside a `tokenizer.json`.

The format has no place for roles. A TemplateProcessing post-processor may however declare more special tokens
than its templates use, so `template` declares each token under the name of its role, and `read_specials`
finds it there. In files of other makers roles are recognised from the post-processor and the usual spellings.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from tokenizers import Regex, pre_tokenizers, processors

Role = Literal["pad", "unknown", "start", "end", "cls", "sep", "mask"]
ROLES: tuple[Role, ...] = get_args(Role)

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The tokens that spell a character outside the alphabet by its UTF-8 bytes."""

_SPELLINGS: Mapping[Role, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unknown": ("<unk>", "[UNK]"),
    "start": ("<sos>", "<s>", "<bos>", "[BOS]", "<|startoftext|>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("<eos>", "</s>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Specials:
    """The special tokens by role; None where a tokenizer has none. One token may serve two roles."""

    pad: str | None = "<pad>"
    """Fills up a batch."""
    unknown: str | None = "<unk>"
    """Stands for what the vocabulary cannot spell."""
    start: str | None = "<sos>"
    """What generation starts from."""
    end: str | None = "<eos>"
    """What ends generation."""
    cls: str | None = "[CLS]"
    """First token of an encoder's input; its vector stands for the whole."""
    sep: str | None = "[SEP]"
    """Closes each text of an encoder's input."""
    mask: str | None = "[MASK]"
    """Hides a token that is to be predicted."""
    extra: tuple[str, ...] = ()
    """Further special tokens, such as the language tokens <2de> and <2fr>."""

    def __iter__(self) -> Iterator[str]:
        """Each token once: the roles in their order, then the extra ones."""
        roles = (getattr(self, role) for role in ROLES)
        return iter(dict.fromkeys(token for token in (*roles, *self.extra) if token is not None))


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecialIds:
    """The ids of the special tokens; None where a tokenizer has no token for that role."""

    pad: int | None
    unknown: int | None
    start: int | None
    end: int | None
    cls: int | None
    sep: int | None
    mask: int | None
    extra: Mapping[str, int]


def find_ids(specials: Specials, vocabulary: Mapping[str, int]) -> SpecialIds:
    roles = {role: vocabulary.get(getattr(specials, role)) for role in ROLES}
    return SpecialIds(**roles, extra={token: vocabulary[token] for token in specials.extra})


def template(
    specials: Specials, vocabulary: Mapping[str, int], *, begins: bool = False
) -> processors.TemplateProcessing:
    """`[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]`, with every role declared under its own name. One that
    `begins` has the start token first."""
    named = {role: getattr(specials, role) for role in ROLES if getattr(specials, role) is not None}
    cls, sep = ("cls:0" if "cls" in named else ""), ("sep:{}" if "sep" in named else "")
    cls = f"start:0 {cls}" if begins else cls
    return processors.TemplateProcessing(
        single=f"{cls} $A:0 {sep.format(0)}".split(),
        pair=f"{cls} $A:0 {sep.format(0)} $B:1 {sep.format(1)}".split(),
        special_tokens=[
            {"id": role, "ids": [vocabulary[token]], "tokens": [token]} for role, token in named.items()
        ],
    )


def read_specials(state: Mapping[str, Any]) -> Specials:
    """The roles in the parsed `tokenizer.json`."""
    added = [token["content"] for token in state.get("added_tokens") or () if token["special"]]
    processor = state.get("post_processor") or {}
    declared = processor.get("special_tokens", {})
    if isinstance(declared, dict) and declared and declared.keys() <= set(ROLES):
        roles: dict[Role, str | None] = {
            role: declared[role]["tokens"][0] if role in declared else None for role in ROLES
        }
    else:
        roles = {
            role: next((spelling for spelling in spellings if spelling in added), None)
            for role, spellings in _SPELLINGS.items()
        }
        roles["unknown"] = _unknown_of(state["model"]) or roles["unknown"]
        roles.update(_frame_of(processor))
    return Specials(**roles, extra=tuple(token for token in added if token not in roles.values()))


def _unknown_of(model: Mapping[str, Any]) -> str | None:
    if model.get("unk_id") is not None:
        return str(model["vocab"][model["unk_id"]][0])
    return model.get("unk_token")


def _frame_of(processor: Mapping[str, Any]) -> dict[Role, str | None]:
    """What the post-processor sets before and after a single text: the cls and sep of its model."""
    match processor.get("type"):
        case "Sequence":
            frame: dict[Role, str | None] = {}
            for part in processor["processors"]:
                frame.update(_frame_of(part))
            return frame
        case "BertProcessing" | "RobertaProcessing":
            return {"cls": processor["cls"][0], "sep": processor["sep"][0]}
        case "TemplateProcessing":
            single = processor["single"]
            ends: tuple[tuple[Role, Any], ...] = (("cls", single[0]), ("sep", single[-1]))
            return {
                role: processor["special_tokens"][piece["SpecialToken"]["id"]]["tokens"][0]
                for role, piece in ends
                if "SpecialToken" in piece
            }
        case _:
            return {}


def guard(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None, reserved: Sequence[str]
) -> pre_tokenizers.PreTokenizer | None:
    """Cut inside each reserved string, so that no text can be encoded (or learned) as that token.

    The library keeps special tokens in the model's vocabulary, where a word model or the lattice of a Unigram
    model finds them even when they are not looked for in the text.
    """
    long_enough = [token for token in reserved if len(token) > 1]
    if not long_enough:
        return pre_tokenizer
    pattern = "|".join(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in long_enough)
    cut = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return cut if pre_tokenizer is None else pre_tokenizers.Sequence([pre_tokenizer, cut])


def check_specials(specials: Specials) -> None:
    """What a token must be like for `guard` and the white-space handling to work."""
    for field in fields(specials):
        value = getattr(specials, field.name)
        for token in value if field.name == "extra" else (value,):
            if token is not None and (len(token) < 2 or re.search(r"[\s▁]", token) or token in BYTES):
                raise ValueError(
                    f"special token {token!r} for {field.name!r}: it needs two characters or more, without "
                    "white space or '▁', and must not look like a byte (<0x41>); choose one like '<name>'"
                )
