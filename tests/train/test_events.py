import math
from pathlib import Path

import pytest

from regard.train.events import EventWriter
from tests.train.parsing import crc32c, scalars


def test_the_checksum_is_the_standards() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value for the reference used here


VALUES = [(1, {"train/loss": 4.25, "train/rate": 0.5}), (300, {"valid/größe": -1.0}), (10**12, {"x": 0.0})]


def test_a_file_holds_what_was_added(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "run")
    for step, values in VALUES:
        writer.add(step, values)
    assert scalars(writer.path) == VALUES
    assert "tfevents" in writer.path.name  # by which TensorBoard finds it


def test_a_number_too_large_or_none_at_all_is_kept_as_such(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.add(1, {"large": 1e300, "small": -1e300, "none": math.nan})
    ((_, found),) = scalars(writer.path)
    assert found["large"] == math.inf
    assert found["small"] == -math.inf
    assert math.isnan(found["none"])


def test_every_record_is_on_disk_at_once(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    for step, values in VALUES:
        writer.add(step, values)
        assert scalars(writer.path)[-1][0] == step


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = EventWriter(tmp_path)
    for step, values in VALUES[:2]:
        writer.add(step, values)
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(each.step, each.value) for each in accumulator.Scalars("train/loss")] == [(1, 4.25)]
