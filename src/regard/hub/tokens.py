"""The tokenizer of a folder: tokenizer.json or, in older folders, the vocabulary that one is made from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from regard.hub.files import HubError, read_json, read_table_if_there, write_json
from regard.hub.keys import refuse_code
from regard.hub.names import TABLES, Family
from regard.hub.vocabularies import LIMIT, MAKE, State, Vocabulary, class_of, vocabulary_of
from regard.text import Tokenizer
from regard.text.specials import Role, Specials, template

_FILE = "tokenizer.json"
_ROLES: dict[Role, str] = TABLES["tokens"]
_PLAIN = "PreTrainedTokenizerFast"
_AS_IT_IS = (_PLAIN, "PreTrainedTokenizer", "TokenizersBackend")
"""Classes of transformers that take tokenizer.json as it is, for any model."""


def read_tokenizer(
    folder: Path, family: Family, rows: int, *, lower_case: bool
) -> tuple[Tokenizer, int | None]:
    """The tokenizer, and the most tokens that its file says an input may have. `rows` are the vectors that
    the model has; `lower_case` is for a file beside it that says so."""
    path = folder / "tokenizer_config.json"
    facts = read_table_if_there(path)
    refuse_code(facts, path)
    if not facts.get("tokenizer_class"):
        facts["tokenizer_class"] = read_table_if_there(folder / "config.json").get("tokenizer_class")
    vocabulary = vocabulary_of(class_of(facts), _vocabulary(family))
    path = _source(folder, vocabulary)
    _check_class(path, facts, vocabulary)
    try:
        state = read_json(path, LIMIT) if path.name == _FILE else vocabulary.read(folder, facts)
        if str(facts.get("tokenizer_class") or "") not in _AS_IT_IS:
            vocabulary.follow(state, facts)
        if lower_case:
            _put_lower_case(state)
        text = json.dumps(state)
        tokenizer = Tokenizer(text) if vocabulary.framed else _with_ends(text, folder, facts)
    except HubError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise HubError(
            f"{path}: no tokenizer that tokenizers {tokenizers.__version__} can read ({error!r}); {MAKE}"
        ) from error
    if not tokenizer.vocabulary:
        raise HubError(f"{path}: an empty vocabulary; copy the folder anew")
    if len(tokenizer) > rows:
        raise HubError(
            f"{path}: ids up to {len(tokenizer) - 1}, but the model has vectors for {rows} "
            "(vocab_size in config.json): they are not of one model"
        )
    most = facts.get("model_max_length")
    return tokenizer, most if type(most) is int and most > 0 else None


def has_tokenizer(folder: Path, family: Family) -> bool:
    return any((folder / name).exists() for name in (_FILE, _vocabulary(family).file))


def _vocabulary(family: Family) -> Vocabulary:
    if family.vocabulary is None:
        raise TypeError(f"{family.name} has a reader of its own for its tokenizer")
    return family.vocabulary


def _source(folder: Path, vocabulary: Vocabulary) -> Path:
    """The file that the vocabulary is in."""
    for name in (_FILE, vocabulary.file):
        if (folder / name).exists():
            return folder / name
    raise HubError(f"{folder}: no {_FILE} in it; {MAKE}")


def _check_class(path: Path, facts: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """That a vocabulary alone says how a text becomes tokens, as it does not where a class has a way of its
    own."""
    named = facts.get("tokenizer_class") or ""
    if path.name != _FILE and named not in _AS_IT_IS and class_of(facts) not in ("", *vocabulary.classes):
        raise HubError(
            f"{path}: tokenizer_class={named!r:.60} has its own way to part a text, which {path.name} does "
            f"not tell; only {', '.join(vocabulary.classes)} is known without a {_FILE}"
        )


def _put_lower_case(state: State) -> None:
    first = {"type": "Lowercase"}
    own = state.get("normalizer")
    rest = [] if own is None else own["normalizers"] if own.get("type") == "Sequence" else [own]
    if not any(step.get("type") == "Lowercase" or step.get("lowercase") is True for step in rest):
        state["normalizer"] = {"type": "Sequence", "normalizers": [first, *rest]}


def _with_ends(text: str, folder: Path, facts: Mapping[str, Any]) -> Tokenizer:
    """With the start and end that tokenizer_config.json or the map of special tokens names, where they are
    not those that their spelling tells: a text that is generated must come to its end."""
    tokenizer = Tokenizer(text)
    named = {**read_table_if_there(folder / "special_tokens_map.json"), **facts}
    start, end = (_named(named, role) or getattr(tokenizer.specials, role) for role in ("start", "end"))
    for name in (start, end):
        if name is not None and name not in tokenizer.vocabulary:
            raise HubError(f"{folder}: the special token {name!r:.60} is not in the vocabulary; {MAKE}")
    specials = replace(tokenizer.specials, start=start, end=end)
    return tokenizer if specials == tokenizer.specials else _unframed(text, specials)


def _named(facts: Mapping[str, Any], role: Role) -> str | None:
    token = facts.get(_ROLES[role])
    return str(token.get("content") if isinstance(token, dict) else token) if token else None


def _unframed(text: str, specials: Specials, *, begins: bool = False) -> Tokenizer:
    """A tokenizer.json with nothing set around a text, but for the start token of one that `begins`; and the
    roles declared in it."""
    rust = tokenizers.Tokenizer.from_str(text)
    known = set(Tokenizer(text).specials)
    rust.add_special_tokens([AddedToken(name, special=True) for name in specials if name not in known])
    rust.post_processor = template(replace(specials, cls=None, sep=None), rust.get_vocab(), begins=begins)
    return Tokenizer(rust.to_str())


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    longest: int,
    segments: bool,
    framed: bool = True,
    begins: bool = False,
) -> None:
    """As a PreTrainedTokenizerFast, which takes tokenizer.json as it is. Without `segments`, it is set not
    to give any to the model. Not `framed`, it sets no [CLS] and [SEP] around a text: a language model reads
    the text alone, or, if it `begins`, behind its start token."""
    path = tokenizer.save(folder / _FILE)
    if not framed and (begins or tokenizer.specials.cls is not None or tokenizer.specials.sep is not None):
        tokenizer = _unframed(path.read_text(encoding="utf-8"), tokenizer.specials, begins=begins)
        tokenizer.save(path)
    roles = {theirs: getattr(tokenizer.specials, ours) for ours, theirs in _ROLES.items()}
    names = {theirs: token for theirs, token in roles.items() if token is not None}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    write_json(folder / "special_tokens_map.json", names)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": _PLAIN,
            "model_max_length": longest,
            "model_input_names": inputs if segments else [inputs[0], inputs[2]],
            "clean_up_tokenization_spaces": False,
            **names,
        },
    )
