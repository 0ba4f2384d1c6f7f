"""Messages to a text, by the model's own template, and to ids.

A template is Jinja, written by strangers, and runs within bounds: `regard.tasks.language.templates`.

What a message says stays text: `<|im_end|>` in it does not end the message, though the template writes the
same letters and means the token. Before the template sees a message, such letters are parted by a character
that no message has; it is taken out again when the text is encoded. Where a template says what the assistant
writes (`{% generation %}`), two more such characters stand around it until the tokens are known.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from regard.tasks.language.template_bounds import ChatError
from regard.tasks.language.templates import run
from regard.text import Tokenizer

Message = Mapping[str, Any]
"""A role (system, user or assistant) and content, as `{"role": "user", "content": "Hello"}`."""
_OURS = ("role", "content")
_ROLES = (("start", "bos"), ("end", "eos"), ("unknown", "unk"), ("pad", "pad"))
"""Special tokens that a template has by name, and their names there."""
_SET = ("messages", "add_generation_prompt", *(f"{theirs}_token" for _, theirs in _ROLES))
"""Names of a template that are not the caller's."""


class ChatPrompt(str):
    """A text that a template made, with its ids: special tokens are those that the template wrote."""

    ids: list[int]
    __slots__ = ("ids",)

    def __new__(cls, text: str, ids: Sequence[int]) -> "ChatPrompt":
        prompt = super().__new__(cls, text)
        prompt.ids = [*ids]
        return prompt


def check_messages(messages: object) -> list[dict[str, Any]]:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ChatError(f"messages={messages!r:.60}: give a list of messages, one at least")
    checked = []
    for number, each in enumerate(messages, start=1):
        if not isinstance(each, Mapping):
            raise ChatError(f"message {number} is {each!r:.60}, no table with a role and content")
        role, content = each.get("role"), each.get("content")
        if not isinstance(role, str) or not role:
            raise ChatError(f"message {number}: role={role!r:.60} should be system, user or assistant")
        if isinstance(content, Sequence) and not isinstance(content, str):
            content = "".join(_part(number, part) for part in content)
        if not isinstance(content, str):
            raise ChatError(f"message {number}: content={content!r:.60} should be a text")
        checked.append({**each, "role": role, "content": content})
    return checked


def _part(number: int, part: object) -> str:
    """Content comes in parts too: `{"type": "text", "text": ...}`."""
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise ChatError(f"message {number}: a part of its content is {part!r:.60}; only texts are read")
    return text


def check_variables(given: object) -> dict[str, Any]:
    """Further variables of a template, as `{"enable_thinking": False}`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ChatError(
            f"chat_template_kwargs={given!r:.60}: give names and values, {{'enable_thinking': False}}"
        )
    if taken := [name for name in _SET if name in given]:
        raise ChatError(f"chat_template_kwargs: {taken[0]} is set by regard; leave it out")
    return dict(given)


def render(
    template: str | None,
    tokenizer: Tokenizer,
    messages: object,
    *,
    answer: bool = True,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> ChatPrompt:
    """The text of messages. With `answer`, it ends where the assistant begins to speak."""
    text, guard = _written(
        template, tokenizer, messages, check_variables(chat_template_kwargs), answer=answer
    )
    ids, _ = _encoded(text, tokenizer, guard[0])
    return ChatPrompt(text.replace(guard[0], ""), ids)


def render_marked(
    template: str | None, tokenizer: Tokenizer, messages: object
) -> tuple[list[int], list[int] | None]:
    """The ids of a whole dialogue, and 1 for each that lies in a `{% generation %}` of the template; None
    where the template has written none."""
    text, (guard, begin, end) = _written(template, tokenizer, messages, {}, answer=False, marked=True)
    pieces = re.split(f"([{begin}{end}])", text)
    ids, places = _encoded("".join(piece for piece in pieces if piece not in (begin, end)), tokenizer, guard)
    if len(pieces) == 1:
        return ids, None
    depth, said = 0, bytearray()
    for piece in pieces:
        depth += (piece == begin) - (piece == end)
        if piece not in (begin, end):
            said += bytes([depth > 0]) * (len(piece) - piece.count(guard))
    return ids, [int(any(said[start:stop])) for start, stop in places]


def _written(
    template: str | None,
    tokenizer: Tokenizer,
    messages: object,
    variables: Mapping[str, Any],
    *,
    answer: bool,
    marked: bool = False,
) -> tuple[str, list[str]]:
    """What a template makes of messages, and the characters in it that part and mark."""
    if template is None:
        raise ChatError(
            "this model has no chat template, so messages cannot be put to it: use regard generate, or give "
            "its folder the chat_template.jinja that it was trained with"
        )
    checked = check_messages(messages)
    first = [(re.escape(each[0]), re.escape(each[1:])) for each in _reserved(tokenizer)]
    pattern = re.compile("|".join(f"{one}(?={others})" for one, others in first) or "(?!)")
    names = {f"{theirs}_token": getattr(tokenizer.specials, ours) or "" for ours, theirs in _ROLES}
    try:
        guard, begin, end = marks = _unused(3, template, checked, variables)
        parted = [_guarded(each, pattern, guard, _OURS) for each in checked]
        given = _guarded(variables, pattern, guard, variables)
    except (TypeError, RecursionError) as error:
        raise ChatError(f"the messages are no plain data, or nested too deep: {error}") from error
    values = {**given, **names, "messages": parted, "add_generation_prompt": answer}
    return run(template, values, (begin, end) if marked else ("", "")), marks


def _reserved(tokenizer: Tokenizer) -> list[str]:
    return sorted(tokenizer.specials, key=len, reverse=True)


def _unused(count: int, template: str, *given: object) -> list[str]:
    """Characters of the private area that stand nowhere."""
    said = template + json.dumps(given, ensure_ascii=False, default=str)
    found = [*islice((chr(code) for code in range(0xE000, 0xF900) if chr(code) not in said), count)]
    if len(found) < count:
        raise ChatError("the messages have every character from U+E000 to U+F8FF: leave some out")
    return found


def _guarded(
    table: Mapping[str, Any], pattern: re.Pattern[str], mark: str, names: Collection[str]
) -> dict[str, Any]:
    """With the letters of special tokens parted, but in these names."""

    def parted(value: Any) -> Any:
        match value:
            case str():
                return pattern.sub(lambda found: found[0] + mark, value)
            case list() | tuple():
                return [parted(each) for each in value]
            case dict():
                return {parted(key): parted(each) for key, each in value.items()}
        return value

    return {name if name in names else parted(name): parted(value) for name, value in table.items()}


def _encoded(text: str, tokenizer: Tokenizer, mark: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The ids of a text with marks in it, and where each stands in the text without them."""
    plain = text.replace(mark, "")
    if mark not in text:
        encoding = tokenizer.encode(plain, specials_in_text=True)
        return [*encoding.ids], [*encoding.offsets]
    ids: list[int] = []
    places: list[tuple[int, int]] = []
    size = 0
    for number, part in enumerate(re.split(f"({'|'.join(map(re.escape, _reserved(tokenizer)))})", text)):
        part = part.replace(mark, "")
        if number % 2:
            ids.append(tokenizer.vocabulary[part])
            places.append((size, size + len(part)))
        elif part:
            encoding = (_behind(tokenizer) if number else tokenizer).encode(part)
            ids += encoding.ids
            places += [(size + start, size + stop) for start, stop in encoding.offsets]
        size += len(part)
    return ids, places


@lru_cache(maxsize=1)
def _behind(tokenizer: Tokenizer) -> Tokenizer:
    """For what stands behind a special token: where ▁ is set before the beginning of a text only, it is not
    set there."""
    own = tokenizer.state.get("pre_tokenizer") or {}
    if own.get("type") != "Metaspace" or own.get("prepend_scheme") != "first":
        return tokenizer
    return Tokenizer(json.dumps({**tokenizer.state, "pre_tokenizer": {**own, "prepend_scheme": "never"}}))
