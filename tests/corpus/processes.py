"""Commands in processes of their own, found and killed by their family."""

import subprocess
import sys
import time
from pathlib import Path


def started(task: str, model: Path, lines: Path, out: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "regard", "corpus", task, str(lines), str(out), "--model", str(model)]
    own = ["--shard-tokens", "300", "--device", "cpu", *options]
    return subprocess.Popen([*command, *own], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for(out: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Until so many shards are there."""
    until = time.monotonic() + 300
    while len(list(out.glob("part-*"))) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.002)


def state(process: int) -> tuple[str, int]:
    """A letter, and the parent."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def lives(process: int) -> bool:
    return state(process)[0] not in "ZX"


def family(process: int) -> list[int]:
    """All that stem from it, and live."""
    every = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    parents = {each: state(each)[1] for each in every if lives(each)}
    found, new = set[int](), {process}
    while new:
        new = {each for each, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def most_memory(process: int) -> int:
    """Bytes that it has needed at once, at most; 0 of one that is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return max((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0)


def workers(process: int, engine: str) -> list[int]:
    """Those of a corpus that hold a model."""
    named = {each: command_line(each) for each in family(process)}
    if engine == "ray":
        return [each for each, name in named.items() if name.startswith(b"ray::") and b"_Actor" in name]
    return [each for each, name in named.items() if b"spawn_main" in name]
