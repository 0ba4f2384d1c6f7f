"""The same by Ray: shards, workers that are killed, pipelines of others."""

import itertools
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from regard.corpus import on_ray
from regard.corpus.folder import fingerprint
from regard.corpus.on_ray import cores_each
from regard.corpus.plan import Shard
from regard.corpus.reading import Stretch
from tests.corpus.corpora import corpus, files, parts, vectors
from tests.corpus.processes import started, wait_for, workers

pytest.importorskip("ray")

DYING = """
import os, signal, sys
from pathlib import Path
from regard.corpus import CorpusSettings, on_ray, run

class Dying(on_ray._Actor):
    def _do(self, shard):
        if shard.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._do(shard)

on_ray._Actor = Dying
how = CorpusSettings(
    task="embed", model=Path(sys.argv[1]), device="cpu", shard_tokens=300, engine="ray", workers=2
)
try:
    run([sys.argv[2]], sys.argv[3], how)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_worker_that_does_not_see_the_folder_says_so_before_it_opens_the_model(
    tiny, lines, tmp_path, monkeypatch
):
    monkeypatch.setattr(on_ray, "_PATIENCE", 0.0)
    out = tmp_path / "out"
    run = fingerprint(corpus("embed", tiny["embedder"], lines, out).manifest)
    opened = []

    class Opened:
        def __init__(self, job):
            opened.append(job)

        def do(self, shard):
            return shard.number

    monkeypatch.setattr(on_ray, "ShardWork", Opened)
    shard = Shard(99, 10, (Stretch(0, 0, 1, 1),))
    for folder, token in ((tmp_path / "elsewhere", run), (out, "of another run")):
        said = on_ray._Actor(SimpleNamespace(out=str(folder), run=token))._done(shard)
        assert re.search(r"is not the folder of this run: .*OUT must be shared", str(said))
    assert (opened, (tmp_path / "elsewhere").exists()) == ([], False)
    assert on_ray._Actor(SimpleNamespace(out=str(out), run=run))._done(shard) == 99
    assert len(opened) == 1


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


@pytest.mark.long
def test_a_shard_that_kills_every_worker_of_ray_is_told_after_three(tiny, lines, tmp_path):
    given = [str(tiny["embedder"]), str(lines), str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", DYING, *given], check=True, capture_output=True, text=True, timeout=300
    )
    wanted = (
        rf"WorkerError shard 1 \(from {re.escape(str(lines))}:\d+ on\) has cost 3 workers.*--shard-tokens"
    )
    assert re.fullmatch(wanted, done.stdout.splitlines()[-1]), done.stdout + done.stderr  # Ray talks, too
    assert (tmp_path / "out" / ".regard" / "partial" / "begun-000001").stat().st_size == 4


@pytest.mark.long
def test_what_a_worker_of_ray_raises_is_said_as_it_is(tiny, lines, tmp_path):
    own = ("--engine", "ray", "--workers", "2", "--layer", "9")
    with started("embed", tiny["embedder"], lines, tmp_path / "out", *own) as driver:
        _, said = driver.communicate(timeout=300)
    assert driver.returncode
    assert said.splitlines()[-1].startswith(b"error: layer=9: there are 0")
    assert b"Traceback" not in said


def test_no_worker_asks_for_more_cores_than_a_machine_has():
    assert cores_each([8], 1) == 8
    assert cores_each([8], 3) == 2
    assert cores_each([8, 8], 1) == 8
    assert cores_each([4, 4, 4], 2) == 4
    assert cores_each([2, 6], 2) == 3
    assert cores_each([2, 6], 3) == 2
    assert cores_each([5, 5, 5], 4) == 2
    assert cores_each([1, 1], 8) == 1
    assert cores_each([], 1) == 1
    for machines in itertools.product(range(1, 7), repeat=3):
        for count in range(1, sum(machines) + 1):
            cores = cores_each(machines, count)
            assert sum(each // cores for each in machines) >= count
            assert sum(each // (cores + 1) for each in machines) < count
