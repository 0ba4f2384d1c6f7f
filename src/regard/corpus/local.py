"""Workers on this machine, without Ray: processes that take one shard after the other.

A single worker is the process itself. Of several, each has its share of the cores. One that dies (killed, or
out of memory) is replaced, and its shard given to another; a shard that has killed three is told. When the
process that started them ends, however it ends, so do they.
"""

import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from regard.corpus.folder import Done
from regard.corpus.plan import Shard
from regard.corpus.work import Job, ShardWork
from regard.tasks.base.predictor import Progress

LIVES = 3
"""How many workers a shard may cost."""


class WorkerError(RuntimeError):
    """Workers that die; the message names the shard."""


def run(job: Job, shards: Iterable[Shard], workers: int, progress: Progress | None = None) -> Iterator[Done]:
    """Shards as they are done. `progress` is called with texts that were done meanwhile."""
    if workers == 1:
        work = ShardWork(job)
        for shard in shards:
            yield work.do(shard, progress)
        return
    yield from _Pool(job, workers, progress).run(shards)


def device_of(device: str, number: int) -> str:
    """Of the worker of this number: one GPU each, where there are some."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    return f"cuda:{number % torch.cuda.device_count()}" if torch.cuda.is_available() else device


def default_workers(device: str) -> int:
    """One for each GPU; on a CPU one, which has all cores."""
    if device not in ("auto", "cuda"):
        return 1
    import torch

    return max(torch.cuda.device_count(), 1) if torch.cuda.is_available() else 1


class _Pool:
    def __init__(self, job: Job, workers: int, progress: Progress | None) -> None:
        self._context = multiprocessing.get_context(
            "spawn"
        )  # threads and locks of torch do not survive a fork
        self._job, self._count, self._progress = job, workers, progress
        self._busy: dict[Connection, tuple[Any, int, Shard | None]] = {}
        """Of each worker: its process, its number, what it is doing."""
        self._killed: Counter[int] = Counter()

    def run(self, shards: Iterable[Shard]) -> Iterator[Done]:
        todo, again = iter(shards), deque[Shard]()

        def following() -> Shard | None:
            return again.popleft() if again else next(todo, None)

        try:
            for number in range(self._count):
                if (shard := following()) is not None:
                    self._start(number, shard)
            while self._busy:
                for ready in wait([*self._busy]):
                    connection: Any = ready
                    process, number, shard = self._busy[connection]
                    try:
                        kind, value = connection.recv()
                    except (EOFError, OSError):
                        self._bury(connection)
                        if shard is not None:
                            again.appendleft(self._lost(shard, process))
                        if (left := following()) is not None:
                            self._start(number, left)
                        continue
                    if kind == "progress":
                        if self._progress is not None:
                            self._progress(value)
                    elif kind == "error":
                        raise value
                    else:
                        yield value
                        self._give(connection, following())
        finally:
            for connection, (process, _, _) in [*self._busy.items()]:
                process.terminate()
                process.join()
                connection.close()

    def _start(self, number: int, shard: Shard) -> None:
        ours, theirs = self._context.Pipe()
        job = replace(self._job, device=device_of(self._job.device, number))
        process = self._context.Process(target=_serve, args=(theirs, job), daemon=True)
        process.start()
        theirs.close()
        self._busy[ours] = (process, number, None)
        self._give(ours, shard)

    def _give(self, connection: Connection, shard: Shard | None) -> None:
        process, number, _ = self._busy[connection]
        self._busy[connection] = (process, number, shard)
        with suppress(OSError):  # it has died, which is seen when it is listened to
            connection.send(shard)

    def _bury(self, connection: Connection) -> None:
        process, _, _ = self._busy.pop(connection)
        connection.close()
        process.join()

    def _lost(self, shard: Shard, process: Any) -> Shard:
        self._killed[shard.number] += 1
        if self._killed[shard.number] >= LIVES:
            raise WorkerError(killing(self._job, shard, f"the last one ended with {process.exitcode}"))
        return shard


def killing(job: Job, shard: Shard, how: str) -> str:
    """What is said of a shard that workers die of."""
    first = shard.stretches[0]
    where = f"{job.files[first.file].address}:{first.line}"
    return (
        f"shard {shard.number} (from {where} on) has cost {LIVES} workers, {how}: is memory short? "
        "take fewer workers, or smaller shards, --shard-tokens"
    )


def _serve(connection: Any, job: Job) -> None:
    """A worker's life."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    send = _sender(connection)
    try:
        work = ShardWork(job)
        while (shard := connection.recv()) is not None:
            connection.send(("done", work.do(shard, send)))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass
    except Exception as error:
        connection.send(("error", sendable(error)))


def _sender(connection: Any) -> Callable[[int], None]:
    return lambda count: connection.send(("progress", count))


def sendable(error: Exception) -> Exception:
    """The error itself, where it can be sent; else what it says."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
