"""For every family: the search is what the whole forward pass says, alone and in company."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.layout import Layout
from tests.decode.models import END, START, everything, language_model, translator
from tests.models.families import BODIES, VOCABULARY

pytestmark = pytest.mark.usefixtures("unchecked")  # tests/models check the shapes of the same steps
FAMILIES = pytest.mark.parametrize("family", BODIES.values(), ids=BODIES.keys())
FEW = pytest.mark.parametrize(
    "family",
    [BODIES[name] for name in ("transformer, rotary", "lstm, additive")],
    ids=["transformer", "lstm"],
)
SOURCES = [[3, 7, 4], [5], [9, 9, 8, 3, 6, 12, 4], [6, 11], [4, 8, 15, 13]]
PREFIXES = [[START], [START, 6, 3], [START], [START, 5], [START]]
METHODS = {
    "beam": DecodeConfig(beam=4, n_best=3, maximum=9, stop="exact"),
    "beam, full": DecodeConfig(beam=4, n_best=2, maximum=9, stop="full", no_repeat=2),
    "greedy": DecodeConfig(method="greedy", maximum=9),
    "sample": DecodeConfig(method="sample", n_best=3, maximum=9, top_p=0.9, repetition_penalty=1.2),
}
SIMPLE = ["beam", "greedy", "sample"]


@pytest.mark.spec("3.6c")
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, -0.5])
@pytest.mark.parametrize("prefix", [[START], [START, 3, 0]], ids=["free", "forced"])
@FEW
def test_a_beam_wide_enough_finds_what_a_search_through_everything_finds(family, prefix, penalty):
    model = translator(family, vocabulary=4)
    model.model.double()
    sources = [[3, 0, 1], [3]]
    config = DecodeConfig(beam=400, n_best=20, length_penalty=penalty, maximum=4, stop="exact")
    found = decode(model, model.start(sources), [prefix, prefix], end=END, config=config)
    for source, hypotheses in zip(sources, found, strict=True):
        scored = everything(model, source, prefix, vocabulary=4, maximum=4)
        ranked = [
            (score / (len(ids) - len(prefix) + 2) ** penalty, score, ids) for ids, score in scored.items()
        ]
        ranked.sort(key=lambda each: -each[0])
        assert [each.ids for each in hypotheses] == [ids for _, _, ids in ranked[:20]]
        assert [each.score for each in hypotheses] == pytest.approx([score for _, score, _ in ranked[:20]])
        assert [each.ranking for each in hypotheses] == pytest.approx([each[0] for each in ranked[:20]])
        assert all(each.finished for each in hypotheses)


def naive_greedy(model, source, prefix, maximum):
    ids, score = list(prefix), 0.0
    while True:
        value, token = model.log_probabilities(source, [ids])[0, -1].max(dim=0)
        if int(token) == END:
            return tuple(ids[1:]), score + float(value), True
        if len(ids) - len(prefix) == maximum:
            return tuple(ids[1:]), score, False
        ids.append(int(token))
        score += float(value)


@pytest.mark.spec("3.6c")
@FAMILIES
def test_greedy_search_takes_the_likeliest_token_of_the_whole_pass(family):
    check_greedy(translator(family))


@FEW
def test_greedy_search_serves_language_models_too(family):
    check_greedy(language_model(family))


def check_greedy(model):
    config = DecodeConfig(method="greedy", maximum=7)
    found = decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)
    for [hypothesis], source, prefix in zip(found, SOURCES, PREFIXES, strict=True):
        ids, score, finished = naive_greedy(model, source, prefix, 7)
        assert (hypothesis.ids, hypothesis.finished) == (ids, finished)
        assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.spec("3.6c")
@FAMILIES
@pytest.mark.parametrize("method", [METHODS[name] for name in SIMPLE], ids=SIMPLE)
def test_a_sentence_decodes_alike_alone_and_in_any_batch(family, method):
    model = translator(family)
    keys, maximums = [30, 31, 32, 33, 34], [9, 3, 8, 0, 7]
    orders = [range(5), [3, 0, 4], [1]]
    seen = {}
    for order in orders:
        found = decode(
            model,
            model.start([SOURCES[row] for row in order]),
            [PREFIXES[row] for row in order],
            end=END,
            config=method,
            maximums=[maximums[row] for row in order],
            suppressed=[0, START],
            keys=[keys[row] for row in order],
        )
        for row, hypotheses in zip(order, found, strict=True):
            first = seen.setdefault(row, hypotheses)
            assert [each.ids for each in hypotheses] == [each.ids for each in first]
            assert [each.finished for each in hypotheses] == [each.finished for each in first]
            assert [each.score for each in hypotheses] == pytest.approx(
                [each.score for each in first], abs=1e-4
            )
    assert len({len(each.ids) for hypotheses in seen.values() for each in hypotheses}) > 2


@pytest.mark.spec("3.6c")
@FEW
@pytest.mark.parametrize("build", [translator, language_model])
def test_a_beam_of_one_is_greedy_search(family, build):
    model = build(family)
    results = [
        decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)
        for config in (
            DecodeConfig(method="greedy", maximum=10, length_penalty=0.0),
            DecodeConfig(beam=1, maximum=10, length_penalty=0.0),
            DecodeConfig(beam=1, maximum=10, length_penalty=1.0, stop="full"),
        )
    ]
    ids = [[(each.ids, each.finished) for [each] in result] for result in results]
    assert ids[0] == ids[1] == ids[2]
    assert results[0] == results[1]


@FEW
def test_drawing_from_one_token_is_greedy_search(family):
    model = translator(family)
    greedy, drawn = (
        decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)
        for config in (
            DecodeConfig(method="greedy", maximum=10),
            DecodeConfig(method="sample", maximum=10, top_k=1),
        )
    )
    assert greedy == drawn


@pytest.mark.parametrize("penalty", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("n_best", [1, 4])
@FEW
def test_leaving_early_changes_nothing(family, n_best, penalty):
    """The n_best are the best of what comes out when nothing may leave before the maximum."""
    model = translator(family)
    config = DecodeConfig(beam=5, n_best=n_best, length_penalty=penalty, maximum=10, stop="exact")
    found = decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)
    early = sum(model.rows)
    for source, prefix, hypotheses in zip(SOURCES, PREFIXES, found, strict=True):
        expected = naive_beam(model, source, prefix, config)
        assert [each.ids for each in hypotheses] == [ids for _, ids in expected[:n_best]]
        assert [each.ranking for each in hypotheses] == pytest.approx(
            [ranking for ranking, _ in expected[:n_best]], abs=1e-4
        )
    if n_best == 1:
        assert early < 5 * 5 * 11


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("n_best", [1, 4])
@FEW
def test_an_estimate_leaves_when_the_best_that_is_live_ranks_no_better_than_the_worst_of_a_full_beam(
    family, n_best, penalty
):
    model = translator(family)
    config = DecodeConfig(beam=4, n_best=n_best, length_penalty=penalty, maximum=10, stop="estimate")
    found = decode(model, model.start(SOURCES), PREFIXES, end=END, config=config)
    for source, prefix, hypotheses in zip(SOURCES, PREFIXES, found, strict=True):
        expected = naive_beam(model, source, prefix, config)
        assert [each.ids for each in hypotheses] == [ids for _, ids in expected[:n_best]]


def naive_beam(model, source, prefix, config):
    """All hypotheses, best first, of a beam that runs to the maximum, or to where an estimate says that it is
    enough; unfinished ones come last."""
    live, finished = [(0.0, tuple(prefix))], []
    for length in range(config.maximum + 1):
        following = model.log_probabilities(source, [ids for _, ids in live])[:, -1].tolist()
        continued = [
            (score + value, (*ids, token))
            for (score, ids), values in zip(live, following, strict=True)
            for token, value in enumerate(values)
        ]
        continued.sort(key=lambda each: -each[0])
        for score, ids in continued[: config.beam]:
            if ids[-1] == END:
                finished.append((score / (length + 1) ** config.length_penalty, ids[1:-1]))
        cut = [(score / max(length, 1) ** config.length_penalty, ids[1:]) for score, ids in live]
        live = [each for each in continued if each[1][-1] != END][: config.beam]
        full = sorted((ranking for ranking, _ in finished), reverse=True)[: config.beam]
        best = live[0][0] / (length + 1) ** config.length_penalty
        if config.stop == "estimate" and len(full) == config.beam and best <= full[-1]:
            break
    ended = {ids for _, ids in finished}
    return sorted(finished, key=lambda each: -each[0]) + [each for each in cut if each[1] not in ended]


@FEW
def test_hypotheses_come_best_first_and_differ(family):
    model = translator(family)
    config = DecodeConfig(beam=6, n_best=6, maximum=8)
    for hypotheses in decode(model, model.start(SOURCES), PREFIXES, end=END, config=config):
        assert len({each.ids for each in hypotheses}) == 6
        finished = [each for each in hypotheses if each.finished]
        assert hypotheses[: len(finished)] == finished
        rankings = [each.ranking for each in finished]
        assert rankings == sorted(rankings, reverse=True)


@FEW
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_prefix_bounds_and_suppressed_ids_are_kept(family, method):
    model = translator(family, end=3.0)
    method = dataclasses.replace(method, minimum=3, maximum=6)
    suppressed = {0, START, 9, 10}
    found = decode(
        model,
        model.start(SOURCES),
        PREFIXES,
        end=END,
        config=method,
        maximums=[100, 4, 3, 5, 100],
        suppressed=suppressed,
    )
    for hypotheses, prefix, most in zip(found, PREFIXES, [6, 4, 3, 5, 6], strict=True):
        for each in hypotheses:
            forced, generated = each.ids[: len(prefix) - 1], each.ids[len(prefix) - 1 :]
            assert forced == tuple(prefix[1:])
            assert 3 <= len(generated) <= most
            assert not suppressed & set(generated)
            assert END not in generated
            assert each.finished or len(generated) == most


@FEW
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_no_n_gram_comes_twice(family, method, size):
    model = translator(family, end=-2.0)
    prefixes = [[START, 4, 4, 4, 5], *PREFIXES[1:]]
    found = decode(
        model,
        model.start(SOURCES),
        prefixes,
        end=END,
        config=dataclasses.replace(method, no_repeat=size, maximum=20),
    )
    for hypotheses, prefix in zip(found, prefixes, strict=True):
        for each in hypotheses:
            grams = [each.ids[at : at + size] for at in range(len(each.ids) - size + 1)]
            forced = len(prefix) - 1
            generated = grams[max(forced - size + 1, 0) :]
            before = grams[: max(forced - size + 1, 0)]
            assert len(set(generated)) == len(generated)
            assert not set(generated) & set(before)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_first_token_counts_where_it_is_text_and_not_where_it_is_the_end_too(method):
    model = language_model(BODIES["transformer, rotary"], end=-99.0)
    once = dataclasses.replace(method, no_repeat=1, maximum=VOCABULARY)
    for first in (4, END):
        [found] = decode(model, model.start([[]]), [[first]], end=END, config=once)
        for each in found:
            assert first not in each.ids
            assert each.finished  # when every other token had come


def test_where_no_token_is_allowed_a_hypothesis_stops_unfinished():
    model = translator(BODIES["gru, dot"], vocabulary=5)
    for method in METHODS.values():
        [hypotheses] = decode(
            model,
            model.start([[3]]),
            [[START]],
            end=END,
            config=dataclasses.replace(method, no_repeat=1, minimum=9),  # two tokens, each once
            suppressed=[0, START],
        )
        assert {each.ids for each in hypotheses} <= {(3, 4), (4, 3)}
        assert not any(each.finished for each in hypotheses)


@FEW
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_what_is_finished_leaves_the_batch(family, method):
    model = translator(family, end=0.0)
    maximums = [9, 2, 0, 1, 5]
    found = decode(model, model.start(SOURCES), PREFIXES, end=END, config=method, maximums=maximums)
    each = method.beam if method.method == "beam" else method.n_best
    assert model.rows[-1] < model.rows[1]  # some do leave
    for length, rows in enumerate(model.rows[1:], start=1):
        assert rows <= each * sum(maximum >= length for maximum in maximums)
    if method.method != "beam":
        taken = [
            len(hypothesis.ids) - len(prefix) + 1
            for hypotheses, prefix in zip(found, PREFIXES, strict=True)
            for hypothesis in hypotheses
        ]
        assert model.rows[1:] == [
            sum(length >= step for length in taken) for step in range(1, max(taken) + 1)
        ]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_any_of_several_ends_ends_a_hypothesis_and_makes_no_second_one(method):
    model = translator(BODIES["transformer, rotary"])
    found = decode(model, model.start(SOURCES), PREFIXES, end={END, 7, 9}, config=method)
    for hypotheses, prefix in zip(found, PREFIXES, strict=True):
        assert not {END, 7, 9} & {id for each in hypotheses for id in each.ids[len(prefix) - 1 :]}
        if method.method == "beam":
            assert len({each.ids for each in hypotheses}) == len(hypotheses)


def test_decoding_leaves_a_model_trainable():
    def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
        model(torch.arange(8), Layout.of([8])).square().sum().backward()
        return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}

    used, fresh = (language_model(BODIES["transformer, rotary"]) for _ in range(2))
    fresh.model.load_state_dict(used.model.state_dict())
    decode(used, used.start(SOURCES), PREFIXES, end=END, config=DecodeConfig(maximum=80, minimum=80))
    found, wanted = gradients(used.model), gradients(fresh.model)
    assert all(each.any() for each in wanted.values())
    assert_close(found, wanted)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_the_default_device_does_not_matter(method):
    model = translator(BODIES["lstm, additive"])
    settings = {"end": END, "config": method, "suppressed": [0]}
    expected = decode(model, model.start(SOURCES), PREFIXES, **settings)
    state = model.start(SOURCES)
    with torch.device("meta"):
        assert decode(model, state, PREFIXES, **settings) == expected


class Even:
    """Everything is equally likely to it."""

    def prefill(self, ids, layout, state):
        return torch.zeros(layout.sequences, 50)

    def step(self, tokens, state):
        return torch.zeros(len(tokens), 50)


@pytest.mark.parametrize(("maximum", "expected"), [(2, [(), (0,), (0, 0)]), (1, [(), (0,), (1,)]), (0, [()])])
def test_of_equals_the_earlier_row_and_the_lower_id_are_taken_and_none_comes_twice(maximum, expected):
    state = language_model(BODIES["gru, dot"]).start([[]])
    config = DecodeConfig(beam=5, n_best=3, length_penalty=0.0, maximum=maximum, stop="exact")
    [found] = decode(Even(), state, [[START]], end=END, config=config)
    assert [each.ids for each in found] == expected


def test_nothing_to_decode_is_no_error():
    model = language_model(BODIES["gru, dot"])
    assert decode(model, model.start([]), [], end=END) == []


ERRORS = {
    "give one for each row": {"prefixes": [[START]]},
    "prefix 1 is empty": {"prefixes": [[START], []]},
    "ids are 0 or more": {"prefixes": [[START], [START, -1]]},
    "3 maximums for 2 prefixes": {"maximums": [1, 2, 3]},
    "1 keys for 2 prefixes": {"keys": [1]},
    "maximums has -1": {"maximums": [1, -1]},
    "suppressed has -1": {"suppressed": [3, -1]},
    "would never come": {"end": []},
    "end=-1 would never come": {"end": -1},
}


@pytest.mark.parametrize(("message", "wrong"), ERRORS.items(), ids=ERRORS.keys())
def test_impossible_requests_are_refused(message, wrong):
    model = language_model(BODIES["gru, dot"])
    with pytest.raises(ValueError, match=message):
        decode(model, model.start([[], []]), **{"prefixes": [[START], [START]], "end": END, **wrong})


def test_scores_that_are_no_numbers_are_refused():
    for method in METHODS.values():
        model = language_model(BODIES["gru, dot"], end=float("nan"))
        with pytest.raises(ValueError, match="no numbers"):
            decode(model, model.start([[]]), [[START]], end=END, config=method, suppressed=[15])
