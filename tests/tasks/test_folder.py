import io
import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from regard.config import ConfigError, from_dict
from regard.disk import DiskFullError
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.tasks import run
from regard.tasks.base.folder import FolderError, load_weights, read_config, write_weights
from regard.tasks.base.predictor import save
from regard.tasks.load import load
from regard.tasks.translation.translator import Translator
from regard.text import DataError
from regard.train.checkpoint import CheckpointError
from tests.tasks import tiny

SENTENCES = ["a red house", "the dog sees a tree", "big"]


def console() -> Console:
    return Console(file=io.StringIO())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and beside it the text it learned from."""
    place = tmp_path_factory.mktemp("made")
    test = tiny.write_pairs(place / "corpus", "test", tiny.pairs(20, start=450))
    plain = tiny.recipe(place / "corpus", data={"test": test}, train={"steps": 5})
    run.fit(plain, out=place / "model", device="cpu", console=console())
    return place


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made / "model", tmp_path / "model")


def opened(folder: Path) -> Translator:
    return load(folder, device="cpu")


def weights(folder: Path) -> None:
    load_weights(folder, Seq2Seq(from_dict(Seq2SeqConfig, read_config(folder)["model"])))


def test_a_folder_is_a_model_wherever_it_is_and_needs_nothing_else(made: Path, tmp_path: Path) -> None:
    before = opened(made / "model").translate(SENTENCES)
    shutil.copytree(made, tmp_path / "all")
    moved = tmp_path / "elsewhere"
    (tmp_path / "all" / "model").rename(moved)
    shutil.rmtree(tmp_path / "all")
    for name in ("tokens", "tokens.valid"):
        shutil.rmtree(moved / name)
    (moved / "checkpoint.safetensors").unlink()
    after = opened(moved).translate(SENTENCES)
    assert [(each.text, each.score) for each in after] == [(each.text, each.score) for each in before]


def test_a_folder_says_what_it_is_and_what_it_learned_from(made: Path) -> None:
    folder = made / "model"
    config = read_config(folder)
    assert (config["task"], config["languages"]) == ("translate", [])
    data = json.loads((folder / "data.json").read_text())
    assert [Path(name).name for name in data["files"]] == ["train.en", "train.de"]
    assert (data["read"], data["used"]) == (200, 200)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["valid"].keys() == {"loss", "bleu", "exact"}
    assert "bleu" in metrics["test"]


def test_a_folder_knows_whether_it_learned_from_single_sentences_and_an_older_one_does_not(
    model: Path, tmp_path: Path
) -> None:
    config = read_config(model)
    assert config["several_sentences"] == 0.0
    translator, text = opened(model), f"{SENTENCES[0]}. {SENTENCES[1].capitalize()}."
    assert translator.trained_on_single_sentences
    assert translator.translate(text).pieces == 2
    save(translator.with_model(translator.model), tmp_path / "again")
    assert opened(tmp_path / "again").several_sentences == 0.0
    del config["several_sentences"]
    (model / "config.json").write_text(json.dumps(config))
    older = opened(model)
    assert older.several_sentences is None
    assert older.translate(text) == translator.translate(text, split="never")


def test_the_kept_weights_are_the_averaged_ones(made: Path) -> None:
    kept, state = (
        load_file(made / "model" / name) for name in ("model.safetensors", "checkpoint.safetensors")
    )
    flat = torch.cat([kept[name].flatten() for name in sorted(kept)]).sort().values
    mean = state["average.mean"]
    assert torch.isin(flat, mean).all()
    assert not torch.isin(flat, state["weights"]).all()


def test_weights_that_are_missing_or_too_many_are_named(model: Path) -> None:
    path = model / "model.safetensors"
    whole = load_file(path)
    name = next(iter(whole))
    save_file({key: value for key, value in whole.items() if key != name}, path)
    with pytest.raises(FolderError, match=rf"model\.safetensors: .*missing \['{name}'\], unknown \[\]"):
        weights(model)
    save_file({**whole, "more": torch.ones(1)}, path)
    with pytest.raises(FolderError, match=r"model\.safetensors: .*missing \[\], unknown \['more'\]"):
        weights(model)
    save_file({**whole, name: torch.ones(1, 2, 3)}, path)
    with pytest.raises(FolderError, match=r"model\.safetensors: cannot be read"):
        weights(model)


def test_weights_that_are_cut_short_or_not_there_are_named(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FolderError, match=r"model\.safetensors: cannot be read"):
        weights(model)
    path.unlink()
    with pytest.raises(FolderError, match=r"model\.safetensors: not there.*regard train --resume --out"):
        weights(model)


def test_a_folder_that_is_no_model_is_named(tmp_path: Path, model: Path) -> None:
    with pytest.raises(FolderError, match=r"no model folder, it has no config\.json"):
        read_config(tmp_path)
    path = model / "config.json"
    path.write_text(path.read_text()[:-10])
    with pytest.raises(FolderError, match=r"config\.json: not JSON"):
        read_config(model)
    path.write_text('{"model_type": "bert"}')
    with pytest.raises(FolderError, match=r"config\.json: format None is not known"):
        read_config(model)


@pytest.mark.parametrize("key", ["task", "model", "longest", "languages", "decode"])
def test_a_key_that_is_missing_is_named(model: Path, key: str) -> None:
    path = model / "config.json"
    path.write_text(json.dumps({name: value for name, value in read_config(model).items() if name != key}))
    with pytest.raises(FolderError, match=rf"config\.json: .*{'None' if key == 'task' else key}"):
        opened(model)


def test_weights_on_a_full_disk_leave_those_before(model: Path) -> None:
    before = (model / "model.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(DiskFullError, match=r"model\.safetensors: .*free some space"):
            write_weights(model, {"a": torch.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (model / "model.safetensors").read_bytes() == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_folder_with_a_model_is_not_written_over_unasked(made: Path, model: Path, tmp_path: Path) -> None:
    before = contents(model)
    plain = tiny.recipe(tmp_path / "corpus", tokenizer={"vocabulary": 30}, train={"steps": 2})
    with pytest.raises(ConfigError, match=r"already holds checkpoint\.safetensors: .*another --out"):
        run.fit(plain, out=model, device="cpu", console=console())
    assert contents(model) == before


def test_resuming_with_another_model_or_other_text_is_refused_and_changes_nothing(
    made: Path, model: Path, tmp_path: Path
) -> None:
    before = contents(model)
    for tables in ({"model": {"d_ff": 48}}, {"tokenizer": {"vocabulary": 25}}, {"data": {"longest": 9}}):
        plain = tiny.recipe(made / "corpus", **tables)
        with pytest.raises((CheckpointError, ConfigError), match="resume with the recipe"):
            run.fit(plain, out=model, resume=True, device="cpu", console=console())
        after = contents(model)
        changed = {name for name in before if before[name] != after[name]}
        assert not {name for name in changed if not name.startswith("tokens")}, tables


def test_resuming_with_another_text_to_validate_on_is_refused(
    made: Path, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "corpus", tmp_path / "corpus")
    tiny.write_pairs(tmp_path / "corpus", "valid", tiny.pairs(20, start=500))
    before = contents(model)
    setting = f"data.root={tmp_path / 'corpus'}"
    with pytest.raises(ConfigError, match="begun with other text"):
        run.fit(None, setting, out=model, resume=True, device="cpu", console=console())
    assert contents(model) == before


def test_a_model_without_its_checkpoint_is_not_begun_anew_unasked(model: Path) -> None:
    (model / "checkpoint.safetensors").unlink()
    before = contents(model)
    with pytest.raises(ConfigError, match=r"holds model\.safetensors but no checkpoint\.safetensors"):
        run.fit(None, out=model, resume=True, device="cpu", console=console())
    assert contents(model) == before


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny.recipe(tmp_path / "corpus", train={"steps": 2})

    def second(*_: Any, **__: Any) -> None:
        with pytest.raises(ConfigError, match=r"another run is at work there.*another --out"):
            run.fit(plain, out=tmp_path / "model", device="cpu", console=console())
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run, "train", second)
        with pytest.raises(KeyboardInterrupt):
            run.fit(plain, out=tmp_path / "model", device="cpu", console=console())
    assert run.fit(plain, out=tmp_path / "model", device="cpu", console=console()).step == 2


def test_a_test_that_has_no_pairs_is_told_before_training(tmp_path: Path) -> None:
    for pairs in ([], tiny.pairs(3)):
        test = tiny.write_pairs(tmp_path / "corpus", "test", pairs)
        plain = tiny.recipe(tmp_path / "corpus", data={"test": test if not pairs else ["none.en", "none.de"]})
        with pytest.raises(
            (DataError, OSError), match=r"none\.en" if pairs else r"test\.en: no pairs to test on"
        ):
            run.fit(plain, out=tmp_path / "model", check=False, device="cpu", console=console())
        assert not any((tmp_path / "model").iterdir())


def test_overwriting_leaves_nothing_of_the_old_model(model: Path, tmp_path: Path) -> None:
    plain = tiny.recipe(tmp_path / "corpus", model={"d_ff": 48}, train={"steps": 2})
    outcome = run.fit(plain, out=model, overwrite=True, device="cpu", console=console())
    assert outcome.step == 2
    weights(model)
    assert len(opened(model).translate(SENTENCES)) == 3
    assert "test" not in json.loads((model / "metrics.json").read_text())


def test_an_overwrite_that_breaks_off_leaves_no_mixture_of_both(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.tasks.translation.train.Validator", lambda *_: 1 / 0)
    plain = tiny.recipe(tmp_path / "corpus", tokenizer={"vocabulary": 30})
    with pytest.raises(ZeroDivisionError):
        run.fit(plain, out=model, overwrite=True, device="cpu", console=console())
    assert not {"checkpoint.safetensors", "model.safetensors", "metrics.json"} & contents(model).keys()


def test_an_overwrite_that_finds_no_text_leaves_the_old_model(model: Path, tmp_path: Path) -> None:
    before = contents(model)
    plain = tiny.recipe(tmp_path / "corpus", data={"train": ["none.en", "none.de"]})
    with pytest.raises((ValueError, OSError), match=r"none\.en"):
        run.fit(plain, out=model, overwrite=True, check=False, device="cpu", console=console())
    assert contents(model) == before


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing to resume, it has no recipe\.toml"):
        run.fit(None, out=tmp_path, resume=True, device="cpu")
    with pytest.raises(ConfigError, match="no recipe: name a TOML file"):
        run.fit(None, out=tmp_path, device="cpu")


def test_a_rehearsal_says_the_whole_recipe_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, said = tiny.recipe(tmp_path / "corpus"), io.StringIO()
    monkeypatch.chdir(tmp_path)
    run.dry_run(plain, device="cpu", console=Console(file=said, width=200))
    assert "d_model = 16" in said.getvalue()
    assert "parameters; 60 steps" in said.getvalue()
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
