"""Whatever is killed, whenever, goes on as if it never was."""

import json
import os
import subprocess
import sys

import pytest

TASKS = ("translate", "classify", "tag", "answer", "embed", "rerank", "pretrain", "language")
WAYS = ("start", "adapter", "logistic")
"""Other ways to a model."""
KILLS, SAVES = 19, 6
"""Of each: 209 and 66 in all."""


@pytest.mark.long
@pytest.mark.parametrize("task", [*TASKS, *WAYS])
def test_a_run_killed_at_any_moment_is_the_run_that_nobody_killed(task, tmp_path, record_property):
    seed = os.environ.get("SEED", "0")
    command = [
        sys.executable,
        "-m",
        "tests.gauntlet.killing",
        task,
        str(KILLS),
        str(SAVES),
        seed,
        str(tmp_path),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    record_property("cases", found["kills"])
    record_property("failures", len(found["failures"]))
    assert found["kills"] >= KILLS
    assert found["saves"] >= SAVES
    assert found["failures"] == [], done.stderr[-2000:]
