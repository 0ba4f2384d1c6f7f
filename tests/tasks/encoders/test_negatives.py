"""An embedder that learns from mined negatives: the loss against sentence-transformers and a loop over all
texts, batches, files."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from rich.console import Console
from torch.testing import assert_close

import regard
from regard.config import ConfigError
from regard.data import Plan
from regard.data.store import Column, ragged
from regard.settings.models import EmbedConfig
from regard.settings.training import BatchConfig
from regard.tasks.base.job import Job
from regard.tasks.check import check
from regard.tasks.embedding.batches import EncodedPairs, PairedFeed
from regard.tasks.embedding.contrast import ContrastiveLoss, Negatives, contrastive
from regard.tasks.embedding.recipe import ContrastiveConfig
from regard.tasks.embedding.train import prepare
from regard.tasks.registry import as_recipe, read_recipe
from regard.text import DataError
from regard.train.objectives import HIDDEN
from regard.train.ranks import Ranks
from tests.tasks.encoders import toys
from tests.tasks.encoders.test_guided import ROWS, Given, drawn, pairs

BESIDE = 3


def beside(guided: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor], Negatives]:
    """Some for each pair, column by column as sentence-transformers has them; and all together."""
    vectors = [drawn(seed) for seed in range(10, 10 + BESIDE)]
    guides = [drawn(seed, 8) for seed in range(20, 20 + BESIDE)]
    numbers = torch.arange(2 * ROWS, (2 + BESIDE) * ROWS)
    return vectors, guides, Negatives(torch.cat(vectors), numbers, torch.cat(guides) if guided else None)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_loss_is_that_of_sentence_transformers_with_hard_negatives(symmetric: bool) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    u, v, numbers, _ = pairs()
    vectors, _, wrong = beside()
    both: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    model: Any = Given([u, v, *vectors])
    theirs = MultipleNegativesRankingLoss(model, scale=20.0, **(both if symmetric else {}))
    wanted = theirs([{"which": number} for number in range(2 + BESIDE)], torch.zeros(1))
    sums = contrastive(u, v, numbers, ContrastiveConfig(symmetric=symmetric), None, wrong)
    assert_close(sums.loss / sums.tokens, wanted)
    assert sums.loss > contrastive(u, v, numbers, ContrastiveConfig(symmetric=symmetric)).loss


def test_cut_vectors_have_their_negatives_cut_too() -> None:
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss

    u, v, numbers, _ = pairs()
    vectors, _, wrong = beside()
    model: Any = Given([u, v, *vectors])
    inner = MultipleNegativesRankingLoss(model, scale=20.0)
    which = [{"which": number} for number in range(2 + BESIDE)]
    wanted = MatryoshkaLoss(model, inner, [16, 8, 3])(which, torch.zeros(1))
    config = ContrastiveConfig(symmetric=False, dimensions=(8, 3))
    sums = contrastive(u, v, numbers, config, None, wrong)
    assert_close(3 * sums.loss / sums.tokens, wanted)


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_negatives_that_the_guide_finds_nearer_are_none_as_in_gistembed(margin: float) -> None:
    from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss

    u, v, numbers, guide = pairs()
    vectors, guides, _ = beside()
    theirs: Any = GISTEmbedLoss.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    theirs.model = Given([u, v, vectors[0]])
    theirs.guide = Given([guide[:, 0], guide[:, 1], guides[0]])
    theirs.must_retokenize, theirs.gather_across_devices = False, False
    theirs.temperature, theirs.margin, theirs.margin_strategy = 0.05, margin, "absolute"
    theirs.contrast_anchors = theirs.contrast_positives = False
    theirs.similarity_fct = torch.nn.CosineSimilarity(dim=-1)
    theirs.cross_entropy_loss = torch.nn.CrossEntropyLoss()
    wanted = theirs([{"which": 0}, {"which": 1}, {"which": 2}], None)
    config = ContrastiveConfig(symmetric=False, guide="x", guide_margin=margin)
    wrong = Negatives(vectors[0], torch.arange(2 * ROWS, 3 * ROWS), guides[0])
    sums = contrastive(u, v, numbers, config, guide, wrong)
    assert_close(sums.loss / sums.tokens, wanted)
    assert sums.loss < contrastive(u, v, numbers, config, guide, wrong._replace(guide=None)).loss


# Pairs 0 and 3 have a target in common, 1 and 4 a text on both sides. Of the texts beside them, the target of
# 1 is no wrong answer to 1 and 4, the source of 5 none to 5, and 20 is one to all.
TEXTS = [(0, 1), (2, 3), (4, 5), (6, 1), (3, 7), (8, 9)]
WRONG = [20, 3, 8, 0, 20]


def test_a_text_of_a_pair_with_a_common_text_is_no_wrong_answer_beside_another_either() -> None:
    u, v = drawn(0)[:6].double(), drawn(1)[:6].double()
    n = drawn(2)[:5].double()
    config = ContrastiveConfig(symmetric=False, temperature=0.3)
    total = 0.0
    for i, own in enumerate(TEXTS):
        known = {text for other in TEXTS if {*own} & {*other} for text in other}
        rivals = [v[j] for j, other in enumerate(TEXTS) if j == i or not {*own} & {*other}]
        rivals += [n[k] for k, text in enumerate(WRONG) if text not in known]
        there = sum(np.exp(float(u[i] @ each) / 0.3) for each in rivals)
        total -= np.log(np.exp(float(u[i] @ v[i]) / 0.3) / there)
    sums = contrastive(u, v, torch.tensor(TEXTS), config, None, Negatives(n, torch.tensor(WRONG)))
    assert float(sums.loss) == pytest.approx(total, rel=1e-12)
    # the targets look among the sources, where no negative is
    back = contrastive(u, v, torch.tensor(TEXTS), ContrastiveConfig(temperature=0.3))
    ahead = contrastive(u, v, torch.tensor(TEXTS), config)
    both = contrastive(
        u, v, torch.tensor(TEXTS), ContrastiveConfig(temperature=0.3), None, Negatives(n, torch.tensor(WRONG))
    )
    assert_close(2 * both.loss - sums.loss, 2 * back.loss - ahead.loss)


def encoded(count: int = 40, seed: int = 0) -> EncodedPairs:
    """Texts of 2 to 9 tokens, no two alike; from none to three beside each pair, some beside several."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(2, 10, size=4 * count)
    offsets = np.cumsum([0, *lengths])
    wrong = [chance.choice(np.arange(2 * count, 4 * count), size=n % 4).tolist() for n in range(count)]
    texts = Column(chance.integers(5, 60, size=offsets[-1]).astype(np.int32), offsets)
    return EncodedPairs(texts, np.arange(2 * count).reshape(count, 2), negatives=ragged(wrong))


def feed(static: bool) -> PairedFeed:
    own = encoded()
    return PairedFeed(own, Plan([own.lengths], BatchConfig(tokens=160)), static=static)


def test_the_tokens_of_a_pair_are_those_of_its_negatives_too() -> None:
    own = encoded()
    for number, (pair, found) in enumerate(zip(own.pairs, own.lengths, strict=True)):
        every = [*pair, *own.negatives[number]]
        assert found == sum(own.texts.lengths[text] for text in every)


@pytest.mark.parametrize("static", [False, True])
def test_a_batch_has_the_negatives_of_its_pairs(static: bool) -> None:
    own, found, shapes = encoded(), feed(static), set()
    of_source = {int(pair[0]): number for number, pair in enumerate(own.pairs)}
    seen = []
    for step in range(1, found.plan.steps(0) + 1):
        [(_, batch)] = found.parts(step)
        shapes.add(tuple(tensor.shape for tensor in batch.tensors()))
        texts = batch.text.layout.split(batch.text.ids)
        real = batch.negatives[batch.negatives[:, 1] != HIDDEN]
        for place, number in (
            *zip(
                batch.places[: batch.tokens].flatten(), batch.numbers[: batch.tokens].flatten(), strict=True
            ),
            *real,
        ):
            assert texts[int(place)].tolist() == own.texts[int(number)].tolist()
        rows = [of_source[int(number)] for number in batch.numbers[: batch.tokens, 0]]
        assert real[:, 1].tolist() == [text for row in rows for text in own.negatives[row].tolist()]
        seen += rows
    assert sorted(seen) == list(range(len(own.pairs)))
    assert not static or len(shapes) == 1


def test_what_is_learned_from_a_static_batch_is_what_a_batch_without_filler_teaches() -> None:
    model = toys.model(EmbedConfig(project=8)).double().eval()
    loss = ContrastiveLoss(model, ContrastiveConfig())
    found = []
    for static in (False, True):
        [(_, batch)] = feed(static).parts(1)
        model.zero_grad()
        sums = loss(batch)
        sums.loss.backward()
        grads = [each.grad.clone() for each in model.parameters() if each.grad is not None]
        found.append((sums.loss.detach(), sums.tokens, grads))
    assert found[0][0] > 0
    assert_close(found[1], found[0])


def mined(folder: Path, rows: list[dict[str, Any]], name: str = "mined.jsonl") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def row(number: int, *negatives: str) -> dict[str, Any]:
    texts = toys.texts(200)
    wrong = negatives or (texts[100 + number], texts[130 + number])
    return {
        "query": texts[number],
        "positive": texts[50 + number],
        "negatives": [*wrong],
        "scores": [1, 0, 0],
    }


def recipe(folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    mined(folder, [row(number) for number in range(30)])
    mined(folder, [row(number) for number in range(30, 40)], "valid.jsonl")
    plain: dict[str, Any] = {
        "task": "embed",
        "data": {"train": "mined.jsonl", "valid": "valid.jsonl", "root": str(folder)},
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": toys.TINY,
        "batch": {"tokens": 400},
        "optimizer": {"learning_rate": 1e-2, "warmup": 2},
        "train": {"steps": 6, "validate_every": 6, "log_every": 2},
    }
    return {**plain, **{name: {**plain.get(name, {}), **table} for name, table in tables.items()}}


def prepared(plain: dict[str, Any], out: Path) -> tuple[Job, str]:
    out.mkdir()
    said = io.StringIO()
    job = prepare(as_recipe(plain), out, Ranks.join("cpu"), Console(file=said, width=200))
    return job, said.getvalue()


@pytest.mark.usefixtures("unchecked")
def test_what_mine_negatives_wrote_trains_an_embedder(tmp_path: Path) -> None:
    plain = recipe(tmp_path / "text", loss={"dimensions": [8]})
    toys.train(plain, tmp_path / "first")
    written = read_recipe(str(tmp_path / "first" / "recipe.toml"), []).checked.data
    assert [(each.table, each.source, each.target) for each in written.train] == [
        ("mined.jsonl", "query", "positive")
    ]
    assert written.negatives == ("negatives",)
    _, said = toys.train(
        {**plain, "loss": {"guide": str(tmp_path / "first"), "guide_margin": 0.1}}, tmp_path / "second"
    )
    assert "30 pairs to learn from, 10 to validate on" in said
    assert "60 texts beside them that do not answer" in said
    assert regard.load(tmp_path / "second", regard.Embedder, device="cpu").embed("sun").shape == (16,)


@pytest.mark.usefixtures("unchecked")
def test_negatives_are_farther_from_their_queries_than_if_they_had_not_been_there(tmp_path: Path) -> None:
    """All pairs are in every batch, with them and without."""
    rows, gaps = [row(number) for number in range(30)], []
    for name, more in (("with", {}), ("without", {"negatives": []})):
        usual = {"model": {"dropout": 0.0}, "batch": {"tokens": 1100}}
        plain = recipe(tmp_path / "text", data=more, train={"steps": 40, "validate_every": 40}, **usual)
        toys.train(plain, tmp_path / name)
        own = regard.load(tmp_path / name, regard.Embedder, device="cpu")
        asked, right = (own.embed([each[side] for each in rows]) for side in ("query", "positive"))
        wrong = own.embed([each["negatives"][0] for each in rows])
        gaps.append(float((asked * (right - wrong)).sum(axis=1).mean()))
    assert gaps[0] > gaps[1] + 0.05


def test_negatives_that_are_tested_on_or_too_long_are_left_out_and_counted(tmp_path: Path) -> None:
    long = " ".join(["red"] * 30)
    plain = recipe(tmp_path / "text", data={"longest": 16})
    asked_later = row(33)["query"]
    rows = [*(row(number) for number in range(20)), row(20, asked_later, "old dog"), row(21, long, "red sun")]
    mined(tmp_path / "text", rows)
    job, said = prepared(plain, tmp_path / "cut")
    assert (job.data["used"], job.data["negatives"], job.data["unused"]) == (22, 43, 1)
    assert "43 texts beside them" in said
    assert "1 more are left out: also to validate or test on, or longer than 16 tokens" in said
    plain["data"]["too_long"] = "skip"
    job, _ = prepared(plain, tmp_path / "skip")
    assert (job.data["used"], job.data["negatives"], job.data["unused"]) == (22, 42, 2)
    plain["data"] |= {"overlap": "keep", "most": 1}
    job, _ = prepared(plain, tmp_path / "keep")
    assert (job.data["used"], job.data["negatives"], job.data["unused"]) == (22, 21, 1)


def test_columns_of_any_table_are_negatives_and_files_without_them_may_stand_beside(tmp_path: Path) -> None:
    toys.write(
        tmp_path, "a.tsv", ("q", "p", "n1", "n2"), ("sun", "rain", "dog", "tree"), ("red", "old", "sun", "")
    )
    for name, texts in (("b.en", ["river", "house"]), ("b.de", ["tree sees", "dog likes"])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    table = {"table": "a.tsv", "source": "q", "target": "p"}
    two = {"source": "b.en", "target": "b.de"}
    data = {"train": [table, two], "negatives": ["n1", "n2"]}
    job, _ = prepared(recipe(tmp_path, data=data), tmp_path / "out")
    assert (job.data["used"], job.data["negatives"]) == (4, 3)
    one = recipe(tmp_path, data={"train": [table], "negatives": "n1", "on_error": "skip"})
    assert as_recipe(one).checked.data.negatives == ("n1",)


def test_a_mined_file_may_lie_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = recipe(tmp_path / "text")
    MemoryFileSystem().pipe_file("/negatives/mined.jsonl", (tmp_path / "text" / "mined.jsonl").read_bytes())
    plain["data"]["train"] = "memory://negatives/mined.jsonl"
    job, _ = prepared(plain, tmp_path / "out")
    assert (job.data["used"], job.data["negatives"]) == (30, 60)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"train": ["a.en", "a.de"], "negatives": ["n"]},
            r"negatives=\['n'\] are columns, and train names no",
        ),
        ({"train": "mined.jsonl", "most": -1}, "most=-1 must be 0 or more"),
    ],
)
def test_what_makes_no_sense_is_told_before_any_text_is_read(data: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        as_recipe({"task": "embed", "data": data})


def test_a_broken_row_is_named_in_training_and_by_the_doctor(tmp_path: Path) -> None:
    plain = recipe(tmp_path / "text")
    right = row(0)["positive"]
    mined(tmp_path / "text", [row(1), row(0, right), row(2)])
    with pytest.raises(DataError, match=r"mined\.jsonl:2: a text that is both positive and negative"):
        prepared(plain, tmp_path / "out")
    lines = ['task = "embed"', "[data]", 'train = "mined.jsonl"', 'valid = "valid.jsonl"', 'root = "text"']
    toml = tmp_path / "embed.toml"
    toml.write_text("\n".join(lines))
    report = check(str(toml), (), None, console=Console(quiet=True))
    assert any(each.name == "broken lines" for each in report.findings)
