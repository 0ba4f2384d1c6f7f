import math
from typing import Any

import pytest
import torch

from regard.settings.training import AverageConfig, OptimizerConfig
from regard.train.engine import STATISTICS, Engine
from regard.train.objectives import HIDDEN, Sums
from tests.train.toys import Headed, ToyBatch, batch, engine, joined, loss_of, toy, uneven


def statistics(engine: Engine) -> dict[str, float]:
    return dict(zip(STATISTICS, engine.statistics.tolist(), strict=True))


@pytest.mark.spec("3.6d")
@pytest.mark.parametrize("clip", [0.0, 1e-3])
def test_parts_of_any_sizes_add_up_to_the_whole_batch(clip: float) -> None:
    settings = {"optimizer": OptimizerConfig(clip=clip, eps=1e-6)}
    whole, parted = engine(toy(), **settings), engine(toy(), **settings)
    for step in range(1, 4):
        parts = [batch(size, seed=10 * step + size) for size in (1, 30, 4)]
        parts[1].labels[5:15] = HIDDEN  # sizes count by what is predicted
        whole.step(step, [(0, joined(*parts))], 0.01)
        parted.step(step, list(enumerate(parts)), 0.01)
        assert statistics(parted) == pytest.approx(statistics(whole), rel=1e-5)
        torch.testing.assert_close(parted.optimizer.means, whole.optimizer.means, rtol=1e-4, atol=1e-8)
        torch.testing.assert_close(parted.weights.values, whole.weights.values, rtol=1e-5, atol=1e-6)


def test_the_gradient_is_of_the_mean_over_all_tokens_of_the_step() -> None:
    own, model = engine(toy(), optimizer=OptimizerConfig(clip=0.0)), toy()
    parts = [batch(2, 0), batch(10, 1)]
    own.step(1, list(enumerate(parts)), 0.01)
    sums = [loss_of(model)(part) for part in parts]
    mean = sum(each.loss for each in sums) / 12
    gradients = dict(
        zip(
            dict(model.named_parameters()),
            torch.autograd.grad(mean, list(model.parameters())),
            strict=True,
        )
    )
    for name, moved in own.weights.named(own.optimizer.means).items():
        torch.testing.assert_close(moved, (1 - 0.9) * gradients[name], rtol=1e-4, atol=1e-8)
    norm = math.sqrt(sum(float(each.square().sum()) for each in gradients.values()))
    nll = float(sum(each.nll for each in sums)) / 12
    assert statistics(own) == pytest.approx(
        {"loss": mean.item(), "nll": nll, "norm": norm, "skipped": 0.0}, rel=1e-5
    )
    assert not own.weights.travelling.any()


def test_a_step_with_nothing_to_learn_has_no_gradient_and_is_not_skipped() -> None:
    own, empty = engine(toy(), optimizer=OptimizerConfig(weight_decay=0.0)), batch(5, 0)
    before = own.weights.values.clone()
    empty.labels[:] = HIDDEN
    own.step(1, [(0, empty)], 0.01)
    assert statistics(own) == {"loss": 0.0, "nll": 0.0, "norm": 0.0, "skipped": 0.0}
    assert torch.equal(own.weights.values, before)


def test_steps_with_factors_are_those_of_an_ordinary_loop_over_groups() -> None:
    # eps: small gradients are not blown up, nor what each processor rounds otherwise in them
    settings = OptimizerConfig(weight_decay=0.1, clip=0.2, eps=1e-3)
    own, model = engine(toy(), optimizer=settings, factor=uneven), toy()
    adam = torch.optim.AdamW(
        [
            {
                "params": [each],
                "factor": uneven(name),
                "weight_decay": 0.1 if name in ("inner.weight", "outer.weight") else 0.0,
            }
            for name, each in model.named_parameters()
        ],
        betas=settings.betas,
        eps=settings.eps,
        fused=True,
    )
    for step in range(1, 9):
        parts, rate = [batch(2, step), batch(10, 100 + step)], 0.002 * step
        own.step(step, list(enumerate(parts)), rate)
        adam.zero_grad()
        for part in parts:
            (loss_of(model)(part).loss / 12).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        for group in adam.param_groups:
            group["lr"] = rate * group["factor"]
        adam.step()
    for name, value in own.weights.named(own.weights.values).items():
        expected = model.get_parameter(name).detach()
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7, msg=name)


def test_a_head_learns_on_a_frozen_body_as_on_what_the_body_says() -> None:
    """The body's dropout stays as the caller set it: here, off."""
    model, own_head = Headed(), torch.nn.Linear(11, 11)
    own_head.load_state_dict(model.head.state_dict())
    model.body.eval()
    frozen = {name: value.clone() for name, value in model.state_dict().items() if "head" not in name}
    whole, alone = engine(model), engine(own_head, lambda part: loss_of(own_head)(part))
    for step in range(1, 6):
        part = batch(12, step)
        said = model.body(part.ids) + model.shift
        whole.step(step, [(0, part)], 0.01)
        alone.step(step, [(0, ToyBatch(said, part.labels))], 0.01)
    assert torch.equal(whole.weights.values, alone.weights.values)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in frozen.items())
    assert all(each.grad is None for each in model.body.parameters())


def test_a_gradient_longer_than_the_limit_is_shortened_to_it() -> None:
    own = engine(toy(), optimizer=OptimizerConfig(clip=0.01))
    own.step(1, [(0, batch(12, 0))], 0.01)
    assert statistics(own)["norm"] > 0.1  # what was measured is the whole length
    assert float(own.optimizer.means.norm()) == pytest.approx((1 - 0.9) * 0.01, rel=1e-3)


def test_dropout_is_a_function_of_seed_step_and_part() -> None:
    def loss(seed: int = 0, step: int = 1, part: int = 0) -> float:
        own = engine(toy(0.5), seed=seed)
        torch.rand(step)  # what was drawn before does not matter
        own.step(step, [(part, batch(12, 0))], 0.0)
        return statistics(own)["loss"]

    assert loss() == loss()
    others = [loss(seed=1), loss(step=2), loss(part=1), loss(seed=2**40), loss(step=2, part=1)]
    assert len({loss(), *others}) == 6


def spoiled(value: float, where: str) -> Any:
    """A loss that is no number, or whose gradient is none, in every second batch."""
    model = toy()

    def loss(part: ToyBatch) -> Sums:
        sums = loss_of(model)(part)
        if part.ids[0] != 0:
            return sums
        if where == "loss":
            return sums._replace(loss=sums.loss + value)  # its gradient is finite
        return sums._replace(loss=sums.loss * value)

    return model, loss


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("factor", [None, uneven])
def test_what_is_not_finite_changes_nothing_and_the_next_step_goes_on(
    value: float, where: str, factor: Any
) -> None:
    model, loss = spoiled(value, where)
    own = engine(model, loss, average=AverageConfig(kind="none"), factor=factor)
    good = ToyBatch(torch.tensor([1, 2]), torch.tensor([3, 4]))
    bad = ToyBatch(torch.tensor([0, 2]), torch.tensor([3, 4]))
    own.step(1, [(0, good)], 0.01)
    vectors = (own.weights.values, own.optimizer.means, own.optimizer.squares)
    kept = [vector.clone() for vector in vectors]
    own.step(2, [(0, good), (1, bad)], 0.01)
    assert statistics(own)["skipped"] == 1
    assert all(torch.equal(one, other) for one, other in zip(kept, vectors, strict=True))
    assert own.optimizer.updates == 1
    own.step(3, [(0, good)], 0.01)
    assert statistics(own)["skipped"] == 0
    assert torch.isfinite(own.weights.values).all()
    assert not torch.equal(own.weights.values, kept[0])
    assert own.optimizer.updates == 2


def test_a_step_that_broke_off_can_be_forgotten() -> None:
    clean, model = engine(toy()), toy()
    calls = []

    def loss(part: ToyBatch) -> Sums:
        calls.append(part)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("injected")
        return loss_of(model)(part)

    own = engine(model, loss)
    parts = [(0, batch(3, 0)), (1, batch(5, 1))]
    with pytest.raises(torch.OutOfMemoryError):
        own.step(1, parts, 0.01)
    assert own.weights.travelling.any()
    own.forget()
    own.step(1, parts, 0.01)
    clean.step(1, parts, 0.01)
    assert torch.equal(own.weights.values, clean.weights.values)


def test_the_average_follows_every_step() -> None:
    own = engine(toy(), average=AverageConfig(decay=0.5))
    mean = own.weights.values.clone()
    for step in range(1, 15):
        own.step(step, [(0, batch(12, step))], 0.01)
        decay = min(0.5, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * own.weights.values
    torch.testing.assert_close(own.average.current, mean)


def test_bfloat16_products_leave_the_weights_in_single_precision() -> None:
    half, whole = engine(toy(), bfloat16=True), engine(toy())
    for step in range(1, 4):
        for own in (half, whole):
            own.step(step, [(0, batch(30, step))], 0.01)
    assert half.weights.values.dtype == torch.float32
    assert statistics(half) == pytest.approx(statistics(whole), rel=2e-2)
    assert statistics(half) != statistics(whole)
