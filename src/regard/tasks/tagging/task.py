"""Tagging as a task."""

from regard.tasks.base.task import Task
from regard.tasks.tagging import cli
from regard.tasks.tagging.check import doctor, files
from regard.tasks.tagging.commands import evaluate, examples
from regard.tasks.tagging.recipe import RECIPE
from regard.tasks.tagging.tagger import Tagger, open_tagger
from regard.tasks.tagging.train import prepare

TASK = Task(
    name="tag",
    command="tag",
    noun="tagger",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Tagger,
    open=open_tagger,
    heads=("tag",),
    evaluate=evaluate,
    examples=examples,
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("tags", "context"),
    commands=cli.COMMANDS,
)
