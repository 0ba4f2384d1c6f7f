"""Queries, texts and judgements, as BEIR and TREC write them."""

from pathlib import Path

import pytest

from regard.text import DataError
from regard.text.judged import read_identified, read_judged, read_judgements, write_run

BEIR = {
    "queries.jsonl": '{"_id": "q1", "text": "a cat"}\n{"_id": "q2", "text": "a dog"}\n',
    "corpus.jsonl": '{"_id": "d1", "title": "Cats", "text": "purr"}\n{"_id": 2, "text": "bark"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\t2\t2\nq2\td1\t0\n",
}
TREC = {
    "queries.tsv": "q1\ta cat\nq2\ta dog\n",
    "corpus.tsv": "id\ttext\nd1\tCats purr\n2\tbark\n",
    "qrels.txt": "q1 0 d1 1\nq2 0 2 2\nq2 0 d1 0\n",
}
LINES = {
    "queries.txt": "a cat\n\na dog\n",
    "corpus.txt": "Cats purr\nbark\n",
    "qrels.jsonl": '{"query-id": 1, "corpus-id": "1"}\n{"query-id": "3", "corpus-id": "2", "score": 2.0}\n',
}


def write(folder: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


@pytest.mark.parametrize("files", [BEIR, TREC])
def test_all_forms_say_the_same(tmp_path: Path, files: dict[str, str]) -> None:
    found = read_judged(*write(tmp_path, files))
    assert found.queries == {"q1": "a cat", "q2": "a dog"}
    assert found.corpus == {"d1": "Cats purr", "2": "bark"}
    assert found.judgements == {"q1": {"d1": 1}, "q2": {"2": 2, "d1": 0}}
    assert (found.unasked, found.unknown) == (0, 0)


def test_lines_have_their_numbers_for_ids(tmp_path: Path) -> None:
    found = read_judged(*write(tmp_path, LINES))
    assert found.queries == {"1": "a cat", "3": "a dog"}
    assert found.judgements == {"1": {"1": 1}, "3": {"2": 2}}


def test_what_nobody_can_find_is_counted(tmp_path: Path) -> None:
    files = {**TREC, "qrels.txt": "q1 0 d1 1\nq1 0 gone 1\nq2 0 d1 0\nelse 0 d1 1\n"}
    found = read_judged(*write(tmp_path, files))
    assert [*found.queries] == ["q1"]
    assert (found.unasked, found.unknown) == (1, 1)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("queries.tsv", "q1\ta\nq1\tb\n", r"queries\.tsv:2: an id for the second time \('q1'\)"),
        ("queries.tsv", "q1 a\n", r"queries\.tsv:1: no tab in it"),
        ("corpus.tsv", "\n", r"corpus\.tsv: no text in it"),
        ("qrels.txt", "q1 d1\n", r"qrels\.txt:1: 2 cells in a judgement"),
        ("qrels.txt", "q1 0 d1 0.5\n", r"qrels\.txt:1: no whole number for a grade but '0\.5'"),
        ("qrels.txt", "q1 0 d1 0\n", r"qrels\.txt: no text is relevant"),
        ("qrels.txt", "q9 0 d1 1\n", r"qrels\.txt: no judgement is of a query \(the first is of 'q9'"),
        ("qrels.txt", "q1 0 d9 1\n", r"none of the relevant texts is in .*corpus\.tsv \(the first is 'd9'"),
    ],
)
def test_mistakes_name_file_line_and_remedy(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_judged(*write(tmp_path, {**TREC, name: text}))


def test_json_without_an_id_or_a_text_is_refused(tmp_path: Path) -> None:
    [path] = write(tmp_path, {"a.jsonl": '{"text": "x"}\n'})
    with pytest.raises(DataError, match=r"a\.jsonl:1: no '_id' in it"):
        read_identified(path)
    path.write_text('{"_id": "x", "text": 3}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r'a\.jsonl:1: no "text" in it'):
        read_identified(path)


def test_a_run_is_what_trec_eval_reads(tmp_path: Path) -> None:
    write_run(tmp_path / "run.trec", {"q 1": [("d1", 0.5), ("d2", 0.25)]})
    assert (tmp_path / "run.trec").read_text() == "q_1 Q0 d1 1 0.5 regard\nq_1 Q0 d2 2 0.25 regard\n"
    assert read_judgements(write(tmp_path, {"q.txt": "a\tb\t1\n"})[0]) == {"a": {"b": 1}}
