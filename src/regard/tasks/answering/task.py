"""Answering as a task."""

from regard.tasks.answering import cli
from regard.tasks.answering.check import doctor, files
from regard.tasks.answering.recipe import RECIPE
from regard.tasks.base.bulk import BulkSpec
from regard.tasks.base.task import Task, later

TASK = Task(
    name="answer",
    command="answer",
    noun="answerer",
    recipe=RECIPE,
    prepare=later("regard.tasks.answering.train:prepare"),
    predictor=later("regard.tasks.answering.answerer:Answerer"),
    open=later("regard.tasks.answering.answerer:open_answerer"),
    heads=("span",),
    evaluate=later("regard.tasks.answering.commands:evaluate"),
    examples=later("regard.tasks.answering.commands:examples"),
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("answer", "context"),
    bulk=BulkSpec(
        open=later("regard.tasks.answering.bulk:AnswerBulk"), reads=(("question",), ("context",)), both=True
    ),
    commands=cli.COMMANDS,
)
