"""Each task's corpus is what its command writes for the whole input."""

import io
import json

import numpy as np
import pyarrow.parquet
import pytest

from regard.config import ConfigError
from regard.tasks.answering.answerer import open_answerer
from regard.tasks.classification import commands as classification
from regard.tasks.classification.classifier import open_classifier
from regard.tasks.tagging import commands as tagging
from regard.tasks.translation import commands as translation
from regard.tasks.translation.bulk import TranslateBulk
from tests.corpus.corpora import corpus, files, parts, text, vectors


def objects(page):
    """JSON lines: only a newline ends one."""
    return [json.loads(line) for line in page.split("\n")[:-1]]


def rows(out):
    return objects(text(out, "jsonl"))


def printed(command, *given, **settings):
    page = io.StringIO()
    command(*given, out=page, device="cpu", **settings)
    return page.getvalue()


@pytest.fixture
def short(tmp_path, sentences):
    """What no model cuts."""
    path = tmp_path / "short.txt"
    some = [each for each in sentences if len(each) < 150 and "\t" not in each]
    path.write_text("".join(f"{each}\n" for each in some), encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path, short):
    path = tmp_path / "short.jsonl"
    lines = [each for each in short.read_text().split("\n")[:-1] if each.strip()]
    path.write_text("".join(json.dumps({"n": n, "text": each}) + "\n" for n, each in enumerate(lines)))
    return path


@pytest.mark.filterwarnings("ignore:.*stopped at their maximum")
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("name", ["translator", "modern translator", "recurrent translator"])
def test_translations_are_those_of_translate(name, greedy, tiny, short, tmp_path):
    settings = {"greedy": greedy, "decoding": {"maximum": 12}}
    corpus("translate", tiny[name], short, tmp_path / "out", settings=settings)
    whole = printed(translation.translate, tiny[name], str(short), **settings)
    assert len(parts(tmp_path / "out", "txt")) > 5
    assert text(tmp_path / "out") == whole


@pytest.mark.filterwarnings("ignore:.*stopped at their maximum")
def test_translations_as_rows_have_scores_and_flags(tiny, table, tmp_path):
    asked = {"greedy": True, "decoding": {"maximum": 12}, "scores": True, "flags": True}
    how = {"to": "jsonl", "settings": asked, "id": "n"}
    found = corpus("translate", tiny["translator"], table, tmp_path / "out", **how)
    whole = objects(printed(translation.translate, tiny["translator"], str(table), **asked))
    for mine, own in zip(rows(tmp_path / "out"), whole, strict=True):
        assert mine["id"] == str(own["n"])
        assert (mine["translation"], mine["score"]) == (own["translation"], own["score"])
        assert " ".join(mine["flags"]) == own["flags"]
    assert found.manifest["flags"]["unfinished"] > 0


def test_labels_are_those_of_classify(tiny, short, table, tmp_path):
    settings = {"probabilities": True}
    corpus("classify", tiny["classifier"], table, tmp_path / "out", settings=settings)
    printed_rows = printed(classification.classify, tiny["classifier"], str(table), **settings)
    names = ("label", "probability", "probabilities")
    for mine, own in zip(rows(tmp_path / "out"), objects(printed_rows), strict=True):
        assert {name: mine[name] for name in names[:1]} == {name: own[name] for name in names[:1]}
        assert mine["probability"] == pytest.approx(own["probability"], abs=1e-6)
        assert [*mine["probabilities"]] == [*own["probabilities"]]
    corpus("classify", tiny["classifier"], short, tmp_path / "lines", to="text")
    assert text(tmp_path / "lines") == printed(classification.classify, tiny["classifier"], str(short))


def test_a_line_may_be_a_pair_and_one_with_more_is_bad(tiny, tmp_path):
    (tmp_path / "pairs.txt").write_text("a\tb\none\nc\td\te\n")
    found = corpus("classify", tiny["classifier"], tmp_path / "pairs.txt", tmp_path / "out")
    assert [row["label"] is None for row in rows(tmp_path / "out")] == [False, False, True]
    (bad,) = map(json.loads, (tmp_path / "out" / "bad.jsonl").read_text().splitlines())
    assert (bad["line"], bad["reason"][:7]) == (3, "3 texts")
    assert found.manifest["counts"]["bad"] == 1


def test_tags_are_those_of_tag(tiny, table, tmp_path):
    corpus("tag", tiny["tagger"], table, tmp_path / "out")
    whole = objects(printed(tagging.tag, tiny["tagger"], str(table)))
    for mine, own in zip(rows(tmp_path / "out"), whole, strict=True):
        assert {name: mine[name] for name in ("words", "tags", "spans")} == {
            name: own[name] for name in ("words", "tags", "spans")
        }


def test_answers_are_those_of_the_answerer_and_what_it_refuses_is_bad(tiny, table, tmp_path):
    lines = [each["text"] for each in objects(table.read_text())][:60]
    asked = [(" ".join(each.split()[:3]), " ".join(lines[:4])) for each in lines]
    asked[7] = ("word " * 80, "a text")
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"question": q, "context": c}) + "\n" for q, c in asked))
    found = corpus("answer", tiny["answerer"], path, tmp_path / "out")
    assert [each["line"] for each in objects((tmp_path / "out" / "bad.jsonl").read_text())] == [8]
    answerer = open_answerer(tiny["answerer"], device="cpu")
    for number, (mine, (question, context)) in enumerate(zip(rows(tmp_path / "out"), asked, strict=True)):
        own = None if number == 7 else answerer.answer(question, context, n_best=1)
        assert mine["answer"] == (None if own is None else own.text)
    assert found.manifest["counts"]["rows"] == len(asked)


def test_parquet_and_json_have_the_vectors_of_npy_and_one_type_for_all_shards(tiny, table, tmp_path):
    for form in ("npy", "parquet", "jsonl"):
        keep = () if form == "npy" else ("text",)
        corpus("embed", tiny["embedder"], table, tmp_path / form, to=form, keep=keep, id="n")
    wanted = vectors(tmp_path / "npy")
    tables = [pyarrow.parquet.read_table(path) for path in parts(tmp_path / "parquet", "parquet")]
    assert len({str(each.schema) for each in tables}) == 1
    whole = pyarrow.concat_tables(tables)
    assert whole.column_names == ["id", "text", "vector"]
    assert np.array_equal(np.array(whole["vector"].to_pylist(), dtype=np.float32), wanted)
    listed = rows(tmp_path / "jsonl")
    assert np.array_equal(np.array([row["vector"] for row in listed], dtype=np.float32), wanted)
    assert [row["id"] for row in listed] == whole["id"].to_pylist()
    assert [row["text"] for row in listed] == [each["text"] for each in objects(table.read_text())]


@pytest.mark.parametrize("task", ["classify", "tag", "translate"])
def test_every_task_writes_parquet_of_one_schema(task, tiny, table, tmp_path):
    model = {"classify": "classifier", "tag": "tagger", "translate": "translator"}[task]
    own = {"translate": {"greedy": True, "decoding": {"maximum": 5}}}.get(task, {})
    corpus(task, tiny[model], table, tmp_path / "out", to="parquet", settings=own)
    tables = [pyarrow.parquet.read_table(path) for path in parts(tmp_path / "out", "parquet")]
    assert len({str(each.schema) for each in tables}) == 1
    assert sum(map(len, tables)) == len(objects(table.read_text()))


def test_what_a_task_does_not_write_or_take_is_told(tiny, short, tmp_path):
    with pytest.raises(ConfigError, match="--write text: embed writes npy, parquet, jsonl"):
        corpus("embed", tiny["embedder"], short, tmp_path / "out", to="text")
    with pytest.raises(ConfigError, match="no setting 'pol': there is"):
        corpus("embed", tiny["embedder"], short, tmp_path / "out", settings={"pol": "mean"})
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_how_many_labels_are_asked_for_is_checked_as_at_the_prompt(tiny, short, tmp_path):
    for settings, said in (({"top_k": 0}, "--top-k 0: give 1"), ({"min_probability": 2.0}, "from 0 to 1")):
        with pytest.raises(ConfigError, match=said):
            corpus("classify", tiny["classifier"], short, tmp_path / "out", settings=settings)


def test_columns_are_refused_where_shards_have_no_place_for_them(tiny, table, tmp_path):
    with pytest.raises(ConfigError, match="--keep: shards of npy have no columns; give --write parquet or"):
        corpus("embed", tiny["embedder"], table, tmp_path / "out", keep=("n",))
    for name in ("scores", "flags"):
        with pytest.raises(
            ConfigError, match=f"--{name}: shards of text .* --write jsonl or --write parquet"
        ):
            corpus("translate", tiny["translator"], table, tmp_path / "out", settings={name: True})
    with pytest.raises(ConfigError, match="--keep: shards of text"):
        corpus("classify", tiny["classifier"], table, tmp_path / "out", to="text", keep=("n",))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("task", "form"), [("embed", "npy"), ("classify", "text")])
def test_ids_that_shards_have_no_place_for_stand_beside_them(task, form, tiny, table, tmp_path):
    model, out = tiny["embedder" if task == "embed" else "classifier"], tmp_path / "out"
    corpus(task, model, table, out, to=form, id="n")
    count = len(objects(table.read_text()))
    assert text(out, "ids").split("\n")[:-1] == [str(number) for number in range(count)]
    assert len(parts(out, "ids")) == len(parts(out, "npy" if task == "embed" else "txt"))
    for path in parts(out, "npy"):
        assert len(np.load(path)) == path.with_suffix(".ids").read_text().count("\n")
    parts(out, "ids")[1].unlink()
    assert corpus(task, model, table, out, to=form, id="n").worked == 1
    corpus(task, model, table, tmp_path / "plain", to=form)
    assert not parts(tmp_path / "plain", "ids")


def test_columns_that_are_kept_are_what_they_were(tiny, tmp_path):
    kept = [{"a": 1, "b": [1.5, None], "c": {"d": True}, "e": "x"}, {"a": None, "b": "y", "c": 2, "e": ""}]
    lines = [json.dumps({"text": f"text {n}", **each}) + "\n" for n, each in enumerate(kept)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    how = {"keep": ("a", "b", "c", "e"), "shard_tokens": 1}
    corpus("classify", tiny["classifier"], tmp_path / "a.jsonl", tmp_path / "out", **how)
    assert [{name: row[name] for name in "abce"} for row in rows(tmp_path / "out")] == kept
    corpus("classify", tiny["classifier"], tmp_path / "a.jsonl", tmp_path / "arrow", to="parquet", **how)
    tables = [pyarrow.parquet.read_table(path) for path in parts(tmp_path / "arrow", "parquet")]
    assert pyarrow.concat_tables(tables)["a"].to_pylist() == ["1", None]
    assert pyarrow.concat_tables(tables)["c"].to_pylist() == ['{"d": true}', "2"]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_column_that_is_kept_is_never_written_over(form, tiny, tmp_path):
    gold = [{"text": "a good day", "label": "good"}, {"text": "a bad day", "label": None}]
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    path.write_text("".join(json.dumps(each) + "\n" for each in gold))
    corpus("classify", tiny["classifier"], path, out, to=form, keep=("label",))
    written = out / "part-000000.parquet"
    listed = rows(out) if form == "jsonl" else pyarrow.parquet.read_table(written).to_pylist()
    assert [row["label"] for row in listed] == ["good", None]
    alone = open_classifier(tiny["classifier"], device="cpu").classify([each["text"] for each in gold])
    assert [row["predicted_label"] for row in listed] == [each.label for each in alone]
    with pytest.raises(ConfigError, match="--keep id: every row has an id anyway"):
        corpus("classify", tiny["classifier"], path, out, to=form, keep=("id",))


NOTHING = [{"text": "a good day"}, {"text": ""}, {"text": " \u2028 "}, {"text": None}, {"text": "a dog"}]


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_a_text_with_nothing_in_it_has_no_label_and_no_words_as_in_a_table(task, tiny, tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in NOTHING))
    model, command = {
        "classify": (tiny["classifier"], classification.classify),
        "tag": (tiny["tagger"], tagging.tag),
    }[task]
    found = corpus(task, model, tmp_path / "a.jsonl", tmp_path / "out", shard_tokens=30)
    whole = objects(printed(command, model, str(tmp_path / "a.jsonl")))
    for mine, own in zip(rows(tmp_path / "out"), whole, strict=True):
        assert {name: mine[name] for name in own if name not in ("text", "probability")} == {
            name: value for name, value in own.items() if name not in ("text", "probability")
        }
    said = [row["label" if task == "classify" else "words"] is not None for row in rows(tmp_path / "out")]
    assert said == [True, False, False, False, True]
    assert found.manifest["flags"]["blank"] == 3
    assert found.manifest["counts"]["bad"] == 0
    corpus(task, model, tmp_path / "a.jsonl", tmp_path / "arrow", to="parquet", shard_tokens=30)


def test_a_question_about_nothing_has_no_answer(tiny, tmp_path):
    asked = [("who sleeps", "the dog sleeps"), ("", "the dog sleeps"), ("who sleeps", " ")]
    lines = [json.dumps({"question": q, "context": c}) + "\n" for q, c in asked]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    found = corpus("answer", tiny["answerer"], tmp_path / "a.jsonl", tmp_path / "out")
    assert [row["no_answer"] is None for row in rows(tmp_path / "out")] == [False, True, True]
    assert found.manifest["flags"]["blank"] == 2
    assert found.manifest["counts"]["bad"] == 0


@pytest.mark.filterwarnings("ignore:.*stopped at their maximum")
def test_lines_that_are_too_long_are_bad_and_all_others_are_translated_at_once(
    tiny, short, tmp_path, monkeypatch
):
    asked = {"greedy": True, "decoding": {"maximum": 5}, "split": "never"}
    bulk = TranslateBulk(tiny["translator"], device="cpu", too_long="error", **asked)
    longest = bulk.translator.longest
    lines = short.read_text().split("\n")[:40]
    long = [3, 17, 18]
    for number in long:
        lines[number] = "word " * (longest + 5)
    passes, plan = [], bulk.translator.stream
    monkeypatch.setattr(
        type(bulk.translator),
        "stream",
        lambda self, *given, **how: (passes.append(1), plan(*given, **how))[1],
    )
    found = bulk(lines)
    assert sorted(found.bad) == long
    assert found.bad[3].startswith("too long: ")
    assert len(passes) == 1
    others = [each for number, each in enumerate(lines) if number not in long]
    plain = TranslateBulk(tiny["translator"], device="cpu", **asked)(others).lines
    assert [each for number, each in enumerate(found.lines) if number not in long] == plain
    assert all(found.columns["translation"][number] is None for number in long)


@pytest.mark.filterwarnings("ignore:.*stopped at their maximum")
@pytest.mark.parametrize("task", ["translate", "classify", "tag", "answer"])
def test_two_workers_write_what_one_does(task, tiny, table, tmp_path):
    """Which is what the plain commands give, above."""
    model = {"translate": "translator", "classify": "classifier", "tag": "tagger", "answer": "answerer"}[task]
    own = {"settings": {"greedy": True, "decoding": {"maximum": 5}}} if task == "translate" else {}
    path = table
    if task == "answer":
        path = tmp_path / "questions.jsonl"
        lines = [each["text"] for each in objects(table.read_text())]
        asked = ({"question": " ".join(each.split()[:3]), "context": each} for each in lines)
        path.write_text("".join(json.dumps(each) + "\n" for each in asked))
    for count in (1, 2):
        corpus(task, tiny[model], path, tmp_path / f"{count}", workers=count, engine="local", **own)
    assert len(files(tmp_path / "1")) > 5
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_workers_read_addresses_as_this_process_does_paths(tiny, short, tmp_path):
    corpus("embed", tiny["embedder"], short, tmp_path / "plain")
    corpus("embed", tiny["embedder"], f"file://{short}", tmp_path / "far", workers=2, engine="local")
    assert np.array_equal(vectors(tmp_path / "plain"), vectors(tmp_path / "far"))
