"""Vocabularies of older folders, which have no tokenizer.json: one is made from them, as transformers
does.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub.files import HubError, read_bytes, read_json, read_table_if_there, read_text
from regard.text.piece_files import PieceFile, read_piece_file
from regard.text.sentencepieces import MOST_BYTES

LIMIT = 256 * 2**20
MAKE = "make one with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
_END = "<|endoftext|>"
SENTENCE_PIECES = "sentencepiece.bpe.model"
_LLAMAS = ("LlamaTokenizer", "CodeLlamaTokenizer")
_PARTED = ("XLMRobertaTokenizer", "CamembertTokenizer")
_FAIRSEQ = {"unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}

State = dict[str, Any]
"""What a tokenizer.json says."""


def _as_it_is(state: State, facts: Mapping[str, Any]) -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    file: str
    """Where it is, if there is no tokenizer.json."""
    read: Callable[[Path, Mapping[str, Any]], State]
    """A tokenizer.json from a folder with that file, and what its tokenizer_config.json says."""
    follow: Callable[[State, Mapping[str, Any]], None] = _as_it_is
    """Where transformers believes tokenizer_config.json more than tokenizer.json."""
    framed: bool = True
    """[CLS] and [SEP] stand around a text. Where not, a text has a start and an end: those that
    tokenizer_config.json names."""
    classes: tuple[str, ...] = ()
    """The classes of transformers that read it so, the family's own first. Of none, no class is followed."""


def _from_words(
    folder: Path, facts: Mapping[str, Any], usual: Mapping[str, str] | None = None, *, twice: bool = False
) -> State:
    """As BertTokenizer of transformers reads a vocab.txt: one token a line. With `twice`, two of `sep` part a
    pair."""
    lines = read_text(folder / "vocab.txt").split("\n")
    if lines[-1] == "":
        lines.pop()
    vocabulary = {token: id for id, token in enumerate(lines)}
    berts = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    names = special_tokens(folder, facts, vocabulary, usual or berts)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=names["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, **_normalizer(facts))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names.values()])
    cls, sep = names["cls"], names["sep"]
    if twice:
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, vocabulary[sep]), (cls, vocabulary[cls]), True, False
        )
        return state_of(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    return state_of(tokenizer)


def _from_merges(folder: Path, facts: Mapping[str, Any]) -> State:
    """As RobertaTokenizer of transformers reads vocab.json and merges.txt."""
    tokenizer, names, space = _merged(folder, facts, _FAIRSEQ)
    ids = tokenizer.get_vocab()
    cls, sep = names["cls"], names["sep"]
    tokenizer.post_processor = processors.RobertaProcessing((sep, ids[sep]), (cls, ids[cls]), True, space)
    return state_of(tokenizer)


def _from_unframed_merges(folder: Path, facts: Mapping[str, Any]) -> State:
    """As GPT2Tokenizer of transformers reads them."""
    tokenizer, _, _ = _merged(folder, facts, {"unk": _END, "bos": _END, "eos": _END})
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return state_of(tokenizer)


def _merged(
    folder: Path, facts: Mapping[str, Any], usual: Mapping[str, str]
) -> tuple[tokenizers.Tokenizer, dict[str, str], bool]:
    vocabulary = read_json(folder / "vocab.json", LIMIT)
    if not isinstance(vocabulary, dict) or not all(type(id) is int for id in vocabulary.values()):
        raise HubError(f"{folder / 'vocab.json'}: no table of tokens and their ids; {MAKE}")
    lines = [line for line in read_text(folder / "merges.txt").split("\n") if line.strip()]
    pairs = [line.split(" ") for line in lines if not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise HubError(f"{folder / 'merges.txt'}: a line that is no pair of tokens; {MAKE}")
    names = special_tokens(folder, facts, vocabulary, usual)
    space = facts.get("add_prefix_space") is True
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [(a, b) for a, b in pairs], fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, lstrip=role == "mask") for role, name in names.items()]
    )
    return tokenizer, names, space


def _normalizer(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Of BertTokenizer, by what tokenizer_config.json says or, where it is silent, as usual."""
    return {
        "handle_chinese_chars": facts.get("tokenize_chinese_chars", True) is not False,
        "strip_accents": facts.get("strip_accents"),
        "lowercase": facts.get("do_lower_case", True) is not False,
    }


def _follow_lower_case(state: State, facts: Mapping[str, Any]) -> None:
    own = state.get("normalizer")
    if isinstance(own, dict) and own.get("type") == "BertNormalizer":
        own.update(_normalizer(facts))


def _follow_prefix_space(state: State, facts: Mapping[str, Any]) -> None:
    splitter = state.get("pre_tokenizer")
    if isinstance(splitter, dict) and splitter.get("type") == "ByteLevel":
        splitter["add_prefix_space"] = facts.get("add_prefix_space") is True


def _follow_llama(state: State, facts: Mapping[str, Any]) -> None:
    """LlamaTokenizer has no normalizer: ▁ takes the place of a space, and stands before a text that has none
    there or, if it is `legacy`, before what follows a special token too. CodeLlamaTokenizer knows no
    `legacy`, and always takes the space off what is written."""
    model, named = state.get("model") or {}, class_of(facts)
    if named not in _LLAMAS or model.get("type") != "BPE" or not model.get("byte_fallback"):
        return
    spaced = facts.get("add_prefix_space") is not False
    plain = named == _LLAMAS[0]
    before = "never" if not spaced else "always" if plain and facts.get("legacy") else "first"
    whole: list[decoders.Decoder] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=before, split=False)
    tokenizer.decoder = decoders.Sequence(
        [*whole, *([decoders.Strip(" ", 1, 0)] if spaced or not plain else [])]
    )
    state.update({part: state_of(tokenizer)[part] for part in ("normalizer", "pre_tokenizer", "decoder")})


def _follow_white_space(state: State, facts: Mapping[str, Any]) -> None:
    """XLMRobertaTokenizer and CamembertTokenizer part at white space, and keep no normalizer but the table of
    characters."""
    if class_of(facts) not in ("", *_PARTED) or (state.get("model") or {}).get("type") != "Unigram":
        return
    before: Literal["always", "never"] = "never" if facts.get("add_prefix_space") is False else "always"
    own = state.get("normalizer") or {}
    tables = [step for step in own.get("normalizers", [own]) if step.get("type") == "Precompiled"]
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = _words_of_pieces(before)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=before)
    state.update({part: state_of(tokenizer)[part] for part in ("pre_tokenizer", "decoder")})
    state["normalizer"] = tables[0] if tables else None


def class_of(facts: Mapping[str, Any]) -> str:
    return str(facts.get("tokenizer_class") or "").removesuffix("Fast")


def special_tokens(
    folder: Path, facts: Mapping[str, Any], vocabulary: Mapping[str, int], usual: Mapping[str, str]
) -> dict[str, str]:
    """Their names by `usual` roles, as tokenizer_config.json or the map of special tokens has them."""
    added = read_table_if_there(folder / "added_tokens.json")
    if any(token not in vocabulary for token in added):
        raise HubError(f"{folder / 'added_tokens.json'}: more tokens than the vocabulary; {MAKE}")
    named = read_table_if_there(folder / "special_tokens_map.json")
    names = {}
    for role, name in usual.items():
        value = facts.get(f"{role}_token", named.get(f"{role}_token")) or name
        names[role] = str(value.get("content", name) if isinstance(value, dict) else value)
        if names[role] not in vocabulary:
            raise HubError(f"{folder}: the special token {names[role]!r} is not in the vocabulary; {MAKE}")
    return names


def state_of(tokenizer: tokenizers.Tokenizer) -> State:
    state: State = json.loads(tokenizer.to_str())
    return state


def unigram_file(path: Path, *, bytes: bool = False) -> PieceFile:
    """A SentencePiece model of the kind unigram; with `bytes`, one that spells what it does not know by these
    will do too."""
    try:
        model = read_piece_file(read_bytes(path, MOST_BYTES))
    except ValueError as error:
        raise error if isinstance(error, HubError) else HubError(f"{path}: {error}; {MAKE}") from error
    if model.kind != "unigram" or (model.byte_fallback and not bytes):
        kind = f"{model.kind} with bytes" if model.byte_fallback else model.kind
        raise HubError(f"{path}: a SentencePiece model of the kind {kind}, where unigram is wanted; {MAKE}")
    return model


def parted_by_space(unigram: models.Unigram, model: PieceFile) -> tokenizers.Tokenizer:
    """White space parts words, and each begins with ▁; characters are made those that the model knows."""
    tokenizer = tokenizers.Tokenizer(unigram)
    if model.charsmap:
        tokenizer.normalizer = normalizers.Precompiled(model.charsmap)
    tokenizer.pre_tokenizer = _words_of_pieces("always")
    joined = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    by_bytes = decoders.Sequence([decoders.ByteFallback(), joined])
    tokenizer.decoder = by_bytes if model.byte_fallback else joined
    return tokenizer


def _words_of_pieces(before: Literal["always", "never"]) -> pre_tokenizers.PreTokenizer:
    spaces = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=before)
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])


def fairseq_pieces(named: str, first: tuple[tuple[str, float], ...], skipped: int) -> Vocabulary:
    """Those of XLM-RoBERTa and CamemBERT: fairseq numbers its own special tokens `first`, then the pieces of
    a SentencePiece model but for the `skipped` that begin it, then <mask>."""

    def read(folder: Path, facts: Mapping[str, Any]) -> State:
        model = unigram_file(folder / SENTENCE_PIECES)
        pieces = [*first, *model.pieces[skipped:], ("<mask>", 0.0)]
        ids = {piece: id for id, (piece, _) in enumerate(pieces)}
        names = special_tokens(folder, facts, ids, _FAIRSEQ)
        tokenizer = parted_by_space(models.Unigram(pieces, ids[names["unk"]], False), model)
        tokenizer.add_special_tokens(
            [AddedToken(name, special=True, lstrip=role == "mask") for role, name in names.items()]
        )
        cls, sep = names["cls"], names["sep"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[cls, "$A", sep],
            pair=[cls, "$A", sep, sep, "$B", sep],
            special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
        )
        return state_of(tokenizer)

    return Vocabulary(file=SENTENCE_PIECES, read=read, follow=_follow_white_space, classes=(named,))


def _not_there(folder: Path, facts: Mapping[str, Any]) -> State:
    raise HubError(f"{folder}: no tokenizer.json in it; {MAKE}")


FAST_ONLY = Vocabulary(file="tokenizer.json", read=_not_there)
"""Of a family that never had another file."""
WORD_PIECES = Vocabulary(
    file="vocab.txt",
    read=_from_words,
    follow=_follow_lower_case,
    classes=("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
)
"""BERT's."""
MPNET_PIECES = Vocabulary(
    file="vocab.txt",
    read=lambda folder, facts: _from_words(folder, facts, _FAIRSEQ | {"unk": "[UNK]"}, twice=True),
    follow=_follow_lower_case,
    classes=("MPNetTokenizer",),
)
"""MPNet's: BERT's pieces, RoBERTa's special tokens but for [UNK]."""
BYTE_PAIRS = Vocabulary(
    file="vocab.json", read=_from_merges, follow=_follow_prefix_space, classes=("RobertaTokenizer",)
)
"""RoBERTa's."""
UNFRAMED_BYTE_PAIRS = Vocabulary(
    file="vocab.json",
    read=_from_unframed_merges,
    follow=_follow_prefix_space,
    framed=False,
    classes=("GPT2Tokenizer",),
)
"""GPT-2's."""
XLM_PIECES = fairseq_pieces(_PARTED[0], (("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)), 3)
"""XLM-RoBERTa's: the pieces' own <unk>, <s> and </s> are left out."""
CAMEMBERT_PIECES = fairseq_pieces(
    _PARTED[1],
    (
        ("<s>NOTUSED", 0.0),
        ("<pad>", 0.0),
        ("</s>NOTUSED", 0.0),
        ("<unk>", 0.0),
        ("<unk>NOTUSED", -100.0),
    ),
    1,
)
"""CamemBERT's: only the pieces' own <unk> is left out, and what fairseq numbered is never used."""


UNFRAMED = replace(FAST_ONLY, framed=False)
"""Of Llama's kin: how they part a text, no older file tells."""
LLAMA_PIECES = replace(UNFRAMED, follow=_follow_llama)
"""Llama's own."""


def vocabulary_of(named: str, usual: Vocabulary) -> Vocabulary:
    """That of the class which a folder names: some encoders have the tokenizer of another family, as a small
    multilingual E5 is a BERT with the pieces of XLM-RoBERTa."""
    if not (usual.framed and usual.classes):
        return usual
    framed = (WORD_PIECES, MPNET_PIECES, BYTE_PAIRS, XLM_PIECES, CAMEMBERT_PIECES)
    return next((each for each in framed if named in each.classes), usual)
