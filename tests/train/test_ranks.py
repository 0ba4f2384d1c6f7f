import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from regard.train.meeting import meet
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
    monkeypatch.setattr("regard.train.ranks.meet", lambda store, *_: store)
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


def test_those_who_meet_do_not_take_the_word_of_an_earlier_meeting_for_that_of_the_others() -> None:
    """The store is as processes that were killed have left it, and rank 0 comes last."""
    store, found = HashStore(), {}
    meet_all(store, found, [0, 1, 2])
    earlier = {rank: each.get("name") for rank, each in found.items()}
    assert len(set(earlier.values())) == 1
    meet_all(store, found, [1, 2, 0])
    now = {rank: each.get("name") for rank, each in found.items()}
    assert len(set(now.values())) == 1
    assert set(now.values()) != set(earlier.values())


def meet_all(store: HashStore, found: dict[int, Any], order: list[int]) -> None:
    def join(rank: int) -> None:
        own = meet(store, rank, 3, timedelta(seconds=30))
        own.set("name", f"{order}") if rank == 0 else own.wait(["name"])
        found[rank] = own

    threads = [threading.Thread(target=join, args=(rank,)) for rank in order]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()


def test_who_is_not_met_in_time_is_told() -> None:
    with pytest.raises(RuntimeError, match="no sign of 1 others in time"):
        meet(HashStore(), 0, 2, timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="no sign of rank 0 in time"):
        meet(HashStore(), 1, 2, timedelta(seconds=0.1))
