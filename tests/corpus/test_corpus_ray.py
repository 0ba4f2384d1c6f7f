"""The same by Ray: shards, workers that are killed, pipelines of others."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.corpus.corpora import corpus, files, parts, vectors
from tests.corpus.processes import started, wait_for, workers

pytest.importorskip("ray")

FOREIGN = """
import numpy, sys, warnings
warnings.simplefilter("ignore")
from regard.corpus import on_ray
ray = on_ray._import_ray()
from regard.corpus import Worker
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
texts = open(sys.argv[2], encoding="utf-8").read().split("\\n")[:-1]
data = ray.data.from_items([{"n": n, "text": text} for n, text in enumerate(texts)])
done = data.map_batches(
    Worker, fn_constructor_args=(sys.argv[1], "embed"), fn_constructor_kwargs={"device": "cpu", "threads": 1},
    batch_size=64, compute=ray.data.ActorPoolStrategy(size=1),
)
rows = sorted(done.take_all(), key=lambda row: row["n"])
numpy.save(sys.argv[3], numpy.stack([row["vector"] for row in rows]))
"""


def test_ray_writes_the_same_also_when_a_worker_is_killed(tiny, lines, tmp_path):
    corpus("embed", tiny["embedder"], lines, tmp_path / "local")
    out = tmp_path / "ray"
    with started("embed", tiny["embedder"], lines, out, "--engine", "ray", "--workers", "2") as driver:
        wait_for(out, 2, driver)
        os.kill(workers(driver.pid, "ray")[0], signal.SIGKILL)
        _, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    assert files(out) == files(tmp_path / "local")
    assert corpus("embed", tiny["embedder"], lines, out, engine="local").worked == 0


def test_a_worker_stands_in_a_ray_pipeline(tiny, lines, tmp_path):
    corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    given = [str(tiny["embedder"]), str(lines), str(tmp_path / "found.npy")]
    subprocess.run([sys.executable, "-c", FOREIGN, *given], check=True, capture_output=True, timeout=300)
    assert np.array_equal(np.load(tmp_path / "found.npy"), vectors(tmp_path / "out"))
    assert parts(tmp_path / "out", "npy")
