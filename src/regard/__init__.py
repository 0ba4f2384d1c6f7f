"""regard: the Transformer, whole."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("regard")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+source"

__all__ = ["__version__"]
