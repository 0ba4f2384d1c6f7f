"""A task is one object: everything that others need to know about it.

    recipe      how its training is written down            prepare     from a recipe to a training job
    open        from a model folder to a predictor          evaluate    how good such a model is
    heads       the heads of an encoder that are its own    exports     which formats it can be written to
    views       what the explorer shows beside attention    commands    what it adds to the command line

A folder under `regard.tasks` ends in one, and `regard.tasks.registry` lists them; a plugin registers its own.
Nothing here imports torch: parts that need it are imported when they are used (`later`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rich.console import Console

from regard.config import ConfigError
from regard.plugins import Registry
from regard.settings.network import Scaling
from regard.tasks.base.recipe import RecipeSpec, Written
from regard.text.doctor import Report

if TYPE_CHECKING:
    from regard.tasks.base.bulk import BulkSpec
    from regard.tasks.base.faster import Precision
    from regard.tasks.base.job import Job
    from regard.tasks.base.predictor import Predictor
    from regard.train.ranks import Ranks

Export = Literal["hf", "ctranslate2", "onnx"]


class Prepare(Protocol):
    def __call__(
        self, written: Written[Any], folder: Path, ranks: "Ranks", console: Console, *, begun: bool = False
    ) -> "Job":
        """Everything up to the first step; a run that is `begun` has its tokenizer already."""


class Open(Protocol):
    def __call__(
        self, folder: Path | str, *, device: str = "auto", precision: "Precision | None" = None
    ) -> "Predictor":
        """A model folder, ready for use; a FolderError for one that is not of this task."""


class Later:
    """A part that is imported when it is used: a function to call, or a class."""

    def __init__(self, place: str) -> None:
        self._place = place

    @property
    def part(self) -> Any:
        module, _, name = self._place.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *values: Any, **settings: Any) -> Any:
        return self.part(*values, **settings)


def later(place: str) -> Any:
    """later("regard.tasks.tagging.train:prepare"): that function, imported when it is called."""
    return Later(place)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluateOptions:
    """What `regard evaluate` was given; each task takes its own."""

    files: Sequence[Path] = ()
    """What is measured on, where the model's task says what a file is: labelled text, or plain."""
    source: Path | None = None
    references: Sequence[Path] = ()
    labelled: Sequence[Path] = ()
    text: Sequence[Path] = ()
    against: Path | None = None
    to: str | None = None
    prompt: str | None = None
    """Which of a translator's prompts stands before each source."""
    source_language: str | None = None
    """Of the texts, for a translator that is told it."""
    lowercase: bool = False
    tokenize: str | None = None
    stride: int = 0
    context: int = 0
    scaling: Scaling = "none"
    text_column: str | None = None
    """A name, or a number from 0."""
    second_column: str | None = None
    label_column: str | None = None
    encoding: str | None = None
    """Of the files; unless given, as in training."""
    separator: str | None = None
    errors: Path | None = None
    calibration: Path | None = None
    queries: Path | None = None
    """What an embedder is asked, with `corpus` and `qrels`."""
    corpus: Path | None = None
    qrels: Path | None = None
    rerank: Path | None = None
    """A reranker that orders what the embedder has found."""
    candidates: int = 0
    """Of each query, texts that are reranked; 0: 100."""
    dimensions: int | None = None
    """So many of the first numbers of each vector."""
    run: Path | None = None
    """Where what was found is written, as TREC has it."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"

    def only(self, *names: str) -> None:
        """Refuse options that the task has no use for, by name."""
        plain = EvaluateOptions()
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name not in (*names, "device") and value != getattr(plain, each.name) and value:
                raise ConfigError(f"{_typed(each.name)} is not for this model: it takes {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_typed, names))


def _typed(name: str) -> str:
    """An option as it is given."""
    return {"files": "FILE", "references": "--reference", "source_language": "--from"}.get(
        name, f"--{name.replace('_', '-')}"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """All that a task is; a plugin registers its own. CONTRIBUTING.md says what each part must do.

    >>> from regard.tasks.registry import get_task
    >>> task = get_task("classify")
    >>> task.noun, task.heads, task.kind is regard.Classifier
    ('classifier', ('classify',), True)
    """

    name: str
    """What a recipe says: task = "translate"."""
    command: str
    """What uses such a model: regard translate."""
    noun: str
    """What such a model is called: a translator."""
    recipe: RecipeSpec[Any]
    prepare: Prepare
    predictor: "type[Any] | Later"
    """What `open` gives."""
    open: Open
    heads: tuple[str, ...] = ()
    """Kinds of heads (`regard.models.heads`) of the encoders that belong to it."""
    evaluate: Callable[[Path, EvaluateOptions, Console], dict[str, Any]] | None = None
    """Figures of a model folder, printed and returned."""
    examples: Callable[[Path, str], tuple[str, list[float]]] | None = None
    """examples(folder, device): a figure's name, and its value for each example that the model was validated
    on, more being better; so that two models can be compared example by example."""
    check: Callable[..., Report] | None = None
    """What training looks at first, the text of a recipe: check(written, examples=, tokens=)."""
    ahead: Callable[[Written[Any], Path], None] | None = None
    """What of `prepare` needs no torch: ahead(written, folder) leaves in the folder what `prepare` will look
    for there, the tokenizer and the token stores."""
    doctor: Callable[..., Report] | None = None
    """The data doctor, `regard check`: doctor(written, examples=, vectors=), where `vectors` makes some of
    texts by a model. Unless given, `check` is."""
    files: Callable[[str, tuple[str, ...]], Mapping[str, Any] | None] | None = None
    """files(name, columns): the settings of [data] that read a file of such a name, with such columns if it
    is a table; None where it looks like text of another task."""
    exports: frozenset[Export] = frozenset()
    views: tuple[str, ...] = ()
    """Of the explorer's page (`look/page/views`), beside those that every model has."""
    bulk: "BulkSpec | None" = None
    """What it does with very many texts: regard corpus."""
    commands: tuple[Callable[..., None], ...] = ()
    """Functions that Typer makes commands of."""

    @property
    def kind(self) -> type[Any]:
        """The class of what `open` gives."""
        return self.predictor.part if isinstance(self.predictor, Later) else self.predictor


def _own_names() -> Collection[str]:
    return import_module("regard.tasks.registry").FOLDERS  # which stands above


TASKS: Registry[Task] = Registry(key="task", type=Task, taken=_own_names)
"""Those of plugins; regard's own are listed by `regard.tasks.registry`."""
