"""`regard serve` in a process of its own, and how it is asked."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx


@dataclass
class Running:
    process: subprocess.Popen[str]
    url: str
    """Without the last slash."""
    log: Path
    """What it said on stderr."""

    def client(self, **given: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, **given)

    def post(self, path: str, fields: Any, **given: Any) -> httpx.Response:
        with self.client() as client:
            return client.post(path, json=fields, **given)

    def get(self, path: str) -> httpx.Response:
        with self.client() as client:
            return client.get(path)

    def metric(self, name: str) -> float:
        """The sum over all labels."""
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def memory(self) -> float:
        """In megabytes, that are its own."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def files(self) -> int:
        return len([*Path(f"/proc/{self.process.pid}/fd").iterdir()])

    @property
    def threads(self) -> int:
        return len([*Path(f"/proc/{self.process.pid}/task").iterdir()])

    def end(self, seconds: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@contextmanager
def serving(*arguments: str | Path, command: tuple[str, ...] = ()) -> Iterator[Running]:
    """Until the block ends; `arguments` are those of `regard serve`."""
    start = command or (sys.executable, "-m", "regard", "serve")
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w", encoding="utf-8") as told:
            process = subprocess.Popen(
                [*start, *map(str, arguments), "--port", "0", "--device", "cpu"],
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "2"},
            )
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            assert lines[1].startswith("http"), "".join(lines) + log.read_text(encoding="utf-8")
            yield Running(process, lines[1].strip().rstrip("/"), log)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def apart(work: Coroutine[Any, Any, Any]) -> Any:
    """In another thread: the loop of a browser's tests is never done."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, work).result()
