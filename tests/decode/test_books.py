"""Beam searches whose steps are made by C, against decode/beam.py, which is the definition."""

import numpy as np
import pytest
import torch

from regard.decode import DecodeConfig
from regard.decode.beam import watched
from regard.decode.books import BookedSearch
from regard.decode.config import Hypothesis
from regard.decode.groups import BeamGroups, BeamGroupState
from regard.decode.relay import relay
from regard.decode.search import check
from regard.decode.stepper import Request
from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.nn.native import beam as native
from regard.nn.native import library
from regard.nn.packed import pack
from regard.nn.quantized import quantize
from tests.decode.models import END, START
from tests.models.families import VOCABULARY, seq2seq, transformer

pytestmark = [
    pytest.mark.skipif(library() is None, reason="no compiler"),
    pytest.mark.usefixtures("unchecked"),
]
MADE = {"float32": pack, "int8": quantize}


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def model(make=pack, positions: str = "sinusoidal", seed: int = 0) -> Seq2Seq:
    torch.manual_seed(seed)
    made = Seq2Seq(seq2seq(transformer(), positions)).eval()
    for weight in made.decoder.parameters():
        weight.add_(torch.randn_like(weight) * 0.3)
    made.decoder.embedding.tokens.weight[END] *= 4  # which is the output's too: ends shall come
    return make(made)


def searched(
    groups: BeamGroups, config: DecodeConfig, *, seed: int = 1, few: int = 100, by_c: bool = True, **settings
) -> dict[int, list[list[Hypothesis]]]:
    """What three batches that join one after the other find; each with prefixes and maximums of its own."""
    draw = torch.Generator().manual_seed(seed)

    def number(least: int, most: int) -> int:
        return int(torch.randint(least, most, (1,), generator=draw))

    def ids(count: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (count,), generator=draw).tolist()

    def begin(batch: int):
        lengths = [number(1, 14) for _ in range(1 + 3 * batch)]
        state = groups.start(torch.tensor(ids(sum(lengths))), Layout.of(lengths))
        prefixes = [[START, *ids(number(0, 3))] for _ in lengths]
        maximums = [number(0, 40) for _ in lengths]
        given = {"suppressed": (0, 1), "keys": None, **settings}
        request = check(groups, state, prefixes, end=END, config=config, maximums=maximums, **given)
        assert BookedSearch.serves(request)
        return request

    with pytest.MonkeyPatch.context() as patch:
        if not by_c:
            patch.setattr("regard.decode.relay.BookedSearch", Never)
        return dict(relay(groups, iter(range(3)), begin, few))


class Never(BookedSearch):
    @staticmethod
    def serves(request: Request) -> bool:
        return False


def same(found: dict[int, list[list[Hypothesis]]], expected: dict[int, list[list[Hypothesis]]]) -> None:
    assert sorted(found) == sorted(expected)
    for number, rows in expected.items():
        for own, other in zip(found[number], rows, strict=True):
            assert [(each.ids, each.finished) for each in own] == [
                (each.ids, each.finished) for each in other
            ]
            for name in ("score", "ranking"):
                values = [[getattr(each, name) for each in row] for row in (own, other)]
                np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stop", ["full", "exact", "estimate"])
@pytest.mark.parametrize("penalty", [1.0, 0.0, -0.7, 2.5])
@pytest.mark.parametrize(("beam", "n_best"), [(1, 1), (2, 2), (4, 1), (5, 3)])
def test_c_finds_what_the_definition_finds(beam, n_best, penalty, stop):
    config = DecodeConfig(beam=beam, n_best=n_best, length_penalty=penalty, stop=stop, maximum=30)
    ended = 0
    for seed in range(6):
        groups = BeamGroups(model(seed=seed))
        found = searched(groups, config, seed=seed)
        same(found, searched(groups, config, seed=seed, by_c=False))
        ended += sum(each.finished for rows in found.values() for row in rows for each in row)
    assert ended > 20


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none", "index"])
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize("few", [1, 12])
def test_whatever_the_model_and_however_batches_join(make, positions, few):
    groups = BeamGroups(model(make, positions), kept=torch.float16 if make is quantize else torch.float32)
    config = DecodeConfig(beam=3, n_best=2, maximum=25, minimum=4)
    for seed in range(4):
        found = searched(groups, config, seed=seed, few=few)
        assert all(
            len(each.ids) >= 4 for rows in found.values() for row in rows for each in row if each.finished
        )
        same(found, searched(groups, config, seed=seed, few=few, by_c=False))


def test_long_searches_outgrow_their_grids_and_close_up(monkeypatch):
    widened, closed = [], []
    widen, close = BeamGroupState.widen, native.Books.close
    monkeypatch.setattr(BeamGroupState, "widen", lambda self, most: widened.append(most) or widen(self, most))
    monkeypatch.setattr(native.Books, "close", lambda self: closed.append(self.rows) or close(self))
    groups, config = BeamGroups(model(seed=3)), DecodeConfig(beam=6, maximum=40, stop="exact")
    found = searched(groups, config, seed=9)
    assert widened
    assert closed
    same(found, searched(groups, config, seed=9, by_c=False))


def test_it_is_told_when_a_source_is_done_and_who_hung_up_is_given_up():
    groups, config = BeamGroups(model()), DecodeConfig(beam=3, maximum=30)

    def heard(by_c: bool) -> tuple[list[int], list[list[Hypothesis]]]:
        order: list[int] = []
        gone: set[int] = set()
        torch.manual_seed(5)
        lengths = [5, 7, 4, 9]
        state = groups.start(torch.randint(3, VOCABULARY, (sum(lengths),)), Layout.of(lengths))

        def told(source: int, found: list[Hypothesis]) -> None:
            order.append(source)
            if len(order) == 1:
                gone.update({0, 1, 2, 3} - {source, max({0, 1, 2, 3} - {source})})

        request = check(
            groups, state, [[START]] * 4, end=END, config=config, maximums=[3, 30, 30, 30], suppressed=(),
            keys=None, told=told, gone=gone,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            if not by_c:
                patch.setattr("regard.decode.relay.BookedSearch", Never)
            [(_, found)] = relay(groups, iter([0]), lambda _: request, 1)
        return order, found

    (order, found), (expected, theirs) = heard(True), heard(False)
    assert order == expected
    assert len(order) == 4
    same({0: found}, {0: theirs})


def test_what_it_cannot_do_is_searched_by_the_definition():
    groups = BeamGroups(model())

    def serves(stepper=groups, end=END, **settings) -> bool:
        config = DecodeConfig(**{"beam": 3, "maximum": 5, **settings.pop("config", {})})
        state = groups.start(torch.tensor([4, 5]), Layout.of([2]))
        given = {"maximums": None, "suppressed": (), "keys": None, **settings}
        return BookedSearch.serves(check(stepper, state, [[START]], end=end, config=config, **given))

    assert serves()
    assert not serves(config={"method": "greedy"})
    assert not serves(config={"no_repeat": 2})
    assert not serves(config={"repetition_penalty": 1.2})
    assert not serves(config={"beam": VOCABULARY})
    assert not serves(config={"beam": native.WIDEST + 1})
    assert not serves(end=(END, 5))
    assert not serves(suppressed=(END,))
    assert not serves(phrases=[[[5, 6]]])
    assert not serves(stepper=groups.model)
    with watched():
        assert not serves()
    with torch.enable_grad():
        assert not serves()
    for part in (groups.model.decoder.head, groups.model.decoder.embedding.tokens):
        with part.register_forward_hook(lambda *_: None):
            assert not serves()
    assert not BeamGroups(model(positions="rotary")).passes
    plain = Seq2Seq(seq2seq(transformer(), "sinusoidal")).eval()
    groups = BeamGroups(plain)
    assert not serves(stepper=groups)


def test_a_hook_in_the_middle_is_told():
    groups = BeamGroups(model())
    state = groups.start(torch.tensor([4, 5, 6]), Layout.of([3]))
    request = check(
        groups,
        state,
        [[START]],
        end=END,
        config=DecodeConfig(beam=2),
        maximums=None,
        suppressed=(),
        keys=None,
    )
    search = BookedSearch(request)
    with (
        groups.model.decoder.head.register_forward_hook(lambda *_: None),
        pytest.raises(ValueError, match="in the middle of a search"),
    ):
        BookedSearch.step(groups, [search])


def test_scores_that_are_no_numbers_are_told():
    own = model()
    own.decoder.embedding.tokens.weight[7] = torch.nan
    groups = BeamGroups(own)
    with pytest.raises(ValueError, match="no numbers"):
        searched(groups, DecodeConfig(beam=VOCABULARY // 2 - 1, maximum=10, minimum=9))


def test_positions_that_were_not_learned_are_refused():
    groups = BeamGroups(model(positions="learned"))
    state = groups.start(torch.tensor([4, 5, 6]), Layout.of([3]))
    config = DecodeConfig(beam=2, minimum=200, maximum=200)
    request = check(groups, state, [[START]], end=END, config=config, maximums=None, suppressed=(), keys=None)
    with pytest.raises(ValueError, match="positions were learned for"):
        list(relay(groups, iter([0]), lambda _: request, 1))


def test_books_are_given_back(monkeypatch):
    """As many as were made."""
    made = library()
    freed, began = [], []
    new, free = made.books_new, made.books_free
    functions = native._functions()

    class Counted:
        def __getattr__(self, name):
            return getattr(functions, name)

        def books_new(self, *given):
            began.append(new(*given))
            return began[-1]

        def books_free(self, address):
            freed.append(address)
            free(address)

    counted = Counted()
    monkeypatch.setattr(native, "_functions", lambda: counted)
    searched(BeamGroups(model()), DecodeConfig(beam=3, maximum=8))
    assert len(began) == 3
    assert sorted(freed) == sorted(began)


def test_books_refuse_what_they_cannot_keep():
    groups = BeamGroups(model())
    state = groups.start(torch.tensor([4, 5, 6]), Layout.of([2, 1]))
    settings = {"n_best": 1, "end": END, "stop": "full", "minimum": 0, "penalty": 1.0}
    ones = np.ones(2, dtype=np.int64)
    arrays = {"maximums": ones, "hidden": ones[:0], "prefixes": ones, "keys": ones, "grids": state.grids()}
    with pytest.raises(ValueError, match=r"search with decode/beam\.py"):
        native.Books(beam=native.WIDEST + 1, **settings, **arrays)
    books = native.Books(beam=2, **settings, **arrays)
    with pytest.raises(ValueError, match="scores of 2 rows"):
        books.begin(torch.zeros(3, VOCABULARY))
    with pytest.raises(IndexError, match="source 2 of 2"):
        books.give_up(2)
    with pytest.raises(MemoryError):
        native.checked(-1)
    assert books.present().tolist() == [0, 1]
