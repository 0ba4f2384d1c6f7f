"""`regard check` on the text of every task, with a recipe or without; and its advice, followed."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from regard.cli import build
from regard.config import ConfigError
from regard.tasks import run
from regard.tasks.base.files import advised, told
from regard.tasks.check import check
from regard.tasks.registry import FOLDERS, as_recipe
from regard.text import DataError, Origin

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "mu", "nu"]
FRENCH = "l\u2019œuvre de l\u2019élève coûte 5 €"


def said(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["check", *arguments], env={"COLUMNS": "300"})


def flat(result: Result) -> str:
    return " ".join(result.output.split())


def sentence(number: int, language: str = "") -> str:
    return (
        " ".join(WORDS[(number * step + step) % len(WORDS)] + language for step in (1, 2, 3, 5, 7))
        + f" {number}"
    )


def lines(count: int, start: int = 0) -> list[str]:
    return [sentence(number) for number in range(start, start + count)]


def write(name: str, rows: list[str], encoding: str = "utf-8") -> str:
    Path(name).write_bytes("".join(f"{row}\n" for row in rows).encode(encoding))
    return name


def recipe(task: str, encoding: str = "utf-8") -> dict[str, Any]:
    """Text with letters that Latin-1 has not, written as this task has it."""
    texts = [*lines(130), FRENCH]
    match task:
        case "translate" | "embed":
            files = [
                write("a.fr", texts, encoding),
                write("a.en", [f"{text} too" for text in texts], encoding),
            ]
            return {"task": task, "data": {"train": files}}
        case "classify":
            write("a.tsv", ["text\tlabel", *(f"{text}\t{len(text) % 2}" for text in texts)], encoding)
            return {"task": task, "data": {"train": "a.tsv"}}
        case "rerank":
            rows = [f"{text}\t{text} too\t{text} not" for text in texts]
            write("a.tsv", ["query\tpositive\tnegatives", *rows], encoding)
            return {"task": task, "data": {"train": "a.tsv"}}
        case "tag":
            rows = [
                "\n".join(f"{word} {'XY'[len(word) % 2]}" for word in text.split()) + "\n" for text in texts
            ]
            return {"task": task, "data": {"train": write("a.conll", rows, encoding)}}
        case "answer":
            rows = [f"what?\t{text}\t{text.split()[0]}\t0" for text in texts]
            write("a.tsv", ["question\tcontext\tanswer\tstart", *rows], encoding)
            return {"task": task, "data": {"train": "a.tsv"}}
        case _:
            return {"task": task, "data": {"train": write("a.txt", texts, encoding)}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def toml(plain: dict[str, Any], name: str = "own.toml") -> str:
    data = "".join(f"{key} = {json.dumps(value)}\n" for key, value in plain["data"].items())
    Path(name).write_text(f'task = "{plain["task"]}"\n[data]\n{data}', encoding="utf-8")
    return name


# advice, followed


def advice(page: str, name: str) -> str:
    """The setting or the option that a page advises, as it would be typed."""
    [found] = {*re.findall(rf"(?:data\.{name}=|--{name} )(?:'[^']*'|[\w-]+)", page)}
    return found


@pytest.mark.parametrize("task", FOLDERS)
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_the_advised_encoding_reads_the_text_of_every_task(task, encoding):
    own = toml(recipe(task, encoding))
    result = said(own)
    assert result.exit_code == 1, result.output
    setting = advice(flat(result), "encoding")
    assert setting == f"data.encoding={encoding}"
    assert "data.encoding=latin" not in flat(result).lower()
    found = said(own, *shlex.split(setting), "--json").output
    report = json.loads(found)
    unread = {"unreadable file", "broken lines", "unequal files", "control characters", "mojibake"}
    assert unread.isdisjoint(finding["name"] for finding in report["findings"])
    assert [counts["broken"] for counts in report["splits"].values()] == [0]


@pytest.mark.parametrize("task", FOLDERS)
def test_training_gives_the_same_advice_and_the_words_are_read_as_they_were_written(task, tmp_path):
    plain = recipe(task, "cp1252")
    with pytest.raises(DataError, match=r"invalid UTF-8 at byte \d+ \(0x92\).*set data.encoding=cp1252"):
        read(plain)
    plain["data"]["encoding"] = "cp1252"
    assert any("œuvre" in text and "€" in text and "\u2019" in text for text in read(plain))


def read(plain: dict[str, Any]) -> list[str]:
    """All texts to learn from, by the doctor's own way to them."""
    from regard.tasks.answering.data import QuestionCorpus
    from regard.tasks.base.documents import DocumentCorpus
    from regard.tasks.base.pairs import Corpus
    from regard.tasks.classification.data import LabelledCorpus
    from regard.tasks.reranking.data import RankedCorpus
    from regard.tasks.tagging.data import TaggedCorpus

    written = as_recipe(plain)
    data, where = written.checked.data, Path()
    match plain["task"]:
        case "translate":
            return [
                pair.source for split in ("train", "valid") for pair, _ in Corpus(data, where).pairs(split)
            ]
        case "embed":
            pairs = Corpus(data.files, where)
            return [pair.source for split in ("train", "valid") for pair, _ in pairs.pairs(split)]
        case "classify":
            return [
                each.text for split in ("train", "valid") for each in LabelledCorpus(data, where).read(split)
            ]
        case "tag":
            corpus = TaggedCorpus(data, where)
            return [" ".join(each.words) for split in ("train", "valid") for each in corpus.read(split)]
        case "answer":
            corpus = QuestionCorpus(data, where)
            return [each.context for split in ("train", "valid") for each in corpus.read(split)]
        case "rerank":
            corpus = RankedCorpus(data, where)
            return [each.query for split in ("train", "valid") for each in corpus.read(split)]
        case _:
            return [line for passage in DocumentCorpus(data, where).whole() for line in passage.lines]


@pytest.mark.parametrize(
    ("name", "header", "row", "mark"),
    [
        ("a.csv", "text;label", "{};x", "';'"),
        ("a.tsv", "text|label", "{}|x", "'|'"),
        ("a.csv", "text\tlabel", "{}\tx", r"'\t'"),
    ],
)
def test_the_advised_separator_parts_the_cells(name, header, row, mark):
    write(name, [header, *(row.format(text) for text in lines(30))])
    own = toml({"task": "classify", "data": {"train": name}})
    result = said(own)
    setting = advice(flat(result), "separator")
    assert setting == f"data.separator={mark}"
    report = json.loads(said(own, *shlex.split(setting), "--json").output)
    assert report["splits"]["train"]["records"] == 30
    assert "unreadable file" not in {finding["name"] for finding in report["findings"]}


def test_without_a_recipe_the_advice_is_an_option_and_works():
    write("a.csv", ["text;label", *(f"{text};{len(text) % 2}" for text in [*lines(130), FRENCH])], "cp1252")
    first = said("a.csv", "--task", "classify")
    options = shlex.split(advice(flat(first), "separator"))
    second = said("a.csv", "--task", "classify", *options)
    assert second.exit_code == 1
    options += shlex.split(advice(flat(second), "encoding"))
    assert options == ["--separator", ";", "--encoding", "cp1252"]
    report = json.loads(said("a.csv", *options, "--json").output)
    assert (report["task"], report["splits"]["train"]["records"]) == ("classify", 131)


def test_pairs_of_files_take_an_encoding_too():
    files = recipe("translate", "cp1252")["data"]["train"]
    assert advice(flat(said("--pairs", *files)), "encoding") == "--encoding cp1252"
    report = json.loads(said("--pairs", *files, "--encoding", "cp1252", "--json").output)
    assert (report["splits"]["train"]["pairs"], report["splits"]["train"]["broken"]) == (131, 0)


def test_advice_is_worded_for_who_asked_and_can_be_worded_again():
    remedy = "it is probably cp1252: pass encoding='cp1252', fix the file or pass on_error=\"skip\""
    recipe = advised(remedy, "recipe")
    assert recipe.endswith(
        "set data.encoding=cp1252, fix the file, or leave such lines out with data.on_error=skip"
    )
    assert advised(recipe, "recipe") == recipe
    for each in (remedy, recipe):
        assert advised(each, "prompt") == "it is probably cp1252: give --encoding cp1252, or fix the file"
    error = DataError(Origin("a", 3), "invalid UTF-8", "at byte 1", remedy)
    assert str(told(error, "recipe")).startswith(
        "a:3: invalid UTF-8 at byte 1; it is probably cp1252: set data."
    )


@pytest.mark.parametrize(("key", "value"), [("encoding", "cp-1252"), ("separator", ";;")])
@pytest.mark.parametrize("task", FOLDERS)
def test_a_wrong_encoding_or_separator_is_refused_before_any_text_is_read(task, key, value):
    plain = recipe(task)
    plain["data"] |= {key: value, "root": "nowhere"}
    with pytest.raises(ConfigError, match=f"{key}='{value}'"):
        as_recipe(plain)


# files without a recipe


@pytest.mark.parametrize(
    ("name", "rows", "task"),
    [
        ("a.csv", ["sentence,label", "one two,x"], "classify"),
        ("a.jsonl", ['{"question": "q", "context": "c d", "answer": "c"}'], "answer"),
        ("a.jsonl", ['{"words": ["a"], "tags": ["O"]}'], "tag"),
        ("a.conllu", ["1\ta\t_\tX\t_\t_\t_\t_\t_\t_", ""], "tag"),
        ("a.txt", ["one two three"], "language"),
        ("a.tsv", ["text", "one two three"], "language"),
    ],
)
def test_what_a_file_is_for_is_seen_by_its_name_and_columns(name, rows, task):
    report = json.loads(said(write(name, rows), "--json").output)
    assert report["task"] == task
    assert [counts["records"] for counts in report["splits"].values()] == [1]
    assert f"read as text for {task}" in flat(said(name))


def test_a_table_that_tells_nothing_asks_what_it_is_for():
    write("a.csv", ["x,y", "1,2"])
    with pytest.raises(ConfigError, match=r"a.csv: what is it\? Say so with --task.*there are \('x', 'y'\)"):
        check(None, [], None, files=["a.csv"], console=Console(quiet=True))
    settings = ["data.text=x", "data.label=y"]
    report = check(None, settings, None, files=["a.csv"], task="classify", console=Console(quiet=True))
    assert report.splits["train"].cells()["texts"] == "1"


def test_files_to_validate_on_are_compared_with_those_to_learn_from():
    write("a.txt", lines(30))
    write("b.txt", lines(3, 100))
    write("c.txt", [sentence(7).upper() + " and more of it", *lines(3, 200)])
    Path("a.txt").write_bytes(Path("a.txt").read_bytes() + f"{sentence(7)} and more, of it!\n".encode())
    report = json.loads(said("a.txt", "--valid", "b.txt", "--valid", "c.txt", "--json").output)
    [leak] = [finding for finding in report["findings"] if finding["name"] == "leak"]
    assert (leak["split"], leak["count"], leak["examples"][0]["origin"]) == ("valid", 1, "c.txt:1")
    assert leak["examples"][0]["why"] == "also at a.txt:31"


def test_what_a_recipe_says_is_not_said_by_options():
    own = toml(recipe("classify"))
    with pytest.raises(ConfigError, match="--valid, --test and --task are for files"):
        check(own, [], None, valid=["a.tsv"], console=Console(quiet=True))
    with pytest.raises(ConfigError, match="give a recipe, a model or files of text"):
        check(None, [], None, console=Console(quiet=True))


@pytest.mark.parametrize("task", sorted({*FOLDERS} - {"classify"}))
def test_a_model_has_no_labels_to_doubt_but_a_classifiers(task, monkeypatch):
    own = toml(recipe(task))
    monkeypatch.setattr("regard.tasks.check._vectors", lambda model, device: len)
    with pytest.raises(ConfigError, match="--model is for labelled text"):
        check(own, [], None, model=Path("any"), console=Console(quiet=True))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of Unix")
def test_a_pipe_is_told_of_before_it_is_opened(tmp_path: Path) -> None:
    """One that nobody writes into, and one that never ends."""
    pipe, plain = tmp_path / "pipe", tmp_path / "plain.txt"
    os.mkfifo(pipe)
    plain.write_text("\n".join(lines(40)))
    wanted = "a pipe, which can be read only once; write its content to a file, and name that"
    for arguments in (["--pairs", str(plain), str(pipe)], [str(pipe)], [str(plain), "--valid", str(pipe)]):
        found = said(*arguments)
        assert str(found.exception) == f"{pipe}: {wanted}"
    for task in ("classify", "translate"):
        data = {"train": [str(plain), str(pipe)], "valid": [str(plain), str(plain)]}
        own = toml({"task": task, "data": data}, str(tmp_path / "own.toml"))
        assert str(said(own).exception) == f"{pipe}: {wanted}"
        with pytest.raises(DataError, match=wanted):
            run.fit(own, out=tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()
    command = f"{shlex.quote(sys.executable)} -m regard check --pairs <(yes) <(yes)"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert wanted in " ".join(done.stderr.split())
