"""Workers by Ray Data: an actor with the model for each, on this machine or on a cluster.

    shards -> from_items -> map_batches(an actor that holds the model) -> what is done

A worker reads its shard and writes its file itself, so what goes through Ray is small, and memory stays as it
is. An actor has one shard at a time: left to itself, Ray Data hands the first that is ready several, while
others have none. Ray starts a worker that has died anew, and gives its shard to another, for ever: so the
folder counts who has begun a shard, and one that has killed three is told, as by local.py. What a worker
raises comes back as what it has done. Input, model and output must be where all machines see them; a worker
looks for the manifest before it opens the model.
"""

import logging
import os
import pickle
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from regard.config import ConfigError
from regard.corpus.folder import Done, OutFolder, fingerprint
from regard.corpus.local import LIVES, WorkerError, killing, sendable
from regard.corpus.plan import Shard
from regard.corpus.reading import Stretch
from regard.corpus.work import Job, ShardWork
from regard.text.remote import EXTRA

_QUIETLY = {
    "RAY_worker_niceness": "0",  # Ray's own is 15, and all that others do goes first
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # of a restart's arguments, which Ray Data keeps
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
_PATIENCE = 60.0
"""Seconds after which all machines that share a disk see what one has written: NFS asks after a minute."""


class Cluster:
    """Ray, running."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def device(self, wanted: str) -> str:
        """auto is the GPUs of the cluster, if it has some."""
        gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        if wanted == "auto":
            return "cuda" if gpus else "cpu"
        if wanted.partition(":")[0] == "cuda" and not gpus:
            raise ConfigError(f"--device {wanted}: no machine of the Ray cluster has a GPU; choose cpu")
        return wanted

    def run(self, job: Job, shards: Iterable[Shard], workers: int | None) -> Iterator[Done]:
        """Shards as they are done."""
        have = [each["Resources"] for each in self._ray.nodes() if each["Alive"]]
        on_gpu = job.device.startswith("cuda")
        device = "cuda" if on_gpu else job.device  # Ray shows each worker its own GPU only
        count = workers or (int(sum(each.get("GPU", 0) for each in have)) if on_gpu else 1)
        share = cores_each([int(each.get("CPU", 0)) for each in have], count)
        context = self._ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.verbose_progress = False
        rows = [{"number": each.number, "bytes": each.bytes, "stretches": _plain(each)} for each in shards]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = self._ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
                _Actor,
                fn_constructor_args=(replace(job, device=device, threads=None if on_gpu else share),),
                batch_size=1,
                batch_format="numpy",
                compute=self._ray.data.ActorPoolStrategy(
                    size=min(count, len(rows)), max_tasks_in_flight_per_actor=1
                ),
                num_cpus=1 if on_gpu else share,
                num_gpus=1 if on_gpu else 0,
            )
            for row in data.iter_rows():
                found = pickle.loads(row["done"])
                if isinstance(found, Exception):
                    raise found
                yield found


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[Cluster]:
    """Ray, started; what was started here ends here."""
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _start(ray, address, workers)
    try:
        yield Cluster(ray)
    finally:
        if ours:
            ray.shutdown()


def _import_ray() -> Any:
    for name, value in _QUIETLY.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ConfigError(f"--engine ray needs Ray: {EXTRA}; or --engine local") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    """A cluster that is there, or one of this machine alone that ends with this process."""
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is not None:
        ray.init(address=address, **quiet)
        return
    cores = os.cpu_count() or 1
    ray.init(address="local", num_cpus=max(cores, workers or 1), include_dashboard=False, **quiet)


def cores_each(machines: Sequence[int], count: int) -> int:
    """The most cores that each of `count` workers can have: none gets cores of two machines."""
    for cores in range(max(sum(machines) // count, 1), 1, -1):
        if sum(each // cores for each in machines) >= count:
            return cores
    return 1


def _plain(shard: Shard) -> list[int]:
    return [number for each in shard.stretches for number in (each.file, each.start, each.length, each.line)]


class _Actor:
    """What holds the model, on the side of Ray."""

    def __init__(self, job: Job) -> None:
        self._job, self._folder = job, OutFolder(job.out, job.run)
        self._work: ShardWork | None = None
        """Opened for the first shard, which counts whom that kills."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = np.empty(len(batch["number"]), dtype=object)
        columns = (batch["number"], batch["bytes"], batch["stretches"])
        for place, (number, size, flat) in enumerate(zip(*columns, strict=True)):
            numbers = [int(each) for each in flat]
            stretches = tuple(Stretch(*numbers[at : at + 4]) for at in range(0, len(numbers), 4))
            found[place] = pickle.dumps(self._done(Shard(int(number), int(size), stretches)))
        return {"number": batch["number"], "done": found}

    def _done(self, shard: Shard) -> Done | Exception:
        if (there := self._folder.done(shard.number)) is not None:
            return there
        try:
            if self._work is None:
                self._refuse_elsewhere()
            if self._folder.begin(shard.number) > LIVES:
                return WorkerError(killing(self._job, shard, "the last one ended"))
            return self._do(shard)
        except Exception as error:
            return sendable(error)

    def _do(self, shard: Shard) -> Done:
        if self._work is None:
            self._work = ShardWork(self._job)
        return self._work.do(shard)

    def _refuse_elsewhere(self) -> None:
        """Raise where OUT is not the folder of this run: what is written there, nobody would find."""
        until = time.monotonic() + _PATIENCE
        while (found := self._folder.manifest()) is None or fingerprint(found) != self._job.run:
            if time.monotonic() > until:
                raise ConfigError(
                    f"{self._folder.path} on {platform.node()} is not the folder of this run: with Ray, OUT "
                    "must be shared by all machines, at the same path"
                )
            time.sleep(0.5)
