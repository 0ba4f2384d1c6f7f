"""What the `openai` package and langchain's make of the service."""

import base64
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openai
import pytest
from numpy.testing import assert_allclose

from regard.decode import DecodeConfig
from tests.serve.server import serving

TEXTS = ["A dog barks.", "Guten Morgen!", "The ship sails."]
PROMPT = "ROMEO: But, soft!"
GREEDY = DecodeConfig(method="greedy")


@pytest.fixture(scope="module")
def client(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_vectors_are_those_of_the_python_api(client, alone):
    """The client asks for base64 unless it is told otherwise, and gives plain numbers either way."""
    wanted = alone("minilm").embed(TEXTS)
    for form in ({}, {"encoding_format": "float"}):
        found = client.embeddings.create(model="minilm", input=TEXTS, **form)
        assert_allclose([each.embedding for each in found.data], wanted, rtol=1e-4, atol=1e-6)
        assert [each.index for each in found.data] == [0, 1, 2]
        assert found.usage.prompt_tokens == found.usage.total_tokens > 0
    raw = client.embeddings.create(model="minilm", input=TEXTS[0], encoding_format="base64").data[0]
    assert_allclose(
        np.frombuffer(base64.b64decode(raw.embedding), np.float32), wanted[0], rtol=1e-4, atol=1e-6
    )


def test_dimensions_are_the_first_ones_of_length_one(client, alone):
    found = client.embeddings.create(model="minilm", input=TEXTS, dimensions=64)
    short = alone("minilm").embed(TEXTS)[:, :64]
    wanted = short / np.linalg.norm(short, axis=1, keepdims=True)
    assert_allclose([each.embedding for each in found.data], wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(openai.BadRequestError, match="dimensions=1000 must be from 1 to 384"):
        client.embeddings.create(model="minilm", input="x", dimensions=1000)


def test_which_text_is_too_long_is_told(client):
    """Also of a request that the model reads in parts."""
    texts = ["a ship sails over the sea " * 30] * 20 + ["word " * 600]
    told = r"input:21: too long .* shorten it, or send it in parts"
    with pytest.raises(openai.BadRequestError, match=told):
        client.embeddings.create(model="minilm", input=texts)


def test_token_ids_are_refused_with_the_remedy(client):
    for tokens in ([1, 2, 3], [[1, 2], [3]]):
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            client.embeddings.create(model="minilm", input=tokens)


def test_a_greedy_completion_is_that_of_the_python_api(client, alone):
    found = client.completions.create(model="verse", prompt=PROMPT, max_tokens=8, temperature=0)
    [wanted] = alone("verse").generate(PROMPT, max_tokens=8, decoding=GREEDY)
    assert found.choices[0].text == wanted.text
    assert found.choices[0].finish_reason == {"end": "stop"}.get(wanted.finished, wanted.finished)
    assert found.usage.completion_tokens == len(wanted.ids)
    assert found.object == "text_completion"


def test_a_seed_repeats_samples_and_without_one_they_differ(client):
    def sampled(**given):
        found = client.completions.create(
            model="verse", prompt=PROMPT, max_tokens=24, n=3, temperature=2.0, **given
        )
        return [choice.text for choice in found.choices]

    assert len(set(sampled(seed=1))) == 3
    assert sampled(seed=1) == sampled(seed=1) != sampled(seed=2)
    assert sampled() != sampled()


def test_a_stream_is_the_same_text_in_parts(client):
    given = {"model": "verse", "prompt": PROMPT, "max_tokens": 12, "seed": 3}
    whole = client.completions.create(**given).choices[0]
    parts = [chunk.choices[0] for chunk in client.completions.create(**given, stream=True)]
    assert "".join(part.text for part in parts) == whole.text
    assert [part.finish_reason for part in parts][-1] == whole.finish_reason
    assert len(parts) > 4


def test_stop_echo_and_log_probabilities(client):
    given = {"model": "verse", "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**given).choices[0].text
    stop = whole.split()[1]
    stopped = client.completions.create(**given, stop=stop).choices[0]
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.finish_reason == "stop"
    both = client.completions.create(**given, stop=["never there", stop]).choices[0]
    assert both.text == stopped.text
    echoed = client.completions.create(**given, echo=True).choices[0].text
    assert echoed == PROMPT + whole
    told = client.completions.create(**given, logprobs=1).choices[0].logprobs
    assert len(told.tokens) == len(told.token_logprobs) == len(told.text_offset) == 8
    assert all(score <= 0 for score in told.token_logprobs)


def test_log_probabilities_come_in_a_stream_too(client):
    given = {"model": "verse", "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 1}
    whole = client.completions.create(**given).choices[0].logprobs
    parts = [each.choices[0].logprobs for each in client.completions.create(**given, stream=True)]
    (told,) = [each for each in parts if each is not None]
    assert told.tokens == whole.tokens
    assert told.token_logprobs == pytest.approx(whole.token_logprobs, abs=1e-4)
    assert [{*each} for each in whole.top_logprobs] == [{token} for token in whole.tokens]


def test_a_stream_ends_with_its_tokens_where_that_is_asked_for_and_is_counted_once(client, server):
    given = {"model": "verse", "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**given)
    before = server.metric("regard_requests_total")
    usage = {"stream_options": {"include_usage": True}}
    *parts, last = [*client.completions.create(**given, stream=True, **usage)]
    assert (last.usage, last.choices) == (whole.usage, [])
    assert all(part.usage is None for part in parts)
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
    until = time.monotonic() + 5  # the client need not wait for what comes behind its last part
    while (ended := server.metric("regard_requests_total")) == before and time.monotonic() < until:
        time.sleep(0.02)
    assert ended == before + 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"presence_penalty": 0.5}, "presence_penalty=0.5 is not served here"),
        ({"frequency_penalty": -1}, "frequency_penalty=-1 is not served here"),
        ({"best_of": 3}, "best_of=3 is not served here"),
        ({"suffix": "x"}, "suffix='x' is not served here"),
        ({"logit_bias": {"50256": -100}}, "logit_bias="),
        ({"logprobs": 5}, "logprobs=5 must be from 0 to 1"),
        ({"logprobs": 1, "echo": True}, "echo with logprobs"),
        ({"prompt": [], "stream": True}, "prompt is an empty list"),
        ({"prompt": []}, "prompt is an empty list"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(server, more, told):
    answer = server.post("/v1/completions", {"model": "verse", "prompt": PROMPT, **more})
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]


def test_what_changes_nothing_is_taken(server):
    usual = {"presence_penalty": 0, "frequency_penalty": 0.0, "best_of": 1, "suffix": None, "logit_bias": {}}
    fields = {"model": "verse", "prompt": PROMPT, "max_tokens": 2, **usual}
    assert server.post("/v1/completions", fields).status_code == 200


def test_several_prompts_have_several_texts_in_their_order(client, alone):
    prompts = ["ROMEO:", "what light", "But, soft!"]
    found = client.completions.create(model="verse", prompt=prompts, max_tokens=5, temperature=0, n=2)
    wanted = alone("verse").generate(prompts, max_tokens=5, decoding=GREEDY)
    assert [choice.text for choice in found.choices] == [each.text for [each] in wanted for _ in range(2)]
    assert [choice.index for choice in found.choices] == [*range(6)]


def test_models_are_listed_and_found(client):
    assert "minilm" in [each.id for each in client.models.list()]
    assert client.models.retrieve("verse").id == "verse"
    with pytest.raises(openai.NotFoundError, match="no model 'none'"):
        client.models.retrieve("none")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n": 10**9}, "n=1000000000 must be from 1 to 8"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"prompt": ""}, None),
        ({"stop": [""]}, "stop"),
        ({"prompt": [[1, 2]]}, "prompt should be a text"),
        ({"prompt": "long " * 100}, "where the model reads 64 with what follows; shorten it$"),
    ],
)
def test_mistakes_are_the_exceptions_of_the_client(client, fields, said):
    given = {"model": "verse", "prompt": PROMPT, **fields}
    if said is None:
        assert client.completions.create(**given).choices
        return
    with pytest.raises(openai.BadRequestError, match=said):
        client.completions.create(**given)


def test_keys_are_asked_for_and_a_full_line_says_when_to_come_back(models, tmp_path):
    """The client waits as it is told, and is answered."""
    (tmp_path / "keys").write_text("# who may ask\nsecret-one\nsecret-two\n", encoding="utf-8")
    options = ("--keys", tmp_path / "keys", "--max-waiting", "1")
    with serving(f"verse={models / 'slow-verse'}", *options) as running:
        given = {"model": "verse", "prompt": PROMPT, "max_tokens": 300, "temperature": 0}
        url = f"{running.url}/v1"
        wrong = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
        with wrong, pytest.raises(openai.AuthenticationError, match="no valid key"):
            wrong.completions.create(**given)
        with openai.OpenAI(base_url=url, api_key="secret-two", max_retries=0) as client:
            with ThreadPoolExecutor(20) as pool:
                asked = [pool.submit(client.completions.create, **given) for _ in range(20)]
            errors = [each.exception() for each in asked]
            busy = [each for each in errors if isinstance(each, openai.RateLimitError)]
            assert 0 < len(busy) == sum(each is not None for each in errors) < 20
            assert all(int(each.response.headers["retry-after"]) >= 1 for each in busy)
            patient = client.with_options(max_retries=5)
            assert patient.completions.create(**{**given, "max_tokens": 2}).choices


class Bytes:
    """In the place of tiktoken's encodings, which come from the network."""

    def encode_ordinary(self, text: str) -> list[int]:
        return [*text.encode()]

    def encode(self, text: str, **_: object) -> list[int]:
        return [*text.encode()]


def test_langchain_gets_its_vectors_and_is_told_the_setting_it_needs(server, alone, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        from langchain_openai import OpenAIEmbeddings

        given = {"model": "minilm", "base_url": f"{server.url}/v1", "api_key": "none", "max_retries": 0}
        texts = OpenAIEmbeddings(**given, check_embedding_ctx_length=False)
        found = texts.embed_documents(TEXTS)
        assert_allclose(found, alone("minilm").embed(TEXTS), rtol=1e-4, atol=1e-6)
        assert_allclose(texts.embed_query(TEXTS[0]), found[0], rtol=1e-4, atol=1e-6)
        monkeypatch.setattr("tiktoken.encoding_for_model", lambda name: Bytes())
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            OpenAIEmbeddings(**given).embed_documents(TEXTS)


MESSAGES = [{"role": "user", "content": "But, soft!"}]


def test_a_chat_is_that_of_the_python_api(client, alone):
    found = client.chat.completions.create(model="verse", messages=MESSAGES, max_tokens=8, temperature=0)
    wanted = alone("verse").chat(MESSAGES, max_tokens=8, decoding=GREEDY)
    assert wanted.prompt == PROMPT
    assert found.choices[0].message.content == wanted.text
    assert found.choices[0].message.role == "assistant"
    assert found.choices[0].finish_reason == {"end": "stop"}.get(wanted.finished, wanted.finished)
    assert found.usage.completion_tokens == len(wanted.ids)
    assert found.usage.prompt_tokens == len(alone("verse").prompt(MESSAGES).ids)
    assert found.object == "chat.completion"
    said = client.chat.completions.create(
        model="verse",
        messages=MESSAGES,
        max_tokens=8,
        temperature=0,
        extra_body={"chat_template_kwargs": {"juliet": True}},
    )
    wanted_so = alone("verse").chat(
        MESSAGES, chat_template_kwargs={"juliet": True}, max_tokens=8, decoding=GREEDY
    )
    assert said.choices[0].message.content == wanted_so.text
    assert said.usage.prompt_tokens > found.usage.prompt_tokens
    several = client.chat.completions.create(
        model="verse", messages=MESSAGES, max_completion_tokens=8, temperature=0, n=2
    )
    assert [each.message.content for each in several.choices] == [wanted.text] * 2


def test_a_chat_that_is_streamed_is_the_same_text_in_parts(client):
    given = {"model": "verse", "messages": MESSAGES, "max_tokens": 12, "seed": 3}
    whole = client.chat.completions.create(**given)
    asked = client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True})
    *chunks, last = [*asked]
    assert chunks[0].choices[0].delta.role == "assistant"
    said = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(said) == whole.choices[0].message.content
    assert len([each for each in said if each]) > 1
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert last.usage == whole.usage


def test_messages_that_make_no_dialogue_are_refused(client):
    for messages, word in (
        ([], "a list of messages"),
        ([{"role": "user"}], "content=None"),
        ([{"content": "x"}], "role=None"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "only texts"),
        ([{"role": "tool", "content": "x"}], "no tools"),
    ):
        with pytest.raises(openai.BadRequestError, match=word):
            client.chat.completions.create(model="verse", messages=messages)
    with pytest.raises(openai.BadRequestError, match="messages is set by regard"):
        client.chat.completions.create(
            model="verse", messages=MESSAGES, extra_body={"chat_template_kwargs": {"messages": []}}
        )
    tools = [{"type": "function", "function": {"name": "f"}}]
    with pytest.raises(openai.BadRequestError, match="tools is not served"):
        client.chat.completions.create(model="verse", messages=MESSAGES, tools=tools)
    parts = [{"role": "user", "content": [{"type": "text", "text": "But, soft!"}]}]
    first = client.chat.completions.create(model="verse", messages=parts, temperature=0, max_tokens=4)
    second = client.chat.completions.create(model="verse", messages=MESSAGES, temperature=0, max_tokens=4)
    assert first.choices[0].message.content == second.choices[0].message.content
