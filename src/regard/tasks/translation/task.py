"""Translation as a task."""

from regard.tasks.base.task import Task
from regard.tasks.translation import cli
from regard.tasks.translation.check import check_recipe, doctor
from regard.tasks.translation.commands import evaluate, examples
from regard.tasks.translation.recipe import RECIPE
from regard.tasks.translation.train import prepare
from regard.tasks.translation.translator import Translator, open_translator

TASK = Task(
    name="translate",
    command="translate",
    noun="translator",
    recipe=RECIPE,
    prepare=prepare,
    predictor=Translator,
    open=open_translator,
    evaluate=evaluate,
    examples=examples,
    check=check_recipe,
    doctor=doctor,
    exports=frozenset({"ctranslate2", "onnx"}),
    views=("translate",),
    commands=cli.COMMANDS,
)
