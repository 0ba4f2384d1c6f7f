"""Language modelling as a task."""

from regard.tasks.base.plain_doctor import doctor, files
from regard.tasks.base.task import Task
from regard.tasks.language import cli
from regard.tasks.language.evaluate import evaluate
from regard.tasks.language.generator import Generator, open_generator
from regard.tasks.language.recipe import RECIPE
from regard.tasks.language.train import prepare

TASK = Task(
    name="language",
    command="generate",
    noun="language model",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Generator,
    open=open_generator,
    evaluate=evaluate,
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("continue",),
    commands=cli.COMMANDS,
)
