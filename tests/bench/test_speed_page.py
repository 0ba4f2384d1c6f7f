"""The table, the page and the picture, from invented reports."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from regard.bench.page import COLUMNS, cells, figure, page, table
from regard.bench.picture import MOST, drawable, plot_ratios
from regard.bench.results import Row
from regard.look.plots import BLUE, GREY, ORANGE
from tests.bench.invented import ALONE, COST, FAST, MISSING, ROWS, SLOW, invented


def lines(text: str) -> list[list[str]]:
    """The cells of every row of the page's tables."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_the_page_has_every_row_of_every_report():
    written = page([invented("encoder"), invented("training", rows=(FAST,))], picture=False)
    expected = [list(COLUMNS), *map(cells, ROWS), list(COLUMNS), cells(FAST)]
    assert lines(written) == [[cell.replace("|", r"\|") for cell in row] for row in expected]


def test_a_row_is_told_in_figures_and_words():
    told = ["writing", "int8, batch 8", "tokens/s", "300", "100", "3.00", "2.00 - 4.00"]
    assert cells(FAST) == [*told, "transformers 5.0.0", "same tokens: 100 %"]
    assert cells(ALONE) == ["the page", "drawn", "ms", "33.8", "-", "-", "-", "-", ""]


@pytest.mark.parametrize(
    ("value", "shown"), [(77268.4, "77,268"), (33.84, "33.8"), (0.934, "0.93"), (None, "-")]
)
def test_figures_have_about_three_digits(value, shown):
    assert figure(value) == shown


def test_each_report_says_how_where_with_what_and_when():
    written = page([invented("encoder")], picture=False)
    assert "## What encoder takes" in written
    assert "Nobody did anything. Repeat it by `regard bench encoder`." in written
    assert "*An abacus, 2 threads; regard 0.1.0, torch 2.13.0; 2026-01-31*" in written


def test_the_picture_is_linked_where_there_is_one_and_says_who_is_ahead():
    assert "pictures/speed.png" not in page([invented()], picture=False)
    told = re.search(r"!\[(.*?)\]\(pictures/speed\.png\)", page([invented()], picture=True))
    assert "1 of 2 rows against others" in told[1]  # FAST and SLOW; COST is against ourselves


def test_the_terminal_shows_what_the_page_shows():
    out = io.StringIO()
    Console(file=out, width=200).print(table(invented()))
    for row in ROWS:
        for cell in cells(row):
            assert cell in out.getvalue()


def test_brackets_in_a_row_are_text_to_the_terminal():
    out = io.StringIO()
    rows = (Row(work="[red]x[/red]", setting="", unit="ms"),)
    Console(file=out, width=200).print(table(invented(rows=rows)))
    assert "[red]x[/red]" in out.getvalue()


def test_rows_without_a_ratio_are_not_drawn():
    ((_, rows),) = drawable([invented(), invented("looking", rows=(ALONE, MISSING))])
    assert rows == [FAST, SLOW, COST]


def test_bars_go_from_one_to_the_ratio_in_the_colour_of_who_is_ahead():
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_rgba

    (axes,) = plot_ratios([invented()]).axes
    bars = [(bar.get_x(), bar.get_width(), bar.get_facecolor()) for bar in axes.patches]
    expected = [(FAST, BLUE), (SLOW, ORANGE), (COST, GREY)]
    assert bars == [(1.0, row.ratio - 1, to_rgba(colour)) for row, colour in expected]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["writing, int8, batch 8", "reading | aloud", "one head, traced"]


def test_every_ratio_and_its_range_are_inside_the_picture():
    pytest.importorskip("matplotlib")
    (axes,) = plot_ratios([invented()]).axes
    low, high = axes.get_xlim()
    assert low < 0.5
    assert high > 4.0


def test_a_bar_that_is_far_ahead_ends_at_the_most_with_its_ratio_beside_it():
    pytest.importorskip("matplotlib")
    far = replace(FAST, setting="int8; beside ten others", ratio=400.0, low=390.0, high=410.0)
    (axes,) = plot_ratios([invented(rows=(far, SLOW))]).axes
    assert axes.patches[0].get_width() == MOST - 1
    assert axes.get_xlim()[1] < 10 * MOST
    assert any(each.get_text().startswith("400.00  ") for each in axes.texts)
    assert next(label.get_text() for label in axes.get_yticklabels()) == "writing, int8"


def test_nothing_to_draw_is_an_error():
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="no row has a ratio"):
        plot_ratios([invented(rows=(ALONE,))])
