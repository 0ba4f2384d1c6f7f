"""Messages to a text, by the model's own template, and to ids.

A template is Jinja, written by strangers, and runs within bounds: `regard.tasks.language.templates`.

What a message says stays text: `<|im_end|>` in it does not end the message, though the template writes the
same letters and means the token. Before the template sees a message, such letters are parted by a character
that no message has; it is taken out again when the text is encoded.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from regard.tasks.language.templates import ChatError, run
from regard.text import Tokenizer

Message = Mapping[str, Any]
"""A role (system, user or assistant) and content, as `{"role": "user", "content": "Hello"}`."""
_OURS = ("role", "content")


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


def render(
    template: str | None, tokenizer: Tokenizer, messages: object, *, answer: bool = True
) -> ChatPrompt:
    """The text of messages. With `answer`, it ends where the assistant begins to speak."""
    if template is None:
        raise ChatError(
            "this model has no chat template, so messages cannot be put to it: use regard generate, or give "
            "its folder the chat_template.jinja that it was trained with"
        )
    checked = check_messages(messages)
    mark = _unused(template, checked)
    reserved = sorted(tokenizer.specials, key=len, reverse=True)
    pattern = re.compile("|".join(f"{re.escape(each[0])}(?={re.escape(each[1:])})" for each in reserved))
    parted = [_guarded(each, pattern, mark) for each in checked] if reserved else checked
    names = {
        f"{theirs}_token": getattr(tokenizer.specials, ours) or ""
        for ours, theirs in (("start", "bos"), ("end", "eos"), ("unknown", "unk"), ("pad", "pad"))
    }
    text = run(template, {"messages": parted, "add_generation_prompt": answer, **names})
    return _encoded(text, tokenizer, mark, reserved)


def _unused(template: str, messages: Sequence[Message]) -> str:
    """A character of the private area that stands nowhere."""
    said = template + json.dumps(messages, ensure_ascii=False, default=str)
    return next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in said)


def _guarded(message: Message, pattern: re.Pattern[str], mark: str) -> dict[str, Any]:
    def parted(value: Any) -> Any:
        match value:
            case str():
                return pattern.sub(lambda found: found[0] + mark, value)
            case list() | tuple():
                return [parted(each) for each in value]
            case dict():
                return {parted(key): parted(each) for key, each in value.items()}
        return value

    return {name if name in _OURS else parted(name): parted(value) for name, value in message.items()}


def _encoded(text: str, tokenizer: Tokenizer, mark: str, reserved: Sequence[str]) -> ChatPrompt:
    plain = text.replace(mark, "")
    if mark not in text:
        return ChatPrompt(plain, tokenizer.encode(plain, specials_in_text=True).ids)
    ids: list[int] = []
    for number, part in enumerate(re.split(f"({'|'.join(map(re.escape, reserved))})", text)):
        if number % 2:
            ids.append(tokenizer.vocabulary[part])
        elif part:
            ids += tokenizer.encode(part.replace(mark, "")).ids
    return ChatPrompt(plain, ids)
