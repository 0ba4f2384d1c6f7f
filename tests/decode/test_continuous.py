"""Texts that join one another between two steps are what each is alone, whatever model and settings."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, Sliding, continuous, steps
from regard.decode.captured import CapturedStepper
from regard.decode.causal import KINDS, CausalStepper
from regard.decode.continuous import ContinuousBatch, Prompt
from regard.models.decoder import Decoder
from regard.nn.native import library
from tests.decode.models import END, START, Lively
from tests.decode.test_causal import build as build_llama
from tests.models.families import BODIES, LONG, decoder

pytestmark = pytest.mark.usefixtures("unchecked")
GREEDY = DecodeConfig(method="greedy", maximum=14)
DRAWN = DecodeConfig(method="sample", n_best=2, maximum=10, top_p=0.9, seed=3)
HOT = DecodeConfig(method="sample", maximum=9, temperature=1.7, top_k=6, minimum=4, seed=8)
SHY = DecodeConfig(method="greedy", maximum=12, no_repeat=2, repetition_penalty=1.3)
MANY = [END, *range(4, 16, 2)]
"""Ends, one of which is likely to come."""
ASKED = [
    Prompt(ids=ids, config=config, maximum=maximum, ends=ends, suppressed=[0], key=key)
    for ids, config, maximum, ends, key in [
        ([START, 6, 3], GREEDY, 14, [END], 0),
        ([START], DRAWN, 10, MANY, 5),
        ([START, 9, 9, 8, 4, 4, 7, 6, 5], HOT, 9, MANY, 6),
        ([START, 5], SHY, 3, [END], 0),
        ([START, 8, 3], DRAWN, 6, MANY, 7),
        ([START, 7, 7, 3, 3], GREEDY, 5, [], 0),
    ]
]
JOINING = [0, 0, 2, 3, 3, 6]
"""Before which step each comes."""
Told = tuple[list[int], float, bool]


class Starting(Lively):
    def start(self, *, rows, capacity):
        return self.model.start(rows=rows, capacity=capacity)


def livened(stepper):
    """Steep scores, and an end that is likely enough to come."""
    model = stepper.model if isinstance(stepper, CausalStepper) else stepper.decoder
    prefill, step, lively = stepper.prefill, stepper.step, Lively(model, end=3.0)
    stepper.prefill = lambda *given: lively.liven(prefill(*given))
    stepper.step = lambda *given: lively.liven(step(*given))
    return stepper


def alone(stepper, prompt: Prompt) -> list[Told]:
    """Tokens, score, and whether an end came, of each row."""
    found: dict[int, Told] = {}
    for step in steps(
        stepper,
        stepper.start(rows=1, capacity=4),
        [prompt.ids],
        end=prompt.ends or None,
        config=prompt.config,
        maximums=[prompt.maximum],
        suppressed=prompt.suppressed,
        keys=[prompt.key],
    ):
        parts = (step.running, step.tokens, step.scores, step.ended, step.cut)
        for row, token, score, ended, cut in zip(*(part.tolist() for part in parts), strict=True):
            ids, *_ = found.get(row, ([], 0.0, False))
            found[row] = (ids if ended or cut else [*ids, token], score, ended)
    return [found[row] for row in sorted(found)]


def together(stepper, asked=ASKED, joining=JOINING) -> list[list[Told]]:
    batch, found, number = ContinuousBatch(stepper), {}, 0
    while len(found) < len(asked) or batch.rows:
        new = [place for place, step in enumerate(joining) if step == number]
        if new:
            found.update(zip(new, batch.join([asked[place] for place in new]), strict=True))
        told = batch.step()
        assert len({*map(id, told)}) == len(told)
        number += 1
    return [
        [(row.ids[len(prompt.ids) :], row.score, row.ended) for row in found[place]]
        for place, prompt in enumerate(asked)
    ]


def check(stepper, exact: bool = False) -> set[bool]:
    """Whether rows ended, of all of them."""
    found = together(stepper)
    for prompt, rows in zip(ASKED, found, strict=True):
        wanted = alone(stepper, prompt)
        assert [row[0] for row in rows] == [row[0] for row in wanted]
        assert [row[2] for row in rows] == [row[2] for row in wanted]
        scores = [torch.tensor([row[1] for row in each], dtype=torch.float64) for each in (rows, wanted)]
        assert_close(*scores, atol=0 if exact else 1e-4, rtol=0)
    return {row[2] for rows in found for row in rows}


FAMILIES = BODIES | LONG


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_texts_that_join_are_what_each_is_alone(family):
    check(Starting(Decoder(decoder(*family)), end=3.0))


@pytest.mark.parametrize("name", ["transformer, modern", "transformer, alibi", "transformer, learned"])
def test_they_are_in_steps_of_fixed_size(name):
    assert check(livened(CapturedStepper(Decoder(decoder(*BODIES[name])).eval()))) == {False, True}


def test_they_are_where_a_step_begins_before_the_host_knows_the_last_one(monkeypatch):
    """As on CUDA."""
    early = []
    monkeypatch.setattr(continuous, "_is_apart", lambda _: True)
    monkeypatch.setattr(continuous, "on_the_way", lambda *both, check: lambda: early.append(check) or both)
    stepper = livened(CapturedStepper(Decoder(decoder(*BODIES["transformer, modern"])).eval()))
    assert check(stepper) == {False, True}
    assert early


@pytest.mark.parametrize("name", ["transformer, learned", "lstm, no attention"])
def test_they_are_where_texts_go_on_past_the_context(name):
    check(Sliding(Starting(Decoder(decoder(*BODIES[name])), end=3.0), 6))


@pytest.mark.skipif(library() is None, reason="no C here")
@pytest.mark.parametrize("bits", KINDS)
def test_they_are_to_the_bit_in_4_and_8_bits(bits):
    assert check(livened(CausalStepper(build_llama(), bits)), exact=True) == {False, True}


def test_all_rows_take_each_step_at_once_and_their_memory_is_of_those_that_are_there():
    model = Starting(Decoder(decoder(*BODIES["transformer, modern"])), end=-99.0)
    batch = ContinuousBatch(model)
    for number in range(40):
        config = DecodeConfig(method="sample", maximum=6, seed=number, temperature=1 + number / 99)
        batch.join([Prompt(ids=[START, 3 + number % 9], config=config, maximum=6, ends=[END])])
        model.rows.clear()
        batch.step()
        assert len(model.rows) == (number > 0)  # one step for all of them
    assert batch._state.rows == 7  # those with their last token are asked for the end
    assert batch._state.cache._keys.shape[1] == 8


def test_a_text_whose_scores_are_no_numbers_spoils_no_other():
    """Neither those beside it nor those that come after it, in its place."""
    model = Starting(Decoder(decoder(*BODIES["transformer, modern"])), end=-99.0)
    with torch.no_grad():
        model.model.embedding.tokens.weight[11] = math.nan
        model.model.head.weight = torch.nn.Parameter(torch.randn_like(model.model.head.weight))
    good = [Prompt(ids=[START, each], config=GREEDY, maximum=8, ends=[END]) for each in (3, 4, 5, 6)]
    bad = Prompt(ids=[START, 3, 4, 11, 5, 6, 7], config=GREEDY, maximum=8, ends=[END])
    found = together(model, [good[0], bad, good[1], good[2], good[3]], [0, 0, 0, 1, 3])
    assert [found[place] for place in (0, 2, 3, 4)] == [
        [(ids, pytest.approx(score, abs=1e-4), ended)]
        for [(ids, score, ended)] in (alone(model, prompt) for prompt in good)
    ]
    batch = ContinuousBatch(model)
    [[row], [other]] = batch.join([bad, good[0]])
    batch.step()
    assert row.broken
    assert row.over
    assert not other.broken


def test_a_prompt_that_cannot_be_read_changes_nothing_for_the_others():
    model = Starting(Decoder(decoder(*BODIES["transformer, modern"])), end=-99.0)
    batch = ContinuousBatch(model)
    [[row]] = batch.join([Prompt(ids=[START], config=GREEDY, maximum=4, ends=[END])])
    batch.step()
    with pytest.raises(IndexError):
        batch.join([Prompt(ids=[10**6], config=GREEDY, maximum=4)])
    with pytest.raises(ValueError, match="choose greedy or sample"):
        batch.join([Prompt(ids=[START], config=DecodeConfig(), maximum=4)])
    while batch.rows:
        assert batch.step() == [row]
    assert row.count == 4
