"""The languages of a translator, by their codes."""

import re
from pathlib import Path
from typing import Any

from regard.config import read_table
from regard.hub.files import read_text
from regard.tasks.base.guards import folder_errors, own_file

CODE = r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?"
"""What the code of a language looks like, in names of files and models."""


def pair_of(folder: Path) -> tuple[str | None, str | None]:
    """As the recipe's files end: train.en.gz and train.de.gz; or as the columns of its table are called."""
    recipe = own_file(folder, "recipe.toml")
    if not recipe.is_file():
        return None, None
    with folder_errors(recipe):
        read_text(recipe)  # of a size that can be
    files = read_table(recipe).get("data", {}).get("train", [])
    first = files[0] if files else {}
    if not isinstance(first, dict):
        return None, None
    return _language(first.get("source")), _language(first.get("target"))


def _language(name: Any) -> str | None:
    ends = str(name).removesuffix(".gz").rpartition(".")[2]
    return ends if re.fullmatch(CODE, ends) and ends not in ("txt", "tsv", "csv") else None
