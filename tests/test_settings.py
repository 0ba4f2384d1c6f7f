"""Every setting reaches its part: changed, it is seen to change a model, a run, or what is said about it.

What there is to set is found in the source: a new setting without a case in tests/settings/cases.py fails
here by its name.
"""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from regard.look.claims import ClaimsConfig
from regard.models.headed import HeadedConfig
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.training import MaskingConfig
from regard.tasks.registry import FOLDERS, all_tasks, as_recipe
from regard.text import Table
from tests.settings.cases import CASES, MODELS, TABLES, Case, Inside, Started
from tests.settings.corpora import recipes
from tests.settings.finding import configurations, named, put, settings
from tests.settings.seeing import SMALL, SeenModel, SeenRun, SeenSmall

pytestmark = pytest.mark.usefixtures("unchecked")

ROOTS: dict[str, type] = {
    **{task.name: task.recipe.recipe for task in all_tasks()},
    "encoder": EncoderConfig,
    "decoder": DecoderConfig,
    "seq2seq": Seq2SeqConfig,
    "headed": HeadedConfig,
    "masking": MaskingConfig,
    "claims": ClaimsConfig,
    "table": Table,
}

NO_SETTINGS = {
    "regard.bench.results.Report": "what a benchmark found",
    "regard.bench.results.Row": "what a benchmark found",
    "regard.corpus.reading.Asked": "options of regard corpus; tests/corpus",
    "regard.corpus.running.CorpusSettings": "options of regard corpus; tests/corpus",
    "regard.corpus.work.Job": "what a worker is told",
    "regard.decode.continuous.Prompt": "what one text asks for",
    "regard.documents.base.Result": "a segment's translation",
    "regard.documents.base.Segment": "what is translated at once",
    "regard.documents.registry.FormatSpec": "a part that is registered",
    **{
        f"regard.documents.{name}Settings": "of one format of documents: tests/documents hold them"
        for name in (
            *("html.Html", "markdown.Markdown", "opendocument.OpenDocument", "word.Word", "po.Po"),
            *("strings.Arb", "strings.Json", "subtitles.Subtitle", "values.Strings"),
        )
    },
    "regard.text.conventions.Conventions": "what a folder says of its texts; tests/hub/test_llama.py",
    "regard.memory.files.ImportSettings": "options of regard memory import; tests/memory",
    "regard.memory.glossary.GlossarySettings": "how a glossary's file is read; tests/memory",
    "regard.hub.generation.Search": "what a folder says of its search",
    "regard.tasks.translation.confidence.Calibration": "what a model has learned of its confidence",
    "regard.tasks.translation.document_files.DocumentOptions": "options of a command; tests/documents",
    "regard.text.flags.FlagSettings": "bounds of flags; tests/text/test_flags.py",
    "regard.hub.names.Family": "the names that a family of Hugging Face's has, one table for each",
    **{
        f"regard.hub.family.{kind}Family": "what a family of Hugging Face's says of itself"
        for kind in ("Encoder", "Decoder", "Translator")
    },
    "regard.hub.vocabularies.Vocabulary": "what a family says of its tokenizer",
    "regard.hub.folder.Checkpoint": "what a folder holds",
    "regard.hub.folder.DecoderCheckpoint": "what a folder holds",
    "regard.hub.translators.TranslatorCheckpoint": "what a folder holds",
    "regard.hub.sentences.Sentences": "what a folder of sentence-transformers says",
    "regard.lab.grid.Named": "settings of a study that go together; tests/lab hold it",
    "regard.lab.grid.Part": "a part of a study; tests/lab hold it",
    "regard.lab.grid.Study": "what is compared; tests/lab hold it",
    "regard.look.claims.Claims": "what was measured",
    "regard.deploy.folder.Facts": "what an exported folder says; tests/tasks/test_ctranslate2.py",
    "regard.tasks.base.files.TextFilesConfig": "a part of each task's data, which has the cases",
    "regard.tasks.base.pairs.PairsConfig": "a part of the data of translators, which has the cases",
    "regard.text.doctor.samples.Kind": "what the records of a task are",
    "regard.machine.results.Result": "what the self-test found",
    "regard.models.heads.HeadSpec": "a part that is registered",
    "regard.serve.limits.Limits": "options of regard serve; tests/serve/test_robust.py",
    "regard.serve.endpoint.Endpoint": "what is said of a route",
    "regard.settings.shape.Shape": "the words that the shapes of all tasks share, which have the cases",
    "regard.nn.attention.Score": "a part that is registered",
    "regard.nn.positions.Positions": "a part that is registered",
    "regard.meaning.mining.MiningConfig": "options of regard mine-negatives; tests/meaning",
    "regard.tasks.base.bulk.BulkSpec": "a part that a task has",
    "regard.train.scaling.Cluster": "GPUs that are planned for; tests/train/test_scaling.py",
    "regard.train.scaling.Memory": "what is planned",
    "regard.train.scaling.Scaled": "what is planned",
    "regard.tasks.base.job.Job": "what a task hands to the trainer: made of settings, none itself",
    "regard.tasks.base.measures.Metric": "a part that is registered",
    "regard.tasks.base.task.EvaluateOptions": "options of a command; tests/tasks hold them",
    "regard.tasks.base.formats.FileOptions": "how files are read; tests/tasks/test_table_files.py",
    "regard.tasks.base.task.Task": "a part that is registered",
    "regard.tasks.translation.fuzzy.Fuzzy": "what a model remembers of data.fuzzy",
    "regard.tasks.translation.inline.Inline": "what a model remembers of data.terms",
    "regard.tasks.language.drafts.GenerateOptions": "one call of a generator, as it was asked for",
    "regard.text.scanning.Syntax": "how HTML and XML are read",
    "regard.text.encoding.Encoding": "what a tokenizer made of a text",
    "regard.tasks.base.recipe.Recipe": "what the recipes of all tasks inherit",
    "regard.text.specials.SpecialIds": "what a tokenizer made of its special tokens",
}
"""Frozen, keyword-only dataclasses that nobody sets, and what they are."""

EXCEPTIONS = {
    **{
        f"TrainConfig.{name}": "where weights lie; losses stay: tests/train/test_sharded.py"
        for name in ("fsdp", "cpu_offload", "activation_checkpointing")
    },
    "TrainConfig.workers": "threads for a GPU, and what they make is the same: tests/train/test_on_cuda.py",
    **dict.fromkeys(
        ("EmbedConfig.prompts", "EmbedConfig.default_prompt"),
        "what an embedder sets before texts, not the model: tests/hub/test_sentences.py",
    ),
    **dict.fromkeys(
        ("EmbedConfig.dimensions", "EmbedConfig.similarity"),
        "what is made of an embedder's vectors, not the model: tests/hub/test_sentence_facts.py",
    ),
    "PromptConfig.name": "a part of EmbedConfig.prompts",
    "PromptConfig.text": "a part of EmbedConfig.prompts",
    "TagConfig.words": "a note that the tagger reads, not the model: see head.words, in valid",
}
"""Settings without a case, and why."""


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here has to outlive a power cut, and there are thousands of files."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> "World":
    return World(tmp_path_factory.mktemp("settings"))


class World:
    """The data of each root, and what was seen of it so far: nothing is run twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data: dict[str, Any] = recipes(folder / "text")
        body = {"layers": 2, "attention": {"heads": 2}, "feed_forward": {"d_ff": 32}}
        side = {"vocabulary": 8, "d_model": 16, "body": body}
        self.data |= {
            "encoder": side,
            "decoder": side,
            "seq2seq": {"encoder": side, "decoder": side},
            "headed": {"encoder": side, "head": {"kind": "classify"}},
            "masking": {},
            "claims": {
                "lengths": [2],
                "d_model": 8,
                "timed_lengths": [2],
                "timed_tokens": 4,
                "timed_width": 8,
                "timed_layers": 1,
                "repeats": 1,
                "distances": [2],
                "symbols": 3,
                "train_steps": 2,
                "batch": 2,
                "seeds": 1,
            },
            "table": {"path": str(folder / "text" / "labelled" / "train.tsv"), "column": 1},
        }
        self._seen: dict[str, Any] = {}
        self._runs = 0

    def plain(self, root: str, *changes: Mapping[str, Any]) -> dict[str, Any]:
        data = self.data[root]
        for change in changes:
            for path, value in change.items():
                data = put(data, path, self._told(root, value))
        return data

    def seen(self, root: str, data: Mapping[str, Any], *, anew: bool = False) -> Any:
        key = f"{root} {data!r}"
        if anew or key not in self._seen:
            self._runs += 1
            self._seen[key] = (
                SeenSmall(root, data)
                if root in SMALL
                else SeenModel(root, data)
                if root in MODELS
                else SeenRun(data, self.folder / f"run{self._runs}")
            )
        return self._seen[key]

    def _told(self, root: str, value: Any) -> Any:
        match value:
            case Started():
                started = self.seen(value.root, self.data[value.root])
                started.see("weights")
                return str(started.folder)
            case Inside() if root == "table":
                return str(Path(self.data[root]["path"]).parent / value.name)
            case Inside():
                return str(Path(self.data[root]["data"]["root"]) / value.name)
            case dict():
                return {key: self._told(root, each) for key, each in value.items()}
            case _:
                return value


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_setting_is_seen_where_it_belongs(world: World, case: Case) -> None:
    before = world.plain(case.root, case.base)
    after = world.plain(case.root, case.base, {case.path: case.value})
    assert before != after, "the case changes nothing"
    one, other = (world.seen(case.root, data).see(case.seen) for data in (before, after))
    assert one != other, f"{case.path}={case.value!r} changes nothing"


@pytest.mark.parametrize("root", TABLES)
def test_what_is_seen_is_the_same_where_nothing_is_changed(world: World, root: str) -> None:
    """Else a difference would say nothing."""
    one, other = (world.seen(root, world.plain(root), anew=anew) for anew in (False, True))
    for name in sorted({case.seen for case in CASES if case.root == root}):
        assert one.see(name) == other.see(name), name


def test_every_setting_has_a_case_or_a_reason(world: World) -> None:
    covered = set()
    for case in CASES:
        config, name = named(ROOTS[case.root], world.plain(case.root, case.base), case.path)
        covered.add(f"{config.__name__}.{name}")
    known = configurations()
    assert NO_SETTINGS.keys() <= known.keys(), "gone"
    there = {
        f"{config.__name__}.{name}"
        for path, config in known.items()
        if path not in NO_SETTINGS
        for name in settings(config)
    }
    missing = sorted(there - covered - EXCEPTIONS.keys())
    assert missing == [], f"settings that no case changes: {missing}"
    assert sorted(EXCEPTIONS.keys() - there) == [], "exceptions for what is gone"
    assert sorted(EXCEPTIONS.keys() & covered) == [], "exceptions for what has a case"


@pytest.mark.parametrize("task", FOLDERS)
def test_every_table_of_a_task_has_a_case_of_its_own(task: str) -> None:
    tables = {case.path.partition(".")[0] for case in CASES if case.root == task}
    assert {spec.name for spec in fields(ROOTS[task])} - {"task"} <= tables


@pytest.mark.parametrize("task", FOLDERS)
def test_the_papers_learning_rate_is_its_formula_in_every_task(world: World, task: str) -> None:
    """The peaks that suit the other schedules would make it next to nothing."""
    plain = world.plain(task, {"optimizer": {"schedule": "paper"}})
    completed = as_recipe(plain).completed(1000, 10_000, cuda=False)
    assert completed.optimizer.learning_rate == 1
    assert completed.optimizer.final == 0
