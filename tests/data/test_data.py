from pathlib import Path

import regard.data
from regard.data import Plan, fingerprint, id_type, open_or_build, pack
from regard.settings.training import BatchConfig


def test_a_corpus_goes_from_a_store_through_a_plan_into_packed_batches(tmp_path: Path) -> None:
    corpus = [[length] * length for length in range(1, 30)]
    columns = {"source": id_type(100)}
    store = open_or_build(
        tmp_path / "store", fingerprint([]), columns, lambda: ({"source": ids} for ids in corpus)
    )
    plan = Plan([store["source"].lengths], BatchConfig(tokens=100))
    found: list[int] = []
    for step in range(plan.steps(0)):
        packed = [pack([store["source"][i] for i in batch]) for batch in plan.batches(epoch=0, step=step)]
        found += (int(id) for batch in packed for id in batch.ids)
    assert sorted(found) == sorted(id for ids in corpus for id in ids)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(regard.data, name) for name in regard.data.__all__)
