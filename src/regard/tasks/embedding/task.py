"""Embedding as a task."""

from regard.tasks.base.bulk import BulkSpec
from regard.tasks.base.task import Task, later
from regard.tasks.embedding import cli
from regard.tasks.embedding.check import doctor
from regard.tasks.embedding.recipe import RECIPE

TASK = Task(
    name="embed",
    command="embed",
    noun="embedder",
    recipe=RECIPE,
    prepare=later("regard.tasks.embedding.train:prepare"),
    predictor=later("regard.tasks.embedding.embedder:Embedder"),
    open=later("regard.tasks.embedding.embedder:open_embedder"),
    heads=("embed",),
    evaluate=later("regard.meaning.evaluating:evaluate"),
    doctor=doctor,
    exports=frozenset({"hf", "onnx"}),
    views=("context",),
    bulk=BulkSpec(open=later("regard.tasks.embedding.bulk:EmbedBulk"), writes=("npy", "parquet", "jsonl")),
    commands=cli.COMMANDS,
)
