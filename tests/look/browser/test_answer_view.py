"""Answer, in a browser: where a text answers a question."""

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.page import page as page_of
from regard.look.page import record
from regard.tasks.answering.answerer import Answerer, open_answerer
from tests.look.browser.conftest import NARROW, WIDE, settled
from tests.tasks.answering import town

pytestmark = pytest.mark.usefixtures("unchecked")  # a small model learns first
CONTEXT = "a red hut and a big dog and a new car"


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Answerer:
    folder = tmp_path_factory.mktemp("town")
    town.train(town.recipe(folder, impossible=True), folder / "model")
    return open_answerer(folder / "model", device="cpu")


def read(page, question: str, context: str = CONTEXT) -> None:
    page.fill("#second", context)
    page.fill("#text", question)
    page.press("#text", "Enter")
    settled(page)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_answer_is_framed_in_its_text(task, opened, served, picture, width):
    page = opened(served(task, "town"), "answer", width=width)
    read(page, "which animal ?")
    page.wait_for_selector("#answer-words >> text=dog")
    assert page.inner_text("#verdict h3") == "“big dog”"
    framed = page.locator('#answer-words [aria-pressed="true"] > span').all_inner_texts()
    assert framed == ["big", "dog"]
    found = task.answer("which animal ?", CONTEXT)
    rows = page.locator("#answers td:first-child").all_inner_texts()
    assert rows == [*(span.text for span in found.spans), "no answer"]
    picture(page, "answer")
    read(page, "which fruit ?")
    page.wait_for_selector("#verdict >> text=The text has no answer")
    assert page.locator('#answer-words [aria-pressed="true"]').count() == 0


def test_without_a_text_the_page_says_what_it_needs(task, opened, served):
    page = opened(served(task, "town"), "answer")
    page.fill("#second", "")
    page.fill("#text", "which animal ?")
    page.press("#text", "Enter")
    page.wait_for_selector("text=Write the text that the question is about")


def test_a_saved_page_answers_by_itself(task, opened, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(record(Explorer(task), [("which animal ?", CONTEXT, None)])), encoding="utf-8")
    page = opened(path.as_uri(), "answer")
    page.wait_for_selector("#answer-words >> text=dog")
    assert page.inner_text("#verdict h3") == "“big dog”"
