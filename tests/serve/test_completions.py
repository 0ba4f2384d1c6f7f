"""Completions token by token, in a service of untrained models: where each token stands, and whose it is."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

import regard
from regard.models.decoder import Decoder
from regard.serve.app import build_app
from regard.serve.merging import merged
from regard.serve.models import Named
from regard.serve.service import Service
from regard.settings.models import DecoderConfig
from regard.settings.network import TransformerConfig
from regard.tasks.language.continuation import spelled, token_texts
from regard.tasks.language.generator import Generator
from regard.text import Tokenizer, TokenizerConfig
from tests.serve.models import answering
from tests.serve.server import apart
from tests.tasks.folders import stored

TEXT = "Größe 🐕 red dog, 犬 dog"


@pytest.fixture(scope="module")
def bytewise() -> Tokenizer:
    return Tokenizer.train([TEXT] * 2, TokenizerConfig(kind="byte-bpe", vocabulary=280))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, bytewise: Tokenizer) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("completions")
    torch.manual_seed(0)
    target = DecoderConfig(vocabulary=len(bytewise), d_model=16, body=TransformerConfig(layers=1))
    regard.save(Generator(Decoder(target), bytewise, longest=200), folder / "bytes")
    (folder / "bytes" / "metrics.json").write_text('{"step": 1, "valid": {"loss": 1.5}}')
    stored(folder / "words", "language")
    answering(folder / "words")
    service = Service([Named.of(str(folder / name)) for name in ("bytes", "words")], device="cpu")
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        yield client
    service.close()


def events(client: TestClient, path: str, fields: dict[str, Any]) -> list[Any]:
    """All but the last, which says that it is the last."""
    answer = client.post(path, json={**fields, "stream": True})
    assert answer.status_code == 200, answer.text
    *found, last = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert last == "[DONE]"
    return [json.loads(each) for each in found]


# where each token stands


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["bytes", "words"])
def test_tokens_make_up_the_text_and_each_is_where_it_says(client: TestClient, model: str, seed: int) -> None:
    """A model that knows nothing writes bytes that make no character, too."""
    asked = {"model": model, "prompt": "red dog", "max_tokens": 30, "temperature": 2, "seed": seed}
    choice = client.post("/v1/completions", json={**asked, "logprobs": 0}).json()["choices"][0]
    text, told = choice["text"], choice["logprobs"]
    assert "".join(told["tokens"]) == text
    assert len(told["tokens"]) == len(told["token_logprobs"]) == len(told["text_offset"])
    for token, at in zip(told["tokens"], told["text_offset"], strict=True):
        assert text[at : at + len(token)] == token
    if model == "words":
        assert all(token.startswith(" ") for token in told["tokens"])  # each is a word
    found = [each["choices"][0] for each in events(client, "/v1/completions", {**asked, "logprobs": 0})]
    assert "".join(each["text"] for each in found) == text
    (streamed,) = [each["logprobs"] for each in found if each["logprobs"]]
    assert (streamed["tokens"], streamed["text_offset"]) == (told["tokens"], told["text_offset"])


def test_tokens_of_a_stop_string_are_none_of_the_texts(client: TestClient) -> None:
    asked = {"model": "words", "prompt": "red dog", "max_tokens": 8, "seed": 1, "logprobs": 0}
    whole = client.post("/v1/completions", json=asked).json()["choices"][0]
    middle = len(whole["text"]) // 2
    stop = whole["text"][middle : middle + 3]  # which may begin and end within a token
    choice = client.post("/v1/completions", json={**asked, "stop": stop}).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["text"] == whole["text"][: whole["text"].index(stop)]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["logprobs"]["tokens"])


def test_a_part_of_a_character_adds_nothing_until_it_is_whole(bytewise: Tokenizer) -> None:
    plain = Tokenizer.train(["abc"], TokenizerConfig(kind="byte-bpe", vocabulary=263))
    for tokenizer in (bytewise, plain):
        before, ids = tokenizer.encode("dog ").ids, tokenizer.encode(TEXT).ids
        assert "".join(token_texts(tokenizer, before, ids)) == TEXT == spelled(tokenizer, before, ids)
    dog = plain.encode("🐕").ids
    assert token_texts(plain, before, dog) == [*[""] * (len(dog) - 1), "🐕"]
    assert token_texts(plain, before, dog[:-1])[-1] != ""  # it never comes: told at the end
    assert token_texts(plain, before, []) == []


def test_the_texts_of_a_thousand_tokens_take_a_few_more_reads_of_each(
    bytewise: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    own, ids = Tokenizer.decode, bytewise.encode(TEXT * 150).ids

    def decode(self: Tokenizer, part: Any, **more: Any) -> str:
        sizes.append(len(part))
        return own(self, part, **more)

    monkeypatch.setattr(Tokenizer, "decode", decode)
    assert len(ids) > 1000
    token_texts(bytewise, [], ids)
    assert sum(sizes) < 20 * len(ids)


# whose it is


@pytest.mark.parametrize("how", [{"temperature": 0}, {"temperature": 1.5, "seed": 3}], ids=["greedy", "seed"])
def test_several_choices_of_several_prompts_are_streamed_by_their_index(
    client: TestClient, how: dict[str, Any]
) -> None:
    asked = {"model": "words", "prompt": ["red dog", "old house"], "n": 3, "max_tokens": 6, "logprobs": 0}
    asked |= {"echo": False, **how}
    whole = client.post("/v1/completions", json=asked).json()
    found = events(client, "/v1/completions", {**asked, "stream_options": {"include_usage": True}})
    assert found[-1]["choices"] == []
    assert found[-1]["usage"] == whole["usage"]
    texts, reasons, tokens = defaultdict[int, str](str), {}, {}
    for each in found[:-1]:
        (choice,) = each["choices"]
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"] is not None:
            assert choice["index"] not in reasons
            reasons[choice["index"]] = choice["finish_reason"]
            tokens[choice["index"]] = choice["logprobs"]["tokens"]
    for choice in whole["choices"]:
        place = choice["index"]
        assert (texts[place], reasons[place]) == (choice["text"], choice["finish_reason"])
        assert tokens[place] == choice["logprobs"]["tokens"]
    assert len(texts) == len(whole["choices"]) == 6


def test_each_streamed_choice_begins_with_its_prompt_if_that_is_asked_for(client: TestClient) -> None:
    asked = {"model": "words", "prompt": ["red dog", "old house"], "n": 2, "max_tokens": 2, "echo": True}
    found = events(client, "/v1/completions", asked)
    firsts = [each["choices"][0] for each in found[:4]]
    assert [(each["index"], each["text"]) for each in firsts] == [
        (0, "red dog"),
        (1, "red dog"),
        (2, "old house"),
        (3, "old house"),
    ]


@pytest.mark.parametrize("how", [{"temperature": 0}, {"temperature": 1.5, "seed": 3}], ids=["greedy", "seed"])
def test_several_answers_of_a_chat_are_streamed_by_their_index(
    client: TestClient, how: dict[str, Any]
) -> None:
    asked = {"model": "words", "messages": [{"role": "user", "content": "red dog"}], "n": 2, **how}
    asked |= {"max_tokens": 5}
    whole = client.post("/v1/chat/completions", json=asked).json()
    found = events(client, "/v1/chat/completions", {**asked, "stream_options": {"include_usage": True}})
    assert found[-1]["usage"] == whole["usage"]
    said = defaultdict[int, str](str)
    for each in found[:-1]:
        said[each["choices"][0]["index"]] += each["choices"][0]["delta"].get("content", "")
    assert [said[index] for index in range(2)] == [each["message"]["content"] for each in whole["choices"]]


def test_what_is_wrong_with_one_of_several_prompts_is_told_before_the_stream_begins(
    client: TestClient,
) -> None:
    long = {"model": "words", "prompt": ["red dog", "red dog " * 100], "stream": True, "max_tokens": 30}
    answer = client.post("/v1/completions", json=long)
    told = answer.text
    assert "too long" in told
    assert "[DONE]" not in told


def test_streams_are_merged_as_they_come_and_end_together() -> None:
    ended: list[int] = []

    async def counting(number: int, error: Exception | None = None) -> AsyncIterator[int]:
        try:
            for each in range(3):
                await asyncio.sleep(0)
                yield each
            if error is not None:
                raise error
            await asyncio.sleep(0 if number else 60)
        finally:
            ended.append(number)

    async def work() -> None:
        found = defaultdict[int, list[int]](list)
        stream = merged([counting(1), counting(2)])
        async for number, each in stream:
            found[number].append(each)
        assert found == {0: [0, 1, 2], 1: [0, 1, 2]}
        assert sorted(ended) == [1, 2]
        with pytest.raises(ValueError, match="wrong"):
            async for _ in merged([counting(0), counting(3, ValueError("wrong"))]):
                pass
        assert sorted(ended) == [0, 1, 2, 3]  # the other has not gone on
        stream = merged([counting(0), counting(0)])
        await anext(stream)
        await stream.aclose()  # who hangs up
        assert sorted(ended) == [0, 0, 0, 1, 2, 3]

    apart(work())


# what clients send


def test_a_limit_that_is_null_is_none(client: TestClient) -> None:
    asked = {"model": "words", "messages": [{"role": "user", "content": "red dog"}], "temperature": 0}

    def written(**limits: int | None) -> int:
        answer = client.post("/v1/chat/completions", json={**asked, **limits})
        return int(answer.json()["usage"]["completion_tokens"])

    assert written(max_tokens=3, max_completion_tokens=None) == 3
    assert written(max_tokens=None, max_completion_tokens=4) == 4
    assert written(max_tokens=3, max_completion_tokens=4) == 4


def test_what_no_door_has_is_refused_in_the_shape_of_the_nearest(client: TestClient) -> None:
    for method, path, status in (
        ("POST", "/v1/responses", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models/words", 405),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert f"{method} {path} is not served here" in error["message"]
        assert error["type"] in ("not_found_error", "invalid_request_error")
    assert client.get("/v1/completions").headers["allow"] == "POST"
    assert [*client.get("/v2/nothing").json()] == ["message"]
    assert client.get("/v1/embed").json()["status"] == 405
    assert client.get("/nothing").json()["status"] == 404
