"""The model of scale: what it says of one GPU is what was measured; of many, what its formulas say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bench import sharding
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import MaskedConfig
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ, gpt
from regard.settings.training import AverageConfig, OptimizerConfig, TrainConfig
from regard.train import choice, measured, scaling
from regard.train.engine import Engine
from regard.train.measured import ROWS, Measured, expected_share
from regard.train.ranks import Ranks
from regard.train.scaling import Cluster, memory_of, scaled
from regard.train.workload import Workload, workload_of
from tests.train.toys import ALONE, loss_of, toy

SPEED = Path(__file__).parents[2] / "docs" / "speed"
FOUND = json.loads((SPEED / "training.json").read_text("utf-8"))
GIB = 2**30


def works() -> dict[str, Workload]:
    """The shapes that were measured."""
    with torch.device("meta"):
        bert = Headed(HeadedConfig(encoder=ENCODERS["base"](30_522), head=MaskedConfig()))
        language = Decoder(DECODERS["base"](50_257))
        base, small = Seq2Seq(SEQ2SEQ["base"](32_000)), Seq2Seq(SEQ2SEQ["small"](10_000))
    masked = {"tokens": 65_536, "predicted": 0.15}
    return {
        "BERT-base, length 128": workload_of(bert, name="", **masked, seen=128),  # type: ignore[arg-type]
        "BERT-base, length 512": workload_of(bert, name="", **masked, seen=512),  # type: ignore[arg-type]
        "BERT-base, up to 512, mean 160": workload_of(bert, name="", **masked, seen=214.938),  # type: ignore[arg-type]
        "GPT-2, length 1024": workload_of(language, name="", tokens=32_768, seen=512),
        "Transformer-base, mean 27": workload_of(base, name="", tokens=25_600),
        "Transformer-small, mean 15": workload_of(small, name="", tokens=4096),
    }


WORKS = works()


def named(name: str) -> Measured:
    return next(row for row in ROWS if row.name == name)


def test_the_table_is_what_the_benchmark_wrote() -> None:
    """But for what is another family's, or was measured again beside another peer."""
    rows = [row for row in FOUND["rows"] if not re.search("ModernBERT|theirs of like length", row["work"])]
    speeds = {row["work"]: row["ours"] for row in rows if row["setting"] == "bfloat16"}
    memories = {row["work"]: row["ours"] for row in rows if row["setting"] == "memory"}
    assert {row.name: row.speed for row in ROWS} == pytest.approx(speeds, rel=1e-5)
    assert {row.name: row.memory for row in ROWS} == pytest.approx(memories, rel=1e-3)
    assert FOUND["machine"] == f"{measured.GPU}, {measured.CEILING / 1e12:.0f} TFLOP/s for large matrices"
    assert FOUND["date"] == measured.DATE
    assert f"torch {FOUND['versions']['torch']}" == measured.VERSIONS


@pytest.mark.parametrize("name", WORKS)
def test_the_facts_of_each_row_are_those_of_its_model(name: str) -> None:
    row, work = named(name), WORKS[name]
    assert row.flops == pytest.approx(work.flops, rel=1e-6)
    assert (row.tokens, row.d_model, row.parameters) == (work.tokens, work.d_model, work.parameters)


@pytest.mark.parametrize("name", WORKS)
def test_memory_on_one_gpu_is_what_was_measured(name: str) -> None:
    """Three constants are of BERT-base, Transformer-base and -small: the other rows know nothing of them."""
    assert memory_of(WORKS[name], "ddp", 1).total / GIB == pytest.approx(named(name).memory, rel=0.03)


@pytest.mark.parametrize("name", [name for name in WORKS if "small" not in name])
def test_the_speed_of_a_row_is_foreseen_from_all_others(name: str) -> None:
    """But for the smallest, which no other is near."""
    others = [row for row in ROWS if row.size != named(name).size]
    assert expected_share(WORKS[name], others) == pytest.approx(named(name).share, rel=0.2)


@pytest.mark.parametrize("name", WORKS)
def test_one_gpu_does_what_it_was_measured_to_do(name: str) -> None:
    assert scaled(WORKS[name], Cluster()).speed == pytest.approx(named(name).speed, rel=0.02)


def test_what_is_cut_is_foreseen_as_it_was_measured() -> None:
    """Memory within 15 % and speed within 20 %, whole, cut, and cut with recomputed activations."""
    rows = {row["setting"]: row for row in json.loads((SPEED / "sharding.json").read_text("utf-8"))["rows"]}
    work = sharding.workload(sharding.shape(), sharding.ROWS * sharding.LONGEST)
    whole, cut = scaled(work, Cluster()), scaled(work, Cluster(), fsdp="yes")
    again = scaled(work, Cluster(), fsdp="yes", recomputed=True)
    assert whole.memory.total / GIB == pytest.approx(rows["memory"]["theirs"], rel=0.15)
    assert cut.memory.total / GIB == pytest.approx(rows["memory"]["ours"], rel=0.15)
    recomputed = rows["memory, activation_checkpointing"]["ours"]
    assert again.memory.total / GIB == pytest.approx(recomputed, rel=0.15)
    assert whole.speed == pytest.approx(rows["bfloat16"]["theirs"], rel=0.2)
    assert cut.speed == pytest.approx(rows["bfloat16"]["ours"], rel=0.2)
    assert rows["bfloat16"]["ratio"] == pytest.approx(measured.CUT, abs=0.005)


def test_gradients_of_what_is_cut_come_as_activations_go_unless_others_were_before() -> None:
    work = WORKS["GPT-2, length 1024"]
    one, two = memory_of(work, "fsdp", 2), memory_of(work, "fsdp", 2, parts=2)
    assert (one.fresh, two.fresh, memory_of(work, "ddp", 2).fresh) == (True, False, False)
    assert two.total - one.total == min(one.gradients, one.activations)


def test_larger_batches_use_more_of_the_chip_up_to_what_was_seen() -> None:
    work = WORKS["GPT-2, length 1024"]
    shares = [expected_share(replace(work, tokens=tokens)) for tokens in (1, 512, 4096, 65_536, 10**7)]
    assert shares == sorted(shares)
    assert shares[-1] == shares[-2] == pytest.approx(max(row.share for row in ROWS), rel=0.03)
    assert shares[0] < 0.02


def test_the_state_of_a_run_is_what_its_engine_allocates() -> None:
    """Weights, gradients, two moments, and the mean: counted on a toy, whose weights fill up their places."""
    model = toy()
    engine = Engine(
        model,
        loss_of(model),
        optimizer=OptimizerConfig(),
        average=AverageConfig(),
        ranks=ALONE,
        seed=0,
    )
    vectors = (
        engine.weights.values,
        engine.weights.gradients,
        engine.optimizer.means,
        engine.optimizer.squares,
    )
    own = sum(each.nbytes for each in (*vectors, engine.average.current))
    memory = memory_of(workload_of(model, name="", tokens=0), "ddp", 1)
    filled = engine.weights.values.numel() / sum(each.numel() for each in model.parameters())
    assert filled * (memory.weights + memory.gradients + memory.optimizer) == pytest.approx(own)


def test_what_is_cut_is_an_nth_of_the_whole() -> None:
    work = WORKS["GPT-2, length 1024"]
    whole, cut = memory_of(work, "ddp", 8), memory_of(work, "fsdp", 8)
    for kind in ("weights", "gradients", "optimizer"):
        assert getattr(cut, kind) == getattr(whole, kind) / 8
    assert cut.activations == whole.activations
    assert memory_of(work, "fsdp", 8, offloaded=True).optimizer == 0
    again = memory_of(work, "fsdp", 8, recomputed=True)
    assert again.activations < whole.activations / 4


def test_averages_count_as_they_are_kept() -> None:
    work = WORKS["GPT-2, length 1024"]
    kinds = [
        memory_of(work, "ddp", 1, average=average).optimizer / (4 * work.trained)
        for average in (AverageConfig(kind="none"), AverageConfig(), AverageConfig(kind="last", last=5))
    ]
    assert kinds == [2, 3, 7]


def test_a_model_is_cut_where_it_does_not_fit_and_there_are_others() -> None:
    with torch.device("meta"):
        shape = gpt(50_257, layers=40, d_model=4096, heads=32, d_ff=16_384)
        large = workload_of(Decoder(shape), name="8 B", tokens=8192, seen=512)
    assert not memory_of(large, "ddp", 1).total < Cluster().memory
    assert scaled(large, Cluster(gpus=8)).way == "fsdp"
    assert scaled(large, Cluster(gpus=8)).fits
    assert scaled(large, Cluster(gpus=1)).way == "ddp"
    assert not scaled(large, Cluster(gpus=1)).fits
    assert scaled(WORKS["GPT-2, length 1024"], Cluster(gpus=8)).way == "ddp"


def test_data_passes_as_fast_as_the_slowest_link_on_the_way() -> None:
    def passing(gpus: int, nodes: int) -> float:
        cluster = Cluster(gpus=gpus, nodes=nodes, inside=100.0, between=10.0)
        return cluster.passing(1000.0) * scaling.USED

    assert passing(2, 1) == pytest.approx(0.5 * 1000 / 100, rel=1e-3)
    assert passing(8, 1) == pytest.approx(7 / 8 * 1000 / 100, rel=1e-3)
    assert passing(1, 2) == pytest.approx(0.5 * 1000 / 10, rel=1e-3)
    assert passing(2, 4) == pytest.approx(3 / 4 * 1000 / 20, rel=1e-3)  # two links side by side


def test_steps_add_up_as_the_formulas_say() -> None:
    work, cluster = WORKS["GPT-2, length 1024"], Cluster(gpus=8, nodes=2)
    whole, cut = scaled(work, cluster, parts=2), scaled(work, cluster, parts=2, fsdp="yes")
    assert whole.tokens == 2 * 16 * 32_768
    assert whole.talking == pytest.approx(2 * cluster.passing(4 * work.parameters))
    assert whole.step == whole.compute + whole.update + whole.talking
    assert cut.step == max(cut.compute, cut.talking) + cut.update
    assert cut.compute == pytest.approx(whole.compute / measured.CUT)
    assert cut.update == pytest.approx(whole.update / 16 / measured.CUT)
    assert scaled(work, cluster, fsdp="yes", offloaded=True).update == 0  # not on the GPU, and not foreseen
    assert whole.seconds(1e9) == pytest.approx(1e9 / whole.speed)
    assert scaled(work, cluster, recomputed=True).compute == pytest.approx(whole.compute / 2 * 4 / 3)


@pytest.mark.parametrize("name", ["gpus", "nodes"])
def test_no_machine_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        Cluster(**{name: 0})  # type: ignore[arg-type]


def test_bert_base_is_whole_on_every_rank_whatever_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    work = WORKS["BERT-base, length 128"]
    eight, room = Ranks(0, 8, torch.device("cuda")), 150e9
    monkeypatch.setattr(choice, "room_of", lambda device: room)
    monkeypatch.setattr(Ranks, "gathered", lambda _, own: [own] * 8)
    assert not choice.is_sharded(TrainConfig(), AverageConfig(), eight, lambda: work)
    for parts in (1, 8):  # of a rank: 64 in all
        assert scaled(work, Cluster(gpus=8, memory=room), parts=parts).way == "ddp"


def test_ranks_that_have_different_room_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else some would gather layers, and others add up gradients: all would wait for ever."""
    work = WORKS["BERT-base, length 128"]
    rooms = [150e9, 0.5 * memory_of(work, "ddp", 2).total]
    monkeypatch.setattr(choice, "room_of", lambda device: rooms[device.index])

    def gathered(self: Ranks, own: float) -> list[float]:
        assert own == rooms[self.rank]
        return rooms

    monkeypatch.setattr(Ranks, "gathered", gathered)
    two = [Ranks(rank, 2, torch.device(f"cuda:{rank}")) for rank in range(2)]
    assert [choice.is_sharded(TrainConfig(), AverageConfig(), each, lambda: work) for each in two] == [
        True,
        True,
    ]


def test_the_first_rank_has_room_for_what_it_validates_with() -> None:
    work = replace(WORKS["GPT-2, length 1024"], tokens=1)
    found = memory_of(work, "fsdp", 64)
    assert found.total >= 4 * work.parameters
    assert memory_of(work, "ddp", 64).validating == 0
