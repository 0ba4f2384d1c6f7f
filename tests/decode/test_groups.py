"""Steps of groups against the model's own, and batches that share their steps against batches alone."""

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.decode.groups import BeamGroups
from regard.decode.relay import relay
from regard.decode.search import check
from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from tests.decode.models import END, START
from tests.models.families import BODIES, VOCABULARY, seq2seq

KINDS = tuple(
    f"transformer, {kind}"
    for kind in ("sinusoidal", "learned", "rotary", "no positions", "modern", "free widths", "another scale")
)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def model(group: str = KINDS[0]) -> Seq2Seq:
    return Seq2Seq(seq2seq(*BODIES[group])).eval()


def sources(*lengths: int) -> tuple[torch.Tensor, Layout]:
    return torch.randint(3, VOCABULARY, (sum(lengths),)), Layout.of(lengths)


def prefixes(*lengths: int) -> list[list[int]]:
    return [[START, *torch.randint(3, VOCABULARY, (length - 1,)).tolist()] for length in lengths]


@pytest.mark.parametrize("group", KINDS)
def test_scores_are_those_of_the_models_own_steps_whatever_rows_are_kept(group):
    own = model(group)
    ids, layout = sources(5, 9, 3, 12)
    groups = BeamGroups(own)
    states = own.start(ids, layout), groups.start(ids, layout)
    read = prefixes(1, 3, 2, 1)
    flat = torch.tensor([id for each in read for id in each])
    laid = Layout.of([len(each) for each in read])
    assert_close(groups.prefill(flat, laid, states[1]), own.prefill(flat, laid, states[0]))
    torch.manual_seed(3)
    for _ in range(24):  # so many that groups close up and slots are written over
        rows = states[0].rows
        kept = torch.randint(0, rows, (min(7, rows + 2),)).sort().values
        for state in states:
            state.select(kept)
        tokens = torch.randint(3, VOCABULARY, (len(kept),))
        assert_close(groups.step(tokens, states[1]), own.step(tokens, states[0]), atol=1e-5, rtol=1e-4)
        assert states[1].lengths.tolist() == states[0].lengths.tolist()
        assert (states[1].rows, states[1].longest) == (states[0].rows, states[0].longest)


def test_half_precision_remembers_nearly_the_same():
    own = model()
    ids, layout = sources(5, 9, 3)
    states = (own.start(ids, layout),)
    half = BeamGroups(own, kept=torch.float16)
    state = half.start(ids, layout)
    starts, laid = torch.full((3,), START), Layout.of([1] * 3)
    assert_close(
        half.prefill(starts, laid, state), own.prefill(starts, laid, states[0]), atol=5e-3, rtol=5e-3
    )
    for _ in range(6):
        tokens = torch.randint(3, VOCABULARY, (3,))
        found, expected = half.step(tokens, state), own.step(tokens, states[0])
        assert_close(found, expected, atol=5e-3, rtol=5e-3)
    assert not torch.equal(found, expected)
    with pytest.raises(ValueError, match=r"must be torch\.float32 or torch\.float16"):
        BeamGroups(own, kept=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="groups step in float32"):
        half.step(tokens, state)


def test_no_rows_are_no_steps():
    groups = BeamGroups(model())
    state = groups.start(*sources(4, 5))
    groups.prefill(torch.full((2,), START), Layout.of([1, 1]), state)
    state.select([])
    assert groups.step(torch.zeros(0, dtype=torch.int64), state).shape == (0, VOCABULARY)


def test_a_step_for_several_batches_is_a_step_for_each():
    own = model()
    groups, rest = BeamGroups(own), (7, 2, 9)
    alone, together = [], []
    for count in (1, 5, 8):
        ids, layout = sources(*range(3, 3 + count))
        for states in (alone, together):
            states.append(groups.start(ids, layout))
            starts = torch.full((count,), START)
            groups.prefill(starts, Layout.of([1] * count), states[-1])
    for token in rest:
        tokens = [torch.full((state.rows,), token) for state in alone]
        single = [groups.step(*pair) for pair in zip(tokens, alone, strict=True)]
        joined = groups.together([*zip(tokens, together, strict=True)])
        assert_close(joined, torch.cat(single))


def test_slots_that_nobody_sees_are_written_over_and_families_close_up():
    own = model()
    groups = BeamGroups(own)
    ids, layout = sources(4, 4, 4, 4)
    state = groups.start(ids, layout)
    groups.prefill(torch.full((4,), START), Layout.of([1] * 4), state)
    for _ in range(40):
        state.select([row for row in range(0, state.rows, max(1, state.rows // 4)) for _ in range(4)][:16])
        groups.step(torch.full((state.rows,), 5), state)
    # A row sees its 41 keys; the other three of a group were written in the last step, and no others.
    assert state.asking.back.longest == 44
    state.select(range(4))
    assert state._groups == 1


@pytest.mark.parametrize(
    "config",
    [
        DecodeConfig(method="greedy", maximum=12),
        DecodeConfig(beam=3, n_best=2, maximum=12),
        DecodeConfig(method="sample", n_best=2, maximum=12),
    ],
    ids=lambda config: config.method,
)
@pytest.mark.parametrize("few", [1, 8, 100])
def test_batches_that_share_their_steps_find_what_each_finds_alone(config, few):
    own = model()
    groups = BeamGroups(own)
    lengths = [(5, 3, 8), (4,), (9, 9), (2, 6, 7, 3)]
    batches = [sources(*each) for each in lengths]

    def settings(number: int) -> dict:
        count = len(lengths[number])
        return {
            "end": END,
            "config": config,
            "suppressed": (),
            "keys": [10 * number + i for i in range(count)],
        }

    def begin(number: int):
        state = groups.start(*batches[number])
        return check(groups, state, [[START]] * state.rows, maximums=None, **settings(number))

    found = dict(relay(groups, iter(range(4)), begin, few))
    assert sorted(found) == [0, 1, 2, 3]
    for number, own_batch in enumerate(batches):
        alone = decode(own, own.start(*own_batch), [[START]] * len(lengths[number]), **settings(number))
        assert [[each.ids for each in row] for row in found[number]] == [
            [each.ids for each in row] for row in alone
        ]
        scores = [[each.score for each in row] for row in found[number]]
        assert_close(scores, [[each.score for each in row] for row in alone], atol=1e-4, rtol=1e-4)


def test_only_what_they_can_do_is_served():
    assert BeamGroups.serve(model())
    assert not BeamGroups.serve(model("gru, dot"))
    assert not BeamGroups.serve(model("transformer, relative"))
    assert not BeamGroups.serve(model("transformer, window"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not BeamGroups.serve(model())
    with pytest.raises(ValueError, match="groups are for a Transformer"):
        BeamGroups(model("gru, dot"))


@pytest.mark.usefixtures("unchecked")
def test_autocast_is_refused_before_its_numbers_are_misread():
    groups = BeamGroups(model())
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="leave autocast"):
        groups.start(*sources(4, 5))


def test_rows_stay_in_the_order_of_their_sources():
    groups = BeamGroups(model())
    state = groups.start(*sources(4, 5))
    with pytest.raises(ValueError, match="sort them"):
        state.select([1, 0])
    with pytest.raises(IndexError, match="the rows are 0 to 1"):
        state.select([2])


def test_a_prefix_goes_into_a_fresh_state_only():
    groups = BeamGroups(model())
    state = groups.start(*sources(4, 5))
    with pytest.raises(ValueError, match="3 prefixes, 2 rows"):
        groups.prefill(torch.full((3,), START), Layout.of([1, 1, 1]), state)
    with pytest.raises(ValueError, match="a prefix is empty"):
        groups.prefill(torch.full((1,), START), Layout.of([1, 0]), state)
    groups.prefill(torch.full((2,), START), Layout.of([1, 1]), state)
    with pytest.raises(ValueError, match="fresh state"):
        groups.prefill(torch.full((2,), START), Layout.of([1, 1]), state)
