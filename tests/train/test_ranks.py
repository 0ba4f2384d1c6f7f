from datetime import timedelta
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from regard.train.ranks import Ranks


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_a_process_alone_is_the_first_and_only_one() -> None:
    ranks = Ranks.join("cpu")
    assert (ranks.rank, ranks.count, ranks.device, ranks.first) == (0, 1, torch.device("cpu"), True)
    tensor = torch.ones(3)
    ranks.add_up(tensor)
    ranks.wait()
    assert tensor.tolist() == [1, 1, 1]
    fact = {"step": 3}
    assert ranks.share(fact) is fact
    ranks.leave()


def test_ranks_wait_for_one_that_reads_a_large_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setenv("WORLD_SIZE", "2")
    store = HashStore()
    monkeypatch.setattr("regard.train.ranks.rendezvous", lambda *_, **__: iter([(store, 0, 2)]))
    monkeypatch.setattr("torch.distributed.init_process_group", lambda *_, **settings: given.update(settings))
    Ranks.join("cpu")
    assert given["timeout"] >= timedelta(hours=12)


def test_auto_is_cuda_where_there_is_one() -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert Ranks.join().device.type == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="it is on this machine")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="device='cuda' is not on this machine: choose cpu"):
        Ranks.join("cuda")
