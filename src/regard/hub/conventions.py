"""What a language model's folder says of texts and dialogues: whether the start token stands before a text,
which tokens end one, and the template that makes a text of messages."""

from pathlib import Path
from typing import Any

from regard.hub.facts import Facts
from regard.hub.family import DecoderFamily
from regard.hub.files import HubError, read_json, read_table_if_there, read_text
from regard.hub.generation import FILE as GENERATION
from regard.text import Tokenizer
from regard.text.conventions import MOST, Conventions

TEMPLATE = "chat_template.jinja"
_CONFIG = "tokenizer_config.json"


def read_conventions(folder: Path, facts: Facts[DecoderFamily], tokenizer: Tokenizer | None) -> Conventions:
    """Of a family that does not tell, the usual ones."""
    template = _template(folder)
    if not facts.family.tells:
        return Conventions(chat_template=template)
    begins = None if tokenizer is None else _begins(folder, tokenizer)
    return Conventions(begins=begins, ends=_ends(folder, facts, tokenizer), chat_template=template)


def _begins(folder: Path, tokenizer: Tokenizer) -> bool:
    """Whether transformers sets the start token before a text: tokenizer_config.json asks for it, or
    the post-processor of tokenizer.json does it, whatever the former says."""
    if tokenizer.specials.start is None:
        return False
    if read_table_if_there(folder / _CONFIG).get("add_bos_token") is True:
        return True
    path = folder / "tokenizer.json"
    state = read_json(path, 2**28) if path.exists() else {}
    return _first(state.get("post_processor") or {}) == tokenizer.specials.start


def _first(processor: dict[str, Any]) -> str | None:
    """The special token that a post-processor sets before a text."""
    if processor.get("type") == "Sequence":
        found = [_first(part) for part in processor.get("processors", ())]
        return next((each for each in found if each is not None), None)
    if processor.get("type") != "TemplateProcessing" or not processor.get("single"):
        return None
    named = processor["single"][0].get("SpecialToken")
    return None if named is None else str(processor["special_tokens"][named["id"]]["tokens"][0])


def _ends(folder: Path, facts: Facts[DecoderFamily], tokenizer: Tokenizer | None) -> tuple[int, ...]:
    """The tokens that end a text, as generation_config.json or config.json list them, beside the
    tokenizer's own end."""
    table = read_table_if_there(folder / GENERATION)
    listed = table.get("eos_token_id", facts.table.get("eos_token_id"))
    ids = listed if isinstance(listed, list) else [listed]
    if any(each is not None and type(each) is not int for each in ids):
        raise HubError(f"{folder}: eos_token_id={listed!r:.60} must be an id, or a list of ids")
    own = None if tokenizer is None else tokenizer.ids.end
    most = facts.count("vocabulary")
    return tuple(dict.fromkeys(each for each in ids if each is not None and 0 <= each < most and each != own))


def _template(folder: Path) -> str | None:
    """Of a file of its own or, in older folders, of tokenizer_config.json; of several, the default one."""
    path = folder / TEMPLATE
    if path.exists():
        return read_text(path, MOST)
    found = read_table_if_there(folder / _CONFIG).get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    if found is not None and (not isinstance(found, str) or len(found) > MOST):
        raise HubError(f"{folder / _CONFIG}: chat_template={found!r:.60} must be a text of 1 MB at most")
    return found


def write_conventions(folder: Path, conventions: Conventions) -> None:
    """The template; how texts begin is in tokenizer.json, how they end in the other files."""
    if conventions.chat_template is not None:
        (folder / TEMPLATE).write_text(conventions.chat_template, encoding="utf-8")
