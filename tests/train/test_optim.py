import math
from typing import Any

import pytest
import torch
from torch import nn

from regard.settings.training import OptimizerConfig
from regard.train.flat import FlatParameters
from regard.train.optim import FlatAdam, learning_rate
from tests.train.toys import batch, loss_of, toy, uneven

SETTINGS = OptimizerConfig(weight_decay=0.1, betas=(0.9, 0.95), eps=1e-6)


@pytest.mark.spec("3.6b")
def test_the_flat_optimizer_is_adamw_over_the_ordinary_parameters() -> None:
    flat_model, model = toy(), toy()
    flat = FlatParameters(flat_model)
    ours = FlatAdam(flat, SETTINGS)
    matrices = [model.inner.weight, model.outer.weight]
    others = [each for each in model.parameters() if not any(each is matrix for matrix in matrices)]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, betas=SETTINGS.betas, eps=SETTINGS.eps, foreach=False, fused=False)
    for step in range(1, 8):
        rate = 0.01 * step
        ours.set_rate(rate)
        for group in theirs.param_groups:
            group["lr"] = rate
        flat.zero()
        theirs.zero_grad()
        loss_of(flat_model)(batch(12, step)).loss.backward()
        loss_of(model)(batch(12, step)).loss.backward()
        ours.step()
        theirs.step()
    assert ours.updates == 7
    for (name, one), other in zip(flat_model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, msg=name)


def test_each_part_goes_at_its_factor_of_the_rate() -> None:
    flat_model, model = toy(), toy()
    flat = FlatParameters(flat_model, factor=uneven)
    ours = FlatAdam(flat, SETTINGS)
    matrices = ("inner.weight", "outer.weight")
    groups = [
        {"params": [each], "weight_decay": 0.1 if name in matrices else 0.0, "factor": uneven(name)}
        for name, each in model.named_parameters()
    ]
    theirs = torch.optim.AdamW(groups, betas=SETTINGS.betas, eps=SETTINGS.eps, fused=True)
    for step in range(1, 8):
        rate = 0.01 * step
        ours.set_rate(rate)
        for group in theirs.param_groups:
            group["lr"] = rate * group["factor"]
        flat.zero()
        theirs.zero_grad()
        loss_of(flat_model)(batch(12, step)).loss.backward()
        loss_of(model)(batch(12, step)).loss.backward()
        ours.step()
        theirs.step()
    assert ours.updates == 7
    for (name, one), other in zip(flat_model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7, msg=name)


def test_a_first_step_is_as_long_as_the_factor_says() -> None:
    """Adam's first step is the rate itself, whatever the gradient."""
    flat = FlatParameters(toy(), factor=uneven)
    adam = FlatAdam(flat, OptimizerConfig())
    before = flat.values.clone()
    flat.gradients.fill_(7.0)
    adam.set_rate(0.01)
    adam.step()
    for name, moved in flat.named(before - flat.values).items():
        torch.testing.assert_close(moved, torch.full_like(moved, 0.01 * uneven(name)), rtol=1e-4, atol=1e-7)


def test_decay_pulls_matrices_alone() -> None:
    model = toy()
    flat = FlatParameters(model)
    before = {name: value.clone() for name, value in flat.named(flat.values).items()}
    adam = FlatAdam(flat, OptimizerConfig(weight_decay=0.5))
    adam.set_rate(0.1)
    adam.step()  # no gradient at all
    for name, value in flat.named(flat.values).items():
        shrunk = 0.95 if name in ("inner.weight", "outer.weight") else 1.0
        torch.testing.assert_close(value, shrunk * before[name])


@pytest.mark.parametrize("factor", [None, uneven])
def test_a_skipped_step_changes_nothing(factor: Any) -> None:
    model = toy()
    flat = FlatParameters(model, factor=factor)
    adam = FlatAdam(flat, SETTINGS)
    adam.set_rate(0.1)
    loss_of(model)(batch(12, 0)).loss.backward()
    adam.step()
    kept = [vector.clone() for vector in (flat.values, adam.means, adam.squares)]
    flat.gradients.fill_(math.nan)
    adam.skip.fill_(1.0)
    adam.step()
    assert adam.updates == 1
    assert all(int(count) == 1 for count in adam._counts)  # of every part
    assert all(torch.equal(a, b) for a, b in zip(kept, (flat.values, adam.means, adam.squares), strict=True))


def test_the_state_is_the_flat_vectors_and_a_count() -> None:
    """Copied into another optimizer, the two go the same way."""
    models = [toy(), toy()]
    flats = [FlatParameters(model) for model in models]
    first, second = (FlatAdam(flat, SETTINGS) for flat in flats)
    for step in range(3):
        flats[0].zero()
        loss_of(models[0])(batch(12, step)).loss.backward()
        first.set_rate(0.01)
        first.step()
    flats[1].values.copy_(flats[0].values)
    second.means.copy_(first.means)
    second.squares.copy_(first.squares)
    second.updates = first.updates
    for model, flat, adam in zip(models, flats, (first, second), strict=True):
        flat.zero()
        loss_of(model)(batch(12, 9)).loss.backward()
        adam.set_rate(0.02)
        adam.step()
    assert torch.equal(flats[0].values, flats[1].values)


def rate(step: int, steps: int = 1000, d_model: int = 64, **settings: Any) -> float:
    return learning_rate(step, steps, OptimizerConfig(**settings), d_model)


@pytest.mark.spec("3.6b")
@pytest.mark.parametrize("step", [1, 7, 399, 400, 401, 5000])
def test_the_papers_schedule_is_its_equation_3(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 400**-1.5)
    assert rate(step, d_model=512, schedule="paper", warmup=400) == pytest.approx(expected)
    assert rate(step, d_model=512, schedule="paper", warmup=400, learning_rate=2.0) == pytest.approx(
        2 * expected
    )


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt", "linear", "constant"])
def test_the_rate_rises_in_a_straight_line_to_its_peak(schedule: Any) -> None:
    rates = [rate(step, schedule=schedule, warmup=100, learning_rate=0.5) for step in range(1, 101)]
    assert rates == pytest.approx([0.5 * step / 100 for step in range(1, 101)])
    assert max(rate(step, schedule=schedule, warmup=100, learning_rate=0.5) for step in range(1, 1001)) == 0.5


@pytest.mark.parametrize("step", [100, 101, 325, 550, 999, 1000])
def test_after_the_warm_up_each_schedule_is_its_formula(step: int) -> None:
    gone = (step - 100) / 900
    settings = {"warmup": 100, "learning_rate": 0.5}
    assert rate(step, schedule="linear", final=0.2, **settings) == pytest.approx(0.5 * (1 - 0.8 * gone))
    cosine = 0.5 * (0.2 + 0.8 * (1 + math.cos(math.pi * gone)) / 2)
    assert rate(step, schedule="cosine", final=0.2, **settings) == pytest.approx(cosine)
    assert rate(step, schedule="inverse_sqrt", **settings) == pytest.approx(0.5 * math.sqrt(100 / step))
    assert rate(step, schedule="constant", **settings) == 0.5


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_last_step_has_the_final_share(schedule: Any) -> None:
    assert rate(1000, schedule=schedule, learning_rate=0.5) == pytest.approx(0.0, abs=1e-12)
    assert rate(1000, schedule=schedule, learning_rate=0.5, final=0.1) == pytest.approx(0.05)


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt", "linear", "constant", "paper"])
def test_a_rate_is_finite_and_positive_without_warm_up_and_where_warm_up_is_longer_than_the_run(
    schedule: Any,
) -> None:
    for warmup, steps in ((0, 10), (10, 10), (50, 10), (0, 1), (1, 1)):
        final = 0.1 if schedule in ("cosine", "linear") else 0.0
        rates = [
            rate(step, steps, schedule=schedule, warmup=warmup, final=final) for step in range(1, steps + 1)
        ]
        assert all(0 < each < 1 for each in rates)


def test_unless_given_the_peak_is_a_thousandth() -> None:
    assert rate(400) == 1e-3


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": -1.0},
        {"warmup": -1},
        {"betas": (0.9, 1.0)},
        {"eps": 0.0},
        {"clip": -1.0},
        {"final": -0.1},
        {"weight_decay": math.inf},
        {"eps": math.nan},
        {"final": 0.1, "schedule": "paper"},
        {"schedule": "cosin"},
        {"kind": "sgd"},
        {"momentum": 1.0, "kind": "muon"},
        {"momentum": -0.1, "kind": "muon"},
        {"momentum": math.nan, "kind": "muon"},
        {"momentum": 0.9},  # of muon alone
        {"layer_decay": 0.0},
        {"layer_decay": 1.1},
        {"layer_decay": math.nan},
        {"head_rate": 0.0},
        {"head_rate": math.inf},
    ],
)
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)


def test_a_model_of_nothing_but_tables_can_be_trained() -> None:
    model = nn.Sequential(nn.Embedding(5, 3))
    adam = FlatAdam(FlatParameters(model), SETTINGS)
    adam.set_rate(0.1)
    model(torch.tensor([1])).sum().backward()
    adam.step()
    assert adam.updates == 1
