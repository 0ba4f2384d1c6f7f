"""Pretraining as a task."""

from regard.tasks.base.plain_doctor import doctor
from regard.tasks.base.task import Task, later
from regard.tasks.pretraining import cli
from regard.tasks.pretraining.recipe import RECIPE

TASK = Task(
    name="pretrain",
    command="fill",
    noun="masked language model",
    recipe=RECIPE,
    prepare=later("regard.tasks.pretraining.train:prepare"),
    predictor=later("regard.tasks.pretraining.filler:Filler"),
    open=later("regard.tasks.pretraining.filler:open_filler"),
    heads=("masked",),
    doctor=doctor,
    exports=frozenset({"hf", "onnx"}),
    views=("fill", "context"),
    commands=cli.COMMANDS,
)
