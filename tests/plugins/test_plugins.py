"""A third party adds a task, a head, positions, a score and a metric from a file of its own: parts.py.

What is theirs does what ours does: recipes name it, it is trained, saved, loaded, evaluated and looked at.
"""

import base64
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import cli, plugins
from regard.config import ConfigError
from regard.layout import Layout
from regard.look.explorer.explorer import Explorer, Refused
from regard.plugins import LOADED, load_plugin, unload_plugin
from regard.settings.network import PositionsConfig
from regard.tasks.base.folder import FolderError
from tests.conftest import ROOT
from tests.tasks import tiny

PARTS = ROOT / "tests" / "plugins" / "parts.py"
SMALL = [
    "model.preset=tiny",
    "model.layers=1",
    "model.d_model=16",
    "model.heads=2",
    "batch.tokens=256",
    "train.steps=30",
    "train.validate_every=15",
]
OWN = ["model.positions=ramp", "model.score=cosine"]
TEXTS = ["a red house", "the old dog sees a big blue tree"]


@pytest.fixture
def parts():
    load_plugin(PARTS)
    yield sys.modules["parts"]
    unload_plugin("parts")


@pytest.fixture
def alone():
    """Whatever a test loads is forgotten."""
    before = {*LOADED}
    yield
    for name in {*LOADED} - before:
        unload_plugin(name)


def run(*arguments: str | Path, path: Path | None = None, folder: Path | None = None):
    """`regard`, in a process of its own; `path` is a folder of installed packages."""
    where = [str(path)] if path else []
    lookup = os.pathsep.join([*where, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": lookup},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def at_the_prompt(monkeypatch, capsys, *arguments: str | Path) -> str:
    """The same in this process."""
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A word counter, trained at the prompt by a recipe."""
    place = tmp_path_factory.mktemp("plugin")
    lines = [source for source, _ in tiny.pairs(200)]
    (place / "train.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (place / "recipe.toml").write_text('task = "count"\n[data]\ntrain = "train.txt"\n', encoding="utf-8")
    out = place / "counter"
    trained = run("--plugin", PARTS, "train", place / "recipe.toml", *SMALL, *OWN, "--out", out)
    assert trained.returncode == 0, trained.stderr
    return out


def test_a_task_of_a_plugin_is_trained_by_a_recipe(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["task"] == "count"
    assert config["plugins"] == ["parts"]
    assert config["model"]["encoder"]["positions"]["kind"] == "ramp"
    assert config["model"]["encoder"]["body"]["attention"]["score"] == "cosine"
    assert config["model"]["head"] == {"kind": "count", "bias": True}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["valid"]["error"] < 2.5  # lines have from 2 to 7 words


def test_a_model_of_a_plugin_is_loaded_and_saved_again(folder, parts, tmp_path):
    counter = regard.load(folder)
    assert type(counter) is parts.Counter
    counts = counter.count(TEXTS)
    assert counts == regard.load(folder, parts.Counter).count(TEXTS)
    np.testing.assert_allclose([counter.count([text])[0] for text in TEXTS], counts, rtol=1e-5)
    regard.save(counter, tmp_path / "again")
    assert regard.load(tmp_path / "again").count(TEXTS) == counts
    read = [json.loads((each / "config.json").read_text()) for each in (folder, tmp_path / "again")]
    assert read[0] == read[1]


def test_a_run_of_a_plugin_is_resumed_from_its_own_folder(folder, parts, tmp_path):
    recipe, out = folder.parent / "recipe.toml", tmp_path / "model"
    regard.fit(recipe, *SMALL, *OWN, "train.validate_every=5", "train.steps=5", out=out)
    outcome = regard.fit(out / "recipe.toml", "train.steps=10", out=out, resume=True)
    assert (outcome.step, outcome.stopped) == (10, None)
    assert regard.load(out).count(TEXTS)


def test_a_command_of_a_plugin_is_one_of_regards(folder):
    asked = run("--plugin", PARTS, "count", folder, TEXTS[0])
    assert asked.returncode == 0, asked.stderr
    [found] = json.loads(asked.stdout)
    assert 0 < found < 10
    assert "count" in run("--plugin", PARTS, "--help").stdout


def test_a_model_of_a_plugin_is_evaluated(folder, parts, monkeypatch, capsys):
    told = at_the_prompt(
        monkeypatch, capsys, "evaluate", folder, "--text", folder.parent / "train.txt", "--json"
    )
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert json.loads(told)["error"] == pytest.approx(metrics["valid"]["error"], rel=1e-4)


def test_the_explorer_answers_for_a_model_of_a_plugin(folder, parts):
    explorer = Explorer(regard.load(folder, precision="float32"), "counter")
    about = explorer.ask("about", {})
    assert (about["kind"], about["positions"]) == ("word counter", "ramp")
    read = explorer.ask("read", {"text": TEXTS[0]})
    assert read["places"]["encoder"]["heads"] == [2]
    rows = explorer.ask("positions", {"side": "encoder"})
    assert (rows["has"], rows["kind"], rows["width"]) == ("rows", "ramp", 16)
    assert explorer.ask("layers", {"text": TEXTS[0]})
    steps = explorer.ask("tour", {"text": TEXTS[0]})["steps"]
    assert any("s(q, k), s the model's own" in step["equation"] for step in steps)
    with pytest.raises(Refused, match="a score of its own"):
        explorer.ask("neuron", {"text": TEXTS[0], "place": "encoder", "layer": 0, "head": 0})


def test_the_heads_that_the_explorer_shows_are_those_of_the_pass(folder, parts):
    counter = regard.load(folder, precision="float32")
    with regard.trace(counter) as seen:
        counter.count(TEXTS[:1])
    head = Explorer(counter, "counter").ask(
        "head", {"text": TEXTS[0], "place": "encoder", "layer": 0, "head": 1}
    )
    kind, spelled = head["weights"].split(":")
    assert kind == "u2"
    shown = np.frombuffer(base64.b64decode(spelled), "<u2").astype(np.float64) / 65535
    wanted = seen.weights(layer=0, head=1).double().numpy()
    np.testing.assert_allclose(shown.reshape(wanted.shape), wanted, atol=1e-4)


def test_a_page_of_a_model_of_a_plugin_is_saved(folder, parts, monkeypatch, capsys, tmp_path):
    page = tmp_path / "page.html"
    told = at_the_prompt(monkeypatch, capsys, "look", folder, TEXTS[0], "--out", page)
    assert "answers" in told
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_translator_takes_positions_a_score_and_a_metric_of_a_plugin(parts, tmp_path, monkeypatch, capsys):
    plain = tiny.recipe(
        tmp_path,
        model={"positions": "ramp", "score": "cosine"},
        train={"steps": 6, "validate_every": 3},
        valid={"metric": "length_ratio", "sentences": 5},
    )
    outcome = regard.fit(plain, out=tmp_path / "model")
    assert 0 <= outcome.best["length_ratio"] <= 1
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert config["plugins"] == ["parts"]
    translator = regard.load(tmp_path / "model", regard.Translator)
    assert isinstance(translator.translate("a red house").text, str)
    source, target = (tmp_path / f"valid.{end}" for end in ("en", "de"))
    told = at_the_prompt(
        monkeypatch,
        capsys,
        "evaluate",
        tmp_path / "model",
        "--source",
        source,
        "--reference",
        target,
        "--json",
    )
    assert "bleu" in told.lower()


def test_a_language_model_takes_positions_and_a_score_of_a_plugin(parts, tmp_path):
    text = "\n".join(source for source, _ in tiny.pairs(300))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    settings = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 1}
    plain = {
        "task": "language",
        "data": {"train": "text.txt", "root": str(tmp_path)},
        "model": {**settings, "positions": "ramp", "score": "cosine"},
        "batch": {"tokens": 256},
        "context": {"tokens": 32},
        "train": {"steps": 4, "validate_every": 4},
    }
    regard.fit(plain, out=tmp_path / "model")
    writer = regard.load(tmp_path / "model", regard.Generator)
    assert writer.generate("a red", max_tokens=4) == writer.generate("a red", max_tokens=4)


def test_a_fresh_process_refuses_the_folder_and_says_what_it_needs(folder):
    asked = run("evaluate", folder, "--text", folder.parent / "train.txt")
    assert asked.returncode == 1
    assert "it needs the plugin 'parts'" in asked.stderr
    assert "regard --plugin parts.py" in asked.stderr
    assert "regard.load_plugin('parts.py')" in asked.stderr
    assert "Traceback" not in asked.stderr


def test_without_the_plugin_the_folder_is_refused(folder):
    with pytest.raises(FolderError, match=r"needs the plugin 'parts'.*regard --plugin parts\.py"):
        regard.load(folder)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (lambda own: regard.Positions(name="rotary"), "positions.kind='rotary' is there already"),
        (lambda own: regard.Score(name="additive", build=own.COSINE.build), "attention.score='additive'"),
        (lambda own: own.RAMP, "positions.kind='ramp' is there already: choose another name"),
        (lambda own: own.LENGTHS, "valid.metric='translate.length_ratio' is there already"),
        (lambda own: own.TASK, "task='count' is there already"),
    ],
)
def test_a_name_that_is_taken_is_refused(parts, part, said):
    with pytest.raises(ConfigError) as told:
        regard.register(part(parts))
    assert said in str(told.value)


@pytest.mark.parametrize("name", ["translate", "tag"])
def test_the_names_of_regards_own_tasks_are_taken(parts, name):
    with pytest.raises(ConfigError, match=f"task='{name}' is there already"):
        regard.register(replace(parts.TASK, name=name))


def test_a_metric_cannot_take_the_place_of_one_of_regards():
    mine = regard.Metric(task="translate", figure="bleu", function=lambda found, wanted: 100.0)
    regard.register(mine)
    try:
        with pytest.raises(ConfigError, match="the metric 'bleu' of 'translate' is regard's own"):
            regard.fit({"data": {"train": ["a", "b"]}}, out="none")
    finally:
        plugins.unregister(mine)


def test_what_is_no_part_is_refused():
    with pytest.raises(ConfigError, match="a str cannot be registered: give a Task, HeadSpec"):
        regard.register("mine")


def test_names_that_are_not_known_suggest_those_that_are(parts, folder):
    recipe = folder.parent / "recipe.toml"
    for setting, said in (
        ("model.positions=rmap", "did you mean 'ramp'?"),
        ("model.score=cosin", "did you mean 'cosine'?"),
        ("task=cuont", "did you mean 'count'?"),
        ("head.bais=true", "did you mean 'bias'?"),
    ):
        with pytest.raises(ConfigError) as told:
            regard.fit(recipe, setting, out=folder.parent / "none")
        assert said in str(told.value)
    with pytest.raises(ConfigError, match="did you mean 'length_ratio'"):
        regard.fit({"data": {"train": ["a", "b"]}, "valid": {"metric": "length_rato"}}, out="none")


def test_two_plugins_of_one_name_are_refused(parts, tmp_path):
    (tmp_path / "parts.py").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"two plugins are called 'parts'.*rename one"):
        load_plugin(tmp_path / "parts.py")
    load_plugin(PARTS)  # the same once more is no harm


def test_a_plugin_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.py: no such file"):
        load_plugin(tmp_path / "missing.py")
    with pytest.raises(ConfigError, match="no plugin 'no_such_module': give a Python file"):
        load_plugin("no_such_module")
    asked = run("--plugin", tmp_path / "missing.py", "train", "recipe.toml")
    assert asked.returncode == 1
    assert "no such file" in asked.stderr


def registered() -> dict[str, list[str]]:
    return {registry.key: [*registry] for registry in plugins._REGISTRIES}


def test_a_broken_plugin_leaves_nothing_registered(tmp_path, alone):
    before = registered()
    (tmp_path / "broken.py").write_text(
        textwrap.dedent("""
        import regard

        regard.register(regard.Positions(name="half"))
        regard.register(regard.Metric(task="translate", figure="half", function=lambda a, b: 0.5))
        raise RuntimeError("in the middle")
        """),
        encoding="utf-8",
    )
    for _ in range(2):  # so that it can be mended and tried again
        with pytest.raises(RuntimeError, match="in the middle"):
            load_plugin(tmp_path / "broken.py")
        assert registered() == before
        assert "broken" not in LOADED
        assert "broken" not in sys.modules
    with pytest.raises(ConfigError, match="'half'"):
        _positions("half")
    mended = (tmp_path / "broken.py").read_text(encoding="utf-8").replace("raise", "done = lambda: 0 #")
    (tmp_path / "broken.py").write_text(mended, encoding="utf-8")
    load_plugin(tmp_path / "broken.py")
    assert _positions("half").kind == "half"


def _positions(kind: str):
    return PositionsConfig(kind=kind)


def test_a_plugin_that_fails_keeps_what_it_loaded_before(tmp_path, alone):
    """Another plugin, whole by itself."""
    (tmp_path / "whole.py").write_text(
        'import regard\nregard.register(regard.Positions(name="whole"))\n', encoding="utf-8"
    )
    (tmp_path / "outer.py").write_text(
        f"import regard\nregard.load_plugin({str(tmp_path / 'whole.py')!r})\n"
        'regard.register(regard.Positions(name="outer"))\n1 / 0\n',
        encoding="utf-8",
    )
    with pytest.raises(ZeroDivisionError):
        load_plugin(tmp_path / "outer.py")
    assert _positions("whole").kind == "whole"
    with pytest.raises(ConfigError, match="'outer'"):
        _positions("outer")


def test_what_is_registered_by_hand_is_of_no_plugin():
    mine = regard.Positions(name="by_hand")
    regard.register(mine)
    try:
        assert plugins.needed({"model": {"positions": {"kind": "by_hand"}}}) == []
    finally:
        plugins.unregister(mine)
    with pytest.raises(ConfigError, match="was not added"):
        plugins.unregister(mine)


def install(place: Path, name: str, module: str, code: str) -> None:
    """As pip leaves a package, entry points and all."""
    about = place / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[regard.plugins]\n{name} = {module}\n")
    (place / f"{module}.py").write_text(code, encoding="utf-8")


@pytest.mark.long
def test_an_installed_package_is_found_by_its_entry_point(folder, tmp_path):
    """Under the name that the folder asks for: nobody needs to say --plugin."""
    install(tmp_path, "parts", "their_package", PARTS.read_text(encoding="utf-8"))
    asked = run("count", folder, TEXTS[0], path=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert 0 < json.loads(asked.stdout)[0] < 10
    trained = run(
        "train",
        folder.parent / "recipe.toml",
        *SMALL,
        *OWN,
        "train.steps=2",
        "--out",
        tmp_path / "more",
        path=tmp_path,
    )
    assert trained.returncode == 0, trained.stderr
    assert json.loads((tmp_path / "more" / "config.json").read_text())["plugins"] == ["parts"]


def test_a_broken_package_stops_nobody_else(folder, tmp_path):
    install(tmp_path, "broken", "broken_package", "import regard\nimport no_such_thing\n")
    install(tmp_path, "parts", "their_package", PARTS.read_text(encoding="utf-8"))
    asked = run("count", folder, TEXTS[0], path=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert "the installed plugin 'broken' (broken_package) cannot be loaded" in asked.stderr
    assert "no_such_thing" in asked.stderr


def test_what_is_registered_is_no_effect_of_importing_regard(tmp_path):
    """An installed plugin is not imported before somebody names what regard does not have."""
    install(tmp_path, "loud", "loud_package", "raise SystemExit('imported')\n")
    asked = run("--version", path=tmp_path)
    assert asked.returncode == 0
    assert asked.stderr == ""


def test_gradients_reach_all_that_a_plugin_has_learned(folder, parts):
    counter = regard.load(folder, parts.Counter)
    model = counter.model.train().requires_grad_(True)
    model(torch.arange(6) + 5, Layout.of([4, 2])).sum().backward()
    own = {
        name
        for name, each in model.named_parameters()
        if each.grad is not None and bool(each.grad.abs().sum() > 0)
    }
    for name in ("encoder.embedding.positions.direction.weight", "score.temperature", "head.output.weight"):
        assert any(each.endswith(name) for each in own), (name, sorted(own))


def test_no_other_engine_takes_positions_that_it_does_not_know(parts):
    pytest.importorskip("ctranslate2")
    from regard.deploy.spec import check_config
    from tests.models.families import seq2seq, transformer

    with pytest.raises(ConfigError, match=r"positions\.kind='ramp'"):
        check_config(seq2seq(transformer(), "ramp"))
