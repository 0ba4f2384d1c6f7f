"""Pretraining as a task."""

from regard.tasks.base.plain_doctor import doctor
from regard.tasks.base.task import Task
from regard.tasks.pretraining import cli
from regard.tasks.pretraining.filler import Filler, open_filler
from regard.tasks.pretraining.recipe import RECIPE
from regard.tasks.pretraining.train import prepare

TASK = Task(
    name="pretrain",
    command="fill",
    noun="masked language model",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Filler,
    open=open_filler,
    heads=("masked",),
    doctor=doctor,
    exports=frozenset({"hf", "onnx"}),
    views=("fill", "context"),
    commands=cli.COMMANDS,
)
