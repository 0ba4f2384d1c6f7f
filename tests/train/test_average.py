from typing import Any

import pytest
import torch

from regard.settings.training import AverageConfig
from regard.train.average import Average


def walk(average: Average, values: torch.Tensor, steps: range) -> list[torch.Tensor]:
    """The weights at each step, with the average following."""
    seen = []
    for step in steps:
        average.prepare(step)
        values.copy_(torch.sin(step * torch.arange(1.0, 5.0)))
        average.follow()
        seen.append(values.clone())
    return seen


def test_the_exponential_mean_is_a_naive_loop() -> None:
    values = torch.ones(4)
    average = Average(values, AverageConfig(decay=0.7))
    mean = values.clone()
    for step, weights in enumerate(walk(average, values, range(1, 41)), start=1):
        decay = min(0.7, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * weights
    torch.testing.assert_close(average.current, mean)


@pytest.mark.parametrize("last", [1, 2, 5])
def test_the_mean_of_the_last_validations_is_that(last: int) -> None:
    values = torch.ones(4)
    average = Average(values, AverageConfig(kind="last", last=last))
    marked = []
    for round_ in range(7):
        marked += walk(average, values, range(10 * round_, 10 * round_ + 3))[-1:]
        average.mark()
        torch.testing.assert_close(average.current, torch.stack(marked[-last:]).mean(dim=0))


def test_without_a_mean_the_weights_themselves_are_current() -> None:
    values = torch.ones(4)
    average = Average(values, AverageConfig(kind="none"))
    walk(average, values, range(1, 3))
    average.mark()
    assert torch.equal(average.current, values)
    assert average.state() == {}


@pytest.mark.parametrize("kind", ["ema", "last"])
def test_a_state_that_is_stored_and_loaded_goes_on_the_same(kind: Any) -> None:
    config = AverageConfig(kind=kind, last=3, decay=0.9)
    values, others = torch.ones(4), torch.zeros(4)
    first = Average(values, config)
    for start in (1, 4):
        walk(first, values, range(start, start + 3))
        first.mark()
    second = Average(others, config)
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    others.copy_(values)
    for start in (7, 10):
        for average, vector in ((first, values), (second, others)):
            walk(average, vector, range(start, start + 3))
            average.mark()
    assert torch.equal(first.current, second.current)
    assert not torch.equal(first.current, values)


@pytest.mark.parametrize("wrong", [{"decay": 1.0}, {"decay": -0.1}, {"last": 0}, {"kind": "emma"}])
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AverageConfig(**wrong)


@pytest.mark.parametrize("kind", ["ema", "last", "none"])
def test_a_share_of_the_start_is_on_the_line_between_both(kind: Any) -> None:
    values = torch.arange(4.0)
    first = values.clone()
    plain, held = (Average(values, AverageConfig(kind=kind, start=share)) for share in (0.0, 0.25))
    for step in range(1, 4):
        plain.prepare(step)
        held.prepare(step)
        values.copy_(torch.sin(step * torch.arange(1.0, 5.0)))
        plain.follow()
        held.follow()
    plain.mark()
    held.mark()
    torch.testing.assert_close(held.current, 0.75 * plain.current + 0.25 * first)
    again = Average(torch.zeros(4), AverageConfig(kind=kind, start=0.25))
    again.load(held.state())
    assert torch.equal(again.state()["start"], first)
