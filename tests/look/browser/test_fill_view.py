"""Fill, in a browser: words are hidden, and candidates put in."""

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from tests.look.browser import town
from tests.look.browser.conftest import NARROW, WIDE

pytestmark = pytest.mark.usefixtures("unchecked")  # small models learn first
TEXT = "Ann Lee likes the lovely garden in New York because it is old."


def candidates(page, mask: int = 1) -> list[str]:
    """As words; those that join the one before have a sign."""
    return [text.removeprefix("…") for text in page.locator(f"#mask-{mask} button").all_inner_texts()]


def fill(page, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_words_are_hidden_and_candidates_put_in(opened, served, picture, width):
    task = town.filler()
    page = opened(served(task, "town"), "fill", width=width)
    fill(page, TEXT)
    page.get_by_role("button", name="garden", exact=True).click()
    page.wait_for_selector("#mask-1")
    masked = TEXT.replace("garden", "[MASK]")
    assert page.input_value("#text") == masked
    [wanted] = task.fill(masked, top=10).candidates
    assert candidates(page) == [each.word for each in wanted]
    shares = page.locator("#mask-1 td.number").all_inner_texts()
    assert float(shares[0].split()[0]) == pytest.approx(100 * wanted[0].probability, abs=0.51)
    page.get_by_role("button", name="New", exact=True).first.click()
    page.wait_for_selector("#mask-2")
    both = masked.replace("New", "[MASK]")
    assert [candidates(page, 1), candidates(page, 2)] == [
        [each.word for each in found] for found in task.fill(both, top=10).candidates
    ]
    picture(page, "fill")
    third = task.fill(both, top=10).candidates[1][2]
    page.locator("#mask-2 button").nth(2).click()
    page.wait_for_selector("#mask-2", state="detached")
    assert page.input_value("#text") == third.text


def test_the_way_back_is_kept(opened, served):
    task = town.filler()
    page = opened(served(task, "town"), "fill")
    both = TEXT.replace("garden", "[MASK]").replace("New", "[MASK]")
    fill(page, both)
    page.click("#fill-all")
    page.wait_for_selector("text=Nothing is hidden yet")
    assert page.input_value("#text") == task.fill(both).text
    page.click("#undo")
    page.wait_for_selector("#mask-2")
    assert page.input_value("#text") == both
    page.click("#tab-heads")
    assert page.input_value("#text") == both  # the text of all views


def test_markup_and_emoji_stay_what_they_are(opened, served):
    page = opened(served(town.filler(), "town"), "fill", width=NARROW)
    text = "🙂 <script>alert(1)</script> " + "x" * 90 + " likes the garden."
    fill(page, text)
    page.wait_for_selector("#parts >> text=script")
    page.get_by_role("button", name="likes", exact=True).click()
    page.wait_for_selector("#mask-1")
    assert page.input_value("#text") == text.replace("likes", "[MASK]")


def test_what_is_no_text_is_refused_in_words(browser, served):
    page = browser.new_page()
    page.goto(served(town.filler(), "town"))
    page.wait_for_selector("#parts button")
    fill(page, " ")
    page.wait_for_selector("#said.bad")
    assert page.inner_text("#said") == "there is no text to read"
    page.close()


def test_a_saved_page_hides_any_word(opened, tmp_path):
    explorer = Explorer(town.filler(), "town")
    path = tmp_path / "page.html"
    path.write_text(page_of(record(explorer, [(TEXT, None, None)])), "utf-8")
    page = opened(path.as_uri(), "fill")
    page.get_by_role("button", name="garden", exact=True).click()
    page.wait_for_selector("#mask-1")
    assert candidates(page)[0] == explorer.task.fill(TEXT.replace("garden", "[MASK]")).candidates[0][0].word
    page.click("#undo")
    page.wait_for_selector("text=Nothing is hidden yet")
    page.click("#tab-heads")
    page.wait_for_selector("#readout h3")
    assert page.inner_text("#said") == ""
