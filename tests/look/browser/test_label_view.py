"""Label, in a browser: what a classifier says of a text, and a tagger of its words."""

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from regard.look.words import merge_words
from tests.look.browser import town
from tests.look.browser.conftest import NARROW, WIDE, settled

pytestmark = pytest.mark.usefixtures("unchecked")  # small models learn first
TEXT = "Ann Lee likes the lovely garden in New York because it is old."


def read(page, text: str = TEXT) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")
    settled(page)


def shares(page, place: str) -> list[float]:
    """Numbers under words; small ones are rounded to a tenth of a percent."""
    found = page.locator(f"{place} [data-words] small").all_inner_texts()
    return [0.0 if text.startswith("<") else float(text.split()[0]) / 100 for text in found]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_classifier_says_what_it_thinks_and_where_it_looked(opened, served, picture, width):
    task = town.classifier()
    page = opened(served(task, "town"), "label", width=width)
    read(page)
    page.wait_for_selector("#look [data-words] >> text=Lee")
    found = task.classify(TEXT)
    assert page.inner_text("#verdict h3") == found.label
    assert page.locator("#labels td:first-child").all_inner_texts() == [*found.probabilities]
    seen = Explorer(task).traced(TEXT)
    for layer in (1, 0):
        page.select_option("#of", str(layer))
        rows = merge_words(seen.trace.weights(layer=layer).mean(dim=0), seen.read)
        assert shares(page, "#look") == pytest.approx(rows.weights[0].tolist(), abs=5.1e-3)
    picture(page, "label")
    page.uncheck("#specials")
    assert page.locator("#look [data-words] > *").count() == len(seen.read.words)
    assert page.locator("#look .special").count() == 0


def test_a_second_text_is_read_too(opened, served):
    task = town.classifier()
    page = opened(served(task, "town"), "label")
    page.fill("#second", "the cold river")
    read(page)
    page.wait_for_selector("#look [data-words] >> text=river")
    chance = task.classify(TEXT, "the cold river").value
    assert float(page.locator("#labels td.number").first.inner_text().split()[0]) == pytest.approx(
        100 * chance, abs=0.51
    )


def test_a_pool_that_attends_is_shown_first(opened, served):
    task = town.classifier("attention")
    page = opened(served(task, "town"), "label")
    read(page)
    page.wait_for_selector("#look [data-words] >> text=Lee")
    assert page.inner_text("#of option:checked") == "the pool"
    seen = Explorer(task).traced(TEXT)
    weights = seen.trace.weights("pool", layer=0)[0, 0]
    merged = [float(weights[places].sum()) for _, places in seen.read.units("keep")]
    assert shares(page, "#look") == pytest.approx(merged, abs=5.1e-3)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_tagger_groups_words_and_tells_all_tags_of_one(opened, served, picture, width):
    task = town.tagger()
    page = opened(served(task, "town"), "label", width=width)
    assert page.locator("#second").count() == 0
    read(page)
    page.wait_for_selector("[data-word='1'] >> text=Lee")
    found = task.tag(TEXT)
    spans = [
        (span.get_attribute("data-span"), " ".join(span.locator("button > span").all_inner_texts()))
        for span in page.locator(".entity").all()
    ]
    assert spans == [("PER", "Ann Lee"), ("LOC", "New York")]
    assert [note.split()[0] for note in page.locator("[data-word] small").all_inner_texts()] == [*found.tags]
    page.click("[data-word='8']")
    page.wait_for_selector("text=“York”")
    assert page.locator("#labels td:first-child").first.inner_text() == "I-LOC"
    assert page.locator("#labels tr").count() == 5
    page.wait_for_selector("#one [data-words]")
    seen = Explorer(task).traced(TEXT)
    for layer in (1, 0):
        page.fill("#layer", str(layer + 1))
        rows = merge_words(seen.trace.weights(layer=layer).mean(dim=0), seen.read)
        assert shares(page, "#one") == pytest.approx(rows.weights[1 + 8].tolist(), abs=5.1e-3)
    picture(page, "label-tags")


def test_arrows_move_along_tagged_words(opened, served):
    page = opened(served(town.tagger(), "town"), "label")
    read(page)
    page.wait_for_selector("[data-word='1'] >> text=Lee")
    page.focus("[data-word='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=“Lee”")
    assert page.evaluate("document.activeElement.dataset.word") == "1"


def test_saved_pages_have_their_labels(opened, tmp_path):
    path = tmp_path / "tagger.html"
    path.write_text(page_of(record(Explorer(town.tagger(), "town"), [(TEXT, None, None)])), "utf-8")
    page = opened(path.as_uri(), "label")
    page.click("[data-word='8']")
    page.wait_for_selector("#one [data-words]")
    assert page.inner_text("#said") == ""
    path = tmp_path / "classifier.html"
    path.write_text(
        page_of(record(Explorer(town.classifier(), "town"), [(TEXT, "the cold river", None)])), "utf-8"
    )
    page = opened(path.as_uri(), "label")
    page.wait_for_selector("#look [data-words] >> text=river")
    assert page.inner_text("#said") == ""
