import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.readers import (
    read_labelled,
    read_lines,
    read_pairs,
    read_scored,
    read_table_lines,
    read_table_pairs,
    read_tagged,
)
from regard.text.records import DataError, Labelled, Line, Origin, Pair, ScoredPair, Skipped, Tagged
from regard.text.tables import Table

BAD = b"\xff"


def test_lines_know_where_they_stand_and_empty_ones_are_kept(write):
    path = write("x.txt", "one\n\nthree")
    assert list(read_lines(path)) == [
        Line("one", Origin("x.txt", 1)),
        Line("", Origin("x.txt", 2)),
        Line("three", Origin("x.txt", 3)),
    ]


def test_pairs_know_where_both_sides_stand(write):
    pairs = read_pairs(write("x.de", "eins\n\n"), write("x.en", "one\ntwo\n"))
    assert list(pairs) == [
        Pair("eins", "one", Origin("x.de", 1), Origin("x.en", 1)),
        Pair("", "two", Origin("x.de", 2), Origin("x.en", 2)),
    ]


def test_a_broken_line_on_either_side_names_its_file(write):
    good, bad = write("good", "a\nb\n"), write("bad", b"a\n\xff\n")
    for pairs in (read_pairs(good, bad), read_pairs(bad, good)):
        with pytest.raises(
            DataError, match=r"^bad:2: invalid UTF-8 at byte 1 \(0xff\); .*fix the file or pass on_error"
        ):
            list(pairs)


@pytest.mark.parametrize(
    ("source", "target", "place"), [(5, 3, "x.de:4"), (2, 3, "x.en:3"), (0, 1, "x.en:1")]
)
def test_unequal_files_tell_both_counts(write, source, target, place):
    files = write("x.de", "a\n" * source), write("x.en", "b\n" * target)
    with pytest.raises(DataError) as caught:
        list(read_pairs(*files))
    counts = f"(x.de has {source} lines, x.en has {target})"
    assert str(caught.value).startswith(f"{place}: no line beside it {counts}; align")
    skipped = Skipped()
    assert len(list(read_pairs(*files, on_error="skip", skipped=skipped))) == min(source, target)
    assert skipped.counts == {"no line beside it": abs(source - target)}


lines_good_or_bad = st.lists(st.sampled_from([b"good", b"", BAD, b"\0", b"much too long"]), max_size=8)


@given(lines_good_or_bad, lines_good_or_bad)
def test_pairs_stay_aligned_and_skipped_plus_yielded_is_all(tmp_path_factory, left, right):
    folder = tmp_path_factory.mktemp("pairs")
    for name, lines in (("left", left), ("right", right)):
        numbered = [line + b" %d" % number if line == b"good" else line for number, line in enumerate(lines)]
        (folder / name).write_bytes(b"".join(line + b"\n" for line in numbered))
    skipped = Skipped()
    pairs = list(read_pairs(folder / "left", folder / "right", longest=9, on_error="skip", skipped=skipped))
    assert len(pairs) + skipped.total == max(len(left), len(right))
    for pair in pairs:
        assert pair.origin.line == pair.target_origin.line
        assert not pair.source or pair.source == f"good {pair.origin.line - 1}"
        assert not pair.target or pair.target == f"good {pair.origin.line - 1}"


def test_a_table_gives_lines_and_pairs(write):
    path = write("x.tsv", "id\ten\tde\n1\tHi.\tHallo!\n")
    here = Origin("x.tsv", 2)
    assert list(read_table_lines(path, text="en")) == [Line("Hi.", here)]
    assert list(read_table_pairs(path, source="de", target="en")) == [Pair("Hallo!", "Hi.", here, here)]


def test_labels_may_be_one_or_several(write):
    path = write("x.csv", "text,label\ngood,pos\nmixed, pos;neg \nnone,\n")
    one = read_labelled(path, text="text", label="label", on_error="skip", skipped=(skipped := Skipped()))
    assert [record.labels for record in one] == [("pos",), ("pos;neg",)]
    assert skipped.first == {"empty label in column 'label'": [Origin("x.csv", 4)]}
    several = read_labelled(path, text="text", label="label", labels_apart_by=";")
    assert [record.labels for record in several] == [("pos",), ("pos", "neg"), ()]


def test_a_label_may_be_about_two_texts(write):
    path = write("x.tsv", "a\tb\t1\n")
    assert list(read_labelled(path, text=0, second=1, label=2)) == [
        Labelled("a", "b", ("1",), Origin("x.tsv", 1))
    ]


def test_scores_are_finite_numbers(write):
    path = write("x.csv", "a,b,4.5\nc,d,nan\ne,f,high\ng,h,-1e2\n")
    skipped = Skipped()
    scored = list(read_scored(path, first=0, second=1, score=2, on_error="skip", skipped=skipped))
    assert scored == [
        ScoredPair("a", "b", 4.5, Origin("x.csv", 1)),
        ScoredPair("g", "h", -100.0, Origin("x.csv", 4)),
    ]
    assert skipped.total == 2
    with pytest.raises(DataError, match=r"^x\.csv:2: no finite number in column 2 but 'nan'"):
        list(read_scored(path, first=0, second=1, score=2))


ROWS = [
    {
        "text": "good",
        "other": "b",
        "label": "pos",
        "score": 1,
        "words": ["Ann", "sat"],
        "tags": ["B-PER", "O"],
    },
    {"text": "bad\nday", "other": "d", "label": "neg", "score": 0.5, "words": [], "tags": []},
]


@pytest.fixture(params=["jsonl", "jsonl.gz", "parquet", "mappings"])
def rows(request, write):
    """The same rows from every source that knows lists and numbers."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    match request.param:
        case "jsonl":
            return write("x.jsonl", lines)
        case "jsonl.gz":
            return write("x.jsonl.gz", gzip.compress(lines.encode()))
        case "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), "x.parquet")
            return "x.parquet"
        case _:
            return ROWS


def test_the_same_rows_come_from_every_source(rows):
    file = rows if isinstance(rows, str) else "list"
    first, second = Origin(file, 1), Origin(file, 2)
    assert list(read_labelled(rows, text="text", label="label", second="other")) == [
        Labelled("good", "b", ("pos",), first),
        Labelled("bad\nday", "d", ("neg",), second),
    ]
    assert list(read_scored(rows, first="text", second="other", score="score")) == [
        ScoredPair("good", "b", 1.0, first),
        ScoredPair("bad\nday", "d", 0.5, second),
    ]
    assert list(read_tagged(rows, words="words", tags="tags")) == [
        Tagged(("Ann", "sat"), ("B-PER", "O"), first),
        Tagged((), (), second),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": 5}, "no text in column 'text' but 5"),
        ({"text": None}, "no text in column 'text' but None"),
        ({"text": "a\0"}, "NUL in column 'text'"),
        ({"text": "\ud800"}, "half of a surrogate pair in column 'text'"),
        ({"texts": "a"}, "no column 'text'; did you mean 'texts'? there is 'texts'; or pass on_error"),
        ([1], "not a JSON object but list"),
    ],
)
def test_a_json_row_without_usable_text_is_broken(write, row, problem):
    path = write("x.jsonl", json.dumps({"text": "fine"}) + "\n\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError) as caught:
        list(read_table_lines(path, text="text"))
    assert str(caught.value).startswith(f"x.jsonl:3: {problem}")
    skipped = Skipped()
    assert len(list(read_table_lines(path, text="text", on_error="skip", skipped=skipped))) == 1
    assert skipped.total == 1


@pytest.mark.parametrize("line", ['{"text": "a"', "[" * 100_000, '{"text": %s}' % ("1" * 5000)])
def test_a_line_that_is_no_json_is_broken(write, line):
    with pytest.raises(DataError, match=r"^x\.jsonl:2: invalid JSON"):
        list(read_table_lines(write("x.jsonl", '{"text": "a"}\n' + line), text="text"))


@pytest.mark.parametrize("content", ['[{"text": "a"},\n{"text": "b"}\n]\n', '[\n{"text": "a"}\n]', '["a"]'])
def test_an_array_of_json_is_refused_whole(write, content):
    with pytest.raises(DataError, match=r"^x\.jsonl: a JSON array; one object a line is needed"):
        list(read_table_lines(write("x.jsonl", content), text="text", on_error="skip"))


def test_lists_of_labels_and_numbers_as_labels_are_understood():
    rows = [{"t": "a", "l": ["x", "y"]}, {"t": "b", "l": 3}, {"t": "c", "l": []}]
    assert [record.labels for record in read_labelled(rows, text="t", label="l")] == [("x", "y"), ("3",), ()]


def test_words_and_tags_must_be_as_many():
    with pytest.raises(DataError, match=r"list:1: unequal lists \(2 words, 1 tags\)"):
        list(read_tagged([{"w": ["a", "b"], "t": ["O"]}], words="w", tags="t"))
    with pytest.raises(DataError, match="no list in column 't' but 'O O'"):
        list(read_tagged([{"w": ["a", "b"], "t": "O O"}], words="w", tags="t"))


def test_tags_may_be_numbers_of_names():
    rows = [{"w": ["a", "b"], "t": [2, 0]}]
    (sentence,) = read_tagged(rows, words="w", tags="t", names=["O", "B-LOC", "B-PER"])
    assert sentence.tags == ("B-PER", "O")
    with pytest.raises(DataError, match=r"numbers in column 't' \(2, \.\.\.\); pass names="):
        list(read_tagged(rows, words="w", tags="t"))
    for tags in ([2, -1], [2, 3], ["O", "O"]):
        with pytest.raises(DataError, match=r"no number of a name in column 't' but .* \(names has 3\)"):
            list(read_tagged([{"w": ["a", "b"], "t": tags}], words="w", tags="t", names=["O", "A", "B"]))


def test_of_several_splits_one_is_named():
    with pytest.raises(TypeError, match="a dict of 'train', 'dev' is no table: name a split"):
        read_table_lines({"train": [{"t": "a"}], "dev": []}, text="t")


def test_multi30k_has_29000_pairs(shared_data):
    folder = shared_data / "multi30k"
    pairs = list(read_pairs(folder / "train.en.gz", folder / "train.de.gz"))
    assert len(pairs) == 29_000
    assert pairs[0].source == "Two young, White males are outside near many bushes."
    assert pairs[-1].origin == Origin(str(folder / "train.en.gz"), 29_000)


def test_tatoeba_is_read_out_of_its_archive(shared_data):
    path = shared_data / "tatoeba" / "deu-eng.zip" / "deu.txt"
    pairs = read_table_pairs(Table(path=path, format="tsv"), source=0, target=1)
    assert next(pairs) == Pair("Hi.", "Hallo!", Origin(str(path), 1), Origin(str(path), 1))
    assert sum(1 for _ in pairs) == 169_812


@pytest.mark.parametrize(
    ("name", "columns", "count", "labels"),
    [
        ("imdb/train.tsv.xz", {"text": "text", "label": "label"}, 25_000, 2),
        ("sst2/train.tsv.gz", {"text": "sentence", "label": "label"}, 67_349, 2),
        ("cola/dev.tsv.gz", {"text": 3, "label": 1}, 1_043, 2),
        ("rte/dev.tsv.gz", {"text": "sentence1", "second": "sentence2", "label": "label"}, 277, 2),
        ("banking77/train.csv.gz", {"text": "text", "label": "category"}, 10_003, 77),
    ],
)
def test_every_row_of_a_published_set_is_read(shared_data, name, columns, count, labels):
    seen, found = 0, set()
    for record in read_labelled(shared_data / name, **columns):
        seen += 1
        found.update(record.labels)
    assert (seen, len(found)) == (count, labels)


def test_mrpc_has_a_mark_returns_and_stray_quotes(shared_data):
    table = Table(path=shared_data / "mrpc" / "msr_paraphrase_train.txt.gz", format="tsv")
    records = list(read_labelled(table, text="#1 String", second="#2 String", label="Quality"))
    assert len(records) == 4_076
    assert '"the witness"' in records[0].text
    assert not any(record.second.endswith("\r") for record in records)


def test_trec6_has_its_labels_before_the_first_space(shared_data):
    path = shared_data / "trec6" / "train.txt.gz"
    table = Table(path=path, format="tsv", separator=" ", cells=2)
    records = list(read_labelled(table, text=1, label=0))
    assert records[0].text == "How did serfdom develop in and then leave Russia ?"
    assert len(records) == 5_452
    assert len({record.labels[0].partition(":")[0] for record in records}) == 6


@pytest.mark.parametrize("language", ["en", "de", "fr", "zh"])
def test_stsb_scores_lie_between_0_and_5(shared_data, language):
    path = shared_data / "stsb" / f"stsb-{language}-dev.csv.gz"
    scores = [pair.score for pair in read_scored(path, first=0, second=1, score=2)]
    assert len(scores) == 1_500
    assert min(scores) == 0
    assert max(scores) == 5


def test_labels_may_be_numbers(write):
    path = write("x.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": 3.5}\n')
    assert [record.labels for record in read_labelled(path, text="text", label="label")] == [("3",), ("3.5",)]
