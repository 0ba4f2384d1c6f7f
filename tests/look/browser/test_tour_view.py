"""The tour, in a browser: every step, with the numbers of the model."""

import pytest
import torch

from regard.look.explorer.explorer import Explorer
from tests.look.browser.conftest import NARROW, WIDE, until
from tests.look.browser.models import minilm, translator
from tests.look.test_explorer import numbers


def vector(page, name: str) -> list[float]:
    """The first numbers of a vector that a step shows."""
    text = page.locator(f'.vector[data-name="{name}"] p').inner_text()
    return [float(each) for each in text.removesuffix(", …").split(", ")]


def chart(page) -> list[float]:
    return page.eval_on_selector_all(
        ".chart tr td:nth-child(2)", "cells => cells.map(cell => Number(cell.textContent))"
    )


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_sentence_goes_through_minilm(opened, served, picture, width):
    page = opened(served(minilm(), "MiniLM"), "tour", width=width)
    page.wait_for_selector("#step h2")
    page.locator(".token").nth(2).click()
    until(page, "document.querySelectorAll('.token')[2].getAttribute('aria-pressed') === 'true'")
    seen = Explorer(minilm()).traced(page.evaluate("state.text")).trace
    page.click("#next")
    assert vector(page, "x") == pytest.approx(seen.inputs()[2, :6].tolist(), abs=6e-4)
    picture(page, "tour")
    page.click("#next")
    head = int(seen.weights(layer=0)[:, 2].max(dim=-1).values.argmax())
    assert vector(page, "q") == pytest.approx(seen.queries(layer=0, head=head)[2, :6].tolist(), abs=6e-4)
    page.click("#next")
    weights = seen.weights(layer=0, head=head)[2].sort(descending=True).values[:6]
    shown = page.eval_on_selector_all(
        ".chart tr td:nth-child(2)", "cells => cells.map(c => Number(c.textContent))"
    )
    assert shown == pytest.approx(weights.tolist(), abs=6e-4)
    page.click("#next")
    z = seen.weights(layer=0, head=head)[2] @ seen.values(layer=0, head=head)
    assert vector(page, "z") == pytest.approx(z[:6].tolist(), abs=6e-4)
    page.click("#next")
    page.click("#next")
    assert vector(page, "x") == pytest.approx(seen.stream(layer=0)[2, :6].tolist(), abs=6e-4)
    page.click("#next")
    page.click("#next")
    expected = minilm().embed(page.evaluate("state.text"))
    assert vector(page, "s") == pytest.approx(expected[:6].tolist(), abs=6e-4)
    assert page.locator("#next").is_disabled()


def test_the_stream_between_is_what_the_layer_has_there():
    """Attention's part of a layer, computed once more from its parts."""
    steps = Explorer(minilm()).ask("tour", {"text": "A small test of the tour.", "token": 3})["steps"]
    [step] = [each for each in steps if each["title"] == "Added to what was there"]
    seen = Explorer(minilm()).traced("A small test of the tour.").trace
    layer = minilm().reader.model.encoder.body.each[0]
    mixed = torch.einsum("hqk,hkd->qhd", seen.weights(layer=0), seen.values(layer=0))
    with torch.no_grad():
        expected = layer.attention_residual(seen.inputs(), lambda _: layer.attention.merge(mixed))[3]
    assert numbers(step["shows"][0]["values"]) == pytest.approx(expected.numpy(), abs=1e-4)


def test_a_translation_is_toured_to_its_next_word(opened, served):
    page = opened(served(translator(), "copier", "garden bridge window"), "tour")
    page.wait_for_selector("#step .tokens")
    page.locator(".stations button").last.click()
    seen = Explorer(translator()).traced("garden bridge window")
    step = (len(seen.written) - 1) // 2
    chances = seen.trace.logits("decoder")[step].softmax(dim=-1).sort(descending=True).values[:6]
    until(page, "document.querySelector('#step h2').textContent.includes('vocabulary')")
    shown = page.eval_on_selector_all(
        ".chart tr td:nth-child(2)", "cells => cells.map(c => Number(c.textContent))"
    )
    assert shown == pytest.approx(chances.tolist(), abs=6e-4)
