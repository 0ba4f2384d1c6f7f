"""Prompts of all callers are written together: nobody waits for another's end, and each has its own text."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from regard.decode import DecodeConfig
from regard.serve import writing
from regard.serve.asking import _to_its_end
from regard.serve.limits import Limits
from regard.serve.line import LateError, RefusedError, Work
from regard.serve.metrics import Metrics
from regard.serve.service import Service
from regard.serve.writing import GeneratorLane, Writing
from regard.tasks.language.batch import TextBatch
from regard.tasks.language.generator import SAMPLING, Generator
from regard.text import DataError
from tests.serve.server import apart
from tests.tasks.language.scripted import generator

LONG = 30_000
"""Tokens that nobody waits for."""


def endless() -> Generator:
    """A model whose texts do not end."""
    return generator(ends=-99.0, positions="rotary")


def work(prompt: str = "The cat", caller: str = "a", key: int = 0, **settings: Any) -> Work:
    return Work(Writing(prompt, tuple(settings.items()), key), None, 20, caller, time.monotonic() + 60)


@contextmanager
def running(predictor: Generator, *works: Work) -> Iterator[GeneratorLane]:
    """A lane at which these wait when it begins."""
    lane = GeneratorLane(predictor, "m", Limits(), Metrics())
    for each in works:
        lane.line.put(each)
    lane.start()
    yield lane
    lane.close(20)
    assert not lane._threads[0].is_alive()
    assert lane.line.tokens == 0


def test_requests_with_settings_of_their_own_take_their_steps_together(monkeypatch):
    told: list[int] = []
    step = TextBatch.step
    monkeypatch.setattr(TextBatch, "step", lambda batch: told.append(len(found := step(batch))) or found)
    predictor = generator(ends=1.0, positions="rotary")
    asked: list[dict[str, Any]] = [
        {"seed": 1, "max_tokens": 9},
        {"decoding": DecodeConfig(method="greedy"), "max_tokens": 12},
        {"seed": 3, "samples": 3, "max_tokens": 5},
        {"seed": 4, "stop": ("e",), "max_tokens": 20},
        {"decoding": DecodeConfig(method="sample", temperature=1.4, top_k=5), "seed": 5, "max_tokens": 30},
    ]
    works = [work(caller=str(number), **each) for number, each in enumerate(asked)]
    with running(predictor, *works) as lane:
        for each in asked:
            lane.line.put(late := work(caller="late", **each))
            works.append(late)
        found = [each.answer.result(60) for each in works]
    for settings, texts in zip(asked * 2, found, strict=True):
        wanted = predictor.generate("The cat", keys=[0], **settings)
        assert [(each.text, each.finished) for each in texts] == [
            (each.text, each.finished) for each in wanted
        ]
    assert max(told) >= 7


def test_a_short_text_of_another_is_there_before_long_ones_that_came_first(
    monkeypatch,
):
    monkeypatch.setattr(writing, "ROWS", {"cpu": 8})
    long = [work(caller="a", max_tokens=LONG) for _ in range(20)]
    with running(endless(), *long) as lane:
        lane.line.put(short := work(caller="b", max_tokens=2))
        assert len(short.answer.result(60)[0].ids) == 2
        assert not any(each.answer.done() for each in long)
        begun = sum(each.begun for each in long)
        assert 8 <= begun < 20  # the others wait: they are of one who has enough
        lane.line.put(last := work(caller="a", max_tokens=2))
        for each in long:
            lane.line.leave(each)
        assert len(last.answer.result(60)[0].ids) == 2  # who hangs up makes room


def test_what_is_wrong_with_one_is_told_to_it_alone():
    predictor = generator(ends=-99.0)  # of 64 positions
    good, bad, worse = work(max_tokens=9), work("The cat " * 200, max_tokens=9), work("The", top_k=3)
    with running(predictor, good, bad, worse):
        assert len(good.answer.result(60)[0].ids) == 9
        assert isinstance(bad.answer.exception(60), DataError)
        assert isinstance(worse.answer.exception(60), TypeError)


def test_a_lane_goes_on_when_a_batch_has_failed(monkeypatch):
    step, count = TextBatch.step, 0

    def failing(batch: TextBatch) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise RuntimeError("this one")
        return step(batch)

    monkeypatch.setattr(TextBatch, "step", failing)
    with running(endless(), first := work(max_tokens=9)) as lane:
        assert "this one" in str(first.answer.exception(60))
        lane.line.put(second := work(max_tokens=9))
        assert len(second.answer.result(60)[0].ids) == 9


def service() -> Service:
    made = Service.__new__(Service)
    made.limits = Limits()
    return made


def test_at_the_deadline_a_text_is_what_is_written_by_then():
    async def ask() -> tuple[Any, list[Any]]:
        how: dict[str, Any] = {"max_tokens": LONG, "deadline": time.monotonic() + 1}
        whole = asyncio.create_task(service().generate(served, "a", "The cat", samples=2, **how))
        streamed = [each async for each in service().stream(served, "b", "two", **how)]
        return await whole, streamed

    with running(endless()) as lane:
        served: Any = SimpleNamespace(lane=lane)
        found, parts = apart(ask())
    assert [each.finished for each in found] == ["length"] * 2
    assert all(0 < len(each.ids) < LONG for each in found)
    assert parts[-1].whole.finished == "length"
    assert "".join(each.text for each in parts) == parts[-1].whole.text


def test_who_waits_until_the_deadline_without_a_token_is_told_so_in_a_stream_too():
    lane = GeneratorLane(endless(), "m", Limits(), Metrics())  # that has not begun
    served: Any = SimpleNamespace(lane=lane)

    async def ask() -> None:
        async for _ in service().stream(served, "a", "The cat", deadline=time.monotonic() + 0.1):
            raise AssertionError

    async def ask_whole() -> None:
        await service().generate(served, "a", "The cat", deadline=time.monotonic() + 0.1)

    for asking in (ask, ask_whole):
        with pytest.raises(LateError):
            apart(asking())
    assert (len(lane.line), lane.line.tokens) == (0, 0)


def test_samples_hang_on_the_seed_and_the_key_and_not_on_the_company():
    predictor = generator(positions="rotary")
    works = [work(decoding=SAMPLING, seed=7, max_tokens=8, key=key) for key in (0, 0, 1)]
    with running(predictor, *works):
        texts = [each.answer.result(60)[0].text for each in works]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, 200), (LateError("late"), 503), (RefusedError("long"), 400), (RuntimeError("wrong"), 500)],
)
def test_a_stream_is_counted_by_how_it_ends(error, status):
    async def parts() -> Any:
        yield b"one"
        yield b"two"
        if error is not None:
            raise error

    async def read(most: int) -> list[bytes]:
        coming = _to_its_end(parts(), lambda why, status: {"why": why, "status": status}, counted.append)
        found: list[bytes] = []
        async for part in coming:
            found.append(part)
            if len(found) == most:
                await coming.aclose()
        return found

    counted: list[int] = []
    found = apart(read(9))
    assert found[:2] == [b"one", b"two"]
    assert (len(found) == 3) == (error is not None)
    if error is not None:
        assert found[2] == b'data: {"why":"%s","status":%d}\n\n' % (str(error).encode(), status)
    assert counted == [status]
    apart(read(1))  # and hangs up
    assert counted == [status, 499]
