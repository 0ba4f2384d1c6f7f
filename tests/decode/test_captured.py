"""Steps of fixed size are the decoder's own steps. What is captured of them on a GPU is at the end."""

import gc

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.decode.captured import FREE, SHORTEST, CapturedStepper
from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.state import State
from tests.decode.models import END, START
from tests.models.families import BODIES, LONG, VOCABULARY, decoder

STACKS = {name: family for name, family in (BODIES | LONG).items() if name.startswith("transformer")}
FAMILIES = pytest.mark.parametrize("family", STACKS.values(), ids=STACKS.keys())
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def build(family=BODIES["transformer, rotary"]) -> Decoder:
    torch.manual_seed(0)
    return Decoder(decoder(*family)).eval()


class Both:
    """A decoder and its steps of fixed size, side by side: whatever is done, their scores are the same."""

    def __init__(self, model: Decoder, rows: int) -> None:
        self.model, self.stepper = model, CapturedStepper(model)
        self.states = model.start(rows=rows, capacity=4), self.stepper.start(rows=rows, capacity=4)

    @torch.no_grad()
    def prefill(self, lengths: list[int]) -> None:
        layout = Layout.of(lengths)
        ids = torch.randint(0, VOCABULARY, (layout.tokens,))
        plain, fixed = self.states
        self._compare(self.model.prefill(ids, layout, plain), self.stepper.prefill(ids, layout, fixed))

    @torch.no_grad()
    def step(self) -> None:
        plain, fixed = self.states
        tokens = torch.randint(0, VOCABULARY, (plain.rows,))
        self._compare(self.model.step(tokens, plain), self.stepper.step(tokens, fixed))

    def select(self, rows: list[int]) -> None:
        for state in self.states:
            state.select(rows)

    def _compare(self, plain: torch.Tensor, fixed: torch.Tensor) -> None:
        assert_close(fixed, plain, **CLOSE)
        assert self.states[0].rows == self.states[1].rows
        assert self.states[0].longest == self.states[1].longest
        assert torch.equal(self.states[0].lengths, self.states[1].lengths)


@FAMILIES
def test_steps_of_fixed_size_are_the_decoders_own(family):
    both = Both(build(family), rows=3)
    both.prefill([5, 1, 3])
    for _ in range(4):
        both.step()


@FAMILIES
def test_rows_may_leave_be_repeated_and_reordered_between_steps(family):
    both = Both(build(family), rows=5)
    both.prefill([5, 1, 3, 2, 2])
    for rows in ([0, 1, 2, 3, 4], [0, 2, 3, 4, 4, 1], [0, 1, 2, 3, 5], [1, 3, 4], [2, 0, 1], [1], [0, 0, 0]):
        both.select(rows)
        both.step()
        both.step()


def test_steps_may_begin_without_a_prefix():
    both = Both(build(), rows=2)
    both.select([1, 0, 0])
    both.step()
    both.step()


def test_room_grows_past_its_power_of_two():
    both = Both(build(), rows=2)
    both.prefill([SHORTEST - 2, 3])
    for _ in range(4):
        both.step()


def test_learned_positions_end_where_they_end():
    both = Both(build(BODIES["transformer, learned"]), rows=1)
    both.prefill([63])
    both.step()
    with pytest.raises(ValueError, match="an input of 65 tokens, but positions were learned for 64"):
        both.stepper.step(torch.tensor([1]), both.states[1])


def test_scores_are_the_callers_to_keep():
    stepper = CapturedStepper(build())
    state = stepper.start(rows=2)
    first = stepper.step(torch.tensor([1, 2]), state)
    kept = first.clone()
    stepper.step(torch.tensor([3, 4]), state)
    assert torch.equal(first, kept)


def test_buffers_go_on_to_the_next_text_and_two_at_a_time_do_not_share_them():
    stepper = CapturedStepper(build())
    one, two = stepper.start(rows=2), stepper.start(rows=2)
    for state in (one, two):
        stepper.step(torch.tensor([1, 2]), state)
    assert one._slots is not two._slots
    slots = one._slots
    del one, state
    gc.collect()
    three = stepper.start(rows=2)
    alone = CapturedStepper(build())
    tokens = torch.tensor([5, 6])
    assert_close(stepper.step(tokens, three), alone.step(tokens, alone.start(rows=2)), **CLOSE)
    assert three._slots is slots


def test_few_buffers_wait():
    stepper = CapturedStepper(build())
    for number in range(FREE + 2):
        stepper.step(torch.zeros(2**number, dtype=torch.int64), stepper.start(rows=2**number))
    gc.collect()
    assert [slots.count for slots in stepper._free] == [2**number for number in range(2, FREE + 2)]


@pytest.mark.parametrize(("method", "n_best"), [("greedy", 1), ("sample", 1), ("sample", 3), ("beam", 3)])
def test_search_finds_the_same(method, n_best):
    model = build()
    config = DecodeConfig(method=method, n_best=n_best, maximum=12)
    prefixes = [[START, 5, 6], [START], [START, 9], [START, 3, 3, 3], [START, 7]]

    def found(stepper: Decoder | CapturedStepper, state: State) -> list[list[tuple[int, ...]]]:
        hypotheses = decode(stepper, state, prefixes, end=END, config=config)
        return [[each.ids for each in row] for row in hypotheses]

    fixed = CapturedStepper(model)
    expected = found(model, model.start(rows=5))
    assert len({len(ids) for row in expected for ids in row}) > 1  # rows leave at different times
    assert found(fixed, fixed.start(rows=5)) == expected


def test_bfloat16_is_a_copy_and_its_scores_are_float32():
    model = build()
    before = model.embedding.tokens.weight.clone()
    stepper = CapturedStepper(model, precision="bfloat16")
    plain, half = model.start(rows=2), stepper.start(rows=2)
    layout, ids = Layout.of([3, 2]), torch.tensor([1, 2, 3, 4, 5])
    with torch.no_grad():
        pairs = [(model.prefill(ids, layout, plain), stepper.prefill(ids, layout, half))]
        tokens = torch.tensor([6, 7])
        pairs += [(model.step(tokens, plain), stepper.step(tokens, half)) for _ in range(3)]
    for scores, rounded in pairs:
        assert rounded.dtype == torch.float32
        assert float((scores - rounded).norm() / scores.norm()) < 3e-2  # a few times 2^-8
    assert model.embedding.tokens.weight.dtype == torch.float32
    assert torch.equal(model.embedding.tokens.weight, before)
    assert stepper.decoder.head.weight is stepper.decoder.embedding.tokens.weight


def test_what_cannot_be_captured_is_refused():
    with pytest.raises(ValueError, match="recurrent"):
        CapturedStepper(build(BODIES["lstm, no attention"]))
    with pytest.raises(ValueError, match="looks at an encoder"):
        CapturedStepper(Decoder(decoder(*BODIES["transformer, rotary"]), d_memory=32).eval())
    with pytest.raises(ValueError, match=r"eval\(\)"):
        CapturedStepper(build().train())
    with pytest.raises(ValueError, match="float16"):
        CapturedStepper(build(), precision="float16")
    stepper = CapturedStepper(build())
    state = stepper.start(rows=1)
    stepper.step(torch.tensor([1]), state)
    with pytest.raises(ValueError, match="fresh state"):
        stepper.prefill(torch.tensor([1]), Layout.of([1]), state)


ON_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@ON_CUDA
@FAMILIES
@pytest.mark.parametrize(("precision", "limit"), [("float32", 1e-3), ("bfloat16", 5e-2)])
@torch.no_grad()
def test_replayed_steps_are_the_decoders_own(family, precision, limit):
    model = build(family).cuda()
    stepper = CapturedStepper(model, precision=precision)
    for _ in range(2):  # the second text replays the graphs of the first
        plain, fixed = model.start(rows=5), stepper.start(rows=5)
        layout = Layout.of([5, 1, 3, 2, 2]).to("cuda")
        ids = torch.randint(0, VOCABULARY, (13,), device="cuda")
        pairs = [(model.prefill(ids, layout, plain), stepper.prefill(ids, layout, fixed))]
        for rows in ([0, 1, 2, 3, 4], [0, 1, 3, 4], [2, 0, 1], [0], [0, 0, 0]):
            plain.select(rows)
            fixed.select(rows)
            for _ in range(2):
                tokens = torch.randint(0, VOCABULARY, (len(rows),), device="cuda")
                pairs.append((model.step(tokens, plain), stepper.step(tokens, fixed)))
        for scores, found in pairs:
            assert float((scores - found).norm() / scores.norm()) < limit
        assert torch.equal(plain.lengths, fixed.lengths)


@ON_CUDA
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
def test_a_replayed_step_asks_nothing_of_the_device():
    model = build().cuda()
    stepper = CapturedStepper(model)
    state, tokens = stepper.start(rows=2), torch.tensor([1, 2], device="cuda")
    stepper.step(tokens, state)
    torch.cuda.set_sync_debug_mode("error")
    try:
        stepper.step(tokens, state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
