"""Tagging as a task."""

from regard.tasks.base.bulk import BulkSpec
from regard.tasks.base.task import Task, later
from regard.tasks.tagging import cli
from regard.tasks.tagging.check import doctor, files
from regard.tasks.tagging.recipe import RECIPE

TASK = Task(
    name="tag",
    command="tag",
    noun="tagger",
    recipe=RECIPE,
    prepare=later("regard.tasks.tagging.train:prepare"),
    predictor=later("regard.tasks.tagging.tagger:Tagger"),
    open=later("regard.tasks.tagging.tagger:open_tagger"),
    heads=("tag",),
    evaluate=later("regard.tasks.tagging.commands:evaluate"),
    examples=later("regard.tasks.tagging.commands:examples"),
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("tags", "context"),
    bulk=BulkSpec(
        open=later("regard.tasks.tagging.bulk:TagBulk"),
        reads=(("text", "sentence", "words", "tokens"),),
        words=True,
    ),
    commands=cli.COMMANDS,
)
