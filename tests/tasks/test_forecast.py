"""What a dry run says of a limit of time, before anybody has waited for it."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from regard.settings.training import OptimizerConfig, TrainConfig
from regard.tasks import run
from regard.tasks.base.forecast import Forecast, Timing
from regard.tasks.base.job import Shortcut
from regard.train.pace import affordable
from tests.tasks import tiny
from tests.tasks.encoders import toys
from tests.train.toys import ALONE


def test_what_fits_into_a_time_is_steps_validations_between_them_and_one_at_the_end() -> None:
    for seconds, step, look, every in (
        (600, 1, 0, 10),
        (600, 1, 30, 100),
        (600, 0.7, 100, 50),
        (50, 1, 60, 9),
    ):
        steps = affordable(seconds, step, look, every)

        def spent(steps: int, step: float = step, look: float = look, every: int = every) -> float:
            return steps * step + steps / every * look + look

        assert steps == 0 or spent(steps) <= seconds
        assert spent(steps + 1) > seconds


def forecast(minutes: float, *, usual: int = 1000, solve: Any = None, **timing: float) -> Forecast:
    """100 steps an epoch; a step takes a second."""
    recipe = SimpleNamespace(
        train=TrainConfig(steps=10**6, minutes=minutes, validate_every=100),
        optimizer=OptimizerConfig(warmup=50),
        model=SimpleNamespace(start="minilm", frozen=0),
    )
    job: Any = SimpleNamespace(
        recipe=recipe,
        parameters=1234,
        solve=solve,
        shortcut=Shortcut("head.fit=logistic", lambda: 20.0),
        test=None,
        ranks=ALONE,
        model=nn.Linear(1, 1),
        feed=SimpleNamespace(plan=SimpleNamespace(steps=lambda epoch: 100)),
    )
    times = {"step": 1.0, "once": 0.25, "look": 10.0, **timing}
    return Forecast(job=job, timing=Timing(**times), prepared=3.0, usual=usual)


def test_a_limit_of_time_is_told_in_steps_and_epochs_beside_what_is_usual() -> None:
    own = forecast(10.0)
    assert own.steps == affordable(600, 1.0, 10.0, 100) == 536
    assert not own.too_little
    first, beside, usual = own.lines()
    assert first == (
        "# 1,234 parameters; 536 steps, 5.4 epochs; about 10.0 minutes on cpu (1000 ms a step, 10.0 s a "
        "validation)"
    )
    assert beside == "# not in train.minutes: 3 s before the first step"
    assert usual == "# without train.minutes: 1,000 steps, 10 epochs, about 18.5 minutes"


def test_a_time_that_is_too_short_is_told_with_what_fits() -> None:
    own = forecast(2.0)
    assert own.too_little
    assert [*own.lines()][-1] == "# train.minutes=2 is too little for this; what fits, as timed here:"
    assert [*own.remedies()] == ["#   head.fit=logistic, about 30 s"]
    assert own.last_remedy() == "#   train.minutes=18: 1,000 steps, 10 epochs"


def test_a_run_that_ends_within_its_warm_up_is_too_short() -> None:
    assert forecast(1.0, usual=60).too_little
    assert not forecast(3.0, usual=60).too_little


def test_what_is_solved_for_is_told_by_its_own_time() -> None:
    own = forecast(2.0, solve=lambda: None)
    assert [*own.lines()] == ["# 1,234 parameters; solved for, not trained: about 30 s on cpu"]
    assert not own.too_little


def said(plain: dict[str, Any]) -> list[str]:
    """The comments below the recipe."""
    out = io.StringIO()
    run.dry_run(plain, device="cpu", console=Console(file=out, width=200))
    return [line for line in out.getvalue().splitlines() if line.startswith("#")]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("start")
    toys.train(toys.recipe(place / "corpus"), place / "model")
    return place / "corpus", place / "model"


def fine_tuned(start: tuple[Path, Path], **tables: Any) -> dict[str, Any]:
    plain = toys.recipe(start[0], count=200)
    return {"task": "classify", "data": plain["data"], "model": {"start": str(start[1])}, **tables}


def test_a_budget_of_an_instant_is_foreseen_with_what_would_do(start: tuple[Path, Path]) -> None:
    lines = said(fine_tuned(start, batch={"tokens": 160}, train={"minutes": 1e-4}))
    assert re.match(r"# [\d,]+ parameters; 1 steps, [\d.]+ epochs; about 0\.0 minutes on cpu", lines[0])
    assert "# without train.minutes: 60 steps" in lines[2]
    assert any(line.startswith("#   head.fit=logistic: ") for line in lines)
    assert lines[-1].startswith("#   train.minutes=")


def test_a_budget_that_does_says_no_more(start: tuple[Path, Path]) -> None:
    lines = said(fine_tuned(start, train={"minutes": 60.0}))
    assert len(lines) == 3


def test_a_frozen_encoder_is_told_by_the_time_to_solve(start: tuple[Path, Path]) -> None:
    (line,) = said(fine_tuned(start, head={"fit": "logistic"}))
    assert re.match(r"# [\d,]+ parameters; solved for, not trained: about \d+ s on cpu", line)


def test_without_a_start_a_smaller_preset_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timings = iter([Timing(step=1.0, once=0.3), Timing(step=1e-3, once=3e-4)])
    monkeypatch.setattr(run, "timed", lambda *_: next(timings))
    plain = tiny.recipe(tmp_path / "corpus", model={"preset": "small"}, train={"minutes": 1.0, "steps": 400})
    lines = said(plain)
    assert "#   model.preset=tiny: 400 steps" in " ".join(lines)


def test_what_is_timed_changes_nothing_in_the_model(start: tuple[Path, Path], tmp_path: Path) -> None:
    quiet = Console(file=io.StringIO())
    written = run.written_recipe(fine_tuned(start, train={"minutes": 1.0}), (), tmp_path, resume=False)
    before = run.prepare(written, tmp_path / "one", ALONE, quiet).model.state_dict()
    after = run._foreseen(written, tmp_path / "other", ALONE, quiet).job.model
    assert after.training
    assert all(torch.equal(value, before[name]) for name, value in after.state_dict().items())
