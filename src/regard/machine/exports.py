"""Exported models beside the model itself, by the exporters' own comparisons (`regard.deploy`)."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import cast

from rich.console import Console

from regard.config import ConfigError
from regard.deploy.export import Difference, export
from regard.deploy.onnx_export import export_onnx
from regard.machine.results import Result, judged, skipped
from regard.machine.subjects import Subject
from regard.tasks.registry import get_task
from regard.tasks.translation.translator import Translator

ONNX = "exported to ONNX = the model"
CTRANSLATE2 = "exported to CTranslate2 = the model"


def check_onnx(subject: Subject, work: Path) -> Result:
    """The bound is regard.deploy.onnx_compare's, or of a translator's log-probabilities that of .export."""

    def write(console: Console) -> list[Difference]:
        return export_onnx(subject.predictor, work / "onnx", console=console)

    return _compared(ONNX, subject, "onnx" in get_task(subject.predictor.task).exports, write)


def check_ctranslate2(subject: Subject, work: Path) -> Result:
    def write(console: Console) -> list[Difference]:
        return [export(cast(Translator, subject.predictor), work / "ctranslate2", console=console)]

    return _compared(CTRANSLATE2, subject, "ctranslate2" in get_task(subject.predictor.task).exports, write)


def _compared(
    check: str, subject: Subject, possible: bool, write: Callable[[Console], list[Difference]]
) -> Result:
    """What is not installed, and what a format cannot express, is a ConfigError; what differs is another."""
    if not possible:
        return skipped(check, subject.name, f"not for task = {subject.predictor.task!r}")
    try:
        found = write(Console(file=io.StringIO()))
    except ConfigError as refusal:
        return skipped(check, subject.name, str(refusal))
    return judged(check, subject.name, [(each.numbers, each.most, each.bound) for each in found])
