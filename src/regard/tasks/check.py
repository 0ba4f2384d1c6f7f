"""The data doctor on the text of a recipe, whatever its task, or on two files of parallel text; and whether a
model folder is whole."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.tasks.base.verify import Verified, accept, verify
from regard.tasks.registry import get_task, read_recipe
from regard.tasks.translation.check import check_pairs
from regard.text.doctor import Report, render


def check(
    recipe: str | None,
    settings: Sequence[str],
    pairs: tuple[Path, Path] | None,
    *,
    examples: int,
    console: Console,
) -> Report:
    """Everything that is wrong with the text, printed and returned."""
    if (recipe is None) == (pairs is None):
        raise ConfigError("give a recipe or a model, or two files with --pairs SOURCE TARGET")
    if pairs is not None:
        report = check_pairs(*pairs, examples=examples)
    else:
        written = read_recipe(str(recipe), settings)
        task = get_task(written.checked.task)
        if task.check is None:
            raise ConfigError(
                f"regard check looks at parallel text, and the task of this recipe is {task.name!r}: its "
                "text is read and counted by regard train --dry-run"
            )
        report = task.check(written, examples=examples)
    render(report, console)
    return report


def check_model(folder: Path, *, accepted: bool, console: Console) -> list[Verified]:
    """Every file of a model folder: is it what was written? With `accepted`, what is there now is."""
    if accepted:
        accept(folder)
    files = verify(folder)
    for each in files:
        console.print(str(each), highlight=False, markup=False, soft_wrap=True)
    return files
