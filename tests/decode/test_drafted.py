"""Guessing ahead changes no score, whatever is guessed and whatever the search takes."""

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.decode.drafted import DraftedStepper, may_draft
from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.nn.quantized import quantize
from tests.models.families import BODIES, VOCABULARY, decoder

FAMILIES = [name for name in BODIES if may_draft(Decoder(decoder(*BODIES[name])))]
PREFIX = [3, 1, 4, 1, 5]
TIGHT = {"atol": 1e-5, "rtol": 1e-5}


def build(family: str = "transformer, sinusoidal", seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    return Decoder(decoder(*BODIES[family])).eval()


def begun(stepper, capacity: int = 40):
    state = stepper.start(rows=1, capacity=capacity)
    return state, stepper.prefill(torch.tensor(PREFIX), Layout.of([len(PREFIX)]), state)


def test_most_transformers_can_be_read_in_pieces():
    assert len(FAMILIES) >= 6
    assert not any("lstm" in name or "gru" in name or "alibi" in name for name in FAMILIES)
    with pytest.raises(ValueError, match="in pieces"):
        DraftedStepper(build("gru, dot"), build("gru, dot"))


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_piece_is_as_good_as_its_steps(family):
    model = build(family)
    state, _ = begun(model)
    pieces, _ = begun(model)
    tokens = torch.randint(0, VOCABULARY, (6,))
    expected = torch.cat([model.step(token[None], state) for token in tokens])
    assert_close(model.extend(tokens[:4], pieces), expected[:4], **TIGHT)
    pieces.cache.cut(len(PREFIX) + 2)
    assert_close(model.extend(tokens[2:], pieces), expected[2:], **TIGHT)
    assert pieces.longest == state.longest


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("quick", ["itself", "another", "int8"])
@pytest.mark.parametrize("taken", ["likeliest", "random", "mixed"])
@torch.no_grad()
def test_scores_are_those_of_the_model(taken, quick, family):
    model = build(family)
    copies = {"itself": lambda: model, "another": lambda: build(family, 1), "int8": lambda: quantize(model)}
    stepper = DraftedStepper(model, copies[quick]())
    state, scores = begun(stepper)
    plain, expected = begun(model)
    chance = torch.Generator().manual_seed(3)
    for step in range(24):
        assert_close(scores, expected, **TIGHT)
        assert state.lengths.tolist() == plain.lengths.tolist()
        assert state.longest == plain.longest
        by_chance = taken == "random" or (taken == "mixed" and step % 3 == 2)
        random = torch.randint(0, VOCABULARY, (1,), generator=chance)
        token = random if by_chance else expected.argmax(dim=1)
        scores, expected = stepper.step(token, state), model.step(token, plain)


@torch.no_grad()
def test_guesses_that_come_true_cost_no_pass(monkeypatch):
    model = build()
    stepper = DraftedStepper(model, model)
    state, scores = begun(stepper)
    passes = []
    extend = model.extend
    monkeypatch.setattr(model, "extend", lambda ids, own: passes.append(len(ids)) or extend(ids, own))
    for _ in range(20):
        scores = stepper.step(scores.argmax(dim=1), state)
    exact = [length for length in passes if length > 2]
    assert sum(exact) >= 20
    assert len(exact) <= 4


@torch.no_grad()
def test_nothing_is_read_past_the_room_there_is():
    model = build("transformer, learned")
    longest = model.config.positions.longest
    config = DecodeConfig(method="greedy", maximum=longest - len(PREFIX))
    stepper = DraftedStepper(model, model)
    found = []
    for each in (model, stepper):
        state = each.start(rows=1, capacity=longest)
        found.append(decode(each, state, [PREFIX], end=None, config=config)[0][0].ids)
    assert found[0] == found[1]
    assert len(found[0]) == longest - 1


@torch.no_grad()
def test_several_rows_take_plain_steps():
    model = build()
    stepper = DraftedStepper(model, model)
    state, scores = begun(stepper)
    plain, expected = begun(model)
    for _ in range(3):
        scores, expected = (
            stepper.step(scores.argmax(dim=1), state),
            model.step(expected.argmax(dim=1), plain),
        )
    for own in (state, plain):
        own.select(torch.tensor([0, 0]))
    assert state.lengths.tolist() == plain.lengths.tolist()
    tokens = torch.tensor([1, 2])
    assert_close(stepper.step(tokens, state), model.step(tokens, plain), **TIGHT)
