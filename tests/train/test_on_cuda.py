"""On an NVIDIA GPU: a captured step is the step as it is written. tests/compiled has the compiled one."""

import io
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from regard.data import Plan
from regard.models.seq2seq import Seq2Seq
from regard.nn.layers import TransformerLayer
from regard.nn.positions import PositionTable
from regard.settings.shape import TranslatorConfig
from regard.settings.training import AverageConfig, BatchConfig, LossConfig, OptimizerConfig
from regard.tasks import run
from regard.tasks.translation.batches import PairFeed
from regard.tasks.translation.data import pair_lengths
from regard.tasks.translation.train import TranslationLoss
from regard.train import trainer
from regard.train.engine import Engine
from regard.train.ranks import Ranks
from tests.tasks import tiny
from tests.tasks.tiny import Columns

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
VOCABULARY = 40
SHAPE = TranslatorConfig(preset="tiny", d_model=64, heads=2, d_ff=128, dropout=0.0)


def feed(parts: int) -> PairFeed:
    chance = np.random.default_rng(0)
    store: Any = Columns.of([tuple(pair) for pair in chance.integers(2, 12, size=(60, 2)).tolist()])
    for column in store.values():
        column.values[:] %= VOCABULARY
    return PairFeed(store, Plan(pair_lengths(store), BatchConfig(tokens=64, parts=parts)), static=True)


def losses(
    *,
    dropout: float = 0.0,
    parts: int = 2,
    steps: range = range(1, 6),
    compiled: bool = False,
    rate: float = 1e-3,
    r_drop: float = 0.0,
    frozen: bool = False,
    kind: Literal["adam", "muon"] = "adam",
    **settings: Any,
) -> tuple[list[list[float]], Engine]:
    """What the steps leave to be read, and the engine that made them."""
    torch.manual_seed(0)
    model = Seq2Seq(replace(SHAPE, dropout=dropout).build(VOCABULARY)).cuda().train()
    model.encoder.requires_grad_(not frozen)
    loss = TranslationLoss(model, LossConfig(r_drop=r_drop))
    if compiled:
        loss.compile()
        for layer in model.modules():
            if isinstance(layer, TransformerLayer):
                layer.compile(fullgraph=True, dynamic=False)
    engine = Engine(
        model,
        loss,
        optimizer=OptimizerConfig(kind=kind, eps=1e-4),  # what has no gradient but rounding stays still
        average=AverageConfig(decay=0.9),
        ranks=Ranks(rank=0, count=1, device=torch.device("cuda")),
        seed=0,
        **settings,
    )
    own, found = feed(parts), []
    for step in steps:
        engine.step(step, own.parts(step), rate)
        found.append(engine.statistics.tolist())
    return found, engine


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("bfloat16", "limit"), [(False, 1e-4), (True, 1e-2)])
@pytest.mark.parametrize("r_drop", [0.0, 2.5])
def test_a_captured_step_is_the_step_as_it_is_written(
    bfloat16: bool, limit: float, parts: int, r_drop: float
) -> None:
    plain, written = losses(parts=parts, bfloat16=bfloat16, r_drop=r_drop)
    captured, replayed = losses(parts=parts, bfloat16=bfloat16, r_drop=r_drop, captured=True)
    np.testing.assert_allclose(captured, plain, rtol=limit, atol=limit)
    assert written.optimizer.updates == replayed.optimizer.updates == 5
    for one, other in (
        (replayed.weights.values, written.weights.values),
        (replayed.average.current, written.average.current),
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3 if bfloat16 else 1e-5)


@pytest.mark.parametrize(
    "settings",
    [{"factor": lambda name: 0.5 if name.startswith("encoder") else 1.0}, {"frozen": True}],
    ids=["factors", "frozen"],
)
def test_a_captured_step_knows_factors_on_the_rate_and_weights_that_stay(settings: dict[str, Any]) -> None:
    _, written = losses(**settings)
    _, replayed = losses(**settings, captured=True)
    torch.testing.assert_close(replayed.weights.values, written.weights.values, rtol=0, atol=1e-5)
    for (name, one), other in zip(replayed.model.named_parameters(), written.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5, msg=name)


def test_captured_dropout_falls_differently_at_every_step_and_is_a_function_of_it() -> None:
    """Also where the graph is captured at a later step, as in a run that is resumed there."""
    settings: dict[str, Any] = {"dropout": 0.3, "captured": True, "rate": 0.0}
    found = [row[0] for row in losses(**settings)[0]]
    assert np.isfinite(found).all()
    still = [row[0] for row in losses(captured=True, rate=0.0)[0]]
    assert all(abs(one - other) > 1e-4 for one, other in zip(found, still, strict=True))
    later = [row[0] for row in losses(**settings, steps=range(3, 6))[0]]
    assert later == pytest.approx(found[2:], rel=1e-5)


def test_captured_dropout_differs_between_steps_with_the_same_batch() -> None:
    _, engine = losses(dropout=0.3, captured=True, rate=0.0, steps=range(1, 2))
    part, seen = feed(1).parts(1), set()
    for step in range(2, 7):
        engine.step(step, part, 0.0)
        seen.add(engine.statistics[0].item())
    assert len(seen) == 5


@pytest.mark.parametrize(
    "settings",
    [{}, {"factor": lambda name: 0.5 if name.startswith("encoder") else 1.0}, {"frozen": True}],
    ids=["plain", "factors", "frozen"],
)
def test_a_captured_step_of_muon_is_the_step_as_it_is_written(settings: dict[str, Any]) -> None:
    _, written = losses(**settings, kind="muon")
    _, replayed = losses(**settings, kind="muon", captured=True)
    _, alone = losses(**settings)
    assert written.optimizer.updates == replayed.optimizer.updates == 5
    # Newton and Schulz's steps in bfloat16 make more of the order in which gradients were added up.
    torch.testing.assert_close(replayed.weights.values, written.weights.values, rtol=0, atol=2e-4)
    torch.testing.assert_close(replayed.optimizer.means, written.optimizer.means, rtol=0, atol=1e-4)
    assert (written.weights.values.norm() - alone.weights.values.norm()).abs() > 1e-3


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_captured_update_that_is_not_finite_does_not_happen(kind: Any) -> None:
    _, engine = losses(captured=True, kind=kind)
    kept = engine.weights.values.clone()
    means = engine.optimizer.means.clone()
    engine.weights.totals[0] = float("nan")  # as a broken part would leave it
    engine.step(6, feed(2).parts(6), 1e-3)
    assert engine.statistics[3] == 1
    assert torch.equal(engine.weights.values, kept)
    assert torch.equal(engine.optimizer.means, means)
    assert engine.optimizer.updates == 5
    engine.step(7, feed(2).parts(7), 1e-3)
    assert engine.statistics[3] == 0
    assert not torch.equal(engine.weights.values, kept)


def test_the_tables_that_a_captured_step_reads_stay_when_a_longer_text_has_them_grown() -> None:
    _, engine = losses(captured=True, rate=0.0, steps=range(1, 2))
    before = engine.statistics.clone()
    parts = [part for part in engine.model.modules() if isinstance(part, PositionTable)]
    read = [weakref.ref(part.table) for part in parts]
    for part in parts:
        part.look_up(torch.zeros(1, dtype=torch.int64, device="cuda"), 600, torch.float32)
    assert read
    assert all(table() is not None for table in read)
    engine.step(1, feed(2).parts(1), 0.0)
    torch.testing.assert_close(engine.statistics, before)


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_captured_step_reads_the_rate_anew(kind: Any) -> None:
    _, engine = losses(captured=True, kind=kind)
    kept = engine.weights.values.clone()
    engine.step(6, feed(2).parts(6), 0.0)
    assert torch.equal(engine.weights.values, kept)


def test_a_run_that_is_compiled_after_its_first_steps_is_the_same_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is computed alike, before it and after it."""
    monkeypatch.setattr(trainer, "LONG", 0.0)
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 30, "save_every": 5, "validate_every": 10})
    said, save = io.StringIO(), trainer.save_checkpoint

    def saved(folder: Path, engine: Engine, standing: Any, *rest: Any) -> None:
        save(folder, engine, standing, *rest)
        if folder.name == "whole" and standing.step in (10, 25):
            shutil.copytree(folder, tmp_path / f"from-{standing.step}")

    monkeypatch.setattr(trainer, "save_checkpoint", saved)
    how: dict[str, Any] = {"device": "cuda", "console": Console(file=said, width=200)}
    run.fit(plain, out=tmp_path / "whole", **how)
    assert said.getvalue().count("step 21: compiling") == 1
    wanted = load_file(tmp_path / "whole" / "checkpoint.safetensors")
    for step in (10, 25):
        torch.compiler.reset()
        run.fit(plain, out=tmp_path / f"from-{step}", resume=True, **how)
        found = load_file(tmp_path / f"from-{step}" / "checkpoint.safetensors")
        assert all(torch.equal(found[name], value) for name, value in wanted.items()), step
