"""Classification as a task."""

from regard.tasks.base.bulk import BulkSpec
from regard.tasks.base.task import Task, later
from regard.tasks.classification import cli
from regard.tasks.classification.check import doctor, files
from regard.tasks.classification.recipe import RECIPE

TASK = Task(
    name="classify",
    command="classify",
    noun="classifier",
    recipe=RECIPE,
    prepare=later("regard.tasks.classification.train:prepare"),
    predictor=later("regard.tasks.classification.classifier:Classifier"),
    open=later("regard.tasks.classification.classifier:open_classifier"),
    heads=("classify",),
    evaluate=later("regard.tasks.classification.commands:evaluate"),
    examples=later("regard.tasks.classification.commands:examples"),
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("label", "context"),
    bulk=BulkSpec(
        open=later("regard.tasks.classification.bulk:ClassifyBulk"), writes=("jsonl", "parquet", "text")
    ),
    commands=cli.COMMANDS,
)
