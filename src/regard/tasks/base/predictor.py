"""What a task opens: a model ready for inference, with the plain public middle that others build on.

The command line, the explorer, exporters and a service ask for no more than this; what a predictor does with
texts (`translate`, `classify`, `embed`, ...) is its own.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import nn

from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import FolderError, whole, write_config, write_weights
from regard.text import Tokenizer

Progress = Callable[[int], None]
"""Called with how many more texts are done."""


class Predictor(Protocol):
    """What every model that is ready for inference has, whatever its task.

    >>> predictor = regard.load("runs/sentiment")
    >>> predictor.task, predictor.longest, str(predictor.device)
    ('classify', 512, 'cpu')
    >>> with predictor.ready():
    ...     parameters = sum(each.numel() for each in predictor.model.parameters())
    """

    task: ClassVar[str]
    """The name of the task that opens it."""

    @property
    def model(self) -> Any:
        """The `nn.Module`: a Seq2Seq, a Decoder, or an encoder with a head (Headed)."""

    @property
    def tokenizer(self) -> Tokenizer | None: ...

    @property
    def longest(self) -> int | None:
        """The most tokens that are read at once, special ones included; None for any number."""

    @property
    def precision(self) -> Precision: ...

    @property
    def device(self) -> torch.device: ...

    def ready(self) -> AbstractContextManager[None]:
        """The model in eval mode, put back afterwards; no gradients; the predictor's precision."""

    def about(self) -> dict[str, Any]:
        """What config.json says of it, beside its format and task."""

    def with_model(self, model: Any) -> Self:
        """The same with another model, of the same kind."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; every part is put back as it was."""
    training = [part for part in model.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def inference(device: torch.device, precision: Precision) -> Iterator[None]:
    """The modes of a thread: no gradients, and autocast in bfloat16. (Not inference_mode: what a model caches
    there, as tables of positions, could not be trained with any more.)"""
    half = precision == "bfloat16"
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        yield


def save(predictor: Predictor, folder: Path | str) -> None:
    """As a model folder, which `regard.load` opens.

    >>> from regard.look import prune_predictor
    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> regard.save(prune_predictor(translator, [("encoder", 0, 1)]), "runs/smaller")
    >>> sorted(each.name for each in Path("runs/smaller").iterdir())
    ['config.json', 'model.safetensors', 'tokenizer.json']
    """
    folder = Path(folder)
    if predictor.tokenizer is None or predictor.longest is None:
        raise FolderError(
            f"{folder}: a model folder needs a tokenizer and the longest text: give the predictor both"
        )
    folder.mkdir(parents=True, exist_ok=True)
    predictor.tokenizer.save(folder / "tokenizer.json")
    write_weights(folder, whole(predictor.model))
    write_config(folder, predictor.task, predictor.about())
