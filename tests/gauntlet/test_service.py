"""The service for minutes: more than it can hold, and all its clients at once, some of whom hang up."""

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import deepl
import httpx
import openai
import pytest
from libretranslatepy import LibreTranslateAPI
from numpy.testing import assert_allclose

import regard
from regard.decode import DecodeConfig
from tests.examples import FILMS, PAIRS
from tests.serve.models import NAMED, make
from tests.serve.server import Running, serving
from tests.serve.test_own import ASKED, close, expected
from tests.serve.test_robust import LONG, head, refused_early, talk

SECONDS = float(os.environ.get("SECONDS", "60"))
MIXED = float(os.environ.get("MIXED", "120"))
"""Seconds of all clients at once; half an hour is MIXED=1800."""
AT_ONCE = 400
"""Connections that are open at the same time."""
ASKING = int(os.environ.get("ASKING", "12"))
POOL = min(32, (os.cpu_count() or 1) + 4)
"""Threads for what takes long beside the loop, at most: asyncio begins one when it needs it."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "all"
    make(folder)
    return folder / "runs"


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Running]:
    with serving(*(f"{name}={models / name}" for name in NAMED), "--warm", "--quiet") as running:
        yield running


async def post(port: int, path: str, fields: Any) -> tuple[int, float, bytes]:
    """Status, seconds, and the headers and body of the answer."""
    body = json.dumps(fields).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    request = head(path, "Connection: close", f"Content-Length: {len(body)}") + body
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return int(answer[9:12]), time.monotonic() - began, answer


BYSTANDER = """
import json, socket, sys, time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
request, found, until = sys.stdin.buffer.read(), [], time.monotonic() + seconds
while time.monotonic() < until:
    with socket.create_connection(("127.0.0.1", port)) as own:
        began = time.monotonic()
        own.sendall(request)
        answer = own.recv(16)
        took = time.monotonic() - began
        while own.recv(65_536):
            pass
    found.append((int(answer[9:12]), took))
    time.sleep(0.02)
print(json.dumps(found))
"""
"""One who asks again and again, in a process of its own: 600 callers of one process, on the cores of the
service, also wait for one another."""


@contextmanager
def bystander(port: int, request: bytes, seconds: float) -> Iterator[list[tuple[int, float]]]:
    """Status and seconds of each answer; all of them are there at the end."""
    found: list[tuple[int, float]] = []
    own = [sys.executable, "-S", "-c", BYSTANDER, str(port), str(seconds)]
    with subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.close()
        yield found
        assert process.stdout is not None
        found += json.loads(process.stdout.read())


@pytest.mark.long
def test_a_minute_of_ten_times_what_it_can_hold(models, record_property):
    """From its first second on: whoever is let in is answered before the deadline, others are told at once,
    and memory stays flat."""
    found: list[tuple[int, float]] = []
    with serving(f"en-de={models / 'slow'}", "--warm", "--quiet") as running:
        memory: list[float] = []

        async def load(seconds: float, callers: int) -> None:
            until = time.monotonic() + seconds

            async def ask() -> None:
                while time.monotonic() < until:
                    status, took, answer = await post(running.port, "/v1/translate", LONG)
                    found.append((status, took))
                    if status == 429:
                        assert b"retry-after: " in answer.lower()
                        await asyncio.sleep(random.uniform(0.5, 1.5))

            async def watch() -> None:
                while time.monotonic() < until:
                    memory.append(running.memory)
                    await asyncio.sleep(seconds / 60)

            await asyncio.gather(watch(), *(ask() for _ in range(callers)))

        asked = json.dumps(LONG).encode()
        request = head("/v1/translate", "Connection: close", f"Content-Length: {len(asked)}") + asked
        # this thread may have a loop, left by a browser's tests
        with ThreadPoolExecutor(1) as own, bystander(running.port, request, SECONDS - 1) as beside:
            own.submit(asyncio.run, load(SECONDS, 600)).result()
        began = time.monotonic()
        assert running.post("/v1/translate", LONG).status_code == 200
        alone = time.monotonic() - began
    codes = Counter(status for status, _ in found)
    refused = sorted(took for status, took in found if status == 429)
    told_off = sorted(took for status, took in beside if status == 429)
    answered = sorted(took for status, took in found if status == 200)
    third = len(memory) // 3  # it goes up and down by a tenth, as batches come and go: the highest counts
    before, after = max(memory[: 2 * third]), max(memory[2 * third :])
    told = {
        "codes": dict(codes),
        "429, median and 99 %, ms": [
            round(1000 * refused[len(refused) * part // 100], 1) for part in (50, 99)
        ],
        "429 beside them, median, 99 % and longest, ms": [
            round(1000 * told_off[min(len(told_off) * part // 100, len(told_off) - 1)], 1)
            for part in (50, 99, 100)
        ],
        "429 beside them": len(told_off),
        "200, 99 % and longest, s": [round(answered[len(answered) * 99 // 100], 2), round(answered[-1], 2)],
        "memory, MB": [round(before), round(after)],
        "alone afterwards, s": round(alone, 2),
    }
    record_property("cases", len(found))
    record_property("failures", len(found) - codes[200] - codes[429])
    record_property("figures", json.dumps(told))
    print(told)  # noqa: T201
    assert codes[200] + codes[429] >= 0.99 * len(found)
    assert {*codes} <= {200, 429, 503}
    assert codes[429] > 5 * codes[200]
    assert statistics.median(refused) < 0.05
    assert len(told_off) > SECONDS
    assert told_off[len(told_off) * 99 // 100] < 0.05
    assert codes[503] <= 0.01 * (codes[200] + codes[503])
    assert after < before * 1.05
    assert alone < 3


@pytest.mark.long
def test_a_gigabyte_and_ten_thousand_connections(server):
    memory, files = server.memory, server.files
    answer, sent = refused_early(server.port, "application/json", 1_000_000_000)
    assert answer.startswith(b"HTTP/1.1 413")
    assert sent < 100_000_000
    for _ in range(10_000 // AT_ONCE):
        with ExitStack() as stack:
            for number in range(AT_ONCE):
                stack.enter_context(talk(server.port, *([b"GET /health HT"] if number % 2 else [])))
    assert server.post("/v1/embed", {"texts": "x"}).status_code == 200
    time.sleep(1)
    assert server.memory < memory * 1.05
    assert server.files <= files + 5


# all clients at once


class Clients:
    """Each method asks for something at random, and compares the answer with the Python API's."""

    def __init__(self, running: Running, models: Path) -> None:
        self.running, self.chance = running, random.Random(1)
        self.alone: Callable[[str], Any] = {
            name: regard.load(models / name, device="cpu") for name in NAMED
        }.__getitem__
        self.known = {method: self._singles(method) for method in ASKED}
        texts = [text for text, _ in FILMS]
        self.vectors = dict(zip(texts, self.alone("minilm").embed(texts), strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own
            from langchain_openai import OpenAIEmbeddings
        given: Any = {"model": "minilm", "base_url": f"{running.url}/v1", "api_key": "x", "max_retries": 0}
        self.langchain = OpenAIEmbeddings(**given, check_embedding_ctx_length=False)
        greedy = DecodeConfig(method="greedy")
        prompts = ["ROMEO: But,", "what light", "soft! what", "through"]
        found = self.alone("verse").generate(prompts, max_tokens=20, decoding=greedy)
        self.written = {prompt: each.text for prompt, [each] in zip(prompts, found, strict=True)}

    def _singles(self, method: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Requests for one text each, and what is to come back."""
        name = "questions" if method == "answer" else "texts"
        found = []
        for text in ASKED[method][name]:
            fields = {**ASKED[method], name: [text]}
            found.append((fields, expected(self.alone, method, fields)[0]))
        return found

    def own(self, client: httpx.Client) -> None:
        method = self.chance.choice([*ASKED])
        fields, wanted = self.chance.choice(self.known[method])
        answer = client.post(f"/v1/{method}", json=fields)
        assert answer.status_code == 200, answer.text
        close(answer.json()["results"], [wanted])

    def several(self, client: httpx.Client) -> None:
        chosen = self.chance.choices(self.known["translate"], k=4)
        texts = [text for fields, _ in chosen for text in fields["texts"]]
        answer = client.post("/v1/translate", json={"texts": texts})
        assert answer.status_code == 200, answer.text
        close(answer.json()["results"], [wanted for _, wanted in chosen])

    def libretranslate(self, client: httpx.Client) -> None:
        source, _ = self.chance.choice(PAIRS)
        answer = client.post("/translate", data={"q": source, "source": "en", "target": "de"})
        wanted = next(each for fields, each in self.known["translate"] if fields["texts"] == [source])
        assert answer.json()["translatedText"] == wanted["text"]

    def openai_vectors(self, client: httpx.Client) -> None:
        texts = self.chance.sample([*self.vectors], 3)
        with openai.OpenAI(base_url=f"{self.running.url}/v1", api_key="x", max_retries=0) as asked:
            found = asked.embeddings.create(model="minilm", input=texts)
        wanted = [self.vectors[text] for text in texts]
        assert_allclose([each.embedding for each in found.data], wanted, rtol=1e-3, atol=1e-5)

    def libretranslates_client(self, client: httpx.Client) -> None:
        [source], wanted = self._drawn()
        assert LibreTranslateAPI(self.running.url).translate(source, "en", "de") == wanted

    def deepls_client(self, client: httpx.Client) -> None:
        [source], wanted = self._drawn()
        asked = deepl.DeepLClient("any", server_url=self.running.url)
        try:
            found = asked.translate_text([source, source], source_lang="EN", target_lang="DE")
        finally:
            asked.close()
        assert [each.text for each in found] == [wanted] * 2

    def _drawn(self) -> tuple[list[str], str]:
        fields, wanted = self.chance.choice(self.known["translate"])
        return fields["texts"], wanted["text"]

    def langchains_vectors(self, client: httpx.Client) -> None:
        texts = self.chance.sample([*self.vectors], 2)
        found = self.langchain.embed_documents(texts)
        assert_allclose(found, [self.vectors[text] for text in texts], rtol=1e-3, atol=1e-5)

    def tei_vectors(self, client: httpx.Client) -> None:
        text = self.chance.choice([*self.vectors])
        found = client.post("/embed", json={"inputs": text}).json()
        assert_allclose(found, [self.vectors[text]], rtol=1e-3, atol=1e-5)

    def completion(self, client: httpx.Client) -> None:
        prompt = self.chance.choice([*self.written])
        given = {"model": "verse", "prompt": prompt, "max_tokens": 20, "temperature": 0}
        with openai.OpenAI(base_url=f"{self.running.url}/v1", api_key="x", max_retries=0) as asked:
            if self.chance.random() < 0.5:
                text = asked.completions.create(**given).choices[0].text
            else:
                parts = asked.completions.create(**given, stream=True)
                text = "".join(part.choices[0].text for part in parts)
        assert text == self.written[prompt]

    def hang_up(self, client: httpx.Client) -> None:
        path, fields = self.chance.choice(
            [
                ("/v1/translate", {"texts": [source for source, _ in PAIRS] * 8}),
                ("/v1/completions", {"prompt": "ROMEO:", "max_tokens": 60, "stream": True}),
                ("/v1/completions", {"prompt": "ROMEO:", "max_tokens": 60, "n": 4}),
                ("/embed", {"inputs": ["word " * 100] * 50}),
            ]
        )
        body = json.dumps(fields).encode()
        request = head(path, f"Content-Length: {len(body)}", "Content-Type: application/json") + body
        cut = self.chance.choice([len(request), len(request), len(request) // 2])
        with socket.create_connection(("127.0.0.1", self.running.port), timeout=10) as connection:
            connection.sendall(request[:cut])
            time.sleep(self.chance.random() * 0.05)


WAYS = (
    "own",
    "own",
    "own",
    "several",
    "libretranslate",
    "libretranslates_client",
    "deepls_client",
    "langchains_vectors",
    "openai_vectors",
    "tei_vectors",
    "completion",
    "hang_up",
)


@pytest.mark.long
def test_all_clients_at_once_are_answered_as_in_python_and_nothing_grows(server, models, record_property):
    clients = Clients(server, models)
    found: Counter[str] = Counter()
    wrong: list[str] = []
    seen: list[tuple[float, int, int]] = []
    until = time.monotonic() + MIXED

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        with server.client() as client:
            while time.monotonic() < until:
                way = chance.choice(WAYS)
                try:
                    getattr(clients, way)(client)
                except BaseException as error:
                    wrong.append(f"{way}: {error!r:.300}")
                found[way] += 1

    def watch() -> None:
        while time.monotonic() < until - 1:
            seen.append((server.memory, server.threads, server.files))
            time.sleep(MIXED / 60)

    watching = threading.Thread(target=watch)
    watching.start()
    with ThreadPoolExecutor(ASKING) as pool:
        for each in [pool.submit(ask, seed) for seed in range(ASKING)]:
            each.result()
    watching.join()
    time.sleep(1)
    assert server.metric("regard_tokens") == 0
    third = len(seen) // 3
    before, after = seen[third : 2 * third], seen[2 * third :]
    columns = [[statistics.median(each) for each in zip(*part, strict=True)] for part in (before, after)]
    record_property("cases", found.total())
    record_property("failures", len(wrong))
    record_property("memory, threads, files", columns)
    assert Counter(each[:120] for each in wrong) == {}
    (memory, threads, files), (memory_after, threads_after, files_after) = columns
    assert memory_after < memory * 1.05
    assert threads_after <= threads + POOL
    assert files_after <= files + ASKING
