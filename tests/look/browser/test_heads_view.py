"""Heads, in a browser: small and large, tokens and words, by pointer and by keys."""

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.words import merge_words
from tests.look.browser.conftest import NARROW, WIDE, until
from tests.look.browser.models import minilm, translator

TEXT = "The animal didn't cross the street because it was too tired."


def rows(page) -> list[tuple[str, float]]:
    """What the readout lists."""
    found = page.locator("#readout tr").all()
    return [
        (row.locator("td").nth(0).inner_text(), float(row.locator("td").nth(1).inner_text())) for row in found
    ]


def test_a_head_shows_the_weights_of_the_model(opened, served, picture):
    page = opened(served(minilm(), "MiniLM"), "heads")
    page.locator('[data-head="2 8"]').click()
    page.wait_for_selector('[data-drawn$=" 2 8"]')  # the first head's readout is there before this one's
    seen = Explorer(minilm()).traced(TEXT)
    for place in (0, 5, 10):
        page.locator("#large").click(position={"x": 60, "y": 4 + 24 * place + 12})
        until(page, f"state.query === {place}")
        weights = seen.trace.weights(layer=2, head=8)[place]
        assert [weight for _, weight in rows(page)] == pytest.approx(
            weights.sort(descending=True).values[:8].tolist(), abs=6e-4
        )
        assert rows(page)[0][0] == seen.read.tokens[int(weights.argmax())]
    picture(page, "heads")


@pytest.mark.long
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_words_and_special_tokens_are_as_python_has_them(opened, served, picture, width):
    page = opened(served(translator(), "copier", "garden bridge window"), "heads", width=width)
    page.fill("#text", "garden bridge window")
    page.click("#go")
    page.select_option("#place", "cross")
    page.wait_for_selector("#readout h3")
    page.check("#words")
    page.uncheck("#specials")
    seen = Explorer(translator()).traced("garden bridge window")
    weights = seen.trace.weights("cross", layer=0, head=0)
    expected = merge_words(weights, seen.written, seen.read, specials="drop")
    until(page, f"document.querySelectorAll('#readout tr').length === {len(expected.columns)}")
    found = rows(page)
    assert {name for name, _ in found} == set(expected.columns)
    for name, weight in found:
        assert weight == pytest.approx(float(expected.weights[0, expected.columns.index(name)]), abs=6e-4)
    picture(page, "heads-words")


def test_keys_move_through_heads_and_tokens(opened, served):
    page = opened(served(minilm(), "MiniLM"), "heads")
    page.wait_for_selector("#readout h3")
    page.locator('[data-head="0 0"]').focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("[state.layer, state.head]") == [1, 2]
    assert page.locator('[data-head="1 2"]').get_attribute("aria-pressed") == "true"
    page.locator(".stage").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("state.query") == 1
    page.locator("#tab-heads").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.view") == "neuron"


def test_the_layer_slider_and_the_matrix(opened, served, picture):
    page = opened(served(minilm(), "MiniLM"), "heads", dark=True)
    page.wait_for_selector("#readout h3")
    page.locator("#layer").fill("4")
    page.select_option("#mode", "matrix")
    seen = Explorer(minilm()).traced(TEXT)
    expected = seen.trace.weights(layer=3, head=0)[0].max()
    until(page, "state.layer === 3")
    until(page, f"Math.abs({expected:.6f} - document.querySelector('#readout .number').textContent) < 6e-4")
    picture(page, "heads-matrix")
