"""The commands and the code of the README and of every page of docs/ run, and do what the text says.

A page's blocks of `sh` and `python` run in their order, in a folder that holds the files they name. Training
is brief: a few steps of a small model. A block that cannot run here says so in a comment before it:
<!-- not run: the reason -->
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import regard
from regard.tasks.run import fit
from regard.text.phrasebook import phrases
from tests.conftest import ROOT

PROMPT = ROOT / "tests" / "prompt.py"
GENERATED = {"docs/speed.md": "written by regard bench; its commands measure for minutes"}
"""Pages that are written by a program, and why nothing of them is run."""
LONG = {
    *(
        f"docs/tasks/{name}.md"
        for name in ("classification", "embedding", "language", "memory", "translation", "reranking")
    ),
    *(
        f"docs/guides/{name}.md"
        for name in ("changing", "check", "checkpoints", "labelled-text", "translation-memory")
    ),
    *("docs/corpora.md", "docs/trace.md"),
}
"""Pages that take many seconds: make gauntlet runs them."""


class Block(NamedTuple):
    language: str
    code: str
    why_not: str | None


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:<!-- not run: ([^>]*?) -->\n)?```(python|sh)\n(.*?)```", text, re.DOTALL)
    return [Block(language, code, why or None) for why, language, code in found]


def pages() -> list[str]:
    """Those with something to run."""
    every = [
        "README.md",
        *(
            path.relative_to(ROOT).as_posix()
            for path in sorted((ROOT / "docs").rglob("*.md"))
            if path.parent.name != "tutorials"
        ),  # tests/test_tutorials.py
    ]
    return [
        page for page in every if page not in GENERATED and any(not each.why_not for each in blocks(page))
    ]


# what is typed: `regard`, started once, that trains briefly

QUICK = {
    "translate": {
        "train": {"steps": 4, "validate_every": 4},
        "valid": {"sentences": 4},
        "model": {"d_model": 32},
        "decode": {"beam": 2, "minimum": 3, "maximum": 12},
    },
    "other": {"train": {"steps": 3, "validate_every": 3}, "batch": {"tokens": 512}},
}
SCRIPT = """#!/bin/sh
case " $* " in
*" train "*)
    if grep -qs '^task = "[^t]\\|^task = "ta\\|^start = ' $(printf '%s\\n' "$@" | grep 'toml$')
    then set -- "$@" {other}
    else set -- "$@" {translate}; fi ;;
" phrasebook "*) set -- "$@" --train 1500 --valid 20 --test 20 ;;
esac
exec {ask} "$@"
"""


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment with a `regard` that starts at once and trains briefly."""
    folder = tmp_path_factory.mktemp("prompt")
    ask = f"{sys.executable} -S {PROMPT} ask {folder / 'socket'}"
    (folder / "bin").mkdir()
    written = {task: " ".join(settings(quick)) for task, quick in QUICK.items()}
    (folder / "bin" / "regard").write_text(SCRIPT.format(ask=ask, **written), encoding="utf-8")
    (folder / "bin" / "regard").chmod(0o755)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, PROMPT, "serve", folder / "socket"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield {**environment, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        server.kill()


def settings(quick: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [f"{table}.{key}={value}" for table, values in quick.items() for key, value in values.items()]


def typed(commands: str, folder: Path, environment: dict[str, str]) -> str:
    """What is shown when they are."""
    command = ["sh", "-e", "-c", commands]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{commands}\n{run.stdout}{run.stderr}"
    return run.stdout


def fit_briefly(recipe: Mapping[str, Any], **options: Any) -> Any:
    """`regard.fit` of plain data, in a few steps."""
    quick = QUICK["translate" if recipe.get("task", "translate") == "translate" else "other"]
    tables = {name: {**values, **recipe.get(name, {})} for name, values in quick.items()}
    return fit({**recipe, **tables}, **options)


# the files that pages name


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, prompt: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    for name, split, count in (("mine", "train", 1500), ("own", "valid", 60), ("test", "test", 20)):
        pairs = phrases(split, count)
        (folder / f"{name}.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
    pairs = phrases("train", 1500)
    rows = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    (folder / "memory.tsv").write_text(f"en\tde\n{rows}", encoding="utf-8")
    (folder / "letter.en").write_text("The dog sleeps.\n\nWhere is the cat?\n", encoding="utf-8")
    sentences = [pair.source for pair in pairs[:120]]
    rows = "".join(f"{text}\t{'question' if text.endswith('?') else 'statement'}\n" for text in sentences)
    for name in ("tickets.tsv", "more.tsv"):
        (folder / name).write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    (folder / "letters.txt").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    tagged = [
        [f"{word} {'B-X' if word[0].isupper() else 'O'}" for word in text.split()] for text in sentences
    ]
    text = "\n\n".join("\n".join(each) for each in tagged) + "\n"
    (folder / "names.conll").write_text(text, encoding="utf-8")
    asked = [
        {
            "context": f"{one} {other}",
            "qas": [{"id": one, "question": one, "answers": [{"text": other, "answer_start": len(one) + 1}]}],
        }
        for one, other in zip(sentences[::2], sentences[1::2], strict=True)
    ]
    squad = {"data": [{"title": "Sentences", "paragraphs": asked}]}
    (folder / "questions.json").write_text(json.dumps(squad), encoding="utf-8")
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [[each["qas"][0]["question"], each["context"]] for each in asked]
        csv.writer(file).writerows([["question", "context"], *rows])
    (folder / "books").mkdir()
    lines = [pair.source for pair in pairs[:600]]
    for name, own in (("one", lines[:300]), ("two", lines[300:])):
        (folder / "books" / f"{name}.txt").write_text("\n".join(own), encoding="utf-8")
    (folder / "chapter.txt").write_text("\n".join(lines[:20]), encoding="utf-8")
    (folder / "recipes").symlink_to(ROOT / "recipes")
    typed(SMALLEST, folder, prompt)
    return folder


SMALLEST = """
printf 'task = "embed"\n[data]\ntrain = ["test.en", "test.de"]\n' > smallest.toml
shape="model.layers=6 model.d_model=32 model.heads=2"
regard train smallest.toml $shape tokenizer.kind=wordpiece --out smallest
regard export smallest all-MiniLM-L6-v2 --to hf
rm -r smallest smallest.toml
"""
"""A sentence-transformers folder in the place of the one that pages name: as deep, and narrow."""


TRAINED = (
    'printf \'[data]\\ntrain = ["mine.en", "mine.de"]\\n\' > mine.toml\n'
    "regard train mine.toml --out runs/mine"
)
BEFORE = dict.fromkeys(("docs/trace.md", "docs/tasks/documents.md", "docs/tasks/memory.md"), TRAINED)
"""What a reader of a page has done before: it names a model that it does not train."""

SHOWN = {
    "README.md": [
        "Verdict: fit for training",
        "parameters; 4 steps",
        "BLEU",
        "accuracy",
        "macro_f1",
        "cosine",
        "every weight equal",
        "the ends of 2 documents",
        "bits per byte",
        "The old house",
    ],
    "docs/guides/check.md": ["read as text for answer", "leak", "classes", "little data"],
    "docs/tasks/translation.md": ["Verdict: fit for training", "chrF"],
    "docs/tasks/memory.md": ["en -> de: ", "0 new, 0 in the place", "Verdict: fit for training"],
    "docs/tasks/classification.md": ["accuracy", "macro_f1", "precision", "calibration error", "parameters"],
    "docs/tasks/tagging.md": ["accuracy", "f1", "calibration error"],
    "docs/tasks/answering.md": ["exact", "f1", "letters.txt:"],
    "docs/tasks/embedding.md": ["cosine"],
    "docs/tasks/reranking.md": [
        "4 queries with 12 negatives",
        "ndcg_at_10",
        "every weight equal",
        "reranked",
    ],
    "docs/tasks/language.md": ['"prompt": "The river"', "bits per byte"],
}
"""What the commands of a page print, among other things."""

MADE = {
    "README.md": ["letter.de", "runs/mine/curve.png", "runs/for-transformers/model.safetensors", "page.html"],
    "docs/tasks/answering.md": ["answers.jsonl"],
    "docs/tasks/documents.md": ["manual.de.po", "report.json"],
    "docs/tasks/memory.md": [
        "product.tmx",
        "matches.json",
        "listed.jsonl",
        "repaired.jsonl",
        "held.jsonl",
        "flagged.csv",
    ],
    "docs/tasks/classification.md": ["errors.tsv", "sure.png", "figures.json"],
    "docs/corpora.md": ["vectors/manifest.json", "tickets/part-000000.parquet", "pairs.tsv", "once.txt"],
    "docs/tasks/embedding.md": ["letters.npy"],
    "docs/tasks/reranking.md": ["found.trec"],
    "docs/tasks/language.md": ["runs/gpt2/model.safetensors"],
    "docs/trace.md": ["heads.png", "runs/pruned/model.safetensors"],
}
"""Files that they write."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] if page in LONG else []) for page in pages()]
)
def test_what_a_page_says_runs(page, desk, prompt, tmp_path, monkeypatch):
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder, symlinks=True)
    monkeypatch.setattr(regard, "fit", fit_briefly, raising=False)
    shown: list[str] = []
    names: dict[str, object] = {"print": lambda *values: shown.append(" ".join(map(str, values)))}
    if page in BEFORE:
        typed(BEFORE[page], folder, prompt)
    for block in blocks(page):
        if block.why_not:
            continue
        if block.language == "sh":
            shown.append(typed(block.code, folder, prompt))
        else:
            with chdir(folder), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # hardly trained models do not finish
                exec(compile(block.code, page, "exec"), names)
    every = "\n".join(shown)
    assert [text for text in SHOWN.get(page, []) if text not in every] == []
    assert [name for name in MADE.get(page, []) if not (folder / name).stat().st_size] == []
    for line in promised(page):
        assert line in shown


def promised(page: str) -> list[str]:
    """Comments right below a print."""
    text = "\n".join(block.code for block in blocks(page) if block.language == "python")
    return re.findall(r"^print\(.*\)\n# (.*)$", text, re.MULTILINE)


def test_every_page_with_promises_is_run():
    assert {*SHOWN, *MADE, *BEFORE} <= {*pages()}


def test_a_block_that_is_not_run_says_why():
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert text.count("<!-- not run:") == sum(each.why_not is not None for each in blocks(page)), page


def test_the_pages_name_only_targets_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"(?:^|`)make (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path}: make {target}"


def test_the_recipes_that_are_listed_are_those_there_are():
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}
    assert listed == {path.stem for path in (ROOT / "recipes").glob("*.toml")}


@pytest.mark.long
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
