"""Workers by Ray: an actor with the model for each, on this machine or on a cluster.

    shards -> an actor that holds the model, one shard at a time -> what is done

A worker reads its shard and writes its file itself, so what goes through Ray is small, and memory stays as it
is. A shard is given only to a worker that has opened the model: none waits behind another, or for a machine
that is gone. A worker that dies is replaced, and its shard given to another; one that has killed three is
told, as by local.py. What a worker raises comes back as what it has done. Input, model and output must be
where all machines see them; a worker looks for the manifest before it opens the model.
"""

import os
import platform
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from regard.config import ConfigError
from regard.corpus.folder import Done, OutFolder, fingerprint
from regard.corpus.local import LIVES, WorkerError, killing, sendable
from regard.corpus.plan import Shard
from regard.corpus.work import Job, ShardWork
from regard.text.remote import EXTRA

_QUIETLY = {
    "RAY_worker_niceness": "0",  # Ray's own is 15, and all that others do goes first
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
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
        own = replace(job, device=device, threads=None if on_gpu else share)
        pool = _Pool(self._ray, own, num_cpus=1 if on_gpu else share, num_gpus=1 if on_gpu else 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from pool.run(shards, count)


class _Pool:
    def __init__(self, ray: Any, job: Job, **resources: int) -> None:
        self._ray, self._job = ray, job
        self._make = ray.remote(max_restarts=0, **resources)(_Actor)
        self._busy: dict[Any, tuple[Any, Shard | None]] = {}
        """Of what is waited for: who does it, and which shard; None while a worker opens its model."""
        self._killed: Counter[int] = Counter()
        self._stillborn = 0
        """Workers in a row that have died before they had opened it."""

    def run(self, shards: Iterable[Shard], workers: int) -> Iterator[Done]:
        todo = iter(shards)
        waiting = deque(islice(todo, workers))
        for _ in [*waiting]:
            self._start()
        try:
            while waiting or any(shard is not None for _, shard in self._busy.values()):
                (ready,), _ = self._ray.wait([*self._busy], num_returns=1)
                worker, shard = self._busy.pop(ready)
                try:
                    found = self._ray.get(ready)
                except self._ray.exceptions.RayActorError as error:
                    self._end(worker)
                    waiting.extendleft(self._lost(shard, error))
                    if waiting:
                        self._start()
                    continue
                if isinstance(found, Exception):
                    raise found
                self._stillborn = 0
                if shard is not None:
                    yield found
                if waiting:
                    own = waiting.popleft()
                    waiting.extend(islice(todo, 1))
                    self._busy[worker.do.remote(own)] = worker, own
                else:
                    self._end(worker)
        finally:
            for worker, _ in self._busy.values():
                self._end(worker)

    def _start(self) -> None:
        worker = self._make.remote(self._job)
        self._busy[worker.open.remote()] = worker, None

    def _end(self, worker: Any) -> None:
        with suppress(Exception):  # it has ended
            self._ray.kill(worker)

    def _lost(self, shard: Shard | None, error: Exception) -> list[Shard]:
        """What a worker that has died was doing."""
        if shard is None:
            self._stillborn += 1
            if self._stillborn < LIVES:
                return []
            said = " ".join(str(error).split())
            raise WorkerError(
                f"{LIVES} workers in a row have died while they opened {self._job.model}: is memory short? "
                f"take fewer workers ({said[-500:]})"
            )
        self._killed[shard.number] += 1
        if self._killed[shard.number] >= LIVES:
            raise WorkerError(killing(self._job, shard, "the last one ended"))
        return [shard]


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
        import ray.exceptions
    except ImportError as error:
        raise ConfigError(f"--engine ray needs Ray: {EXTRA}; or --engine local") from error
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


class _Actor:
    """What holds the model, on the side of Ray."""

    def __init__(self, job: Job) -> None:
        self._job, self._folder = job, OutFolder(job.out, job.run)
        self._work: ShardWork | None = None

    def open(self) -> Exception | None:
        try:
            self._refuse_elsewhere()
            self._work = ShardWork(self._job)
        except Exception as error:
            return sendable(error)
        return None

    def do(self, shard: Shard) -> Done | Exception:
        if (there := self._folder.done(shard.number)) is not None:
            return there
        try:
            return self._do(shard)
        except Exception as error:
            return sendable(error)

    def _do(self, shard: Shard) -> Done:
        if self._work is None:
            raise RuntimeError("a worker that has not opened its model is given a shard")
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
