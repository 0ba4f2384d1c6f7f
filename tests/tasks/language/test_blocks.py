"""Text in blocks, and windows over it: what is read, what is predicted, what is scored."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.settings.shape import LanguageShape
from regard.settings.training import BatchConfig
from regard.tasks.base.documents import DocumentCorpus, DocumentsConfig
from regard.tasks.language.data import BlockFeed, Blocks, Ends, build_stream, document_bounds
from regard.tasks.language.perplexity import Windows, figures, nll
from regard.tasks.language.train import LanguageLoss
from regard.text import DataError, Tokenizer, TokenizerConfig
from regard.text.conventions import Conventions
from regard.train.objectives import HIDDEN

LETTERS = Tokenizer.train(["abcdefgh \n"], TokenizerConfig(kind="characters", vocabulary=40))
START, END = LETTERS.require("start"), LETTERS.require("end")


def stream(folder: Path, *texts: str, split: Any = "train", **config: Any) -> Any:
    """Each text is a file, and a document."""
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    names = tuple(f"{number}.txt" for number in range(len(texts)))
    config = {"valid": names[:1], **config} if "hold_out" not in config else config
    corpus = DocumentCorpus(DocumentsConfig(train=names, documents="file", **config), folder, blank=True)
    return build_stream(corpus, split, LETTERS, folder / f"store.{split}")


def decoder(**shape: Any) -> Decoder:
    torch.manual_seed(0)
    small = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 2, "d_ff": 32, "dropout": 0.0}
    made = Decoder(LanguageShape(**{**small, **shape}).build(len(LETTERS), 64)).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))  # so that everything can be felt
    return made


def test_a_stream_is_the_text_to_the_letter_with_line_ends_and_blank_lines(tmp_path: Path) -> None:
    first, second = "abc\n\n  de \nf", "gh\n\n\nab"
    store = stream(tmp_path, first, second)
    expected = [START, *LETTERS.encode(first).ids, END, START, *LETTERS.encode(second).ids, END]
    assert store["ids"].values.tolist() == expected
    assert document_bounds(store).tolist() == [0, len(first) + 2, len(expected)]
    assert sum(store["bytes"].values) == len(first) + len(second)
    # words, and a line end for each line
    assert store["words"].values.tolist() == [3 + 4, 2 + 4]


def test_documents_begin_with_the_start_token_where_texts_of_the_model_do(tmp_path: Path) -> None:
    """SmolLM's chat models begin a turn with it, and no text. A token for both parts documents."""
    (tmp_path / "one.txt").write_text("abc")
    (tmp_path / "two.txt").write_text("de")
    corpus = DocumentCorpus(
        DocumentsConfig(train=("one.txt", "two.txt"), valid=("one.txt",), documents="file"), tmp_path
    )
    found = []
    for begins in (None, True, False):
        store = build_stream(corpus, "train", LETTERS, tmp_path / "store", Conventions(begins=begins))
        found.append(store["ids"].values.tolist())
    one, two = ([*LETTERS.encode(text).ids] for text in ("abc", "de"))
    expected = [[START, *one, END, START, *two, END]] * 2 + [[*one, END, *two, END]]
    assert found == expected
    specials = replace(LETTERS.specials, end=LETTERS.specials.start)
    both: Any = SimpleNamespace(vocabulary=LETTERS.vocabulary, specials=specials)
    assert Ends.of(both, Conventions(begins=False)) == Ends([START], [])


def test_where_ends_are_held_out_no_token_says_that_a_document_ends_there(tmp_path: Path) -> None:
    text = "\n".join(["abcd"] * 10)
    train, valid = (stream(tmp_path, text, split=split, hold_out=0.3) for split in ("train", "valid"))
    whole = [*train["ids"].values, *LETTERS.encode("\n").ids, *valid["ids"].values]
    assert whole == [START, *LETTERS.encode(text).ids, END]
    assert len(valid["ids"].values) == 3 * 5 - 1 + 1


def test_documents_without_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text for train"):
        stream(tmp_path, "\n\n")


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_across_documents_blocks_follow_each_other_and_nothing_is_read_twice(
    tmp_path: Path, epoch: int
) -> None:
    store = stream(tmp_path, "abcdefgh" * 40, "hgfedcba" * 30)
    ids = store["ids"].values
    feed = BlockFeed(store, BatchConfig(tokens=64), size=16, across=True, static=False)
    shift = feed.shift(epoch)
    count = feed.plan.lengths.shape[1]
    assert 16 <= len(ids) - 1 - count * 16 < 32
    assert shift + count * 16 + 1 <= len(ids)
    batch = feed.batch(np.arange(count), None, epoch)
    assert batch.text.ids.tolist() == ids[shift : shift + count * 16].tolist()
    assert batch.labels.tolist() == ids[shift + 1 : shift + count * 16 + 1].tolist()
    assert batch.text.layout.host_lengths == [16] * count
    assert batch.tokens == count * 16


def test_an_epoch_begins_elsewhere_by_the_seed(tmp_path: Path) -> None:
    store = stream(tmp_path, "abcdefgh" * 40)

    def shifts(seed: int) -> list[int]:
        feed = BlockFeed(store, BatchConfig(tokens=64, seed=seed), size=16, across=True, static=False)
        return [feed.shift(epoch) for epoch in range(8)]

    assert shifts(0) == shifts(0)
    assert shifts(0) != shifts(1)
    assert len(set(shifts(0))) > 3


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 12))
def test_inside_documents_every_token_but_the_first_is_predicted_once(sizes: list[int], size: int) -> None:
    bounds = np.unique(np.cumsum([0, *sizes, 2]))
    blocks = Blocks.inside(bounds, size)
    predicted = [
        place
        for start, length in zip(blocks.starts, blocks.lengths, strict=True)
        for place in range(start + 1, start + length + 1)
    ]
    assert sorted(predicted) == sorted({*range(int(bounds[-1]))} - {*bounds.tolist()})
    assert blocks.lengths.max() <= size
    owners = np.searchsorted(bounds, blocks.starts, side="right")
    assert (blocks.starts + blocks.lengths < bounds[owners]).all()


def test_filler_is_not_predicted(tmp_path: Path) -> None:
    store = stream(tmp_path, "abcdefgh" * 3, "ab", "hgfedcba" * 2)
    feed = BlockFeed(store, BatchConfig(tokens=32), size=16, across=False, static=True)
    model = decoder()
    batches = [batch for step in (1, 2) for _, batch in feed.parts(step)]
    assert any(batch.tokens < len(batch.labels) for batch in batches)
    for batch in batches:
        real = (batch.labels != HIDDEN).sum().item()
        assert real == batch.tokens
        sums = LanguageLoss(model)(batch)
        assert sums.tokens == real
        states = model(batch.text.ids, batch.text.layout)[:real]
        expected = F.cross_entropy(model.head(states), batch.labels[:real], reduction="sum")
        assert_close(sums.loss, expected.float(), check_dtype=False, rtol=1e-5, atol=1e-5)


def test_inside_documents_a_document_cannot_be_felt_by_another(tmp_path: Path) -> None:
    store = stream(tmp_path, "abcdef", "hgfed")
    [(_, batch)] = BlockFeed(store, BatchConfig(tokens=64), size=32, across=False, static=False).parts(1)
    model = decoder()
    losses = []
    for text in ("abcdef", "hgfed"):
        ids = torch.tensor([START, *LETTERS.encode(text).ids, END])
        states = model(ids[:-1], Layout.of([len(ids) - 1]))
        losses.append(F.cross_entropy(model.head(states), ids[1:], reduction="sum"))
    assert_close(
        LanguageLoss(model)(batch).loss, sum(losses).float(), check_dtype=False, rtol=1e-5, atol=1e-5
    )


@given(st.integers(0, 5), st.integers(0, 60), st.integers(1, 12), st.data())
def test_every_token_is_scored_once_with_enough_before_it(
    begin: int, many: int, size: int, data: Any
) -> None:
    stride = data.draw(st.integers(1, size))
    windows = Windows.over(begin, begin + many, size, stride)
    seen: list[int] = []
    for start, length, scored in zip(windows.starts, windows.lengths, windows.scored, strict=True):
        assert begin <= start
        assert 1 <= scored <= length <= size
        own = range(int(start + length - scored) + 1, int(start + length) + 1)
        for place in own:
            assert place - start >= min(size - stride + 1, place - begin)
        seen += own
    assert seen == list(range(begin + 1, begin + many))


@settings(max_examples=10)
@given(st.integers(1, 8))
def test_surprise_is_that_of_each_token_by_itself(stride: int) -> None:
    model, ids = decoder(), np.array(LETTERS.encode("abc defgh hgf edc ab").ids)
    windows = Windows.over(0, len(ids), 8, stride)
    total, tokens = nll(model, ids, windows)
    expected = 0.0
    for start, length, scored in zip(windows.starts, windows.lengths, windows.scored, strict=True):
        read = torch.from_numpy(ids[start : start + length])
        logs = model.head(model(read, Layout.of([int(length)]))).log_softmax(dim=-1)
        for place in range(length - scored, length):
            expected -= logs[place, ids[start + place + 1]].item()
    assert tokens == len(ids) - 1
    assert total == pytest.approx(expected, rel=1e-5)


def test_a_part_of_the_windows_is_spread_over_all_of_them() -> None:
    every = Windows.over(0, 1001, 10, 10)
    part = every.spread(200)
    assert part.scored.sum() == 200
    assert part.starts.tolist() == list(range(0, 1000, 50))
    assert every.spread(5000) is every


def test_figures_are_means_over_tokens_bytes_and_words() -> None:
    found = figures(20 * np.log(2), 10, size=40, words=5)
    assert found["perplexity"] == pytest.approx(4)
    assert found["bits_per_byte"] == pytest.approx(0.5)
    assert found["word_perplexity"] == pytest.approx(16)
    assert figures(0.0, 3).keys() == {"loss", "perplexity"}
