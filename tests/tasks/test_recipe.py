import os
from pathlib import Path
from typing import Any

import pytest

from regard.config import ConfigError
from regard.settings.shape import TranslatorConfig
from regard.tasks.base.pairs import PairFiles
from regard.tasks.base.recipe import recipe_text
from regard.tasks.registry import as_recipe, read_recipe
from regard.tasks.translation.recipe import TranslateRecipe, ValidConfig

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
DATA = {"train": ["train.en", "train.de"]}


def complaint(plain: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        as_recipe({"data": DATA, **plain})
    return str(caught.value)


def completed(pairs: int = 30_000, words: int = 400_000, cuda: bool = False, **plain: Any) -> TranslateRecipe:
    return as_recipe({"data": DATA, **plain}).completed(pairs, words, cuda=cuda)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipes" / "own.toml"
    path.parent.mkdir()
    path.write_text('[data]\ntrain = ["train.en", "train.de"]\nroot = "corpus"\n[model]\nlayers = 3\n')
    return path


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 8


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
@pytest.mark.parametrize("cuda", [False, True])
def test_every_recipe_is_complete_and_comes_back_from_its_own_text(
    path: Path, cuda: bool, tmp_path: Path
) -> None:
    whole = read_recipe(path).completed(30_000, 400_000, cuda=cuda)
    again = tmp_path / "recipe.toml"
    again.write_text(recipe_text(whole), encoding="utf-8")
    written = read_recipe(again)
    assert written.checked == whole
    assert written.completed(7, 7, cuda=not cuda) == whole  # it says everything: nothing is left to suit


def test_the_least_recipe_names_two_files() -> None:
    recipe = completed()
    assert recipe.data.train == (PairFiles(source="train.en", target="train.de"),)
    with pytest.raises(ConfigError, match=r"missing table \[data\]"):
        as_recipe({})
    with pytest.raises(ConfigError, match="missing key"):
        as_recipe({"data": {}})


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"model": {"layrs": 4}}, ["unknown key 'model.layrs'", "did you mean 'layers'"]),
        ({"modle": {}}, ["unknown key 'modle'", "did you mean 'model'"]),
        ({"model": {"label_smoothing": 0.1}}, ["'model.label_smoothing'", "'loss.label_smoothing'"]),
        ({"train": {"learning_rate": 0.1}}, ["'train.learning_rate'", "'optimizer.learning_rate'"]),
        ({"model": {"beam": 4}}, ["'model.beam'", "'valid.beam' or 'decode.beam'"]),
        ({"model": {"layers": "4"}}, ["model.layers='4'", "int"]),
        ({"model": {"layers": 4.0}}, ["model.layers=4.0", "int"]),
        ({"model": {"preset": "tini"}}, ["model.preset='tini'", "did you mean 'tiny'"]),
        ({"model": 4}, ["model=4", "table"]),
        ({"batch": {"tokens": 0}}, ["batch", "tokens=0"]),
        ({"optimizer": {"warmup": -1}}, ["optimizer", "warmup=-1"]),
        ({"task": "summon"}, ["task='summon'", "translate", "classify"]),
        ({"data": {**DATA, "valid": ["one"]}}, ["['one'] is no pair of files"]),
        ({"data": {"train": 3}}, ["data.train=3", "list"]),
        ({"data": 3}, ["data=3", "table"]),
        ({"model": {"preset": "tiny", "cell": "gru"}}, ["cell='gru'", "recurrent", "preset='tiny'"]),
        ({"model": {"preset": "recurrent", "heads": 4}}, ["heads=4", "Transformer", "preset='recurrent'"]),
        ({"model": {"d_model": 10, "heads": 4}}, ["10", "4"]),
        ({"model": {"encoder": {"bdy": {}}}}, ["encoder.bdy", "did you mean 'body'"]),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_the_key(plain: dict[str, Any], said: list[str]) -> None:
    message = complaint(plain)
    assert [part for part in said if part not in message] == [], message


def test_an_error_in_a_file_names_the_file_and_one_that_was_typed_does_not(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"^unknown key 'model\.layrs'"):
        read_recipe(file, ["model.layrs=4"])
    with pytest.raises(ConfigError, match=r"^unknown key 'layers'; did you mean 'model\.layers'\?"):
        read_recipe(file, ["layers=4"])
    file.write_text('[data]\ntrain = ["a", "b"]\n[model]\nlayrs = 4\n')
    with pytest.raises(ConfigError, match=r"own\.toml: unknown key 'model\.layrs'"):
        read_recipe(file)
    with pytest.raises(ConfigError, match=r"none\.toml: No such file") as caught:
        read_recipe(file.with_name("none.toml"))
    assert str(caught.value).count("none.toml") == 1


def test_settings_come_on_top_of_the_file(file: Path) -> None:
    assert read_recipe(file).checked.model.layers == 3
    written = read_recipe(file, ["model.layers=5", "train.seed=7", 'data.valid=["v.en", "v.de"]'])
    assert written.checked.model.layers == 5
    assert written.checked.train.seed == 7
    assert written.checked.data.valid == (PairFiles(source="v.en", target="v.de"),)


def root(written: Any) -> Path:
    return written.where / written.checked.data.root


def test_a_root_starts_from_the_recipe_but_one_that_is_typed_from_here(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert root(read_recipe(file)) == file.parent / "corpus"
    monkeypatch.chdir(file.parent.parent)
    for typed in ("data.root=here", 'data.root="here"', " data.root = here"):
        assert root(read_recipe(os.path.relpath(file), [typed])).absolute() == file.parent.parent / "here"
    assert root(read_recipe(file, ["data.root=/there"])) == Path("/there")
    assert root(read_recipe(file, ["data.root=größer 🙂"])) == Path("größer 🙂")
    with pytest.raises(ConfigError, match=r"data\.root=5"):
        read_recipe(file, ["data.root=5"])


def test_files_may_be_written_short_or_long() -> None:
    short = as_recipe({"data": {"train": ["a", "b"]}}).checked.data.train
    assert short == as_recipe({"data": {"train": [["a", "b"]]}}).checked.data.train
    assert short == as_recipe({"data": {"train": [{"source": "a", "target": "b"}]}}).checked.data.train
    mixed = [["a", "b"], {"table": "t.tsv", "source": 0, "target": "de"}]
    assert as_recipe({"data": {"train": mixed}}).checked.data.train == (
        PairFiles(source="a", target="b"),
        PairFiles(table="t.tsv", source=0, target="de"),
    )


def test_target_languages_become_tokens_of_the_vocabulary() -> None:
    files = [["a.en", "a.de", "de"], ["a.de", "a.en", "en"]]
    recipe = as_recipe({"data": {"train": files}}).checked
    assert recipe.tokenizer.specials.extra == ("<2de>", "<2en>")
    own = as_recipe(
        {"data": {"train": files}, "tokenizer": {"specials": {"extra": ["<2de>", "<2en>", "<x>"]}}}
    )
    assert own.checked.tokenizer.specials.extra == ("<2de>", "<2en>", "<x>")
    with pytest.raises(ConfigError, match="name it for all"):
        as_recipe({"data": {"train": files, "test": ["t.en", "t.de"]}})


def test_what_is_given_stays_and_what_is_not_suits_the_data() -> None:
    few, many = completed(pairs=10_000, cuda=True), completed(pairs=1_000_000, words=30_000_000, cuda=True)
    assert (few.model.preset, many.model.preset) == ("small", "base")
    assert few.tokenizer.vocabulary < many.tokenizer.vocabulary
    assert few.train.steps < many.train.steps
    given = completed(
        model={"preset": "big", "dropout": 0.0},
        tokenizer={"vocabulary": 777},
        train={"steps": 50, "seed": 9},
        optimizer={"learning_rate": 0.5},
    )
    assert (given.model.preset, given.model.dropout, given.tokenizer.vocabulary) == ("big", 0.0, 777)
    assert (given.train.steps, given.optimizer.learning_rate) == (50, 0.5)
    assert given.optimizer.warmup == 5  # a tenth
    assert given.batch.seed == 9


def test_a_limit_of_time_alone_leaves_the_steps_open_and_warms_up_and_validates_within_it() -> None:
    few = completed(pairs=1_000_000, words=30_000_000, train={"minutes": 5.0})
    assert few.train.steps == 1_000_000
    assert few.optimizer.warmup <= 100
    assert few.train.validate_every <= 100
    assert completed(train={"minutes": 5.0, "steps": 70}).train.steps == 70


def test_ranks_share_a_step_out() -> None:
    assert as_recipe({"data": DATA}).completed(10, 100, cuda=False, ranks=4).batch.parts == 4


def test_the_papers_schedule_gets_its_factor_of_one() -> None:
    assert completed(optimizer={"schedule": "paper"}).optimizer.learning_rate == 1.0


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"sentences": 0}, {"metric": "blue"}])
def test_impossible_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ValidConfig(**wrong)


@pytest.mark.parametrize(
    "config",
    [
        TranslatorConfig(),
        TranslatorConfig(preset="base", layers=2, norm="pre", positions="rotary", activation="swiglu"),
        TranslatorConfig(preset="recurrent", cell="gru", attention="dot"),
        TranslatorConfig(encoder_layers=3),
        TranslatorConfig(layers=5, decoder_layers=1),
        TranslatorConfig(encoder={"body": {"feed_forward": {"d_ff": 64}}}),
        TranslatorConfig(decoder={"body": {"dropout": 0.5}}, tied=False, shared=False),
    ],
    ids=str,
)
def test_a_shape_with_every_word_written_out_is_the_same_shape(config: TranslatorConfig) -> None:
    resolved = config.resolved()
    assert resolved.build(50) == config.build(50)
    assert resolved.resolved() == resolved
    assert resolved.layers is not None


def test_each_word_of_a_shape_stands_for_both_sides() -> None:
    shape = TranslatorConfig(preset="tiny", d_model=32, heads=2, d_ff=48, dropout=0.25).build(50)
    for side in (shape.encoder, shape.decoder):
        assert (side.d_model, side.vocabulary, side.embedding.dropout) == (32, 50, 0.25)
        assert side.body.attention.heads == 2
        assert side.body.feed_forward.d_ff == 48
    uneven = TranslatorConfig(preset="tiny", encoder_layers=3, decoder_layers=1).build(50)
    assert (uneven.encoder.body.layers, uneven.decoder.body.layers) == (3, 1)
