"""What a benchmark found: rows, and the report that says on what machine, with which versions, and when.

A ratio above 1 means that we are ahead, whatever the unit: of rates (units that end in /s) more is better, of
times and memory less. A report is one JSON file, and stands alone: CPU and GPU are different machines.
"""

import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from regard import __version__
from regard.config import ConfigError, from_dict, to_dict
from regard.tasks.base.folder import read_json, write_json


class BenchError(RuntimeError):
    """Two sides that were to compute the same do not: their times cannot be compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    work: str
    """What is done: "GPT-2 small, 64 new tokens"."""
    setting: str
    """How: "int8, batch 8"."""
    unit: str
    """Of both figures: tokens/s, sentences/s, ms, GiB."""
    ours: float | None = None
    """The median over the rounds; None where nothing could be measured."""
    peer: str = ""
    """Against what, with its version: "transformers 5.17.0"."""
    theirs: float | None = None
    """The median over the rounds; None where there is no peer, or it is not installed."""
    ratio: float | None = None
    """The median of the rounds' own ratios; above 1 is ahead, for times and memory too."""
    low: float | None = None
    """The smallest ratio of a round."""
    high: float | None = None
    """The largest ratio of a round."""
    notes: str = ""
    """What else must be known: "same tokens 100 %", "64 % of the chip"."""

    @property
    def among_ours(self) -> bool:
        """Whether both sides are ours, and the ratio says what something costs."""
        return self.peer.startswith("regard")


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    benchmark: str
    """The name that `regard bench` knows it by; also its file's."""
    title: str
    """What is compared with what."""
    method: str
    """How, in a sentence."""
    machine: str
    """The processor or GPU; threads."""
    versions: dict[str, str]
    """Of regard, torch, python and the peers."""
    date: str
    """The day of the measurement: 2026-11-15."""
    rows: tuple[Row, ...]
    """In the order in which they were measured."""

    @property
    def measured(self) -> bool:
        """Whether there is a figure at all."""
        return any(row.ours is not None for row in self.rows)


Figures = Sequence[float]


def compared(
    ours: Figures, theirs: Figures, *, work: str, setting: str, unit: str, peer: str, notes: str = ""
) -> Row:
    """A row from the figures of both sides, round by round, in its unit."""
    both = zip(ours, theirs, strict=True)
    more = unit.endswith("/s")
    ratios = [mine / other if more else other / mine for mine, other in both]
    return Row(
        work=work,
        setting=setting,
        unit=unit,
        ours=statistics.median(ours),
        peer=peer,
        theirs=statistics.median(theirs),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        notes=notes,
    )


def skipped(
    error: ImportError, *, work: str, setting: str, unit: str, peer: str, ours: float | None = None
) -> Row:
    """A row whose peer is not installed: it says what to install."""
    if error.name is None:  # installed, but broken: nobody is helped by installing it
        raise error
    package = error.name.partition(".")[0].replace("_", "-")
    notes = f"not measured: pip install {package}"
    return Row(work=work, setting=setting, unit=unit, ours=ours, peer=peer, notes=notes)


def installed(package: str) -> str | None:
    """Its version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def named(package: str) -> str:
    """With its version, where it is installed: "transformers 5.17.0"."""
    return " ".join(filter(None, (package, installed(package))))


def processor() -> str:
    """The CPU by its name, and how many threads torch uses on it."""
    name = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        lines = (line.partition(":") for line in facts.read_text(encoding="utf-8").splitlines())
        name = next((value.strip() for key, _, value in lines if key.strip() == "model name"), name)
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def report(
    benchmark: str, *, title: str, method: str, machine: str, rows: Iterable[Row], peers: Sequence[str] = ()
) -> Report:
    """Of today, with the versions of this machine; `peers` are the packages that were compared with."""
    found = tuple(rows)
    versions = {"regard": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
    versions |= {peer: there for peer in peers if (there := installed(peer)) is not None}
    return Report(
        benchmark=benchmark,
        title=title,
        method=method,
        machine=machine,
        versions=versions,
        date=date.today().isoformat(),
        rows=found,
    )


def path_of(folder: Path, benchmark: str) -> Path:
    return folder / "speed" / f"{benchmark}.json"


def write_report(folder: Path, found: Report) -> None:
    write_json(path_of(folder, found.benchmark), to_dict(found))


def read_report(path: Path) -> Report:
    try:
        return from_dict(Report, read_json(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}; measure again: regard bench {path.stem} --to FOLDER") from error
