"""OpenAI's: vectors, completions, chats and models, as its client and those of others ask for them."""

import asyncio
import base64
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import orjson
from starlette.responses import Response

from regard.decode import DecodeConfig
from regard.serve.aside import aside
from regard.serve.asking import Ask, Events, Json
from regard.serve.doors import Door, Way
from regard.serve.line import RefusedError, in_time
from regard.serve.merging import merged
from regard.serve.models import Served
from regard.tasks.embedding.embedder import shortened
from regard.tasks.language.continuation import Finished, Generated, Written, token_texts
from regard.tasks.language.dialogue import ChatPrompt
from regard.tasks.language.template_bounds import ChatError
from regard.text import DataError

T = TypeVar("T")
COLD = 1e-5
"""Temperatures below give the likeliest token, as 0 does: scores over them are no numbers at some point."""
REASONS = {"end": "stop", "stop": "stop", "length": "length"}
TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


async def embeddings(ask: Ask) -> Response:
    value = ask.fields.get("input")
    tokens = isinstance(value, list) and any(isinstance(each, int | list) for each in value)
    if tokens:
        raise RefusedError(
            "input holds token ids, which are those of another vocabulary here: send texts (langchain: "
            "check_embedding_ctx_length=False)"
        )
    texts, _ = ask.texts("input")
    if not texts or not all(texts):
        raise RefusedError("input should hold texts, none of them empty")
    form = ask.value("encoding_format", str, "float")
    if form not in ("float", "base64"):
        raise RefusedError(f"encoding_format={form!r:.40} is none of float, base64")
    served = _model(ask, "embed")
    prompt = ask.prompt(served)
    with _told("shorten it, or send it in parts", where=True):
        found = await ask.predict(served, "embed", texts, too_long="error", prompt=prompt)
    if "dimensions" in ask.fields and ask.fields["dimensions"] is not None:
        width = ask.whole("dimensions", 0, len(found[0]))
        found = [shortened(each, width, unit=True) for each in found]
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(each.tobytes()).decode() if form == "base64" else each,
        }
        for index, each in enumerate(found)
    ]
    before = served.predictor.prompt_text(prompt)
    count = await _counted(ask, served, [before + text for text in texts])
    usage = {"prompt_tokens": count, "total_tokens": count}
    return Json({"object": "list", "data": data, "model": served.name, "usage": usage})


async def completions(ask: Ask) -> Response:
    prompts, _ = ask.texts("prompt")
    if not prompts:
        raise RefusedError("prompt is an empty list: send a text, or several")
    limits = ask.service.limits
    served = _model(ask, "language")
    samples = ask.whole("n", 1, limits.alternatives)
    if len(prompts) * samples > limits.texts:
        raise RefusedError(f"{len(prompts)} prompts with n={samples}: at most {limits.texts} texts")
    _refuse(ask, suffix=("",), best_of=(1, samples))
    if ask.fields.get("logprobs") is not None:
        ask.whole("logprobs", 0, 1, least=0)  # those of other tokens are not kept
        if ask.value("echo", bool, False):
            raise RefusedError("echo with logprobs: those of a prompt are not computed here; leave one out")
    settings, seed = _settings(ask, samples, most=ask.whole("max_tokens", 16, limits.max_tokens))
    greedy = settings["decoding"].method == "greedy"
    copies = samples if greedy else 1
    keys = [0 if seed is not None else secrets.randbits(32) for _ in prompts]
    about = _About(ask, served)
    if ask.value("stream", bool, False):
        read = await _counted(ask, served, prompts) if _counts(ask) else None
        texts = merged(
            [
                ask.service.stream(served, ask.caller, prompt, key=key, **settings)
                for prompt, key in zip(prompts, keys, strict=True)
            ]
        )
        with _told("shorten it"):  # before the stream begins
            first = await anext(texts)
        return Events(_events(about, prompts, samples, copies, _behind(first, texts), read))
    read = await _counted(ask, served, prompts)
    choices: list[dict[str, Any]] = []
    tokens = 0
    with _told("shorten it"):
        written = await asyncio.gather(
            *(
                ask.service.generate(served, ask.caller, prompt, key=key, **settings)
                for prompt, key in zip(prompts, keys, strict=True)
            )
        )
    for prompt, found in zip(prompts, written, strict=True):
        for each in found:
            told = await about.logprobs_of(prompt, each)
            for _ in range(copies):
                text = prompt + each.text if about.echo else each.text
                choices.append(_choice(len(choices), text, each.finished, told))
            tokens += len(each.ids) * copies
    return Json({**about.head, "choices": choices, "usage": _usage(read, tokens)})


@contextmanager
def _told(remedy: str, *, where: bool = False) -> Iterator[None]:
    """What is wrong with a text is told with what can be done here; and which of them it is, where that is
    known."""
    try:
        yield
    except DataError as error:
        place = f"{error.origin}: " if where else ""
        raise RefusedError(f"{place}{error.reason} {error.particulars}; {remedy}") from error


def _refuse(ask: Ask, **usual: tuple[Any, ...]) -> None:
    """What is not served is refused by its name, unless it says what is done anyway."""
    for name, values in {
        "presence_penalty": (0,),
        "frequency_penalty": (0,),
        "logit_bias": (),
        **usual,
    }.items():
        if ask.fields.get(name) not in (None, *values, *([{}] if name == "logit_bias" else [])):
            raise RefusedError(f"{name}={ask.fields[name]!r:.40} is not served here: leave it out")


def _settings(ask: Ask, samples: int, *, most: int) -> tuple[dict[str, Any], int | None]:
    """How texts are to be written, and the seed that was asked for."""
    stop, _ = ask.texts("stop", needed=False)
    temperature = ask.number("temperature", 1.0, 0, 2)
    top_p = ask.number("top_p", 1.0, 0, 1)
    seed = ask.value("seed", int)
    greedy = temperature < COLD
    try:
        decoding = (
            DecodeConfig(method="greedy")
            if greedy
            else DecodeConfig(method="sample", temperature=temperature, top_p=top_p)
        )
    except ValueError as error:
        raise RefusedError(str(error)) from error
    settings: dict[str, Any] = {
        "decoding": decoding,
        "samples": 1 if greedy else samples,
        "max_tokens": most,
        "stop": tuple(stop),
        "past": "stop",
        "deadline": ask.deadline,
    }
    if seed is not None:
        settings["seed"] = seed
    return settings, seed


async def chat_completions(ask: Ask) -> Response:
    """The answer to messages, by the template of the model."""
    served = _model(ask, "language")
    limits = ask.service.limits
    _refuse(ask, logprobs=(False,), top_logprobs=(0,))
    for name in ("tools", "functions", "response_format", "audio"):
        if ask.fields.get(name) not in (None, [], {}, {"type": "text"}):
            raise RefusedError(f"{name} is not served here: leave it out")
    prompt = await _chat_prompt(ask, served)
    samples = ask.whole("n", 1, limits.alternatives)
    longest = served.predictor.longest
    room = limits.max_tokens if longest is None else longest - len(prompt.ids)
    usual = max(1, min(limits.max_tokens, room))
    old = ask.fields.get("max_completion_tokens") is None
    named = "max_tokens" if old else "max_completion_tokens"
    settings, seed = _settings(ask, samples, most=ask.whole(named, usual, limits.max_tokens))
    key = 0 if seed is not None else secrets.randbits(32)
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": served.name}
    if ask.value("stream", bool, False):
        texts = ask.service.stream(served, ask.caller, prompt, key=key, **settings)
        with _told("shorten it"):
            first = await anext(texts)
        read = len(prompt.ids) if _counts(ask) else None
        copies = samples // settings["samples"]
        return Events(_chat_events(head, samples, copies, _behind(first, texts), read))
    with _told("shorten it"):
        found = await ask.service.generate(served, ask.caller, prompt, key=key, **settings)
    found = [each for each in found for _ in range(samples // len(found))]
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": each.text, "refusal": None},
            "finish_reason": REASONS[each.finished],
            "logprobs": None,
        }
        for index, each in enumerate(found)
    ]
    usage = _usage(len(prompt.ids), sum(len(each.ids) for each in found))
    return Json({**head, "object": "chat.completion", "choices": choices, "usage": usage})


async def _chat_prompt(ask: Ask, served: Served) -> ChatPrompt:
    """Messages as the model's template has them: its Jinja may take a while, even on what is short."""
    messages, variables = (ask.fields.get(name) for name in ("messages", "chat_template_kwargs"))
    ask.check_texts(["".join(_texts_in([messages, variables]))])
    make = partial(served.predictor.prompt, messages, chat_template_kwargs=variables)
    try:
        prompt: ChatPrompt = await in_time(asyncio.to_thread(make), ask.deadline)
    except ChatError as error:
        raise RefusedError(str(error)) from error
    ask.check_texts([prompt])
    return prompt


def _texts_in(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as several:
                waiting += several
            case dict() as named:
                waiting += named.values()


async def _counted(ask: Ask, served: Served, texts: list[str]) -> int:
    """Tokens in all."""

    def count() -> int:
        return sum(map(len, served.predictor.tokenizer.encode_batch(texts)))

    return await aside(sum(map(len, texts)), count, ask.deadline)


def _counts(ask: Ask) -> bool:
    """Whether a stream is to end with how many tokens were read and written."""
    options = ask.value("stream_options", dict, {}) or {}
    return options.get("include_usage") is True


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


async def _chat_events(
    head: dict[str, Any], samples: int, copies: int, texts: AsyncIterator[Written], read: int | None
) -> AsyncIterator[bytes]:
    """As `_events`."""

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        whole = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + orjson.dumps(whole) + b"\n\n"

    def piece(index: int, delta: dict[str, str], finished: str | None = None) -> bytes:
        return event([{"index": index, "delta": delta, "finish_reason": finished, "logprobs": None}])

    for index in range(samples):
        yield piece(index, {"role": "assistant", "content": ""})
    written = 0
    async for each in texts:
        places = range(each.sample * copies, (each.sample + 1) * copies)
        for index in places if each.text else ():
            yield piece(index, {"content": each.text})
        if each.whole is not None:
            written += len(each.whole.ids) * copies
            for index in places:
                yield piece(index, {}, REASONS[each.whole.finished])
    if read is not None:
        yield event([], usage=_usage(read, written))
    yield b"data: [DONE]\n\n"


async def _behind(first: T, texts: AsyncIterator[T]) -> AsyncIterator[T]:
    yield first
    with _told("shorten it"):
        async for each in texts:
            yield each


class _About:
    """What all parts of an answer have."""

    def __init__(self, ask: Ask, served: Served) -> None:
        self.echo = ask.value("echo", bool, False)
        self.logprobs = ask.fields.get("logprobs") is not None
        self.likeliest = ask.fields.get("logprobs") == 1 and ask.fields.get("temperature") == 0
        self.served = served
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
        }

    async def logprobs_of(self, prompt: str, whole: Generated) -> dict[str, Any] | None:
        """Of the tokens of the text, if they are asked for; in a stream, with its last event. The likeliest
        token is known where it is the one that was taken."""
        if not self.logprobs:
            return None
        texts = await asyncio.to_thread(self._texts_of, prompt, whole)
        offsets = [*itertools.accumulate(map(len, texts), initial=0)][:-1]
        scores = whole.token_scores
        if whole.finished == "stop":  # the text ends before the stop string, maybe within a token
            end = len(whole.text)
            texts = [text[: end - at] for text, at in zip(texts, offsets, strict=True) if at < end]
            offsets, scores = offsets[: len(texts)], scores[: len(texts)]
        pairs = zip(texts, scores, strict=True)
        return {
            "tokens": texts,
            "token_logprobs": [*scores],
            "top_logprobs": [{text: score} for text, score in pairs] if self.likeliest else None,
            "text_offset": offsets,
        }

    def _texts_of(self, prompt: str, whole: Generated) -> list[str]:
        tokenizer = self.served.predictor.tokenizer
        return token_texts(tokenizer, tokenizer.encode(prompt).ids, whole.ids)


def _choice(
    index: int, text: str, finished: Finished | None = None, logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    reason = None if finished is None else REASONS[finished]
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": logprobs}


async def _events(
    about: _About,
    prompts: list[str],
    samples: int,
    copies: int,
    texts: AsyncIterator[tuple[int, Written]],
    read: int | None,
) -> AsyncIterator[bytes]:
    """Each choice by its index: of each prompt so many samples, or so many `copies` of one. With the number
    of tokens that were `read`, if it is to be told."""

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        return b"data: " + orjson.dumps({**about.head, "choices": choices, **more}) + b"\n\n"

    for index in range(len(prompts) * samples) if about.echo else ():
        yield event([_choice(index, prompts[index // samples])])
    written = 0
    async for number, each in texts:
        first = number * samples + each.sample * copies
        places = range(first, first + copies)
        for index in places if each.text else ():
            yield event([_choice(index, each.text)])
        if each.whole is not None:
            written += len(each.whole.ids) * copies
            told = await about.logprobs_of(prompts[number], each.whole)
            for index in places:
                yield event([_choice(index, "", each.whole.finished, told)])
    if read is not None:
        yield event([], usage=_usage(read, written))
    yield b"data: [DONE]\n\n"


def _model(ask: Ask, task: str) -> Served:
    """By its name; where only one serves the task, by any: clients have names of their own in their code."""
    name = ask.value("model", str)
    fitting = ask.service.models.of(task)
    if len(fitting) == 1:
        return fitting[0]
    try:
        return ask.service.models.named(name, [task])
    except LookupError as error:
        raise RefusedError(str(error.args[0]), 404) from error


async def models(ask: Ask) -> Response:
    data = [
        {"id": each.name, "object": "model", "created": each.created, "owned_by": "regard"}
        for each in ask.service.models
    ]
    return Json({"object": "list", "data": data})


async def model(ask: Ask) -> Response:
    name = ask.request.path_params["name"]
    for each in ask.service.models:
        if each.name == name:
            return Json({"id": each.name, "object": "model", "created": each.created, "owned_by": "regard"})
    raise RefusedError(f"no model {name!r:.60}", 404)


def _shape(why: str, status: int) -> dict[str, Any]:
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": why, "type": kind, "param": None, "code": None}}


OPENAI = Door(
    "openai",
    _shape,
    [
        Way("POST", "/v1/embeddings", embeddings),
        Way("POST", "/v1/completions", completions),
        Way("POST", "/v1/chat/completions", chat_completions),
        Way("GET", "/v1/models", models),
        Way("GET", "/v1/models/{name}", model),
    ],
    below=("/v1/",),
)
