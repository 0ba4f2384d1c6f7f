"""Translation as a task."""

from regard.tasks.base.bulk import BulkSpec
from regard.tasks.base.task import Task, later
from regard.tasks.translation import cli
from regard.tasks.translation.check import check_recipe, doctor
from regard.tasks.translation.recipe import RECIPE

TASK = Task(
    name="translate",
    command="translate",
    noun="translator",
    recipe=RECIPE,
    prepare=later("regard.tasks.translation.train:prepare"),
    predictor=later("regard.tasks.translation.translator:Translator"),
    open=later("regard.tasks.translation.opening:open_translator"),
    evaluate=later("regard.tasks.translation.commands:evaluate"),
    examples=later("regard.tasks.translation.commands:examples"),
    check=check_recipe,
    ahead=later("regard.tasks.translation.data:ahead"),
    doctor=doctor,
    exports=frozenset({"ctranslate2", "hf", "onnx"}),
    views=("translate",),
    bulk=BulkSpec(
        open=later("regard.tasks.translation.bulk:TranslateBulk"),
        writes=("text", "jsonl", "parquet"),
        columns=("scores", "flags"),
    ),
    commands=cli.COMMANDS,
)
