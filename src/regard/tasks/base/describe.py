"""What a predictor says of itself when it is printed, or shown in a notebook."""

import html
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.nn.quantized import QuantizedLinear
from regard.tasks.base.folder import read_metrics

MOST_NAMES = 8
"""Labels or languages that are listed."""


class Described:
    """For predictors: `repr`, and a table for notebooks, with the facts that one looks up otherwise."""

    folder: Path | None = None
    """Where `regard.load` found it."""

    def __repr__(self) -> str:
        lines = [f"  {name:<11} {value}" for name, value in facts(self).items()]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in facts(self).items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def facts(predictor: Any) -> dict[str, str]:
    """Of a predictor (`Predictor`), by name; what it does not have is left out."""
    found = {"task": predictor.task, "parameters": f"{count_parameters(predictor.model):,}"}
    for what in ("languages", "labels"):
        if names := getattr(predictor, what, ()):
            more = ", ..." if len(names) > MOST_NAMES else ""
            found[what] = f"{len(names)}: {', '.join(names[:MOST_NAMES])}{more}"
    if predictor.longest is not None:
        found["longest"] = f"{predictor.longest} tokens"
    found["precision"] = f"{predictor.precision} on {predictor.device}"
    if predictor.folder is not None:
        found |= {"folder": str(predictor.folder), **_metric(predictor.folder)}
    return found


def count_parameters(model: nn.Module) -> int:
    """Of a model in 8 bits, those that it was made of."""
    if any(isinstance(part, QuantizedLinear) for part in model.modules()):
        with torch.device("meta"):  # where weights take no room
            model = type(model)(model.config)
    return sum(parameter.numel() for parameter in model.parameters())


def _metric(folder: Path) -> dict[str, str]:
    """The figure that the model was chosen by, if its folder has it."""
    try:
        metrics = read_metrics(folder)
        name = metrics["metric"]
        return {str(name): f"{metrics['valid'][name]:.4g} on validation text"}
    except (ValueError, KeyError, TypeError):  # folders of others have none, or another file
        return {}
