"""The page as a whole: saved to a file, long inputs, refusals, and what looks like markup."""

import json
from urllib.parse import quote

import pytest
import torch

from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from regard.models.decoder import Decoder
from regard.settings.presets import gpt
from regard.tasks.language.generator import Generator
from tests.look.browser.conftest import until
from tests.look.browser.models import minilm, translator
from tests.tasks import copying

WORDS = ["harbour", "lantern", "mirror", "garden", "silver"]


def language_model(layers: int, heads: int, d_model: int, longest: int) -> Generator:
    torch.manual_seed(0)
    own = copying.tokenizer()
    config = gpt(len(own), layers=layers, d_model=d_model, heads=heads, d_ff=4 * d_model, longest=longest)
    return Generator(Decoder(config).eval(), own, longest=longest)


def test_a_saved_page_opens_from_a_disk(opened, tmp_path):
    explorer = Explorer(translator(), "copier")
    path = tmp_path / "page.html"
    path.write_text(page_of(record(explorer, [("garden bridge window", None, None)])), "utf-8")
    page = opened(path.as_uri(), "heads")
    page.wait_for_selector("#readout h3")
    weights = explorer.traced("garden bridge window").trace.weights("encoder", layer=0, head=0)[0]
    shown = page.eval_on_selector_all("#readout td.number", "cells => cells.map(c => Number(c.textContent))")
    assert shown == pytest.approx(weights.sort(descending=True).values[: len(shown)].tolist(), abs=6e-4)
    for view in page.eval_on_selector_all("#tabs button", "tabs => tabs.map(t => t.id)"):
        page.click(f"#{view}")
        until(page, "document.querySelector('#said').textContent !== 'Reading …'")
        assert page.inner_text("#said") == ""
        assert page.inner_text("[data-view]").strip()


def test_a_page_of_twelve_layers_and_heads_stays_small(tmp_path):
    """40 tokens of a model as deep and as wide as GPT-2's smallest: under 3 MB."""
    explorer = Explorer(language_model(12, 12, 768, 64))
    words = " ".join(WORDS * 12)
    while len(explorer.tokenizer.encode(words)) > 40:
        words = words.rsplit(" ", 1)[0]
    assert len(explorer.ask("read", {"text": words})["tokens"]["decoder"]["tokens"]) in (40, 41)
    size = len(page_of(record(explorer, [(words, None, None)])).encode())
    assert size < 3_000_000


@pytest.mark.long
def test_a_thousand_tokens_are_drawn_layer_by_layer(opened, served):
    """How quickly is a matter of `regard bench looking`."""
    model = language_model(12, 12, 192, 1024)
    page = opened(served(model, "long", "garden bridge"), "heads")
    words = WORDS * 200
    while len(model.tokenizer.encode(" ".join(words))) > 1000:
        words.pop()
    page.wait_for_selector("#readout h3")
    seen = Explorer(model).traced(" ".join(words)).trace  # before the server looks at the same model
    page.fill("#text", " ".join(words))
    page.click("#go")
    for layer in (0, 5, 11):
        page.locator("#layer").fill(str(layer + 1))
        until(page, f"document.querySelector('.stage')?.dataset.drawn === 'decoder {layer} 0'", seconds=60)
        until(page, "document.querySelector('#said').textContent === ''", seconds=60)
        page.locator(".stage").focus()
        page.keyboard.press("PageDown")
        query = page.evaluate("state.query")
        assert query == 20 * ((0, 5, 11).index(layer) + 1)
        expected = seen.weights(layer=layer, head=0)[query].sort(descending=True).values[:8]
        shown = page.eval_on_selector_all(
            "#readout td.number", "cells => cells.map(c => Number(c.textContent))"
        )
        assert shown == pytest.approx(expected[: len(shown)].tolist(), abs=6e-4)


def test_what_is_refused_is_said_on_the_page(browser, served):
    page = browser.new_page()
    page.goto(served(minilm(), "MiniLM"))
    page.wait_for_selector("#readout h3")
    page.fill("#text", "word " * 600)
    page.click("#go")
    until(page, "document.querySelector('#said').textContent.includes('256 at most')")
    assert page.locator("#said.bad").count() == 1
    page.fill("#text", "A shorter one.")
    page.click("#go")
    until(page, "document.querySelector('#said').textContent === ''")
    page.close()


def test_an_answer_that_comes_late_is_not_drawn_over_a_newer_one(opened, served):
    """The first text's answers are held back until those of the second are drawn."""
    page = opened(served(minilm(), "MiniLM"))
    page.wait_for_selector("#readout h3")
    page.evaluate(
        "const first = fromServer; const held = new Promise(done => { window.release = done; });"
        "fromServer = async (question, given) => { const found = await first(question, given);"
        " if (given.text === 'early') { await held; window.late = true; } return found; }; 0"
    )
    page.click("#tab-neuron")
    for text in ("early", "a later one"):
        page.fill("#text", text)
        page.press("#text", "Enter")
    until(page, "document.querySelector('#queries')?.textContent.includes('later')")
    page.evaluate("release()")
    until(page, "window.late === true")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert "later" in page.inner_text("#queries")
    assert page.inner_text("#said") == ""


def test_the_focus_outlasts_a_redraw(opened, served):
    page = opened(served(language_model(2, 2, 32, 64), "small", "garden bridge"), "continue")
    page.wait_for_selector("#candidates button")
    page.focus("#go-on")
    page.keyboard.press("Enter")
    until(page, "going.ids.length > 0")
    assert page.evaluate("document.activeElement.id") == "go-on"
    before = page.evaluate("going.ids.length")
    page.focus("#candidates button")
    page.keyboard.press("Enter")
    until(page, f"going.ids.length === {before + 1}")
    assert page.evaluate("document.activeElement.closest('#candidates') !== null")
    page.fill("#text", "garden bridge window")
    page.evaluate("window.old = document.querySelector('#text'); 0")
    page.set_viewport_size({"width": 700, "height": 900})
    until(page, "!window.old.isConnected")
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.input_value("#text") == "garden bridge window"


def test_an_odd_address_does_no_harm_and_another_is_followed(opened, served):
    address = served(minilm(), "MiniLM")

    def remembering(**kept: object) -> str:
        return f"{address}#{quote(json.dumps(kept))}"

    odd = {"place": "constructor", "layer": 0.5, "head": -3.5, "second": {"a": 1}, "to": 5, "mode": "x"}
    page = opened(address)
    page.goto(remembering(view="heads", **odd))
    page.reload()
    page.wait_for_selector("#readout h3")
    assert page.get_attribute(".stage", "data-drawn") == "encoder 0 0"
    page.goto(remembering(view="neuron", text="Another text."))
    page.wait_for_selector("#queries button")
    assert page.input_value("#text") == "Another text."


MARKUP = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


def test_markup_in_a_text_stays_text(opened, served):
    page = opened(served(minilm(), "<b onclick='window.broken = 1'>MiniLM</b>"), None)
    own = Explorer(minilm()).traced(MARKUP).read.tokens
    for view in page.eval_on_selector_all("#tabs button", "tabs => tabs.map(t => t.id)"):
        page.click(f"#{view}")
        if page.locator("#text").count():
            page.fill("#text", MARKUP)
            page.click("#go")
            until(page, "document.querySelector('#said').textContent !== 'Reading …'")
            assert page.inner_text("#said") == ""
    page.click("#tab-neuron")
    page.wait_for_selector("#queries button")
    shown = page.eval_on_selector_all("#queries button", "all => all.map(each => each.textContent)")
    assert shown == [*own]
    assert page.evaluate("window.broken") is None
    assert page.locator("img, main script").count() == 0
