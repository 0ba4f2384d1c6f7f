"""Classification as a task."""

from regard.tasks.base.task import Task
from regard.tasks.classification import cli
from regard.tasks.classification.check import doctor, files
from regard.tasks.classification.classifier import Classifier, open_classifier
from regard.tasks.classification.commands import evaluate, examples
from regard.tasks.classification.recipe import RECIPE
from regard.tasks.classification.train import prepare

TASK = Task(
    name="classify",
    command="classify",
    noun="classifier",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Classifier,
    open=open_classifier,
    heads=("classify",),
    evaluate=evaluate,
    examples=examples,
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("label", "context"),
    commands=cli.COMMANDS,
)
