"""docs/scale.md is what its script computes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.test_scaling import WORKS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    import runpy

    return runpy.run_path(str(ROOT / "docs" / "scale.py"))


def test_the_page_is_what_the_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "scale.py"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr


def test_its_subjects_are_those_that_were_measured_where_they_have_the_same_name(
    script: dict[str, object],
) -> None:
    subjects = script["subjects"]()  # type: ignore[operator]
    assert [subject.work.parameters // 10**6 for subject in subjects] == [109, 335, 1114, 60]
    assert subjects[0].work.flops == WORKS["BERT-base, length 512"].flops


def test_steps_of_one_size_have_that_size(script: dict[str, object]) -> None:
    for subject in script["subjects"]():  # type: ignore[operator]
        for gpus in (1, 8, 64, 512):
            tokens = script["strong"](subject, gpus).tokens  # type: ignore[operator]
            assert tokens == pytest.approx(subject.step, rel=0.01)
