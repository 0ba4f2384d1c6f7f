"""Answering as a task."""

from regard.tasks.answering import cli
from regard.tasks.answering.answerer import Answerer, open_answerer
from regard.tasks.answering.check import doctor, files
from regard.tasks.answering.commands import evaluate, examples
from regard.tasks.answering.recipe import RECIPE
from regard.tasks.answering.train import prepare
from regard.tasks.base.task import Task

TASK = Task(
    name="answer",
    command="answer",
    noun="answerer",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Answerer,
    open=open_answerer,
    heads=("span",),
    evaluate=evaluate,
    examples=examples,
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("answer", "context"),
    commands=cli.COMMANDS,
)
