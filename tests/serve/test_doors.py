"""What doors make of a request, in a service of untrained models: which one is asked, and what is done beside
the loop."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.hub import Checkpoint
from regard.serve import aside
from regard.serve import service as services
from regard.serve.app import build_app
from regard.serve.doors import libretranslate, openai
from regard.serve.limits import Limits
from regard.serve.line import LateError
from regard.serve.models import Named
from regard.serve.service import LETTERS, Service
from regard.settings.models import ClassifyConfig, PoolConfig
from regard.tasks.base.encoders import save_checkpoint
from regard.tasks.language.generator import Generator
from tests.serve.models import answering
from tests.serve.server import apart
from tests.tasks.encoders import toys
from tests.tasks.folders import stored

LIMITS = Limits(characters=2000)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("doors")
    named = [f"{name}={stored(folder / name, kind)}" for name, kind in KINDS.items()]
    for name, labels, problem in (("stars", ["score"], "number"), ("pairs", ["no", "yes"], "single")):
        head = ClassifyConfig(labels=len(labels), pool=PoolConfig(kind="mean"))
        model = toys.model(head, vocabulary=len(toys.subwords()))
        own = {"tokenizer": toys.subwords(), "longest": 64, "labels": labels, "problem": problem}
        weights = dict(model.named_parameters())
        made = Checkpoint(config=model.config, weights=weights, **own)
        save_checkpoint(made, folder / name, "classify")
        named.append(f"{name}={folder / name}")
    answering(folder / "verse")
    service = Service([Named.of(each) for each in named], limits=LIMITS, device="cpu")
    yield service
    service.close()


KINDS = {"one": "embed", "other": "embed", "verse": "language"}


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(build_app(lambda: service), base_url="http://localhost") as client:
        yield client


CHAT = {"model": "verse", "messages": [{"role": "user", "content": "red dog"}], "max_tokens": 2}


def test_messages_are_put_into_the_template_beside_the_loop_and_only_if_they_are_short(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jinja and the tokenizer of one caller do not hold up the others."""
    loops: list[int] = []
    threads: list[int] = []
    own, chat = Generator.prompt, openai._chat_prompt

    def prompt(self: Generator, messages: Any, **more: Any) -> Any:
        threads.append(threading.get_ident())
        return own(self, messages, **more)

    async def asked(*given: Any) -> Any:
        loops.append(threading.get_ident())
        return await chat(*given)

    monkeypatch.setattr(Generator, "prompt", prompt)
    monkeypatch.setattr(openai, "_chat_prompt", asked)
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
    assert threads[0] != loops[0]
    for content in ("a" * 2001, [{"type": "text", "text": "a" * 2001}]):
        long = {**CHAT, "messages": [{"role": "user", "content": content}]}
        assert client.post("/v1/chat/completions", json=long).status_code == 413
    assert client.post("/v1/chat/completions", json={**CHAT, "chat_template_kwargs": {"a": "a" * 2001}})
    assert (len(threads), len(loops)) == (1, 4)


def test_what_is_long_is_counted_beside_the_loop(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    tokenizer = service.models.named("one", ["embed"]).predictor.tokenizer
    own = type(tokenizer).encode_batch

    def encode(self: Any, texts: Any, *given: Any, **more: Any) -> Any:
        threads.append(threading.get_ident())
        return own(self, texts, *given, **more)

    monkeypatch.setattr(type(tokenizer), "encode_batch", encode)
    monkeypatch.setattr(aside, "LARGE", 100)
    body = {"model": "one", "input": ["red dog"] * 20}
    assert client.post("/v1/embeddings", json=body).json()["usage"]["prompt_tokens"] == 40
    short = {"model": "one", "input": ["red dog"]}
    assert client.post("/v1/embeddings", json=short).json()["usage"]["prompt_tokens"] == 2
    assert threads[-2] != threads[-1]


def test_what_is_beside_the_loop_has_an_end() -> None:
    """A request is answered at its deadline, also while its markup is read."""
    ended = threading.Event()
    try:
        with pytest.raises(LateError):
            apart(aside.aside(aside.LARGE + 1, lambda: ended.wait(1), time.monotonic() + 0.05))
    finally:
        ended.set()


PAIR = {"query": "red dog", "texts": ["old house", "dog sees river"]}


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank"])
def test_a_misspelt_model_is_told_and_not_replaced_by_another(client: TestClient, path: str) -> None:
    body = {**PAIR, "documents": PAIR["texts"]}
    found = {name: client.post(path, json={**body, "model": name}).json() for name in ("one", "pairs")}
    assert client.post(path, json=body).json() == found["one"]
    assert found["one"] != found["pairs"]
    if path == "/v1/rerank":
        assert {name: each["model"] for name, each in found.items()} == {"one": "one", "pairs": "pairs"}
    refused = client.post(path, json={**body, "model": "oen"})
    assert refused.status_code == 404
    assert "there are one, other, stars, pairs" in refused.json()["error"]


def test_a_regression_gives_its_number(client: TestClient, service: Service) -> None:
    texts = ["red dog", "old house"]
    wanted = [each.value for each in service.models.named("stars", ["classify"]).predictor.classify(texts)]
    for more in ({}, {"raw_scores": True}):
        body = {"model": "stars", "inputs": [[text] for text in texts], **more}
        found = client.post("/predict", json=body).json()
        assert [[each["label"] for each in own] for own in found] == [["LABEL_0"]] * 2
        assert [own[0]["score"] for own in found] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("model", ["one", "pairs"])
def test_raw_scores_are_refused_where_there_are_none(client: TestClient, model: str) -> None:
    for path, body in (("/rerank", PAIR), ("/predict", {"inputs": [["red dog", "dog"]]})):
        if (model, path) != ("one", "/predict"):
            refused = client.post(path, json={**body, "model": model, "raw_scores": True})
            assert refused.status_code == 422
            assert f"raw_scores: {model} gives" in refused.json()["error"]
            assert client.post(path, json={**body, "model": model, "raw_scores": False}).status_code == 200


def test_tokens_of_batches_are_those_of_the_parts_that_are_in_them(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that takes several batches is counted once, and has waited once."""
    names = ("batch_tokens_sum", "batch_tokens_count", "batch_requests_total", "wait_seconds_count")

    def told() -> list[float]:
        registry, about = service.metrics.registry, {"model": "other"}
        return [registry.get_sample_value(f"regard_{name}", about) or 0.0 for name in names]

    def ask(count: int) -> None:
        body = {"model": "other", "inputs": ["red dog"] * count}
        assert client.post("/embed", json=body).status_code == 200

    monkeypatch.setattr(service.models.named("other", ["embed"]).lane, "budget", 40)
    ask(1)  # taken with the budget that was
    before = told()
    ask(30)
    cost = 30 * (len("red dog") // LETTERS + 2)
    found = [after - own for after, own in zip(told(), before, strict=True)]
    assert found == [cost, -(-cost // 40), 1, 1]


def test_the_coldest_temperatures_give_the_likeliest_token(client: TestClient) -> None:
    asked = {"model": "verse", "prompt": "red dog", "max_tokens": 4}
    found = [client.post("/v1/completions", json={**asked, "temperature": each}) for each in (0, 1e-45, 1e-9)]
    texts = [each.json()["choices"][0]["text"] for each in found]
    assert texts[0]
    assert len({*texts}) == 1


def test_who_uploads_very_many_files_loses_their_own() -> None:
    files = libretranslate._Files()

    def put(caller: str) -> str:
        return files.put(libretranslate._File("a.txt", b"", "text/plain", time.monotonic() + 60, caller))

    kept = [put("few") for _ in range(3)]
    many = [put("many") for _ in range(2 * libretranslate.KEPT_FILES)]
    assert all(files.get(each) for each in [*kept, many[-1]])
    assert files.get(many[0]) is None
    assert len(files._files) == libretranslate.KEPT_FILES


def test_new_models_are_warmed_and_one_folder_that_cannot_be_read_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [stored(tmp_path / name, "embed") for name in ("gone", "new")]
    service = Service([Named.of(str(each)) for each in folders], device="cpu")
    greeted: list[str] = []
    own = services.stamp_of

    def stamp(folder: Path, adapter: Path | None = None) -> Any:
        if folder.name == "gone":
            raise FileNotFoundError(folder / "config.json")
        return own(folder, adapter)

    monkeypatch.setattr(services, "stamp_of", stamp)
    monkeypatch.setattr(service, "_greet", lambda served: greeted.append(served.name))
    (folders[1] / "metrics.json").touch()
    try:
        before = service.models.named("new", ["embed"])
        assert service.reload(warm=True) == ["new"]
        assert {*greeted} == {"new"}
        assert service.models.named("new", ["embed"]) is not before
    finally:
        service.close(1)
