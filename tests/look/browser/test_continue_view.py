"""Continue, in a browser: tokens with their probabilities, and other ways to go on."""

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from tests.look.browser import town
from tests.look.browser.conftest import NARROW, WIDE

pytestmark = pytest.mark.usefixtures("unchecked")  # small models learn first
TEXT = "Tom finds the"


def begin(opened, served, **settings):
    page = opened(served(town.language_model(), "town"), "continue", **settings)
    page.fill("#text", TEXT)
    page.press("#text", "Enter")
    page.wait_for_selector("#written [data-place='1'] >> text=Tom")
    return page


def ask(**given):
    return Explorer(town.language_model()).ask("complete", {"text": TEXT, **given})


def tokens(page) -> list[str]:
    return page.locator("#written .chip > span").all_text_contents()


def candidates(page) -> list[int]:
    return [int(row.get_attribute("data-id")) for row in page.locator("#candidates tr").all()]


def ids_at(answer, place: int) -> list[int]:
    return [answer["ids"][number] for number in answer["likely"][place]]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_text_goes_on_and_another_way_is_taken(opened, served, picture, width):
    page = begin(opened, served, width=width)
    first = ask()
    assert tokens(page) == [first["names"][number] for number in first["tokens"]]
    assert candidates(page) == ids_at(first, len(first["tokens"]))

    second = candidates(page)[1]
    page.locator("#candidates button").nth(1).click()
    page.wait_for_selector("#whole")
    answer = ask(ids=[second])
    assert page.inner_text("#whole") == answer["text"]
    notes = page.locator("#written small").all_inner_texts()
    assert len(notes) == len(answer["tokens"]) - 1

    page.fill("#go-count", "4")
    page.press("#go-count", "Tab")
    page.click("#go-on")
    page.wait_for_selector(f"[data-place='{answer['prompt'] + 3}']")
    longer = ask(ids=[second], count=4, method="greedy")
    assert page.inner_text("#whole") == longer["text"]

    place = longer["prompt"] + 1
    page.click(f'[data-place="{place}"]')
    page.wait_for_selector("#leave")
    assert candidates(page) == ids_at(longer, place)
    picture(page, "continue")
    other = candidates(page)[2]
    page.locator("#candidates button").nth(2).click()
    page.wait_for_selector("#leave", state="detached")
    assert page.inner_text("#whole") == ask(ids=[second, other])["text"]

    page.click("#undo")
    assert page.inner_text("#whole") == longer["text"]
    page.click("#over")
    page.wait_for_selector("#whole", state="detached")
    assert tokens(page) == [first["names"][number] for number in first["tokens"]]


def test_a_token_of_the_text_can_be_another(opened, served):
    page = begin(opened, served)
    page.click('[data-place="2"]')
    page.wait_for_selector("#leave")
    other = candidates(page)[1]
    page.locator("#candidates button").nth(1).click()
    page.wait_for_selector("#whole")
    assert page.inner_text("#whole") == ask(kept=1, ids=[other])["text"]


def test_a_sample_is_the_same_for_the_same_seed(opened, served):
    page = begin(opened, served)
    page.select_option("#go-method", "sample")
    for name, value in (("temperature", "1.5"), ("top_p", "1"), ("seed", "7"), ("count", "12")):
        page.fill(f"#go-{name}", value)
        page.press(f"#go-{name}", "Tab")
    page.click("#go-on")
    page.wait_for_selector("#whole")
    wanted = ask(count=12, method="sample", temperature=1.5, top_p=1, seed=7)
    assert page.inner_text("#whole") == wanted["text"]


def test_a_full_context_is_refused_in_words(browser, served):
    page = browser.new_page()
    page.goto(served(town.language_model(), "town"))
    page.fill("#text", TEXT + " the" * 57)
    page.press("#text", "Enter")
    page.wait_for_selector("[data-place='60']")
    page.fill("#go-count", "3")
    page.press("#go-count", "Tab")
    page.click("#go-on")
    page.wait_for_selector("text=The context is full.")
    page.click("#go-on")
    page.wait_for_selector("#said.bad")
    assert "the context is full: 64 tokens" in page.inner_text("#said")
    page.close()


def test_arrows_move_along_the_tokens(opened, served):
    page = begin(opened, served)
    page.focus('[data-place="1"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#leave")
    assert page.get_attribute('#written [aria-pressed="true"]', "data-place") == "2"
    assert page.evaluate("document.activeElement.dataset.place") == "2"


def test_a_saved_page_goes_on(opened, tmp_path):
    explorer = Explorer(town.language_model(), "town")
    path = tmp_path / "page.html"
    path.write_text(page_of(record(explorer, [(TEXT, None, None)])), "utf-8")
    page = opened(path.as_uri(), "continue")
    page.wait_for_selector("#candidates tr")
    page.click("#go-on")
    page.wait_for_selector("#whole")
    assert page.inner_text("#whole") == ask(count=20)["text"]
    page.click("#theme")
    page.wait_for_selector("html.dark #whole")
    assert page.inner_text("#said") == ""
