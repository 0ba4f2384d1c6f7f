"""How good a model is, whatever its task: what `regard evaluate` calls."""

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.files import told
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.registry import get_task, task_of
from regard.text import DataError


def evaluate(model: Path, *, out: TextIO, as_json: bool = False, **options: Any) -> None:
    """Print the figures as tables, or as JSON; `options` are those of `EvaluateOptions`."""
    console = Console(quiet=as_json, width=None if sys.stdout.isatty() else 160)
    given = {name: value for name, value in options.items() if value is not None}
    found = evaluate_model(model, EvaluateOptions(**given), console)
    if as_json:
        out.write(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def evaluate_model(model: Path, options: EvaluateOptions, console: Console) -> dict[str, Any]:
    """Figures of a model folder; a file is one of translations."""
    task = get_task("translate") if model.is_file() else task_of(model)
    if task.evaluate is None:
        raise ConfigError(
            f"{model}: {task.noun}s are not measured by regard evaluate; metrics.json says how good it is"
        )
    try:
        return task.evaluate(model, options, console)
    except DataError as error:
        raise told(error, "prompt") from error
