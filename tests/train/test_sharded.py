"""A model that is cut over ranks learns what one process alone would; checkpoints fit any number of ranks."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from regard.models.decoder import Decoder
from regard.settings.presets import DECODERS
from regard.settings.training import AverageConfig, BatchConfig, OptimizerConfig
from regard.tasks.language.data import BlockFeed
from regard.tasks.language.train import LanguageLoss
from regard.train import checkpoint, sharded
from regard.train.checkpoint import CheckpointError
from regard.train.digests import of_weights
from regard.train.engine import Engine
from regard.train.ranks import Ranks
from regard.train.resume import find, load_checkpoint, reached, save_checkpoint
from regard.train.sharded import ShardedEngine
from regard.train.shards import _digest, newest, read_facts, whole_weights, write_weights
from regard.train.standing import Standing
from tests.train.ranked import PARTS, SIZE, WORDS, Asked, difference, found, launched, stream
from tests.train.toys import ALONE

EXACT = 1e-10
WAYS = {"flat": "no", "fsdp": "yes"}


def half(count: int, way: str) -> Asked:
    """A run that is killed after step 7; its last checkpoint is that of step 6."""
    return Asked(f"{way}-half-{count}", fsdp=WAYS[way], until=7)


def continued(folder: Path, before: int, count: int, *pairs: tuple[str, str]) -> list[Asked]:
    """Such runs of `before` ranks, gone on with by `count`: from one way to another."""
    asked = []
    for way, to in pairs:
        name = f"{way}-{before}-{to}-{count}"
        shutil.copytree(folder / f"{way}-half-{before}", folder / name)
        asked.append(Asked(name, fsdp=WAYS[to], resume=True))
    return asked


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes, each parameter in the one flat vector; and runs of it that were killed."""
    folder = tmp_path_factory.mktemp("ranks")
    ways = [
        Asked("adam"),
        Asked("muon", optimizer="muon"),
        Asked("last", average="last"),
        Asked("frozen", frozen=True),
        Asked("recomputed", recompute=True),
        Asked("fsdp-1", fsdp="yes"),
    ]
    launched(folder, 1, *ways, half(1, "flat"), half(1, "fsdp"))
    return folder


@pytest.fixture(scope="module")
def two(alone: Path) -> Path:
    ways = [
        Asked("flat-2"),
        Asked("fsdp-2", fsdp="yes"),
        Asked("muon-2", fsdp="yes", optimizer="muon"),
        Asked("muon-flat-2", optimizer="muon"),
        Asked("last-2", fsdp="yes", average="last"),
        Asked("frozen-2", fsdp="yes", frozen=True),
        Asked("offloaded-2", fsdp="yes", offload=True, recompute=True),
    ]
    both = continued(alone, 1, 2, ("flat", "flat"), ("flat", "fsdp"), ("fsdp", "flat"), ("fsdp", "fsdp"))
    launched(alone, 2, *ways, *both, half(2, "fsdp"), half(2, "flat"))
    return alone


@pytest.fixture(scope="module")
def four(two: Path) -> Path:
    both = continued(two, 2, 4, ("fsdp", "fsdp"))
    launched(two, 4, Asked("flat-4"), Asked("fsdp-4", fsdp="yes"), *both)
    return two


@pytest.mark.spec("3.6d")
def test_one_rank_cut_is_one_rank_whole(alone: Path) -> None:
    assert difference(alone, "fsdp-1", "adam") < EXACT


def test_what_is_computed_again_is_the_same_to_the_bit(alone: Path) -> None:
    assert difference(alone, "recomputed", "adam") == 0


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("flat-2", "adam"),
        ("fsdp-2", "adam"),
        ("muon-2", "muon"),
        ("muon-flat-2", "muon"),
        ("last-2", "last"),
        ("frozen-2", "frozen"),
        ("offloaded-2", "adam"),
    ],
)
def test_two_ranks_make_the_steps_of_one(two: Path, name: str, wanted: str) -> None:
    assert difference(two, name, wanted) < EXACT


@pytest.mark.long
@pytest.mark.spec("3.6d")
@pytest.mark.parametrize("name", ["flat-4", "fsdp-4"])
def test_four_ranks_make_the_steps_of_one(four: Path, name: str) -> None:
    assert difference(four, name, "adam") < EXACT


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("to", WAYS)
def test_a_run_of_one_rank_is_gone_on_with_by_two_as_if_it_never_stopped(
    two: Path, way: str, to: str
) -> None:
    assert difference(two, f"{way}-1-{to}-2", "adam") < EXACT


@pytest.mark.long
@pytest.mark.spec("3.6d")
def test_a_run_of_two_ranks_is_gone_on_with_by_four_as_if_it_never_stopped(four: Path) -> None:
    assert difference(four, "fsdp-2-fsdp-4", "adam") < EXACT


@pytest.mark.long
def test_any_number_of_ranks_goes_on_with_what_any_other_has_left(four: Path) -> None:
    """Down from four to two and to one, in both ways; and over several epochs."""
    launched(four, 4, half(4, "fsdp"), half(4, "flat"))
    for count in (2, 1):
        asked = continued(four, 4, count, ("fsdp", "fsdp"), ("fsdp", "flat"), ("flat", "fsdp"))
        launched(four, count, *asked)
        for each in asked:
            assert difference(four, each.name, "adam") < EXACT
    launched(four, 1, Asked("longer", steps=24), Asked("longer-muon", steps=12, optimizer="muon"))
    launched(
        four,
        4,
        Asked("longer-4", steps=24, fsdp="yes"),
        Asked("longer-muon-4", steps=12, fsdp="yes", optimizer="muon"),
        Asked("longer-flat-4", steps=24),
    )
    assert difference(four, "longer-4", "longer") < EXACT
    assert difference(four, "longer-flat-4", "longer") < EXACT
    assert difference(four, "longer-muon-4", "longer-muon") < EXACT


def test_the_runs_meet_steps_in_which_a_rank_has_nothing_to_do(tmp_path: Path) -> None:
    """Or else the equalities above would say nothing of them."""
    batch = BatchConfig(tokens=24, parts=PARTS)
    feed = BlockFeed(stream(tmp_path), batch, size=SIZE, across=True, static=False, rank=3, ranks=4)
    counts = [(len(feed.parts(step)), len(feed.idle(step))) for step in range(1, 10)]
    assert (0, 1) in counts
    assert all(own + idle == 1 for own, idle in counts)


def test_shards_become_the_one_file_of_a_model(two: Path) -> None:
    path = newest(two / "fsdp-2")
    assert path is not None
    assert len([*path.glob("*.safetensors")]) == 2  # each rank has written its own
    _, wanted = found(two, "fsdp-2")
    weights = whole_weights(path)
    assert {f"last.{name}" for name in weights} == {name for name in wanted if name.startswith("last.")}
    for name, each in weights.items():
        assert torch.equal(each, wanted[f"last.{name}"]), name
    facts = read_facts(path)
    assert facts["files"] == {each.name: _digest(each) for each in path.glob("*.safetensors")}
    averaged = whole_weights(path, ["average.mean"])
    written = write_weights(path, two / "whole" / "model.safetensors")
    with safe_open(written, framework="pt") as file:
        assert {*file.keys()} == {*whole_weights(path)}
        for name, each in averaged.items():
            assert torch.equal(file.get_tensor(name), each)
        assert set(file.metadata()) == set(of_weights(weights))
    for name, each in averaged.items():
        assert torch.equal(each, wanted[f"best.{name}"]), name


# ---- one process, cut in one piece


@pytest.fixture
def one_group() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def made(kind: type[Any] = ShardedEngine, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    torch.manual_seed(0)
    model = Decoder(DECODERS["tiny"](WORDS)).to(dtype).train()
    own = {"optimizer": OptimizerConfig(clip=0.0), "average": AverageConfig(), "ranks": ALONE, "seed": 0}
    return kind(model, LanguageLoss(model, 0.1), **{**own, **settings})


def stepped(engine: Any, folder: Path, steps: int = 2) -> dict[str, Tensor]:
    feed = BlockFeed(stream(folder), BatchConfig(tokens=24, parts=2), size=SIZE, across=True, static=False)
    for step in range(1, steps + 1):
        engine.step(step, feed.parts(step), 1e-3)
    with engine.shown(averaged=False) as weights:
        return {name: each.clone() for name, each in weights.items()}


@pytest.mark.usefixtures("one_group")
def test_in_bfloat16_a_model_that_is_cut_computes_what_a_whole_one_does(tmp_path: Path) -> None:
    """To the bit, where no gradient is clipped: only its length is added up in another order."""
    wanted = stepped(made(Engine, bfloat16=True), tmp_path)
    for name, each in stepped(made(bfloat16=True), tmp_path).items():
        assert torch.equal(each, wanted[name]), name


@pytest.mark.usefixtures("one_group")
@pytest.mark.parametrize("recompute", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path: Path, recompute: bool) -> None:
    engine = made(recompute=recompute)
    before = stepped(engine, tmp_path, 1)
    engine.small.gradients[3] = torch.nan
    after = stepped(engine, tmp_path, 1)
    assert engine.statistics[3] == 1
    assert engine.optimizer.updates == 1
    for name, each in after.items():
        assert torch.equal(each, before[name]), name


@pytest.mark.usefixtures("one_group")
def test_a_loss_that_hides_its_model_is_refused() -> None:
    model = Decoder(DECODERS["tiny"](WORDS))
    own = LanguageLoss(model)
    with pytest.raises(ValueError, match=r"train\.fsdp: function does not hold the model.*train\.fsdp='no'"):
        ShardedEngine(
            model,
            lambda batch: own(batch),
            optimizer=OptimizerConfig(),
            average=AverageConfig(),
            ranks=ALONE,
            seed=0,
        )


def saved(engine: Any, folder: Path, step: int) -> Path:
    save_checkpoint(folder, engine, Standing(step=step), [], ALONE, "adam")
    path = find(folder)
    assert path is not None
    return path


@pytest.mark.usefixtures("one_group")
def test_a_checkpoint_is_there_whole_or_the_one_before_is(tmp_path: Path) -> None:
    engine = made()
    first = saved(engine, tmp_path, 3)
    shutil.copytree(first, tmp_path / "checkpoint-5.partial")  # whoever wrote this was killed
    assert find(tmp_path) == first
    assert reached(tmp_path) == 3
    second = saved(engine, tmp_path, 7)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == [second.name] == ["checkpoint-7"]


@pytest.mark.usefixtures("one_group")
@pytest.mark.parametrize("kind", [Engine, ShardedEngine])
def test_rows_are_saved_and_read_where_they_lie_whatever_device_ranks_meet_on(
    tmp_path: Path, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that are offloaded: ranks meet on CUDA, rows lie on the CPU. Here, ranks meet on `meta`."""
    before, plain, found = made(kind), made(), made()
    stepped(before, tmp_path)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(DeviceMesh, "device_type", "meta")
        saved(before, tmp_path, 2)
        load_checkpoint(tmp_path, found, ALONE, "adam")
    load_checkpoint(tmp_path, plain, ALONE, "adam")
    wanted = lying(before if kind is ShardedEngine else plain)
    for name, each in lying(found).items():
        assert torch.equal(each, wanted[name]), name
        assert torch.equal(each, lying(plain)[name]), name
        assert each.any(), name


def lying(engine: Any) -> dict[str, Tensor]:
    """What a rank has of matrices, as training uses it."""
    kinds = {
        "weights": engine.rows.locals(),
        "means": engine.optimizer.means,
        "squares": engine.optimizer.squares,
        "average": {name: engine.averages[name].mean for name in engine.rows.parameters},
    }
    return {f"{kind}/{name}": each for kind, found in kinds.items() for name, each in found.items()}


@pytest.mark.usefixtures("one_group")
def test_a_step_that_is_saved_again_is_never_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made()
    saved(engine, tmp_path, 3)
    partial_of = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise KeyboardInterrupt
        return partial_of(self, target)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            saved(engine, tmp_path, 3)
    assert reached(tmp_path) == 3
    found, _ = load_checkpoint(tmp_path, engine, ALONE, "adam")
    assert found.step == 3
    assert saved(engine, tmp_path, 3).name == "checkpoint-3"
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-3"]


@pytest.mark.usefixtures("one_group")
def test_a_file_that_does_not_say_where_its_weights_are_is_refused_in_a_line(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, made(Engine), Standing(step=3), [], ALONE, "adam")
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = checkpoint.read(path)
    for places in (None, {"embedding": 5}, {"embedding": [0, 10**9]}):
        own = {name: each for name, each in facts.items() if name != "places"}
        checkpoint.write(path, tensors, own if places is None else {**own, "places": places})
        with pytest.raises(CheckpointError, match="damaged: it does not say where the weights are"):
            load_checkpoint(tmp_path, made(), ALONE, "adam")


@pytest.mark.usefixtures("one_group")
def test_the_copy_that_validates_is_made_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the model has left the GPU, not before."""
    done: list[str] = []
    copied, moved = sharded._copied, Decoder.to

    def copying(*given: Any) -> Any:
        done.append("copied")
        return copied(*given)

    def moving(self: Decoder, *given: Any) -> Decoder:
        done.append(f"to {given[0]}")
        return moved(self, *given)

    monkeypatch.setattr(sharded, "_copied", copying)
    monkeypatch.setattr(Decoder, "to", moving)
    made()
    assert done == ["to torch.float32", "to cpu", "copied"]


@pytest.mark.usefixtures("one_group")
def test_a_byte_that_has_changed_is_found(tmp_path: Path) -> None:
    engine = made()
    path = saved(engine, tmp_path, 3)
    [shard] = path.glob("*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{shard.name}: damaged: its content is not what was written"):
        load_checkpoint(tmp_path, engine, ALONE, "adam")
    facts = path / "standing.json"
    facts.write_text(facts.read_text().replace('"step": 3', '"step": 4'))
    with pytest.raises(CheckpointError, match="damaged: its content is not what was written"):
        load_checkpoint(tmp_path, engine, ALONE, "adam")


@pytest.mark.usefixtures("one_group")
@pytest.mark.parametrize("kind", [Engine, ShardedEngine])
def test_the_checkpoint_of_another_run_is_refused_by_what_differs(tmp_path: Path, kind: type[Any]) -> None:
    saved(made(), tmp_path, 3)
    with pytest.raises(CheckpointError, match=r"averaged another way.*average\.mean/"):
        load_checkpoint(tmp_path, made(kind, average=AverageConfig(kind="none")), ALONE, "adam")
    muon = made(kind, optimizer=OptimizerConfig(kind="muon"))
    with pytest.raises(CheckpointError, match=r"begun with optimizer\.kind='adam'"):
        load_checkpoint(tmp_path, muon, ALONE, "muon")


@pytest.mark.usefixtures("one_group")
def test_layers_are_compiled_between_what_gathers_their_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def noted(work: Any, **settings: Any) -> Any:
        assert settings == {"fullgraph": True, "dynamic": False}
        compiled.append(work)
        return lambda *given: work(*given)

    monkeypatch.setattr("torch.compile", noted)
    wanted = stepped(made(), tmp_path)
    engine = made(recompute=True)
    engine.compile(lambda: None)
    assert len(compiled) == 3  # two layers, and the loss
    for name, each in stepped(engine, tmp_path).items():
        assert torch.equal(each, wanted[name]), name


@pytest.mark.skipif(torch.cuda.is_available(), reason="which is there")
def test_a_process_alone_forms_a_group_of_one() -> None:
    Ranks(rank=0, count=1, device=torch.device("cpu")).form_group()
    assert dist.get_world_size() == 1
    dist.destroy_process_group()
