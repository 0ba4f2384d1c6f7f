"""Tokens as they come, and models that go on past their context."""

import dataclasses

import pytest
import torch

from regard.decode import DecodeConfig, Sliding, decode, steps
from regard.layout import Layout
from regard.models.decoder import Decoder
from tests.decode.models import END, START, Lively, language_model
from tests.models.families import BODIES, VOCABULARY, decoder

pytestmark = pytest.mark.usefixtures("unchecked")
PREFIXES = [[START], [START, 6, 3], [START, 5], [START, 9, 9, 8]]
DRAWN = DecodeConfig(method="sample", n_best=2, maximum=12, top_p=0.9)
GREEDY = DecodeConfig(method="greedy", maximum=12)


def taken(model, config, **settings):
    return steps(model, model.start(PREFIXES), PREFIXES, **{"end": END, "config": config, **settings})


@pytest.mark.parametrize("config", [DRAWN, GREEDY], ids=["sample", "greedy"])
def test_steps_make_up_what_decode_finds(config):
    model = language_model(BODIES["transformer, rotary"])
    found = decode(model, model.start(PREFIXES), PREFIXES, end=END, config=config)
    ids = {number: [] for number in range(len(PREFIXES) * config.n_best)}
    scores, ended = {}, {}
    for step in taken(model, config):
        for place, number in enumerate(step.running.tolist()):
            scores[number], ended[number] = float(step.scores[place]), bool(step.ended[place])
            if not step.ended[place] and not step.cut[place]:
                ids[number].append(int(step.tokens[place]))
    for number, each in enumerate(each for row in found for each in row):
        assert each.ids == (*PREFIXES[number // config.n_best][1:], *ids[number])
        assert (each.score, each.finished) == (scores[number], ended[number])


def test_a_sentence_that_is_stopped_leaves_the_batch_and_the_others_go_on():
    model = language_model(BODIES["transformer, rotary"], end=-9.0)
    free, seen = {}, {}
    for step in taken(model, GREEDY):
        for number, token in zip(step.running.tolist(), step.tokens.tolist(), strict=True):
            free.setdefault(number, []).append(token)
    model.rows.clear()
    for length, step in enumerate(taken(model, GREEDY)):
        for place, (number, token) in enumerate(
            zip(step.running.tolist(), step.tokens.tolist(), strict=True)
        ):
            seen.setdefault(number, []).append(token)
            step.stopped[place] = length == number  # sentence n after its token n
    assert seen == {number: tokens[: number + 1] for number, tokens in free.items()}
    assert model.rows == [4, 3, 2, 1]


def test_without_an_end_only_the_maximum_stops():
    model = language_model(BODIES["transformer, rotary"], end=99.0)
    for config in (DRAWN, GREEDY):
        found = decode(model, model.start(PREFIXES), PREFIXES, end=None, config=config)
        for prefix, row in zip(PREFIXES, found, strict=True):
            assert all(len(each.ids) == len(prefix) - 1 + 12 and not each.finished for each in row)
            assert any(END in each.ids for each in row)


def test_without_an_end_the_model_is_not_asked_what_follows_the_last_token():
    model = language_model(BODIES["transformer, rotary"])
    last = [*taken(model, GREEDY, end=None)][-1]
    assert model.rows == [4] * 12  # of the prefixes, and of every token but the last
    assert last.cut.all()
    model.rows.clear()
    found = decode(model, model.start(PREFIXES), PREFIXES, end=None, config=GREEDY, maximums=[3, 0, 3, 1])
    assert model.rows == [4, 3, 2]
    written = [len(row[0].ids) + 1 - len(prefix) for row, prefix in zip(found, PREFIXES, strict=True)]
    assert written == [3, 0, 3, 1]


def test_nothing_is_computed_between_steps_and_gradients_stay_on_there():
    model = language_model(BODIES["transformer, rotary"])
    coming = taken(model, GREEDY)
    for count in (1, 2, 3):
        next(coming)
        assert len(model.rows) == count
        assert torch.is_grad_enabled()


def test_what_has_no_steps_is_refused_at_once():
    model = language_model(BODIES["transformer, rotary"])
    with pytest.raises(ValueError, match="choose greedy or sample"):
        taken(model, DecodeConfig())
    with pytest.raises(ValueError, match="1 keys for 4 prefixes"):
        taken(model, GREEDY, keys=[3])
    with pytest.raises(ValueError, match="a beam looks for whole sentences"):
        decode(model, model.start(PREFIXES), PREFIXES, end=None)
    assert list(steps(model, model.start([]), [], end=END, config=GREEDY)) == []


class LivelyStart(Lively):
    """One that `Sliding` can start."""

    def start(self, *, rows, capacity):
        return self.model.start(rows=rows, capacity=capacity)

    @torch.no_grad()
    def after(self, ids):
        whole = torch.tensor(ids)
        return self.liven(self.model.head(self.model(whole, Layout.of([len(ids)]))[-1:]))[0]


def narrow(name: str, longest: int) -> LivelyStart:
    config = decoder(*BODIES[name])
    positions = dataclasses.replace(config.positions, longest=longest)
    return LivelyStart(Decoder(dataclasses.replace(config, positions=positions)), end=-9.0)


def naive(model: LivelyStart, prefix: list[int], longest: int, count: int) -> tuple[int, ...]:
    """Greedy search that reads the whole window anew for every token."""
    found: list[int] = []
    read = prefix if len(prefix) <= longest else prefix[-(longest // 2) :]
    for _ in range(count):
        token = int(model.after(read).argmax())
        found.append(token)
        read = [*read, token]
        read = read if len(read) <= longest else read[-(longest // 2) :]
    return tuple(found)


@pytest.mark.parametrize("longest", [2, 5, 8])
@pytest.mark.parametrize("name", ["transformer, learned", "transformer, rotary", "lstm, no attention"])
def test_past_its_context_a_model_goes_on_from_the_last_half_of_it(name, longest):
    model = narrow(name, longest)
    sliding = Sliding(model, longest)
    prefixes = [[START], [START, 6, 3], [START, 5], [START, *range(3, 15)]]
    state = sliding.start(rows=4, capacity=40)
    found = decode(sliding, state, prefixes, end=END, config=dataclasses.replace(GREEDY, maximum=21))
    for prefix, [each] in zip(prefixes, found, strict=True):
        assert each.ids == (*prefix[1:], *naive(model, prefix, longest, 21))


def test_where_there_is_room_sliding_changes_nothing_for_any_method():
    model = narrow("transformer, learned", 64)
    for config in (GREEDY, DRAWN, DecodeConfig(beam=3, n_best=3, maximum=12)):
        found = [
            decode(stepper, stepper.start(rows=4, capacity=8), PREFIXES, end=END, config=config)
            for stepper in (model, Sliding(model, 64))
        ]
        assert found[0] == found[1]


def test_beams_and_samples_slide_alike_alone_and_in_company():
    model = narrow("transformer, learned", 6)
    sliding = Sliding(model, 6)
    for config in (DecodeConfig(beam=3, n_best=2, maximum=15, stop="exact"), DRAWN):
        together = decode(
            sliding, sliding.start(rows=4, capacity=8), PREFIXES, end=END, config=config, keys=[5, 6, 7, 8]
        )
        for row, prefix in enumerate(PREFIXES):
            [alone] = decode(
                sliding, sliding.start(rows=1, capacity=8), [prefix], end=END, config=config, keys=[5 + row]
            )
            assert [each.ids for each in alone] == [each.ids for each in together[row]]
            assert all(max(each.ids, default=0) < VOCABULARY for each in alone)


def test_a_context_without_a_half_is_refused():
    with pytest.raises(ValueError, match="no half to go on from"):
        Sliding(narrow("transformer, learned", 2), 1)
