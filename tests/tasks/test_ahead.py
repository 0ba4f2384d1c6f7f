"""What `regard train` does with the text before torch is there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import write_toml
from regard.tasks import ahead
from regard.tasks.registry import as_recipe
from tests.tasks import tiny
from tests.tasks.test_runs import QUIET, command, start, train

BEGUN = """
import json, sys
from pathlib import Path
from regard.tasks.ahead import begin
from regard.tasks.registry import read_recipe

begun = begin(read_recipe(sys.argv[1]), Path(sys.argv[2]), check=sys.argv[3] == "yes")
report = begun.report()
begun.wait()
begun.end()
print(json.dumps([None if report is None else report.ok, begun._text.exitcode, "torch" in sys.modules]))
"""

TRAINED = """
import sys
from regard.cli import main

try:
    main()
finally:
    print("torch._dynamo" in sys.modules)  # seconds, and nothing is compiled here
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ahead")
    (place / "recipe.toml").write_text(write_toml(tiny.recipe(place / "corpus", train={"steps": 4})))
    return place


def begun(place: Path, recipe: str, out: str, check: str = "yes") -> tuple[bool | None, int, bool]:
    given = [str(place / recipe), str(place / out), check]
    done = subprocess.run([sys.executable, "-c", BEGUN, *given], env=QUIET, capture_output=True, text=True)
    assert done.stderr == ""
    return tuple(json.loads(done.stdout))


def test_a_model_is_the_same_whoever_has_read_the_text(place: Path) -> None:
    given = command(place, "begun", str(place / "recipe.toml"))
    done = subprocess.run([sys.executable, "-c", TRAINED, *given], env=QUIET, capture_output=True, text=True)
    assert done.stdout.split()[-1] == "False", done.stdout + done.stderr
    train(place, "alone")
    for name in ("model.safetensors", "tokenizer.json", "config.json", "tokens.of", "tokens/source.values"):
        assert (place / "begun" / name).read_bytes() == (place / "alone" / name).read_bytes(), name


def test_the_text_is_settled_without_torch_and_found_by_who_prepares(place: Path) -> None:
    assert begun(place, "recipe.toml", "text") == (True, 0, False)
    files = [place / "text" / name for name in ("tokenizer.json", "tokens/store.json")]
    written = [file.stat().st_mtime_ns for file in files]
    train(place, "text")
    assert [file.stat().st_mtime_ns for file in files] == written


def test_what_fails_is_left_to_who_does_it_again(place: Path) -> None:
    broken = tiny.recipe(place / "broken", train={"steps": 4})
    (place / "broken" / "train.de").unlink()
    (place / "broken.toml").write_text(write_toml(broken))
    assert begun(place, "broken.toml", "nothing") == (False, 1, False)
    process = start(place, "nothing", str(place / "broken.toml"))
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "train.de" in said
    assert "Traceback" not in said


def test_a_text_that_is_not_looked_at_gives_no_report(place: Path) -> None:
    assert begun(place, "recipe.toml", "unseen", "no") == (None, 0, False)


def test_nothing_begins_where_something_could_be_lost(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = as_recipe(tiny.recipe(tmp_path / "corpus"))
    asked = []
    monkeypatch.setattr(ahead, "Ahead", lambda *given, **how: asked.append(given))
    ahead.begin(written, tmp_path / "new", check=True)
    assert not asked  # torch is there
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    ahead.begin(written, tmp_path / "new", check=True)
    assert len(asked) == 1
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "tokenizer.json").write_text("{}")
    ahead.begin(written, tmp_path / "used", check=True)
    monkeypatch.setenv("RANK", "1")
    ahead.begin(written, tmp_path / "new", check=True)
    assert len(asked) == 1
