import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.config import ConfigError, from_dict
from regard.data import Plan
from regard.data.store import Column
from regard.settings.models import EmbedConfig, PromptConfig
from regard.settings.training import BatchConfig
from regard.tasks.base.encoders import loaded, open_encoder, save_checkpoint
from regard.tasks.base.job import Job, train
from regard.tasks.base.reading import Reader
from regard.tasks.base.recipe import Written
from regard.tasks.embedding import train as embed
from regard.tasks.embedding.batches import EncodedPairs, PairedFeed
from regard.tasks.embedding.contrast import ContrastiveLoss, contrastive
from regard.tasks.embedding.data import Held, distinct
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.recipe import RECIPE, ContrastiveConfig, EmbedRecipe
from regard.text import DataError
from regard.train.objectives import HIDDEN
from regard.train.ranks import Ranks
from tests.tasks import tiny
from tests.tasks.encoders import toys


def unit(rows: int, width: int = 6, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


def naive(u: torch.Tensor, v: torch.Tensor, texts: list[tuple[int, int]], config: ContrastiveConfig) -> float:
    """Pair by pair, both ways."""
    total = 0.0
    for i, own in enumerate(texts):
        rivals = [j for j, other in enumerate(texts) if j == i or not {*own} & {*other}]
        there = sum(np.exp(float(u[i] @ v[j]) / config.temperature) for j in rivals)
        back = sum(np.exp(float(v[i] @ u[j]) / config.temperature) for j in rivals)
        right = np.exp(float(u[i] @ v[i]) / config.temperature)
        first, second = -np.log(right / there), -np.log(right / back)
        total += (first + second) / 2 if config.symmetric else first
    return total


# Pairs 0 and 3 have a target in common; 1 and 4 a text on both sides; 5 is its own other.
TEXTS = [(0, 1), (2, 3), (4, 5), (6, 1), (3, 7), (8, 8)]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_loss_is_that_of_a_choice_among_pairs_without_a_common_text(symmetric: bool, temperature: float):
    config = ContrastiveConfig(temperature=temperature, symmetric=symmetric)
    u, v = unit(6), unit(6, seed=1)
    sums = contrastive(u, v, torch.tensor(TEXTS), config)
    assert float(sums.loss) == pytest.approx(naive(u, v, TEXTS, config), rel=1e-12)
    assert float(sums.tokens) == 6


def test_pairs_with_a_common_text_cannot_be_felt_by_each_other():
    u, v = unit(3).requires_grad_(), unit(3, seed=1)
    texts = torch.tensor(
        [(0, 1), (2, 1), (0, 3)]
    )  # 1 and 2 each share a text with 0, but none with each other
    contrastive(u, v, texts, ContrastiveConfig(symmetric=False)).loss.backward()
    assert not u.grad[0].any()
    assert u.grad[1].any()
    assert u.grad[2].any()


def test_filler_rows_are_neither_asked_nor_answers():
    config = ContrastiveConfig()
    texts = torch.tensor([*TEXTS, (HIDDEN, HIDDEN), (HIDDEN, HIDDEN)])
    u, v = unit(8).requires_grad_(), unit(8, seed=1).requires_grad_()
    with torch.no_grad():
        u[6:], v[6:] = 1e3, 1e3
    sums = contrastive(u, v, texts, config)
    sums.loss.backward()
    short, other = u.detach()[:6].requires_grad_(), v.detach()[:6].requires_grad_()
    alone = contrastive(short, other, texts[:6], config)
    alone.loss.backward()
    assert_close(sums, alone, rtol=1e-12, atol=0)
    assert_close(u.grad, torch.cat([short.grad, torch.zeros(2, 6, dtype=torch.float64)]))
    assert_close(v.grad, torch.cat([other.grad, torch.zeros(2, 6, dtype=torch.float64)]))


def test_one_pair_alone_has_nothing_to_learn():
    assert contrastive(unit(1), unit(1, seed=1), torch.tensor([[0, 1]]), ContrastiveConfig()).loss == 0


def encoded(pairs: int = 60, seed: int = 0) -> EncodedPairs:
    """Texts of 2 to 9 tokens, no two alike, and pairs of them; the last two have the same target."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(2, 10, size=2 * pairs)
    offsets = np.cumsum([0, *lengths])
    drawn = np.arange(2 * pairs).reshape(pairs, 2)
    drawn[-1, 1] = drawn[-2, 1]
    return EncodedPairs(Column(chance.integers(5, 60, size=offsets[-1]).astype(np.int32), offsets), drawn)


def feed(static: bool) -> PairedFeed:
    own = encoded()
    return PairedFeed(own, Plan([own.lengths], BatchConfig(tokens=120)), static=static)


def test_the_places_of_a_batch_are_those_of_its_pairs():
    own = encoded()
    for static in (False, True):
        for step in range(1, feed(static).plan.steps(0) + 1):
            [(_, batch)] = feed(static).parts(step)
            texts = batch.text.layout.split(batch.text.ids)
            assert batch.text.sequences == 2 * batch.tokens
            assert (batch.numbers[batch.tokens :] == HIDDEN).all()
            for places, numbers in zip(batch.places[: batch.tokens], batch.numbers, strict=False):
                for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
                    assert texts[place].tolist() == own.texts[number].tolist()


def test_static_batches_are_of_one_size_and_lose_no_pair():
    own = feed(static=True)
    batches = [own.parts(step)[0][1] for step in range(1, own.plan.steps(0) + 1)]
    assert len(batches) > 3
    assert len({tuple(tensor.shape for tensor in batch.tensors()) for batch in batches}) == 1
    found = torch.cat([batch.numbers[: batch.tokens] for batch in batches])
    assert sorted(found[:, 0].tolist()) == sorted(encoded().pairs[:, 0].tolist())


def test_what_is_learned_from_a_static_batch_is_what_a_batch_without_filler_teaches():
    model = toys.model(EmbedConfig(project=8)).double().eval()
    loss = ContrastiveLoss(model, ContrastiveConfig())
    found = []
    for static in (False, True):
        [(_, batch)] = feed(static).parts(1)
        model.zero_grad()
        sums = loss(batch)
        sums.loss.backward()
        found.append(
            (
                sums.loss.detach(),
                sums.tokens,
                [p.grad.clone() for p in model.parameters() if p.grad is not None],
            )
        )
    assert found[0][0] > 0
    assert_close(found[1], found[0])


def test_each_part_of_a_split_batch_chooses_among_its_own():
    own = feed(static=True)
    whole, parts = own.parts(1), own.parts(1, split=3)
    assert len(parts) > 1
    assert sum(batch.tokens for _, batch in parts) == whole[0][1].tokens


def test_two_passes_over_the_same_text_differ_by_dropout():
    own = encoded(8)
    own = replace(own, pairs=np.repeat(own.pairs[:, :1], 2, axis=1))
    plan = Plan([own.lengths], BatchConfig(tokens=1000))
    [(_, batch)] = PairedFeed(own, plan, static=False).parts(1)
    model = toys.model(EmbedConfig())
    for training, differ in ((False, False), (True, True)):
        model.train(training)
        vectors = model(batch.text.ids, batch.text.layout)
        assert torch.equal(*(vectors[places] for places in batch.places.T)) is not differ


def recipe(folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    """A word-by-word cipher of short sentences."""
    plain = tiny.recipe(folder, 400)
    test = [tiny.write_pairs(folder, "test", tiny.pairs(100, 450)), ["test.de", "test.en"]]
    own: dict[str, Any] = {
        "task": "embed",
        "data": {**plain["data"], "test": test},
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": {"preset": "tiny", "d_model": 32, "heads": 2, "layers": 1, "d_ff": 64, "dropout": 0.1},
        "batch": {"tokens": 700},
        "optimizer": {"learning_rate": 1e-2, "warmup": 10},
        "train": {"steps": 20, "validate_every": 10, "log_every": 5},
    }
    for name, table in tables.items():
        own[name] = {**own.get(name, {}), **table}
    return own


def written(plain: dict[str, Any], where: Path = Path()) -> Written[EmbedRecipe]:
    plain = RECIPE.plain(plain)
    return Written(plain, where, from_dict(EmbedRecipe, plain), RECIPE)


def prepared(
    plain: dict[str, Any], out: Path, *, begun: bool = False, said: io.StringIO | None = None
) -> Job:
    out.mkdir(exist_ok=True)
    console = Console(file=said or io.StringIO(), width=200)
    return embed.prepare(written(plain), out, Ranks.join("cpu"), console, begun=begun)


def trained(plain: dict[str, Any], out: Path) -> str:
    said = io.StringIO()
    train(prepared(plain, out, said=said), out, Console(file=said, width=200), begun=False)
    return said.getvalue()


def embedder(folder: Path) -> Embedder:
    checkpoint = open_encoder(folder)
    return Embedder(Reader(loaded(checkpoint, folder), checkpoint.tokenizer, longest=checkpoint.longest))


@pytest.fixture(scope="module")
def cipher(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("cipher")
    plain = recipe(folder, train={"steps": 30, "validate_every": 10})
    return folder / "model", trained(plain, folder / "model")


def test_a_tiny_encoder_from_nothing_learns_to_match_a_cipher(cipher: tuple[Path, str]):
    folder, said = cipher
    sources, targets = zip(*tiny.pairs(100, 450), strict=True)
    own = embedder(folder)
    cosines = own.embed(sources) @ own.embed(targets).T
    right = (cosines.argmax(axis=1) == np.arange(100)).mean()
    assert right > 0.9, said  # by chance, 0.01
    figures = json.loads((folder / "metrics.json").read_text())["test"]
    assert figures["files"]["test.en, test.de"]["there"]["accuracy_at_1"] == pytest.approx(right)


def test_each_pair_of_test_files_has_figures_of_both_ways(cipher: tuple[Path, str]):
    folder, said = cipher
    test = json.loads((folder / "metrics.json").read_text())["test"]
    there, back = test["files"]["test.en, test.de"], test["files"]["test.de, test.en"]
    assert there["there"] == back["back"]
    assert there["back"] == back["there"]
    for name in ("accuracy_at_1", "recall_at_10", "mrr"):
        assert there[name] == pytest.approx((there["there"][name] + there["back"][name]) / 2)
        assert test[name] == pytest.approx((there[name] + back[name]) / 2)
    assert "test  test.de, test.en: accuracy_at_1" in said
    assert "test  mean: accuracy_at_1" in said


def test_vectors_of_a_trained_model_have_length_one(cipher: tuple[Path, str]):
    vectors = embedder(cipher[0]).embed(["a red house", "ein rot haus", "tree"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path):
    plain = recipe(tmp_path, train={"steps": 8, "validate_every": 5, "save_every": 1})
    trained(plain, tmp_path / "whole")

    def stop() -> Any:
        raise KeyboardInterrupt

    quiet = Console(file=io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        train(
            replace(prepared(plain, tmp_path / "parted"), validate=stop),
            tmp_path / "parted",
            quiet,
            begun=False,
        )
    job = prepared(plain, tmp_path / "parted", begun=True)
    assert train(job, tmp_path / "parted", quiet, begun=True).step == 8
    for name in ("model.safetensors", "checkpoint.safetensors"):
        one, other = (load_file(tmp_path / each / name) for each in ("whole", "parted"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_run_does_not_go_on_with_other_test_texts_which_would_change_what_it_learns_from(tmp_path: Path):
    plain = recipe(tmp_path)
    prepared(plain, tmp_path / "out")
    prepared(plain, tmp_path / "out", begun=True)
    tiny.write_pairs(tmp_path, "test", tiny.pairs(90, 450))
    with pytest.raises(ConfigError, match="begun with other text"):
        prepared(plain, tmp_path / "out", begun=True)


def test_a_model_goes_on_from_another_with_its_head_and_its_words(tmp_path: Path, cipher: tuple[Path, str]):
    plain = recipe(tmp_path, model={"start": str(cipher[0])}, train={"steps": 1, "validate_every": 1})
    plain["model"] = {"start": str(cipher[0])}
    del plain["tokenizer"]
    plain["optimizer"] = {"learning_rate": 1e-12}
    trained(plain, tmp_path / "more")
    first, second = (
        json.loads((folder / "config.json").read_text()) for folder in (cipher[0], tmp_path / "more")
    )
    assert first["model"]["head"] == second["model"]["head"]
    texts = [source for source, _ in tiny.pairs(20)]
    assert_close(
        embedder(tmp_path / "more").embed(texts), embedder(cipher[0]).embed(texts), rtol=0, atol=1e-5
    )


def test_the_projection_is_as_the_recipe_or_the_start_has_it(tmp_path: Path):
    plain = recipe(tmp_path, head={"project": 12, "pool": "max"}, train={"steps": 1, "validate_every": 1})
    trained(plain, tmp_path / "wide")
    assert embedder(tmp_path / "wide").embed("a dog").shape == (12,)
    more = recipe(tmp_path, train={"steps": 1, "validate_every": 1})
    more["model"] = {"start": str(tmp_path / "wide")}
    del more["tokenizer"]
    for head, width, pool in (({}, 12, "max"), ({"project": 0, "pool": "mean"}, 32, "mean")):
        job = prepared({**more, "head": head}, tmp_path / f"more-{width}")
        assert job.model.config.head == EmbedConfig(
            pool=replace(EmbedConfig().pool, kind=pool), project=width % 32
        )


def test_a_start_with_prompts_is_trained_and_kept_with_them(tmp_path: Path):
    plain = recipe(tmp_path, train={"steps": 1, "validate_every": 1})
    trained(plain, tmp_path / "plain")
    start = open_encoder(tmp_path / "plain")
    source, target = tiny.pairs(1)[0]
    first, second = source.split()[0], target.split()[0]
    prompts = (PromptConfig(name="query", text=f"{first} "), PromptConfig(name="passage", text=f"{second} "))
    head = replace(start.config.head, prompts=prompts)
    start = replace(start, config=replace(start.config, head=head))
    save_checkpoint(start, tmp_path / "start", "embed")
    more = {**plain, "model": {"start": str(tmp_path / "start")}}
    del more["tokenizer"]
    job = prepared(more, tmp_path / "more")
    assert job.model.config.head == head
    batch = job.feed.batch(np.arange(5), None, 0)
    rows = batch.text.layout.split(batch.text.ids)
    vocabulary = start.tokenizer.vocabulary
    assert {int(rows[place][1]) for place in batch.places[:, 0]} == {vocabulary[first]}
    assert {int(rows[place][1]) for place in batch.places[:, 1]} == {vocabulary[second]}


def test_training_pairs_with_a_text_of_the_others_are_left_out_and_counted(tmp_path: Path):
    plain = recipe(tmp_path)
    plain["data"]["train"] = tiny.write_pairs(tmp_path, "more", [*tiny.pairs(100), *tiny.pairs(30, 410)])
    said = io.StringIO()
    job = prepared(plain, tmp_path / "skip", said=said)
    assert job.data["read"] == 130
    assert job.data["overlap"] == 10  # valid has 400 to 420, test 450 to 550
    assert job.data["used"] == 120
    assert "10 pairs have a text to validate or test on: left out" in said.getvalue()
    plain["data"]["overlap"] = "keep"
    assert prepared(plain, tmp_path / "keep").data["used"] == 130


def test_what_cannot_be_used_is_counted(tmp_path: Path):
    long = " ".join(["red"] * 30)
    pairs = [*tiny.pairs(50), ("", "haus"), (long, "rot"), ("tree", " ")]
    plain = recipe(tmp_path, data={"longest": 10})
    plain["data"]["train"] = tiny.write_pairs(tmp_path, "more", pairs)
    job = prepared(plain, tmp_path / "cut")
    assert (job.data["empty"], job.data["long"], job.data["used"]) == (2, 1, 51)
    plain["data"]["too_long"] = "skip"
    said = io.StringIO()
    job = prepared(plain, tmp_path / "skip", said=said)
    assert (job.data["long"], job.data["used"]) == (1, 50)
    assert "1 pairs have texts of more than 10 tokens: left out" in said.getvalue()
    plain["data"]["train"] = tiny.write_pairs(tmp_path, "more", [("", "haus"), (long, "rot")])
    with pytest.raises(
        DataError, match=r"more.en: none of 2 pairs can be used \(1 empty, 1 with more than 10"
    ):
        prepared(plain, tmp_path / "none")


def test_one_file_stands_for_both_sides(tmp_path: Path):
    plain = recipe(tmp_path, data={"train": "train.en"}, train={"steps": 2, "validate_every": 1})
    job = prepared(plain, tmp_path / "out")
    [(_, batch)] = job.feed.parts(1)
    assert (batch.numbers[:, 0] == batch.numbers[:, 1]).all()
    assert train(job, tmp_path / "out", Console(file=io.StringIO()), begun=False).step == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": ["a.en", "a.de", "de"]}, "train names the target language 'de'.*leave it out"),
        ({"train": "a.en"}, "a text always finds itself: name pairs"),
        ({"train": ["a.en", "a.de"], "valid": "b.en"}, "both sides are 'b.en'"),
        ({"train": ["a.en", "a.de"], "longest": 3}, "longest=3 leaves no room"),
        ({"train": ["a.en", "a.de"], "overlap": "drop"}, "overlap"),
    ],
)
def test_what_makes_no_sense_is_told_before_any_text_is_read(data: dict[str, Any], message: str):
    with pytest.raises((ConfigError, ValueError), match=message):
        written({"task": "embed", "data": data})


def test_a_temperature_must_be_positive():
    for temperature in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="temperature="):
            ContrastiveConfig(temperature=temperature)


def test_pairs_that_look_for_each_other_have_no_text_in_common():
    held = Held("all", ["a", "b", "a", "c", "D", "e"], ["A", "B", "X", "B", "d", "a"])
    assert distinct(held, 10) == Held("all", ["a", "b", "D"], ["A", "B", "d"])
    many = Held("many", [f"s{n}" for n in range(100)], [f"t{n}" for n in range(100)])
    chosen = distinct(many, 10)
    assert chosen.sources == [f"s{n}" for n in range(0, 100, 10)]
    assert chosen.targets == [f"t{n}" for n in range(0, 100, 10)]


def test_about_as_many_pairs_are_in_a_batch_as_suit_the_machine(tmp_path: Path):
    plain = recipe(tmp_path)
    for cuda, wanted in ((False, 128), (True, 512)):
        own = RECIPE.suited(written(plain).checked, {"data": {}}, 100_000, 2_000_000, cuda=cuda, ranks=1)
        pairs = own["batch"]["tokens"] / (1.4 * 20 + 4)
        assert pairs == pytest.approx(wanted, rel=0.05)
