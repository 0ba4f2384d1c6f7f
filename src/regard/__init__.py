"""regard: the Transformer, whole.

>>> import regard
>>> outcome = regard.fit({"data": {"train": ["train.en", "train.de"]}}, out="runs/mine")
>>> regard.load("runs/phrasebook", regard.Translator).translate("Where is the station?").text
'Wo ist der Bahnhof?'
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "OMP_WAIT_POLICY" not in os.environ:
    # Before torch is imported: how long its threads spin while they wait for one another. As long as OpenMP
    # would have it, a sentence takes many times as long on a machine that is busy.
    _spins = "GOMP_SPINCOUNT" not in os.environ
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
else:
    _spins = False

if TYPE_CHECKING:
    __version__: str
    from regard.decode.config import DecodeConfig as DecodeConfig
    from regard.look.tracing import trace as trace
    from regard.models.heads import HeadSpec as HeadSpec
    from regard.nn.attention import Score as Score
    from regard.nn.positions import Positions as Positions
    from regard.plugins import load_plugin as load_plugin
    from regard.plugins import register as register
    from regard.tasks.answering.answerer import Answerer as Answerer
    from regard.tasks.base.measures import Metric as Metric
    from regard.tasks.base.predictor import Predictor as Predictor
    from regard.tasks.base.predictor import save as save
    from regard.tasks.base.results import to_dicts as to_dicts
    from regard.tasks.base.task import Task as Task
    from regard.tasks.classification.classifier import Classifier as Classifier
    from regard.tasks.embedding.embedder import Embedder as Embedder
    from regard.tasks.language.generator import Generator as Generator
    from regard.tasks.load import load as load
    from regard.tasks.pretraining.filler import Filler as Filler
    from regard.tasks.reranking.reranker import Reranker as Reranker
    from regard.tasks.run import fit as fit
    from regard.tasks.tagging.tagger import Tagger as Tagger
    from regard.tasks.translation.translator import Translator as Translator

_HOMES = {
    "Answerer": "tasks.answering.answerer",
    "Classifier": "tasks.classification.classifier",
    "DecodeConfig": "decode.config",
    "Embedder": "tasks.embedding.embedder",
    "Filler": "tasks.pretraining.filler",
    "Generator": "tasks.language.generator",
    "HeadSpec": "models.heads",
    "Metric": "tasks.base.measures",
    "Positions": "nn.positions",
    "Predictor": "tasks.base.predictor",
    "Reranker": "tasks.reranking.reranker",
    "Score": "nn.attention",
    "Tagger": "tasks.tagging.tagger",
    "Task": "tasks.base.task",
    "Translator": "tasks.translation.translator",
    "fit": "tasks.run",
    "load": "tasks.load",
    "load_plugin": "plugins",
    "register": "plugins",
    "save": "tasks.base.predictor",
    "to_dicts": "tasks.base.results",
    "trace": "look.tracing",
}
"""Importing regard does not import torch; using it does."""

__all__ = [
    "Answerer",
    "Classifier",
    "DecodeConfig",
    "Embedder",
    "Filler",
    "Generator",
    "HeadSpec",
    "Metric",
    "Positions",
    "Predictor",
    "Reranker",
    "Score",
    "Tagger",
    "Task",
    "Translator",
    "__version__",
    "fit",
    "load",
    "load_plugin",
    "register",
    "save",
    "to_dicts",
    "trace",
]


if not TYPE_CHECKING:  # to whom every name would exist

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("regard")
            except PackageNotFoundError:  # run from a checkout that was never installed
                return "0+source"
        if name in _HOMES:
            return getattr(import_module(f"regard.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
