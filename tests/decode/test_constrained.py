"""A beam that is held to phrases finds what a search through everything that holds them finds."""

import itertools

import pytest
import torch

from regard.decode import DecodeConfig, decode
from regard.decode.constrained import Progress
from regard.decode.search import check, run
from tests.decode.models import END, START, everything, translator
from tests.models.families import BODIES

pytestmark = pytest.mark.usefixtures("unchecked")
FAMILY = BODIES["transformer, rotary"]
SOURCES = [[3, 7, 4], [5], [9, 9, 8, 3, 6, 12, 4], [6, 11], [4, 8, 15, 13]]


def holds(ids: tuple[int, ...], phrases: list[tuple[int, ...]], inner: tuple[int, ...] = ()) -> bool:
    """Each phrase somewhere, at places that do not overlap, and nothing of `inner` behind it."""
    places = [
        [
            range(i, i + len(phrase))
            for i in range(len(ids) - len(phrase) + 1)
            if ids[i : i + len(phrase)] == phrase
            and ids[i + len(phrase) : i + len(phrase) + 1] not in [(t,) for t in inner]
        ]
        for phrase in phrases
    ]
    return any(
        len({i for own in chosen for i in own}) == sum(map(len, chosen))
        for chosen in itertools.product(*places)
    )


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("prefix", [[START], [START, 3, 0]], ids=["free", "forced"])
def test_a_wide_beam_finds_the_best_of_everything_that_holds_the_phrases(prefix, penalty):
    model = translator(FAMILY, vocabulary=4)
    model.model.double()
    sources = [[3, 0, 1], [3], [0, 3], [1]]
    phrases = [[(3, 0)], [(1,), (3, 0)], [], [(3, 3, 0)]]
    config = DecodeConfig(beam=400, n_best=5, length_penalty=penalty, maximum=4, stop="exact")
    found = decode(model, model.start(sources), [prefix] * 4, end=END, config=config, phrases=phrases)
    for source, own, hypotheses in zip(sources, phrases, found, strict=True):
        scored = everything(model, source, prefix, vocabulary=4, maximum=4)
        held = {ids: score for ids, score in scored.items() if holds(ids[len(prefix) - 1 :], own)}
        ranked = sorted(held, key=lambda ids: -held[ids] / (len(ids) - len(prefix) + 2) ** penalty)[:5]
        assert [each.ids for each in hypotheses if each.finished] == ranked
        assert len(ranked) == 5 or own == [(3, 3, 0)]


def test_no_token_that_goes_on_with_a_word_comes_behind_a_phrase():
    model = translator(FAMILY, vocabulary=4)
    config = DecodeConfig(beam=400, n_best=50, maximum=4, stop="exact")
    how = {"end": END, "config": config, "phrases": [[(3,)]]}
    free = decode(model, model.start([[3]]), [[START]], **how)
    found = decode(model, model.start([[3]]), [[START]], inner=(0, 1), **how)
    assert any(
        ids[ids.index(3) + 1 : ids.index(3) + 2] in [(0,), (1,)] for ids in (each.ids for each in free[0])
    )
    finished = [each.ids for each in found[0] if each.finished]
    assert finished
    assert all(ids[ids.index(3) + 1 : ids.index(3) + 2] not in [(0,), (1,)] for ids in finished)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_narrow_beam_holds_them_too_and_leaves_its_neighbours_alone(beam):
    model = translator(FAMILY, end=4.0)  # which ends sooner or later, whatever it was made to say
    config = DecodeConfig(beam=beam, maximum=30)
    prefixes = [[START]] * len(SOURCES)
    plain = decode(model, model.start(SOURCES), prefixes, end=END, config=config)
    phrases = [[(7, 7, 9), (5,)], [], [(3, 4, 5, 6, 7, 8)], [], [(11,), (12,), (13, 14)]]
    found = decode(model, model.start(SOURCES), prefixes, end=END, config=config, phrases=phrases)
    for own, before, hypotheses in zip(phrases, plain, found, strict=True):
        if own:
            assert hypotheses[0].finished
            assert holds(hypotheses[0].ids, own)
        else:
            assert [each.ids for each in hypotheses] == [each.ids for each in before]
            assert hypotheses[0].score == pytest.approx(before[0].score, abs=1e-4)


@pytest.mark.parametrize("maximum", [0, 1, 2, 4])
@pytest.mark.parametrize("n_best", [2, 3, 4])
@pytest.mark.parametrize("stop", ["full", "exact"])
def test_a_source_without_phrases_gets_what_it_gets_alone(maximum, n_best, stop):
    config = DecodeConfig(beam=4, n_best=n_best, maximum=maximum, stop=stop)
    for end in (0.0, 2.0, 4.0):
        model = translator(FAMILY, end=end)
        prefixes = [[START]] * len(SOURCES)
        plain = decode(model, model.start(SOURCES), prefixes, end=END, config=config)
        how = {"end": END, "config": config, "phrases": [[(7,)], [], [(3, 4)], [], []]}
        found = decode(model, model.start(SOURCES), prefixes, **how)
        for source in (1, 3, 4):
            assert shown(found[source]) == shown(plain[source])
        for hypotheses in found:
            assert len({each.ids for each in hypotheses}) == len(hypotheses)


def shown(hypotheses):
    return [(each.ids, each.finished, pytest.approx(each.score, abs=1e-4)) for each in hypotheses]


@pytest.mark.parametrize("phrases", [[[(5,)], []], [[], []]], ids=["phrases", "none"])
def test_a_source_that_cannot_go_on_is_told_once(phrases):
    """Every token is forbidden behind the first: nothing follows, and nothing is finished."""
    model = translator(FAMILY, vocabulary=8)
    told = []
    request = check(
        model,
        model.start([[3, 4], [5]]),
        [[START], [START]],
        end=END,
        config=DecodeConfig(beam=3, n_best=2, minimum=9, maximum=9),
        maximums=None,
        suppressed=range(8),
        keys=None,
        told=lambda source, hypotheses: told.append((source, [each.finished for each in hypotheses])),
        phrases=phrases,
    )
    with torch.no_grad():
        found = run(request)
    assert told == [(0, [False]), (1, [False])]
    assert [[each.ids for each in own] for own in found] == [[()], [()]]


def test_what_the_maximum_leaves_no_room_for_is_not_finished():
    model = translator(FAMILY)
    how = {"end": END, "config": DecodeConfig(beam=3, maximum=3)}
    (found,) = decode(model, model.start([[5]]), [[START]], phrases=[[(5, 6, 7, 8)]], **how)
    assert [each.finished for each in found] == [False]


def test_a_phrase_that_is_broken_off_may_begin_again_within():
    state = Progress(((3, 3, 0),))
    for token, column in ((3, 1), (3, 2), (3, 2), (0, 3)):
        state = state.after(token)
        assert state.column == column
    assert state.whole
    assert Progress(((3, 4), (5,))).after(3).after(5).done == {1}


def test_what_cannot_be_held_is_refused():
    model = translator(FAMILY)
    with pytest.raises(ValueError, match="method='greedy' cannot be held to phrases"):
        decode(
            model,
            model.start([[5]]),
            [[START]],
            end=END,
            config=DecodeConfig(method="greedy"),
            phrases=[[(5,)]],
        )
    with pytest.raises(ValueError, match="a phrase without tokens"):
        decode(model, model.start([[5]]), [[START]], end=END, phrases=[[()]])
    for phrase, inner, what in (
        ((40,), (), "phrases has 40"),
        ((5, -1), (), "phrases has -1"),
        ((5,), (16,), "inner has 16"),
    ):
        with pytest.raises(ValueError, match=f"{what}: the ids of this model are 0 to 15"):
            decode(model, model.start([[5]]), [[START]], end=END, phrases=[[phrase]], inner=inner)
    with pytest.raises(ValueError, match="2 phrases for 1 prefixes"):
        decode(model, model.start([[5]]), [[START]], end=END, phrases=[[], []])
