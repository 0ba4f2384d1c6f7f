"""On an NVIDIA GPU: a model that is cut learns what a whole one does, in bfloat16, compiled or not.

`regard bench sharding` does the same with GPT-2's large shape, and writes down memory and speed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from regard.bench.sharding import APART, batches, check_same, losses, made, peak, shape
from regard.train.ranks import Ranks
from regard.train.resume import load_checkpoint, save_checkpoint
from regard.train.standing import Standing

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
SMALL = shape(layers=4, d_model=256, heads=4, vocabulary=2000)


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    yield Ranks.join("cuda")
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("quick", [False, True])
def test_fifty_losses_are_those_of_the_flat_vector(ranks: Ranks, quick: bool) -> None:
    given = [batch.pin() for batch in batches(4, 8, 256, 2000)]
    whole, cut = (losses(made(SMALL, ranks, cut=each, quick=quick), given, 50) for each in (False, True))
    assert check_same(cut, whole) <= APART
    assert whole[-1] < whole[0] - 0.1  # it learns


def test_what_is_computed_again_takes_less_memory_and_gives_the_same_losses(ranks: Ranks) -> None:
    given = [batch.pin() for batch in batches(4, 32, 256, 2000)]
    found = {}
    for again in (False, True):
        engine, values, most = peak(
            lambda again=again: made(SMALL, ranks, cut=True, recompute=again, quick=False), given, 10
        )
        del engine
        found[again] = values, most
    assert check_same(found[True][0], found[False][0]) <= APART
    assert found[True][1] < 0.7 * found[False][1]


def test_one_rank_cut_takes_hardly_more_memory_than_whole(ranks: Ranks) -> None:
    given = [batch.pin() for batch in batches(4, 32, 256, 2000)]
    most = []
    for cut in (False, True):
        engine, _, took = peak(lambda cut=cut: made(SMALL, ranks, cut=cut, quick=False), given, 5)
        del engine
        most.append(took)
    assert most[1] <= 1.1 * most[0]  # 1.05 with the large shape, whose layers are small beside it


def test_a_checkpoint_brings_another_there(ranks: Ranks, tmp_path: Path) -> None:
    given = [batch.pin() for batch in batches(4, 8, 256, 2000)]
    first = made(SMALL, ranks, cut=True, quick=False)
    losses(first, given, 3)
    save_checkpoint(tmp_path, first, Standing(step=3), [], ranks, "adam")
    second = made(SMALL, ranks, cut=True, quick=False)
    load_checkpoint(tmp_path, second, ranks, "adam")
    for engine in (first, second):
        engine.step(4, [(0, given[0])], 1e-4)
    assert torch.equal(first.statistics, second.statistics)


def test_what_is_offloaded_is_brought_there_too(ranks: Ranks, tmp_path: Path) -> None:
    """Rows lie in the memory of the host, and the ranks meet on the GPU."""
    given = [batch.pin() for batch in batches(4, 8, 256, 2000)]
    first, second = (made(SMALL, ranks, cut=True, quick=False, offload=True) for _ in range(2))
    losses(first, given, 3)
    taken = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    save_checkpoint(tmp_path, first, Standing(step=3), [], ranks, "adam")
    weights = sum(each.nbytes for each in first.rows.locals().values())
    assert (
        torch.cuda.max_memory_allocated() - taken < weights
    )  # with moments and averages, it is four times that
    load_checkpoint(tmp_path, second, ranks, "adam")
    wanted, found = ({**each.rows.locals(), **moments(each)} for each in (first, second))
    for name, each in found.items():
        assert each.device.type == "cpu", name
        assert torch.equal(each, wanted[name]), name
        assert each.any(), name
    for engine in (first, second):
        engine.step(4, [(0, given[0])], 1e-4)
    assert torch.equal(first.statistics, second.statistics)


def moments(engine: Any) -> dict[str, torch.Tensor]:
    """And averages, of this rank's rows."""
    kinds = {
        "means": engine.optimizer.means,
        "squares": engine.optimizer.squares,
        "average": {name: engine.averages[name].mean for name in engine.rows.parameters},
    }
    return {f"{kind} of {name}": each for kind, own in kinds.items() for name, each in own.items()}
