import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import ConfigError, from_dict
from regard.data import Plan, ragged
from regard.settings.training import BatchConfig
from regard.tasks.classification.batches import LabelledFeed, encode, filled_labels
from regard.tasks.classification.data import LabelledConfig, LabelledCorpus, label_names, targets
from regard.text import DataError, Labelled, Origin, Skipped
from regard.train.objectives import HIDDEN
from tests.tasks.encoders import toys


def corpus(folder: Path, content: str | bytes, name: str = "train.tsv", **settings: Any) -> LabelledCorpus:
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(raw)
    return LabelledCorpus(LabelledConfig(train=(name,), **{"valid": (name,), **settings}), folder)


def found(own: LabelledCorpus, split: Any = "train") -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(record.text, record.second, record.labels) for record in own.read(split)]


def records(*labels: Any) -> list[Labelled]:
    return [
        Labelled(f"text {n}", None, (each,) if isinstance(each, str) else tuple(each), Origin("a.tsv", n + 1))
        for n, each in enumerate(labels)
    ]


def test_trec_has_its_label_before_the_first_blank_and_only_the_coarse_half_counts(tmp_path: Path) -> None:
    lines = "DESC:manner How did serfdom develop ?\nENTY:cremat What films featured Popeye ?\nABBR x\n"
    trec = {"format": "tsv", "separator": " ", "cells": 2, "text": 1, "label": 0}
    own = corpus(tmp_path, lines, "train.label", **trec, until=":")
    assert found(own) == [
        ("How did serfdom develop ?", None, ("DESC",)),
        ("What films featured Popeye ?", None, ("ENTY",)),
        ("x", None, ("ABBR",)),
    ]
    fine = corpus(tmp_path, lines, "train.label", **trec)
    assert [labels for _, _, labels in found(fine)] == [("DESC:manner",), ("ENTY:cremat",), ("ABBR",)]


def test_mrpc_names_its_columns_behind_a_mark_and_its_quotes_are_text(tmp_path: Path) -> None:
    lines = (
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
        '1\t702\t703\tHe said "no .\tHe said " no " .\r\n0\t1\t2\ta\tb\r\n'
    )
    columns = {"text": "#1 String", "second": "#2 String", "label": "Quality"}
    own = corpus(tmp_path, b"\xef\xbb\xbf" + lines.encode(), **columns)
    assert found(own) == [
        ('He said "no .', 'He said " no " .', ("1",)),
        ("a", "b", ("0",)),
    ]
    assert own.size == 2


def test_json_lines_have_labels_as_numbers_words_or_lists(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "a", "label": 1}, {"text": "b", "label": "x, y"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert [labels for *_, labels in found(corpus(tmp_path, lines, "a.jsonl"))] == [("1",), ("x, y",)]
    rows += [{"text": "c", "label": ["x, y", "z"]}, {"text": "d", "label": []}, {"text": "e", "label": ""}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    own = corpus(tmp_path, lines, "b.jsonl", problem="multi")
    assert [labels for *_, labels in found(own)] == [("1",), ("x", "y"), ("x, y", "z"), (), ()]


@pytest.mark.parametrize("labels", [["x", "y"], []])
@pytest.mark.parametrize("problem", ["single", "number"])
def test_a_list_where_one_label_belongs_is_told_and_not_cut_to_its_first(
    tmp_path: Path, labels: list[str], problem: Any
) -> None:
    lines = json.dumps({"text": "a", "label": "1"}) + "\n" + json.dumps({"text": "b", "label": labels}) + "\n"
    own = corpus(tmp_path, lines, "a.jsonl", problem=problem)
    with pytest.raises(DataError, match=rf"a.jsonl:2: {len(labels)} labels.*data.problem=multi"):
        targets(own.read("train"), ["1", "x", "y"], problem)


def test_several_labels_stand_apart_and_an_empty_cell_has_none(tmp_path: Path) -> None:
    lines = "x:1; y:2\tone\n\ttwo\ny:3\tthree\n"
    own = corpus(tmp_path, lines, text=1, label=0, problem="multi", apart=";", until=":")
    assert found(own) == [("one", None, ("x", "y")), ("two", None, ()), ("three", None, ("y",))]
    read = own.read("train")
    assert label_names(read) == ("x", "y")
    assert targets(read, ("x", "y"), "multi").tolist() == [[True, True], [False, False], [False, True]]


def test_an_empty_label_of_a_text_that_has_one_is_told(tmp_path: Path) -> None:
    own = corpus(tmp_path, "x\tone\n\ttwo\n", text=1, label=0)
    with pytest.raises(DataError, match=r"train.tsv:2: empty label.*data.on_error=skip"):
        own.read("train")
    skipped = Skipped()
    own = corpus(tmp_path, "x\tone\n\ttwo\ny\tthree\n", text=1, label=0, on_error="skip")
    assert len(own.read("train", skipped)) == 2
    assert skipped.total == 1


def test_nothing_before_the_mark_is_no_label(tmp_path: Path) -> None:
    own = corpus(tmp_path, "x:1\tone\n:2\ttwo\n", text=1, label=0, until=":")
    with pytest.raises(DataError, match=r"train.tsv:2: .*':2'"):
        own.read("train")


def test_labels_are_in_order_numbers_by_value_and_words_behind_them() -> None:
    names = ["10", "9", "-1", "2.5", "zebra", "Ape", "ape"]
    for seed in range(5):
        random.Random(seed).shuffle(names)
        assert label_names(records(*names)) == ("-1", "2.5", "9", "10", "Ape", "ape", "zebra")


def test_labels_that_only_sound_like_numbers_do_not_disturb_the_order() -> None:
    names = ["nan", "b", "inf", "3", "NaN", "a", "1", "-inf", "2", "infinity"]
    words = ["-inf", "NaN", "a", "b", "inf", "infinity", "nan"]
    assert label_names(records(*names)) == ("1", "2", "3", *words)


def test_a_label_that_was_never_learned_is_told_with_its_line() -> None:
    assert targets(records("b", "a", "b"), ["a", "b"], "single").tolist() == [1, 0, 1]
    with pytest.raises(DataError, match=r"a.tsv:2: a label that no training text has 'c' \(there are a, b\)"):
        targets(records("a", "c"), ["a", "b"], "single")
    with pytest.raises(DataError, match=r"a.tsv:1: .*'c'"):
        targets(records(["a", "c"]), ["a", "b"], "multi")
    many = [str(n) for n in range(30)]
    with pytest.raises(DataError, match=r"8, 9, \.\.\.\)"):
        targets(records("x"), many, "single")


@pytest.mark.parametrize("wrong", ["one", "nan", "inf", "", "1,5"])
def test_what_is_no_number_is_told_with_its_line(wrong: str) -> None:
    found = targets(records("1.5", "-2", "1e3"), (), "number")
    assert found.dtype == np.float32
    assert found.tolist() == [1.5, -2.0, 1000.0]
    with pytest.raises(DataError, match=rf"a.tsv:2: no number '{wrong}'.*data.problem is number"):
        targets(records("1", wrong), (), "number")


def test_held_out_texts_are_no_training_texts_and_a_pair_goes_by_both(tmp_path: Path) -> None:
    lines = "".join(f"{n % 2}\tsame\t{n % 50}\n" for n in range(200))
    own = corpus(tmp_path, lines, text=1, second=2, label=0, valid=(), hold_out=10)
    train, valid = ({record.second for record in own.read(split)} for split in ("train", "valid"))  # type: ignore[arg-type]
    assert (len(train), len(valid), train & valid) == (40, 10, set())
    assert len(own.read("train")) == 160  # equal pairs go together


@pytest.mark.parametrize(
    "wrong",
    [
        {"train": []},
        {"longest": 3},
        {"longest": -1},
        {"apart": ""},
        {"hold_out": 3, "valid": ["b.tsv"]},
        {"hold_out": -1},
        {"problem": "many"},
        {"too_long": "windows"},
        {"on_error": "ignore"},
        {"format": "xlsx"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        from_dict(LabelledConfig, {"train": ["a.tsv"], **wrong})


LONG = ["sun " * 9, "rain", "dog " * 5, "tree " * 4]


def test_long_texts_are_cut_or_left_out_with_their_labels_and_counted() -> None:
    reader, labels = toys.reader(longest=6), np.arange(4)
    read = [Labelled(text, None, ("x",), Origin("a", 1)) for text in LONG]
    cut, long = encode(reader, read, labels, skip=False)
    assert (long, cut.ids.lengths.tolist(), cut.labels.tolist()) == (2, [6, 3, 6, 6], [0, 1, 2, 3])
    assert cut.segments is None
    kept, long = encode(reader, read, labels, skip=True)
    assert (long, kept.ids.lengths.tolist(), kept.labels.tolist()) == (2, [3, 6], [1, 3])
    assert kept.ids[1].tolist() == list(toys.tokenizer().encode(LONG[3], template="cls").ids)
    with pytest.raises(
        DataError, match=r"none of 1 texts can be used.*more than 6 tokens.*data.too_long=cut"
    ):
        encode(reader, read[:1], labels[:1], skip=True)


def test_pairs_carry_their_segments_into_every_batch_and_filler_carries_none() -> None:
    read = [Labelled(text, text[::-1], ("x",), Origin("a", 1)) for text in toys.texts(30)]
    texts, _ = encode(toys.reader(), read, np.arange(30), skip=False)
    plan = Plan([texts.ids.lengths], BatchConfig(tokens=70))
    for static in (False, True):
        feed, seen = LabelledFeed(texts, plan, static=static), []
        for step in range(1, plan.steps(0) + 1):
            for _, batch in feed.parts(step):
                assert len(batch.labels) == batch.text.layout.sequences
                assert batch.tokens == batch.text.sequences == int((batch.labels != HIDDEN).sum())
                for row, ids, marks in zip(
                    batch.labels.tolist(),
                    batch.text.layout.split(batch.text.ids),
                    batch.text.layout.split(batch.segments),
                    strict=True,
                ):
                    if row == HIDDEN:
                        assert not marks.any()
                        continue
                    encoding = toys.tokenizer().encode(read[row].text, read[row].second, template="cls")
                    assert (ids.tolist(), marks.tolist()) == ([*encoding.ids], [*encoding.segments])
                    seen.append(row)
                moved = batch.to(torch.device("cpu")).tensors()
                assert any(each is batch.segments for each in moved)
        assert sorted(seen) == list(range(30))


def test_a_batch_in_pieces_is_the_same_batch() -> None:
    read = [Labelled(text, None, ("x",), Origin("a", 1)) for text in toys.texts(60)]
    texts, _ = encode(toys.reader(), read, np.arange(60), skip=False)
    feed = LabelledFeed(texts, Plan([texts.ids.lengths], BatchConfig(tokens=200, parts=2)), static=True)
    for split in (2, 3, 8):
        whole, pieces = feed.parts(1), feed.parts(1, split)
        labels = [
            [label for _, batch in parts for label in batch.labels.tolist() if label != HIDDEN]
            for parts in (whole, pieces)
        ]
        assert labels[0] == labels[1]
        assert len(pieces) > len(whole)
        assert [number for number, _ in pieces] == list(range(len(pieces)))
        assert len({(b.text.layout.tokens, b.text.layout.sequences) for _, b in pieces}) == 1


def test_ranks_share_the_batches_of_a_step_out() -> None:
    read = [Labelled(text, None, ("x",), Origin("a", 1)) for text in toys.texts(60)]
    texts, _ = encode(toys.reader(), read, np.arange(60), skip=False)
    plan = Plan([texts.ids.lengths], BatchConfig(tokens=50, parts=4))
    alone = dict(LabelledFeed(texts, plan, static=False).parts(1))
    shared = [dict(LabelledFeed(texts, plan, static=False, rank=rank, ranks=2).parts(1)) for rank in (0, 1)]
    assert not shared[0].keys() & shared[1].keys()
    both = {**shared[0], **shared[1]}
    assert both.keys() == alone.keys()
    assert all(torch.equal(both[number].labels, alone[number].labels) for number in alone)


def test_filler_has_no_label() -> None:
    assert filled_labels(np.array([2, 0]), 4).tolist() == [2, 0, HIDDEN, HIDDEN]
    several = filled_labels(np.array([[True, False]]), 3)
    assert several.dtype == torch.float32
    assert several[0].tolist() == [1.0, 0.0]
    assert several[1:].isnan().all()
    numbers = filled_labels(np.array([1.5], dtype=np.float32), 2)
    assert numbers[0] == 1.5
    assert numbers[1].isnan()


def test_ragged_rows_come_back_as_they_went_in() -> None:
    rows = [[1, 2, 3], [], [4]]
    column = ragged(rows)
    assert [column[row].tolist() for row in range(3)] == rows
    assert len(ragged([])) == 0


def test_some_of_the_texts_are_drawn_the_same_ones_every_time(tmp_path: Path) -> None:
    rows = "".join(f"a\ttext {number}\n" for number in range(50))
    few, more = (
        [each[0] for each in found(corpus(tmp_path, rows, text=1, label=0, examples=count))]
        for count in (5, 20)
    )
    assert (len(few), len(more)) == (5, 20)
    assert {*few} < {*more}  # so that more are these and others
    assert more == sorted(more, key=lambda text: int(text.split()[1]))
    assert more != [f"text {number}" for number in range(20)]
    assert len(found(corpus(tmp_path, rows, text=1, label=0, examples=5), "valid")) == 50
    with pytest.raises(DataError, match=r"train\.tsv: 50 texts to learn from.*lower data\.examples=51"):
        corpus(tmp_path, rows, text=1, label=0, examples=51).read("train")
    with pytest.raises(ValueError, match="examples=-1 must be 0 or more"):
        LabelledConfig(train=("a.tsv",), examples=-1)
