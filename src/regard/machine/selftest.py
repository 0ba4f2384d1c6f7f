"""`regard selftest`: the equalities that the tests prove, on this machine and on one's own model."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.table import Table

from regard.machine import checks
from regard.machine.exports import CTRANSLATE2, ONNX, check_ctranslate2, check_onnx
from regard.machine.results import Result, failed, skipped, together
from regard.machine.resuming import RESUMED, check_resumed
from regard.machine.subjects import Subject
from regard.machine.tiny import EXPORTED, write_tiny
from regard.machine.without_c import WithoutC
from regard.nn.native import explain
from regard.tasks.base.terminal import say

Say = Callable[[str], None]


def selftest(model: Path | None, *, export: bool, as_json: bool, console: Console) -> bool:
    """Whether nothing has failed."""
    began = time.monotonic()
    with _showing(model) as show:
        results = run_checks(model, export=export, show=show)
    seconds = time.monotonic() - began
    ok = all(each.verdict != "FAILED" for each in results)
    if as_json:
        plain = {"ok": ok, "seconds": round(seconds, 1), "results": [each.to_dict() for each in results]}
        typer.echo(json.dumps(plain, ensure_ascii=False, indent=1))
    else:
        _render(results, seconds, console)
    return ok


def run_checks(
    model: Path | None = None, *, export: bool = True, show: Say = lambda check: None
) -> list[Result]:
    """Of a model, or of tiny ones of each family. `show` is told what comes next."""
    with tempfile.TemporaryDirectory(prefix="regard-selftest-") as name:
        work = Path(name)
        show("models")
        folders = write_tiny(work / "tiny") if model is None else {model.resolve().name: model}
        subjects = [
            Subject.open(each, folder, exported=export and (model is not None or each in EXPORTED))
            for each, folder in folders.items()
        ]
        absent = explain()
        # it computes while this process does
        other = None if absent else WithoutC([*folders.values()], work / "without.safetensors")
        try:
            return [*_checked(subjects, work, other, absent, show)]
        finally:
            if other is not None:
                other.stop()


def _checked(
    subjects: Sequence[Subject], work: Path, other: WithoutC | None, absent: str | None, show: Say
) -> Iterator[Result]:
    def each(check: str, compare: Callable[[Subject], Result]) -> Iterator[Result]:
        show(check)
        for subject in subjects:
            with subject.predictor.ready():
                yield _guarded(check, subject.name, partial(compare, subject))

    yield from each(checks.ATTENTION, checks.check_attention)
    yield from each(checks.PACKED, checks.check_packed)
    yield from each(checks.CACHED, checks.check_cached)
    yield from each(checks.INT8, checks.check_int8)
    yield from each(checks.GROUPS, checks.check_groups)
    show(RESUMED)
    yield _guarded(RESUMED, "tiny translator", partial(check_resumed, work / "training"))
    if torch.cuda.is_available():
        yield from each(checks.CUDA, partial(checks.check_cuda, half=False))
        yield from each(checks.CUDA_HALF, partial(checks.check_cuda, half=True))
    else:
        yield skipped(checks.CUDA, "", "there is no GPU that torch can use")
    show(checks.NATIVE)
    if other is None:
        yield skipped(checks.NATIVE, "", absent or "there is no C")
    else:
        yield from _native(subjects, other)
    for check, compare in ((ONNX, check_onnx), (CTRANSLATE2, check_ctranslate2)):
        exported = [subject for subject in subjects if subject.exported]
        if not exported:
            yield skipped(check, "", "--no-export")
            continue
        show(check)
        for number, subject in enumerate(exported):
            place = work / "exports" / str(number)
            yield _guarded(check, subject.name, partial(compare, subject, place))


def _native(subjects: Sequence[Subject], other: WithoutC) -> Iterator[Result]:
    try:
        without = other.results()
    except (RuntimeError, OSError) as error:
        yield failed(checks.NATIVE, "", error)
        return
    for subject, own in zip(subjects, without, strict=True):
        with subject.predictor.ready():
            yield _guarded(checks.NATIVE, subject.name, partial(checks.check_native, subject, own))


def _guarded(check: str, model: str, compare: Callable[[], Result]) -> Result:
    """On a machine where something is broken, anything may be raised: that is a result too."""
    try:
        return compare()
    except Exception as error:
        return failed(check, model, error)


@contextmanager
def _showing(model: Path | None) -> Iterator[Say]:
    """What is being compared, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda check: None
        return
    with console.status("") as status:
        yield lambda check: status.update(f"{check} ({model or 'tiny models of each family'})")


def _render(results: Sequence[Result], seconds: float, console: Console) -> None:
    table = Table()
    for heading in ("compared", "model", "numbers", "largest difference", "bound", "result"):
        right = heading in ("numbers", "largest difference", "bound")
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=heading != "result"
        )
    for each in together(results):
        how = f"{each.verdict}: {each.why}" if each.verdict == "skipped" else each.verdict
        numbers = f"{each.numbers:,}" if each.numbers else ""
        table.add_row(each.check, each.model, numbers, _number(each.difference), _number(each.bound), how)
    console.print(table)
    count = [sum(each.verdict == kind for each in together(results)) for kind in ("ok", "FAILED", "skipped")]
    for each in results:
        if each.verdict == "FAILED":
            bound = "" if each.bound is None else f"{each.difference:.2g} apart, {each.bound:.2g} allowed"
            say(console, f"FAILED  {each.check}, {each.model}: {'; '.join(filter(None, (bound, each.why)))}")
    say(console, f"{count[0]} ok, {count[1]} failed, {count[2]} skipped, in {seconds:.0f} s")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}" if value else "0"
