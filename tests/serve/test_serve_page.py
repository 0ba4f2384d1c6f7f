"""The page of the service, in a real browser: what it shows is what the Python API returns."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.serve.page import page as page_of
from tests.browsing import NARROW, WIDE, missing, until
from tests.serve.server import Running, serving

needs_browser = pytest.mark.skipif(missing() is not None, reason=missing() or "")
SENTENCE = "Where is the station?"
BAND = "🎺 Ann Leeson met Bob in Rome."


def at(running: Running) -> str:
    return f"{running.url}/"


def translated(page) -> str:
    return page.locator("#translation .words").inner_text()


def write(page, text: str) -> None:
    page.fill("#text", text)
    until(page, f"translating.source === {json.dumps(text)}")


def percent(share: float) -> float:
    return pytest.approx(100 * share, abs=0.51)


def shares(page, table: str) -> list[float]:
    found = page.locator(f"{table} td.number").all_inner_texts()
    return [float(each.removesuffix(" %").removeprefix("<")) for each in found]


# Translate


@needs_browser
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_text_is_translated_as_it_is_typed(server, opened, alone, width):
    page = opened(at(server), "translate", width=width)
    page.locator("#text").press_sequentially(SENTENCE, delay=10)
    until(page, f"translating.source === {json.dumps(SENTENCE)}")
    found = alone("en-de").translate(SENTENCE)
    assert translated(page) == found.text
    assert page.inner_text(".pane:first-child h2") == "English"
    assert page.inner_text(".pane:last-child h2") == "German"
    assert f"confidence {100 * found.confidence:.0f} %" in page.inner_text(".verdict")
    page.fill("#text", "")
    page.wait_for_selector("#translation >> text=will appear here")
    assert page.locator("#ways").inner_text() == ""


@needs_browser
def test_pointing_at_a_word_lights_those_it_belongs_to(server, opened, alone):
    page = opened(at(server), "translate")
    write(page, SENTENCE)
    links = alone("en-de").translate(SENTENCE, align=True).alignment

    def lit(where: str) -> set[int]:
        return {int(each.get_attribute("data-word")) for each in page.locator(f"{where} .lit").all()}

    for _, to in links:
        page.hover(f"#translation [data-word='{to}']")
        assert lit(".mirror") == {source for source, target in links if target == to}
        assert lit("#translation") == {to}
    box = page.locator(".mirror [data-word='0']").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert lit(".mirror") == {0}
    assert lit("#translation") == {target for source, target in links if source == 0}
    page.focus("#translation .word")
    page.keyboard.press("ArrowRight")
    assert lit("#translation") == {1}
    page.focus("#text")
    page.keyboard.press("Control+Home")
    assert lit(".mirror") == {0}


@needs_browser
def test_other_translations_are_a_click_away(server, opened, alone):
    page = opened(at(server), "translate")
    write(page, SENTENCE)
    model = alone("en-de")
    best = page.evaluate("translating.every.map((each) => each.text)")
    assert len(best) == 5
    shown = page.locator(".ways .whole").all_inner_texts()
    assert shown == best[1:]
    page.click("[data-way='1']")
    assert translated(page) == best[1]
    page.click("#back")
    assert translated(page) == best[0]
    page.click("#translation [data-word='0']")
    page.wait_for_selector("text=Instead of “Wo”")
    without = model.translate(SENTENCE, suppressed=["Wo"]).text
    until(page, f"translating.every.some((each) => each.text === {json.dumps(without)})")
    others = page.locator(".ways .whole").all_inner_texts()
    assert others
    assert all(each.split()[:1] != ["Wo"] for each in others)
    page.click("#all")
    assert page.locator(".ways li").count() == 4


@needs_browser
def test_an_answer_that_comes_late_is_not_shown_over_a_newer_one(server, opened):
    page = opened(at(server), "translate")
    page.evaluate(
        "const first = ask; window.held = 0; ask = async (path, given, how) => {"
        " const found = await first(path, given, {});"
        " if (given.texts[0] === 'The dog') { await new Promise((done) => { window.release = done; }); }"
        " return found; }; 0"
    )
    page.fill("#text", "The dog")
    until(page, "typeof window.release === 'function'")
    write(page, "The cat sleeps.")
    newer = translated(page)
    page.evaluate("release(); new Promise((done) => setTimeout(done, 50))")
    assert translated(page) == newer
    assert page.evaluate("translating.source") == "The cat sleeps."


@needs_browser
def test_markup_in_a_text_stays_text(server, opened):
    page = opened(at(server), "translate")
    text = "<img src=x onerror='window.broken = 1'><script>window.broken = 1</script> 🙂"
    write(page, text)
    assert page.inner_text(".mirror").strip("\u200b\n ") == text
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.broken") is None


@needs_browser
def test_the_theme_and_the_tabs_keep_what_was_written(server, opened):
    page = opened(at(server), "translate", dark=True)
    assert page.evaluate("isDark()")
    write(page, SENTENCE)
    before = translated(page)
    page.click("#theme")
    assert not page.evaluate("isDark()")
    page.focus("#tab-translate")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-search"
    page.keyboard.press("ArrowLeft")
    assert page.input_value("#text") == SENTENCE
    assert translated(page) == before


@needs_browser
def test_a_file_is_translated_where_the_service_takes_files(server, opened, tmp_path, alone):
    if server.get("/frontend/settings").status_code != 200:
        pytest.skip("no door that takes files")
    page = opened(at(server), "translate")
    path = tmp_path / "letter.txt"
    path.write_text(f"{SENTENCE}\n", encoding="utf-8")
    page.locator("#document").wait_for(state="attached")
    page.set_input_files("#document", path)
    page.wait_for_selector("#download")
    with page.expect_download() as coming:
        page.click("#download")
    assert coming.value.suggested_filename == "letter_de.txt"
    found = Path(coming.value.path()).read_text(encoding="utf-8")
    assert found.strip() == alone("en-de").translate(SENTENCE).text


# The other views


@needs_browser
def test_lines_are_ranked_by_their_cosine(server, opened, alone, tmp_path):
    lines = ["The cat sat on the mat.", "Stocks fell sharply.", "The river burst its banks."]
    page = opened(at(server), "search", width=NARROW)
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(lines), encoding="utf-8")
    page.set_input_files("#open-lines", path)
    page.fill("#query", "a flood")
    page.wait_for_selector(".hits")
    vectors = alone("minilm").embed(["a flood", *lines])
    cosines = dict(zip(lines, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    ranked = sorted(lines, key=lambda line: -cosines[line])
    assert page.locator(".hit").all_inner_texts() == ranked
    shown = [float(each) for each in page.locator(".hits .score").all_inner_texts()]
    assert shown == pytest.approx([cosines[line] for line in ranked], abs=0.006)
    assert page.locator(".hits li").first.inner_text().endswith(f"line {2 * lines.index(ranked[0]) + 1}")


@needs_browser
def test_what_is_asked_and_what_is_searched_have_their_own_prompts(server, browser):
    page = browser.new_page()
    as_served(page, "minilm", prompts={"query": "asked", "passage": "searched"})
    read: set[tuple[str, ...]] = set()  # who types on asks again

    def embed(route) -> None:
        given = route.request.post_data_json
        read.add((given["prompt"], *given["texts"]))
        route.fulfill(json={"results": [{"vector": [1, 0]} for _ in given["texts"]]})

    page.route("**/v1/embed", embed)
    page.goto(at(server))
    page.click("#tab-search")
    page.fill("#lines", "a ship\na tree")
    page.fill("#query", "a ship")
    page.wait_for_selector(".hits li")
    assert read == {("asked", "a ship"), ("searched", "a ship", "a tree")}
    page.close()


@needs_browser
def test_labels_have_bars_of_their_probabilities(server, opened, alone):
    page = opened(at(server), "classify")
    page.fill("#text", "A moving, funny film.")
    page.wait_for_selector("#labels")
    found = alone("sentiment").classify("A moving, funny film.")
    assert page.inner_text("#labels-found h3") == found.label
    ranked = sorted(found.probabilities.items(), key=lambda item: -item[1])
    assert page.locator("#labels td:first-child").all_inner_texts() == [label for label, _ in ranked]
    assert shares(page, "#labels") == [percent(share) for _, share in ranked]


@needs_browser
def test_names_are_coloured_where_they_stand(server, opened, alone):
    page = opened(at(server), "tag")
    text = "Bob  met Ann Leeson."
    page.fill("#text", text)
    page.wait_for_selector(".tagged-text")
    found = alone("entities").tag(text)
    spans = [" ".join(found.words[span.start : span.end]) for span in found.spans]
    assert spans
    shown = page.locator(".tagged-text .tagged-span").all_inner_texts()
    assert [each.removesuffix("PER").strip() for each in shown] == spans
    words = page.eval_on_selector_all(".tagged-text b", "all => { all.forEach((each) => each.remove()); }")
    assert words is None
    assert page.evaluate("document.querySelector('.tagged-text').textContent") == text


@needs_browser
def test_the_answer_is_marked_in_its_text(server, opened, alone):
    page = opened(at(server), "answer", width=NARROW)
    page.fill("#context", BAND)  # an emoji is one character to the service, and two to a browser
    page.fill("#question", "Who met Bob?")
    page.wait_for_selector("#answers")
    found = alone("answers").answer("Who met Bob?", BAND, n_best=5)
    assert page.inner_text("#context-marked mark") == found.spans[0].text
    assert page.inner_text("#context-marked") == BAND
    page.locator("#answers button").nth(1).click()
    assert page.inner_text("#context-marked mark") == found.spans[1].text


@needs_browser
def test_a_word_is_hidden_and_another_put_in(server, opened, alone):
    page = opened(at(server), "fill")
    page.fill("#text", "The cat sat on the mat.")
    page.get_by_role("button", name="cat", exact=True).click()
    page.wait_for_selector("#mask-1")
    [wanted] = alone("bert").fill("The [MASK] sat on the mat.", top=8).candidates
    assert page.locator("#mask-1 button").all_inner_texts() == [each.word for each in wanted]
    assert shares(page, "#mask-1") == [percent(each.probability) for each in wanted]
    page.locator("#mask-1 button").first.click()
    assert page.input_value("#text") == wanted[0].text


@needs_browser
def test_a_text_is_completed_as_it_is_written(server, opened, alone):
    page = opened(at(server), "complete")
    page.fill("#prompt", "ROMEO: But,")
    page.locator("#temperature").fill("0")
    page.fill("#tokens", "12")
    page.press("#tokens", "Tab")
    page.focus("#prompt")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#on")
    whole = page.evaluate("completing.before + completing.written")
    with server.client() as client:
        asked = {"prompt": "ROMEO: But,", "max_tokens": 12, "temperature": 0}
        wanted = client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    assert whole == f"ROMEO: But,{wanted}"
    assert page.is_disabled("#stop")


# What goes wrong


@needs_browser
def test_what_goes_wrong_is_told_in_its_place(server, browser):
    page = browser.new_page()
    page.goto(at(server))
    page.wait_for_selector("#text")
    busy: list[int] = []

    def answer(route) -> None:
        busy.append(1)
        body = {"error": "too many requests are waiting: try again in 1 s", "status": 429}
        if len(busy) == 1:
            route.fulfill(status=429, headers={"Retry-After": "1"}, json=body)
        else:
            route.continue_()

    page.route("**/v1/translate", answer)
    page.fill("#text", SENTENCE)
    page.wait_for_selector("text=asking again in 1 s")
    until(page, f"translating.source === {json.dumps(SENTENCE)}")
    assert len(busy) == 2
    assert page.locator(".problem").count() == 0
    page.unroute("**/v1/translate")

    page.evaluate("document.querySelector('#text').removeAttribute('maxlength')")
    page.fill("#text", "long " * 30_000)
    page.wait_for_selector(".problem >> text=at most")
    page.route("**/v1/translate", lambda route: route.abort())
    page.fill("#text", "Good morning!")
    page.wait_for_selector(".problem >> text=does not answer")
    page.unroute("**/v1/translate")
    page.click("text=Try again")
    until(page, "translating.source === 'Good morning!'")
    assert page.locator(".problem").count() == 0
    page.close()


@pytest.fixture(scope="module")
def locked(models, tmp_path_factory) -> Iterator[Running]:
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("open-sesame\n", encoding="utf-8")
    served = [f"{name}={models / name}" for name in ("en-de", "minilm", "slow-verse")]
    back = f"de-en={models / 'en-de'}"  # it says so, and translates as ever
    with serving(*served, back, "--look", "--keys", keys) as running:
        yield running


@pytest.fixture
def unlocked(locked, browser):
    page = browser.new_page()
    page.add_init_script("sessionStorage.setItem('regard.key', 'open-sesame')")
    page.goto(at(locked))
    page.wait_for_selector("#tabs button")
    yield page
    page.close()


@needs_browser
def test_a_key_is_asked_for_kept_and_forgotten(locked, browser):
    page = browser.new_page()
    page.goto(at(locked))
    for key, then in (("wrong", "text=not valid here"), ("open-sesame", "#tabs button")):
        page.fill("#key", key)
        page.press("#key", "Enter")
        page.wait_for_selector(then)
    write(page, SENTENCE)
    page.reload()
    page.wait_for_selector("#tabs button")
    page.click("#forget")
    page.wait_for_selector("#key")
    page.close()


@needs_browser
def test_languages_are_chosen_and_swapped(unlocked):
    page = unlocked
    write(page, SENTENCE)
    assert page.locator("#from option").all_inner_texts() == ["English", "German"]
    before = translated(page)
    page.click("#swap")
    until(page, f"translating.source === {json.dumps(before)}")
    assert page.input_value("#text") == before
    assert (page.input_value("#from"), page.inner_text(".pane:last-child h2")) == ("de", "English")
    page.select_option("#from", "en")
    until(page, f"translating.source === {json.dumps(before)}")
    assert page.inner_text(".pane:last-child h2") == "German"


def as_served(page, name: str, **more: object) -> None:
    """The page is told more of a model."""

    def about(route) -> None:
        reply = route.fetch()
        found = reply.json()
        next(each for each in found["models"] if each["name"] == name).update(more)
        route.fulfill(response=reply, json=found)

    page.route("**/v1/about", about)


@needs_browser
def test_a_model_that_is_told_what_it_reads_is_told_what_was_chosen(server, browser):
    page = browser.new_page()
    as_served(page, "en-de", reads=["en", "cs", "de"])
    asked: list[dict[str, object]] = []

    def translate(route) -> None:
        asked.append(route.request.post_data_json)
        result = {"source": SENTENCE, "text": "Wo?", "confidence": 1, "finished": True}
        route.fulfill(json={"results": [result]})

    page.route("**/v1/translate", translate)
    page.goto(at(server))
    write(page, SENTENCE)
    assert page.locator("#from option").all_inner_texts() == ["English", "Czech"]
    page.select_option("#from", "cs")
    until(page, "translating.pair === 1 && translating.source !== null")
    assert [(each["source"], each["target"]) for each in asked] == [("en", "de"), ("cs", "de")]
    page.close()


@needs_browser
def test_the_explorer_begins_with_the_text_of_the_page(unlocked, alone):
    page = unlocked
    write(page, SENTENCE)
    page.click("#about >> text=en-de")
    page.wait_for_selector("#target .tr-word")
    assert page.input_value("#text") == SENTENCE
    shown = page.locator("#target .name").all_inner_texts()
    assert "".join(shown) == alone("en-de").translate(SENTENCE).text.replace(" ", "")


@needs_browser
def test_a_text_that_is_being_written_can_be_stopped(unlocked):
    page = unlocked
    page.click("#tab-complete")
    page.fill("#prompt", "ROMEO:")
    page.locator("#temperature").fill("0")  # it repeats itself, and never ends
    page.fill("#tokens", "900")
    page.press("#tokens", "Tab")
    page.click("#go")
    until(page, "completing.written.length > 0")
    page.keyboard.press("Escape")
    assert page.inner_text("#completed").count("stopped") == 1
    written = page.evaluate("completing.written")
    page.wait_for_timeout(100)
    assert page.evaluate("completing.written") == written


# Without a browser


def test_the_explorer_is_there_only_if_it_is_asked_for(server, locked):
    assert server.get("/look/en-de/").status_code == 404
    assert server.post("/look/en-de/ask/about", {}).status_code == 404
    assert locked.get("/look/en-de/").status_code == 200
    assert locked.get("/look/nobody/").status_code == 404
    key = {"Authorization": "Bearer open-sesame"}
    refused = locked.post("/look/en-de/ask/about", {})
    assert (refused.status_code, [*refused.json()]) == (401, ["refused"])
    about = locked.post("/look/minilm/ask/about", {}, headers=key)
    assert (about.status_code, about.json()["kind"]) == (200, "embedder")
    for path, given, status in (
        ("/look/nobody/ask/about", {}, 404),
        ("/look/en-de/ask/nothing", {}, 400),
        ("/look/en-de/ask/read", {"text": "x" * 300_000}, 413),
    ):
        found = locked.post(path, given, headers=key)
        assert found.status_code == status
        assert found.json()["refused"]


def test_about_tells_what_is_served(server):
    found = server.get("/v1/about").json()
    assert found["pairs"] == [{"model": "en-de", "source": "en", "target": "de", "aligns": True}]
    assert {"name": "minilm", "task": "embed", "noun": "embedder"} in found["models"]
    assert found["limits"]["characters"] == 100_000


def test_the_page_reaches_nothing_outside_and_cannot_be_framed(server):
    reply = server.get("/")
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    text = page_of(look=True, documents=True)
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http://",
        "https://",
    ):
        assert forbidden not in text
