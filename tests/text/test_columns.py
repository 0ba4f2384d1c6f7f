from collections import Counter

import pytest

from regard.text.columns import read_conll, read_conllu
from regard.text.records import DataError, Origin, Skipped, Tagged
from regard.text.tags import spans


def test_sentences_end_at_blank_lines_and_at_the_end_of_the_file(write):
    path = write("x", "-DOCSTART- -X- O\n\nAnn NNP I-PER\nsat VBD O\n\n\n \nBo NNP I-PER")
    assert list(read_conll(path)) == [
        Tagged(("Ann", "sat"), ("B-PER", "O"), Origin("x", 3)),
        Tagged(("Bo",), ("B-PER",), Origin("x", 8)),
    ]


def test_columns_may_be_chosen_and_other_tags_pass(write):
    path = write("x", "1 Ann NNP I-PER\n2 sat -LRB- O\n")
    (sentence,) = read_conll(path, word=1, tag=2)
    assert (sentence.words, sentence.tags) == (("Ann", "sat"), ("NNP", "-LRB-"))
    (sentence,) = read_conll(path, word=1, scheme=None)
    assert sentence.tags == ("I-PER", "O")


def test_tabs_part_columns_where_there_are_tabs(write):
    path = write("x", "New York\tB-LOC\nz.\u00a0B.\tO\n\t\nx\tO\n")
    assert [sentence.words for sentence in read_conll(path)] == [("New York", "z.\u00a0B."), ("x",)]
    (sentence,) = read_conll(write("y", "z.\u00a0B.   O\n"))
    assert sentence.words == ("z.\u00a0B.",)


def test_comments_are_passed_over_on_demand(write):
    path = write("x", "# id 1\n# O\n")
    assert [sentence.words for sentence in read_conll(path, comment="# id")] == [("#",)]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB1", "I-A I-A B-A O I-B"),
        ("IOB2", "B-A I-A B-A O B-B"),
        ("BIOES", "B-A E-A S-A O S-B"),
        ("BILOU", "B-A L-A U-A O U-B"),
    ],
)
def test_every_scheme_is_brought_to_iob2(write, scheme, tags):
    path = write("x", "".join(f"w {tag}\n" for tag in tags.split()))
    for told in ("detect", scheme):
        (sentence,) = read_conll(path, scheme=told)
        assert sentence.tags == ("B-A", "I-A", "B-A", "O", "B-B")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("b X-PER", r"wrong tag \(malformed tag 'X-PER'"),
        ("b B-", r"wrong tag \(malformed tag 'B-'"),
        ("b I-PER", r"wrong tag \('I-PER' continues no 'PER'\)"),
        ("b", "ragged row"),
        (b"\xff O", "invalid UTF-8 at byte 1"),
    ],
)
def test_a_broken_line_costs_its_sentence_and_is_named(write, line, problem):
    line = line if isinstance(line, bytes) else line.encode()
    path = write("x", b"a O\n\na O\n" + line + b"\nc Y-PER\n\nd O\n")
    with pytest.raises(DataError, match=rf"^x:4: {problem}"):
        list(read_conll(path, scheme="IOB2"))
    skipped = Skipped()
    kept = read_conll(path, scheme="IOB2", on_error="skip", skipped=skipped)
    assert [sentence.words for sentence in kept] == [("a",), ("d",)]
    assert skipped.total == 1


def test_a_detected_scheme_is_told_where_a_tag_breaks_it(write):
    path = write("x", "a B-A\nb I-A\n\nc B-A\n\nd E-A\n")
    with pytest.raises(DataError, match=r"^x:6: wrong tag \(malformed.*\), read as IOB2 \(detected\); fix"):
        list(read_conll(path))
    with pytest.raises(ValueError, match="scheme='IOB' is unknown: choose from IOB2, IOB1, BIOES, BILOU, de"):
        read_conll(path, scheme="IOB")


def test_a_column_that_is_not_there_is_an_error(write):
    with pytest.raises(DataError, match="x:1: no such column; there are 2 columns"):
        list(read_conll(write("x", "a O\n"), tag=2))


def test_a_file_without_blank_lines_is_not_read_into_memory(write):
    path = write("x", "word O\n" * 1000 + "\nb O\n")
    skipped = Skipped()
    kept = list(read_conll(path, longest=100, on_error="skip", skipped=skipped))
    assert [sentence.words for sentence in kept] == [("b",)]
    assert skipped.counts == {"sentence too long": 1}


CONLLU = """\
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tfuimos\tir\tVERB\tV\t_\t_\t_\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tE\t_\t5\tcase\t_\t_
4\tel\tel\tDET\tD\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\t_

"""


def test_conllu_gives_its_syntactic_words(write):
    path = write("x.conllu", CONLLU)
    (sentence,) = read_conllu(path)
    assert sentence.words == ("Vamos", "nos", "a", "el", "mar")
    assert sentence.tags == ("VERB", "PRON", "ADP", "DET", "NOUN")
    assert sentence.origin == Origin("x.conllu", 2)
    assert next(read_conllu(path, tag="DEPREL")).tags == ("root", "obj", "case", "det", "obl")
    with pytest.raises(ValueError, match="tag='POS' is no column of CoNLL-U"):
        read_conllu(path, tag="POS")


def test_conllu_has_ten_columns(write):
    with pytest.raises(DataError, match=r"x\.conllu:1: ragged row \(2 columns where 10 are expected\)"):
        list(read_conllu(write("x.conllu", "1\tword\n")))


@pytest.mark.parametrize(
    ("id", "problem"),
    [
        ("x", "malformed ID 'x'"),
        ("²", "malformed ID '²'"),
        ("1-", "malformed ID '1-'"),
        ("1.1", "a sentence without words"),
    ],
)
def test_conllu_counts_its_words(write, id, problem):
    path = write("x.conllu", f"{id}\tword" + "\t_" * 8 + "\n")
    with pytest.raises(DataError, match=rf"^x\.conllu:1: {problem}"):
        list(read_conllu(path))


@pytest.mark.parametrize(("name", "count"), [("eng.train.gz", 14_041), ("eng.testa.gz", 3_250)])
def test_conll2003_is_iob1(shared_data, name, count):
    sentences = list(read_conll(shared_data / "conll2003" / name))
    assert len(sentences) == count
    found = Counter(span.label for sentence in sentences for span in spans(sentence.tags))
    if (
        name == "eng.train.gz"
    ):  # the counts of entities in the task's paper (Tjong Kim Sang and De Meulder 2003)
        assert found == {"LOC": 7140, "MISC": 3438, "ORG": 6321, "PER": 6600}


def test_wnut17_has_tabs_on_its_blank_lines(shared_data):
    assert sum(1 for _ in read_conll(shared_data / "wnut17" / "wnut17train.conll.gz")) == 3_394


def test_ud_english_has_17_parts_of_speech(shared_data):
    sentences = list(read_conllu(shared_data / "ud_ewt" / "en_ewt-ud-train.conllu.gz"))
    assert len(sentences) == 12_544
    assert len({tag for sentence in sentences for tag in sentence.tags}) == 17
    assert sum(1 for _ in read_conllu(shared_data / "ud_ewt" / "en_ewt-ud-dev.conllu.gz")) == 2_001
