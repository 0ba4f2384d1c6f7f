"""Language modelling as a task."""

from regard.tasks.base.plain_doctor import doctor, files
from regard.tasks.base.task import Task, later
from regard.tasks.language import cli
from regard.tasks.language.recipe import RECIPE

TASK = Task(
    name="language",
    command="generate",
    noun="language model",
    recipe=RECIPE,
    prepare=later("regard.tasks.language.train:prepare"),
    predictor=later("regard.tasks.language.generator:Generator"),
    open=later("regard.tasks.language.generator:open_generator"),
    evaluate=later("regard.tasks.language.evaluate:evaluate"),
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    views=("continue",),
    commands=cli.COMMANDS,
)
