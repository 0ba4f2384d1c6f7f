"""What is read is what was written: damage is found, and the file named."""

import json
import random
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import regard
from regard.cli import main
from regard.hub import Checkpoint, HubError, write_folder
from regard.models.headed import Headed
from regard.settings.models import MaskedConfig
from regard.tasks.base import header
from regard.tasks.base.encoders import open_encoder, save_checkpoint
from regard.tasks.base.folder import (
    FolderError,
    load_quantized,
    read_config,
    read_sealed,
    write_config,
    write_sealed,
    write_weights,
)
from regard.tasks.base.header import unfilled, whole
from regard.tasks.base.verify import accept, verify
from regard.train import checkpoint
from regard.train.digests import KEY
from tests.tasks.encoders import toys
from tests.tasks.folders import KINDS, edit, predictor, said, stored

FILES = ("config.json", "tokenizer.json", "model.safetensors")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("folders")
    return {kind: stored(place / kind, kind) for kind in KINDS}


@pytest.fixture
def folder(folders: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(folders["translate"], tmp_path / "model")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def states(folder: Path) -> dict[str, str]:
    return {each.file.name: each.state for each in verify(folder)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_of_the_weights_is_found(folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    path = folder / "model.safetensors"
    size = path.stat().st_size
    for place in (size - 1, size - 1000, size // 2):
        flip(path, place)
        with pytest.raises(FolderError) as caught:
            regard.load(folder, device="cpu")
        wanted = f"{path}: damaged: its content is not what was written; copy the folder anew"
        assert str(caught.value) == wanted
        flip(path, place)
    assert said(folder) == said(folders[kind])


def test_a_changed_byte_is_found_in_8_bits_too(folder: Path) -> None:
    path = folder / "model.safetensors"
    flip(path, path.stat().st_size - 1)
    with pytest.raises(FolderError, match=r"model\.safetensors: damaged"):
        load_quantized(folder, lambda: predictor("translate").model)


@pytest.mark.parametrize("name", FILES)
def test_no_changed_byte_changes_what_a_model_says(
    folders: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """It is refused; or nothing of meaning has changed, as where a key that nobody reads is spelled
    otherwise, digests among them."""
    folder = shutil.copytree(folders["classify"], tmp_path / "model")
    before, path = said(folder), folder / name
    size, chance = path.stat().st_size, random.Random(name)
    refused = 0
    for place in chance.sample(range(size), 60):
        flip(path, place)
        try:
            assert said(folder) == before, place
        except (FolderError, HubError):
            refused += 1
        flip(path, place)
    assert refused > 40


def test_a_changed_header_is_found_whatever_the_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "SMALL", 0)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'"I32"', 1))
    with pytest.raises(FolderError, match=r"model\.safetensors: damaged"):
        regard.load(folder, device="cpu")


def test_large_weights_are_compared_when_they_are_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "SMALL", 0)
    path = folder / "model.safetensors"
    flip(path, path.stat().st_size - 1)
    regard.load(folder, device="cpu")
    assert states(folder)["model.safetensors"] == "damaged"


def test_weights_and_digest_are_of_one_moment(folder: Path) -> None:
    """A run that is killed between its files leaves a folder that opens: config.json knows no weights."""
    other = predictor("translate")
    with torch.no_grad():
        next(other.model.parameters()).add_(1)
    write_weights(folder, whole(other.model))
    assert {*states(folder).values()} == {"whole", "readable"}
    regard.load(folder, device="cpu")


def test_the_same_weights_are_the_same_file(folder: Path) -> None:
    path = folder / "model.safetensors"
    before = path.read_bytes()
    write_weights(folder, load_file(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
)
def test_every_type_and_shape_has_a_digest(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "a": torch.ones(()),
        "b": torch.ones(0, 3),
        "c": torch.arange(6.0).view(2, 3).T,
        "ü\n": torch.ones(2),
    }
    write_weights(tmp_path, {name: tensor.to(dtype) for name, tensor in tensors.items()})
    found = header.read_header(tmp_path)
    assert len(found.digests) == 2
    header.check_content(found)


def test_a_tokenizer_of_another_model_is_found(folder: Path) -> None:
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text())
    vocabulary = state["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(state))
    with pytest.raises(FolderError, match=r"tokenizer\.json: damaged: .*regard check .*model --accept"):
        regard.load(folder, device="cpu")
    assert states(folder)["tokenizer.json"] == "damaged"
    accept(folder)
    assert {*states(folder).values()} == {"whole"}


def test_who_edits_config_json_is_told_how_to_accept_it(folder: Path) -> None:
    edit(folder, lambda config: config["decode"].update(beam=1, method="greedy"), digests=True)
    with pytest.raises(FolderError, match=r"config\.json: damaged: .*if you changed it.* --accept"):
        regard.load(folder, device="cpu")
    accept(folder)
    translator: Any = regard.load(folder, device="cpu")
    assert translator.decoding.beam == 1
    assert {*states(folder).values()} == {"whole"}


def test_a_new_order_or_layout_of_config_json_is_no_damage(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(config.items())), indent=7))
    regard.load(folder, device="cpu")
    assert states(folder)["config.json"] == "whole"


def test_damaged_weights_are_not_accepted(folder: Path) -> None:
    path = folder / "model.safetensors"
    flip(path, path.stat().st_size - 1)
    accept(folder)
    assert states(folder)["model.safetensors"] == "damaged"


def test_folders_without_digests_open_as_before_and_can_be_given_some(folder: Path) -> None:
    before = said(folder)
    edit(folder, lambda config: None)
    path = folder / "model.safetensors"
    save_file(load_file(path), path)
    assert said(folder) == before
    assert {*states(folder).values()} == {"readable"}
    accept(folder)
    assert states(folder) == dict.fromkeys((*FILES, "metrics.json"), "whole")
    assert said(folder) == before


def test_digests_are_not_part_of_what_config_json_says(folder: Path) -> None:
    config = read_config(folder)
    assert KEY not in config
    write_config(folder, config.pop("task"), {key: config[key] for key in config if key != "format"})
    assert {*states(folder).values()} == {"whole", "readable"}


def test_folders_of_hugging_face_are_exactly_theirs(tmp_path: Path) -> None:
    model = toys.model(MaskedConfig(), vocabulary=len(toys.tokenizer()), **toys.TINY)
    own = Checkpoint(config=model.config, weights=whole(model), tokenizer=toys.tokenizer(), longest=512)
    save_checkpoint(own, tmp_path / "ours", "pretrain")
    write_folder(open_encoder(tmp_path / "ours"), tmp_path / "theirs")
    assert KEY not in json.loads((tmp_path / "theirs" / "config.json").read_text())
    with safe_open(tmp_path / "theirs" / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_first_values_are_left_out_of_what_is_read_from_a_file() -> None:
    """Of parameters, and of nothing else."""

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(4, 4))
            torch.nn.init.normal_(self.weight)
            torch.nn.init.uniform_(self.weight[:2], 5, 6)
            self.table = torch.nn.init.normal_(torch.zeros(4))

    before = torch.get_rng_state()
    model = unfilled(lambda: predictor("classify").model)
    assert isinstance(model, Headed)
    part = unfilled(Part)
    assert (part.weight == 0).all()
    assert (part.table != 0).all()
    torch.set_rng_state(before)


def test_a_checkpoint_is_compared_too(folder: Path) -> None:
    path = folder / "checkpoint.safetensors"
    checkpoint.write(path, {"weights": torch.ones(9)}, {"standing": {"step": 1}})
    assert states(folder)[path.name] == "whole"
    flip(path, -1)
    assert states(folder)[path.name] == "damaged"
    save_file({"weights": torch.ones(9)}, path, {"format": checkpoint.FORMAT, "facts": "{}"})
    assert states(folder)[path.name] == "readable"  # of an older version


def test_a_checkpoint_of_several_ranks_is_compared_too(folder: Path) -> None:
    shards = import_module("regard.train.shards")
    path = folder / "checkpoint-3"
    path.mkdir()
    (path / "shard-0.safetensors").write_bytes(b"weights")
    facts = {"format": shards.FORMAT, "files": {each.name: shards._digest(each) for each in path.iterdir()}}
    (path / shards.FACTS).write_text(json.dumps({**facts, "digest": shards._of(facts)}))
    assert states(folder)[path.name] == "whole"
    flip(path / "shard-0.safetensors", 0)
    [found] = [each for each in verify(folder) if each.file == path]
    assert str(found).startswith(f"{path}: damaged: {path / 'shard-0.safetensors'}: damaged: its content is")


# At the prompt.


@pytest.fixture
def at_prompt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`regard ARG ...`: how it ends, what it prints, and what it says of errors."""

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return run


def test_regard_check_says_of_each_file_whether_it_is_whole(folder: Path, at_prompt: Any) -> None:
    code, told, _ = at_prompt("check", folder)
    assert code == 0
    assert told.splitlines() == [
        *(f"{folder / name}: whole" for name in FILES),
        f"{folder / 'metrics.json'}: readable, without a digest to compare it with",
    ]
    flip(folder / "model.safetensors", -1)
    code, told, _ = at_prompt("check", folder)
    assert code == 1
    assert told.splitlines()[2] == (
        f"{folder / 'model.safetensors'}: damaged: its content is not what was written; copy the folder anew"
    )
    code, told, _ = at_prompt("check", folder, "--json")
    assert code == 1
    assert [each["state"] for each in json.loads(told)] == ["whole", "whole", "damaged", "readable"]


def test_regard_check_accepts_what_was_changed_on_purpose(folder: Path, at_prompt: Any) -> None:
    edit(folder, lambda config: config["decode"].update(beam=3), digests=True)
    assert at_prompt("check", folder)[0] == 1
    code, told, _ = at_prompt("check", folder, "--accept")
    assert code == 0
    assert "config.json: whole" in told
    assert at_prompt("check", folder)[0] == 0


@pytest.mark.parametrize("name", ["metrics.json", "data.json"])
def test_figures_that_were_changed_are_told_and_can_be_accepted(folder: Path, name: str) -> None:
    written = {"valid": {"bleu": 34.5, "by length": {1: 2.0}}, "step": 3}
    write_sealed(folder / name, written)
    assert states(folder)[name] == "whole"
    path = folder / name
    path.write_text(path.read_text().replace("34.5", "84.5"))
    assert states(folder)[name] == "damaged"
    with pytest.raises(FolderError, match=rf"{name}: damaged: .*--accept"):
        read_sealed(folder, name)
    accept(folder)
    assert states(folder)[name] == "whole"
    assert read_sealed(folder, name)["valid"]["bleu"] == 84.5


def test_regard_check_of_something_else_is_told(folder: Path, tmp_path: Path, at_prompt: Any) -> None:
    (folder / "config.json").write_text("{")
    code, told, _ = at_prompt("check", folder)
    assert code == 1
    assert "config.json: damaged: not JSON" in told
    code, _, wrong = at_prompt("check", tmp_path / "nowhere", "--accept")
    assert code == 1
    assert "no such folder" in wrong
    assert at_prompt("check", "--accept")[0] == 2
    assert at_prompt("check", folder, "--pairs", "a", "b")[0] == 1


@pytest.mark.parametrize("name", ["recipe.toml", "data.json"])
def test_what_tells_about_a_model_is_read_too(folder: Path, name: str) -> None:
    (folder / name).write_text("" if name == "recipe.toml" else "{}")
    assert states(folder)[name] == "readable"
    (folder / name).write_bytes(b"\xff = [")
    assert states(folder)[name] == "damaged"
