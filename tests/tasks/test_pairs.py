import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.config import ConfigError
from regard.data import Plan
from regard.data.store import Column
from regard.layout import Layout
from regard.settings.training import BatchConfig
from regard.tasks.base.pairs import Corpus, PairFiles, PairsConfig, plain_files, texts
from regard.tasks.translation.batches import PairBatch, PairFeed
from regard.tasks.translation.data import build_store, least_tokens, pair_lengths
from regard.text import DataError, Specials, Tokenizer, TokenizerConfig
from regard.train.objectives import HIDDEN
from tests.tasks.tiny import Columns, pairs, write_pairs


def corpus(folder: Path, written: list[tuple[str, str]], **settings: Any) -> Corpus:
    source, target = write_pairs(folder, "train", written)
    return Corpus(PairsConfig(train=(PairFiles(source=source, target=target),), **settings), folder)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = [text for pair in pairs(50) for text in pair]
    specials = Specials(extra=("<2de>", "<2en>"))
    return Tokenizer.train(words, TokenizerConfig(kind="words", vocabulary=60, specials=specials))


def read(corpus: Corpus, split: Any) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair, _ in corpus.pairs(split)]


def test_files_side_by_side_give_their_pairs(tmp_path: Path) -> None:
    written = pairs(30)
    own = corpus(tmp_path, written, valid=(PairFiles(source="train.de", target="train.en"),))
    assert read(own, "train") == written
    assert read(own, "valid") == [(target, source) for source, target in written]
    assert own.size == 30
    assert list(texts(own, "train"))[:2] == list(written[0])


@pytest.mark.spec("6.1")
def test_several_files_come_one_after_the_other_each_with_its_language(tmp_path: Path) -> None:
    write_pairs(tmp_path, "train", pairs(3))
    files = plain_files([["train.en", "train.de", "de"], ["train.de", "train.en", "en"]])
    config = PairsConfig(train=tuple(PairFiles(**each) for each in files))
    own = Corpus(replace(config, valid=config.train), tmp_path)
    assert config.languages == ("de", "en")
    assert [to for _, to in own.pairs("train")] == ["de"] * 3 + ["en"] * 3
    assert [path.name for path in own.paths("train")] == ["train.en", "train.de", "train.de", "train.en"]


def test_a_table_in_an_archive_is_read_by_its_columns(tmp_path: Path) -> None:
    rows = "".join(f"{source}\t{target}\tby somebody\n" for source, target in pairs(5))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("deu.txt", rows)
    files = PairFiles(table="all.zip/deu.txt", format="tsv", source=0, target=1)
    own = Corpus(PairsConfig(train=(files,), valid=(files,)), tmp_path)
    assert read(own, "train") == pairs(5)


@pytest.mark.parametrize("wrong", [["a"], ["a", "b", "c", "d"], [["a", "b"], ["c"]], [["a", 1]]])
def test_what_is_no_pair_of_files_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="no pair of files"):
        plain_files(wrong)


def test_columns_without_a_table_are_refused() -> None:
    with pytest.raises(ValueError, match="columns need a table"):
        PairFiles(source=0, target=1)


def test_languages_are_named_for_all_files_or_for_none() -> None:
    one, other = PairFiles(source="a", target="b", to="de"), PairFiles(source="a", target="b")
    with pytest.raises(ConfigError, match="name it for all"):
        _ = PairsConfig(train=(one, other)).languages


@pytest.mark.parametrize(
    "wrong",
    [
        {"longest": 1},
        {"hold_out": -1},
        {"hold_out": 5, "valid": (PairFiles(source="a", target="b"),)},
        {"on_error": "ignore"},
        {"train": ()},
    ],
    ids=str,
)
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PairsConfig(**{"train": (PairFiles(source="a", target="b"),), **wrong})


@pytest.mark.parametrize(
    ("count", "hold_out", "expected"), [(400, 0, 20), (400, 50, 50), (30, 0, 1), (30, 100, 15)]
)
def test_without_a_valid_some_sources_are_held_out(
    tmp_path: Path, count: int, hold_out: int, expected: int
) -> None:
    written = [(f"source {number}", f"target {number}") for number in range(count)]
    own = corpus(tmp_path, written, hold_out=hold_out)
    train, valid = read(own, "train"), read(own, "valid")
    assert len(valid) == expected
    assert sorted(train + valid) == sorted(written)
    assert train == [pair for pair in written if pair not in set(valid)]  # the order stays


def test_no_source_is_on_both_sides(tmp_path: Path) -> None:
    written = [(f" source {number % 40} ", f"target {number}") for number in range(400)]
    own = corpus(tmp_path, written)
    sources = [{source for source, _ in read(own, split)} for split in ("train", "valid")]
    assert len(sources[0]) + len(sources[1]) == 40
    assert not sources[0] & sources[1]
    assert len(sources[1]) == 20  # a twentieth of the pairs is as many sources, but half must stay
    assert corpus(tmp_path, written[::-1])._splits._bound == own._splits._bound


@pytest.mark.parametrize("count", [2, 3, 5, 12, 21])
def test_even_the_smallest_corpus_has_something_on_both_sides(tmp_path: Path, count: int) -> None:
    own = corpus(tmp_path, [(f"source {number}", "x") for number in range(count)])
    assert read(own, "train")
    assert read(own, "valid")


def test_one_source_alone_cannot_be_shared_out(tmp_path: Path) -> None:
    own = corpus(tmp_path, [("a", "b"), ("a", "c"), ("", "d")])
    with pytest.raises(DataError, match=r"train\.en.*name files of data\.valid"):
        read(own, "train")


def test_no_pairs_at_all_is_an_error_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.en: no pairs to train on"):
        _ = corpus(tmp_path, []).size


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    own = corpus(tmp_path, pairs(3))
    (tmp_path / "train.de").unlink()
    with pytest.raises((DataError, OSError), match=r"train\.de"):
        _ = own.size


@pytest.mark.spec("3.6a")
def test_pairs_are_stored_as_the_model_reads_them(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_pairs(tmp_path, "train", pairs(5))
    files = (PairFiles(source="train.en", target="train.de", to="de"),)
    store, counts = build_store(
        Corpus(PairsConfig(train=files, valid=files), tmp_path), "train", tokenizer, tmp_path / "tokens"
    )
    start, end = tokenizer.require("start"), tokenizer.require("end")
    for index, (source, target) in enumerate(pairs(5)):
        ids = [tokenizer.ids.extra["<2de>"], *tokenizer.encode(source).ids, end]
        assert store["source"][index].tolist() == ids
        assert store["target"][index].tolist() == [start, *tokenizer.encode(target).ids, end]
    assert (counts.read, counts.used, counts.empty, counts.long, counts.skipped) == (5, 5, 0, 0, 0)


def odd(folder: Path) -> Corpus:
    """A good pair, one with an empty side, one that is too long, one that is broken."""
    own = corpus(folder, [("a dog", "ein hund"), (" ", "ein"), ("a " * 20, "ein"), ("x", "y")], longest=10)
    path = folder / "train.en"
    path.write_bytes(path.read_bytes().replace(b"x\n", b"\xff\n"))
    return Corpus(replace(own.config, on_error="skip", valid=own.config.train), folder)


def test_pairs_that_cannot_be_used_are_counted_also_when_the_store_is_there_already(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    found = [build_store(odd(tmp_path), "train", tokenizer, tmp_path / "tokens")[1] for _ in range(2)]
    assert found[0] == found[1]
    counts = found[0]
    assert (counts.read, counts.used, counts.empty, counts.long, counts.skipped) == (3, 1, 1, 1, 1)
    assert "train.en" in counts.why
    assert counts.longest == (3, 3)


def test_sources_of_several_sentences_are_counted_and_older_stores_do_not_know(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    given = [("a dog.", "x"), ("a dog. A tree.", "x"), ("a dog", "x"), ("Dr. Dog sees a tree", "x")]
    own = corpus(tmp_path, given, valid=(PairFiles(source="x", target="y"),))
    _, counts = build_store(own, "train", tokenizer, tmp_path / "tokens")
    assert (counts.several, counts.share_of_several) == (1, 0.25)
    beside = tmp_path / "tokens.json"
    older = json.loads(beside.read_text())
    del older["several"]
    beside.write_text(json.dumps(older))
    _, counts = build_store(own, "train", tokenizer, tmp_path / "tokens")
    assert (counts.several, counts.share_of_several) == (None, None)


@pytest.mark.parametrize("left", ["nothing", "another's"])
def test_counts_that_were_lost_are_counted_again(tmp_path: Path, tokenizer: Tokenizer, left: str) -> None:
    _, counts = build_store(odd(tmp_path), "train", tokenizer, tmp_path / "tokens")
    beside = tmp_path / "tokens.json"
    if left == "nothing":
        beside.unlink()
    else:
        beside.write_text(json.dumps({**json.loads(beside.read_text()), "of": "other text", "read": 99}))
    assert build_store(odd(tmp_path), "train", tokenizer, tmp_path / "tokens")[1] == counts


def test_a_store_is_built_once_for_the_same_text_wherever_it_lies(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    own = corpus(tmp_path / "here", pairs(5), valid=(PairFiles(source="x", target="y"),))
    build_store(own, "train", tokenizer, tmp_path / "tokens")
    first = (tmp_path / "tokens" / "store.json").stat().st_mtime_ns
    (tmp_path / "here").rename(tmp_path / "there")
    moved = Corpus(replace(own.config, root=str(tmp_path / "there")), Path("/nowhere"))
    build_store(moved, "train", tokenizer, tmp_path / "tokens")
    assert (tmp_path / "tokens" / "store.json").stat().st_mtime_ns == first
    write_pairs(tmp_path / "there", "train", pairs(6))
    assert len(build_store(moved, "train", tokenizer, tmp_path / "tokens")[0]) == 6


def test_nothing_usable_is_an_error_that_counts_why(tmp_path: Path, tokenizer: Tokenizer) -> None:
    own = corpus(
        tmp_path, [("a " * 20, "b"), ("", "c")], longest=5, valid=(PairFiles(source="x", target="y"),)
    )
    with pytest.raises(DataError, match=r"train\.en: none of 2 pairs .*1 empty, 1 over data\.longest=5"):
        build_store(own, "train", tokenizer, tmp_path / "tokens")


ROWS = st.lists(st.tuples(st.integers(1, 9), st.integers(2, 9)), min_size=1, max_size=25)


def examples(batch: PairBatch) -> list[tuple[list[int], list[int], list[int]]]:
    """The real pairs of a batch; what is filler must be hidden."""
    sides = (batch.source, batch.inputs)
    source, inputs = ([each.tolist() for each in side.layout.split(side.ids)] for side in sides)
    labels = [each.tolist() for each in batch.inputs.layout.split(batch.labels)]
    assert all(set(each) <= {HIDDEN} for each in labels[batch.inputs.sequences :])
    count = batch.inputs.sequences
    assert count == batch.source.sequences
    return list(zip(source[:count], inputs[:count], labels[:count], strict=True))


@settings(max_examples=60)
@given(ROWS, st.integers(1, 3), st.integers(0, 30), st.sampled_from([1, 2, 3, 8]), st.booleans())
@example([(1, 2), (9, 10)], 1, 0, 2, True)  # half a batch and the longest pair are more than the batch
def test_a_step_holds_its_examples_whole_however_it_is_cut_and_shared_out(
    sizes: list[tuple[int, int]], parts: int, slack: int, split: int, static: bool
) -> None:
    store = Columns.of(sizes)
    lengths = pair_lengths(store)  # type: ignore[arg-type]
    plan = Plan(lengths, BatchConfig(tokens=least_tokens(lengths) + slack, parts=parts))
    feeds = [
        PairFeed(store, plan, static=static, rank=rank, ranks=parts)  # type: ignore[arg-type]
        for rank in range(parts)
    ]
    alone = PairFeed(store, plan, static=static)  # type: ignore[arg-type]
    seen = []
    for step in range(1, plan.steps(0) + 1):
        whole = alone.parts(step)
        cut = alone.parts(step, split)
        shared = [part for feed in feeds for part in feed.parts(step)]
        assert [number for number, _ in whole] == list(range(len(whole)))
        assert len({number for number, _ in cut}) == len(cut)
        expected = [each for _, part in whole for each in examples(part)]
        assert [each for _, part in cut for each in examples(part)] == expected
        by_number = sorted(shared, key=lambda pair: pair[0])
        assert [number for number, _ in by_number] == [number for number, _ in whole]
        assert [each for _, part in by_number for each in examples(part)] == expected
        assert sum(part.tokens for _, part in cut) == sum(len(labels) for *_, labels in expected)
        if static:
            assert len({tuple(tensor.shape for tensor in part.tensors()) for _, part in cut}) == 1
        seen += expected
    rows = [
        (
            store["source"][row].tolist(),
            store["target"][row][:-1].tolist(),
            store["target"][row][1:].tolist(),
        )
        for row in range(len(sizes))
    ]
    assert sorted(seen) == sorted(rows)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_gathering_is_one_sequence_after_the_other(lengths: list[int], data: Any) -> None:
    column = Column(np.arange(100), np.cumsum([0, *lengths]))
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))
    first, last = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    expected = [
        value for row in rows for value in column[row].tolist()[first : max(len(column[row]) - last, 0)]
    ]
    found = column.gather(np.array(rows, dtype=np.int64), skip_first=first, skip_last=last)
    assert found.tolist() == expected


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_a_layout_twice_is_the_layout_of_all_lengths_twice(lengths: list[int]) -> None:
    twice, expected = Layout.of(lengths, longest=7).twice(), Layout.of([*lengths, *lengths], longest=7)
    assert twice.offsets.tolist() == twice.host_offsets.tolist() == expected.offsets.tolist()
    assert twice.positions.tolist() == expected.positions.tolist()
    assert (twice.longest, twice.offsets.dtype) == (7, expected.offsets.dtype)


def write_memory(path, count=40):
    body = "".join(
        f'<tu><tuv xml:lang="en-US"><seg>the number {i} of them</seg></tuv>'
        f'<tuv xml:lang="de"><seg>die Nummer {i} von ihnen</seg></tuv></tu>\n'
        for i in range(count)
    )
    path.write_text(f'<tmx version="1.4"><header srclang="en-US"/><body>\n{body}</body></tmx>\n')


def test_a_translation_memory_is_parallel_text(tmp_path):
    write_memory(tmp_path / "m.tmx")
    (files,) = plain_files(["m.tmx", "en", "de"])
    config = PairsConfig(train=(PairFiles(**files),), hold_out=3)
    corpus = Corpus(config, tmp_path)
    assert corpus.size == 40
    train, valid = ([pair for pair, _ in corpus.pairs(split)] for split in ("train", "valid"))
    assert (len(train), len(valid)) == (37, 3)
    assert {
        pair.target.replace("die Nummer", "the number").replace("von ihnen", "of them") for pair in train
    } == {pair.source for pair in train}
    with pytest.raises(ValueError, match=r"of m\.tmx must be languages"):
        PairFiles(table="m.tmx", source=0, target=1)


def test_a_translation_memory_is_checked_as_it_is(tmp_path):
    from rich.console import Console

    from regard.tasks.check import check

    write_memory(tmp_path / "m.tmx")
    report = check(None, [], None, files=[str(tmp_path / "m.tmx")], console=Console(quiet=True))
    assert report.task == "translate"
    text = (tmp_path / "m.tmx").read_text()
    (tmp_path / "m.tmx").write_text(text.replace("<seg>the number 7 of them</seg>", "<seg> </seg>"))
    report = check(None, [], None, files=[str(tmp_path / "m.tmx")], console=Console(quiet=True))
    assert not report.ok
    assert "an empty segment" in str(report.to_dict())
