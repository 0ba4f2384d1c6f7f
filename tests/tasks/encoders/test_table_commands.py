"""Tables, texts of the prompt and folders through the commands of encoders."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.settings.models import ClassifyConfig, EmbedConfig, TagConfig
from regard.tasks.base.formats import FileOptions
from regard.tasks.classification import commands
from regard.tasks.classification.classifier import open_classifier
from regard.tasks.embedding import commands as embedding
from regard.tasks.embedding.embedder import open_embedder
from regard.tasks.tagging import commands as tagging
from regard.tasks.tagging.tagger import open_tagger
from regard.text import DataError
from tests.tasks.answering import town
from tests.tasks.encoders.test_encoder_commands import folder_of

pytestmark = pytest.mark.usefixtures("unchecked")
TEXTS = ["sun rain", "old tree", "red house sees dog"]
LABELS = ("a", "b")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("a") / "model", ClassifyConfig(labels=2), LABELS)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("b") / "model", TagConfig(tags=3), ("O", "B-x", "I-x"))


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("c") / "model", EmbedConfig())


def write(path: Path, rows: list[list[str]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def classified(model: Path, inputs: Any, **how: Any) -> str:
    page = io.StringIO()
    commands.classify(model, inputs, out=page, device="cpu", **how)
    return page.getvalue()


def rows_of(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text))]


def test_neither_the_header_nor_the_gold_label_is_classified(tmp_path: Path, classifier: Path) -> None:
    rows = [["label", "text"], *(["gold", text] for text in TEXTS), ["none", ""]]
    found = rows_of(classified(classifier, write(tmp_path / "few.csv", rows)))
    wanted = open_classifier(classifier, device="cpu").classify(TEXTS)
    assert [(row["label"], row["text"]) for row in found] == [tuple(row) for row in rows[1:]]
    assert [row["predicted_label"] for row in found] == [*(each.label for each in wanted), ""]
    chances = [row["probability"] for row in found]
    assert chances == [*(str(round(each.value, 6)) for each in wanted), ""]


def test_a_table_says_the_same_in_every_format_and_at_the_prompt(tmp_path: Path, classifier: Path) -> None:
    path = write(tmp_path / "few.csv", [["n", "review"], *([str(n), text] for n, text in enumerate(TEXTS))])
    out = tmp_path / "o.jsonl"
    typed = ["classify", classifier, path, "--column", "review", "--out", out, "--probabilities"]
    assert town.at_the_prompt(*typed, "--device", "cpu") == ""
    plain = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    files = FileOptions(column="1")
    found = rows_of(classified(classifier, path, files=files, probabilities=True))
    assert [{**row, "n": row["n"]} for row in found] == [
        {
            **each,
            "probability": str(each["probability"]),
            "probabilities": json.dumps(each["probabilities"]),
        }
        for each in plain
    ]
    listed = classified(classifier, path, files=files, probabilities=True, as_json=True)
    assert [json.loads(line) for line in listed.splitlines()] == plain


def test_pairs_are_two_columns(tmp_path: Path, classifier: Path) -> None:
    path = write(tmp_path / "pairs.csv", [["text", "other"], [TEXTS[0], TEXTS[1]], [TEXTS[2], TEXTS[0]]])
    found = rows_of(classified(classifier, path, files=FileOptions(second="other")))
    wanted = open_classifier(classifier, device="cpu").classify([TEXTS[0], TEXTS[2]], [TEXTS[1], TEXTS[0]])
    assert [row["probability"] for row in found] == [str(round(each.value, 6)) for each in wanted]
    (tmp_path / "pairs.txt").write_text(f"{TEXTS[0]}\t{TEXTS[1]}\n", encoding="utf-8")
    classified(classifier, str(tmp_path / "pairs.txt"), into=str(tmp_path / "o.csv"))
    assert rows_of((tmp_path / "o.csv").read_text())[0]["probability"] == found[0]["probability"]


def test_numbers_and_several_labels_have_columns_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "few.csv", [["text"], [TEXTS[0]]])
    number = folder_of(tmp_path / "n", ClassifyConfig(labels=1), problem="number")
    [row] = rows_of(classified(number, path))
    assert set(row) == {"text", "value"}
    several = folder_of(tmp_path / "m", ClassifyConfig(labels=2), LABELS, problem="multi")
    [row] = rows_of(classified(several, path, probabilities=True))
    [plain] = classified(several, path, probabilities=True, as_json=True).splitlines()
    assert row["labels"] == ",".join(json.loads(plain)["labels"])
    assert json.loads(row["probabilities"]) == json.loads(plain)["probabilities"]


def test_a_text_too_long_is_told_with_its_line(tmp_path: Path, classifier: Path) -> None:
    rows = [["text"], [TEXTS[0]], [""], [" ".join(TEXTS * 40)]]
    path = write(tmp_path / "few.csv", rows)
    with pytest.raises(DataError, match=r"few\.csv:4: too long"):
        classified(classifier, path, too_long="error")
    (tmp_path / "few.txt").write_text("".join(f"{row[0]}\n" for row in rows[1:]), encoding="utf-8")
    with pytest.raises(DataError, match=r"few\.txt:3: too long"):
        classified(classifier, str(tmp_path / "few.txt"), too_long="error")


def test_text_on_the_prompt_is_classified_tagged_and_embedded(
    classifier: Path, tagger: Path, embedder: Path
) -> None:
    wanted = open_classifier(classifier, device="cpu").classify(TEXTS[0])
    said = town.at_the_prompt("classify", classifier, TEXTS[0], "--device", "cpu")
    assert said == f"{wanted.label}\t{wanted.value:.4f}\t{TEXTS[0]}\n"
    said = town.at_the_prompt("tag", tagger, TEXTS[0], TEXTS[1], "--device", "cpu")
    assert [line.split("\t")[0] for line in said.splitlines()] == ["sun", "rain", "", "old", "tree", ""]
    found = json.loads(town.at_the_prompt("embed", embedder, "sun", "--device", "cpu"))
    own = open_embedder(embedder, device="cpu").embed(["sun"])[0]
    assert found["text"] == "sun"
    assert np.array_equal(np.array(found["vector"], dtype=np.float32), own)
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file"):
        town.at_the_prompt("classify", classifier, "nowhere.csv", "--device", "cpu")


def test_sentences_of_a_table_get_words_tags_and_spans(tmp_path: Path, tagger: Path) -> None:
    path = write(tmp_path / "few.csv", [["n", "sentence"], *([str(n), text] for n, text in enumerate(TEXTS))])
    page = io.StringIO()
    tagging.tag(tagger, path, out=page, device="cpu")
    own = open_tagger(tagger, device="cpu").tag(TEXTS)
    found = rows_of(page.getvalue())
    assert [row["words"] for row in found] == [" ".join(each.words) for each in own]
    assert [row["tags"] for row in found] == [" ".join(each.tags) for each in own]
    assert [json.loads(row["spans"]) for row in found] == [each.to_dict()["spans"] for each in own]
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["sun rain", "old"]}) + "\n", encoding="utf-8")
    page = io.StringIO()
    tagging.tag(tagger, str(tmp_path / "a.jsonl"), out=page, device="cpu")
    plain = json.loads(page.getvalue())
    assert (plain["words"], len(plain["tags"])) == (["sun rain", "old"], 2)


def test_tsv_is_conll_to_a_tagger_unless_it_is_said(tmp_path: Path, tagger: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tx\nsun rain\ty\n", encoding="utf-8")
    found = {}
    for form in (None, "tsv"):
        page = io.StringIO()
        tagging.tag(tagger, str(tmp_path / "a.tsv"), out=page, form=form, device="cpu")
        found[form] = page.getvalue().splitlines()
    assert found[None][0].split("\t")[:2] == ["text", "x"]
    assert found["tsv"][0] == "text\tx\twords\ttags\tspans"
    assert found["tsv"][1].split("\t")[2] == "sun rain"


def test_vectors_of_a_table_are_rows_of_an_array_or_a_column(tmp_path: Path, embedder: Path) -> None:
    path = write(tmp_path / "few.csv", [["n", "text"], *([str(n), text] for n, text in enumerate(TEXTS))])
    own = open_embedder(embedder, device="cpu").embed(TEXTS)
    for name in ("v.npy", "v.jsonl", "v.csv"):
        embedding.embed(embedder, path, tmp_path / name, device="cpu", console=Console(quiet=True))
    assert np.array_equal(np.load(tmp_path / "v.npy"), own)
    listed = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [row["n"] for row in listed] == ["0", "1", "2"]
    columns = [json.loads(row["vector"]) for row in rows_of((tmp_path / "v.csv").read_text())]
    for found in ([row["vector"] for row in listed], columns):
        assert np.array_equal(np.array(found, dtype=np.float32), own)
    with pytest.raises(ConfigError, match=r"give --out NAME\.npy"):
        embedding.embed(embedder, path, words=True, device="cpu", console=Console(quiet=True))


def test_a_folder_is_done_file_by_file_and_gone_on_with(
    tmp_path: Path, classifier: Path, embedder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.csv", [["text"], [TEXTS[0]]])
    (tmp_path / "in" / "b.txt").write_text(f"{TEXTS[1]}\n", encoding="utf-8")
    out = tmp_path / "out"
    classified(classifier, str(tmp_path / "in"), into=str(out))
    assert rows_of((out / "a.csv").read_text())[0]["text"] == TEXTS[0]
    assert (out / "b.txt").read_text().endswith(f"\t{TEXTS[1]}\n")
    classified(classifier, str(tmp_path / "in"), into=str(out))
    assert "0 of 2 files written, 2 there already" in capsys.readouterr().err
    embedding.embed(embedder, [str(tmp_path / "in")], out, device="cpu", console=Console(quiet=True))
    assert np.load(out / "a.csv.npy").shape == np.load(out / "b.txt.npy").shape == (1, 16)


@pytest.mark.parametrize("name", ["a.json", "b.srt", "c.po", "d.xlsx", "e.pdf"])
def test_other_files_are_refused_before_the_model_is_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x\n")
    for work in (commands.classify, tagging.tag):
        with pytest.raises(DataError, match="is not read here; convert it"):
            work(tmp_path / "no model", str(tmp_path / name), out=io.StringIO())
    with pytest.raises(DataError, match="is not read here; convert it"):
        embedding.embed(tmp_path / "no model", str(tmp_path / name), console=Console(quiet=True))
