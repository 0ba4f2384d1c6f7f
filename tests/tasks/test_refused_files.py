"""What a file is decides how it is read, whichever command is given it: none reads markup, keys or timestamps
as text."""

import contextlib
import io
import json
from functools import cache
from pathlib import Path

import pytest

from regard.cli import build
from regard.tasks.base.documents import DocumentCorpus
from regard.tasks.base.formats import CALLED, REFUSED, TABLES, FileOptions, only_lines
from regard.tasks.base.lines import incoming
from regard.tasks.base.texts import numbered_texts
from regard.tasks.registry import as_recipe
from regard.text import DataError
from tests.tasks.folders import stored

regard = cache(build)
LINES = {
    "cluster": ("cluster", "MODEL", "FILE"),
    "search": ("search", "MODEL", "FILE", "a question"),
    "search words": ("search", "MODEL", "FILE", "word", "--words"),
    "cluster words": ("cluster", "MODEL", "FILE", "--words"),
    "rerank": ("rerank", "MODEL", "a question", "FILE"),
    "generate": ("generate", "MODEL", "--file", "FILE"),
    "answer context": ("answer", "MODEL", "who?", "--context", "FILE"),
    "answer corpus": ("answer", "MODEL", "who?", "--corpus", "FILE", "--embedder", "MODEL"),
    "vocabulary": ("vocabulary", "MODEL", "new", "--text", "FILE"),
    "check": ("check", "FILE"),
    "check pairs": ("check", "--pairs", "a.txt", "FILE"),
    "evaluate source": ("evaluate", "TRANSLATOR", "--source", "FILE", "--reference", "a.txt"),
    "evaluate reference": ("evaluate", "TRANSLATOR", "--source", "a.txt", "--reference", "FILE"),
    "evaluate language": ("evaluate", "LANGUAGE", "FILE"),
    "evaluate queries": (
        *("evaluate", "EMBEDDER", "--queries", "FILE", "--corpus", "a.txt", "--qrels", "a.txt"),
    ),
    "mine": ("mine-negatives", "MODEL", "--corpus", "FILE", "--pairs", "a.tsv", "--out", "out.jsonl"),
    "train translator": ("train", "pairs.toml", "data.train=['FILE','a.txt']", "--dry-run"),
    "train tagger": ("train", "tags.toml", "data.train=FILE", "--dry-run"),
    "train language": ("train", "language.toml", "data.train=FILE", "--dry-run"),
}
"""Commands that are given a file, each in a way."""
TABLES_TOO = {"search", "search words", "cluster", "cluster words", "rerank", "check", "evaluate language"}
TABLES_TOO |= {"train language", "train tagger", "evaluate queries", "mine"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    kinds = {"TRANSLATOR": "translate", "LANGUAGE": "language", "EMBEDDER": "embed"}
    named = {name: str(stored(folder / kind, kind)) for name, kind in kinds.items()}
    return {"MODEL": named["EMBEDDER"], **named}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("sun\nrain\n", encoding="utf-8")
    Path("a.tsv").write_text("query\tpositive\nsun\train\n", encoding="utf-8")
    for name, task in (("pairs", "translate"), ("tags", "tag"), ("language", "language")):
        Path(f"{name}.toml").write_text(f'task = "{task}"\n[data]\ntrain = "a.txt"\n', encoding="utf-8")


def told(command: str, file: str, models: dict[str, str]) -> str:
    """What a command says of a file that has nothing but a name."""
    Path(file).write_bytes(b"sun\nrain\n")
    typed = [models.get(word, word.replace("FILE", file)) for word in LINES[command]]
    with pytest.raises(DataError) as caught:
        regard()(typed, standalone_mode=False)
    return str(caught.value)


@pytest.mark.parametrize("command", LINES)
def test_every_command_refuses_documents_by_name(command: str, models: dict[str, str]) -> None:
    for name, suffix in {"b.json": ".json", "b.po": ".po", "b.srt.gz": ".srt", "B.PDF": ".pdf"}.items():
        if command == "check" and suffix == ".json":
            continue  # questions
        said = told(command, name, models)
        assert said.startswith(f"{name}: {REFUSED[suffix]} is not read here; "), said


@pytest.mark.parametrize("command", [command for command in LINES if command not in TABLES_TOO])
def test_tables_are_refused_where_no_column_can_be_chosen(command: str, models: dict[str, str]) -> None:
    for suffix in (".csv", ".jsonl"):
        said = told(command, f"b{suffix}", models)
        assert said.startswith(f"b{suffix}: {CALLED[TABLES[suffix]]} is not read here; "), said


@pytest.mark.parametrize("suffix", REFUSED)
def test_all_that_is_refused_anywhere_is_refused_where_lines_are_read(suffix: str) -> None:
    for name in (f"a{suffix}", f"a{suffix.upper()}", f"a{suffix}.gz"):
        with pytest.raises(DataError, match="is not read here"):
            incoming(name)
    for name in ("a.txt", "a.en", "a", "a.log.gz", "-"):
        only_lines(name)


# tables, where a column can be chosen


def table(name: str) -> str:
    rows = [("n", "said"), ("1", "sun rain"), ("2", ""), ("3", "old\nhouse")]
    if name.endswith(".jsonl"):
        text = "".join(json.dumps(dict(zip(rows[0], row, strict=True))) + "\n" for row in rows[1:])
    else:
        text = "".join(f'{n},"{said}"\n' for n, said in rows)
    Path(name).write_text(text, encoding="utf-8")
    return name


def shown(*typed: str) -> list[str]:
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        regard()([*typed, "--device", "cpu"], standalone_mode=False)
    return page.getvalue().splitlines()


def test_a_text_of_a_table_is_its_cell_and_has_the_line_it_begins_in() -> None:
    said = FileOptions(column="said")
    assert [*numbered_texts(table("few.csv"), said)] == [(2, "sun rain"), (4, "old\nhouse")]
    assert [*numbered_texts(table("few.jsonl"), said)] == [(1, "sun rain"), (3, "old\nhouse")]
    Path("a.srt").write_text("sun\n", encoding="utf-8")
    assert [*numbered_texts("a.srt", FileOptions(format="lines"))] == [(1, "sun")]


@pytest.mark.parametrize("file", ["few.csv", "few.jsonl"])
def test_search_and_cluster_read_a_column(file: str, models: dict[str, str]) -> None:
    typed = (models["EMBEDDER"], table(file))
    lines = [2, 4] if file == "few.csv" else [1, 3]
    [line] = shown("search", *typed, "sun", "--column", "said", "--json")
    hits = json.loads(line)["hits"]
    assert sorted((hit["line"], hit["text"]) for hit in hits) == [
        *zip(lines, ("sun rain", "old\nhouse"), strict=True)
    ]
    plain = shown("search", *typed, "sun", "--column", "said")
    assert sorted(line.split(maxsplit=2)[2] for line in plain) == ["old house", "sun rain"]
    other = json.loads(shown("search", *typed, "sun", "--column", "n", "--json")[0])["hits"]
    assert sorted(hit["text"] for hit in other) == ["1", "2", "3"]  # the index is of another column
    found = [
        json.loads(each) for each in shown("cluster", *typed, "--clusters", "2", "--column", "said", "--json")
    ]
    assert [each["text"] for each in found] == ["sun rain", "old\nhouse"]
    words = json.loads(shown("search", *typed, "sun", "--column", "said", "--words", "--json")[0])["hits"]
    assert {hit["text"] for hit in words} == {"sun rain", "old\nhouse"}
    with pytest.raises(DataError, match=r"no column 'text' or 'sentence'; give --column, one of 'n', 'said'"):
        shown("search", *typed, "sun")


# text that is read as it is


def test_a_language_model_may_learn_from_markup_if_that_is_said() -> None:
    Path("a.srt").write_text("1\n00:01 --> 00:02\nsun\n", encoding="utf-8")
    data = {"train": "a.srt", "format": "lines", "documents": "file"}
    corpus = DocumentCorpus(as_recipe({"task": "language", "data": data}).checked.data, Path())
    assert [passage.lines for passage in corpus.whole()] == [("1", "00:01 --> 00:02", "sun")]
    data = {"train": table("few.csv"), "format": "lines"}
    corpus = DocumentCorpus(as_recipe({"task": "language", "data": data}).checked.data, Path())
    assert next(iter(corpus.whole())).lines[:2] == ('n,"said"', '1,"sun rain"')
    data = {"train": "a.srt"}
    with pytest.raises(DataError, match=r"SubRip subtitles is not read here; .* data\.format=lines"):
        DocumentCorpus(as_recipe({"task": "pretrain", "data": data}).checked.data, Path())
