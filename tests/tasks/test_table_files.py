"""What a file is, how its rows go through a command, and where they come out."""

import csv
import gzip
import io
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from regard.config import ConfigError
from regard.tasks.base.formats import REFUSED, FileOptions, format_of
from regard.tasks.base.outputs import assign, do_each, is_text
from regard.tasks.base.sources import source_of
from regard.tasks.base.tables import Wanted, annotate
from regard.text import DataError

ODD = 'id,text,note\n1,"Good, ""really""\nso",x\n2,,"y;z"\n3,bad,\n'


def file(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return str(path)


def loud(texts):
    return [[text.upper(), len(text)] for text in texts]


def through(path, form=None, /, *, added=("loud", "size"), work=loud, window=2, **options):
    """What comes out of a table, whose texts are made loud."""
    source = source_of(str(path), FileOptions(**options))
    out = io.StringIO()
    wanted = [Wanted(source.options.column)]
    annotate(source, out, form or source.format, added=added, wanted=wanted, work=work, window=window)
    return out.getvalue()


def cells(text, **how):
    return [*csv.reader(io.StringIO(text), **how)]


# what a file is


def test_the_ending_tells_and_is_overruled():
    names = {"a.csv": "csv", "b.TSV": "tsv", "c.jsonl.gz": "jsonl", "d.ndjson": "jsonl", "e.csv.xz": "csv"}
    assert {name: format_of(name) for name in names} == names
    assert {format_of(name) for name in ("a.txt", "b.md", "c.en", "d", "-", "a.txt.gz")} == {"lines"}
    assert format_of("a.csv", "lines") == "lines"
    assert format_of("-", "csv") == "csv"


@pytest.mark.parametrize("suffix", REFUSED)
def test_what_is_not_supported_is_refused_by_name(suffix):
    for name in (f"a{suffix}", f"a{suffix.upper()}", f"a{suffix}.gz"):
        with pytest.raises(DataError) as caught:
            format_of(name)
        told = str(caught.value)
        assert told.startswith(f"{name}: {REFUSED[suffix]} is not read here; convert it to ")
        assert "--format lines" in told
        assert "\n" not in told
        assert format_of(name, "lines") == "lines"


# rows in, rows out


def test_rows_keep_their_order_their_cells_and_their_quotes(tmp_path):
    written = cells(through(file(tmp_path, "a.csv", ODD)))
    assert written[0] == ["id", "text", "note", "loud", "size"]
    given = cells(ODD)
    assert [row[:3] for row in written] == given
    assert [row[3:] for row in written[1:]] == [['GOOD, "REALLY"\nSO', "17"], ["", ""], ["BAD", "3"]]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        (
            "a.csv",
            'id, text ,"note"\r\n1,"Hello ""you""\nthere, so","a"\r\n2,"",x\r\n3,"two\r\nlines",\r\n4,b,c',
            'id, text ,"note",loud,size\r\n1,"Hello ""you""\nthere, so","a","HELLO ""YOU""\nTHERE, SO",21\r\n'
            '2,"",x,,\r\n3,"two\r\nlines",,"TWO\nLINES",9\r\n4,b,c,B,1\r\n',
        ),
        ("a.tsv", 'text\tn\r\n"a\t 1\na b\t\r\n', 'text\tn\tloud\tsize\r\n"a\t 1\t"A\t2\na b\t\tA B\t3\r\n'),
        (
            "a.jsonl",
            '{"id":1,  "text":"By\\u00e9" } \r\n\r\n{"text" : "b","x":{"y":[1,2]}}\n',
            '{"id":1,  "text":"By\\u00e9", "loud": "BYÉ", "size": 3} \r\n'
            '{"text" : "b","x":{"y":[1,2]}, "loud": "B", "size": 1}\n',
        ),
    ],
)
def test_what_is_not_new_stays_as_it_was_written(tmp_path, name, given, wanted, mark):
    assert through(file(tmp_path, name, mark + given)) == mark + wanted


def test_results_that_are_older_than_their_texts_are_told(tmp_path, capsys):
    source = Path(file(tmp_path / "in", "a.csv", "text\na\n"))
    out = Path(file(tmp_path / "out", "a.csv", "text,loud\na,A\n"))
    for times, told in ((1, False), (3, True)):
        os.utime(source, (times, times))
        os.utime(out, (2, 2))
        do_each(assign(str(tmp_path / "in"), str(tmp_path / "out")), lambda each: None)
        said = capsys.readouterr().err.replace("\n", " ")
        assert ("has changed since; delete it to have it made anew" in said) is told
        assert "1 there already" in said


def test_a_model_never_sees_the_header_nor_other_columns_nor_empty_cells(tmp_path):
    seen = []

    def work(texts):
        seen.extend(texts)
        return loud(texts)

    through(file(tmp_path, "a.csv", ODD), work=work)
    assert seen == ['Good, "really"\nso', "bad"]


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("out", ["csv", "tsv", "jsonl"])
def test_every_format_becomes_every_other(tmp_path, format, out):
    given = [{"n": "1", "text": "a b"}, {"n": "2", "text": ""}, {"n": "3", "text": 'c "d"'}]
    if format == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in given)
    else:
        page = io.StringIO()
        plain = {"quoting": csv.QUOTE_NONE, "quotechar": None} if format == "tsv" else {}
        sheet = csv.writer(page, delimiter="\t" if format == "tsv" else ",", lineterminator="\n", **plain)
        sheet.writerows([["n", "text"], *([*row.values()] for row in given)])
        text = page.getvalue()
    found = through(file(tmp_path, f"a.{format}", text), out)
    if out == "jsonl":
        rows = [json.loads(line) for line in found.splitlines()]
        assert rows == [
            {"n": "1", "text": "a b", "loud": "A B", "size": 3},
            {"n": "2", "text": "", "loud": None, "size": None},
            {"n": "3", "text": 'c "d"', "loud": 'C "D"', "size": 5},
        ]
    else:
        how = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if out == "tsv" else {}
        assert cells(found, **how) == [
            ["n", "text", "loud", "size"],
            ["1", "a b", "A B", "3"],
            ["2", "", "", ""],
            ["3", 'c "d"', 'C "D"', "5"],
        ]


def test_a_cell_of_tsv_never_breaks_its_row(tmp_path):
    found = through(file(tmp_path, "a.csv", 'text\n"one\ttwo\nthree"\n'), "tsv")
    assert found == "text\tloud\tsize\none two three\tONE TWO THREE\t13\n"


def test_json_keeps_its_values_and_null_is_empty(tmp_path):
    text = '{"text": "a", "n": 1.50, "deep": {"x": [1, "ü"]}}\n\n{"text": null, "n": true}\n'
    path = file(tmp_path, "a.jsonl", text)
    assert [json.loads(line) for line in through(path).splitlines()] == [
        {"text": "a", "n": 1.5, "deep": {"x": [1, "ü"]}, "loud": "A", "size": 1},
        {"text": None, "n": True, "loud": None, "size": None},
    ]
    assert cells(through(path, "csv")) == [
        ["text", "n", "deep", "loud", "size"],
        ["a", "1.5", '{"x": [1, "ü"]}', "A", "1"],
        ["", "true", "", "", ""],
    ]


def test_a_column_that_is_there_is_never_written_over(tmp_path):
    path = file(tmp_path, "a.csv", "text,loud,predicted_size\na,x,y\n")
    assert cells(through(path)) == [
        ["text", "loud", "predicted_size", "predicted_loud", "size"],
        ["a", "x", "y", "A", "1"],
    ]
    again = file(tmp_path, "b.csv", "text,loud,predicted_loud\na,x,y\n")
    assert cells(through(again))[0][3:] == ["predicted_loud_2", "size"]
    late = file(tmp_path, "c.jsonl", '{"text": "a"}\n{"text": "b", "loud": "x"}\n')
    with pytest.raises(DataError, match=r"c\.jsonl:2: a column 'loud' that the first row has not"):
        through(late)


def test_a_table_of_one_column_keeps_its_empty_rows_and_one_without_rows_its_header(tmp_path):
    found = cells(through(file(tmp_path, "a.csv", "review\na\n\nb\n")))
    assert found == [["review", "loud", "size"], ["a", "A", "1"], ["", "", ""], ["b", "B", "1"]]
    assert through(file(tmp_path, "b.csv", "text,n\n")) == "text,n,loud,size\n"
    assert through(file(tmp_path, "c.jsonl", "")) == ""
    with pytest.raises(DataError, match=r"d\.csv: an empty table; its first row must name the columns"):
        through(file(tmp_path, "d.csv", ""))


def test_no_more_than_a_window_is_read_before_it_is_written(tmp_path):
    seen = []

    def work(texts):
        seen.append(len(texts))
        return loud(texts)

    rows = "".join(f"{number},t\n" for number in range(7))
    found = through(file(tmp_path, "a.csv", f"n,text\n{rows}"), work=work, window=3)
    assert seen == [3, 3, 1]
    assert [row[0] for row in cells(found)[1:]] == [str(number) for number in range(7)]


# which column


@pytest.mark.parametrize(
    ("header", "options", "wanted"),
    [
        ("n,text", {}, "b"),
        ("sentence,n", {}, "a"),
        ("sentence,text", {}, "b"),
        ("x,y", {"column": "y"}, "b"),
        ("x,y", {"column": "0"}, "a"),
        ("1,0", {"column": "0"}, "b"),
        ("x,x", {"column": "1"}, "b"),
    ],
)
def test_a_column_is_found_by_its_name_or_its_number(tmp_path, header, options, wanted):
    found = cells(through(file(tmp_path, "a.csv", f"{header}\na,b\n"), **options))
    assert found[1][2] == wanted.upper()


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("x,y\na,b\n", {}, "no column 'text' or 'sentence'; give --column, one of 'x', 'y', or its number"),
        ("text,y\na,b\n", {"column": "txt"}, "no column 'txt'; did you mean 'text'?"),
        ("x,y\na,b\n", {"column": "2"}, "no column '2'; there is 'x', 'y'"),
        ("x,x\na,b\n", {"column": "x"}, "several columns 'x'; give --column its number"),
        ("text;label\na;b\n", {}, "if ';' parts them, give --separator ';'"),
        ("text,y\na,b,c\n", {}, "a.csv:2: ragged row (3 cells where the first row has 2)"),
        ('text\na\n"b\n', {}, "a.csv:3: a quote that never closes; fix the file"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_line(tmp_path, text, options, told):
    with pytest.raises(DataError) as caught:
        through(file(tmp_path, "a.csv", text), **options)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_in_json_must_be_one(tmp_path):
    with pytest.raises(DataError, match=r"a\.jsonl:2: no text in column 'text' but 3; fix it, or .*--column"):
        through(file(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": 3}\n'))
    with pytest.raises(DataError, match=r"a\.jsonl:2: no column 'text'"):
        through(file(tmp_path, "a.jsonl", '{"text": "a"}\n{"txt": "b"}\n'))
    with pytest.raises(DataError, match=r"a\.jsonl:1: invalid JSON .*; fix the file"):
        through(file(tmp_path, "a.jsonl", "plain text\n"))


def test_separators_and_tables_without_a_header(tmp_path):
    path = file(tmp_path, "a.csv", 'a;"b;c"\n;d\n')
    found = through(path, separator=";", header=False, column="1")
    assert found == 'a;"b;c";B;C;3\n;d;D;1\n'.replace("B;C", '"B;C"')
    found = through(path, "jsonl", separator=";", header=False, column="1")
    assert json.loads(found.splitlines()[0]) == {"0": "a", "1": "b;c", "loud": "B;C", "size": 3}
    tabs = file(tmp_path, "b.txt", 'n\ttext\n1\t"a\tb"\n')
    assert cells(through(tabs, format="csv", separator="\\t"), delimiter="\t")[1] == [
        "1",
        "a\tb",
        "A\tB",
        "3",
    ]
    with pytest.raises(ConfigError, match="--separator ';;' cannot part cells"):
        FileOptions(separator=";;")


# encodings


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "shift_jis", "utf-16-le"])
def test_an_encoding_is_said_by_its_name_and_what_is_written_is_utf8(tmp_path, encoding):
    text = "text,n\n日本,1\n" if encoding == "shift_jis" else "text,n\nGrün “é”,1\nñ,2\n"
    found = through(file(tmp_path, "a.csv", text, encoding), encoding=encoding)
    assert [row[:2] for row in cells(found)] == cells(text)


def test_bytes_of_another_encoding_are_told_with_their_line_and_a_remedy(tmp_path):
    path = file(tmp_path, "a.csv", "text\nfine\nGrün\n", "cp1252")
    with pytest.raises(DataError, match=r"a\.csv:3: invalid UTF-8 at byte 3 .*--encoding cp1252"):
        through(path)
    with pytest.raises(
        DataError, match=r"a\.csv:3: not ascii at byte 3 \(0xfc\); .*: give --encoding cp1252"
    ):
        through(path, encoding="ascii")
    with pytest.raises(DataError, match=r"b\.csv:1: not UTF-8 text .*--encoding utf-16"):
        through(file(tmp_path, "b.csv", "text\nGrün\n", "utf-16"))
    for name in ("klingon", "hex"):
        with pytest.raises(ConfigError, match=f"--encoding '{name}' .*: did you mean one of 'utf-8'"):
            FileOptions(encoding=name)


def test_packed_tables_and_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"n,text\n1,a\n"))
    assert cells(through(path))[1] == ["1", "a", "A", "1"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("n,text\n1,ü\n".encode("cp1252"))))
    assert cells(through("-", format="csv", encoding="cp1252"))[1] == ["1", "ü", "Ü", "1"]


# where it goes


@pytest.mark.parametrize(
    "text", ["A fine film.", "fine", "Fine!", "Is it and/or not?", "你好。", "x" * 5000, "a\nb"]
)
def test_what_looks_like_no_path_is_text(text):
    assert is_text(text)
    [each] = assign(text)
    assert [*each.source.lines()] == text.split("\n")


@pytest.mark.parametrize("path", ["few.csv", "folder/few", "letter.de", "./few", "-"])
def test_what_looks_like_a_path_is_none(path):
    assert not is_text(path)


def test_what_is_there_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "my letter", "a\nb\n")
    [each] = assign("my letter")
    assert [*each.source.lines()] == ["a", "b"]
    with pytest.raises(DataError, match=r"my\.txt: no such file"):
        assign("my.txt")
    with pytest.raises(ConfigError, match=r"'A text\.' is no file, but 'my letter' names one"):
        assign(["my letter", "A text."])


def test_the_ending_of_the_output_chooses_its_format(tmp_path):
    given = file(tmp_path, "a.csv", "text\na\n")
    assert [assign(given, str(tmp_path / f"o.{end}"))[0].format for end in ("csv", "tsv", "jsonl")] == [
        "csv",
        "tsv",
        "jsonl",
    ]
    lines = file(tmp_path, "a.en", "a\n")
    assert [assign(lines, str(tmp_path / name))[0].tabular for name in ("o.de", "o.csv")] == [False, True]
    for name, told in (
        ("o.txt", "a table is written as .csv, .tsv or .jsonl"),
        ("o.pdf", "a PDF document is not written"),
        ("o.csv.zip", "end its name in .gz, .xz, .bz2"),
        ("a.csv", "is the file that is read"),
    ):
        with pytest.raises(ConfigError, match=told):
            assign(given, str(tmp_path / name))
    with pytest.raises(ConfigError, match="give one of the two"):
        assign(given, str(tmp_path / "o.csv"), as_json=True)


def copying(each):
    with each.opened(io.StringIO()) as page:
        page.writelines(f"{line}!\n" for line in each.source.lines())


def test_many_files_keep_their_names_and_those_that_are_whole_are_left(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.txt", "in/deep/b.en.gz", "in/.hidden", "in/page.pdf", "c.txt"):
        file(tmp_path, name, "x\n")
    (tmp_path / "in/deep/b.en.gz").write_bytes(gzip.compress(b"y\n"))
    given = ["in", "c.txt"]
    with pytest.raises(ConfigError, match="--out DIR"):
        assign(given)
    do_each(assign(given, "out"), copying)
    told = capsys.readouterr().err
    assert "left out: in/page.pdf: a PDF document" in told.replace("\n", " ")
    assert "3 of 3 files written" in told
    names = sorted(str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file())
    assert names == ["a.txt", "c.txt", "deep/b.en.gz"]
    assert gzip.decompress(Path("out/deep/b.en.gz").read_bytes()) == b"y!\n"
    Path("out/a.txt").write_text("mine", encoding="utf-8")
    Path("out/c.txt").unlink()
    do_each(assign(given, "out"), copying)
    assert "1 of 3 files written, 2 there already" in capsys.readouterr().err
    assert Path("out/a.txt").read_text(encoding="utf-8") == "mine"
    assert Path("out/c.txt").read_text(encoding="utf-8") == "x!\n"


def test_two_files_of_one_name_and_an_output_that_is_read_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.txt", "b/x.txt", "file", "x.pdf"):
        file(tmp_path, name, "x\n")
    with pytest.raises(ConfigError, match=r"a/x\.txt and b/x\.txt would both be written to out/x\.txt"):
        assign(["a/x.txt", "b/x.txt"], "out")
    with pytest.raises(ConfigError, match=r"a/x\.txt is the file that is read"):
        assign("a/x.txt", "a/")
    with pytest.raises(ConfigError, match="file is a file, but there are 2 to write"):
        assign(["a/x.txt", "b"], "file")
    with pytest.raises(DataError, match=r"x\.pdf: a PDF document is not read here"):
        assign(["a/x.txt", "x.pdf"], "out")


def test_what_is_no_ordinary_file_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "own.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("own.csv")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe.csv").read_text()), daemon=True)
    reader.start()
    for name in ("pipe.csv", "link.csv"):
        [each] = assign("hello world", str(tmp_path / name))
        with each.opened(io.StringIO()) as page:
            page.write("hello")
    reader.join(20)
    assert found == ["hello"]
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "own.csv").read_text() == "hello"
    assert len([*tmp_path.iterdir()]) == 3


def test_standard_output_keeps_what_was_written_into_it_before(tmp_path):
    code = "from pathlib import Path; from regard.tasks.base.outputs import write_bytes_whole as write; "
    with (tmp_path / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        code += "write(Path('/dev/stdout'), b'after')"
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"before\nafter"


def test_nothing_half_written_has_a_name_and_a_broken_file_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "in/a.csv", "text\na\n")
    file(tmp_path, "in/b.csv", 'text\na\n"b\n')
    file(tmp_path, "in/c.csv", "text\nc\n")

    def work(each):
        with each.opened(io.StringIO()) as page:
            annotate(
                each.source,
                page,
                each.format,
                added=["loud", "size"],
                wanted=[Wanted(None)],
                work=loud,
                window=1,
            )

    with pytest.raises(ConfigError, match="1 of 3 files could not be read; the others are done"):
        do_each(assign("in", "out"), work)
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.csv", "c.csv"]
