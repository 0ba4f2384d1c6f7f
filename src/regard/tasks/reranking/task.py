"""Reranking as a task."""

from regard.tasks.base.task import Task, later
from regard.tasks.reranking import cli
from regard.tasks.reranking.check import doctor, files
from regard.tasks.reranking.recipe import RECIPE

TASK = Task(
    name="rerank",
    command="rerank",
    noun="reranker",
    recipe=RECIPE,
    prepare=later("regard.tasks.reranking.train:prepare"),
    predictor=later("regard.tasks.reranking.reranker:Reranker"),
    open=later("regard.tasks.reranking.reranker:open_reranker"),
    heads=("rank", "classify"),
    evaluate=later("regard.tasks.reranking.commands:evaluate"),
    examples=later("regard.tasks.reranking.commands:examples"),
    doctor=doctor,
    files=files,
    exports=frozenset({"hf", "onnx"}),
    commands=cli.COMMANDS,
)
