"""What `regard train` does with the text before torch is there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import write_toml
from regard.tasks import ahead
from regard.tasks.registry import as_recipe
from regard.text import Tokenizer
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

MADE_UP = """
import os, sys, tempfile, time
from pathlib import Path
from types import SimpleNamespace
from regard.tasks import ahead

def check(written, tokens):
    raise OSError("the doctor is ill")

def settle(written, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text("{")
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "own.db").write_text("")
        time.sleep(40)

sys.platform = sys.argv[2]
ahead.get_task = lambda name: SimpleNamespace(check=check, ahead=settle)
recipe = SimpleNamespace(checked=SimpleNamespace(task="made up"))
begun = ahead.Ahead(recipe, Path(sys.argv[1]), check=True)
print(begun.report(), begun._text.is_alive(), flush=True)
while begun._text.is_alive() and not [*Path(tempfile.gettempdir()).glob("*/*/own.db")]:
    time.sleep(0.01)
print("at work", flush=True)
"""
"""A text that takes its time, and a doctor that dies."""

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


def made_up(
    folder: Path, then: str, system: str = sys.platform, place: Path | None = None
) -> subprocess.Popen[str]:
    """The text is at work, and the doctor's end was noticed all the same."""
    temporary = place or folder.parent / "temporary"
    temporary.mkdir(exist_ok=place is not None)
    environment = {**QUIET, "TMPDIR": str(temporary)}
    given = [sys.executable, "-c", MADE_UP + then, str(folder), system]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(given, env=environment, **quiet)
    assert (process.stdout.readline(), process.stdout.readline()) == ("None True\n", "at work\n")
    return process


@pytest.mark.parametrize(
    ("number", "system"), [("SIGKILL", sys.platform), ("SIGTERM", sys.platform), ("SIGKILL", "elsewhere")]
)
def test_what_was_begun_dies_with_a_run_that_is_killed_and_spoils_no_later_one(
    place: Path, tmp_path: Path, number: str, system: str
) -> None:
    process = made_up(tmp_path / "out", "time.sleep(40)", system)
    process.send_signal(signal.Signals[number])
    process.communicate(timeout=20)  # the output ends when the last process that has it does
    assert [path.name for path in tmp_path.glob("out/*/*")] == ["tokenizer.json"]  # half of one
    (tmp_path / "recipe.toml").write_bytes((place / "recipe.toml").read_bytes())
    train(tmp_path, "out")
    assert [*(tmp_path / "out").glob("text.ahead-*")] == []
    assert Tokenizer.load(tmp_path / "out").encode("a red house").ids


def test_what_killed_runs_have_left_goes_when_the_next_one_begins(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    left = made_up(tmp_path / "out", "time.sleep(40)")
    [dead] = temporary.iterdir()
    left.kill()
    left.communicate(timeout=20)
    (other := temporary / "other").mkdir()
    (link := temporary / "regard-ahead-link").symlink_to(other)
    temporary.rename(tmp_path / "kept")
    alive = made_up(tmp_path / "at work", "time.sleep(40)")
    [used] = temporary.iterdir()
    for each in (tmp_path / "kept").iterdir():
        each.rename(temporary / each.name)
    for each in (dead, used, other):
        os.utime(each, (0, 0))
    made_up(tmp_path / "next", "begun.end()", place=temporary).communicate(timeout=20)
    assert {*temporary.iterdir()} == {used, other, link}
    alive.kill()
    alive.communicate(timeout=20)


@pytest.mark.parametrize("then", ["begun.end()", "sys.exit()", "os.kill(os.getpid(), 2)"])
def test_what_is_not_wanted_any_more_leaves_nothing_behind(tmp_path: Path, then: str) -> None:
    made_up(tmp_path / "out", then).communicate(timeout=20)
    assert [*(tmp_path / "out").iterdir()] == []
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_what_another_run_has_settled_is_not_written_over(tmp_path: Path) -> None:
    quick, file = MADE_UP.replace("time.sleep(40)", ""), tmp_path / "out" / "tokenizer.json"
    file.parent.mkdir()
    file.write_text("whole")
    given = [sys.executable, "-c", quick + "begun.wait(); begun.end()", str(file.parent), sys.platform]
    subprocess.run(given, env=QUIET, capture_output=True, check=True)
    assert [*file.parent.iterdir()] == [file]
    assert file.read_text() == "whole"
