"""From its first moment on, a run can be resumed without its recipe; and it is that run which goes on."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from regard.config import ConfigError, read_table, write_toml
from regard.tasks import run
from regard.tasks.base import folder as folders
from regard.tasks.base import job as jobs
from regard.tasks.base.own_recipe import own_recipe, write_own_recipe
from regard.tasks.base.recipe import given_text
from regard.tasks.base.verify import accept, verify
from regard.tasks.registry import as_recipe, read_recipe
from regard.train.standing import Standing
from tests.settings.corpora import recipes
from tests.tasks import tiny


class KilledError(BaseException):
    """What no `except Exception` sees, as nothing sees a kill."""


def fit(recipe: Any, out: Path, **how: Any) -> Any:
    return run.fit(recipe, out=out, device="cpu", console=Console(file=io.StringIO()), **how)


def killed(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], object]) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die)
        with pytest.raises(KilledError):
            work()


def same(one: Path, other: Path) -> bool:
    weights = [load_file(each / "model.safetensors") for each in (one, other)]
    return weights[0].keys() == weights[1].keys() and all(
        torch.equal(weights[0][name], weights[1][name]) for name in weights[0]
    )


MOMENTS = [
    (run, "_check"),
    (run, "prepare"),
    (folders.Tokenizer, "load"),
    (jobs, "build_trainer"),
    (jobs, "write_config"),
    (jobs, "recipe_text"),
]


@pytest.mark.parametrize(("owner", "name"), [*MOMENTS, (folders.Tokenizer, "train")])
def test_a_run_killed_before_its_first_step_is_resumed_without_the_recipe(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    fit(plain, tmp_path / "whole")
    out = tmp_path / "run"
    killed(monkeypatch, owner, name, lambda: fit(plain, out))
    fit(None, out, resume=True)
    assert same(out, tmp_path / "whole")
    assert not (out / folders.NEXT).exists()
    assert read_table(out / "recipe.toml") == read_table(tmp_path / "whole" / "recipe.toml")


@pytest.mark.parametrize(("owner", "name"), [*MOMENTS, (folders.resume, "clear"), (folders, "sync_folder")])
def test_an_overwrite_that_is_killed_goes_on_with_the_new_recipe(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    new = tiny.recipe(tmp_path / "corpus", train={"steps": 2}, model={"d_ff": 48})
    out = tmp_path / "run"
    fit(old, out)
    fit(new, tmp_path / "whole")
    killed(monkeypatch, owner, name, lambda: fit(new, out, overwrite=True))
    fit(None, out, resume=True)
    assert same(out, tmp_path / "whole")
    assert not (out / folders.NEXT).exists()


def interrupted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], object]) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(KeyboardInterrupt):
            work()


@pytest.mark.parametrize(("owner", "name"), [(run, "_check"), (run, "prepare"), (folders.resume, "clear")])
def test_an_overwrite_that_is_interrupted_while_text_is_read_was_never_asked_for(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    new = tiny.recipe(tmp_path / "corpus", train={"steps": 2}, model={"d_ff": 48})
    out = tmp_path / "run"
    fit(old, out)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    interrupted(monkeypatch, owner, name, lambda: fit(new, out, overwrite=True))
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    outcome = fit(old, out, resume=True)
    assert outcome.step == 2
    assert (out / "checkpoint.safetensors").read_bytes() == before["checkpoint.safetensors"]


def test_an_overwrite_that_is_interrupted_once_the_old_run_is_gone_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    new = tiny.recipe(tmp_path / "corpus", train={"steps": 2}, model={"d_ff": 48})
    out = tmp_path / "run"
    fit(old, out)
    interrupted(monkeypatch, folders, "sync_folder", lambda: fit(new, out, overwrite=True))
    fit(None, out, resume=True)
    assert read_table(out / "recipe.toml")["model"]["d_ff"] == 48


def test_a_run_is_not_resumed_as_another_that_was_to_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    new = tiny.recipe(tmp_path / "corpus", train={"steps": 2}, model={"d_ff": 48})
    out = tmp_path / "run"
    fit(old, out)
    checkpoint = (out / "checkpoint.safetensors").read_bytes()
    killed(monkeypatch, run, "prepare", lambda: fit(new, out, overwrite=True))
    told = r"run holds checkpoint.safetensors of one run, and recipe.next.toml of another .*--overwrite"
    with pytest.raises(ConfigError, match=told):
        fit(old, out, resume=True)
    assert (out / "checkpoint.safetensors").read_bytes() == checkpoint
    (out / folders.NEXT).rename(tmp_path / "next.toml")
    fit(old, out, resume=True)
    assert (out / "checkpoint.safetensors").read_bytes() == checkpoint
    (tmp_path / "next.toml").rename(out / folders.NEXT)
    said = io.StringIO()
    run.fit(new, out=out, device="cpu", console=Console(file=said, width=500), resume=True)
    assert f"{out}: training starts from the beginning, by recipe.next.toml, in the place" in said.getvalue()
    assert read_table(out / "recipe.toml")["model"]["d_ff"] == 48


def damage(path: Path, old: str, new: str) -> None:
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("tokenizer.json", "house", "houze"), ("recipe.toml", "\nwarmup = 5", "\nwarmup = 6")],
)
@pytest.mark.parametrize("given", [True, False])
def test_a_run_goes_on_with_what_it_was_begun_with_or_with_what_was_accepted(
    name: str, old: str, new: str, given: bool, tmp_path: Path
) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    out = tmp_path / "run"
    fit(plain, out)
    before = (out / "config.json").read_bytes()
    damage(out / name, old, new)
    with pytest.raises(folders.FolderError, match=rf"{name}: damaged: .* regard check .*run --accept"):
        fit(plain if given else None, out, resume=True)
    assert (out / "config.json").read_bytes() == before
    (out / "model.safetensors").unlink()  # as before the first validation
    accept(out)
    fit(plain if given else None, out, resume=True)
    assert {each.file.name for each in verify(out) if each.state == "damaged"} <= {"model.safetensors"}


def test_a_damaged_tokenizer_of_a_run_without_a_checkpoint_is_learned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 2})
    fit(plain, tmp_path / "whole")
    out = tmp_path / "run"
    killed(monkeypatch, jobs, "build_trainer", lambda: fit(plain, out))
    damage(out / "tokenizer.json", "house", "houze")
    fit(None, out, resume=True)
    assert same(out, tmp_path / "whole")
    assert (out / "tokenizer.json").read_bytes() == (tmp_path / "whole" / "tokenizer.json").read_bytes()


def test_a_changed_byte_of_a_recipe_is_found_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    write_own_recipe(path, "[train]\nsteps = 4\n")
    content, refused = path.read_bytes(), 0
    for place in range(len(content)):
        for other in b"15x \n":
            path.write_bytes(content[:place] + bytes([other]) + content[place + 1 :])
            try:
                assert read_table(own_recipe(tmp_path)) == {"train": {"steps": 4}}, (place, other)
            except (folders.FolderError, ConfigError):
                refused += 1
    assert refused > 3 * len(content)
    path.write_bytes(content + b"minutes = 5\n")
    with pytest.raises(folders.FolderError, match=r"recipe\.toml: damaged"):
        own_recipe(tmp_path)


def test_a_recipe_means_the_same_in_the_folder_as_where_it_was_given(tmp_path: Path) -> None:
    for task, plain in recipes(tmp_path / "text").items():
        here = {**plain, "data": {**plain["data"], "root": Path(plain["data"]["root"]).name}}
        (tmp_path / "text" / "own.toml").write_text(write_toml(here), encoding="utf-8")
        written = read_recipe(tmp_path / "text" / "own.toml")
        (tmp_path / "kept.toml").write_text(given_text(written), encoding="utf-8")
        again = read_recipe(tmp_path / "kept.toml")
        full = as_recipe(plain)
        assert again.checked == full.checked, task
        assert given_text(again) == given_text(full) == given_text(written)


def test_a_run_goes_on_as_it_was_begun_by_other_processes_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the recipe leaves out was settled by how many they were, and what they had."""
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 4, "validate_every": 2, "save_every": 1})
    settled = {**plain, "batch": {**plain["batch"], "parts": 2, "seed": 3}}
    del plain["optimizer"]
    fit(settled, tmp_path / "whole")
    out = tmp_path / "run"
    killed(monkeypatch, Standing, "judge", lambda: fit(settled, out))
    fit(plain, out, resume=True)
    assert same(out, tmp_path / "whole")
    assert read_table(out / "recipe.toml") == read_table(tmp_path / "whole" / "recipe.toml")


@pytest.mark.parametrize("name", ["write_weights", "write_sealed", "_test"])
def test_a_model_that_is_solved_for_is_solved_for_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no checkpoint to go on from, and needs none."""
    plain = recipes(tmp_path / "text")["classify"]
    plain["data"]["test"] = plain["data"]["valid"]
    fit(plain, tmp_path / "start")
    plain |= {"model": {"start": str(tmp_path / "start")}, "head": {"fit": "logistic"}}
    del plain["tokenizer"]
    fit(plain, tmp_path / "whole")
    out = tmp_path / "run"
    killed(monkeypatch, jobs, name, lambda: fit(plain, out))
    fit(None, out, resume=True)
    assert same(out, tmp_path / "whole")
    assert folders.read_metrics(out)["test"] == folders.read_metrics(tmp_path / "whole")["test"]
    fit(None, out, resume=True)
    assert same(out, tmp_path / "whole")
