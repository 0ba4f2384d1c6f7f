"""A reranker from a recipe to the prompt: learned, kept, resumed, used, exported."""

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console
from safetensors.torch import load_file

import regard
from regard.config import ConfigError
from regard.deploy.exchange import export_model
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.reranking import commands
from regard.tasks.reranking.batches import RankedFeed
from regard.tasks.reranking.reranker import Reranker
from regard.text import DataError
from tests.tasks.encoders import toys

pytestmark = pytest.mark.usefixtures("unchecked")


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """A text is an answer if it has the sun in it. The teacher's scores say so by a margin of 4."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        others = [each for each in toys.WORDS if each != "sun"]
        texts = [" ".join(chance.choices(others, k=chance.randint(2, 5))) for _ in range(4)]
        right = texts.pop().split()
        right[chance.randrange(len(right))] = "sun"
        query = " ".join(chance.choices(others, k=2))
        negatives = [each for each in dict.fromkeys(texts) if each != query]
        scores = [4.0] + [0.0] * len(negatives)
        found.append({"query": query, "positive": " ".join(right), "negatives": negatives, "scores": scores})
    return found


def write(folder: Path, name: str, found: list[dict[str, Any]]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return name


def recipe(folder: Path, steps: int = 150, **tables: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "task": "rerank",
        "data": {
            "train": write(folder, "train.jsonl", rows(300, 0)),
            "valid": write(folder, "valid.jsonl", rows(60, 1)),
            "root": str(folder),
        },
        "tokenizer": {"kind": "words", "vocabulary": 30},
        "model": {**toys.TINY, "dropout": 0.0},
        "head": {"dropout": 0.0},
        "batch": {"tokens": 600},
        "optimizer": {"learning_rate": 5e-3, "warmup": 10},
        "train": {"steps": steps, "validate_every": steps // 2, "log_every": 5, "save_every": 5},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def metrics(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())


@pytest.mark.parametrize("kind", ["softmax", "binary", "margin"])
def test_every_loss_teaches_it(tmp_path: Path, kind: str) -> None:
    scores = {"data": {"scores": "scores"}} if kind == "margin" else {}
    test = write(tmp_path / "text", "test.jsonl", rows(60, 2))
    plain = recipe(tmp_path / "text", loss={"kind": kind}, **scores)
    plain["data"]["test"] = test
    _, said = toys.train(plain, tmp_path / "out")
    assert "300 queries with" in said
    found = metrics(tmp_path / "out")
    assert found["valid"]["accuracy_at_1"] > 0.9
    assert found["test"]["mrr"] > 0.9
    reranker = regard.load(tmp_path / "out", regard.Reranker, device="cpu")
    assert reranker.activation == ("sigmoid" if kind == "binary" else "none")
    [best, *_] = reranker.rerank("old tree", ["red dog", "old house", "tree sun"])
    assert best.row == 2
    if kind == "binary":
        assert best.score > 0.8
    if kind == "margin":
        right, wrong = reranker.scores(["old", "old"], ["tree sun", "tree dog"])
        assert right - wrong == pytest.approx(4, abs=1.5)


def test_a_run_in_two_sittings_is_the_run_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = recipe(tmp_path / "text", steps=20)
    toys.train(plain, tmp_path / "whole")
    parts = RankedFeed.parts

    def until(own: Any, at: int, split: int = 1) -> Any:
        if at >= 12:
            raise KeyboardInterrupt
        return parts(own, at, split)

    monkeypatch.setattr(RankedFeed, "parts", until)
    with pytest.raises(KeyboardInterrupt):
        toys.train(plain, tmp_path / "parted")
    monkeypatch.undo()
    outcome, _ = toys.train(None, tmp_path / "parted", resume=True)
    assert outcome.step == 20
    for name in ("model.safetensors", "checkpoint.safetensors"):
        ours, theirs = (load_file(tmp_path / each / name) for each in ("whole", "parted"))
        assert all((ours[key] == theirs[key]).all() for key in ours), name


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rerank")
    toys.train(recipe(folder / "text", steps=60, head={"pool": "mean"}), folder / "out")
    return folder


def test_one_that_goes_on_from_another_keeps_its_head(trained: Path, tmp_path: Path) -> None:
    plain = recipe(tmp_path / "text", steps=2, optimizer={"learning_rate": 1e-12})
    plain |= {"model": {"start": str(trained / "out")}}
    del plain["tokenizer"]
    toys.train(plain, tmp_path / "again")
    before, after = metrics(trained / "out")["valid"], metrics(tmp_path / "again")["valid"]
    assert after["loss"] == pytest.approx(before["loss"], rel=1e-3)
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["model"]["head"]["pool"]["kind"] == "mean"


def test_the_prompt_ranks_lines(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("red dog\n\nold sun\ntree house\n", encoding="utf-8")
    out = io.StringIO()
    console = Console(file=out, width=200)
    commands.rerank(trained / "out", "old dog", str(file), top=2, as_json=True, device="cpu", console=console)
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert (first["line"], first["text"]) == (3, "old sun")
    assert first["score"] > second["score"]
    commands.rerank(trained / "out", "old dog", str(file), device="cpu", console=console)
    assert out.getvalue().splitlines()[2].split()[1:] == ["3", "old", "sun"]
    with pytest.raises(ConfigError, match="the query is empty"):
        commands.rerank(trained / "out", " ", str(file), device="cpu", console=console)


def test_it_is_evaluated_as_it_was_validated(trained: Path) -> None:
    options = EvaluateOptions(files=[trained / "text" / "valid.jsonl"], device="cpu")
    found = commands.evaluate(trained / "out", options, Console(quiet=True))
    wanted = metrics(trained / "out")["valid"]
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    name, values = commands.examples(trained / "out", "cpu")
    assert name == "reciprocal rank"
    assert np.mean(values) == pytest.approx(wanted["mrr"], rel=1e-3)
    with pytest.raises(ConfigError, match="give that as MODEL, and this as --rerank"):
        commands.evaluate(trained / "out", EvaluateOptions(queries=Path("q")), Console(quiet=True))


@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_it_is_exported(trained: Path, tmp_path: Path, to: Any) -> None:
    said = io.StringIO()
    export_model(trained / "out", tmp_path / "theirs", to=to, console=Console(file=said, width=300))
    if to == "hf":
        pairs = [("sun", "old sun"), ("dog", "red house")]
        ours = regard.load(trained / "out", regard.Reranker, device="cpu").scores(*zip(*pairs, strict=True))
        from sentence_transformers import CrossEncoder

        assert_allclose(CrossEncoder(str(tmp_path / "theirs"), device="cpu").predict(pairs), ours, atol=1e-5)
        assert "CrossEncoder(" in said.getvalue()


def scorer(kind: Any = "mean") -> ClassifyConfig:
    return ClassifyConfig(labels=1, pool=PoolConfig(kind=kind))


def test_the_best_window_of_a_long_text_counts_and_the_query_is_in_each() -> None:
    reader = toys.reader(toys.model(scorer()), longest=16)
    reranker = Reranker(reader)
    words = list(np.random.default_rng(0).choice(toys.WORDS, size=40))
    found = float(reranker.scores(["red sun"], [" ".join(words)])[0])
    room = 16 - 3 - 2  # [CLS] red sun [SEP] ... [SEP]
    starts = [*range(0, 40 - room, room // 2), 40 - room]
    alone = reranker.scores(["red sun"] * len(starts), [" ".join(words[at : at + room]) for at in starts])
    assert found == pytest.approx(float(alone.max()), abs=1e-5)
    assert alone.max() - alone.min() > 1e-3


def test_what_is_too_long_is_never_cut_in_silence() -> None:
    reranker = Reranker(toys.reader(toys.model(scorer()), longest=16))
    long = " ".join(["sun"] * 40)
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 16 tokens"):
        reranker.scores(["red", "red"], ["dog", long], too_long="cut")
    with pytest.raises(DataError, match="too long"):
        reranker.scores(["red"], [long], too_long="error")
    with pytest.raises(DataError, match="a query that leaves no room for its text"):
        reranker.scores([long], ["dog"])


def test_a_score_does_not_depend_on_its_company() -> None:
    reranker = Reranker(toys.reader(toys.model(scorer())), "sigmoid")
    texts = [*toys.texts(20)]
    together = reranker.scores(["red sun"] * 20, texts)
    alone = [float(reranker.scores(["red sun"], [text])[0]) for text in texts]
    assert_allclose(together, alone, rtol=1e-5)
    raw = reranker.scores(["red sun"] * 20, texts, raw=True)
    assert_allclose(together, 1 / (1 + np.exp(-raw.astype(np.float64))), rtol=1e-5)
    ranked = reranker.rerank("red sun", texts, top=5)
    assert [each.row for each in ranked] == np.argsort(-raw, kind="stable")[:5].tolist()


def test_what_is_asked_wrongly_is_refused() -> None:
    reranker = Reranker(toys.reader(toys.model(scorer())))
    with pytest.raises(ValueError, match="2 queries for 1 texts"):
        reranker.scores(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="top=0: ask for 1 or more"):
        reranker.rerank("a", ["c"], top=0)
    assert reranker.rerank("a", []) == []
    with pytest.raises(TypeError, match="EmbedHead does not rank"):
        Reranker(toys.reader(toys.model(EmbedConfig())))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"loss": {"kind": "margin"}}, "name their column as data.scores"),
        ({"data": {"most": -1}}, "most=-1 must be 0 or more"),
        ({"data": {"longest": 8}}, "longest=8 leaves no room for a text"),
        ({"head": {"dropout": 1.0}}, "dropout=1.0 must be in"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        toys.train(recipe(tmp_path / "text", **tables), tmp_path / "out")
