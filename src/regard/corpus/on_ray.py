"""Workers by Ray Data: an actor with the model for each, on this machine or on a cluster.

    shards -> from_items -> map_batches(an actor that holds the model) -> what is done

A worker reads its shard and writes its file itself, so what goes through Ray is small, and memory stays as it
is. Ray starts a worker that has died anew, and gives its shard to another. Input, model and output must be
where all machines see them.
"""

import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from regard.config import ConfigError
from regard.corpus.addresses import EXTRA
from regard.corpus.folder import Done
from regard.corpus.plan import Shard
from regard.corpus.reading import Stretch
from regard.corpus.work import Job, ShardWork

_QUIETLY = {
    "RAY_worker_niceness": "0",  # Ray's own is 15, and all that others do goes first
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # of a restart's arguments, which Ray Data keeps
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


def run_on_ray(job: Job, shards: Iterable[Shard], workers: int | None, address: str | None) -> Iterator[Done]:
    """Shards as they are done."""
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _start(ray, address, workers)
    try:
        yield from _mapped(ray, job, shards, workers)
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


def _mapped(ray: Any, job: Job, shards: Iterable[Shard], workers: int | None) -> Iterator[Done]:
    have = ray.cluster_resources()
    gpus, cpus = int(have.get("GPU", 0)), int(have.get("CPU", 1))
    on_gpu = gpus > 0 and job.device in ("auto", "cuda")
    count = workers or (gpus if on_gpu else 1)
    share = max(cpus // count, 1)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.verbose_progress = False
    rows = [{"number": each.number, "bytes": each.bytes, "stretches": _plain(each)} for each in shards]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _Actor,
            fn_constructor_args=(replace(job, threads=None if on_gpu else share),),
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(size=min(count, len(rows))),
            num_cpus=1 if on_gpu else share,
            num_gpus=1 if on_gpu else 0,
        )
        for row in data.iter_rows():
            yield Done(**{**_unpacked(row["done"]), "number": int(row["number"])})


def _plain(shard: Shard) -> list[int]:
    return [number for each in shard.stretches for number in (each.file, each.start, each.length, each.line)]


def _unpacked(text: Any) -> dict[str, Any]:
    import json

    plain = json.loads(str(text))
    return {**plain, "files": tuple(plain["files"])}


class _Actor:
    """What holds the model, on the side of Ray."""

    def __init__(self, job: Job) -> None:
        self._work = ShardWork(job)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import json

        done = []
        for number, size, flat in zip(batch["number"], batch["bytes"], batch["stretches"], strict=True):
            numbers = [int(each) for each in flat]
            stretches = tuple(Stretch(*numbers[at : at + 4]) for at in range(0, len(numbers), 4))
            done.append(json.dumps(asdict(self._work.do(Shard(int(number), int(size), stretches)))))
        return {"number": batch["number"], "done": done}
