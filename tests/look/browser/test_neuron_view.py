"""Neuron, in a browser: the numbers of one query."""

import pytest

from regard.look.explorer.explorer import Explorer
from tests.look.browser.conftest import NARROW, WIDE, until
from tests.look.browser.models import minilm, translator
from tests.tasks import copying


def comparison(page) -> list[tuple[int, list[str]]]:
    """Keys and the cells of their rows."""
    return page.eval_on_selector_all(
        "#comparison tbody tr",
        "rows => rows.map(row => [Number(row.dataset.key),"
        " [...row.querySelectorAll('td.number')].map(cell => cell.textContent)])",
    )


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_computes_the_scores_of_the_model(opened, served, picture, width):
    page = opened(served(minilm(), "MiniLM"), "neuron", width=width)
    page.wait_for_selector("#comparison")
    page.locator("#layer").fill("3")
    page.locator("#head").fill("9")
    page.locator("#queries button").nth(5).click()
    until(page, "state.layer === 2 && state.head === 8 && state.query === 5")
    seen = Explorer(minilm()).traced(page.evaluate("state.text")).trace
    scores, weights = seen.scores(layer=2, head=8)[5], seen.weights(layer=2, head=8)[5]
    until(
        page,
        f"document.querySelector('#comparison tbody tr td:nth-of-type(5)').textContent === '{scores[0]:.3f}'",
    )
    found = comparison(page)
    assert [key for key, _ in found] == [*range(len(scores))]
    for key, (_, score, weight) in found:
        assert float(score) == pytest.approx(float(scores[key]), abs=6e-4)
        assert float(weight) == pytest.approx(float(weights[key]), abs=6e-5)
    picture(page, "neuron")


@pytest.mark.parametrize(
    "family", ["transformer, relative", "transformer, window", "lstm, additive", "gru, dot"]
)
def test_scores_of_any_model(opened, served, family):
    own = copying.translator(family)
    page = opened(served(own, "any", "garden bridge"), "neuron")
    page.wait_for_selector("#comparison tbody tr")
    place = page.evaluate("state.place")
    weights = Explorer(own).traced("garden bridge").trace.weights(place, layer=0, head=0)[0]
    for key, cells in comparison(page):
        assert float(cells[-1]) == pytest.approx(float(weights[key]), abs=6e-5)


def test_hidden_keys_are_not_compared(opened, served):
    page = opened(served(translator(), "copier", "garden bridge window"), "neuron")
    page.fill("#text", "garden bridge")
    page.click("#go")
    page.select_option("#place", "decoder")
    page.locator("#queries button").nth(1).click()
    until(page, "document.querySelectorAll('#comparison tbody tr').length === 2")
    assert "hidden from this token" in page.inner_text("#view")
