"""Corpora: very many texts through a model, shard by shard; on this machine, or by Ray on many."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.corpus.running import CorpusSettings as CorpusSettings
    from regard.corpus.running import run as run
    from regard.corpus.worker import Worker as Worker

_HOMES = {"CorpusSettings": "running", "Worker": "worker", "run": "running"}

__all__ = ["CorpusSettings", "Worker", "run"]


if not TYPE_CHECKING:  # to whom every name would exist

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"regard.corpus.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'regard.corpus' has no attribute {name!r}")
