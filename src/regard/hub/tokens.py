"""The tokenizer of a folder: tokenizer.json or, in older folders, the vocabulary that one is made from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub.families import GPT2, TABLES, Family
from regard.hub.files import HubError, read_json, read_table_if_there, read_text, write_json
from regard.hub.keys import refuse_code
from regard.text import Tokenizer
from regard.text.specials import Role, Specials, template

_FILE = "tokenizer.json"
_LIMIT = 256 * 2**20
_ROLES: dict[Role, str] = TABLES["tokens"]
_END = "<|endoftext|>"
_MAKE = "make one with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"


def read_tokenizer(
    folder: Path, family: Family, vocabulary: int, *, lower_case: bool
) -> tuple[Tokenizer, int | None]:
    """The tokenizer, and the most tokens that its file says an input may have. `lower_case` is for a file
    beside it that says so."""
    path = folder / "tokenizer_config.json"
    facts = read_table_if_there(path)
    refuse_code(facts, path)
    path = _source(folder, family)
    try:
        match path.name:
            case "vocab.txt":
                state = _from_words(folder, facts)
            case "vocab.json":
                state = _from_merges(folder, facts, family)
            case _:
                state = read_json(path, _LIMIT)
        _follow(state, facts, family)
        if lower_case:
            _put_lower_case(state)
        text = json.dumps(state)
        tokenizer = _with_ends(text, folder, facts) if family is GPT2 else Tokenizer(text)
    except HubError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise HubError(
            f"{path}: no tokenizer that tokenizers {tokenizers.__version__} can read ({error!r}); {_MAKE}"
        ) from error
    if not tokenizer.vocabulary:
        raise HubError(f"{path}: an empty vocabulary; copy the folder anew")
    if len(tokenizer) > vocabulary:
        raise HubError(
            f"{path}: ids up to {len(tokenizer) - 1}, but the model has vectors for {vocabulary} "
            "(vocab_size in config.json): they are not of one model"
        )
    most = facts.get("model_max_length")
    return tokenizer, most if type(most) is int and most > 0 else None


def has_tokenizer(folder: Path, family: Family) -> bool:
    return any((folder / name).exists() for name in (_FILE, _older(family)))


def _older(family: Family) -> str:
    return "vocab.json" if family.name in ("roberta", "gpt2") else "vocab.txt"


def _source(folder: Path, family: Family) -> Path:
    """The file that the vocabulary is in."""
    for name in (_FILE, _older(family)):
        if (folder / name).exists():
            return folder / name
    raise HubError(f"{folder}: no {_FILE} in it; {_MAKE}")


def _follow(state: dict[str, Any], facts: Mapping[str, Any], family: Family) -> None:
    """Where tokenizer_config.json says otherwise than BERT's normaliser in tokenizer.json, or than GPT-2's
    splitter, transformers follows the former."""
    normalizer, splitter = state.get("normalizer"), state.get("pre_tokenizer")
    named = str(facts.get("tokenizer_class") or "")
    gpts = family is GPT2 and named in ("", "GPT2Tokenizer", "GPT2TokenizerFast")
    if gpts and isinstance(splitter, dict) and splitter.get("type") == "ByteLevel":
        splitter["add_prefix_space"] = facts.get("add_prefix_space") is True
    berts = named.startswith(("BertTokenizer", "DistilBertTokenizer"))
    if berts and isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        for theirs, key in (
            ("do_lower_case", "lowercase"),
            ("tokenize_chinese_chars", "handle_chinese_chars"),
            ("strip_accents", "strip_accents"),
        ):
            if theirs in facts:
                normalizer[key] = facts[theirs]


def _put_lower_case(state: dict[str, Any]) -> None:
    first = {"type": "Lowercase"}
    own = state.get("normalizer")
    rest = [] if own is None else own["normalizers"] if own.get("type") == "Sequence" else [own]
    if not any(step.get("type") == "Lowercase" or step.get("lowercase") is True for step in rest):
        state["normalizer"] = {"type": "Sequence", "normalizers": [first, *rest]}


def _from_words(folder: Path, facts: Mapping[str, Any]) -> Any:
    """As BertTokenizer of transformers reads a vocab.txt: one token a line."""
    lines = read_text(folder / "vocab.txt").split("\n")
    if lines[-1] == "":
        lines.pop()
    vocabulary = {token: id for id, token in enumerate(lines)}
    usual = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    names = _special_tokens(folder, facts, vocabulary, usual)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=names["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=facts.get("tokenize_chinese_chars", True) is not False,
        strip_accents=facts.get("strip_accents"),
        lowercase=facts.get("do_lower_case", True) is not False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names.values()])
    cls, sep = names["cls"], names["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[f"{cls}:0", "$A:0", f"{sep}:0"],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    return json.loads(tokenizer.to_str())


def _from_merges(folder: Path, facts: Mapping[str, Any], family: Family) -> Any:
    """As RobertaTokenizer and GPT2Tokenizer of transformers read vocab.json and merges.txt."""
    vocabulary = read_json(folder / "vocab.json", _LIMIT)
    if not isinstance(vocabulary, dict) or not all(type(id) is int for id in vocabulary.values()):
        raise HubError(f"{folder / 'vocab.json'}: no table of tokens and their ids; {_MAKE}")
    lines = [line for line in read_text(folder / "merges.txt").split("\n") if line.strip()]
    pairs = [line.split(" ") for line in lines if not line.startswith("#version")]
    if any(len(pair) != 2 for pair in pairs):
        raise HubError(f"{folder / 'merges.txt'}: a line that is no pair of tokens; {_MAKE}")
    usual = {"unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
    if family is GPT2:
        usual = {"unk": _END, "bos": _END, "eos": _END}
    names = _special_tokens(folder, facts, vocabulary, usual)
    space = facts.get("add_prefix_space") is True
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [(a, b) for a, b in pairs], fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, lstrip=role == "mask") for role, name in names.items()]
    )
    if family is GPT2:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        cls, sep = names["cls"], names["sep"]
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, vocabulary[sep]), (cls, vocabulary[cls]), True, space
        )
    return json.loads(tokenizer.to_str())


def _with_ends(text: str, folder: Path, facts: Mapping[str, Any]) -> Tokenizer:
    """With the start and end that tokenizer_config.json or the map of special tokens names, where they are
    not those that their spelling tells: a text that is generated must come to its end."""
    tokenizer = Tokenizer(text)
    named = {**read_table_if_there(folder / "special_tokens_map.json"), **facts}
    start, end = (_named(named, role) or getattr(tokenizer.specials, role) for role in ("start", "end"))
    for name in (start, end):
        if name is not None and name not in tokenizer.vocabulary:
            raise HubError(f"{folder}: the special token {name!r:.60} is not in the vocabulary; {_MAKE}")
    specials = replace(tokenizer.specials, start=start, end=end)
    return tokenizer if specials == tokenizer.specials else _unframed(text, specials)


def _named(facts: Mapping[str, Any], role: Role) -> str | None:
    token = facts.get(_ROLES[role])
    return str(token.get("content") if isinstance(token, dict) else token) if token else None


def _unframed(text: str, specials: Specials) -> Tokenizer:
    """A tokenizer.json with nothing set around a text, and the roles declared in it."""
    rust = tokenizers.Tokenizer.from_str(text)
    known = set(Tokenizer(text).specials)
    rust.add_special_tokens([AddedToken(name, special=True) for name in specials if name not in known])
    rust.post_processor = template(replace(specials, cls=None, sep=None), rust.get_vocab())
    return Tokenizer(rust.to_str())


def _special_tokens(
    folder: Path, facts: Mapping[str, Any], vocabulary: Mapping[str, int], usual: Mapping[str, str]
) -> dict[str, str]:
    added = read_table_if_there(folder / "added_tokens.json")
    if any(token not in vocabulary for token in added):
        raise HubError(f"{folder / 'added_tokens.json'}: more tokens than the vocabulary; {_MAKE}")
    named = read_table_if_there(folder / "special_tokens_map.json")
    names = {}
    for role, name in usual.items():
        value = facts.get(f"{role}_token", named.get(f"{role}_token")) or name
        names[role] = str(value.get("content", name) if isinstance(value, dict) else value)
        if names[role] not in vocabulary:
            raise HubError(f"{folder}: the special token {names[role]!r} is not in the vocabulary; {_MAKE}")
    return names


def write_tokenizer(
    folder: Path, tokenizer: Tokenizer, *, longest: int, segments: bool, framed: bool = True
) -> None:
    """As a PreTrainedTokenizerFast, which takes tokenizer.json as it is. Without `segments`, it is set not
    to give any to the model. Not `framed`, it sets no [CLS] and [SEP] around a text: a language model reads
    the text alone."""
    path = tokenizer.save(folder / _FILE)
    if not framed and (tokenizer.specials.cls is not None or tokenizer.specials.sep is not None):
        tokenizer = _unframed(path.read_text(encoding="utf-8"), tokenizer.specials)
        tokenizer.save(path)
    roles = {theirs: getattr(tokenizer.specials, ours) for ours, theirs in _ROLES.items()}
    names = {theirs: token for theirs, token in roles.items() if token is not None}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    write_json(folder / "special_tokens_map.json", names)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": longest,
            "model_input_names": inputs if segments else [inputs[0], inputs[2]],
            "clean_up_tokenization_spaces": False,
            **names,
        },
    )
