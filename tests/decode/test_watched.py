"""A beam search that is watched: the same results, and steps that tell how they came about."""

import threading

import pytest

from regard.decode import DecodeConfig, decode
from regard.decode.beam import watched
from tests.decode.models import END, START, translator
from tests.models.families import BODIES

pytestmark = pytest.mark.usefixtures("unchecked")
SOURCES = [[3, 7, 4], [5], [9, 9, 8, 3, 6, 12, 4]]
PREFIXES = [[START], [START, 6, 3], [START]]
CONFIGS = {
    "full": DecodeConfig(beam=4, n_best=3, maximum=9),
    "exact": DecodeConfig(beam=3, n_best=3, maximum=6, stop="exact"),
    "cut": DecodeConfig(beam=2, n_best=2, maximum=2, minimum=2),
}
EACH = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
FAMILIES = pytest.mark.parametrize("family", ["transformer, rotary", "lstm, additive"])


def searched(model, config):
    return decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)


def replayed(steps):
    """For each step and source, its kept continuations: (tokens, score, parent's score, finished)."""
    rows = [(tuple(prefix[1:]), 0.0) for prefix in PREFIXES]
    for step in steps:
        found, alive = [], []
        for source in range(len(SOURCES)):
            for place in range(step.tokens.shape[1]):
                if not (step.ended[source, place] or step.alive[source, place]):
                    continue
                ids, before = rows[step.rows[source, place]]
                longer, score = (*ids, int(step.tokens[source, place])), float(step.scores[source, place])
                found.append((source, longer, score, before, bool(step.ended[source, place])))
                if step.alive[source, place]:
                    alive.append((longer, score))
        yield found
        rows = alive


@EACH
@FAMILIES
def test_watching_changes_no_result(family, config):
    model = translator(BODIES[family])
    plain = searched(model, config)
    with watched() as searches:
        seen = searched(model, config)
    assert seen == plain
    assert len(searches) == 1


@EACH
@FAMILIES
def test_what_was_found_can_be_followed_through_the_steps(family, config):
    model = translator(BODIES[family])
    with watched() as searches:
        found = searched(model, config)
    every = [each for step in replayed(searches[0]) for each in step]
    ended = {(source, ids[:-1]): score for source, ids, score, _, end in every if end}
    alive = {(source, ids): score for source, ids, score, _, end in every if not end}
    for source, hypotheses in enumerate(found):
        for each in hypotheses:
            assert (ended if each.finished else alive)[source, each.ids] == each.score
    assert all(ids[-1] == END for _, ids, _, _, end in every if end)


@FAMILIES
def test_each_step_adds_the_log_probability_of_its_token(family):
    model = translator(BODIES[family])
    with watched() as searches:
        searched(model, CONFIGS["full"])
    for source, ids, score, before, _ in (each for step in replayed(searches[0]) for each in step):
        likely = model.log_probabilities(SOURCES[source], [[START, *ids[:-1]]])[0, -1]
        assert score - before == pytest.approx(float(likely[ids[-1]]), abs=1e-4)


@EACH
def test_no_more_live_on_than_the_beam_is_wide(config):
    with watched() as searches:
        searched(translator(BODIES["transformer, rotary"]), config)
    for step in searches[0]:
        assert not (step.alive & step.ended).any()
        assert step.alive.sum(dim=1).max() <= config.beam
        assert step.ended.sum(dim=1).max() <= config.beam
    assert not searches[0][-1].alive.any()


def test_only_searches_of_the_block_and_its_thread_are_seen():
    model = translator(BODIES["transformer, rotary"])
    with watched() as outer:
        searched(model, CONFIGS["cut"])
        with watched() as inner:
            searched(model, CONFIGS["cut"])
        elsewhere = threading.Thread(target=searched, args=(model, CONFIGS["cut"]))
        elsewhere.start()
        elsewhere.join()
    searched(model, CONFIGS["cut"])
    assert (len(outer), len(inner)) == (1, 1)
