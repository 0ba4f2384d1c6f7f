import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.records import DataError, Origin
from regard.text.tables import Row, Table, scan_delimited


def cells_of(path, *columns, **settings):
    return [
        row.cells if isinstance(row, Row) else row.reason
        for row in scan_delimited(Table(path=path, **settings), columns)
    ]


# A carriage return before a newline is read as one line's end, in cells too.
cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.data(), st.integers(1, 4))
def test_csv_reads_what_the_csv_module_writes(tmp_path_factory, data, width):
    rows = data.draw(
        st.lists(st.tuples(*[cell | st.sampled_from(['"', ",", "\n", '""'])] * width), max_size=6)
    )
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=quoting).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(b"\xef\xbb\xbf" + written.getvalue().encode())
    assert cells_of(path, *range(width)) == rows


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\t"))] * 3), max_size=6
    )
)
def test_tsv_takes_every_character_as_text(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("tsv") / "x.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + "".join("\t".join(row) + "\n" for row in rows).encode())
    assert cells_of(path, 0, 1, 2) == rows


def test_a_row_stands_where_it_starts(write):
    path = write("x.csv", 'a,b\n"one\ntwo",1\n\nthree,"2\n\n3"\nfour,4\n')
    rows = list(scan_delimited(Table(path=path), ["a"]))
    assert rows == [
        Row(("one\ntwo",), Origin("x.csv", 2)),
        Row(("three",), Origin("x.csv", 5)),
        Row(("four",), Origin("x.csv", 8)),
    ]


def test_a_header_is_there_if_a_column_has_a_name(write):
    path = write("x.tsv", "a\tb\n1\t2\n")
    assert cells_of(path, "b", "a") == [("2", "1")]
    assert cells_of(path, 1) == [("b",), ("2",)]
    assert cells_of(path, 1, header=True) == [("2",)]
    with pytest.raises(ValueError, match="header=False says that there are none"):
        cells_of(path, "a", header=False)


def test_separator_and_quoting_may_be_told(write):
    assert cells_of(write("x.csv", '"a;b";c\n'), 0, separator=";") == [("a;b",)]
    assert cells_of(write("x.csv", '"a,b\n'), 0, quoted=False) == [('"a',)]
    assert cells_of(write("x.tsv", '"a\tb"\tc\n'), 0, quoted=True) == [("a\tb",)]
    assert cells_of(write("x.txt", "a\tb\n"), 1, format="tsv") == [("b",)]


def test_an_unknown_column_suggests_the_nearest(write):
    path = write("x.csv", "sentence,label\na,b\n")
    with pytest.raises(
        DataError, match=r"^x\.csv:1: no column 'lable'; did you mean 'label'\? there is 'sentence', 'l"
    ):
        cells_of(path, "lable")
    with pytest.raises(DataError, match="no column 2; the columns are 0 to 1"):
        cells_of(path, 2)
    with pytest.raises(DataError, match="several columns 'a'; pass its place and header=True"):
        cells_of(write("y.csv", "a,a\n"), "a")


def test_an_unknown_column_may_mean_another_separator_or_no_header(write):
    with pytest.raises(
        DataError, match=r"parted by ',': pass separator=';'; if there is no header, pass a pl"
    ):
        cells_of(write("x.csv", "sentence;label\na;b\n"), "label")
    with pytest.raises(
        DataError, match=r"there is 'a', 'b'; if there is no header, pass a place: 0 is the f"
    ):
        cells_of(write("x.tsv", "a\tb\n"), "label")


def test_the_last_cell_takes_the_rest_of_the_line(write):
    assert cells_of(write("x.tsv", "A:b how far ?\nC:d why\n"), 0, 1, separator=" ", cells=2) == [
        ("A:b", "how far ?"),
        ("C:d", "why"),
    ]
    assert cells_of(write("x.csv", 'a,"b,c\nd\n'), 1, cells=2) == [('"b,c',), "ragged row"]
    for settings in ({"cells": 0}, {"cells": 2, "quoted": True}):
        with pytest.raises(ValueError, match="must be at least 1, in a table with quoted=False"):
            Table(path="x.csv", **settings)


def test_a_format_that_the_name_does_not_tell_must_be_passed(write):
    with pytest.raises(
        DataError, match=r"x\.txt\.gz: a table of unknown format; pass format=, one of tsv, csv"
    ):
        Table(path="x.txt.gz").resolve_format()
    assert Table(path="deep/x.zip/y.csv.xz").resolve_format() == "csv"
    with pytest.raises(ValueError, match="format='xls' is unknown"):
        Table(path="x", format="xls")
    with pytest.raises(ValueError, match="cannot part cells"):
        Table(path="x", separator="::")


def test_ragged_rows_are_broken_and_blank_lines_are_none(write):
    ragged = "ragged row"
    assert cells_of(write("x.tsv", "a\tb\n1\n\n1\t2\n1\t2\t3\n"), "b") == [ragged, ("2",), ragged]
    assert cells_of(write("x.csv", "a,b\n1\n\n1,2\n1,2,3\n"), "b") == [ragged, ("2",), ragged]


def test_a_table_may_have_no_rows_but_a_named_column_needs_a_header(write):
    assert cells_of(write("x.csv", "a,b\n"), "a") == []
    assert cells_of(write("x.tsv", ""), 0) == []
    for name in ("x.tsv", "x.csv"):
        with pytest.raises(DataError, match=rf"^{name}: no header; its first row must name the columns"):
            cells_of(write(name, ""), "a")


def test_a_quote_that_never_closes_costs_one_line(write):
    path = write("x.csv", 'a,1\n"b,2\nc,3\nd,4\n')
    assert cells_of(path, 0) == [("a",), "a quote that never closes", ("c",), ("d",)]
    many = "".join(f"{number},x\n" for number in range(1000))
    found = cells_of(write("y.csv", 'a,1\n"b,2\n' + many), 0, longest=500)
    assert found[:3] == [("a",), "a quote that never closes", ("0",)]
    assert len(found) == 1002


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (['"oops,1', "b,0", '"c,d",1', "e,1"], ["b", "c,d", "e"]),  # text behind the quote that closes it
        (['"oops,1', "b,0", 'c,"', "d,1"], ["b", "d"]),  # too few cells
        (['"oops,1', '"b', 'b",0', "c,1"], ["b\nb", "c"]),
        (['"oops,1', "b,0", '","d"d', "e,1"], ["b", "e"]),
        (['"a"a,"oops,1', '"b",0', "c,1"], ["b", "c"]),
    ],
)
def test_a_stray_quote_that_another_closes_costs_one_line(write, lines, kept):
    rows = list(scan_delimited(Table(path=write("x.csv", "\n".join(["text,label", *lines, ""]))), ["text"]))
    assert [row.cells[0] for row in rows if isinstance(row, Row)] == kept
    broken = [row for row in rows if isinstance(row, DataError)]
    assert broken[0].origin == Origin("x.csv", 2)
    lines_kept = sum(1 + text.count("\n") for text in kept)
    assert len(broken) == len(lines) - lines_kept


def test_a_quote_that_opens_behind_a_broken_cell_still_spans_its_lines(write):
    path = write("x.csv", 'a,b,c\n"a"b,"c\nd",1\ne,f,g\n')
    assert cells_of(path, "a") == ["text after a closing quote", ("e",)]


def test_text_after_a_closing_quote_is_broken(write):
    assert cells_of(write("x.csv", 'a,b\n"c" d,e\nf,g\n'), 0) == [
        ("a",),
        "text after a closing quote",
        ("f",),
    ]


def test_a_mark_inside_a_cell_is_text(write):
    assert cells_of(write("x.csv", '12" vinyl,a "b" c\nx,y\n'), 0, 1) == [
        ('12" vinyl', 'a "b" c'),
        ("x", "y"),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"), [(b"\xff", "invalid UTF-8"), (b"\0", "NUL"), (b"x" * 6000, "line too long")]
)
def test_a_broken_line_costs_its_row_and_nothing_of_the_next(write, bad, reason):
    inside = [b"a,b\n", b'"one\n', b"two " + bad + b"\n", b'three",4\n', b"five,6\n"]
    assert cells_of(write("x.csv", b"".join(inside)), 0, longest=5000) == [("a",), reason, ("five",)]
    opening = [b"a,b\n", bad + b',"one\n', b"two\n", b'three"\n', b"five,6\n"]
    assert cells_of(write("y.csv", b"".join(opening)), 0, longest=5000) == [("a",), reason, ("five",)]


def test_a_table_with_a_broken_header_cannot_be_read(write):
    with pytest.raises(DataError, match=r"x\.tsv:1: invalid UTF-8"):
        cells_of(write("x.tsv", b"a\t\xff\n1\t2\n"), "a")
