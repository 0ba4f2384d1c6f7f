"""Words in context, in a browser: sentences in, distances by layer, cosines and a map out."""

import numpy as np
import pytest

from regard.look.explorer.context import EXAMPLES, asked
from regard.look.explorer.explorer import Explorer
from regard.look.page import key
from regard.look.page import page as whole_page
from regard.meaning.context import word_in_context
from regard.tasks.embedding.embedder import Embedder
from tests.look.browser.conftest import NARROW, WIDE
from tests.look.browser.models import minilm

pytestmark = pytest.mark.usefixtures("unchecked")


def cosines(page) -> np.ndarray:
    rows = page.locator("#context-cosines tbody tr").all()
    return np.array([[float(each) for each in row.locator("td").all_inner_texts()] for row in rows])


def slide(page, layer: int) -> None:
    page.locator("#context-layer").evaluate(
        "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", layer
    )


def expected(model: Embedder, word: str, sentences: list[str], layer: int) -> np.ndarray:
    moves = word_in_context(model, word, sentences)
    found = np.eye(len(sentences))
    for (one, other), cosine in zip(moves.pairs, moves.cosines[layer], strict=True):
        found[one, other] = found[other, one] = cosine
    return found


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_layer_shows_the_cosines_of_the_model(opened, served, picture, width: int):
    page = opened(served(minilm(), "MiniLM"), "context", width=width)
    page.wait_for_selector("#context-cosines")
    marked = page.locator("#context-list mark").all_inner_texts()
    assert marked == ["apple", "apple", "Apple", "Apple"]
    for layer in (6, 3, 0):
        slide(page, layer)
        wanted = expected(minilm(), "apple", EXAMPLES["apple"], layer)
        assert cosines(page) == pytest.approx(wanted, abs=6e-4)
        name = f"layer {layer}" if layer else "embedding"
        assert page.locator("#context-layer ~ output").inner_text() == name
    slide(page, 6)
    page.click('[data-pair="1 3"]')
    told = page.locator("#context-pair").inner_text()
    apart = 1 - word_in_context(minilm(), "apple", EXAMPLES["apple"]).cosines[:, 1]
    assert f"in 1 and 3, layer 6: cosine {1 - apart[6]:.3f}, distance {apart[6]:.3f}" in told
    assert f"was {apart[0]:.3f} at the embedding" in told
    assert page.locator('[data-pair="1 3"]').get_attribute("aria-pressed") == "true"
    picture(page, "context")


def test_other_sentences_are_compared(opened, served):
    page = opened(served(minilm(), "MiniLM"), "context")
    page.click("[data-example=bank]")
    page.get_by_text("“bank” in").wait_for()
    assert cosines(page) == pytest.approx(expected(minilm(), "bank", EXAMPLES["bank"], 6), abs=6e-4)
    own = ["The 🍏🍏 bat flew.", "He swung his <b>bat</b>.", "A bat sleeps by day."]
    page.fill("#context-word", "bat")
    page.fill("#context-sentences", "\n".join([*own, "", "  "]))
    page.press("#context-word", "Enter")
    page.get_by_text("“bat” in").wait_for()
    assert page.locator("#context-list li").all_inner_texts() == own
    assert page.locator("#context-list mark").all_inner_texts() == ["bat"] * 3
    assert cosines(page) == pytest.approx(expected(minilm(), "bat", own, 6), abs=6e-4)


def test_many_sentences_stay_inside_the_screen(opened, served, picture):
    page = opened(served(minilm(), "MiniLM"), "context", width=NARROW)
    page.fill("#context-word", "sun")
    page.fill("#context-sentences", "\n".join(f"{'very ' * number}bright sun" for number in range(16)))
    page.click("#context-go")
    page.get_by_text("“sun” in").wait_for()
    assert cosines(page).shape == (16, 16)
    assert "Named: the chosen pair" in page.locator("main").inner_text()
    picture(page, "context-many")


def test_a_saved_page_has_its_examples_and_says_what_needs_a_model(opened, tmp_path):
    explorer = Explorer(minilm(), "saved")
    found = {key(*each): explorer.ask(*each) for each in [("about", {}), *asked(explorer, "", None, None)]}
    found["texts"] = {"texts": [{"text": "a", "second": None, "to": None}]}
    file = tmp_path / "page.html"
    file.write_text(whole_page(found), encoding="utf-8")
    page = opened(file.as_uri(), "context")
    for word in ("apple", "bank"):
        page.click(f"[data-example={word}]")
        page.get_by_text(f"“{word}” in").wait_for()
        assert cosines(page) == pytest.approx(expected(minilm(), word, EXAMPLES[word], 6), abs=6e-4)
    page.fill("#context-word", "river")
    page.click("#context-go")
    page.wait_for_selector("#said.bad")
    assert "regard look MODEL" in page.locator("#said").inner_text()


def test_a_sentence_without_the_word_is_named(served, browser):
    page = browser.new_page()  # a browser logs what is refused, for which `opened` would fail
    page.goto(served(minilm(), "MiniLM"))
    page.click("#tab-context")
    page.wait_for_selector("#context-cosines")
    page.fill("#context-sentences", "An apple.\nA pear.")
    page.click("#context-go")
    page.wait_for_selector("#said.bad")
    said = page.locator("#said").inner_text()
    page.close()
    assert "sentence:2: the word 'apple' is not in it 'A pear.'" in said
