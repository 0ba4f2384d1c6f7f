"""Whole trainings of classifiers, from a recipe to a folder and back."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from safetensors.torch import load_file

from regard.config import ConfigError
from regard.hub import write_folder
from regard.settings.models import ClassifyConfig, EmbedConfig
from regard.tasks import run
from regard.tasks.base.encoders import loaded, open_encoder
from regard.tasks.base.folder import FolderError
from regard.tasks.base.job import Job
from regard.tasks.base.reading import Reader
from regard.tasks.classification.batches import LabelledFeed
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.data import LabelledConfig, LabelledCorpus, targets
from regard.tasks.classification.recipe import FIGURES
from regard.tasks.classification.train import measure
from regard.tasks.registry import as_recipe
from regard.text import DataError
from regard.train.ranks import Ranks
from tests.tasks.encoders import toys

pytestmark = pytest.mark.usefixtures("unchecked")

LEARN: dict[str, Any] = {"steps": 120, "validate_every": 60, "log_every": 20, "save_every": 0}


def opened(folder: Path) -> Classifier:
    checkpoint = open_encoder(folder)
    reader = Reader(loaded(checkpoint, folder), checkpoint.tokenizer, longest=checkpoint.longest)
    return Classifier(reader, checkpoint.labels, checkpoint.problem)


def metrics(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def prepared(plain: dict[str, Any], out: Path) -> Job:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    return run.prepare(as_recipe(plain), out, ranks, Console(file=io.StringIO()))


def remeasured(plain: dict[str, Any], folder: Path) -> dict[str, float]:
    """The validation's figures by the folder alone."""
    own = opened(folder)
    data = {key: (value,) if key in ("train", "valid") else value for key, value in plain["data"].items()}
    corpus = LabelledCorpus(LabelledConfig(**data), Path())
    records = corpus.read("valid")
    seconds = None if records[0].second is None else [str(record.second) for record in records]
    scores = own.scores([record.text for record in records], seconds)
    return measure(own, scores, targets(records, own.labels, own.problem))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    place = tmp_path_factory.mktemp("learned")
    plain = toys.recipe(place / "corpus", train=LEARN, data={"test": "valid.tsv"})
    toys.train(plain, place / "out")
    return plain, place / "out"


@pytest.mark.spec("5.5")
def test_a_classifier_learns_which_word_counts_and_its_folder_says_the_same(learned: Any) -> None:
    plain, out = learned
    figures = metrics(out)
    assert figures["valid"]["accuracy"] > 0.95
    assert remeasured(plain, out) == pytest.approx(figures["valid"], rel=1e-4, abs=1e-6)
    assert figures["test"]["accuracy"] == figures["valid"]["accuracy"]
    confusion = np.array(figures["test"]["confusion"])
    assert confusion.trace() / confusion.sum() == pytest.approx(figures["test"]["accuracy"])
    own = opened(out)
    assert own.labels == ("no", "yes")
    assert own.classify("the old dog sees rain").label == "no"
    assert own.classify("red sun").label == "yes"
    config = json.loads((out / "config.json").read_text())
    assert (config["task"], config["pairs"], config["problem"]) == ("classify", False, "single")
    data = json.loads((out / "data.json").read_text())
    assert data["texts"] == {"train": 200, "valid": 60, "test": 60}


@pytest.mark.spec("5.5")
@pytest.mark.parametrize(
    ("problem", "label", "figure", "least"),
    [
        ("multi", lambda text: ",".join(w for w in ("sun", "dog") if w in text.split()), "micro_f1", 0.9),
        ("number", lambda text: text.split().count("sun") - text.split().count("dog") / 2, "spearman", 0.8),
    ],
)
def test_several_labels_and_numbers_are_learned(
    tmp_path: Path, problem: str, label: Any, figure: str, least: float
) -> None:
    data = {"problem": problem}
    plain = toys.recipe(tmp_path, label, data=data, train={**LEARN, "steps": 200, "validate_every": 100})
    toys.train(plain, tmp_path / "out")
    figures = metrics(tmp_path / "out")["valid"]
    assert figures[figure] > least
    assert remeasured(plain, tmp_path / "out") == pytest.approx(figures, rel=1e-3, abs=1e-5)
    if problem == "multi":
        assert set(opened(tmp_path / "out").classify("dog sun").labels) == {"sun", "dog"}
        assert opened(tmp_path / "out").classify("tree").labels == ()


def paired(folder: Path, **tables: Any) -> dict[str, Any]:
    """The label is about which of two texts has the sun: a model must tell them apart."""
    plain = toys.recipe(folder, **tables)
    for split, seed in (("train", 0), ("valid", 1)):
        texts = toys.texts(200 if split == "train" else 60, seed)
        rows = [
            ("first", f"{text} sun", text) if n % 2 else ("second", text, f"{text} sun")
            for n, text in enumerate(text.replace("sun", "rain") for text in texts)
        ]
        toys.write(folder, f"{split}.tsv", *rows)
    plain["data"]["second"] = 2
    return plain


@pytest.mark.spec("5.5", "4.1")
@pytest.mark.parametrize("preset", ["tiny", "recurrent"])
def test_pairs_are_learned(tmp_path: Path, preset: str) -> None:
    plain = paired(tmp_path, train={**LEARN, "steps": 200})
    plain["optimizer"]["learning_rate"] = 1e-2
    if preset == "recurrent":
        plain["model"] = {"preset": "recurrent", "d_model": 16, "layers": 1, "dropout": 0.1}
        plain["train"]["steps"] = 80
    toys.train(plain, tmp_path / "out")
    figures = metrics(tmp_path / "out")["valid"]
    assert figures["accuracy"] > 0.9
    assert remeasured(plain, tmp_path / "out") == pytest.approx(figures, rel=1e-3, abs=1e-5)
    assert opened(tmp_path / "out").classify("old dog sun", "old dog").label == "first"
    pool = json.loads((tmp_path / "out" / "config.json").read_text())["model"]["head"]["pool"]["kind"]
    assert pool == ("attention" if preset == "recurrent" else "mean")


def test_a_run_in_two_sittings_is_the_run_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = toys.recipe(tmp_path / "corpus", loss={"r_drop": 1.0, "class_weights": "balanced"})
    toys.train(plain, tmp_path / "whole")
    _interrupt(monkeypatch, 12)
    with pytest.raises(KeyboardInterrupt):
        toys.train(plain, tmp_path / "parted")
    monkeypatch.undo()
    outcome, _ = toys.train(None, tmp_path / "parted", resume=True)
    assert outcome.step == 20
    for name in ("model.safetensors", "checkpoint.safetensors"):
        assert same(load_file(tmp_path / "whole" / name), load_file(tmp_path / "parted" / name)), name


def _interrupt(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Without any warning, when the batches of this step are asked for."""
    parts = LabelledFeed.parts

    def until(own: Any, at: int, split: int = 1) -> Any:
        if at >= step:
            raise KeyboardInterrupt
        return parts(own, at, split)

    monkeypatch.setattr(LabelledFeed, "parts", until)


def test_other_text_is_not_resumed(tmp_path: Path) -> None:
    plain = toys.recipe(tmp_path / "corpus", train={"steps": 5})
    toys.train(plain, tmp_path / "out")
    (tmp_path / "corpus" / "valid.tsv").write_text("yes\tsun\nno\train\n")
    with pytest.raises(ConfigError, match="begun with other text"):
        toys.train(None, tmp_path / "out", resume=True)


def started(folder: Path, start: Path, **tables: Any) -> dict[str, Any]:
    plain = toys.recipe(folder, **tables)
    del plain["tokenizer"]
    plain["model"] = {"start": str(start), **tables.get("model", {})}
    return plain


@pytest.mark.parametrize("foreign", [False, True])
def test_only_the_head_learns_on_a_frozen_encoder(tmp_path: Path, learned: Any, foreign: bool) -> None:
    plain, start = learned
    if foreign:
        own, start = open_encoder(learned[1]), tmp_path / "foreign"
        encoder = {name: each for name, each in own.weights.items() if name.startswith("encoder.")}
        config = replace(own.config, head=EmbedConfig())
        write_folder(replace(own, config=config, weights=encoder, labels=()), start)
    plain = started(tmp_path / "corpus", start, model={"frozen": -1}, optimizer={"weight_decay": 0.1})
    toys.train(plain, tmp_path / "out")
    before, after = weights(learned[1]), weights(tmp_path / "out")
    kept = {name for name in before if name.startswith("encoder.")}
    assert same({name: before[name] for name in kept}, {name: after[name] for name in kept})
    assert not torch.equal(before["head.output.weight"], after["head.output.weight"])
    assert remeasured(plain, tmp_path / "out") == pytest.approx(
        metrics(tmp_path / "out")["valid"], rel=1e-3, abs=1e-5
    )


def test_lower_layers_stay_where_they_are_and_the_others_move(tmp_path: Path, learned: Any) -> None:
    model = {"frozen": 1, "dropout": 0.0}
    plain = started(tmp_path / "corpus", learned[1], model=model, optimizer={"layer_decay": 0.5})
    toys.train(plain, tmp_path / "out")
    before, after = weights(learned[1]), weights(tmp_path / "out")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.startswith(("head.", "encoder.body.layers.1."))}


def test_a_run_with_a_start_is_resumed_by_its_own_recipe(
    tmp_path: Path, learned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(learned[1].parent)
    plain = started(tmp_path / "corpus", Path(learned[1].name))  # a path from here
    toys.train(plain, tmp_path / "whole")
    _interrupt(monkeypatch, 12)
    with pytest.raises(KeyboardInterrupt):
        toys.train(plain, tmp_path / "parted")
    monkeypatch.undo()  # and somewhere else
    toys.train(None, tmp_path / "parted", resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parted"))


@pytest.mark.spec("5.8")
@pytest.mark.parametrize("kind", ["single", "multi", "pairs"])
def test_logistic_regression_finds_a_head_at_once(tmp_path: Path, learned: Any, kind: str) -> None:
    label = toys.sunny if kind != "multi" else lambda text: "sunny" if "sun" in text.split() else ""
    plain = started(tmp_path / "corpus", learned[1], head={"fit": "logistic"})
    toys.recipe(tmp_path / "corpus", label)
    plain["data"]["problem"] = "multi" if kind == "multi" else "single"
    if kind == "pairs":
        plain = {**plain, "data": paired(tmp_path / "corpus")["data"]}
    outcome, _ = toys.train(plain, tmp_path / "out")
    assert outcome.step == 0
    before, after = weights(learned[1]), weights(tmp_path / "out")
    assert all(torch.equal(before[name], after[name]) for name in before if name.startswith("encoder."))
    figures = metrics(tmp_path / "out")["valid"]
    assert figures["micro_f1" if kind == "multi" else "accuracy"] > (0.6 if kind == "pairs" else 0.95)
    assert remeasured(plain, tmp_path / "out") == pytest.approx(figures, rel=1e-3, abs=1e-5)


def rehearsed(plain: dict[str, Any], tmp_path: Path) -> str:
    said = io.StringIO()
    run.dry_run(plain, device="cpu", console=Console(file=said, width=200))
    lines = said.getvalue().splitlines(keepends=True)
    return "".join(line for line in lines[next(i for i, x in enumerate(lines) if x.startswith("task")) :])


@pytest.mark.parametrize("warm", [False, True])
def test_a_rehearsal_prints_a_recipe_that_trains_the_same(tmp_path: Path, learned: Any, warm: bool) -> None:
    plain = (
        started(tmp_path / "corpus", learned[1], train={"steps": 6})
        if warm
        else toys.recipe(tmp_path / "corpus", train={"steps": 6})
    )
    printed = tmp_path / "printed.toml"
    printed.write_text(rehearsed(plain, tmp_path))
    assert "parameters; 6 steps" in printed.read_text().splitlines()[-1]
    toys.train(plain, tmp_path / "one")
    toys.train(printed, tmp_path / "other")
    assert same(weights(tmp_path / "one"), weights(tmp_path / "other"))
    toys.train(tmp_path / "one" / "recipe.toml", tmp_path / "third")
    assert same(weights(tmp_path / "one"), weights(tmp_path / "third"))


def test_texts_may_be_held_out_also_where_a_label_is_rare(tmp_path: Path) -> None:
    """Whichever text is held out, none must break the run: here every label is of one text."""
    plain = toys.recipe(tmp_path, lambda text: text.replace(" ", "-"), count=40, train={"steps": 3})
    plain["data"] = {**plain["data"], "valid": [], "hold_out": 5}
    _, said = toys.train(plain, tmp_path / "out")
    assert "35 texts to learn from, 5, held out, to validate on; 40 labels" in said
    assert metrics(tmp_path / "out")["valid"]["accuracy"] == 0


def test_lines_that_are_left_out_are_counted_in_every_split(tmp_path: Path) -> None:
    plain = toys.recipe(tmp_path, train={"steps": 3}, data={"on_error": "skip", "test": "valid.tsv"})
    for name in ("train.tsv", "valid.tsv"):
        with (tmp_path / name).open("a") as file:
            file.write("\tno label\n")
    _, said = toys.train(plain, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "data.json").read_text())["skipped"] == 3
    assert "left out: 3" in said


def test_long_texts_are_counted_aloud(tmp_path: Path) -> None:
    for way, told in (("cut", "only their beginnings are read"), ("skip", "left out")):
        plain = toys.recipe(tmp_path, train={"steps": 3}, data={"longest": 6, "too_long": way})
        _, said = toys.train(plain, tmp_path / way)
        long = sum(len(text.split()) > 4 for text in toys.texts(200))
        assert f"{long} texts have more than 6 tokens: {told}" in said
        assert opened(tmp_path / way).reader.longest == 6


def test_texts_longer_than_usual_get_batches_that_hold_them(tmp_path: Path) -> None:
    plain = toys.recipe(
        tmp_path, train={"steps": 2}, data={"longest": 900}, model={"positions": "rotary", "longest": 900}
    )
    del plain["batch"]
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("yes\t" + "sun " * 800 + "\n")
    console = Console(file=io.StringIO())
    job = run.prepare(as_recipe(plain), tmp_path / "out", Ranks.join("cpu"), console)
    assert job.recipe.batch.tokens == 900  # short texts alone have 512
    lengths = [
        length
        for step in range(1, job.feed.plan.steps(0) + 1)
        for _, batch in job.feed.parts(step)
        for length in batch.text.layout.host_lengths
    ]
    assert max(lengths) == 802  # whole, between its two special tokens
    assert len(lengths) == 201  # and no other text was left out for it
    toys.train(plain, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "data.json").read_text())["long"] == 0


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"data": {"longest": 600}}, "data.longest=600, but the model reads 512"),
        ({"data": {"problem": "number"}}, r"train.tsv:1: no number 'no'|no number 'yes'"),
        ({"data": {"label": 7}}, "train.tsv:1"),
        ({"data": {"train": "gone.tsv"}}, "gone.tsv"),
        ({"head": {"fit": "logistic"}}, "set model.start"),
        ({"valid": {"metric": "spearman"}}, "valid.metric='spearman' is none of"),
        ({"data": {"problem": "multi"}, "loss": {"label_smoothing": 0.1}}, "loss.label_smoothing"),
        ({"model": {"start": "nowhere"}}, "beside start|tokenizer.kind is set beside model.start"),
    ],
)
def test_what_cannot_be_trained_is_told(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    plain = toys.recipe(tmp_path, **tables)
    with pytest.raises((ConfigError, DataError, ValueError), match=message):
        toys.train(plain, tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_labels_that_leave_nothing_to_learn_are_told(tmp_path: Path) -> None:
    plain = toys.recipe(tmp_path, lambda _: "same")
    with pytest.raises(ValueError, match="all texts have the label 'same'"):
        toys.train(plain, tmp_path / "out")
    plain = toys.recipe(tmp_path, lambda _: "", data={"problem": "multi"})
    with pytest.raises(ValueError, match=r"data.train: no text has a label"):
        toys.train(plain, tmp_path / "out")


def test_a_start_that_is_not_there_or_a_tokenizer_beside_it_is_told(tmp_path: Path) -> None:
    plain = started(tmp_path, Path("nowhere"))
    with pytest.raises(FolderError, match="nowhere: no such folder"):
        toys.train(plain, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"tokenizer.vocabulary is set beside model.start"):
        as_recipe({**plain, "tokenizer": {"vocabulary": 77}})
    with pytest.raises(ConfigError, match="model='bert' should be a table"):
        as_recipe({**plain, "model": "bert"})


@pytest.mark.parametrize(
    ("head", "kind"), [({"pool": "attention", "query": "fixed"}, "attention"), ({"pool": "pooler"}, "pooler")]
)
def test_every_pool_comes_back_from_its_folder(tmp_path: Path, head: Any, kind: str) -> None:
    plain = toys.recipe(tmp_path, head=head)
    toys.train(plain, tmp_path / "out")
    own = opened(tmp_path / "out")
    assert own.reader.model.head.pool.kind == kind  # type: ignore[union-attr]
    assert remeasured(plain, tmp_path / "out") == pytest.approx(
        metrics(tmp_path / "out")["valid"], rel=1e-3, abs=1e-5
    )


def test_balanced_weights_make_the_labels_count_alike(tmp_path: Path) -> None:
    plain = toys.recipe(tmp_path / "corpus", loss={"class_weights": "balanced"})
    found: Any = prepared(plain, tmp_path / "out").loss
    yes = sum(toys.sunny(text) == "yes" for text in toys.texts(200))
    assert found._weights.tolist() == pytest.approx([200 / 2 / (200 - yes), 200 / 2 / yes])


def test_a_label_whose_texts_are_all_left_out_is_never_given(tmp_path: Path, learned: Any) -> None:
    """By logistic regression, which only knows the labels that it is shown."""
    plain = started(
        tmp_path,
        learned[1],
        head={"fit": "logistic"},
        data={"longest": 12, "too_long": "skip"},
        loss={"class_weights": "balanced"},
    )
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("long\t" + "sun " * 50 + "\n")
    toys.train(plain, tmp_path / "out")
    own = opened(tmp_path / "out")
    assert own.labels == ("long", "no", "yes")
    assert own.classify("red sun").label == "yes"
    assert own.classify("red sun").probabilities["long"] == 0


def test_logistic_regression_does_not_ask_what_nobody_has_learned(tmp_path: Path) -> None:
    """A start that pools by attention has a query of its own, which a new head does not."""
    plain = toys.recipe(tmp_path, train={"steps": 2}, head={"pool": "attention"})
    toys.train(plain, tmp_path / "start")
    toys.train(started(tmp_path, tmp_path / "start", head={"fit": "logistic"}), tmp_path / "out")
    assert opened(tmp_path / "out").reader.model.head.pool.kind == "mean"  # type: ignore[union-attr]


@pytest.mark.parametrize("problem", FIGURES)
def test_a_model_is_measured_by_every_figure_of_its_problem(problem: Any) -> None:
    labels = 1 if problem == "number" else 3
    names = () if problem == "number" else ("a", "b", "c")
    own = Classifier(toys.reader(toys.model(ClassifyConfig(labels=labels))), names, problem)
    scores = np.random.default_rng(0).normal(size=(6, labels)).astype(np.float32)
    wanted: Any = {
        "single": np.array([0, 1, 1, 0, 1, 0]),
        "multi": np.array([[n % 2, n % 3 == 0, False] for n in range(6)], dtype=bool),
        "number": np.arange(6, dtype=np.float32),
    }[problem]
    figures = measure(own, scores, wanted)
    assert set(FIGURES[problem]) <= figures.keys()
    rows, answers = torch.from_numpy(scores), torch.from_numpy(wanted)
    expected = {
        "single": lambda: F.cross_entropy(rows, answers),
        "multi": lambda: F.binary_cross_entropy_with_logits(rows, answers.float()),
        "number": lambda: F.mse_loss(rows[:, 0], answers),
    }[problem]()
    assert figures["loss"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("problem", "metric", "expected"),
    [
        ("single", "auto", ("accuracy", "high")),
        ("single", "loss", ("loss", "low")),
        ("number", "auto", ("spearman", "high")),
        ("number", "mse", ("mse", "low")),
        ("multi", "exact", ("exact", "high")),
    ],
)
def test_what_is_better_follows_from_the_figure(
    tmp_path: Path, problem: str, metric: str, expected: tuple[str, str]
) -> None:
    plain = toys.recipe(
        tmp_path, lambda text: len(text), count=20, data={"problem": problem}, valid={"metric": metric}
    )
    plain["data"]["valid"] = []
    assert prepared(plain, tmp_path / "out").metric == expected


def test_batch_norm_learns_is_resumed_and_is_kept_with_what_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = toys.recipe(tmp_path / "corpus", model={**toys.TINY, "norm_kind": "batch"})
    toys.train(plain, tmp_path / "whole")
    _interrupt(monkeypatch, 12)
    with pytest.raises(KeyboardInterrupt):
        toys.train(plain, tmp_path / "parted")
    monkeypatch.undo()
    toys.train(None, tmp_path / "parted", resume=True)
    whole, parted = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parted"))
    assert same(whole, parted)
    seen = [name for name in whole if name.endswith("running_mean")]
    assert len(seen) == 5  # two in each layer, and that of the embedding
    assert all(whole[name].abs().sum() > 0 for name in seen)
    assert remeasured(plain, tmp_path / "whole") == pytest.approx(
        metrics(tmp_path / "whole")["valid"], rel=1e-3
    )


class _Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


def _kill(monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> list[str]:
    """At the `at`-th file that is put into its place, before or after that; the names of those put so far."""
    done: list[str] = []
    put = Path.replace

    def dying(own: Path, target: Any) -> Path:
        if len(done) == at and not after:
            raise _Killed
        done.append(Path(target).name)
        found = put(own, target)
        if len(done) > at:
            raise _Killed
        return found

    monkeypatch.setattr(Path, "replace", dying)
    return done


@pytest.mark.parametrize("after", [False, True])
def test_a_run_killed_at_any_file_that_it_writes_is_resumed_as_if_it_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """With the usual settings there is no checkpoint while a run is short."""
    steps = {"steps": 6, "validate_every": 2, "log_every": 2, "save_every": 0}
    plain = toys.recipe(tmp_path / "corpus", train=steps, valid={"metric": "loss"})
    with monkeypatch.context() as context:
        files = _kill(context, 1000, after=after)
        toys.train(plain, tmp_path / "whole")
    assert {"model.safetensors", "checkpoint.safetensors", "config.json", "recipe.toml"} < {*files}
    whole = load_file(tmp_path / "whole" / "model.safetensors")
    for at in range(len(files)):
        folder = tmp_path / f"parted-{at}"
        with monkeypatch.context() as context:
            _kill(context, at, after=after)
            with pytest.raises(_Killed):
                toys.train(plain, folder)
        toys.train(plain, folder, resume=True)
        assert same(whole, load_file(folder / "model.safetensors")), (at, files[at])
        assert metrics(folder)["valid"] == metrics(tmp_path / "whole")["valid"], (at, files[at])
