"""Questions with their answers, from SQuAD's JSON and from tables; what is broken is named."""

import gzip
import json

import pytest

from regard.text import DataError, Gold, Skipped, read_questions, read_squad

CONTEXT = "On Monday, Ann met Bob in Rome. Bob was late."


def squad(path, *asked, context=CONTEXT, title="Rome"):
    content = {
        "version": "x",
        "data": [{"title": title, "paragraphs": [{"context": context, "qas": [*asked]}]}],
    }
    text = json.dumps(content)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def asked(id="q1", question="Who met Bob?", *answers, **more):
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": question, "answers": golds, **more}


@pytest.mark.parametrize("name", ["train.json", "train.json.gz"])
def test_squad_has_questions_with_places(tmp_path, name):
    path = squad(
        tmp_path / name,
        asked("a", "Who met Bob?", ("Ann", 11), ("Ann", 11)),
        asked("b", "Where?", ("Rome", 26), ("in Rome", 23)),
    )
    first, second = read_squad(path)
    assert (first.id, first.text, first.context, first.answers) == (
        "a",
        "Who met Bob?",
        CONTEXT,
        (Gold("Ann", 11),),
    )
    assert [gold.text for gold in second.answers] == ["Rome", "in Rome"]
    assert second.answers[0].end == 30
    assert first.origin.file == str(path)


def test_an_impossible_question_has_no_answer_whatever_looks_like_one(tmp_path):
    path = squad(
        tmp_path / "x.json", asked("a", "Why?", ("Rome", 26), is_impossible=True, plausible_answers=[])
    )
    [question] = read_squad(path)
    assert question.answers == ()


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (
            asked("q7", "Who?", ("Ann", 12)),
            "an answer that is not where it says .article 'Rome', question 'q7'. .'Ann' at 12: 'nn '",
        ),
        (asked("q7", "Who?", ("Ann", -3)), "not where it says"),
        (asked("q7", "Who?", ("", 3)), "an empty answer .*q7"),
        (asked("q7", "  ", ("Ann", 11)), "an empty question .*q7"),
        (asked("q7", "Who?"), "without an answer, and not marked .is_impossible.*q7"),
        ({"id": "q7", "question": None, "answers": []}, "no question with a text .*q7"),
        (
            {"id": "q7", "question": "Who?", "answers": [{"text": "Ann"}]},
            "without the number of its first character .*q7",
        ),
        ({"id": "q7", "question": "Who?", "answers": [11]}, "no answer with a text .*q7.*but 11"),
        ({"id": "q7", "question": "Who?", "answers": "Ann"}, "answers that are no list .*q7"),
        ("Who?", "no question with a text"),
    ],
)
def test_a_broken_question_is_named_by_article_and_id_or_left_out(tmp_path, question, reason):
    path = squad(tmp_path / "x.json", asked("good", "Who?", ("Ann", 11)), question)
    with pytest.raises(DataError, match=reason) as error:
        list(read_squad(path))
    assert str(path) in str(error.value)
    skipped = Skipped()
    assert [each.id for each in read_squad(path, on_error="skip", skipped=skipped)] == ["good"]
    assert skipped.total == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"data": [', ":1: invalid JSON"),
        ('{\n"data":\n [nonsense]}', ":3: invalid JSON"),
        ("[1, 2]", "not SQuAD's JSON .no list 'data'"),
        ('{"data": [{"title": "x"}]}', "no list 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"context": "x"}]}]}', "no list 'qas'"),
        ('{"data": [{"paragraphs": [3]}]}', "a paragraph is 3"),
        ("[" * 100_000, "invalid JSON"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, content, reason):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(DataError, match=reason):
        list(read_squad(path, on_error="skip"))


def test_questions_that_are_only_asked_need_no_answers(tmp_path):
    path = squad(tmp_path / "x.json", {"id": "a", "question": "Who?"})
    [question] = read_squad(path, answered=False)
    assert (question.text, question.answers) == ("Who?", ())


def test_tables_have_a_question_a_row(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text(f"question\tcontext\tanswer\tstart\nWho?\t{CONTEXT}\tAnn\t11\nWhy?\t{CONTEXT}\t\t\n")
    first, second = read_questions(path)
    assert (first.text, first.answers, first.origin.line) == ("Who?", (Gold("Ann", 11),), 2)
    assert second.answers == ()


def test_an_answer_without_a_place_must_stand_in_its_text_once(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [("Who?", "Ann"), ("Who was late?", "Bob"), ("Where?", "Paris")]
    path.write_text("".join(json.dumps({"q": q, "c": CONTEXT, "a": a}) + "\n" for q, a in rows))
    columns = {"question": "q", "context": "c", "answer": "a", "start": None}
    skipped = Skipped()
    [found] = read_questions(path, **columns, on_error="skip", skipped=skipped)
    assert found.answers == (Gold("Ann", 11),)
    assert set(skipped.counts) == {
        "an answer that stands 2 times in its text",
        "an answer that stands not in its text",
    }
    with pytest.raises(
        DataError, match=r"x.jsonl:2.*2 times in its text .'Bob'.: name the column of its start"
    ):
        list(read_questions(path, **columns))


def test_answers_of_hugging_face_data_sets_are_read():
    rows = [
        {
            "question": "Who?",
            "context": CONTEXT,
            "answers": {"text": ["Ann", "Ann met"], "answer_start": [11, 11]},
        }
    ]
    [found] = read_questions(rows, answer="answers", start=None)
    assert [gold.text for gold in found.answers] == ["Ann", "Ann met"]


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ({"text": "Ann", "answer_start": 11}, ["Ann"]),
        ({"text": ["Ann"], "answer_start": [11.0]}, ["Ann"]),
        ({"text": [], "answer_start": []}, []),
        ([{"text": "Bob", "answer_start": 19}], ["Bob"]),
        ({"text": "Ann", "answer_start": [11]}, "without the number"),
        ({"text": ["Ann"]}, "without as many"),
        ({"text": ["Ann", "Bob"], "answer_start": [11]}, "without as many"),
        ({"text": [""], "answer_start": [5]}, "an empty answer"),
        ({"text": ["Ann"], "answer_start": [11.5]}, "without the number"),
    ],
)
def test_answers_of_tables_are_whole_or_refused(cell, found):
    rows = [{"question": "Who?", "context": CONTEXT, "answers": cell}]
    read = read_questions(rows, answer="answers", start=None)
    if isinstance(found, list):
        [question] = read
        assert [gold.text for gold in question.answers] == found
    else:
        with pytest.raises(DataError, match=found):
            list(read)


def test_who_only_asks_is_not_stopped_by_a_wrong_answer(tmp_path):
    path = squad(tmp_path / "x.json", asked("a", "Who?", ("Ann", 99)))
    assert [each.text for each in read_squad(path, answered=False)] == ["Who?"]


def test_real_files_are_read_whole(shared_data):
    train = list(read_squad(shared_data / "policyqa" / "train.json.gz"))
    assert len(train) == 3287
    assert len(list(read_squad(shared_data / "policyqa" / "dev.json.gz"))) == 522
    assert len(list(read_squad(shared_data / "xquad" / "xquad.de.json.gz"))) == 1190
    assert all(q.context[g.start : g.end] == g.text for q in train for g in q.answers)
