"""Positions, in a browser: the formulas under their sliders, and what models have of their own."""

import math
import re

import numpy as np
import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.explorer.positions import asked
from regard.look.page import key
from regard.look.page import page as whole_page
from regard.look.plot_positions import formula, positions_of
from tests.look.browser.conftest import NARROW, WIDE
from tests.look.browser.models import minilm
from tests.tasks import copying

pytestmark = pytest.mark.usefixtures("unchecked")


def slide(page, name: str, value: float) -> None:
    page.locator(f"#positions-{name}").evaluate(
        "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", value
    )


def move_to(page, name: str, row: int, column: int) -> None:
    """By keys."""
    which = "field" if name == "fields" else "pair"
    kept = page.evaluate(f"[POSITIONS.{which}.row, POSITIONS.{which}.column]")
    page.locator(f"#positions-{name}").locator("..").focus()
    for forth, step in (("ArrowDown", row - kept[0]), ("ArrowRight", column - kept[1])):
        back = {"ArrowDown": "ArrowUp", "ArrowRight": "ArrowLeft"}[forth]
        for _ in range(abs(step)):
            page.keyboard.press(forth if step > 0 else back)


def last_number(text: str) -> float:
    return float(re.findall(r"-?\d+\.\d+", text)[-1])


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_formula_follows_its_sliders(opened, served, picture, width: int):
    page = opened(served(minilm(), "MiniLM"), "positions", width=width)
    equation, likeness = page.locator("#positions-equation"), page.locator("#positions-likeness")
    assert "d = 128, N = 50, n = 10000" in equation.inner_text()
    picture(page, "positions")
    for d, length, power in ((128, 50, 4), (12, 20, 2)):
        slide(page, "d", d), slide(page, "N", length), slide(page, "n", power)
        expected = formula("sinusoidal", d, length, 10.0**power)
        for row, column in ((4, 3), (7, 4), (11, 5)):
            move_to(page, "fields", row, column)
            assert f"d = {d}, N = {length}, n = {10**power}" in equation.inner_text()
            wave = "cos" if column % 2 else "sin"
            assert f"PE({row}, {column}) = {wave}({row} / " in equation.inner_text()
            assert last_number(equation.inner_text()) == pytest.approx(expected.rows[row, column], abs=6e-5)
        move_to(page, "pairs", 2, 9)
        assert last_number(likeness.inner_text()) == pytest.approx(expected.likeness[2, 9], abs=6e-4)
        page.select_option("#positions-measure", "dot")
        assert "dot product" in likeness.inner_text()
        dot = float(expected.rows[2] @ expected.rows[9])
        assert last_number(likeness.inner_text()) == pytest.approx(dot, abs=6e-4)
        page.select_option("#positions-measure", "cosine")


def test_colours_are_those_of_the_numbers(opened, served):
    page = opened(served(minilm(), "MiniLM"), "positions")
    slide(page, "d", 8), slide(page, "N", 10)
    move_to(page, "fields", 9, 7)  # the cursor is out of the way
    expected = formula("sinusoidal", 8, 10, 10_000.0).rows
    fields = [(1, 0), (3, 0), (5, 1), (8, 2), (0, 0)]
    found, wanted = page.evaluate(
        """([fields, values]) => {
            const canvas = document.getElementById('positions-fields');
            const ratio = canvas.width / canvas.clientWidth;
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const pixel = ([row, column]) => {
                const x = Math.round(ratio * (38 + (column + 0.5) * (canvas.clientWidth - 52) / 8));
                const at = 4 * (Math.round(ratio * (20 + (row + 0.5) * 24)) * canvas.width + x);
                return [...data.subarray(at, at + 3)];
            };
            return [fields.map(pixel), values.map((value) => colour(value))];
        }""",
        [fields, [float(expected[field]) for field in fields]],
    )
    assert np.abs(np.array(found) - wanted).max() <= 2


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_rotary_positions_are_alike_by_distance_alone(opened, served, picture, width: int):
    page = opened(served(minilm(), "MiniLM"), "positions", width=width)
    page.click("[data-show=rotary]")
    slide(page, "d", 16), slide(page, "n", 2)
    for row, column in ((5, 3), (9, 7)):
        move_to(page, "fields", row, column)
        angle = row * 100 ** (-2 * column / 16)
        told = numbers(page.locator("#positions-equation").inner_text().splitlines()[-1])
        assert told == pytest.approx(
            [row, column, angle, angle / (2 * math.pi), math.cos(angle), math.sin(angle)], abs=6e-4
        )
    alike = []
    for row in (0, 3, 8):
        move_to(page, "pairs", row, row + 4)
        alike.append(last_number(page.locator("#positions-likeness").inner_text()))
    expected = sum(math.cos(4 * 100 ** (-2 * i / 16)) for i in range(8)) / 8
    assert alike == pytest.approx([expected] * 3, abs=6e-4)
    for shown in ("sine", "angle"):
        page.select_option("#positions-as", shown)
    picture(page, "positions-rotary")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_learned_positions_are_the_models_own(opened, served, picture, width: int):
    page = opened(served(minilm(), "MiniLM"), "positions", width=width)
    page.click("[data-show=encoder]")
    page.wait_for_selector("#positions-equation")
    expected = positions_of(minilm(), 120)
    move_to(page, "fields", 7, 12)
    assert last_number(page.locator("#positions-equation").inner_text()) == pytest.approx(
        expected.rows[7, 12], abs=6e-5
    )
    slide(page, "length", 120)
    page.get_by_text("120 positions of 384 numbers").wait_for()
    move_to(page, "pairs", 49, 51)
    told = page.locator("#positions-likeness").inner_text()
    assert last_number(told) == pytest.approx(expected.likeness[49, 51], abs=6e-4)
    assert "Positions 49 and 51, 2 apart: cosine" in told
    picture(page, "positions-learned")


@pytest.mark.parametrize(("family", "width"), [("alibi", NARROW), ("relative", WIDE)])
def test_biases_are_told_by_head_and_distance(opened, served, picture, family: str, width: int):
    model = copying.translator(f"transformer, {family}", longest=128)
    page = opened(served(model, family), "positions", width=width)
    for side in ("encoder", "decoder"):
        page.click(f"[data-show={side}]")
        page.wait_for_selector("#positions-readout")
        page.locator("#positions-biases").locator("..").focus()
        page.keyboard.press("Home")
        slide(page, "length", 30)
        expected = positions_of(model, 30, side)
        page.keyboard.press("Home")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        told = page.locator("#positions-readout").inner_text()
        assert "head 2: a key 26 before the query gets" in told
        assert last_number(told) == pytest.approx(expected.values[1, 3], abs=6e-5)
        page.keyboard.press("ArrowUp")
    picture(page, f"positions-{family}")


def test_a_model_without_positions_says_so(opened, served):
    page = opened(served(copying.translator("lstm, additive", longest=128), "LSTM"), "positions")
    page.click("[data-show=decoder]")
    assert "one token after the other" in page.locator("#positions-none").inner_text()


def test_the_pointer_reads_a_field(opened, served):
    page = opened(served(minilm(), "MiniLM"), "positions")
    canvas = page.locator("#positions-pairs")
    box = canvas.bounding_box()
    side = min(box["width"] - 52, 400)
    page.mouse.move(box["x"] + 38 + side * 30.5 / 50, box["y"] + 20 + side * 10.5 / 50)
    expected = formula("sinusoidal", 128, 50, 10_000.0).likeness[10, 30]
    told = page.locator("#positions-likeness").inner_text()
    assert told == f"Positions 10 and 30, 20 apart: cosine {expected:.3f}"


def test_a_saved_page_shows_what_it_carries_and_says_what_it_does_not(opened, tmp_path):
    model = copying.translator("transformer, learned")
    explorer = Explorer(model, "saved")
    found = {key(*each): explorer.ask(*each) for each in [("about", {}), *asked(explorer, "", None, None)]}
    found["texts"] = {"texts": [{"text": "harbour", "second": None, "to": None}]}
    file = tmp_path / "page.html"
    file.write_text(whole_page(found), encoding="utf-8")
    page = opened(file.as_uri(), "positions")
    page.click("[data-show=decoder]")
    page.wait_for_selector("#positions-equation")
    move_to(page, "fields", 20, 5)
    expected = positions_of(model, 50, "decoder").rows[20, 5]
    told = page.locator("#positions-equation").inner_text()
    assert last_number(told) == pytest.approx(expected, rel=2e-3)
    slide(page, "length", 30)
    assert "30 positions of 32 numbers" in page.locator("main").inner_text()
    slide(page, "length", 60)
    page.wait_for_selector("#said.bad")
    assert "regard look MODEL" in page.locator("#said").inner_text()
    assert "50 positions" in page.locator("main").inner_text()
    assert page.locator("#positions-length").input_value() == "50"
