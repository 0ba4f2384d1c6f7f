"""regard: the Transformer, whole.

regard.fit({"data": {"train": ["train.en", "train.de"]}}, out="runs/a")
regard.load("runs/a").translate(["A dog runs."])
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("regard")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+source"

_HOMES = {
    "fit": ("regard.tasks.run", "train"),
    "load": ("regard.tasks.load", "load"),
    "trace": ("regard.look.trace", "trace"),
}

__all__ = ["__version__", "fit", "load", "trace"]


def __getattr__(name: str) -> Any:
    """Importing regard does not import torch; using it does."""
    if name in _HOMES:
        module, own = _HOMES[name]
        return getattr(import_module(module), own)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
