"""What is not UTF-8 is read by every command that takes files, if it is told how; read otherwise, it is other
text."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.meaning import commands as meaning
from regard.models.heads import ClassifyConfig, EmbedConfig, TagConfig
from regard.tasks.base.formats import FileOptions
from regard.tasks.base.lines import incoming
from regard.tasks.base.pairs import Corpus, PairFiles, PairsConfig
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.classification import commands as classification
from regard.tasks.evaluate import evaluate_model
from regard.tasks.run import fit
from regard.tasks.tagging import commands as tagging
from regard.tasks.translation.data import build_store
from regard.text import DataError, Tokenizer, TokenizerConfig
from tests.tasks.encoders import toys
from tests.tasks.encoders.test_encoder_commands import folder_of

pytestmark = pytest.mark.usefixtures("unchecked")

ANSI = FileOptions(encoding="cp1252")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lines_of_a_file_and_of_standard_input(here, monkeypatch):
    content = "œuf\nété\n".encode("cp1252")
    (here / "a.txt").write_bytes(content)
    assert list(incoming("a.txt", "cp1252")) == ["œuf", "été"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert list(incoming("-", "cp1252")) == ["œuf", "été"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(
        DataError, match=r"standard input:1: invalid UTF-8 at byte 1 .* give --encoding cp1252"
    ):
        list(incoming("-"))


def test_a_tagger_reads_columns_of_another_encoding_and_separator(here):
    folder = folder_of(here / "model", TagConfig(tags=3), ("O", "B-x", "I-x"))
    (here / "a.conll").write_bytes("œuf;7\nsun;8\n\ndog;9\n".encode("cp1252"))
    out = io.StringIO()
    options = replace(ANSI, separator=";")
    tagging.tag(folder, "a.conll", out=out, files=options, device="cpu")
    rows = [line.split(";") for line in out.getvalue().splitlines()]
    assert [row[:2] for row in rows] == [["œuf", "7"], ["sun", "8"], [""], ["dog", "9"]]
    assert all(row[2] in ("O", "B-x", "I-x") for row in rows if len(row) > 1)


def test_a_search_reads_its_corpus_and_an_index_is_of_one_encoding(here):
    folder = folder_of(here / "model", EmbedConfig())
    (here / "corpus.txt").write_bytes("sun œuf\nrain\n".encode("cp1252"))

    def found(**files: Any) -> list[str]:
        page = io.StringIO()
        how: Any = {"top": 2, "kind": "exact", "index": None, "device": "cpu", "as_json": True}
        meaning.search(
            folder, Path("corpus.txt"), ["sun"], console=Console(file=page, width=500), **how, **files
        )
        return [hit["text"] for hit in json.loads(page.getvalue())["hits"]]

    with pytest.raises(DataError, match=r"corpus.txt:1: .*give --encoding cp1252"):
        found()
    assert sorted(found(files=ANSI)) == ["rain", "sun œuf"]
    assert sorted(found(files=FileOptions(encoding="cp1250"))) == ["rain", "sun śuf"]  # not what lay there


def test_a_group_of_texts_of_another_encoding(here):
    folder = folder_of(here / "model", EmbedConfig())
    (here / "texts.txt").write_bytes("sun œuf\nrain\ndog\n".encode("cp1252"))
    page = io.StringIO()
    how: Any = {"threshold": None, "smallest": 2, "examples": 3, "seed": 0, "device": "cpu", "as_json": True}
    meaning.cluster(folder, "texts.txt", clusters=2, console=Console(file=page, width=500), files=ANSI, **how)
    assert {json.loads(line)["text"] for line in page.getvalue().splitlines()} == {"sun œuf", "rain", "dog"}


def test_a_classifier_is_measured_on_a_table_of_another_make_than_it_learned_from(here):
    plain = toys.recipe(here, train={"steps": 2, "validate_every": 2})
    fit(plain, out=here / "model", device="cpu", console=Console(quiet=True))
    rows = [(toys.sunny(text), f"{text} œuf") for text in toys.texts(8)]
    (here / "other.tsv").write_bytes("".join(f"{label};{text}\n" for label, text in rows).encode("cp1252"))

    def measured(**options: Any) -> dict[str, Any]:
        given = EvaluateOptions(files=[here / "other.tsv"], device="cpu", **options)
        return evaluate_model(here / "model", given, Console(quiet=True))

    with pytest.raises(DataError, match=r"no column 1; .*check the number and the separator"):
        measured(encoding="cp1252")
    with pytest.raises(
        DataError, match=r"other.tsv:1: invalid UTF-8 .*give --encoding cp1252, or fix the file"
    ):
        measured(separator=";")
    found = measured(encoding="cp1252", separator=";")
    assert sum(each["count"] for each in found["per_label"].values()) == 8


def test_what_is_written_is_utf8_whatever_was_read(here):
    folder = folder_of(here / "model", ClassifyConfig(labels=2), ("a", "b"))
    (here / "a.csv").write_bytes("text;n\nœuf;1\n".encode("cp1252"))
    files = replace(ANSI, separator=";")
    classification.classify(folder, "a.csv", into="out.csv", files=files, out=io.StringIO(), device="cpu")
    assert (here / "out.csv").read_bytes().decode("utf-8").splitlines()[1].startswith("œuf;1;")


# changed data is new data


def test_a_store_of_tokens_is_built_anew_for_another_encoding(here):
    tokenizer = Tokenizer.train(["œuf été ouf", "tree sun"], TokenizerConfig(vocabulary=300))
    for end in ("a", "b"):
        (here / f"train.{end}").write_bytes("été œuf\nsun\n".encode("cp1252"))
    files = (PairFiles(source="train.a", target="train.b"),)

    def stored(encoding: str) -> np.ndarray:
        corpus = Corpus(PairsConfig(train=files, valid=files, encoding=encoding), here)
        return build_store(corpus, "train", tokenizer, here / "tokens")[0]["source"][0].copy()

    assert tokenizer.decode(stored("cp1252").tolist()[:-1]) == "été œuf"
    assert stored("cp1252").tolist() != stored("cp1250").tolist()
    assert tokenizer.decode(stored("cp1252").tolist()[:-1]) == "été œuf"


def test_a_run_is_not_resumed_on_text_that_is_read_otherwise(here):
    plain = toys.recipe(here, train={"steps": 2, "validate_every": 2})
    fit(plain, out=here / "model", device="cpu", console=Console(quiet=True))
    changed = {**plain, "data": {**plain["data"], "encoding": "cp1252"}}
    with pytest.raises(ConfigError, match="begun with other text"):
        fit(changed, out=here / "model", resume=True, device="cpu", console=Console(quiet=True))
