import json
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard import disk
from regard.disk import DiskFullError, write_text
from regard.train.checkpoint import CheckpointError, read, write

KILLER = """
import json, os, random, signal, sys, time
from itertools import count
from pathlib import Path
import torch
from regard.train import checkpoint

torch.set_num_threads(1)  # threads do not survive a fork
path, found, sync = Path(sys.argv[1]), [], os.fsync
checkpoint.write(path, {"a": torch.zeros(50_000)}, {"number": 0})
for attempt in range(12):
    # A checkpoint is synced twice: its file before the rename, its folder after. The child stops at the
    # second checkpoint's file, at its folder, or nowhere.
    stop = (3, 4, None)[attempt % 3]
    hears, tells = os.pipe()
    if (child := os.fork()) == 0:
        synced = count(1)
        def stopping(file):
            sync(file)
            number = next(synced)
            if number == (stop or 2):
                os.write(tells, b".")
            if number == stop:
                time.sleep(600)
        os.fsync = stopping
        for number in count(checkpoint.read(path)[1]["number"] + 1):
            checkpoint.write(path, {"a": torch.full((50_000,), float(number))}, {"number": number})
    os.read(hears, 1)
    time.sleep(0 if stop else random.Random(attempt).uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    halfway = path.with_name(path.name + ".partial").exists()
    tensors, facts = checkpoint.read(path)
    found.append([facts["number"], tensors["a"].unique().tolist(), len(tensors["a"]), halfway])
print(json.dumps(found))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "checkpoint.safetensors"


def test_what_is_written_is_read(path: Path) -> None:
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5.0)[::2], "empty": torch.zeros(0)}
    facts = {"step": 7, "best": {"bleu": 31.5}, "why": "größer\n"}
    write(path, tensors, facts)
    back, known = read(path)
    assert known == facts
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & stat.S_IRUSR


def test_a_process_killed_at_any_moment_leaves_a_whole_checkpoint(path: Path) -> None:
    path.parent.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(path)], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(done.stdout)
    numbers = [number for number, *_ in found]
    assert all(values == [number] and length == 50_000 for number, values, length, _ in found)
    assert numbers == sorted(set(numbers))  # each child wrote at least one
    for before, (number, *_, halfway), kind in zip(
        [0, *numbers], found, ["file", "folder", "any"] * 4, strict=False
    ):
        if kind == "file":  # the second one was not yet in its place
            assert (number, halfway) == (before + 1, True)
        if kind == "folder":
            assert (number, halfway) == (before + 2, False)


def test_a_full_disk_leaves_the_last_checkpoint_and_says_so(path: Path) -> None:
    write(path, {"a": torch.ones(10)}, {"step": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(DiskFullError, match=r"the one written before is intact.*free some space") as said:
            write(path, {"a": torch.ones(1_000_000)}, {"step": 2})
        with pytest.raises(DiskFullError, match="there is none yet"):
            write(path.with_name("other"), {"a": torch.ones(1_000_000)}, {"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(said.value)
    assert read(path)[1] == {"step": 1}
    assert [each.name for each in path.parent.iterdir()] == [path.name]  # and takes no space


def test_a_failure_between_the_write_and_the_rename_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, {"a": torch.ones(10)}, {"step": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(DiskFullError, match="No space left on device"):
        write(path, {"a": torch.zeros(10)}, {"step": 2})
    assert read(path)[1] == {"step": 1}


def test_a_file_that_is_no_checkpoint_is_refused_by_name(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be read"):
        read(path)
    write(path, {"a": torch.ones(1000)}, {"step": 1})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be read"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be read"):
        read(path)
    save_file({"a": torch.ones(3)}, path)
    with pytest.raises(CheckpointError, match="no checkpoint of this version"):
        read(path)


def test_a_text_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "text"
    write_text(path, "one\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "two \ud800\n")
    assert path.read_text() == "one\n"
    assert [each.name for each in path.parent.iterdir()] == ["text"]
