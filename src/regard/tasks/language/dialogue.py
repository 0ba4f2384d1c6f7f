"""Messages to a text, by the model's own template, and to ids.

A template is Jinja, written by strangers. It runs in Jinja's sandbox, which changes nothing and reaches
nothing, and within bounds: what it writes, how often it goes around loops, and the sizes it multiplies to.

What a message says stays text: `<|im_end|>` in it does not end the message, though the template writes the
same letters and means the token. Before the template sees a message, such letters are parted by a character
that no message has; it is taken out again when the text is encoded.
"""

import json
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from regard.text import Tokenizer

LONGEST = 2**22
"""Characters that a template may write."""
ROUNDS = 100_000
"""Numbers that the ranges of a template may give, all together."""
Message = Mapping[str, Any]
"""A role (system, user or assistant) and content, as `{"role": "user", "content": "Hello"}`."""


class ChatError(ValueError):
    """Messages that make no dialogue, or a template that does not work; the message says which."""


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
    text = _run(template, {"messages": parted, "add_generation_prompt": answer, **names})
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
            case list():
                return [parted(each) for each in value]
            case dict():
                return {key: parted(each) for key, each in value.items()}
        return value

    return {name: parted(value) for name, value in message.items()}


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


def _run(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError

    try:
        compiled = _compiled(template)
        left = [ROUNDS]
        pieces, size = [], 0
        for piece in compiled.generate(range=_ranges(left), raise_exception=_refuse, **values):
            size += len(piece)
            if size > LONGEST:
                raise ChatError(f"the chat template writes more than {LONGEST:,} characters")
            pieces.append(piece)
        return "".join(pieces)
    except ChatError:
        raise
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ChatError(f"the chat template fails on these messages: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ChatError(f"the chat template does not end ({type(error).__name__})") from error


def _ranges(left: list[int]) -> Any:
    def counted(*bounds: int) -> Iterator[int]:
        for number in range(*bounds):
            left[0] -= 1
            if left[0] < 0:
                raise ChatError(f"the chat template goes around more than {ROUNDS:,} times")
            yield number

    return counted


def _refuse(why: object) -> None:
    raise ChatError(f"the chat template refuses these messages: {why}")


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Bounded(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "+", "%"})

        def call_binop(self, context: Any, operator_: str, left: Any, right: Any) -> Any:
            size = _size(left) + _size(right)
            if operator_ == "*" and not (isinstance(left, int | float) and isinstance(right, int | float)):
                size = max(_size(left), 1) * max(_size(right), 1)
                size *= next((abs(each) for each in (left, right) if isinstance(each, int)), 1)
            if operator_ == "**" and abs(right) > 64:
                size = LONGEST + 1
            if size > LONGEST:
                raise ChatError(f"the chat template makes something larger than {LONGEST:,} characters")
            return _BINARY[operator_](left, right)

    environment = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(str(form))
    return environment.from_string(template)


_BINARY = {"*": operator.mul, "**": operator.pow, "+": operator.add, "%": operator.mod}


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 0


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **given: Any) -> str:
    """As transformers does it: plain letters, and no HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=str, **given)
