"""One traced module into one file of ONNX."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.deploy.onnx_body import prepare_positions

OPSET = 18
"""The version of ONNX's operators: what runtimes since 2023 know."""
LARGEST = 1_500_000_000
"""Bytes of weights in one file, beyond which they go into a file beside it: ONNX files end at 2 GB."""


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    name: str
    example: Tensor
    axes: tuple[str | None, ...]
    """Their names, where any length will do."""


def write_graph(
    module: nn.Module, given: Sequence[Input], outputs: Sequence[str], file: Path, rows: int
) -> None:
    """One graph into one file. Inputs beyond those that the module names are its past, four to a layer."""
    module.eval()
    prepare_positions(module, rows)
    plain = [each for each in given if not each.name.startswith("past_key_values")]
    past = given[len(plain) :]
    arguments: list[Any] = [each.example for each in plain]
    axes: list[Any] = [_axes(each) for each in plain]
    if past:
        layers = range(0, len(past), 4)
        arguments.append([tuple(each.example for each in past[start : start + 4]) for start in layers])
        axes.append([tuple(_axes(each) for each in past[start : start + 4]) for start in layers])
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module,
            tuple(arguments),
            input_names=[each.name for each in given],
            output_names=outputs,
            dynamic_shapes=tuple(axes),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        if program is None:
            raise RuntimeError(f"{file}: torch.onnx.export gave no program; is this version of torch known?")
        _forget_traces(program)
        size = sum(each.numel() * each.element_size() for each in module.parameters())
        program.save(str(file), external_data=size > LARGEST)


def _axes(given: Input) -> dict[int, str]:
    return {place: name for place, name in enumerate(given.axes) if name is not None}


def _forget_traces(program: Any) -> None:
    """The exporter notes for each node which lines of which files it came from: nobody's business, and half
    of a small file."""
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    program.model.metadata_props.clear()
    program.model.graph.metadata_props.clear()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter has to say about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
