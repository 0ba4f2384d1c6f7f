"""Translating in a browser: typing, pointing at words, other ways, the beam; live and saved."""

import json
import math
from functools import cache

import pytest

from regard.decode import DecodeConfig
from regard.look.explorer.explorer import Explorer
from regard.look.explorer.translation import asked
from regard.look.page import key
from regard.look.page import page as whole_page
from regard.tasks.translation.translator import Translator
from tests.look.browser.conftest import NARROW, WIDE, until
from tests.look.browser.models import demo
from tests.tasks import copying

pytestmark = pytest.mark.usefixtures("unchecked")
TEXT = "silver bridge summer candle"
SHORT = "mirror"
ROOM = 160
"""Tokens: the text that a page begins with must fit."""
BRIEF = DecodeConfig(maximum=24)


@cache
def translator() -> Translator:
    """It has learned to copy."""
    own = copying.copier()
    return Translator(own.model, own.tokenizer, longest=ROOM, decoding=BRIEF)


@cache
def answered(question: str, **given):
    return Explorer(translator()).ask(question, given)


def begin(opened, served, text=TEXT, **how):
    page = opened(served(translator(), "copier"), "translate", **how)
    page.fill("#text", text)
    settled(page, text)
    return page


def settled(page, text):
    """The page shows the translation of this text, and waits for nothing."""
    until(
        page,
        f"""(text => {{
            const first = document.querySelector('#source .name');
            const busy = document.querySelector('[aria-busy]');
            return Boolean(state.text === text && first && !busy && text.startsWith(first.textContent));
        }})({json.dumps(text)})""",
    )


def words(page, side):
    return page.locator(f"#{side} .name").all_inner_texts()


def listed(page):
    """The readout's words and weights."""
    return [
        (row.locator("td").nth(0).inner_text(), float(row.locator("td").nth(1).inner_text()))
        for row in page.locator("#aligned tr").all()
    ]


def aligned(text):
    """[target, source] by the model itself, whose words are those that white space separates."""
    return translator().align(text, answered("translate", text=text)["best"][0]["text"]).weights


def test_the_translation_appears_while_typing(opened, served, picture):
    page = opened(served(translator(), "copier"), "translate")
    page.fill("#text", "")
    page.wait_for_selector("text=The translation will appear here.")
    page.locator("#text").press_sequentially("silver bridge")
    settled(page, "silver bridge")
    assert words(page, "target") == answered("translate", text="silver bridge")["best"][0]["text"].split()
    page.locator("#text").press_sequentially(" summer candle")
    page.keyboard.press("Enter")
    settled(page, TEXT)
    best = answered("translate", text=TEXT)["best"]
    assert words(page, "source") == TEXT.split()
    assert words(page, "target") == best[0]["text"].split()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#best tbody tr").all()]
    assert [row[1].removeprefix("★ ").split() for row in rows] == [each["text"].split() for each in best]
    assert [float(row[2]) for row in rows] == pytest.approx([each["score"] for each in best], abs=6e-4)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_word_lights_up_what_it_came_from_and_what_became_of_it(opened, served, picture, width):
    page = begin(opened, served, width=width)
    weights = aligned(TEXT)
    page.locator("#target .tr-word").nth(1).hover()
    heavy = {word: weight for word, weight in zip(TEXT.split(), weights[1], strict=True) if weight >= 0.005}
    assert dict(listed(page)) == pytest.approx(heavy, abs=2e-3)
    for number, weight in enumerate(weights[1]):
        shown = page.locator("#source .weight").nth(number).inner_text().strip()
        assert shown == (f"{round(100 * weight)}%" if weight >= 0.01 else "")
    page.locator("#source .tr-word").nth(2).hover()
    column = sorted(weights[:, 2], reverse=True)
    heavy = [weight for weight in column if weight >= 0.005]
    assert [weight for _, weight in listed(page)] == pytest.approx(heavy, abs=2e-3)
    assert page.locator("#target .tr-word.lit").count() == sum(weight >= 0.01 for weight in column)
    assert page.locator("#source .tr-word.lit").count() == 0
    page.locator("#target .tr-word").nth(1).click()
    page.wait_for_selector("button.tr-other")
    picture(page, "translate")


def test_words_are_reached_by_keys(opened, served):
    page = begin(opened, served)
    page.locator("#target .tr-word").nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#aligned h3").inner_text() == "“bridge” came from"
    page.keyboard.press("ArrowUp")
    nearest = TEXT.split()[int(aligned(TEXT)[1].argmax())]
    assert page.locator("#aligned h3").inner_text() == f"“{nearest}” was looked at for"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.word") == "3"


def test_an_answer_that_comes_too_late_is_dropped(opened, served):
    page = opened(served(translator(), "copier"), "translate")
    held = []

    def hold(route):
        if json.loads(route.request.post_data)["text"] == "harbour":
            held.append(route)
        else:
            route.fallback()

    page.route("**/ask/translate", hold)
    page.fill("#text", "harbour")
    with page.expect_request("**/ask/translate"):
        page.keyboard.press("Enter")
    page.fill("#text", TEXT)
    settled(page, TEXT)
    with page.expect_response("**/ask/translate"):
        held[0].fallback()
    page.wait_for_timeout(50)
    assert words(page, "source") == TEXT.split()


def test_another_way_is_taken_and_left_again(opened, served, picture):
    page = begin(opened, served)
    page.locator("#target .tr-word").nth(2).click()
    page.wait_for_selector("button.tr-other")
    others = answered("alternatives", text=TEXT, word=2)["others"]
    texts = page.locator("button.tr-other .whole").all_inner_texts()
    assert [text.removesuffix(" (unfinished)") for text in texts] == [
        each["before"] + each["word"] + each["after"] for each in others
    ]
    assert page.locator("button.tr-other b").all_inner_texts() == [each["word"] for each in others]
    page.locator("button.tr-other").nth(1).click()
    page.wait_for_selector("#back")
    found = Explorer(translator()).ask("translate", {"text": TEXT, "prefix": others[1]["prefix"]})
    assert words(page, "target") == [each["word"] for each in found["target"]["words"]]
    assert page.locator(".tr-word.chosen .name").inner_text() == others[1]["word"]
    assert page.locator(".tr-node.forced").count() == len(others[1]["prefix"])
    assert page.evaluate("document.activeElement.id") == "back"

    page.locator("#target .tr-word").last.click()
    page.wait_for_selector("button.tr-other")
    page.locator("button.tr-other").first.click()
    page.locator("#step-back").click()
    until(page, "translating.choices.length === 1 && !document.querySelector('#step-back')")
    page.locator("#back").click()
    page.wait_for_selector("#back", state="detached")
    assert words(page, "target") == answered("translate", text=TEXT)["best"][0]["text"].split()


def test_other_ways_do_not_outlive_their_text(opened, served):
    page = begin(opened, served)
    page.locator("#target .tr-word").nth(0).click()
    page.locator("button.tr-other").first.click()
    page.wait_for_selector("#back")
    page.click("#tab-heads")
    page.click("#tab-translate")
    page.wait_for_selector("#back")
    page.fill("#text", SHORT)
    settled(page, SHORT)
    assert page.locator("#back").count() == 0


@pytest.mark.parametrize("beam", [1, 5])
def test_the_beam_is_a_tree_with_its_scores(opened, served, picture, beam):
    page = begin(opened, served)
    if beam == 1:
        page.locator("#beam").fill("1")
        page.wait_for_selector("text=Greedy search")
    found = Explorer(translator()).ask("translate", {"text": TEXT, "beam": beam})
    nodes = found["tree"]
    assert page.locator(".tr-node").count() == len(nodes)
    [last] = [number for number, node in enumerate(nodes) if node.get("place") == 0]
    assert page.locator(".tr-node.best").count() == nodes[last]["time"] + 1
    weight = page.locator(".tr-node.best").first.evaluate("node => getComputedStyle(node).fontWeight")
    assert weight == "600"
    page.locator(f'[data-node="{last}"]').hover()
    said = page.locator("#node").inner_text()
    assert f"“{found['best'][0]['text']}” ends" in said
    assert f"(log {nodes[last]['step']:.3f}); total {nodes[last]['total']:.3f}; number 1 of the list" in said
    assert page.locator(".tr-node.lit").count() == nodes[last]["time"] + 1

    page.locator('[data-node="0"]').focus()
    page.keyboard.press("ArrowRight")
    at = page.locator(".tr-node:focus").get_attribute("data-node")
    assert nodes[int(at)]["parent"] == 0
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tr-node:focus").get_attribute("data-node") == "0"
    if beam > 1:
        page.keyboard.press("ArrowDown")
        assert page.locator(".tr-node:focus").get_attribute("data-node") == "1"
        share = math.exp(nodes[1]["step"])
        assert ("below" in page.locator("#node").inner_text()) == (share < 1e-5)


def test_a_long_beam_scrolls_in_its_own_box(opened, served, picture):
    page = begin(opened, served, width=NARROW)
    room = page.locator(".tr-beam").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert room[0] > room[1]
    page.locator('[data-node="0"]').focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert page.locator(".tr-beam").evaluate("box => box.scrollLeft") > 0


def test_what_cannot_be_translated_is_said(browser, served):
    page = browser.new_page()  # the browser logs what is refused, which `opened` would not have
    page.goto(served(translator(), "copier"))
    page.click("#tab-translate")
    page.fill("#text", "harbour " * ROOM)
    page.wait_for_selector("#said.bad")
    assert "at most: translate it sentence by sentence" in page.locator("#said").inner_text()
    assert page.locator("#target").count() == 0
    page.fill("#text", TEXT)
    settled(page, TEXT)
    assert page.locator("#said").inner_text() == ""
    page.close()


def test_markup_and_endless_words_stay_text(opened, served):
    text = "<b>&lt;</b>" + "harbour" * 20
    page = begin(opened, served, text=text, width=NARROW)
    assert "".join(page.locator("#source .name, #source .gap").all_inner_texts()) == text
    assert page.locator("#source b").count() == 0


def test_without_attention_the_page_says_so(opened, served):
    blind = copying.translator("lstm, no attention", longest=ROOM, decoding=BRIEF)
    page = opened(served(blind, "blind"), "translate")
    page.fill("#text", TEXT)
    settled(page, TEXT)
    assert "has no attention" in page.locator("#aligned").inner_text()
    page.locator("#source .tr-word").nth(1).hover()
    assert "has no attention" in page.locator("#aligned").inner_text()
    assert page.locator(".tr-ribbons path").count() == 0
    wanted = Explorer(blind).ask("translate", {"text": TEXT})
    assert words(page, "target") == [each["word"] for each in wanted["target"]["words"]]


def test_the_language_is_chosen(opened, served):
    several = copying.translator("transformer, sinusoidal", "de", "fr", longest=ROOM, decoding=BRIEF)
    page = opened(served(several, "several"), "translate")
    page.fill("#text", TEXT)
    settled(page, TEXT)
    with page.expect_response("**/ask/translate"):
        page.locator("#to").select_option("fr")
    page.wait_for_selector("#target[lang=fr]")
    wanted = Explorer(several).ask("translate", {"text": TEXT, "to": "fr"})
    assert words(page, "target") == [each["word"] for each in wanted["target"]["words"]]


def test_a_saved_page_answers_by_itself(opened, tmp_path):
    explorer = Explorer(translator(), "copier")
    two = "silver bridge"
    texts = [(two, None, None), (SHORT, None, None)]
    saved = {key("about", {}): explorer.ask("about", {})}
    for text in texts:
        saved |= {key(name, given): explorer.ask(name, given) for name, given in asked(explorer, *text)}
    saved["texts"] = {"texts": [{"text": text, "second": second, "to": to} for text, second, to in texts]}
    path = tmp_path / "saved.html"
    path.write_text(whole_page(saved), encoding="utf-8")
    page = opened(path.as_uri(), "translate")
    settled(page, two)
    assert page.locator("#text").count() == 0
    assert page.locator("#beam").is_disabled()
    page.locator("#target .tr-word").nth(1).click()
    page.locator("button.tr-other").first.click()
    page.wait_for_selector("#back")
    page.locator("#target .tr-word").nth(1).click()
    page.wait_for_selector("#others >> text=This page was saved")
    page.locator("#back").click()
    page.wait_for_selector("#back", state="detached")
    assert words(page, "target") == answered("translate", text=two)["best"][0]["text"].split()
    page.locator("#texts").select_option(label=SHORT)
    settled(page, SHORT)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_translator_of_the_demo(opened, served, picture, width):
    text = "The small girl sees an old dog."
    own = demo()
    page = opened(served(own, "phrasebook", text), "translate", width=width)
    settled(page, text)
    assert " ".join(words(page, "target")).replace(" .", ".") == own.translate(text).text
    page.locator("#target .name").nth(2).click()
    page.wait_for_selector("h3:has-text('Instead of')")
    until(page, "!document.querySelector('#view').textContent.includes('Looking …')")
    picture(page, "demo")
