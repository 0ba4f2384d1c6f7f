"""Variants are trained once, compared honestly, and told in a table, Markdown, a page and JSON."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from regard.config import ConfigError, read_table, write_toml
from regard.lab import commands, work
from regard.lab.grid import variants
from regard.lab.report import plot_bars
from regard.lab.summary import summarise
from regard.lab.work import Budget, Run
from regard.tasks import run as runs
from regard.text import DataError
from tests.tasks.encoders import toys

pytestmark = pytest.mark.usefixtures("unchecked")


def compare(
    recipe: Path, *settings: str, out: Path, seeds: int | None = 2, budget: str | None = None, **how
) -> str:
    said = io.StringIO()
    console = Console(file=said, width=200)
    how = {"overwrite": False, "device": "cpu", **how}
    assert commands.compare(recipe, settings, out=out, seeds=seeds, budget=budget, console=console, **how)
    return said.getvalue()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    plain = toys.recipe(folder / "text", train={"steps": 8, "validate_every": 4, "log_every": 2})
    (folder / "recipe.toml").write_text(write_toml(plain))
    return folder / "recipe.toml"


def test_a_grid_is_trained_compared_and_reported(recipe, tmp_path):
    said = compare(recipe, "head.pool=first,mean", "model.layers=1", out=tmp_path / "lab")
    assert "4 of 4: pool=mean, seed 1" in said
    report = json.loads((tmp_path / "lab" / "report.json").read_text())
    [part] = report["parts"]
    assert (part["metric"], part["better"]) == ("accuracy", "high")
    assert [line["variant"] for line in part["lines"]] == ["pool=first", "pool=mean"]
    for line in part["lines"]:
        [folder] = (tmp_path / "lab" / "runs").glob(f"{line['variant']}-*")
        for seed, value in enumerate(line["values"]):
            metrics = json.loads((folder / f"seed-{seed}" / "metrics.json").read_text())
            assert metrics["valid"]["accuracy"] == value
        assert line["mean"] == pytest.approx(sum(line["values"]) / 2)
        assert line["parameters"] > 0
        assert line["flops"] > 0
        assert line["memory"] > 0
    markdown = (tmp_path / "lab" / "report.md").read_text()
    assert "| pool=first |" in markdown
    page = (tmp_path / "lab" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert not re.search(r'(href|src)="http', page)
    assert "<script" not in page


def test_the_same_command_goes_on_where_it_was_stopped(recipe, tmp_path, monkeypatch):
    fit, done = runs.fit, []

    def counted(*given, **how):
        done.append(how["out"])
        if len(done) == 3:
            raise KeyboardInterrupt
        return fit(*given, **how)

    monkeypatch.setattr(work, "fit", counted)
    with pytest.raises(KeyboardInterrupt):
        compare(recipe, "head.pool=first,mean", out=tmp_path / "lab")
    monkeypatch.setattr(work, "fit", counted)
    compare(recipe, "head.pool=first,mean", out=tmp_path / "lab")
    assert len(done) == 5
    assert done[2] == done[3]
    compare(recipe, "head.pool=first,mean,max", out=tmp_path / "lab")  # a variant more: only its runs
    assert len(done) == 7
    with pytest.raises(ConfigError, match="compares something else"):
        compare(recipe, "head.pool=first,mean", "model.layers=1", out=tmp_path / "lab")
    before = {path: path.read_bytes() for path in (tmp_path / "lab").glob("runs/*/*/model.safetensors")}
    compare(recipe, "head.pool=first", "model.layers=1", out=tmp_path / "lab", seeds=1, overwrite=True)
    assert len(done) == 8
    after = [*(tmp_path / "lab").glob("runs/*/*/model.safetensors")]
    assert len(after) == 1  # nothing of what was there is left
    assert after[0].read_bytes() not in before.values()


def test_budgets_are_kept(recipe, tmp_path):
    compare(recipe, "model.d_model=16,32", out=tmp_path / "tokens", seeds=1, budget="tokens=800")
    compare(recipe, "model.d_model=16,32", out=tmp_path / "flops", seeds=1, budget="flops=3e7")

    def steps(name: str) -> list[int]:
        folders = sorted((tmp_path / name / "runs").glob("*/seed-0"))
        return [work.read_run(folder).steps for folder in folders]

    assert steps("tokens") == [5, 5]  # of 160 tokens each
    narrow, wide = steps("flops")
    assert narrow > 2 * wide
    found = [work.read_run(folder) for folder in sorted((tmp_path / "flops" / "runs").glob("*/seed-0"))]
    assert all(each.flops == pytest.approx(3e7, rel=0.3) for each in found)
    for wrong in ("tokens", "tokens=-1", "hours=3", "flops=many"):
        with pytest.raises(ConfigError, match="write tokens=2e6, seconds=60 or flops=1e14"):
            Budget.of(wrong)


def test_a_wrong_variant_is_named_before_anything_is_trained(recipe, tmp_path):
    with pytest.raises(ConfigError, match=r"pool=middle: .*middle"):
        compare(recipe, "head.pool=first,middle", out=tmp_path / "lab")
    assert not (tmp_path / "lab" / "runs").exists()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["train.seed=1,2"], "say how many by --seeds"),
        (["valid.metric=accuracy,loss"], "variants are judged by one figure"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(recipe, tmp_path, settings, reason):
    with pytest.raises(ConfigError, match=reason):
        compare(recipe, *settings, out=tmp_path / "lab")


def test_runs_of_other_settings_or_other_text_are_never_taken_for_these(recipe, tmp_path):
    one, two = (variants([f"{table}.dropout=0.0,0.5"])[1] for table in ("model", "head"))
    assert one.name == two.name
    assert one.slug != two.slug
    plain = toys.recipe(tmp_path / "text", train={"steps": 2, "validate_every": 2})
    own = tmp_path / "own.toml"
    own.write_text(write_toml(plain))
    compare(own, "head.pool=first,mean", out=tmp_path / "lab", seeds=1)
    with (tmp_path / "text" / "train.tsv").open("a") as file:
        file.write("yes\tsun and sun\n")
    with pytest.raises(ConfigError, match="with other text"):
        compare(own, "head.pool=first,mean", out=tmp_path / "lab", seeds=1)


def test_a_budget_of_seconds_is_the_only_limit(recipe, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(work, "fit", lambda *settings, **how: given.append(settings) or runs.fit("none"))
    with pytest.raises(TypeError):
        compare(recipe, "head.pool=first,mean", out=tmp_path / "lab", seeds=1, budget="seconds=30")
    assert "train.minutes=0.5" in given[0]
    assert "train.steps=1000000" in given[0]


def test_a_head_that_is_solved_is_compared_too(recipe, tmp_path):
    compare(recipe, out=tmp_path / "start", seeds=1)
    [start] = (tmp_path / "start" / "runs").glob("*/seed-0")
    plain = toys.recipe(tmp_path / "text")
    plain = {
        "task": "classify",
        "data": plain["data"],
        "model": {"start": str(start)},
        "head": {"fit": "logistic"},
    }
    own = tmp_path / "own.toml"
    own.write_text(write_toml(plain))
    compare(own, "head.pool=first,mean", out=tmp_path / "lab", seeds=1)
    assert (tmp_path / "lab" / "report.html").exists()


def test_a_study_has_parts_with_tables_of_their_own(recipe, tmp_path):
    study = recipe.with_name("study.toml")
    part = 'recipe = "recipe.toml"\nsettings = ["{}", "train.steps=4"]\n'
    parts = "".join(
        f'[[part]]\nname = "{name}"\n{part.format(varied)}'
        for name, varied in (("pools", "head.pool=first,mean"), ("depth", "model.layers=1,2"))
    )
    study.write_text(f'title = "Two questions"\nquestion = "Which?"\nseeds = 1\n{parts}')
    compare(study, out=tmp_path / "lab", seeds=1)
    text = (tmp_path / "lab" / "report.md").read_text()
    assert text.startswith("# Two questions\n\nWhich?")
    assert "## pools" in text
    assert "| layers=2 |" in text


def test_a_part_starts_from_the_models_of_an_earlier_one(recipe, tmp_path):
    data = toys.recipe(tmp_path / "text")["data"]
    tuned = {"task": "classify", "data": data, "train": {"steps": 2, "validate_every": 2}}
    (tmp_path / "tuned.toml").write_text(write_toml(tuned))
    study = tmp_path / "study.toml"
    study.write_text(
        'title = "From where"\nseeds = 2\n'
        f'[[part]]\nname = "first"\nrecipe = "{recipe}"\nsettings = ["model.layers=1,2"]\n'
        'budget = "tokens=320"\n[[part]]\nname = "second"\nrecipe = "tuned.toml"\nstart = "first"\n'
        'settings = ["head.dropout=0.0,0.5"]\n'
    )
    compare(study, out=tmp_path / "lab")
    [_, second] = json.loads((tmp_path / "lab" / "report.json").read_text())["parts"]
    assert [line["variant"] for line in second["lines"]] == [
        "layers=1, dropout=0.0",
        "layers=1, dropout=0.5",
        "layers=2, dropout=0.0",
        "layers=2, dropout=0.5",
    ]
    [folder] = (tmp_path / "lab" / "second" / "runs").glob("layers=2_dropout=0.5-*/seed-1")
    start = read_table(folder / "recipe.toml")["model"]["start"]
    assert re.search(r"first/runs/layers=2-\w+/seed-1$", start)
    study.write_text(study.read_text().replace('start = "first"', 'start = "third"'))
    with pytest.raises(ConfigError, match="no part before 'second' is called that"):
        compare(study, out=tmp_path / "other")


@pytest.mark.long
def test_side_by_side_they_become_the_same(recipe, tmp_path):
    alone = compare(recipe, "head.pool=first,mean", out=tmp_path / "alone", seeds=1)
    together = compare(recipe, "head.pool=first,mean", out=tmp_path / "together", seeds=1, at_once=2)
    assert "side by side" not in alone
    for variant in ("pool=first", "pool=mean"):
        one, other = (
            next((tmp_path / name / "runs").glob(f"{variant}-*/seed-0/model.safetensors")).read_bytes()
            for name in ("alone", "together")
        )
        assert one == other
    assert "2 of 2: pool=mean, seed 0: accuracy" in together
    assert "Up to 2 runs side by side" in (tmp_path / "together" / "report.md").read_text()
    with pytest.raises(ConfigError, match="--at-once 0: 1 or more"):
        compare(recipe, "head.pool=first,mean", out=tmp_path / "none", at_once=0)


def test_what_fails_beside_others_is_said(recipe, tmp_path):
    with pytest.raises(DataError, match=r"data\.examples=5000"):
        compare(recipe, "data.examples=20,5000", out=tmp_path / "lab", seeds=1, at_once=2)


def made(variant: str, seed: int, value: float, examples: list[float], better: str = "high") -> Run:
    cost = {
        "parameters": 1,
        "steps": 1,
        "tokens": 1,
        "flops": 1.0,
        "seconds": 1.0,
        "tokens_per_second": 1.0,
        "memory": 1.0,
    }
    return Run(
        variant=variant, seed=seed, metric="x", better=better, figures={"x": value}, curve=[(1, value)],
        example="right", examples=examples, **cost,
    )  # fmt: skip


def test_only_what_holds_over_seeds_and_examples_is_significant():
    clear = [float(number % 2) for number in range(200)]
    worse = [0.0] * 200
    runs = [made("good", seed, 0.9 + seed / 1000, clear) for seed in range(4)]
    runs += [made("bad", seed, 0.5 + seed / 900, worse) for seed in range(4)]
    runs += [made("luck", seed, 0.9 + (-1) ** seed / 20, worse) for seed in range(4)]
    found = {line.variant: line for line in summarise(runs).lines}
    assert summarise(runs).best.variant == "good"
    assert found["bad"].significant
    assert not found["luck"].significant  # the examples say so, the seeds do not
    assert found["bad"].behind == pytest.approx(0.4, abs=1e-2)
    alone = summarise([made("good", 0, 0.9, clear), made("bad", 0, 0.5, worse)])
    assert not any(line.significant for line in alone.lines)  # one seed proves nothing
    other_way = [made("a", seed, 0.9 + seed / 1000, worse) for seed in range(4)]
    other_way += [made("b", seed, 0.5 + seed / 900, clear) for seed in range(4)]
    assert not any(line.significant for line in summarise(other_way).lines)  # the examples say the contrary
    lost = summarise([made("lost", seed, float("nan"), []) for seed in range(2)] + runs[:2])
    assert lost.best.variant == "good"
    assert plot_bars(lost)
    low = summarise([made("a", 0, 2.0, [], "low"), made("b", 0, 1.0, [], "low")])
    assert low.best.variant == "b"
    assert not any(line.significant for line in low.lines)
    with pytest.raises(ValueError, match="different figures"):
        summarise([runs[0], replace(runs[0], metric="y")])


@pytest.mark.parametrize("task", ["classify", "number", "tag", "answer", "translate"])
def test_examples_say_what_the_figures_say(task, tmp_path):
    from regard.tasks.registry import task_of
    from tests.tasks import tiny
    from tests.tasks.answering import town
    from tests.tasks.encoders import test_tag

    short = {"steps": 6, "validate_every": 6}
    plain = {
        "classify": lambda: toys.recipe(tmp_path, train=short),
        "number": lambda: test_tag.of_numbers(tmp_path, train=short),
        "tag": lambda: test_tag.plain_recipe(tmp_path, data={"root": str(tmp_path)}, train=short),
        "answer": lambda: town.recipe(tmp_path, impossible=True, train=short),
        "translate": lambda: tiny.recipe(tmp_path),
    }[task]()
    runs.fit(plain, out=tmp_path / "model", check=False, device="cpu", console=Console(file=io.StringIO()))
    figures = json.loads((tmp_path / "model" / "metrics.json").read_text())["valid"]
    name, values = task_of(tmp_path / "model").examples(tmp_path / "model", "cpu")
    mean = sum(values) / len(values)
    match task:
        case "classify":
            assert (name, mean) == ("labels right", pytest.approx(figures["accuracy"]))
        case "answer":
            assert mean == pytest.approx(figures["f1"], abs=1e-4)
        case "number":
            assert mean < 0
        case "tag":
            assert 0 <= mean <= 1
        case "translate":
            assert 0 <= mean <= 100
