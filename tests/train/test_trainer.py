import json
import math
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.data.batches import prefetch
from regard.settings.training import AverageConfig, OptimizerConfig, TrainConfig
from regard.train import checkpoint, trainer
from regard.train.checkpoint import CheckpointError
from regard.train.objectives import Sums
from regard.train.optim import learning_rate
from regard.train.report import read_log
from regard.train.standing import Standing
from regard.train.trainer import TOLERATED, UNCOMPILED, TrainingError
from tests.train.toys import WORDS, Headed, Run, Toy, ToyBatch, loss_of, toy, uneven

AVERAGES = [AverageConfig(decay=0.9), AverageConfig(kind="last", last=2), AverageConfig(kind="none")]


def losses(folder: Path) -> list[Any]:
    """All that a log holds, but for clocks."""
    clocks = ("data_wait", "seconds", "tokens_per_second", "took")
    return [{key: value for key, value in entry.items() if key not in clocks} for entry in read_log(folder)]


def assert_same_run(one: Path, other: Path) -> None:
    assert losses(one) == losses(other)
    first, second = (load_file(folder / "checkpoint.safetensors") for folder in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def stopping(run: Run, step: int, number: int = signal.SIGTERM) -> None:
    """The run gets a signal while it makes this step."""
    work = run.trainer.engine.step

    def step_and_signal(current: int, *arguments: Any) -> None:
        work(current, *arguments)
        if current == step:
            os.kill(os.getpid(), number)

    run.trainer.engine.step = step_and_signal  # type: ignore[method-assign]


def test_training_makes_the_loss_small(tmp_path: Path) -> None:
    run = Run(tmp_path, steps=60, optimizer=OptimizerConfig(learning_rate=3e-2, warmup=5))
    outcome = run.trainer.run()
    found = [entry["loss"] for entry in read_log(tmp_path) if "loss" in entry]
    assert len(found) == 60
    assert found[-1] < found[0] - 1
    assert (outcome.step, outcome.steps, outcome.stopped, outcome.skipped) == (60, 60, None, 0)


@pytest.mark.parametrize("average", AVERAGES, ids=lambda each: each.kind)
@pytest.mark.parametrize(("log_every", "factor"), [(1, None), (5, None), (1, uneven)])
def test_a_run_stopped_anywhere_goes_on_as_if_it_never_was(
    tmp_path: Path, average: AverageConfig, log_every: int, factor: Any
) -> None:
    settings: dict[str, Any] = {
        "dropout": 0.3,
        "average": average,
        "log_every": log_every,
        "factor": factor,
        "optimizer": OptimizerConfig(learning_rate=1e-2, warmup=2, weight_decay=0.1),
    }
    whole = Run(tmp_path / "whole", **settings)
    whole.trainer.run()
    for step in (2, 4, 7):
        parted = Run(tmp_path / "parted", **settings)
        if step > 2:
            parted.trainer.resume()
        stopping(parted, step)
        outcome = parted.trainer.run()
        assert (outcome.stopped, outcome.step) == (signal.SIGTERM, step)
    last = Run(tmp_path / "parted", **settings)
    last.trainer.resume()
    assert last.trainer.run().stopped is None
    assert_same_run(tmp_path / "whole", tmp_path / "parted")
    for name, weight in whole.kept[-1][0].items():
        assert torch.equal(weight, last.kept[-1][0][name])


def test_frozen_weights_and_buffers_stay_and_are_kept_with_the_rest(tmp_path: Path) -> None:
    model = Headed()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run = Run(tmp_path, model=model)
    run.trainer.run()
    kept = run.kept[-1][0]
    assert list(kept) == [*(name for name, _ in model.named_parameters()), "shift"]
    for name, value in kept.items():
        assert torch.equal(value, before[name]) == (name not in ("head.weight", "head.bias"))
        assert torch.equal(model.state_dict()[name], before[name]) == (not name.startswith("head"))


def test_a_resumed_run_has_the_frozen_weights_and_buffers_that_it_began_with(tmp_path: Path) -> None:
    """Even where the model around them was built from something else."""
    model = Headed()
    same = Headed()
    same.load_state_dict(model.state_dict())
    Run(tmp_path / "whole", model=same).trainer.run()
    first = Run(tmp_path / "parted", model=model)
    stopping(first, 5)
    first.trainer.run()
    other = Headed()
    with torch.no_grad():
        for value in other.state_dict().values():
            value.add_(1.0)
    again = Run(tmp_path / "parted", model=other)
    again.trainer.resume()
    again.trainer.run()
    assert_same_run(tmp_path / "whole", tmp_path / "parted")
    assert torch.equal(again.kept[-1][0]["body.inner.weight"], model.body.inner.weight)


def test_a_run_in_which_other_parts_are_frozen_is_refused(tmp_path: Path) -> None:
    Run(tmp_path).trainer.run()
    frozen = toy()
    frozen.inner.requires_grad_(False)
    for other in (Run(tmp_path, model=frozen), Run(tmp_path, factor=uneven)):
        with pytest.raises(CheckpointError, match=r"frozen or learn faster; resume with the recipe"):
            other.trainer.resume()


def test_validation_puts_every_part_back_into_its_mode(tmp_path: Path) -> None:
    model = Headed()
    model.body.eval()  # a frozen body need not drop anything

    def validate() -> tuple[dict[str, float], str]:
        assert not any(part.training for part in model.modules())
        return {"loss": 1.0}, ""

    Run(tmp_path, model=model, validate=validate).trainer.run()
    assert not any(part.training for part in model.body.modules())
    assert model.training
    assert model.head.training


def test_both_signals_are_heard_and_handlers_put_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run = Run(tmp_path)
    stopping(run, 3, signal.SIGINT)
    assert run.trainer.run().stopped == signal.SIGINT
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_trainer_works_in_a_thread_that_cannot_listen(tmp_path: Path) -> None:
    run, outcomes = Run(tmp_path), []
    thread = threading.Thread(target=lambda: outcomes.append(run.trainer.run()))
    thread.start()
    thread.join()
    assert outcomes[0].step == 12


def test_a_checkpoint_is_written_after_a_while_whatever_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(
        "regard.train.checkpoint.write",
        lambda path, tensors, facts: written.append(facts["standing"]["step"]),
    )
    Run(tmp_path / "seldom", steps=4, validate_every=4).trainer.run()
    monkeypatch.setattr("regard.train.trainer.SAVED_AFTER", 0.0)
    Run(tmp_path / "often", steps=4, validate_every=4).trainer.run()
    assert written == [0, 4, 0, 1, 2, 3, 4]


def test_validations_close_together_leave_one_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(
        "regard.train.checkpoint.write",
        lambda path, tensors, facts: written.append(facts["standing"]["step"]),
    )
    Run(tmp_path / "close").trainer.run()
    monkeypatch.setattr("regard.train.trainer.SAVED_AFTER_LOOKING", 0.0)
    Run(tmp_path / "apart").trainer.run()
    assert written == [0, 12, 0, 4, 8, 12]


def test_a_run_is_not_resumed_with_another_optimizer(tmp_path: Path) -> None:
    Run(tmp_path, steps=4).trainer.run()
    other = Run(tmp_path, steps=8, optimizer=OptimizerConfig(kind="muon"))
    with pytest.raises(CheckpointError, match=r"begun with optimizer.kind='adam'; resume with that"):
        other.trainer.resume()


def test_the_averaged_weights_are_validated_and_kept(tmp_path: Path) -> None:
    seen = []

    def validate() -> tuple[dict[str, float], str]:
        assert not run.model.training
        seen.append(run.values.clone())
        return {"loss": -float(len(seen))}, "an example"

    run = Run(tmp_path, validate=validate)
    run.trainer.run()
    mean = run.trainer.engine.average.current
    assert torch.equal(seen[-1], mean)
    assert not torch.equal(run.values, mean)  # and the weights themselves came back
    assert run.model.training
    assert [facts["step"] for _, facts in run.kept] == [4, 8, 12]
    assert torch.equal(
        run.kept[-1][0]["inner.weight"], run.trainer.engine.weights.named(mean)["inner.weight"]
    )
    assert "an example" in run.said.getvalue()


def scripted(*figures: float) -> Any:
    left = iter(figures)
    return lambda: ({"loss": next(left)}, "")


def test_the_best_is_kept_and_later_worse_ones_are_not(tmp_path: Path) -> None:
    run = Run(tmp_path, steps=20, validate=scripted(3.0, 1.0, 2.0, 1.0, 5.0))
    outcome = run.trainer.run()
    assert [facts["valid"]["loss"] for _, facts in run.kept] == [3.0, 1.0, 1.0]
    assert (outcome.best, outcome.best_step) == ({"loss": 1.0}, 16)


def test_between_equals_the_lower_loss_is_kept_and_then_the_later() -> None:
    def judged(*figures: tuple[float, float]) -> tuple[int, int]:
        standing = Standing()
        for standing.step, (exact, loss) in enumerate(figures, 1):
            standing.judge({"exact": exact, "loss": loss}, "exact", "high")
        return standing.best_step, standing.waited

    assert judged((0, 3.0), (0, 2.0), (0, 1.0)) == (3, 0)  # it gets better, though not by this figure
    assert judged((0, 3.0), (0, 2.0), (0, 2.5)) == (2, 1)
    assert judged((0, 3.0), (0, 3.0), (0, 3.0)) == (3, 2)  # the last one; but there was nothing to wait for
    assert judged((5, 3.0), (4, 1.0)) == (1, 1)
    assert judged((4, 1.0), (5, 3.0)) == (2, 0)
    assert judged((float("nan"), 2.0), (float("nan"), 1.0), (0, 9.0)) == (3, 0)


def test_a_figure_that_is_no_number_is_the_worst(tmp_path: Path) -> None:
    run = Run(tmp_path, validate=scripted(math.nan, 2.0, math.nan))
    assert run.trainer.run().best == {"loss": 2.0}


def test_patience_ends_a_run_and_more_patience_continues_it(tmp_path: Path) -> None:
    run = Run(tmp_path, steps=100, patience=2, validate=scripted(3.0, 1.0, 2.0, 2.0, 0.0))
    outcome = run.trainer.run()
    assert (outcome.step, outcome.best_step, outcome.stopped) == (16, 8, None)
    again = Run(tmp_path, steps=100, patience=2, validate=scripted())
    again.trainer.resume()
    assert again.trainer.run().step == 16
    more = Run(tmp_path, steps=100, patience=3, validate=scripted(2.0))
    more.trainer.resume()
    assert more.trainer.run().step == 20


def test_a_finished_run_is_finished_unless_it_is_given_more_steps(tmp_path: Path) -> None:
    Run(tmp_path).trainer.run()
    before = (tmp_path / "log.jsonl").read_text()
    same = Run(tmp_path)
    same.trainer.resume()
    assert same.trainer.run().step == 12
    assert (tmp_path / "log.jsonl").read_text() == before
    longer = Run(tmp_path, steps=15)
    longer.trainer.resume()
    assert longer.trainer.run().step == 15
    assert [entry["step"] for entry in read_log(tmp_path) if "loss" in entry] == list(range(1, 16))


def test_a_run_that_has_kept_nothing_keeps_where_it_stands_if_it_is_to_end_there(tmp_path: Path) -> None:
    before = Run(tmp_path, validate_every=12, save_every=6)
    feed = before.trainer.feed

    class Killed:
        def parts(self, step: int, split: int = 1) -> Any:
            if step > 8:
                raise KeyboardInterrupt
            return feed.parts(step, split)

    before.trainer.feed = Killed()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        before.trainer.run()
    assert not before.kept
    for kept in (1, 0):  # and once only
        ended = Run(tmp_path, steps=6)
        ended.trainer.resume()
        assert ended.trainer.run().best_step == 6
        assert len(ended.kept) == kept
        for weights, facts in ended.kept:
            assert facts["step"] == 6
            average = ended.trainer.engine.weights.whole(ended.trainer.engine.average.current)
            for name, each in average.items():
                assert torch.equal(weights[name], each), name


def test_a_limit_of_time_ends_the_run_with_a_rate_near_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def work(step: int, parts: Any, rate: float) -> None:
        clock[0] += 0.5 if step % 3 else 0.7  # not always as fast
        rates.append(rate)

    rates: list[float] = []
    run = Run(tmp_path, steps=1_000_000, minutes=1.0, optimizer=OptimizerConfig(learning_rate=1.0, warmup=10))
    monkeypatch.setattr("regard.train.trainer.time.monotonic", lambda: clock[0])
    run.trainer.engine.step = work  # type: ignore[method-assign, assignment]
    outcome = run.trainer.run()
    assert 58 <= clock[0] <= 61
    assert outcome.step == outcome.steps == len(rates)
    assert rates[-1] < 1e-3 < max(rates)
    logged = [entry["rate"] for entry in read_log(tmp_path) if "rate" in entry]
    assert logged == rates


class Clock:
    """Work that takes its time by this clock: steps, of which the first is compiled, validations, saves."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, compiling: float, look: float, save: float
    ) -> None:
        self.now, self.looks, self._compiling, self._look, self._save = 0.0, 0, compiling, look, save
        monkeypatch.setattr("regard.train.trainer.time.monotonic", lambda: self.now)
        saved = trainer.save_checkpoint

        def slow(*given: Any, **named: Any) -> None:
            saved(*given, **named)
            self.now += self._save

        monkeypatch.setattr("regard.train.trainer.save_checkpoint", slow)

    def run(self, folder: Path, until: int = 0, **settings: Any) -> Any:
        """A trainer of a toy; a signal stops it at the step `until`."""

        def work(step: int, parts: Any, rate: float) -> None:
            self.now += 1.0 if steps else self._compiling
            steps.append(step)
            rates.append(rate)
            if step == until:
                os.kill(os.getpid(), signal.SIGTERM)

        def validate() -> tuple[dict[str, float], str]:
            self.now += self._look
            self.looks += 1
            return {"loss": 1.0}, ""

        steps: list[int] = []
        rates: list[float] = []
        self.rates = rates
        own = {"steps": 1_000_000, "minutes": 10.0, **settings}
        run = Run(folder, validate=validate, optimizer=OptimizerConfig(learning_rate=1.0, warmup=10), **own)
        run.trainer.engine.step = work  # type: ignore[method-assign, assignment]
        return run.trainer


@pytest.mark.parametrize(
    ("compiling", "look", "save", "every"),
    [
        (1, 0, 0, 50),
        (60, 0, 0, 50),
        (1, 30, 0, 100),
        (60, 30, 5, 50),
        (1, 100, 0, 10_000),
        (30, 100, 10, 10_000),
    ],
)
def test_all_that_training_does_is_within_the_limit_of_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiling: float,
    look: float,
    save: float,
    every: int,
) -> None:
    clock = Clock(monkeypatch, compiling=compiling, look=look, save=save)
    outcome = clock.run(tmp_path, validate_every=every).run()
    assert 600 - look - save - 10 <= clock.now <= 600 + save + 2
    assert outcome.seconds == pytest.approx(clock.now, abs=0.1)
    assert clock.rates[-1] < 0.05  # the schedule has come to its end too
    assert clock.looks > 0


@pytest.mark.parametrize("until", [20, 150, 300])
def test_a_resumed_run_has_what_is_left_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    clock = Clock(monkeypatch, compiling=20, look=30, save=5)
    first = clock.run(tmp_path, until, validate_every=100).run()
    assert first.stopped == signal.SIGTERM
    spent = clock.now
    clock.now += 10_000  # nobody trains meanwhile
    again = clock.run(tmp_path, validate_every=100)
    again.resume()
    outcome = again.run()
    used = clock.now - 10_000
    assert 600 - 50 <= used <= 600 + 5 + 7  # a checkpoint does not know how long it took to write
    assert outcome.seconds == pytest.approx(used, abs=6)
    assert spent < 600
    assert clock.rates[-1] < 0.05


def test_the_logged_rate_is_the_schedules(tmp_path: Path) -> None:
    settings = OptimizerConfig(learning_rate=0.1, warmup=3)
    Run(tmp_path, optimizer=settings).trainer.run()
    logged = [entry["rate"] for entry in read_log(tmp_path) if "rate" in entry]
    assert logged == [learning_rate(step, 12, settings, 8) for step in range(1, 13)]


@pytest.mark.parametrize("perplexity", [True, False])
def test_a_perplexity_is_logged_and_said_only_where_there_is_one(tmp_path: Path, perplexity: bool) -> None:
    run = Run(tmp_path, perplexity=perplexity)
    run.trainer.run()
    logged = [entry for entry in read_log(tmp_path) if "loss" in entry]
    assert len(logged) == 12
    assert all(("perplexity" in entry) == perplexity for entry in logged)
    assert ("ppl" in run.said.getvalue()) == perplexity


def test_the_speed_counts_what_the_task_calls_its_tokens(tmp_path: Path) -> None:
    run = Run(tmp_path, unit="texts")
    run.trainer.run()
    assert run.said.getvalue().count(" texts/s") == 12
    assert "tokens/s" not in run.said.getvalue()
    assert all("tokens_per_second" in entry for entry in read_log(tmp_path) if "loss" in entry)


def hungry(model: Toy, most: int) -> Any:
    """A loss for which there is memory for so many tokens."""
    sizes: list[int] = []

    def loss(part: ToyBatch) -> Sums:
        sizes.append(len(part.ids))
        if len(part.ids) > most:
            raise torch.OutOfMemoryError("injected")
        return loss_of(model)(part)

    return loss, sizes


@pytest.mark.parametrize("workers", [0, 2])
def test_too_little_memory_makes_the_same_steps_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Also where batches were prepared ahead, before it was known how small they must be: as for a GPU."""

    def ahead_of_time(jobs: Any, **_: Any) -> Any:
        return prefetch(jobs, workers, ahead=4)

    monkeypatch.setattr("regard.train.trainer.prefetch", ahead_of_time)
    model = toy()
    loss, sizes = hungry(model, most=3)
    whole = Run(tmp_path / "whole")
    whole.trainer.run()
    parted = Run(tmp_path / "parted", model=model, loss=loss)
    parted.trainer.run()
    assert parted.trainer.standing.split == 4
    assert sum(size > 3 for size in sizes) == 2  # found out once: with 10, with 5
    assert parted.said.getvalue().count("out of memory") == 2
    assert "computed in 4 pieces" in parted.said.getvalue()
    for one, other in zip(losses(tmp_path / "whole"), losses(tmp_path / "parted"), strict=True):
        assert one.keys() == other.keys()
        if "loss" in one:
            assert other["loss"] == pytest.approx(one["loss"], rel=1e-4)
    torch.testing.assert_close(parted.values, whole.values, rtol=1e-3, atol=1e-5)


def test_the_pieces_are_remembered_by_a_resumed_run(tmp_path: Path) -> None:
    model = toy()
    loss, _ = hungry(model, most=3)
    run = Run(tmp_path, model=model, loss=loss)
    stopping(run, 5)
    run.trainer.run()
    model = toy()
    loss, sizes = hungry(model, most=3)
    again = Run(tmp_path, model=model, loss=loss)
    again.trainer.resume()
    again.trainer.run()
    assert max(sizes) <= 3


def compiled_early(folder: Path) -> Run:
    """By too little memory at step 3; its compiler computes something else, so that it is seen from when."""
    model, calls, factor = toy(), [0], [1.0]

    def loss(part: ToyBatch) -> Sums:
        calls[0] += 1
        if calls[0] == 6 and factor == [1.0]:
            raise torch.OutOfMemoryError("injected")
        sums = loss_of(model)(part)
        return sums._replace(loss=sums.loss * factor[0])

    run = Run(folder, model=model, loss=loss)
    run.trainer._compile_after, run.trainer._compile = UNCOMPILED, lambda: factor.__setitem__(0, 1.01)
    return run


def test_a_run_that_was_compiled_early_is_so_when_resumed(tmp_path: Path) -> None:
    compiled_early(tmp_path / "whole").trainer.run()
    parted = compiled_early(tmp_path / "parted")
    stopping(parted, 4)
    parted.trainer.run()
    again = compiled_early(tmp_path / "parted")
    again.trainer.resume()
    again.trainer.run()
    assert_same_run(tmp_path / "whole", tmp_path / "parted")


def test_a_checkpoint_that_does_not_say_whether_it_was_compiled_is_read(tmp_path: Path) -> None:
    stopped = Run(tmp_path)
    stopping(stopped, 4)
    stopped.trainer.run()
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = checkpoint.read(path)
    del facts["standing"]["compiled"]
    checkpoint.write(path, tensors, facts)
    again = Run(tmp_path)
    again.trainer.resume()
    assert (again.trainer.standing.step, again.trainer.standing.compiled) == (4, False)


def test_where_no_piece_is_small_enough_the_error_says_what_to_lower(tmp_path: Path) -> None:
    model = toy()
    with pytest.raises(TrainingError, match="lower batch"):
        Run(tmp_path, model=model, loss=hungry(model, most=0)[0]).trainer.run()


def spoiled(model: Toy, bad: Any) -> Any:
    """A loss that is no number at the steps that `bad` says."""
    calls = [0]

    def loss(part: ToyBatch) -> Sums:
        calls[0] += 1
        sums = loss_of(model)(part)
        return sums._replace(loss=sums.loss * math.nan) if bad((calls[0] + 1) // 2) else sums

    return loss


@pytest.mark.parametrize("log_every", [1, 3])
def test_updates_that_are_not_finite_are_counted_and_training_goes_on(tmp_path: Path, log_every: int) -> None:
    model = toy()
    loss = spoiled(model, lambda step: step in (2, 3, 4, 5, 7))
    run = Run(tmp_path, model=model, loss=loss, log_every=log_every)
    outcome = run.trainer.run()
    assert (outcome.step, outcome.skipped) == (12, 5)
    assert run.trainer.engine.optimizer.updates == 7
    assert torch.isfinite(run.values).all()
    assert read_log(tmp_path)[-2]["skipped"] == 5
    assert all(math.isfinite(entry.get("loss", 0.0)) for entry in read_log(tmp_path))


@pytest.mark.parametrize("log_every", [1, 3, 5])
def test_five_in_a_row_end_the_run(tmp_path: Path, log_every: int) -> None:
    model = toy()
    run = Run(tmp_path, model=model, log_every=log_every, loss=spoiled(model, lambda step: step > 2))
    with pytest.raises(TrainingError, match=f"step 7: .* {TOLERATED} times in a row.*learning_rate"):
        run.trainer.run()


def test_skipped_updates_are_counted_across_a_stop(tmp_path: Path) -> None:
    model = toy()
    run = Run(tmp_path, model=model, log_every=10, loss=spoiled(model, lambda step: step in (2, 3)))
    stopping(run, 3)
    run.trainer.run()
    again = Run(tmp_path, log_every=10)
    again.trainer.resume()
    assert again.trainer.run().skipped == 2


def test_a_resumed_run_may_go_by_another_figure(tmp_path: Path) -> None:
    first = Run(tmp_path, validate=scripted(3.0, 2.0, 1.0))
    stopping(first, 5)
    first.trainer.run()
    again = Run(tmp_path, metric=("bleu", "high"), validate=lambda: ({"loss": 9.0, "bleu": 5.0}, ""))
    again.trainer.resume()
    assert again.trainer.run().best == {"loss": 9.0, "bleu": 5.0}
    assert again.kept[0][1]["step"] == 8


@pytest.mark.parametrize("name", ["compile", "capture"])
def test_what_cannot_be_compiled_or_captured_is_not_left_plain_in_silence(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"train.{name}='yes', but .* on cpu cannot be.*choose 'auto'"):
        Run(tmp_path, **{name: "yes"})


class Larger(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.outer = torch.nn.Linear(16, WORDS)


def test_another_model_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    Run(tmp_path).trainer.run()
    other = Run(tmp_path, model=Larger())
    before = other.values.clone()
    with pytest.raises(CheckpointError, match="the weights of another model"):
        other.trainer.resume()
    assert torch.equal(other.values, before)


def test_another_kind_of_average_is_refused_where_its_mean_is_missing(tmp_path: Path) -> None:
    Run(tmp_path, average=AverageConfig(kind="none")).trainer.run()
    with pytest.raises(CheckpointError, match=r"average\.kind"):
        Run(tmp_path).trainer.resume()


def test_a_new_run_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    Run(tmp_path).trainer.run()
    run = Run(tmp_path, steps=3)
    stopping(run, 1)
    run.trainer.run()
    assert [entry["step"] for entry in read_log(tmp_path)] == [1]
    again = Run(tmp_path, steps=3)
    again.trainer.resume()
    assert again.trainer.standing.step == 1


def test_a_checkpoint_is_plain_vectors_and_json(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.trainer.run()
    content = (tmp_path / "checkpoint.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = json.loads(header["__metadata__"]["facts"])
    assert facts["standing"]["step"] == 12
    assert {"weights", "means", "squares", "average.mean"} == header.keys() - {"__metadata__"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"validate_every": 0},
        {"log_every": 0},
        {"minutes": -1.0},
        {"minutes": math.inf},
        {"minutes": math.nan},
        {"seed": -1},
        {"compile": "y"},
    ],
)
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainConfig(**wrong)
