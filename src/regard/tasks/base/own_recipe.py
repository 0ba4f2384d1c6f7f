"""recipe.toml in a model folder: what a run goes on with is what was written.

    # digest 5f3c...      its last line: of all the rest

So text and digest are of one moment, whenever a run is killed. It finds damage, not forgery: without the line
(older folders, or whoever takes it out) the file is taken as it is. A copy that lies elsewhere is an ordinary
recipe, in which the line is a comment.
"""

import re
from pathlib import Path

from regard.disk import write_text
from regard.tasks.base.folder import NEXT, RECIPE
from regard.tasks.base.guards import damaged, own_file, read_own_text
from regard.train.digests import of_text

_LINE = re.compile(r"# digest ([0-9a-f]{64})\n?")


def write_own_recipe(path: Path, text: str) -> None:
    write_text(path, f"{text}# digest {of_text(text)}\n")


def own_recipe(folder: Path, name: str = RECIPE) -> Path:
    """The path of a folder's recipe. If there is one, it is an ordinary file, and what was written."""
    path = own_file(folder, name)
    if path.exists():
        has_digest(folder, name)
    return path


def has_digest(folder: Path, name: str = RECIPE) -> bool:
    """Whether the recipe says what it was; a FolderError if it is not that."""
    text = read_own_text(folder, name)
    found = _LINE.search(text)
    if found is not None and found[1] != of_text(text[: found.start()] + text[found.end() :]):
        raise damaged(folder / name)
    return found is not None


def own_text(folder: Path, name: str = RECIPE) -> str:
    """What it says, whether it is what was written or not; without the digest."""
    return _LINE.sub("", read_own_text(folder, name))


def accept_recipes(folder: Path) -> None:
    """Give those that are there the digest of what they are now."""
    for name in (RECIPE, NEXT):
        if own_file(folder, name).exists():
            write_own_recipe(folder / name, own_text(folder, name))
