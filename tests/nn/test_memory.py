import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from regard import cli
from regard.hub.files import read_tensors, read_text
from regard.nn.memory import memory_errors
from regard.oom import NoMemoryError, is_out_of_memory
from regard.tasks.base.guards import FolderError, folder_errors
from regard.train.trainer import TrainingError


def test_a_cpu_without_memory_is_told_of_as_a_gpu_is():
    with pytest.raises(torch.OutOfMemoryError, match="allocate"), memory_errors():
        torch.empty(2**50)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"), memory_errors():
        raise MemoryError


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="sizes") as caught, memory_errors():
        raise RuntimeError("sizes do not match")
    assert type(caught.value) is RuntimeError


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("train", "lower batch.tokens, choose"),
        ("translate", "lower --batch-tokens, choose"),
        ("serve", "lower --max-in-flight, or serve fewer models, choose"),
        ("classify", "give it less at once, choose"),
        ("--help", "give it less at once, choose"),
    ],
)
def test_at_the_prompt_it_is_one_line_with_a_remedy_that_the_command_has(
    monkeypatch, capsys, command, remedy
):
    def starved() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore of it")

    monkeypatch.setattr(cli, "build", lambda: starved)
    monkeypatch.setattr("sys.argv", ["regard", command])
    monkeypatch.setattr(cli, "_is_unknown", lambda *_: False)
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"error: out of memory (CUDA out of memory. Tried to allocate 2.00 GiB.); {remedy}"
    )


def test_the_memory_of_the_cpu_is_told_likewise_wherever_it_ends(monkeypatch, capsys):
    """As when a model is built, of which no part of the training says anything."""
    monkeypatch.setattr(cli, "build", lambda: lambda: torch.empty(2**50))
    monkeypatch.setattr("sys.argv", ["regard", "train"])
    monkeypatch.setattr(cli, "_is_unknown", lambda *_: False)
    monkeypatch.delenv("REGARD_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: out of memory (")
    assert "lower batch.tokens, choose a smaller model" in line


MAPPED = "unable to mmap 9 bytes from file <model.safetensors>: Cannot allocate memory (12)"


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError(MAPPED), True),
        (SafetensorError("I/O error: Cannot allocate memory (os error 12)"), True),
        (RuntimeError("sizes do not match"), False),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("not enough memory"), False),
        (TrainingError("step 3: not enough memory; lower batch.tokens"), False),  # which says more
    ],
    ids=repr,
)
def test_what_says_that_there_is_no_memory_is_known(error, wanted):
    assert is_out_of_memory(error) == wanted
    path, raised = Path("own.bin"), NoMemoryError if wanted else FolderError
    with pytest.raises(raised) as caught, folder_errors(path), folder_errors(path):
        raise error
    assert str(caught.value).count("own.bin") == 1
    assert not (wanted and "anew" in str(caught.value)), "the file is not at fault"


@pytest.mark.parametrize(
    ("name", "opens", "read"),
    [
        ("model.safetensors", "regard.hub.files.safe_open", lambda path: read_tensors(path.parent)),
        ("config.json", "pathlib.Path.read_text", read_text),
    ],
)
def test_a_foreign_folder_is_not_blamed_for_the_memory_either(
    monkeypatch, tmp_path: Path, name: str, opens: str, read: Callable[[Path], object]
):
    def starved(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    (tmp_path / name).write_bytes(bytes(9))
    monkeypatch.setattr(opens, starved)
    with pytest.raises(NoMemoryError, match=name):
        read(tmp_path / name)
