import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.layout import Layout
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.initialize import initialize
from regard.nn.stacks import Stack
from regard.settings.models import EncoderConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.settings.presets import SEQ2SEQ
from regard.settings.training import AverageConfig, OptimizerConfig
from regard.train.flat import FlatParameters
from regard.train.muon import FlatMuon, layer_matrices, orthogonal
from regard.train.optim import FlatAdam
from tests.train.test_trainer import assert_same_run, stopping
from tests.train.toys import WORDS, Run, ToyBatch, batch, engine, loss_of, toy

SETTINGS = OptimizerConfig(kind="muon", weight_decay=0.1, eps=1e-6)
POSITIONS = PositionsConfig(kind="relative")  # has a table inside every layer
LAYERS = TransformerConfig(
    layers=2,
    attention=AttentionConfig(heads=3, kv_heads=1, d_head=4),
    feed_forward=FeedForwardConfig(d_ff=10, activation="swiglu"),
    dropout=0.0,
)


class Small(nn.Module):
    """A Transformer whose matrices have many shapes, and sizes that leave gaps between them."""

    def __init__(self, config: TransformerConfig = LAYERS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 12)
        self.body = Stack(12, config, POSITIONS, causal=False)
        self.outer = nn.Linear(12, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.outer(self.body(self.embedding(ids), Layout.of([len(ids)])))


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small()


def separate(model: nn.Module) -> tuple[dict[str, list[Tensor]], dict[str, nn.Parameter]]:
    """What torch's own optimizers take: copies of Muon's matrices, each projection alone, and the rest."""
    rows = layer_matrices(model)
    own = dict(model.named_parameters())
    split = {name: [each.detach().clone() for each in own[name].split(rows[name])] for name in rows}
    return split, {name: each for name, each in own.items() if name not in rows}


def muon_over(flat: FlatParameters, model: nn.Module, config: OptimizerConfig = SETTINGS) -> FlatMuon:
    return FlatMuon(flat, config, layer_matrices(model))


def flat_small(**settings: Any) -> tuple[Small, FlatParameters]:
    model = small()
    return model, FlatParameters(model, first=layer_matrices(model), **settings)


def uneven(name: str) -> float:
    """Factors on the rate; the layers' own differ."""
    return {"embedding": 3.0, "body": 0.25 if "layers.0" in name else 0.5, "outer": 2.0}[name.split(".")[0]]


def test_muon_takes_the_matrices_of_layers_and_nothing_else() -> None:
    found = layer_matrices(small())
    for name, parameter in small().named_parameters():
        wanted = "layers" in name and parameter.ndim == 2 and "bias" not in name
        assert (name in found) == wanted, name
    assert any(name.endswith("attention.bias.table.weight") for name, _ in small().named_parameters())


def test_projections_that_share_a_matrix_are_known() -> None:
    found = layer_matrices(small())
    assert found["body.layers.1.attention.project.weight"] == [12, 4, 4]
    assert found["body.layers.1.feed_forward.inner.weight"] == [10, 10]
    assert found["body.layers.1.feed_forward.output.weight"] == [12]
    translator = Seq2Seq(SEQ2SEQ["tiny"](20))
    own, width = layer_matrices(translator), translator.config.decoder.d_model
    assert own["decoder.body.layers.0.cross_attention.project_memory.weight"] == [width, width]
    assert all(
        sum(rows) == len(parameter)
        for name, parameter in translator.named_parameters()
        if (rows := own.get(name)) is not None
    )


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (1, 5)])
def test_orthogonal_sends_each_singular_value_through_the_polynomial(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, dtype=torch.float64)
    for given, made in zip(matrices, orthogonal(matrices), strict=True):
        left, values, right = torch.linalg.svd(given, full_matrices=False)
        values = values / values.square().sum().sqrt()
        for _ in range(5):
            values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
        torch.testing.assert_close(made, left @ values.diag() @ right)


def test_singular_values_that_are_not_lost_in_the_others_come_near_one() -> None:
    values = torch.linspace(0.05, 1, 300, dtype=torch.float64)
    assert values.min() / values.norm() > 0.002
    found = torch.linalg.svdvals(orthogonal(values.diag()[None]))
    assert found.min() > 0.68
    assert found.max() < 1.21


def test_nothing_stays_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 3, 5)).any()


def exact_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.optim.Muon rounds to bfloat16; here it does not."""

    def in_single(matrix: Tensor, *_: Any) -> Tensor:
        return orthogonal(matrix[None])[0]

    monkeypatch.setattr("torch.optim._muon._zeropower_via_newtonschulz", in_single)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("factor", [None, uneven])
@pytest.mark.parametrize("steps", [1, 10])
def test_steps_are_those_of_torchs_muon_and_adamw(
    monkeypatch: pytest.MonkeyPatch, exact: bool, factor: Callable[[str], float] | None, steps: int
) -> None:
    if exact:
        exact_torch(monkeypatch)
    model, flat = flat_small(factor=factor)
    ours = muon_over(flat, model)
    split, rest = separate(small())
    share = factor or (lambda name: 1.0)
    theirs: list[torch.optim.Optimizer] = [
        torch.optim.Muon(
            [{"params": matrices, "factor": share(name)} for name, matrices in split.items()],
            weight_decay=0.1,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            [
                {
                    "params": [each],
                    "weight_decay": 0.1 if name == "outer.weight" else 0.0,
                    "factor": share(name),
                }
                for name, each in rest.items()
            ],
            betas=SETTINGS.betas,
            eps=SETTINGS.eps,
            fused=True,
        ),
    ]
    before = flat.values.clone()
    for step in range(1, steps + 1):
        rate = 0.002 * step
        flat.gradients.copy_(torch.randn(len(flat.gradients)))
        for name, gradient in flat.named(flat.gradients).items():
            if name in rest:
                rest[name].grad = gradient.clone()
            else:
                parts = gradient.split([len(each) for each in split[name]])
                for matrix, part in zip(split[name], parts, strict=True):
                    matrix.grad = part.clone()
        for optimizer in theirs:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["factor"]
            optimizer.step()
        ours.set_rate(rate)
        ours.step()
    assert ours.updates == steps
    moved = flat.named(flat.values - before)
    for name, value in flat.named(flat.values).items():
        if name in rest:
            torch.testing.assert_close(value, rest[name].detach(), rtol=1e-6, atol=1e-7, msg=name)
        elif exact:
            torch.testing.assert_close(value, torch.cat(split[name]), rtol=1e-5, atol=1e-6, msg=name)
        else:  # bfloat16 has 8 bits, and the polynomial is steep
            wrong = (value - torch.cat(split[name])).norm() / moved[name].norm()
            assert wrong < 0.03, name


def test_the_rest_goes_as_under_adamw_alone() -> None:
    models = [small(), small()]
    flats = [FlatParameters(models[0], first=layer_matrices(models[0])), FlatParameters(models[1])]
    with_muon = muon_over(flats[0], models[0])
    optimizers = with_muon, FlatAdam(flats[1], OptimizerConfig(weight_decay=0.1, eps=1e-6))
    for _ in range(4):
        gradients = {name: torch.randn(place.shape) for name, place in flats[0].places.items()}
        for flat, optimizer in zip(flats, optimizers, strict=True):
            for name, gradient in flat.named(flat.gradients).items():
                gradient.copy_(gradients[name])
            optimizer.set_rate(0.01)
            optimizer.step()
    ours, theirs = (flat.named(flat.values) for flat in flats)
    for name in ours:
        assert torch.equal(ours[name], theirs[name]) == (name not in layer_matrices(models[0])), name


def test_an_update_is_as_large_as_adamws_usually_is() -> None:
    model, flat = flat_small()
    before = flat.values.clone()
    optimizer = muon_over(flat, model, OptimizerConfig(kind="muon"))
    optimizer.set_rate(0.01)
    flat.gradients.copy_(torch.randn(len(flat.gradients)))
    optimizer.step()
    moved = flat.named(flat.values - before)
    for name, rows in layer_matrices(model).items():
        for part in moved[name].split(rows):
            size = 0.2 * 0.01 * math.sqrt(max(part.shape) * min(part.shape) / part.numel())
            assert part.square().mean().sqrt() == pytest.approx(size, rel=0.3)


def test_what_lies_between_the_matrices_stays_nothing() -> None:
    model, flat = flat_small()
    optimizer = muon_over(flat, model)
    optimizer.set_rate(0.1)
    between = torch.ones(len(flat.values), dtype=torch.bool)
    for place in flat.places.values():
        between[place.start : place.stop] = False
    assert between[: flat.parts[0].span.stop].any()
    loss_of(model)(batch(12, 0)).loss.backward()
    optimizer.step()
    assert not flat.values[between].any()
    assert not optimizer.means[between].any()


class Watching(TorchDispatchMode):
    """Notes which operations run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(op.overloadpacket.__name__)
        return op(*args, **(kwargs or {}))


def test_a_step_asks_nothing_of_the_device_and_makes_few_products() -> None:
    """As a captured one must, and as many for two layers as for one: matrices of one shape are one batch."""
    products = []
    for layers in (1, 2):
        model = Small(replace(LAYERS, layers=layers))
        flat = FlatParameters(model, first=layer_matrices(model))
        optimizer = muon_over(flat, model)
        with Watching() as watching:
            optimizer.step()
        assert not {"_local_scalar_dense", "nonzero"} & {*watching.seen}
        products.append(sum(name in ("bmm", "baddbmm") for name in watching.seen))
    shapes = {(12, 12), (4, 12), (10, 12), (12, 10)}  # queries and output; keys, values; gate, inner; output
    assert products == [len(shapes) * 5 * 3] * 2


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
@pytest.mark.parametrize("factor", [None, uneven])
def test_a_skipped_step_changes_nothing(factor: Any, spoiled: float) -> None:
    model, flat = flat_small(factor=factor)
    optimizer = muon_over(flat, model)
    optimizer.set_rate(0.1)
    loss_of(model)(batch(12, 0)).loss.backward()
    optimizer.step()
    vectors = flat.values, optimizer.means, optimizer.squares
    kept = [vector.clone() for vector in vectors]
    flat.gradients.fill_(spoiled)
    optimizer.skip.fill_(1.0)
    optimizer.step()
    assert optimizer.updates == 1
    assert all(torch.equal(one, other) for one, other in zip(kept, vectors, strict=True))
    optimizer.skip.fill_(0.0)
    flat.gradients.fill_(0.1)
    optimizer.step()
    assert optimizer.updates == 2
    assert not torch.equal(kept[0], flat.values)


def test_the_momentum_is_among_the_means_and_squares_are_only_adamws() -> None:
    model, flat = flat_small()
    optimizer = muon_over(flat, model)
    optimizer.set_rate(0.0)
    gradients = [torch.randn(len(flat.gradients)) for _ in range(3)]
    for gradient in gradients:
        flat.gradients.copy_(gradient)
        optimizer.step()
    end = flat.parts[0].span.stop
    expected = sum(0.05 * 0.95 ** (2 - age) * gradient for age, gradient in enumerate(gradients))
    torch.testing.assert_close(optimizer.means[:end], expected[:end])
    assert not optimizer.squares[:end].any()
    assert optimizer.squares[end:].all()


def test_decay_pulls_the_matrices_at_their_factor_of_the_rate() -> None:
    model, flat = flat_small(factor=uneven)
    before = {name: value.clone() for name, value in flat.named(flat.values).items()}
    optimizer = muon_over(flat, model, OptimizerConfig(kind="muon", weight_decay=0.5))
    optimizer.set_rate(0.1)
    optimizer.step()  # no gradient at all
    for name, value in flat.named(flat.values).items():
        decays = name in layer_matrices(model) or name == "outer.weight"
        torch.testing.assert_close(value, (1 - 0.05 * uneven(name) * decays) * before[name], msg=name)


def test_a_longer_gradient_is_clipped_before_the_momentum_sees_it() -> None:
    own = engine(small(), optimizer=OptimizerConfig(kind="muon", clip=0.01, betas=(0.95, 0.98)))
    own.step(1, [(0, batch(12, 0))], 0.01)
    assert float(own.optimizer.means.norm()) == pytest.approx(0.05 * 0.01, rel=1e-3)


def test_an_update_that_is_not_finite_does_not_happen_and_the_next_one_does() -> None:
    model = small()
    own = engine(model, optimizer=SETTINGS, average=AverageConfig(kind="none"))
    own.step(1, [(0, batch(12, 0))], 0.01)
    kept = own.weights.values.clone()
    own.weights.totals[0] = math.nan  # as a broken part would leave it
    own.step(2, [(0, batch(12, 1))], 0.01)
    assert torch.equal(own.weights.values, kept)
    own.step(3, [(0, batch(12, 2))], 0.01)
    assert own.optimizer.updates == 2
    assert torch.isfinite(own.weights.values).all()
    assert not torch.equal(own.weights.values, kept)


def test_frozen_matrices_stay_and_the_others_learn() -> None:
    model = small()
    model.body.each[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    own = engine(model, optimizer=SETTINGS)
    for step in range(1, 4):
        own.step(step, [(0, batch(12, step))], 0.01)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == ("layers.0" in name), name


def test_a_model_without_layers_is_left_to_adamw() -> None:
    plain, asked = (engine(toy(), optimizer=OptimizerConfig(kind=kind)) for kind in ("adam", "muon"))
    for step in range(1, 4):
        for own in (plain, asked):
            own.step(step, [(0, batch(12, step))], 0.01)
    assert torch.equal(plain.weights.values, asked.weights.values)


@pytest.mark.parametrize("factor", [None, uneven])
def test_a_run_stopped_anywhere_goes_on_as_if_it_never_was(tmp_path: Path, factor: Any) -> None:
    def run(folder: str) -> Run:
        return Run(
            tmp_path / folder,
            model=small(),
            factor=factor,
            optimizer=OptimizerConfig(kind="muon", learning_rate=1e-2, warmup=2, weight_decay=0.1),
        )

    whole = run("whole")
    whole.trainer.run()
    for step in (3, 7):
        parted = run("parted")
        if step > 3:
            parted.trainer.resume()
        stopping(parted, step)
        assert parted.trainer.run().step == step
    last = run("parted")
    last.trainer.resume()
    last.trainer.run()
    assert_same_run(tmp_path / "whole", tmp_path / "parted")
    assert torch.equal(whole.values, last.values)


class Reversing(nn.Module):
    """Says lines of six words backwards: that cannot be done without looking at other places."""

    def __init__(self) -> None:
        super().__init__()
        body = TransformerConfig(layers=1, attention=AttentionConfig(heads=2), dropout=0.0)
        self.encoder = Encoder(
            EncoderConfig(vocabulary=WORDS, d_model=32, embedding=EmbeddingConfig(dropout=0.0), body=body)
        )
        initialize(self, InitialConfig())
        self.outer = nn.Linear(32, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.outer(self.encoder(ids, Layout.of([6] * (len(ids) // 6))))


def lines(seed: int) -> ToyBatch:
    chance = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (20, 6), generator=chance)
    return ToyBatch(words.flatten(), words.flip(1).flatten())


@pytest.mark.usefixtures("unchecked")
def test_a_small_model_learns_to_reverse() -> None:
    torch.manual_seed(0)
    model = Reversing()
    own = engine(model, optimizer=OptimizerConfig(kind="muon", weight_decay=0.01))
    for step in range(1, 301):
        own.step(step, [(0, lines(step))], 0.03 * min(1, step / 20) * (1 - step / 301))
    unseen = lines(0)
    assert (model(unseen.ids).argmax(-1) == unseen.labels).float().mean() > 0.95
