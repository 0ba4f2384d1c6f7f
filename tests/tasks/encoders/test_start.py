import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.config import ConfigError
from regard.hub import Checkpoint, write_folder
from regard.models.headed import Headed
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    HeadConfig,
    MaskedConfig,
    PoolConfig,
    TagConfig,
)
from regard.settings.shape import EncoderShape
from regard.tasks.base.encoders import (
    build,
    find_start,
    loaded,
    open_encoder,
    rate_factor,
)
from regard.tasks.base.encoders import (
    save_checkpoint as save_as,
)
from regard.tasks.base.folder import FolderError, whole
from regard.tasks.classification.data import LabelledConfig
from regard.tasks.classification.recipe import ClassifyRecipe
from regard.tasks.registry import task_of_head
from tests.tasks.encoders import toys

HEADS: list[HeadConfig] = [
    MaskedConfig(),
    ClassifyConfig(labels=2),
    ClassifyConfig(labels=2, pool=PoolConfig(kind="attention", query="fixed")),
    TagConfig(tags=4),
    EmbedConfig(project=3),
]
FIRST = ClassifyConfig(labels=2)


def save_checkpoint(own: Checkpoint, folder: Path) -> None:
    save_as(own, folder, task_of_head(own.config.head.kind).name)


def checkpoint(head: HeadConfig = FIRST, **shape: Any) -> Checkpoint:
    model = toys.model(head, vocabulary=len(toys.tokenizer()), **(shape or toys.TINY))
    weights = {name: tensor.detach().clone() for name, tensor in whole(model).items()}
    return Checkpoint(
        config=model.config, weights=weights, tokenizer=toys.tokenizer(), longest=99, labels=("a", "b")
    )


def encoder_of(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in weights.items() if name.startswith("encoder.")}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_a_folder_gives_back_what_was_put_into_it(tmp_path: Path, head: HeadConfig) -> None:
    own = checkpoint(head)
    save_checkpoint(own, tmp_path)
    again = open_encoder(tmp_path)
    assert (again.config, again.longest, again.labels, again.problem) == (
        own.config,
        99,
        ("a", "b"),
        "single",
    )
    assert same(again.weights, own.weights)
    assert again.tokenizer.fingerprint() == own.tokenizer.fingerprint()
    assert same(whole(loaded(again, tmp_path)), own.weights)


@pytest.mark.spec("5.7")
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("head", HEADS[1:], ids=lambda head: head.kind)
def test_an_encoder_is_taken_over_to_the_bit_whoever_wrote_it(
    tmp_path: Path, foreign: bool, head: HeadConfig
) -> None:
    own = replace(checkpoint(MaskedConfig()), labels=(), longest=512)
    (write_folder if foreign else save_checkpoint)(own, tmp_path / "start")
    start = open_encoder(tmp_path / "start")
    model = build(EncoderShape(start="there"), head, start, 0)
    assert same(encoder_of(whole(model)), encoder_of(own.weights))
    assert model.config.head == head
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_head_of_the_same_make_is_taken_over_and_a_new_classifier_is_not() -> None:
    for head, kept in ((MaskedConfig(), True), (EmbedConfig(project=3), True), (FIRST, False)):
        own = checkpoint(head)
        torch.manual_seed(5)
        model = build(EncoderShape(start="there"), head, own, 0)
        assert same(whole(model), own.weights) is kept
    # of another width, it cannot be
    narrow = build(EncoderShape(start="there"), EmbedConfig(project=2), checkpoint(EmbedConfig(project=3)), 0)
    assert whole(narrow)["head.project.weight"].shape[0] == 2


def test_a_pooler_is_added_where_the_head_wants_one_and_kept_where_it_is() -> None:
    pooled = ClassifyConfig(labels=2, pool=PoolConfig(kind="pooler"))
    without = build(EncoderShape(start="there"), FIRST, checkpoint(), 0)
    assert without.encoder.pooler is None
    added = build(EncoderShape(start="there"), pooled, checkpoint(), 0)
    assert added.encoder.pooler is not None
    assert same(
        {name: each for name, each in encoder_of(whole(added)).items() if "pooler" not in name},
        encoder_of(checkpoint().weights),
    )
    own = checkpoint(pooled)
    kept = build(EncoderShape(start="there"), pooled, own, 0)
    assert same(encoder_of(whole(kept)), encoder_of(own.weights))
    # a head that does not ask for it leaves it with the encoder
    assert build(EncoderShape(start="there"), FIRST, own, 0).encoder.pooler is not None
    fresh = build(EncoderShape(**toys.TINY), pooled, None, 30)
    assert fresh.encoder.pooler is not None


def learning(model: Headed) -> set[int]:
    return {model.depth(name) for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("preset", ["tiny", "recurrent"])
def test_frozen_layers_do_not_learn_and_the_embedding_goes_with_them(preset: Any) -> None:
    shape = {**toys.TINY, "layers": 3, "norm": "pre"}
    shape = shape if preset == "tiny" else {"preset": "recurrent", "d_model": 16, "layers": 3}
    own = checkpoint(FIRST, **shape)
    for frozen, expected in ((0, {0, 1, 2, 3, 4}), (1, {2, 3, 4}), (2, {3, 4}), (3, {4}), (-1, {4})):
        model = build(EncoderShape(start="there", frozen=frozen), FIRST, own, 0)
        assert learning(model) == expected
    only = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert only == {"head.output.weight", "head.output.bias"}
    with pytest.raises(ConfigError, match=r"model.frozen=4, but the encoder has 3 layers"):
        build(EncoderShape(start="there", frozen=4), FIRST, own, 0)


def test_a_pooler_that_is_new_learns_even_where_all_of_the_encoder_is_frozen() -> None:
    pooled = ClassifyConfig(labels=2, pool=PoolConfig(kind="pooler"))
    for own, expected in ((checkpoint(), True), (checkpoint(pooled), False)):
        model = build(EncoderShape(start="there", frozen=-1), pooled, own, 0)
        learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert {"head.output.weight", "head.output.bias"} <= learns
        assert ("encoder.pooler.dense.weight" in learns) is expected


def test_rates_fall_with_the_depth_and_the_head_has_its_own() -> None:
    model = toys.model(**toys.TINY)
    assert rate_factor(model, 1.0, 1.0) is None
    factor = rate_factor(model, 0.5, 7.0)
    found = {(model.depth(name), factor(name)) for name, _ in model.named_parameters()}
    assert found == {(0, 0.125), (1, 0.25), (2, 0.5), (3, 7.0)}
    pooled = toys.model(ClassifyConfig(labels=2, pool=PoolConfig(kind="pooler")))
    assert rate_factor(pooled, 0.5, 7.0)("encoder.pooler.dense.weight") == 1.0
    recurrent = toys.model(preset="recurrent", d_model=8, layers=2)
    down = rate_factor(recurrent, 0.5, 1.0)
    assert down("encoder.body.cells.bias_hh_l1_reverse") == 0.5
    assert down("encoder.body.cells.weight_ih_l0") == 0.25


def test_of_a_start_the_dropout_can_be_changed() -> None:
    model = build(EncoderShape(start="there", dropout=0.4), FIRST, checkpoint(), 0)
    assert model.encoder.embedding.dropout.p == 0.4
    assert model.config.encoder.body.dropout == 0.4


def recipe(start: str) -> ClassifyRecipe:
    return ClassifyRecipe(data=LabelledConfig(train=("a.tsv",)), model=EncoderShape(start=start))


def test_a_start_is_looked_for_beside_the_recipe_and_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "beside", tmp_path / "here"
    here.mkdir()
    save_checkpoint(replace(checkpoint(), longest=50), beside / "model")
    monkeypatch.chdir(here)
    for start in ("model", str(beside / "model"), "../beside/model"):
        found, own = find_start(recipe(start), beside)
        assert found is not None
        assert (found.longest, own.model.start) == (50, str(beside / "model"))
    save_checkpoint(replace(checkpoint(), longest=60), here / "model")
    assert find_start(recipe("model"), beside)[0].longest == 50  # type: ignore[union-attr]
    found, own = find_start(recipe("model"), tmp_path)
    assert found is not None
    assert (found.longest, own.model.start) == (60, str(here / "model"))
    assert find_start(recipe(""), beside) == (None, recipe(""))
    with pytest.raises(FolderError, match=r"nowhere: no such folder"):
        find_start(recipe("nowhere"), beside)


def spoiled(folder: Path, **changes: Any) -> Path:
    save_checkpoint(checkpoint(), folder)
    config = json.loads((folder / "config.json").read_text())
    changes["digests"] = None
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "translate", "model": {"decoder": {}}}, "for the task 'translate', which is no encoder"),
        ({"format": 9}, "format 9 is not known"),
        ({"model": None}, "'model' is missing"),
        ({"longest": None}, "'longest' is missing"),
        ({"longest": "many"}, "longest"),
        ({"model": {"encoder": {"vocabulary": 0}}}, "config.json: "),
    ],
)
def test_a_folder_that_is_none_is_told(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FolderError, match=message):
        open_encoder(spoiled(tmp_path / "model", **changes))


def test_a_folder_without_its_files_is_told(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        folder = spoiled(tmp_path / name)
        (folder / name).unlink()
        with pytest.raises((FolderError, FileNotFoundError), match=name):
            open_encoder(folder)
    folder = spoiled(tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(FolderError, match="cannot be read"):
        open_encoder(folder)


def respelled(folder: Path, change: Any) -> Checkpoint:
    """With other weights; a folder of them is refused when it is opened."""
    spoiled(folder)
    weights = load_file(folder / "model.safetensors")
    change(weights)
    whole = open_encoder(folder)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(FolderError, match=r"model.safetensors: (not the weights|cannot be read)"):
        open_encoder(folder)
    return replace(whole, weights=weights)


def test_weights_that_do_not_fit_are_told_and_never_left_at_random(tmp_path: Path) -> None:
    name = "encoder.body.layers.1.feed_forward.inner.weight"
    missing = respelled(tmp_path / "a", lambda weights: weights.pop(name))
    with pytest.raises(FolderError, match=r"feed_forward.inner.weight.* missing"):
        loaded(missing, "a")
    with pytest.raises(FolderError, match=r"feed_forward.inner.weight.* missing"):
        build(EncoderShape(start="there"), FIRST, missing, 0)
    more = respelled(tmp_path / "b", lambda weights: weights.update(extra=torch.ones(1)))
    with pytest.raises(FolderError, match=r"unknown .*extra"):
        loaded(more, "b")
    other = respelled(tmp_path / "c", lambda weights: weights.update({name: torch.ones(2, 2)}))
    for use in (lambda: loaded(other, "c"), lambda: build(EncoderShape(start="c"), FIRST, other, 0)):
        with pytest.raises(FolderError, match=r"has the shape \[2, 2\]"):
            use()
