"""What `regard bench` does at the prompt: benchmarks by name, results kept, their page and picture."""

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

import torch
from rich.console import Console

from regard.bench.page import page, table
from regard.bench.picture import drawable, plot_ratios
from regard.bench.results import Report, read_report, write_report
from regard.config import ConfigError
from regard.disk import write_text
from regard.look.plots import save
from regard.tasks.base.terminal import say

BENCHMARKS = {
    "busy": "regard.bench.busy",
    "chat": "regard.bench.chat",
    "corpus": "regard.bench.corpus",
    "documents": "regard.bench.documents",
    "encoder": "regard.bench.encoder",
    "embedding": "regard.bench.embedding",
    "feeding": "regard.bench.feeding",
    "generation": "regard.bench.generation",
    "generation-cuda": "regard.bench.generation_cuda",
    "looking": "regard.bench.looking",
    "memory": "regard.bench.memory",
    "marian": "regard.bench.marian",
    "serving": "regard.bench.serving",
    "sharding": "regard.bench.sharding",
    "training": "regard.bench.training",
    "translation": "regard.bench.translation",
}
"""Every benchmark by its name; a module is imported when it is asked for."""


class Benchmark(Protocol):
    """What such a module has."""

    TITLE: str

    def measure(self, console: Console) -> Report | None:
        """None where this machine cannot, which it says."""


def bench(
    names: Sequence[str], *, to: Path | None, write: Path | None, listed: bool, console: Console
) -> bool:
    """Whether there is something to show for it."""
    if listed:
        show_list(console)
        return True
    if write is not None:
        if names or to is not None:
            raise ConfigError("--write measures nothing: leave out the names and --to, or --write")
        write_page(write, console)
        return True
    return bool(run(names, to=to, console=console))


def benchmark(name: str) -> Benchmark:
    check_names([name])
    return cast(Benchmark, import_module(BENCHMARKS[name]))


def check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in BENCHMARKS:
            near = difflib.get_close_matches(name, BENCHMARKS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"no benchmark {name!r}: there is {', '.join(BENCHMARKS)}{hint}")


def show_list(console: Console) -> None:
    width = max(map(len, BENCHMARKS))
    for name in BENCHMARKS:
        say(console, f"{name:{width}}  {benchmark(name).TITLE}")


def run(names: Sequence[str], *, to: Path | None, console: Console) -> list[Report]:
    """Those that were measured. Each is written when it is done; the page and the picture come last."""
    check_names(names)
    if to is not None:
        _check_folder(to)
    os.environ["HF_HUB_OFFLINE"] = "1"  # before a peer is imported: nothing is fetched
    found = []
    for name in dict.fromkeys(names or BENCHMARKS):
        say(console, f"measuring {name}")
        with torch_as_before():
            report = benchmark(name).measure(console)
        if report is None:
            continue
        console.print(table(report))
        if report.measured:
            found.append(report)
            if to is not None:
                write_report(to, report)
    if to is not None and found:
        write_page(to, console)
    return found


@contextmanager
def torch_as_before() -> Iterator[None]:
    """No benchmark runs with the settings that the one before made."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


def _check_folder(folder: Path) -> None:
    """Before minutes are spent on what could not be kept."""
    if find_spec("matplotlib") is None:
        raise ConfigError("--to draws a picture by matplotlib: pip install regard[look], or leave out --to")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--to {folder}: that is a file; name a folder")


def read_reports(folder: Path) -> list[Report]:
    """All that were kept there, in the order of BENCHMARKS; those of other names come last."""
    known = list(BENCHMARKS)
    paths = sorted((folder / "speed").glob("*.json"), key=lambda path: path.stem)
    paths.sort(key=lambda path: known.index(path.stem) if path.stem in known else len(known))
    if not paths:
        raise ConfigError(f"{folder / 'speed'} has no results: measure first, regard bench --to {folder}")
    return [read_report(path) for path in paths]


def write_page(folder: Path, console: Console) -> None:
    """speed.md and pictures/speed.png, from all results in speed/."""
    reports = read_reports(folder)
    drawn = bool(drawable(reports))
    if drawn:
        save(plot_ratios(reports), folder / "pictures" / "speed.png")
    write_text(folder / "speed.md", page(reports, picture=drawn))
    say(console, f"{folder / 'speed.md'}: {len(reports)} benchmarks")
