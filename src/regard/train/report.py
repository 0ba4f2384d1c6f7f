"""What training says while it runs: a line that moves on a terminal, plain lines elsewhere, and files.

log.jsonl    one object a line: {"step": 100, "loss": 4.2, ...} and {"step": 500, "valid": {"bleu": 31.5}}
events.*     the same for TensorBoard
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regard.disk import DiskFullError, full_disk, write_text
from regard.train.checkpoint import CheckpointError
from regard.train.events import EventWriter

LOG = "log.jsonl"


class Report:
    def __init__(
        self,
        folder: Path,
        steps: int,
        console: Console,
        *,
        start: int = 0,
        quiet: bool = False,
        unit: str = "tokens",
    ) -> None:
        """Training goes from step `start`: what an earlier run logged past it did not happen. A quiet report
        is for the ranks that only work. `unit` is what the speed counts."""
        self.folder, self.steps, self.console, self.quiet, self.unit = folder, steps, console, quiet, unit
        self._began, self._start = time.monotonic(), start
        self._progress: Progress | None = None
        if quiet:
            return
        folder.mkdir(parents=True, exist_ok=True)
        before = [entry for entry in read_log(folder) if entry["step"] <= start] if start else []
        write_text(folder / LOG, "".join(f"{json.dumps(entry)}\n" for entry in before))
        self._events = EventWriter(folder)
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("step {task.completed}/{task.total}"),
                BarColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._progress.add_task("", total=steps, completed=start, figures="")
            self._progress.start()

    def moved(self, step: int, steps: int) -> None:
        """`steps` in all, as far as is known now."""
        self.steps = steps
        if self._progress is not None:
            self._progress.update(self._task, completed=step, total=steps)

    def logged(self, step: int, figures: Mapping[str, float]) -> None:
        """Means over the steps since the last time; a perplexity where there is one."""
        if self.quiet:
            return
        self._write("train", figures, {"step": step, **figures})
        perplexity = f"ppl {figures['perplexity']:.2f}  " if "perplexity" in figures else ""
        speed = f"{figures['tokens_per_second']:,.0f} {self.unit}/s"
        line = f"loss {figures['loss']:.3f}  {perplexity}{speed}"
        if self._progress is not None:
            self._progress.update(self._task, figures=line)
        else:
            left = (time.monotonic() - self._began) / max(step - self._start, 1) * (self.steps - step)
            self.console.print(
                f"step {step}/{self.steps}  {line}  left {_clock(left)}", highlight=False, soft_wrap=True
            )

    def validated(
        self, step: int, metrics: Mapping[str, float], *, best: bool, example: str, seconds: float
    ) -> None:
        if self.quiet:
            return
        self._write("valid", metrics, {"step": step, "valid": dict(metrics), "best": best, "took": seconds})
        shown = {name: value for name, value in metrics.items() if "." not in name}  # others are for files
        figures = "  ".join(f"{name} {value:.4g}" for name, value in shown.items())
        self.say(f"step {step}  valid  {figures}  in {seconds:.1f} s{'  (best so far)' if best else ''}")
        if example:
            self.say(example)

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(escape(text), highlight=False, soft_wrap=True)

    def _write(self, kind: str, figures: Mapping[str, float], entry: Mapping[str, Any]) -> None:
        path = self.folder / LOG
        try:
            with full_disk(path), path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(entry)}\n")
        except DiskFullError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"{path}: the log could not be written ({error.strerror}); mend that, then --resume"
            ) from error
        self._events.add(entry["step"], {f"{kind}/{name}": value for name, value in figures.items()})

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def read_log(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's log; a process that was killed may have left half of one at the end."""
    entries = []
    path = folder / LOG
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
