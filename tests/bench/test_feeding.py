"""What training waits for: the comparison, and its two sides on a small corpus."""

import time
from pathlib import Path

import pytest

from regard.bench import feeding
from regard.text.phrasebook import write

SMALL = "train.steps=12", "train.log_every=2", "batch.tokens=256", "tokenizer.vocabulary=500"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    write(tmp_path / "text", train=300, valid=20, test=20)
    return ["recipes/phrasebook.toml", f"data.root={tmp_path / 'text'}", *SMALL]


def test_the_first_step_is_timed_from_the_command_which_is_then_ended(tmp_path, arguments):
    began = time.monotonic()
    found = feeding.first_step(tmp_path / "out", [*arguments, "train.steps=100000"])
    assert 0.5 < found < time.monotonic() - began
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_a_command_that_fails_before_its_first_step_is_shown(tmp_path):
    with pytest.raises(RuntimeError, match=r"training failed:[\s\S]*no-such\.toml"):
        feeding.first_step(tmp_path / "out", ["no-such.toml"])


@pytest.mark.parametrize("before", [True, False])
def test_speed_is_that_of_steps_that_are_warm(tmp_path, arguments, before):
    call = f"speed({str(tmp_path / 'out')!r}, {arguments!r}, before={before}, count=12, warming=4)"
    assert feeding.apart(call) > 100


def test_a_training_that_fails_is_shown(tmp_path):
    with pytest.raises(RuntimeError, match=r"training failed:[\s\S]*no-such\.toml"):
        feeding.apart(f"speed({str(tmp_path)!r}, ['no-such.toml'], before=False)")


def test_sides_take_turns_and_caches_are_empty_only_once(tmp_path, monkeypatch):
    asked = []

    def apart(call: str, **environment: str) -> float:
        asked.append((call.partition("(")[0], "before=True" in call, environment["TRITON_CACHE_DIR"]))
        return 10.0 * len(asked)

    def first_step(out: Path, arguments: list[str], **environment: str) -> float:
        return apart("first_step(", **environment)

    monkeypatch.setattr(feeding, "apart", apart)
    monkeypatch.setattr(feeding, "first_step", first_step)
    first, batches = feeding.rows(["recipes/a.toml", "data.root=b"], tmp_path)
    assert (first.theirs, first.ours, first.setting) == (10.0, 20.0, "a.toml")
    assert [kind for kind, _, _ in asked] == ["first_step"] * 2 + ["speed"] * 6
    assert [before for _, before, _ in asked[2:]] == [True, False, False, True, True, False]
    assert len({cache for _, _, cache in asked}) == 1
    assert (batches.ours, batches.theirs, batches.unit) == (50.0, 60.0, "tokens/s")
