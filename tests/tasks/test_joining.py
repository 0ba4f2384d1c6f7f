"""Sentences that join while others are being translated, and texts that are told as they are written."""

from collections.abc import Iterator

import numpy as np
import pytest

from regard.decode import DecodeConfig
from regard.tasks.translation.engine import Joining, TorchEngine
from regard.tasks.translation.pieces import PieceResult, number_sources
from tests.tasks import copying
from tests.tasks.language import scripted

SEARCHES = [DecodeConfig(beam=3), DecodeConfig(method="greedy"), DecodeConfig(method="sample", n_best=2)]


def pieces_of(translator, texts, options):
    sources = number_sources(texts, [None] * len(texts), [""] * len(texts), None, 1)
    return translator.plan(sources, options)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda each: each.method)
@pytest.mark.parametrize("family", ["transformer, sinusoidal", "lstm, additive"])
def test_what_joins_on_the_way_is_translated_as_alone(family: str, search: DecodeConfig) -> None:
    translator = copying.translator(family)
    options = translator.options(search)
    texts = copying.sentences(12, seed=3)
    pieces = pieces_of(translator, texts, options)
    assert isinstance(translator.engine, TorchEngine)
    with translator.ready():
        alone = [translator.decode([piece], options)[0] for piece in pieces]
    found: dict[int, PieceResult] = {}
    order: list[int] = []

    def coming() -> Iterator[Joining | None]:
        for first in range(0, 12, 3):
            batch = pieces[first : first + 3]

            def done(place: int, result: PieceResult, first: int = first) -> None:
                assert first + place not in found
                found[first + place] = result
                order.append(first + place)

            yield Joining(batch, options, done)
            yield None  # others take a step
            yield None

    with translator.ready():
        translator.engine.keep_up(coming())
    assert sorted(order) == list(range(12))
    for number, own in enumerate(alone):
        assert [each.ids for each in found[number].hypotheses] == [each.ids for each in own.hypotheses]
        np.testing.assert_allclose(
            [each.score for each in found[number].hypotheses],
            [each.score for each in own.hypotheses],
            atol=1e-4,
        )


@pytest.mark.parametrize("search", SEARCHES, ids=lambda each: each.method)
def test_a_finished_sentence_is_told_before_the_longer_ones_and_one_that_is_given_up_ends_early(
    search: DecodeConfig,
) -> None:
    translator = copying.translator()
    options = translator.options(search)
    pieces = pieces_of(translator, ["a", " ".join("abcdefgh")], options)
    lengths: list[int] = []
    gone: set[int] = set()

    def done(place: int, result: PieceResult) -> None:
        lengths.append(max(len(each.ids) for each in result.hypotheses))

    def batches(given_up: bool) -> Iterator[Joining | None]:
        yield Joining(pieces, options, done, gone)
        yield None
        if given_up:
            gone.update({0, 1})
        while True:
            if len(lengths) == 2:
                return
            yield None

    with translator.ready():
        translator.engine.keep_up(batches(given_up=False))
        whole = [*lengths]
        lengths.clear()
        translator.engine.keep_up(batches(given_up=True))
    assert whole == sorted(whole)
    assert len(lengths) == 2
    assert max(lengths) <= 2 < max(whole)


def test_texts_are_told_as_they_are_written_and_are_those_of_generate() -> None:
    generator = scripted.generator()
    prompts = ["the cat", "a dog and", "where"]
    settings = {"samples": 2, "max_tokens": 9, "seed": 4}
    whole = generator.generate(prompts, **settings)
    pieces: dict[tuple[int, int], str] = {}
    told: dict[tuple[int, int], object] = {}
    with generator.ready():
        for step in generator.write(prompts, **settings):
            for each in step:
                own = each.prompt, each.sample
                pieces[own] = pieces.get(own, "") + each.text
                if each.whole is not None:
                    assert own not in told
                    told[own] = each.whole
    for (prompt, sample), found in told.items():
        wanted = whole[prompt][sample]
        assert (found.text, found.ids, found.finished) == (wanted.text, wanted.ids, wanted.finished)
        assert pieces[prompt, sample] == wanted.text
        assert len(found.token_scores) == len(found.ids)
        if found.finished != "end":
            assert sum(found.token_scores) == pytest.approx(wanted.score, abs=1e-4)
    assert len(told) == 6


def test_a_text_that_nobody_waits_for_goes_no_further() -> None:
    generator = scripted.generator()
    with generator.ready():
        steps = generator.write(["one", "two"], max_tokens=20, seed=1)
        for each in next(steps):
            each.stopped = each.prompt == 0
        assert {each.prompt for each in next(steps)} == {1}
