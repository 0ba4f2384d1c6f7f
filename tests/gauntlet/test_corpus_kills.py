"""A corpus by Ray whose workers and whose driver are killed; and much text, which needs no more memory than a
little: 200 MB here (40 by Ray), and as much as MEGABYTES says in the environment. 5 GB, in some hours:

    MEGABYTES=5000 .venv/bin/python -m pytest -n 0 -m long tests/gauntlet/test_corpus_kills.py -k memory
"""

import os
import signal
import time
from pathlib import Path

import pytest

from regard.machine.tiny import write_tiny
from regard.text.phrasebook import phrases
from tests.corpus.corpora import corpus, done, files, parts
from tests.corpus.processes import most_memory, started, wait_for, workers
from tests.corpus.test_corpus_memory import generated, peak

WORKERS, DRIVERS = (1, 40, 90), (20, 70)
"""After so many shards a worker is killed, or the driver; of about 140."""
MEGABYTES = int(os.environ.get("MEGABYTES", "200"))
BY_RAY = int(os.environ.get("MEGABYTES", "40"))


@pytest.mark.long
@pytest.mark.parametrize("engine", ["ray", "local"])
def test_killed_workers_and_drivers_leave_the_output_as_it_would_be(engine, tmp_path, record_property):
    if engine == "ray":
        pytest.importorskip("ray")
    model = write_tiny(tmp_path / "models")["embedder"]
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{pair.source}\n" for pair in phrases("train", 4000)), encoding="utf-8")
    corpus("embed", model, lines, tmp_path / "whole")
    assert len(parts(tmp_path / "whole", "npy")) > 100
    out = tmp_path / "out"
    killed = 0
    done_before: dict[str, int] = {}
    for moment in (*sorted((*WORKERS, *DRIVERS)), None):
        with started("embed", model, lines, out, "--engine", engine, "--workers", "2") as driver:
            if moment is None:
                _, said = driver.communicate(timeout=900)
                assert driver.returncode == 0, said
                break
            wait_for(out, moment, driver)
            if moment in WORKERS:
                os.kill(workers(driver.pid, engine)[0], signal.SIGKILL)
                killed += 1
                wait_for(out, moment + 5, driver)
            driver.kill()
            killed += 1
        after = done(out)
        assert {name: after[name] for name in done_before} == done_before, "a shard was done twice"
        done_before = after
    record_property("cases", killed)
    record_property("failures", 0)
    assert killed == 2 * len(WORKERS) + len(DRIVERS)
    assert files(out) == files(tmp_path / "whole")


@pytest.mark.long
def test_much_text_takes_no_more_memory_than_a_little(tmp_path: Path):
    model = write_tiny(tmp_path / "models")["embedder"]
    small = peak(model, tmp_path, megabytes=5, tokens=500_000)
    large = peak(model, tmp_path, megabytes=MEGABYTES, tokens=500_000)
    assert large < small * 1.1


@pytest.mark.long
def test_a_worker_of_ray_needs_no_more_memory_for_much_text_than_for_a_little(tmp_path: Path):
    """What it has needed at most after 20 shards, 4 MB of text, and at the end."""
    pytest.importorskip("ray")
    model, lines, out = write_tiny(tmp_path / "models")["embedder"], tmp_path / "lines.txt", tmp_path / "out"
    generated(lines, BY_RAY)
    own = ("--engine", "ray", "--workers", "1", "--shard-tokens", "50000")
    with started("embed", model, lines, out, *own) as driver:
        wait_for(out, 20, driver)
        (worker,) = workers(driver.pid, "ray")
        begun = high = most_memory(worker)
        while driver.poll() is None:
            high = max(high, most_memory(worker))
            time.sleep(0.1)
        assert driver.returncode == 0, driver.stderr.read()
    assert len(parts(out, "npy")) > 4 * BY_RAY
    assert begun > 50e6
    assert high - begun < 20e6
