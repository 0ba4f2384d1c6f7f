"""A byte of a model folder that is not as it was written: it is named, or it changes nothing."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

import regard
from regard.config import ConfigError
from regard.tasks.base.folder import FolderError
from regard.tasks.base.verify import verify
from regard.text import DataError
from regard.train.checkpoint import CheckpointError
from tests.settings.corpora import recipes
from tests.tasks.encoders import toys

CHANGES = 200
FILES = ("model.safetensors", "config.json", "tokenizer.json", "metrics.json", "recipe.toml", "data.json")
CHECKPOINT = "checkpoint.safetensors"
TOLD = (FolderError, ConfigError, DataError, CheckpointError)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("bytes")
    plain = recipes(place / "text")
    for task in ("translate", "classify"):
        toys.train(plain[task], place / task, check=False)
    return {task: place / task for task in ("translate", "classify")}


def says(folder: Path) -> Any:
    predictor = regard.load(folder, device="cpu")
    texts = ["a red house", "old dog sees sun"]
    if isinstance(predictor, regard.Translator):
        return [each.text for each in predictor.translate(texts)]
    return [(each.label, each.probabilities) for each in predictor.classify(texts)]


def changed(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ chance.randrange(1, 256)]) + content[at + 1 :]


def is_seen(folder: Path, name: str, content: bytes) -> bool:
    """Whether `regard check` takes the file for what was written only where it means the same: other white
    space."""
    [state] = [each.state for each in verify(folder) if each.file.name == name]
    now = (folder / name).read_bytes()
    if state != "whole":
        return True
    if name.endswith(".json"):
        return bool(json.loads(now) == json.loads(content))
    one, other = load(now), load(content)
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.long
@pytest.mark.parametrize("task", ["translate", "classify"])
@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_named_or_changes_nothing(folders, task, name, tmp_path, record_property):
    chance = random.Random(int(os.environ.get("SEED", "0")))
    copy = tmp_path / "copy"
    shutil.copytree(folders[task], copy)
    wanted, content = says(copy), (copy / name).read_bytes()
    assert {each.file.name for each in verify(copy)} == {*FILES, CHECKPOINT}
    assert {each.state for each in verify(copy)} == {"whole"}
    failures = []
    for number in range(CHANGES):
        (copy / name).write_bytes(other := changed(content, chance))
        try:
            if says(copy) != wanted:
                failures.append(f"{number}: {name} says something else")
        except TOLD:
            pass
        except Exception as error:
            where = next(place for place, (a, b) in enumerate(zip(content, other, strict=True)) if a != b)
            failures.append(f"{number}, byte {where}: {error!r}")
        if not is_seen(copy, name, content):
            failures.append(f"{number}: regard check does not see it")
    record_property("cases", CHANGES)
    record_property("failures", len(failures))
    assert failures == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["adapter.safetensors", "config.json"])
def test_a_changed_byte_of_an_adapter_is_named_or_changes_nothing(folders, name, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    own = recipes(tmp_path / "text")["translate"]
    own = {table: each for table, each in own.items() if table != "tokenizer"}
    start = {"start": str(folders["translate"]), "adapter": {"rank": 2, "alpha": 4.0}}
    toys.train({**own, "model": start, "train": {"steps": 2}}, tmp_path / "tuned", check=False)
    place, base = tmp_path / "tuned" / "adapter", regard.load(folders["translate"], device="cpu")
    texts = ["a red house", "old dog sees sun"]
    wanted = [each.text for each in base.with_adapter(place).translate(texts)]
    content = (place / name).read_bytes()
    for number in range(CHANGES):
        (place / name).write_bytes(changed(content, chance))
        try:
            if [each.text for each in base.with_adapter(place).translate(texts)] != wanted:
                failures.append(f"{number}: {name} says something else")
        except TOLD:
            pass
        except Exception as error:
            failures.append(f"{number}: {error!r}")
    record_property("cases", CHANGES)
    record_property("failures", len(failures))
    assert failures == []


@pytest.mark.long
def test_a_checkpoint_with_a_changed_byte_is_refused(folders, tmp_path, record_property):
    chance, failures = random.Random(int(os.environ.get("SEED", "0"))), []
    copy = tmp_path / "copy"
    shutil.copytree(folders["classify"], copy)
    path = copy / CHECKPOINT
    content = path.read_bytes()
    for number in range(CHANGES):
        path.write_bytes(changed(content, chance))
        try:
            toys.train(None, copy, resume=True)
            failures.append(f"{number}: believed")
        except TOLD:
            pass
        if {each.file.name: each.state for each in verify(copy)}[CHECKPOINT] != "damaged":
            failures.append(f"{number}: regard check does not see it")
    record_property("cases", CHANGES)
    record_property("failures", len(failures))
    assert failures == []
