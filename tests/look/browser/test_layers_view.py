"""Layers, in a browser: a table of predictions, a readout, and pages of positions."""

import pytest

from regard.decode import DecodeConfig
from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from tests.look.browser import town
from tests.look.browser.conftest import NARROW, WIDE, settled
from tests.look.browser.models import minilm
from tests.tasks import copying

pytestmark = pytest.mark.usefixtures("unchecked")  # small models learn first
TEXT = "Ann Lee likes the lovely garden in New York because it is old."


def read(page, text: str, second: str | None = None) -> None:
    page.fill("#text", text)
    if second is not None:
        page.fill("#second", second)
    page.press("#text", "Enter")
    settled(page)


def chosen(page) -> list[tuple[str, str]]:
    """The candidates in the readout."""
    found = page.locator("#candidates tr").all()
    return [(row.locator("td").nth(0).inner_text(), row.locator("td").nth(1).inner_text()) for row in found]


def percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_field_tells_what_its_layer_would_predict(opened, served, picture, width):
    task = town.language_model()
    page = opened(served(task, "town"), "layers", width=width)
    read(page, TEXT)
    page.wait_for_selector("text=ĠLee")
    seen = Explorer(task).traced(TEXT)
    for layer, place in ((2, 4), (1, 8)):
        page.click(f'[data-field="{layer} {place}"]')
        best = seen.trace.logits(layer=layer - 1)[place].softmax(dim=-1).topk(5)
        assert chosen(page) == [
            (task.tokenizer.token(id), percent(share))
            for share, id in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
    follows = seen.trace.ids()[9]
    assert page.inner_text("#readout h3 >> nth=1") == f"What follows is “{task.tokenizer.token(follows)}”"
    last = page.locator('#right [data-layer="2"] td')
    scores = seen.trace.logits()[8]
    assert last.nth(1).inner_text() == str(1 + int((scores > scores[follows]).sum()))
    assert last.nth(2).inner_text() == percent(float(scores.softmax(dim=-1)[follows]))
    picture(page, "layers")


def test_right_predictions_are_outlined_and_arrows_move(opened, served):
    task = town.language_model()
    page = opened(served(task, "town"), "layers")
    read(page, TEXT)
    page.wait_for_selector("text=ĠLee")
    seen = Explorer(task).traced(TEXT).trace
    ids, best = seen.ids(), seen.logits().argmax(dim=-1).tolist()
    right = [place for place in range(len(ids) - 1) if best[place] == ids[place + 1]]
    assert 0 < len(right) < len(ids) - 1
    marked = page.eval_on_selector_all(
        "td.marked", "cells => cells.map(c => c.dataset.field).filter(f => f.startsWith('2 '))"
    )
    assert [int(field.split()[1]) for field in marked] == right
    page.click('[data-field="1 3"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute('td[aria-selected="true"]', "data-field") == "2 4"
    assert page.evaluate("document.activeElement.dataset.field") == "2 4"


def test_a_model_without_a_head_for_tokens_says_so(opened, served, picture):
    page = opened(served(minilm(), "MiniLM"), "layers")
    page.wait_for_selector("#candidates tr")
    assert "nearest to the state, by cosine" in page.inner_text("#how")
    page.click('[data-field="0 2"]')
    assert chosen(page)[0][0] == "animal"
    page.check("#numbers")
    assert page.locator("td.field small").count() == page.locator("td.field").count() > 0
    picture(page, "layers-nearest")


def test_positions_come_in_pages(opened, served):
    task = town.language_model()
    text = " ".join([TEXT] * 4)
    page = opened(served(task, "town"), "layers")
    read(page, text)
    count = len(Explorer(task).traced(text).read)
    assert 40 < count <= 64
    page.wait_for_selector(f"text=positions 1 to 40 of {count}")
    assert page.locator("tbody th[scope=row]").count() == 40
    page.click("#later")
    page.wait_for_selector(f"text=positions 41 to {count} of {count}")
    tokens = page.locator("table.lens tbody th").all_inner_texts()
    assert tokens == list(Explorer(task).traced(text).read.tokens[40:])
    assert page.is_disabled("#later")
    page.click("#earlier")
    page.wait_for_selector(f"text=positions 1 to 40 of {count}")


def test_a_translator_shows_both_sides(opened, served):
    task = copying.translator(longest=160, decoding=DecodeConfig(maximum=24))  # the page's own example fits
    page = opened(served(task, "nonsense"), "layers")
    read(page, "garden bridge window")
    page.wait_for_selector("#side")
    assert "comes next" in page.inner_text("#how")
    assert page.locator("table.lens tbody th").all_inner_texts()[0] == "<sos>"
    page.select_option("#side", "encoder")
    page.wait_for_selector("text=nearest to the state")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_classifier_has_one_prediction_for_each_layer(opened, served, picture, width):
    task = town.classifier()
    page = opened(served(task, "town"), "layers", width=width)
    read(page, TEXT)
    page.wait_for_selector('[data-field="2 0"]')
    found = task.classify(TEXT)
    assert page.inner_text('[data-field="2 0"] span') == found.label
    assert chosen(page) == [(name, percent(chance)) for name, chance in found.probabilities.items()]
    picture(page, "layers-labels")


def test_a_saved_page_has_all_its_layers(opened, tmp_path):
    explorer = Explorer(town.language_model(), "town")
    path = tmp_path / "page.html"
    path.write_text(page_of(record(explorer, [(" ".join([TEXT] * 4), None, None)])), "utf-8")
    page = opened(path.as_uri(), "layers")
    page.wait_for_selector("#candidates tr")
    page.click("#later")
    page.wait_for_selector("text=positions 41 to")
    assert page.inner_text("#said") == ""
