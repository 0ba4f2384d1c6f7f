"""Whole trainings of language models, from a recipe to a folder and back."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import regard
from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.deploy.exchange import export_model, import_model
from regard.hub import DecoderCheckpoint, write_folder
from regard.models.decoder import Decoder
from regard.settings.shape import LanguageShape
from regard.tasks import run
from regard.tasks.base.folder import FolderError
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.language import evaluate as measuring
from regard.tasks.language.start import built, open_language
from regard.tasks.registry import as_recipe, task_of
from regard.text import DataError, Tokenizer, TokenizerConfig
from regard.train.trainer import Outcome

pytestmark = pytest.mark.usefixtures("unchecked")

RHYME = "one two three four\nfive six seven eight\n\nnine ten eleven twelve\n\n"
TINY: dict[str, Any] = {"preset": "tiny", "d_model": 32, "heads": 2, "layers": 2, "d_ff": 64, "dropout": 0.0}


def evaluate(folder: Path, files: list[Path], *, console: Console, **settings: Any) -> dict[str, Any]:
    return measuring.evaluate(folder, EvaluateOptions(text=files, **settings), console)


def recipe(folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rhyme.txt").write_text(RHYME * 60, encoding="utf-8")
    plain: dict[str, Any] = {
        "task": "language",
        "data": {"train": "rhyme.txt", "root": str(folder)},
        "tokenizer": {"kind": "characters"},
        "model": TINY,
        "context": {"tokens": 32},
        "batch": {"tokens": 256},
        "optimizer": {"learning_rate": 1e-2, "warmup": 10},
        "train": {"steps": 20, "validate_every": 10, "log_every": 5},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def train(plain: Any, out: Path, **settings: Any) -> tuple[Outcome, str]:
    said = io.StringIO()
    outcome = run.fit(plain, out=out, device="cpu", console=Console(file=said, width=200), **settings)
    return outcome, said.getvalue()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    (folder / "valid.txt").write_text(RHYME * 5 + "two three\n")
    plain = recipe(folder, data={"valid": "valid.txt"}, train={"steps": 150, "validate_every": 150})
    train(plain, folder / "out")
    return folder / "out"


@pytest.mark.spec("3.7")
def test_a_model_learns_a_rhyme_and_says_how_well(trained: Path) -> None:
    figures = json.loads((trained / "metrics.json").read_text())["valid"]
    assert figures["loss"] < 0.6  # chance is 3.3; the end of the text comes once, and unexpected
    assert figures.keys() == {"loss", "perplexity", "bits_per_byte", "word_perplexity"}
    assert task_of(trained).name == "language"
    checkpoint = open_language(trained)
    assert checkpoint.longest == 32
    model = built(checkpoint, trained)
    assert model.config.vocabulary == len(checkpoint.tokenizer)


def test_what_validation_says_is_what_evaluate_says(trained: Path) -> None:
    said, text = io.StringIO(), trained.parent / "valid.txt"
    found = evaluate(trained, [text], stride=32, console=Console(file=said), device="cpu")
    figures = json.loads((trained / "metrics.json").read_text())["valid"]
    assert {name: found[name] for name in figures} == pytest.approx(figures, rel=1e-5)
    assert "bits per byte" in said.getvalue()
    finer = evaluate(trained, [text], stride=4, console=Console(file=said), device="cpu")
    assert finer["tokens"] == found["tokens"]
    assert finer["loss"] < found["loss"]  # every token has more before it


def test_evaluate_refuses_what_makes_no_sense(trained: Path) -> None:
    text, quiet = trained.parent / "rhyme.txt", Console(file=io.StringIO())
    with pytest.raises(ValueError, match="stride=33 must be"):
        evaluate(trained, [text], stride=33, console=quiet)
    with pytest.raises(ValueError, match="learned positions reach 32"):
        evaluate(trained, [text], context=64, console=quiet)
    (trained.parent / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="no text to measure on"):
        evaluate(trained, [trained.parent / "empty.txt"], console=quiet)


def test_a_longer_context_can_be_measured_with_rotary_positions_scaled(tmp_path: Path) -> None:
    train(
        recipe(tmp_path, model={"make": "modern"}, train={"steps": 60, "validate_every": 60}),
        tmp_path / "out",
    )

    def loss(**settings: Any) -> float:
        quiet = Console(file=io.StringIO())
        return evaluate(tmp_path / "out", [tmp_path / "rhyme.txt"], device="cpu", console=quiet, **settings)[
            "loss"
        ]

    losses = [loss(context=96, scaling=scaling) for scaling in ("none", "linear", "ntk", "yarn")]
    assert len({round(each, 6) for each in losses}) == 4
    with pytest.raises(ValueError, match="longer than the trained one, 32"):
        loss(context=32, scaling="yarn")


def test_the_same_recipe_gives_the_same_weights_to_the_bit(tmp_path: Path) -> None:
    plain = recipe(tmp_path, model={"dropout": 0.1})
    for name in ("one", "other"):
        train(plain, tmp_path / name)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "other"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("make", ["gpt2", "modern"])
@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_every_make_trains(tmp_path: Path, make: str, across: bool, kind: str) -> None:
    outcome, said = train(
        recipe(tmp_path, model={"make": make}, context={"across": across}, optimizer={"kind": kind}),
        tmp_path / "out",
    )
    assert outcome.best["loss"] < 3
    assert "the ends of 1 document" in said
    written = (tmp_path / "out" / "recipe.toml").read_text()
    assert f'make = "{make}"' in written


def test_a_folder_of_texts_is_read_file_by_file(tmp_path: Path) -> None:
    texts = tmp_path / "texts" / "more"
    texts.mkdir(parents=True)
    (texts / "b.txt").write_text(RHYME * 20)
    (tmp_path / "texts" / "a.txt").write_text(RHYME * 20)
    (tmp_path / "texts" / ".hidden").write_bytes(b"\xff")
    _, said = train(recipe(tmp_path, data={"train": "texts"}, train={"steps": 2}), tmp_path / "out")
    assert "in 2 documents to learn from" in said
    files = json.loads((tmp_path / "out" / "data.json").read_text())["files"]
    assert [Path(name).name for name in files] == ["a.txt", "b.txt"]


def test_rows_of_a_table_are_documents(tmp_path: Path) -> None:
    tmp_path.mkdir(exist_ok=True)
    rows = "".join(json.dumps({"text": f"line {number}\nand more {number}"}) + "\n" for number in range(30))
    (tmp_path / "rows.jsonl").write_text(rows)
    _, said = train(
        recipe(tmp_path, data={"train": "rows.jsonl", "hold_out": 3}, train={"steps": 2}), tmp_path / "out"
    )
    assert "in 27 documents to learn from" in said


def test_a_model_goes_on_from_another_with_its_tokenizer(trained: Path, tmp_path: Path) -> None:
    plain = recipe(tmp_path, train={"steps": 1})
    del plain["tokenizer"]
    plain["model"] = {"start": str(trained)}
    outcome, _ = train(plain, tmp_path / "out")
    assert outcome.best["loss"] < 0.4
    assert (tmp_path / "out" / "tokenizer.json").read_text() == (trained / "tokenizer.json").read_text()


def test_a_model_goes_on_from_a_folder_of_gpt2(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([RHYME], TokenizerConfig(kind="byte-bpe", vocabulary=300))
    config = LanguageShape(**TINY).build(len(tokenizer), 32)
    weights = dict(Decoder(config).named_parameters())
    checkpoint = DecoderCheckpoint(config=config, weights=weights, tokenizer=tokenizer, longest=32)
    write_folder(checkpoint, tmp_path / "gpt2")
    plain = recipe(tmp_path, train={"steps": 2})
    del plain["tokenizer"]
    plain["model"] = {"start": str(tmp_path / "gpt2")}
    outcome, _ = train(plain, tmp_path / "out")
    assert outcome.step == 2
    with pytest.raises(ValueError, match=r"context\.tokens=64, but the positions"):
        train({**plain, "context": {"tokens": 64}}, tmp_path / "longer")


def test_mistakes_are_told_before_anything_is_read() -> None:
    data = {"train": "x.txt"}
    for tables, message in (
        ({"data": {**data, "longest": 64}}, r"context\.tokens"),
        ({"data": data, "valid": {"stride": 300}, "context": {"tokens": 64}}, "would pass over text"),
        ({"data": data, "optimizer": {"layer_decay": 0.5}}, "layer_decay is for encoders"),
        ({"data": data, "model": {"start": "a", "layers": 3}}, "beside start"),
        ({"data": data, "model": {"start": "a"}, "tokenizer": {"kind": "words"}}, "tokenizer.kind is set"),
        ({"data": data, "context": {"tokens": 1}}, "leaves nothing to predict"),
        ({"data": data, "model": {"make": "llama"}}, "make"),
    ):
        with pytest.raises(ConfigError, match=message):
            as_recipe({"task": "language", **tables})


def test_an_encoder_is_no_language_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "task": "classify"}))
    with pytest.raises(FolderError, match="not a language model"):
        open_language(tmp_path)
    with pytest.raises(FolderError, match="no such folder"):
        open_language(tmp_path / "nothing")


def test_a_missing_weight_is_told(trained: Path) -> None:
    checkpoint = open_language(trained)
    name = next(iter(checkpoint.weights))
    less = {key: value for key, value in checkpoint.weights.items() if key != name}
    with pytest.raises(FolderError, match="are missing"):
        built(replace(checkpoint, weights=less), trained)


def test_a_model_goes_out_to_transformers_and_comes_back(trained: Path, tmp_path: Path) -> None:
    said = io.StringIO()
    export_model(trained, tmp_path / "hf", console=Console(file=said, width=200))
    import_model(tmp_path / "hf", tmp_path / "back", console=Console(file=said, width=200))
    assert "for regard generate" in said.getvalue()
    one, other = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "back"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert open_language(tmp_path / "back").longest == 32


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "linear", "cosine"])
def test_any_schedule_can_be_chosen_alone(schedule):
    """What suits a cosine is not set for one that has no end."""
    plain = {"task": "language", "data": {"train": "a"}, "optimizer": {"schedule": schedule}}
    recipe = as_recipe(plain).completed(10, 10_000, cuda=False)
    assert recipe.optimizer.schedule == schedule
    assert recipe.optimizer.final == (0.1 if schedule in ("linear", "cosine") else 0.0)


@pytest.mark.spec("4.4")
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_recurrent_model_learns_is_measured_and_writes(tmp_path, cell):
    model = {"preset": "recurrent", "cell": cell, "d_model": 48, "layers": 1, "dropout": 0.0}
    plain = recipe(tmp_path, train={"steps": 120, "validate_every": 60})
    train({**plain, "model": model}, tmp_path / "model")
    generator = regard.load(tmp_path / "model", regard.Generator, device="cpu")
    assert generator.model.config.body.cell == cell
    [written] = generator.generate("one two three f", decoding=DecodeConfig(method="greedy"), max_tokens=8)
    assert written.text.startswith("our\nfive")
    found = evaluate(tmp_path / "model", [tmp_path / "rhyme.txt"], console=Console(file=io.StringIO()))
    assert found["perplexity"] < 2
    said = "".join(generator.stream("one two three f", decoding=DecodeConfig(method="greedy"), max_tokens=8))
    assert said == written.text


@pytest.mark.spec("4.4")
def test_a_recurrent_model_begins_from_another_and_refuses_what_it_has_not(tmp_path):
    model = {"preset": "recurrent", "d_model": 16, "layers": 1}
    plain = recipe(tmp_path, train={"steps": 4, "validate_every": 4})
    train({**plain, "model": model}, tmp_path / "one")
    again = {**plain, "model": {"start": str(tmp_path / "one"), "dropout": 0.1}}
    del again["tokenizer"]
    train(again, tmp_path / "two")
    assert open_language(tmp_path / "two").config.body.kind == "recurrent"
    for wrong, reason in (
        ({"heads": 2}, "heads=2 is for a Transformer"),
        ({"make": "modern"}, "make='modern' is of a Transformer"),
        ({"positions": "rotary"}, "acts inside attention"),
        ({"window": 3}, "window=3 is for a Transformer"),
    ):
        with pytest.raises(ConfigError, match=reason):
            as_recipe({**plain, "model": {**model, **wrong}})
    with pytest.raises(ConfigError, match="cell='gru' is for a recurrent model"):
        as_recipe({**plain, "model": {**TINY, "cell": "gru"}})
    console = Console(file=io.StringIO())
    for to, reason in (("hf", "recurrent"), ("onnx", "recurrent")):
        with pytest.raises(ValueError, match=reason):
            export_model(tmp_path / "one", tmp_path / to, to=to, console=console)
    with pytest.raises(ValueError, match="window=3 is for a Transformer, but start"):
        train({**again, "model": {"start": str(tmp_path / "one"), "window": 3}}, tmp_path / "three")
