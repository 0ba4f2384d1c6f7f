import gzip
import itertools
import lzma
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.data.batches import Plan, prefetch
from regard.data.packing import pack
from regard.settings.training import BatchConfig

CORPORA = st.integers(1, 3).flatmap(
    lambda sides: st.lists(st.tuples(*[st.integers(0, 12)] * sides), min_size=1, max_size=40)
)
"""Examples of one to three sides, by their lengths."""


def corpus(examples: int = 500, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    source = random.integers(2, 40, examples)
    return [source, np.maximum(2, source + random.integers(-5, 6, examples))]


def plan(examples: int = 500, **config: int) -> Plan:
    return Plan(corpus(examples), BatchConfig(**{"tokens": 256, **config}))


def listed(plan: Plan, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in plan.epoch(epoch)]


def too_long(lengths: np.ndarray, tokens: int) -> bool:
    """Whether an example is longer than its side's share of the budget, in proportion to the larger side."""
    totals = np.maximum(lengths.sum(axis=1), 1)
    share = np.ceil(min(tokens, totals.max()) * totals / totals.max())
    return bool(
        (lengths.max(axis=1) > np.where(share > 64, np.minimum(tokens, -(-share // 8) * 8), share)).any()
    )


@settings(max_examples=60)
@given(CORPORA, st.integers(12, 200), st.integers(0, 3))
def test_every_example_is_in_exactly_one_batch_and_no_batch_is_over_budget(
    examples: list[tuple[int, ...]], tokens: int, epoch: int
) -> None:
    lengths = np.array(examples).T
    if too_long(lengths, tokens):
        with pytest.raises(ValueError, match=r"raise batch\.tokens"):
            Plan(list(lengths), BatchConfig(tokens=tokens))
        return
    plan = Plan(list(lengths), BatchConfig(tokens=tokens))
    batches = plan.epoch(epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(examples)))
    assert plan.slots.max() <= tokens
    shapes = plan.shapes()
    for batch in batches:
        assert len(batch)
        for side, shape in zip(lengths, shapes, strict=True):
            assert side[batch].sum() <= shape.slots <= tokens
            pack([[1] * length for length in side[batch]], shape)  # or an error


@settings(max_examples=30)
@given(st.integers(1, 3000))
@example(65)
@example(100)
@example(2047)
def test_a_corpus_smaller_than_the_budget_is_one_batch(tokens: int) -> None:
    alone = Plan([[tokens]], BatchConfig(tokens=4096))
    assert listed(alone, 0) == [[0]]
    assert Plan([[tokens]], BatchConfig(tokens=tokens)).epoch(0)[0].tolist() == [0]
    halves = Plan([[tokens - tokens // 2, tokens // 2], [1, tokens]], BatchConfig(tokens=4096))
    assert len(halves.epoch(0)) == 1


def test_a_budget_that_is_no_multiple_of_eight_is_kept() -> None:
    for tokens in range(60, 140, 7):
        assert plan(200, tokens=tokens).slots.max() <= tokens


@pytest.mark.parametrize(
    "lengths", [[[1]], [[0]], [[0, 0], [0, 0]], [[3, 4], [0, 0]], [[1] * 7], [[5], [0], [9]]]
)
def test_tiny_and_empty_examples_make_batches_too(lengths: list[list[int]]) -> None:
    for tokens in (9, 4096):
        plan = Plan(lengths, BatchConfig(tokens=tokens))
        assert sorted(np.concatenate(plan.epoch(0))) == list(range(len(lengths[0])))
        for batch in plan.epoch(0):
            for side, shape in zip(lengths, plan.shapes(), strict=True):
                pack([[1] * side[index] for index in batch], shape)


def test_batches_are_a_pure_function_of_seed_epoch_and_step_in_whatever_order_they_are_asked_for() -> None:
    forwards, backwards = plan(parts=3, seed=5), plan(parts=3, seed=5)
    places = [(epoch, step) for epoch in range(4) for step in range(forwards.steps(epoch))]
    one = {place: [batch.tolist() for batch in forwards.batches(*place)] for place in places}
    other = {place: [batch.tolist() for batch in backwards.batches(*place)] for place in reversed(places)}
    assert one == other


def test_a_fresh_process_with_another_hash_seed_makes_the_same_batches() -> None:
    code = (
        "import numpy as np\n"
        "from regard.data.batches import BatchConfig, Plan\n"
        "source = np.random.default_rng(0).integers(2, 40, 500)\n"
        "plan = Plan([source, source[::-1]], BatchConfig(tokens=256, seed=3))\n"
        "print([batch.tolist() for batch in plan.epoch(2)])\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    source = np.random.default_rng(0).integers(2, 40, 500)
    here = Plan([source, source[::-1]], BatchConfig(tokens=256, seed=3))
    assert said == f"{listed(here, 2)}\n"


def test_another_seed_or_epoch_is_another_order_and_other_neighbours() -> None:
    first = plan(seed=0)
    sets = [
        {frozenset(batch) for batch in listed(one, epoch)}
        for one, epoch in ((first, 0), (first, 1), (plan(seed=1), 0), (plan(seed=1), 1))
    ]
    for one, other in itertools.combinations(sets, 2):
        assert len(one & other) < 0.5 * len(one)


def test_the_order_of_batches_says_nothing_about_length() -> None:
    one = plan(5000)
    means = np.array([one.lengths[0][batch].mean() for batch in one.epoch(0)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.2


def test_examples_of_like_length_come_together() -> None:
    one = plan(5000)
    spread = np.mean([np.std(one.lengths[0][batch]) for batch in one.epoch(0)])
    assert spread < 0.4 * np.std(one.lengths[0])


def test_the_examples_of_a_batch_are_ordered_by_length() -> None:
    one = plan()
    for batch in one.epoch(0):
        lengths = [(int(one.lengths[1][index]), int(one.lengths[0][index])) for index in batch]
        assert lengths == sorted(lengths)


@pytest.mark.parametrize("examples", [3, 40, 500])
def test_any_number_of_ranks_sees_the_same_examples_in_a_step(examples: int) -> None:
    one = plan(examples, parts=4)
    for step in range(one.steps(0)):
        whole = [batch.tolist() for batch in one.batches(0, step)]
        for ranks in (1, 2, 4):
            shares = [one.batches(0, step, rank, ranks) for rank in range(ranks)]
            assert sorted(batch.tolist() for share in shares for batch in share) == sorted(whole)
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_steps_of_an_epoch_hold_all_its_batches_in_order() -> None:
    one = plan(parts=3)
    stepped = [batch.tolist() for step in range(one.steps(1)) for batch in one.batches(1, step)]
    assert stepped == listed(one, 1)
    assert all(len(one.batches(1, step)) == 3 for step in range(one.steps(1) - 1))


def test_locate_is_the_inverse_of_counting_steps() -> None:
    one = plan(parts=3)
    counted = [(epoch, step) for epoch in range(5) for step in range(one.steps(epoch))]
    assert [one.locate(number) for number in range(len(counted))] == counted
    assert plan(parts=3).locate(len(counted) - 1) == counted[-1]


def test_asking_where_a_late_step_is_costs_its_epochs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[int] = []
    order = Plan._order
    monkeypatch.setattr(Plan, "_order", lambda self, epoch: orders.append(epoch) or order(self, epoch))
    one = plan(5000)
    late = sum(one.steps(epoch) for epoch in range(20))
    orders.clear()
    for step in range(late, late + 20):
        assert one.locate(step) == (20, step - late)
    assert orders == [20]


def test_steps_that_are_not_there_and_ranks_that_do_not_divide_are_errors() -> None:
    one = plan(parts=4)
    steps = one.steps(0)
    for step in (-1, steps):
        with pytest.raises(IndexError, match=f"{steps} steps; there is no step {step}"):
            one.batches(0, step)
    with pytest.raises(IndexError, match="there is no step -1"):
        one.locate(-1)
    with pytest.raises(ValueError, match=r"3 ranks .*batch.parts=4 .*multiple of 3"):
        one.batches(0, 0, 0, 3)
    for rank, ranks in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match=f"rank={rank}"):
            one.batches(0, 0, rank, ranks)


def test_shapes_bound_every_batch_of_several_epochs() -> None:
    for tokens in (200, 1000):
        one = plan(tokens=tokens)
        shapes = one.shapes()
        assert len({shape.sequences for shape in shapes}) == 1  # a pair's two sides count alike
        for epoch in range(4):
            for batch in one.epoch(epoch):
                for side, shape in zip(one.lengths, shapes, strict=True):
                    packed = pack([np.ones(length, dtype=np.uint16) for length in side[batch]], shape)
                    assert packed.layout.tokens == shape.slots
                    assert packed.layout.sequences == shape.sequences


def test_a_too_long_example_is_an_error_with_example_side_value_and_remedy() -> None:
    with pytest.raises(
        ValueError, match=r"example 2 has 70 tokens on side 1.* raise batch.tokens, or shorten"
    ) as e:
        Plan([[9] * 50, [9, 9, 70, *[9] * 47]], BatchConfig(tokens=64))
    assert "64 slots" in str(e.value)


@pytest.mark.parametrize("lengths", [[[]], [[], []]])
def test_an_empty_corpus_is_an_error(lengths: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="no examples"):
        Plan(lengths, BatchConfig())


@pytest.mark.parametrize("lengths", [[], [3, 4, 5], [[1, 2], [1]], [[[1, 2]]]])
def test_sides_that_do_not_match_are_an_error_with_their_shapes(lengths: list[object]) -> None:
    with pytest.raises(ValueError, match=r"shapes .* one list for each side"):
        Plan(lengths, BatchConfig())  # type: ignore[arg-type]


def test_lengths_are_whole_numbers_of_0_or_more() -> None:
    with pytest.raises(ValueError, match="example 1 has -2 tokens on side 0: give lengths of 0 or more"):
        Plan([[3, -2]], BatchConfig())
    with pytest.raises(TypeError, match="lengths of type float64 are no counts of tokens"):
        Plan([[3, 2.5]], BatchConfig())


def test_epochs_count_from_0() -> None:
    with pytest.raises(IndexError, match="there is no epoch -1: they count from 0"):
        plan().batches(-1, 0)


@pytest.mark.parametrize("name", ["tokens", "parts", "seed"])
def test_a_configuration_is_in_whole_numbers(name: str) -> None:
    with pytest.raises(TypeError, match=rf"batch\.{name}=4096\.5 is no whole number"):
        BatchConfig(**{name: 4096.5})  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [{"tokens": 0}, {"parts": 0}, {"seed": -1}])
def test_an_impossible_configuration_is_an_error_at_birth(config: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"batch.{next(iter(config))}="):
        BatchConfig(**config)


def efficiency(one: Plan, epoch: int) -> float:
    """Real tokens for each slot."""
    real = slots = 0
    for batch in one.epoch(epoch):
        for side, shape in zip(one.lengths, one.shapes(), strict=True):
            real += int(side[batch].sum())
            slots += shape.slots
    return real / slots


def lengths_of(path: Path, lines: int) -> np.ndarray:
    """About what a subword tokenizer gives."""
    opened = gzip.open if path.suffix == ".gz" else lzma.open
    with opened(path, "rt", encoding="utf-8") as file:
        return np.array([int(1.2 * len(line.split())) + 2 for line in itertools.islice(file, lines)])


@pytest.mark.parametrize("files", ["multi30k/train.{}.gz", "europarl/train.{}.xz"])
def test_real_data_leaves_few_slots_empty(shared_data: Path, files: str) -> None:
    english, german = (lengths_of(shared_data / files.format(language), 30_000) for language in ("en", "de"))
    for tokens in (4096, 8192, 25_000):
        for sides in ([english], [german], [english, german]):
            one = Plan(sides, BatchConfig(tokens=tokens))
            assert np.mean([efficiency(one, epoch) for epoch in range(3)]) >= 0.97


def jobs(count: int, pause: float = 0.0) -> Iterator[Callable[[], int]]:
    def job(number: int) -> int:
        time.sleep(pause * (number % 3))  # later ones may be done sooner
        return number * number

    return ((lambda number=number: job(number)) for number in range(count))


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("regard-batches")]


@pytest.mark.parametrize("workers", [0, 1, 2, 7])
@pytest.mark.parametrize("ahead", [0, 1, 4, 100])
def test_any_number_of_workers_gives_the_same_results_in_the_same_order(workers: int, ahead: int) -> None:
    assert list(prefetch(jobs(30, 0.0005), workers, ahead)) == [number * number for number in range(30)]
    assert list(prefetch(jobs(0), workers, ahead)) == []
    assert running() == []


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("where", ["job", "jobs"])
def test_an_exception_reaches_the_caller_at_its_place(workers: int, where: str) -> None:
    def failing() -> Iterator[Callable[[], int]]:
        yield from jobs(5)
        if where == "jobs":
            raise KeyError("five")
        yield lambda: {}["five"]
        yield from jobs(100)

    results = prefetch(failing(), workers)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(KeyError, match="five"):
        next(results)
    assert running() == []


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_results_nobody_waits_for_leave_no_thread_behind(taken: int) -> None:
    results = prefetch(jobs(1000, 0.001), workers=3)
    for _ in range(taken):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert running() == []


def test_only_a_few_results_are_made_ahead_of_an_endless_source() -> None:
    asked = itertools.count()
    endless = ((lambda: next(asked)) for _ in itertools.count())
    results = prefetch(endless, workers=2, ahead=3)
    for number in range(10):
        next(results)
        assert next(asked) <= 2 * number + 6  # this counts itself, too
    results.close()  # type: ignore[attr-defined]


def test_workers_work_while_the_caller_is_busy() -> None:
    meeting = threading.Barrier(2, timeout=10)  # two jobs must be under way at once, or this fails
    assert len(list(prefetch((meeting.wait for _ in range(4)), workers=2))) == 4
