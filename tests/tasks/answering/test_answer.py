"""An answerer from a recipe to the prompt: learned, kept, resumed, used, exported."""

import csv
import io
import json

import numpy as np
import pytest
import torch

from regard.config import ConfigError
from regard.hub import Checkpoint
from regard.settings.models import EmbedConfig, SpanConfig
from regard.settings.shape import EncoderShape
from regard.tasks.answering.answerer import Answerer, open_answerer
from regard.tasks.answering.batches import QuestionFeed
from regard.tasks.answering.data import QuestionCorpus, QuestionsConfig
from regard.tasks.base.encoders import build, open_encoder, save_checkpoint
from regard.tasks.base.reading import Reader
from regard.text import DataError
from tests.tasks.answering import town
from tests.tasks.encoders import toys


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that answers, or says that there is no answer."""
    place = tmp_path_factory.mktemp("town")
    town.train(town.recipe(place, impossible=True), place / "model")
    return place


@pytest.fixture(scope="module")
def answerer(folder):
    return open_answerer(folder / "model", device="cpu")


CONTEXT = "a red hut and a big dog and a new car"


@pytest.mark.spec("5.9", "5.9b")
def test_an_answer_is_a_stretch_of_the_text_or_none(answerer):
    found = answerer.answer("which animal ?", CONTEXT)
    assert found.text == "big dog"
    assert CONTEXT[found.best.start : found.best.end] == "big dog"
    assert found.spans[0] == found.best
    assert 0.5 < found.best.probability <= 1
    assert found.none < 0.5
    nothing = answerer.answer("which fruit ?", CONTEXT)
    assert (nothing.best, nothing.text) == (None, "")
    assert nothing.none > nothing.spans[0].probability
    assert nothing.to_dict()["answer"] is None
    always = answerer.with_threshold(None).answer("which fruit ?", CONTEXT)
    assert always.best is not None
    assert always.none == 0


def test_the_kept_model_has_learned_its_threshold_and_says_how_good_it_is(folder):
    config, metrics = (
        json.loads((folder / "model" / name).read_text()) for name in ("config.json", "metrics.json")
    )
    assert config["threshold"] == metrics["valid"]["threshold"]
    assert metrics["valid"]["f1"] > 90
    assert {"loss", "exact", "answered_f1", "unanswered"} <= metrics["valid"].keys()
    assert config["longest_answer"] == 2


def test_evaluation_finds_the_figures_of_training_again(folder):
    said = town.at_the_prompt(
        "evaluate", folder / "model", "--labelled", folder / "valid.json", "--json", "--device", "cpu"
    )
    found, wanted = json.loads(said), json.loads((folder / "model" / "metrics.json").read_text())["valid"]
    assert found == pytest.approx(wanted, abs=1e-4)


def test_many_questions_are_answered_as_each_alone(answerer):
    asked = ["which house ?", "which vehicle ?", "which fruit ?"]
    together = answerer.answer(asked, CONTEXT, n_best=3)
    for question, each in zip(asked, together, strict=True):
        alone = answerer.answer(question, CONTEXT, n_best=3)
        assert alone.text == each.text
        assert alone.none == pytest.approx(each.none, abs=1e-5)
        assert [span.text for span in alone.spans] == [span.text for span in each.spans]


def test_a_text_of_any_length_is_read_in_windows(answerer):
    others = " and ".join(f"a {colour} {car}" for car in town.KINDS["vehicle"] for colour in 2 * town.COLOURS)
    short = Answerer(
        Reader(answerer.model, answerer.tokenizer, longest=40),
        longest_answer=2,
        overlap=16,
        threshold=answerer.threshold,
    )
    text = f"{others} and a big dog and {others}"
    assert len(short.lay_out(["which animal ?"], [text])[0].windows) > 5
    found = short.with_threshold(None).answer("which animal ?", text)
    assert "dog" in found.text  # places further on than any in its training
    assert found.best.end == text.index("dog") + len("dog")


def test_bad_input_is_named(answerer, tmp_path):
    with pytest.raises(DataError, match=r"questions:2: a question that leaves"):
        answerer.answer(["what ?", "which animal ? " * 200], CONTEXT)
    with pytest.raises(ValueError, match="2 contexts for 1 questions"):
        answerer.answer(["what ?"], [CONTEXT, CONTEXT])
    with pytest.raises(ValueError, match="n_best=0 must be at least 1"):
        answerer.answer("what ?", CONTEXT, n_best=0)
    with pytest.raises(TypeError, match="EmbedHead does not answer"):
        Answerer(toys.reader(toys.model(EmbedConfig())))
    with pytest.raises(ValueError, match="longest_answer=0 must be at least 1"):
        Answerer(answerer.reader, longest_answer=0)


def test_a_run_in_two_sittings_is_the_run_in_one(tmp_path, monkeypatch):
    """Threshold and all."""
    steps = {"steps": 40, "validate_every": 20, "save_every": 10, "log_every": 10}
    plain = town.recipe(tmp_path, impossible=True, train=steps, model={"dropout": 0.1})
    town.train(plain, tmp_path / "whole")
    parts = QuestionFeed.parts

    def until(own, at, split=1):
        if at >= 32:
            raise KeyboardInterrupt
        return parts(own, at, split)

    monkeypatch.setattr(QuestionFeed, "parts", until)
    with pytest.raises(KeyboardInterrupt):
        town.train(plain, tmp_path / "parted")
    monkeypatch.undo()
    stopped, kept = (
        json.loads((tmp_path / "parted" / name).read_text()) for name in ("config.json", "metrics.json")
    )
    assert stopped["threshold"] == kept["valid"]["threshold"]
    outcome, _ = town.train(None, tmp_path / "parted", resume=True)
    assert outcome.step == 40
    one, two = (tmp_path / name for name in ("whole", "parted"))
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    assert (one / "config.json").read_text() == (two / "config.json").read_text()


def test_held_out_questions_share_no_text_with_those_that_are_learned(tmp_path):
    paragraphs = town.questions(50)
    for each in paragraphs:
        each["qas"].append({**each["qas"][0], "id": each["qas"][0]["id"] + "b"})
    name = town.write(tmp_path / "all.json", paragraphs)
    corpus = QuestionCorpus(QuestionsConfig(train=(name,)), tmp_path)
    train, valid = ({record.context for record in corpus.read(split)} for split in ("train", "valid"))
    assert valid
    assert not train & valid


def test_tables_are_learned_from_too(tmp_path):
    rows = [
        {
            "asked": qa["question"],
            "about": each["context"],
            "says": qa["answers"][0]["text"],
            "at": qa["answers"][0]["answer_start"],
        }
        for each in town.questions(60)
        for qa in each["qas"]
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {"question": "asked", "context": "about", "answer": "says", "start": "at"}
    plain = town.recipe(
        tmp_path, data={"train": "train.jsonl", **columns}, train={"steps": 2, "validate_every": 2}
    )
    del plain["data"]["valid"]
    outcome, said = town.train(plain, tmp_path / "model")
    assert outcome.step == 2
    assert "held out" in said
    assert json.loads((tmp_path / "model" / "config.json").read_text())["threshold"] is None
    asked = ["answer", tmp_path / "model", "--questions", tmp_path / "train.jsonl", "--device", "cpu"]
    assert len(town.at_the_prompt(*asked).splitlines()) == 60  # in the columns that it was trained on


def test_a_question_too_long_for_its_text_is_named_or_left_out(tmp_path):
    paragraphs = town.questions(30)
    paragraphs[3]["qas"][0]["question"] = "which animal ? " * 20
    name = town.write(tmp_path / "long.json", paragraphs)
    data = {"train": name, "longest": 40}
    plain = town.recipe(tmp_path, data=data, train={"steps": 1, "validate_every": 1})
    with pytest.raises(DataError, match=r"long.json: too long a question \(id 'q3'\).*data.on_error=skip"):
        town.train(plain, tmp_path / "model")
    plain["data"]["on_error"] = "skip"
    _, said = town.train(plain, tmp_path / "model")
    assert "29 questions to learn from" in said
    assert "1 skipped: 1 too long a question" in said


# The prompt


def test_a_question_about_a_file(folder, tmp_path):
    (tmp_path / "town.txt").write_text(CONTEXT.replace(" and ", "\nand "))
    said = town.at_the_prompt(
        "answer", folder / "model", "which animal ?", "--context", tmp_path / "town.txt", "--device", "cpu"
    )
    chance, place, *text = said.split()
    assert (place, " ".join(text)) == ("16-23", "big dog")
    assert float(chance) > 0.5
    none = town.at_the_prompt(
        "answer", folder / "model", "which fruit ?", "--context", tmp_path / "town.txt", "--device", "cpu"
    )
    assert "no answer" in none.splitlines()[0]


def test_questions_of_a_file_with_their_contexts_come_as_json(folder):
    said = town.at_the_prompt(
        "answer", folder / "model", "--questions", folder / "valid.json", "--n-best", "2", "--device", "cpu"
    )
    found = [json.loads(line) for line in said.splitlines()]
    wanted = [qa for each in town.questions(60, seed=1, impossible=True) for qa in each["qas"]]
    assert [each["id"] for each in found] == [each["id"] for each in wanted]
    right = [
        (each["answer"] or {"text": ""})["text"] == (gold["answers"] or [{"text": ""}])[0]["text"]
        for each, gold in zip(found, wanted, strict=True)
    ]
    assert np.mean(right) > 0.9
    assert all(len(each["spans"]) == 2 for each in found)


def test_questions_of_a_table_keep_their_rows_and_get_their_answers(folder, tmp_path):
    gold = [
        ["n", "question", "context", "answer"],
        ["1", "which animal ?", CONTEXT, "mine"],
        ["2", "", "", ""],
    ]
    with (tmp_path / "q.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*gold, ["3", "which fruit ?", CONTEXT, ""]])
    asked = ["answer", folder / "model", "--questions", tmp_path / "q.csv", "--device", "cpu"]
    found = [*csv.DictReader(io.StringIO(town.at_the_prompt(*asked)))]
    assert [*found[0]][4:] == ["predicted_answer", "start", "end", "probability", "no_answer"]
    assert [row["answer"] for row in found] == ["mine", "", ""]
    assert [row["predicted_answer"] for row in found] == ["big dog", "", ""]
    assert (found[0]["start"], found[0]["end"], found[2]["start"]) == ("16", "23", "")
    assert float(found[0]["probability"]) > 0.5
    assert float(found[2]["no_answer"]) > 0.5
    (tmp_path / "town.txt").write_text(CONTEXT)
    out = tmp_path / "o.jsonl"
    town.at_the_prompt(*asked, "--context", tmp_path / "town.txt", "--n-best", "2", "--out", out)
    plain = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["predicted_answer"] for row in plain] == ["big dog", None, ""]
    assert plain[0]["answers"][0]["text"] == "big dog"
    assert len(plain[0]["answers"]) == 2
    with pytest.raises(DataError, match=r"no column 'asked'; there is 'n', 'question'"):
        town.at_the_prompt(*asked, "--column", "asked")
    with pytest.raises(ConfigError, match="these answers have no columns"):
        town.at_the_prompt(*asked[:3], folder / "valid.json", "--out", tmp_path / "o.csv")
    (tmp_path / "page.html").write_text("x")
    with pytest.raises(DataError, match=r"page\.html: a web page \(HTML\) is not read here"):
        town.at_the_prompt(*asked[:2], "what ?", "--context", tmp_path / "page.html")


def test_a_corpus_is_searched_and_then_read(folder, tmp_path):
    model = toys.model(EmbedConfig(), vocabulary=len(toys.tokenizer()))
    weights = dict(model.named_parameters())
    own = Checkpoint(config=model.config, weights=weights, tokenizer=toys.tokenizer(), longest=64)
    save_checkpoint(own, tmp_path / "embedder", "embed")
    lines = ["", "a red boat and a old bus", CONTEXT, "", "a new pear and a old plum"]
    (tmp_path / "town.txt").write_text("\n".join(lines) + "\n")
    arguments = ["answer", folder / "model", "which animal ?", "--corpus", tmp_path / "town.txt"]
    said = town.at_the_prompt(
        *arguments, "--embedder", tmp_path / "embedder", "--json", "--n-best", "3", "--device", "cpu"
    )
    found = json.loads(said)
    assert found["answer"]["text"] == "big dog"
    assert (found["answer"]["line"], found["answer"]["passage"]) == (3, CONTEXT)
    assert len(found["spans"]) == 3
    assert sum(each["probability"] for each in found["spans"]) + found["none"] <= 1 + 1e-6
    plain = town.at_the_prompt(*arguments, "--embedder", tmp_path / "embedder", "--device", "cpu")
    assert "town.txt:3:16-23  big dog" in plain


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["what ?"], "what are the questions about"),
        (["--context", "x", "--corpus", "y", "--embedder", "z"], "give one of the two"),
        (["--corpus", "y"], "give both, or none"),
        (["--n-best", "0", "--context", "x"], "must be 1 or more"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, arguments, reason):
    with pytest.raises(ConfigError, match=reason):
        town.at_the_prompt("answer", folder / "model", *arguments, "--device", "cpu")


# Other tools


def test_it_goes_to_transformers_and_back_with_the_same_answers(folder, tmp_path):
    hf = pytest.importorskip("transformers")
    town.at_the_prompt("export", folder / "model", tmp_path / "theirs")
    theirs = hf.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "theirs").eval()
    town.at_the_prompt("import", tmp_path / "theirs", tmp_path / "back")
    asked = ["which animal ?", "which house ?"]
    before = Answerer(open_answerer(folder / "model", device="cpu").reader)
    for place in ("theirs", "back"):
        mine = open_answerer(tmp_path / place, device="cpu")
        assert mine.threshold is None
        laid = mine.lay_out(asked, [CONTEXT] * 2)
        for each, [row] in zip(laid, mine.rows(laid), strict=True):
            [window] = each.windows
            given = {"input_ids": [window.ids], "token_type_ids": [window.segments]}
            output = theirs(**{name: torch.tensor(value) for name, value in given.items()})
            found = torch.from_numpy(row)
            torch.testing.assert_close(found[:, 0], output.start_logits[0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found[:, 1], output.end_logits[0], atol=1e-5, rtol=1e-5)
        spans = [each.best for each in mine.answer(asked, CONTEXT)]
        assert [(each.start, each.end) for each in spans] == [
            (each.best.start, each.best.end) for each in before.answer(asked, CONTEXT)
        ]


def test_onnx_says_the_same(folder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    said = town.at_the_prompt("export", folder / "model", tmp_path / "onnx", "--to", "onnx")
    assert "starts and ends the same" in said
    answerer = open_answerer(folder / "model", device="cpu", precision="float32")
    laid = answerer.lay_out(["which animal ?"], [CONTEXT])
    [window] = laid[0].windows
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    feed = {
        "input_ids": [window.ids],
        "attention_mask": [[1] * len(window.ids)],
        "token_type_ids": [window.segments],
    }
    wanted = {each.name for each in session.get_inputs()}
    starts, ends = session.run(
        ["start_logits", "end_logits"], {k: np.array(v) for k, v in feed.items() if k in wanted}
    )
    [[row]] = answerer.rows(laid)
    np.testing.assert_allclose(starts[0], row[:, 0], atol=1e-4)
    np.testing.assert_allclose(ends[0], row[:, 1], atol=1e-4)


def test_a_new_task_on_an_answerer_keeps_its_encoder_and_another_answerer_its_head(folder):
    start = open_encoder(folder / "model")
    made = build(EncoderShape(start=str(folder / "model")), SpanConfig(), start, len(start.tokenizer))
    assert all(torch.equal(value, start.weights[name]) for name, value in made.named_parameters())
