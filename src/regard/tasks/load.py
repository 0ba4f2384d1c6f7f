"""`regard.load`: a model folder, ready for use, whoever wrote it."""

from pathlib import Path
from typing import TypeVar, overload

from regard.tasks.base.describe import Described
from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import FolderError
from regard.tasks.base.predictor import Predictor
from regard.tasks.registry import all_tasks, task_of

Wanted = TypeVar("Wanted")


@overload
def load(folder: Path | str, *, device: str = "auto", precision: Precision | None = None) -> Predictor: ...


@overload
def load(
    folder: Path | str, kind: type[Wanted], *, device: str = "auto", precision: Precision | None = None
) -> Wanted: ...


def load(
    folder: Path | str,
    kind: type[Wanted] | None = None,
    *,
    device: str = "auto",
    precision: Precision | None = None,
) -> Predictor | Wanted:
    """What a training has made, or a folder of Hugging Face's: a translator, classifier, tagger, filler,
    embedder or generator. With a `kind` (`regard.Translator`), only that will do. It runs on the GPU if there
    is one, unless told otherwise, and there in bfloat16. int8 is for the CPU.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> translator.translate("Where is the station?").text
    'Wo ist der Bahnhof?'
    """
    task = task_of(folder)
    if kind is not None and not issubclass(task.kind, kind):
        wanted = next((each.command for each in all_tasks() if issubclass(each.kind, kind)), kind.__name__)
        raise FolderError(f"{folder}: this is a model for regard {task.command}, not for regard {wanted}")
    found = task.open(folder, device=device, precision=precision)
    if isinstance(found, Described):
        found.folder = Path(folder)
    return found
