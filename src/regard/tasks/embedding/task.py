"""Embedding as a task."""

from regard.tasks.base.task import Task
from regard.tasks.embedding import cli
from regard.tasks.embedding.check import doctor
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.tasks.embedding.recipe import RECIPE
from regard.tasks.embedding.train import prepare

TASK = Task(
    name="embed",
    command="embed",
    noun="embedder",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Embedder,
    open=open_embedder,
    heads=("embed",),
    doctor=doctor,
    exports=frozenset({"hf", "onnx"}),
    views=("context",),
    commands=cli.COMMANDS,
)
