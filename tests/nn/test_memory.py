import pytest
import torch

from regard import cli
from regard.nn.memory import memory_errors


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
