"""Fine-tuning a translator: from a start, with general text mixed in, held to what it was."""

import io
import json
import shutil
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from regard.config import ConfigError, write_toml
from regard.tasks import run
from regard.tasks.base.folder import FolderError, whole
from regard.tasks.base.verify import verify
from regard.tasks.check import check
from regard.tasks.registry import as_recipe
from regard.tasks.translation.commands import translate
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.train import Prepared, read_corpus
from regard.train.digests import of_weights
from regard.train.ranks import Ranks
from regard.train.report import read_log
from tests.tasks import tiny

CLOCKS = ("data_wait", "seconds", "tokens_per_second", "took")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that can do a little."""
    place = tmp_path_factory.mktemp("start")
    fit(tiny.recipe(place / "corpus", decode={"beam": 3}), place / "model")
    return place / "model"


def fit(plain: dict[str, Any], out: Path, **how: Any) -> Any:
    return run.fit(plain, out=out, device="cpu", check=False, console=Console(file=io.StringIO()), **how)


def tuning(folder: Path, start: Path, mixed: bool = True, **tables: dict[str, Any]) -> dict[str, Any]:
    """Own pairs, of which 20 are learned from, and 200 general ones beside them."""
    mix = {"mix": {"train": tiny.write_pairs(folder, "general", tiny.pairs(200)), "share": 0.4}}
    own: dict[str, Any] = {
        "train": tiny.write_pairs(folder, "own", tiny.pairs(20, start=500)),
        "valid": tiny.write_pairs(folder, "valid", tiny.pairs(10, start=600)),
        "root": str(folder),
        **(mix if mixed else {}),
    }
    plain = {
        "data": own,
        "model": {"start": str(start)},
        "batch": {"tokens": 64},
        "train": {"steps": 12, "validate_every": 4, "log_every": 1, "save_every": 3},
        "valid": {"sentences": 5},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def prepared(plain: dict[str, Any], out: Path) -> Prepared:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    return read_corpus(as_recipe(plain), out, ranks, Console(file=io.StringIO()))


def same(one: Path, other: Path, name: str = "model.safetensors") -> bool:
    ours, theirs = load_file(one / name), load_file(other / name)
    assert ours.keys() == theirs.keys()
    return all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_before_the_first_step_it_is_the_start(tmp_path: Path, start: Path) -> None:
    found = prepared(tuning(tmp_path, start), tmp_path / "out")
    before = open_translator(start, device="cpu")
    ours, theirs = whole(found.model), whole(before.model)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert found.tokenizer.fingerprint() == before.tokenizer.fingerprint()
    assert found.recipe.decode.beam == 3  # the start's own
    assert found.model.training


def test_a_rate_of_zero_leaves_the_start_as_it_was(tmp_path: Path, start: Path) -> None:
    plain = tuning(tmp_path, start, optimizer={"learning_rate": 0.0}, model={"dropout": 0.0})
    fit(plain, tmp_path / "out")
    assert same(start, tmp_path / "out")
    texts = [source for source, _ in tiny.pairs(20, start=700)]
    before, after = (
        open_translator(each, device="cpu").translate(texts) for each in (start, tmp_path / "out")
    )
    assert [(each.text, each.score) for each in before] == [(each.text, each.score) for each in after]


def test_the_new_folder_stands_alone(tmp_path: Path, start: Path) -> None:
    shutil.copytree(start, tmp_path / "start")
    fit(tuning(tmp_path, tmp_path / "start"), tmp_path / "out")
    assert not same(start, tmp_path / "out")
    shutil.rmtree(tmp_path / "start")
    assert open_translator(tmp_path / "out", device="cpu").translate("a red house").text


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"average": {"start": 0.3}},
        {"average": {"kind": "last", "start": 0.3}},
        {"model": {"adapter": {"rank": 2}}},
    ],
)
def test_a_resumed_run_is_the_run_that_never_stopped(
    tmp_path: Path, start: Path, tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tuning(tmp_path, start, **tables)
    fit(plain, tmp_path / "whole")
    steps = run.build_trainer  # the first sitting is asked to stop after its seventh step

    def stopping(*given: Any) -> Any:
        trainer = steps(*given)
        own = trainer.engine.step

        def step(number: int, *more: Any) -> None:
            own(number, *more)
            if number == 7:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(trainer.engine, "step", step)
        return trainer

    with monkeypatch.context() as patched:
        patched.setattr("regard.tasks.base.job.build_trainer", stopping)
        assert fit(plain, tmp_path / "parted").stopped == signal.SIGINT
    assert fit(None, tmp_path / "parted", resume=True).step == 12  # type: ignore[arg-type]
    for name in ("model.safetensors", "checkpoint.safetensors"):
        assert same(tmp_path / "whole", tmp_path / "parted", name)
    one, other = (
        [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in read_log(folder)]
        for folder in (tmp_path / "whole", tmp_path / "parted")
    )
    assert one == other


def test_what_is_kept_lies_between_the_start_and_what_was_learned(tmp_path: Path, start: Path) -> None:
    last = {"validate_every": 12}
    shares = {"none": 0.0, "some": 0.25}
    for name, share in shares.items():
        average = {"start": share, "decay": 0.5}
        fit(tuning(tmp_path, start, average=average, train=last), tmp_path / name)
    first, tuned, kept = (
        load_file(folder / "model.safetensors") for folder in (start, tmp_path / "none", tmp_path / "some")
    )
    for name, weight in kept.items():
        expected = tuned[name].double() + 0.25 * (first[name].double() - tuned[name].double())
        torch.testing.assert_close(weight.double(), expected, rtol=1e-6, atol=1e-7)


def test_nothing_is_kept_of_a_start_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"average\.start=0\.5, but without model.start"):
        fit(tiny.recipe(tmp_path / "corpus", average={"start": 0.5}), tmp_path / "out")


def test_batches_hold_the_share_of_general_text_that_was_asked_for(tmp_path: Path, start: Path) -> None:
    found = prepared(tuning(tmp_path, start), tmp_path / "out")
    own, general = found.counts.used, found.general
    assert own == 20
    assert general is not None
    assert general.used == 200
    plan, tokens = found.feed.plan, [0, 0]
    for epoch in range(60):
        for step in range(plan.steps(epoch)):
            for batch in plan.batches(epoch, step):
                for mixed in (False, True):
                    tokens[mixed] += int(plan.lengths[1, batch[(batch >= own) == mixed]].sum())
    assert tokens[1] / sum(tokens) == pytest.approx(0.4, abs=0.02)


def test_general_text_is_read_as_it_stands(tmp_path: Path, start: Path) -> None:
    found = prepared(tuning(tmp_path, start), tmp_path / "out")
    tokenizer, texts = found.tokenizer, set()
    for step in range(1, 30):
        for _, batch in found.feed.parts(step):
            offsets = batch.inputs.layout.offsets.tolist()
            for begin, end in pairwise(offsets):
                texts.add(tokenizer.decode(batch.inputs.ids[begin:end]))
    known = {target for _, target in [*tiny.pairs(200), *tiny.pairs(20, start=500)]}
    assert texts <= known
    assert {target for _, target in tiny.pairs(20, start=500)} <= texts


def test_without_a_start_the_vocabulary_is_learned_from_both(tmp_path: Path) -> None:
    plain = tiny.recipe(tmp_path / "corpus")
    plain["data"]["mix"] = {"train": tiny.write_pairs(tmp_path / "corpus", "mix", [("zebra", "zebra")] * 20)}
    found = prepared(plain, tmp_path / "out")
    assert "zebra" in found.tokenizer.vocabulary
    assert found.start is None


def test_what_is_started_from_is_said(tmp_path: Path, start: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    run.dry_run(tuning(tmp_path, start), device="cpu", console=console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"starts from {start}" in told
    assert "mixed in: " in told
    assert "of 200 general pairs an epoch, for 40% of its target tokens" in told


def test_the_doctor_reads_general_text_with_the_starts_tokenizer(tmp_path: Path, start: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(tuning(tmp_path, start)))
    console = Console(file=io.StringIO(), width=200)
    report = check(tmp_path / "recipe.toml", [], None, console=console)
    assert report.splits["train"].pairs == 220  # type: ignore[union-attr]
    assert f"starts from {start}" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("table", "values", "told"),
    [
        ("model", {"layers": 3}, "layers=3 beside start"),
        ("model", {"encoder_layers": 3}, "encoder_layers=3 beside start"),
        ("model", {"tied": False}, "tied=False beside start"),
        ("tokenizer", {"vocabulary": 50}, "tokenizer.vocabulary is set beside model.start"),
        ("data", {"mix": {"train": ["a", "b"], "share": 1.0}}, "share=1.0 must be above 0 and below 1"),
    ],
)
def test_what_cannot_be_beside_a_start_is_refused(
    tmp_path: Path, start: Path, table: str, values: dict[str, Any], told: str
) -> None:
    plain = tuning(tmp_path, start)
    plain[table] = {**plain.get(table, {}), **values}
    with pytest.raises(ConfigError, match=told):
        as_recipe(plain)


def test_languages_are_those_of_the_start(tmp_path: Path, start: Path) -> None:
    plain = tuning(tmp_path, start, mixed=False)
    for split in ("train", "valid"):
        plain["data"][split] = [*plain["data"][split], "de"]
    with pytest.raises(ConfigError, match=r"names the target language 'de', but .* it writes one language"):
        prepared(plain, tmp_path / "out")
    several = tiny.recipe(tmp_path / "several", train={"steps": 1})
    for split in ("train", "valid"):
        several["data"][split] = [*several["data"][split], "de"]
    fit(several, tmp_path / "multi")
    plain["model"] = {"start": str(tmp_path / "multi")}
    assert prepared(plain, tmp_path / "right").languages == ("de",)
    bare = tuning(tmp_path, tmp_path / "multi", mixed=False)
    with pytest.raises(ConfigError, match="writes de, but the files of data do not say which"):
        prepared(bare, tmp_path / "bare")


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory, start: Path) -> Path:
    place = tmp_path_factory.mktemp("adapted")
    rate = {"learning_rate": 0.02}
    plain = tuning(place, start, model={"adapter": {"rank": 2, "alpha": 8.0}}, optimizer=rate)
    plain["data"]["test"] = plain["data"]["valid"]
    fit(plain, place / "out")
    return place / "out"


TEXTS = [source for source, _ in tiny.pairs(30, start=700)]


def test_an_adapter_beside_its_base_is_the_model_that_was_trained(start: Path, adapted: Path) -> None:
    base, whole = (open_translator(each, device="cpu") for each in (start, adapted))
    beside = base.with_adapter(adapted / "adapter")
    assert not same(start, adapted)
    for one, other in zip(beside.translate(TEXTS), whole.translate(TEXTS), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)
    before = [each.score for each in base.translate(TEXTS)]
    assert before != pytest.approx([each.score for each in beside.translate(TEXTS)], abs=1e-2)
    assert [each.text for each in base.with_adapter(adapted).translate(TEXTS)] == [
        each.text for each in beside.translate(TEXTS)
    ]


def test_an_adapter_is_small_and_the_model_beside_it_whole(start: Path, adapted: Path) -> None:
    names = {each.name for each in (adapted / "adapter").iterdir()}
    assert names == {"adapter.safetensors", "config.json"}
    own = load_file(adapted / "adapter" / "adapter.safetensors")
    assert all(name.endswith((".down", ".up")) and 2 in weight.shape for name, weight in own.items())
    assert load_file(adapted / "model.safetensors").keys() == load_file(start / "model.safetensors").keys()
    assert "test" in json.loads((adapted / "metrics.json").read_text())


def test_an_adapter_that_learned_nothing_is_none(tmp_path: Path, start: Path) -> None:
    plain = tuning(tmp_path, start, model={"adapter": {"rank": 3}}, optimizer={"learning_rate": 0.0})
    fit(plain, tmp_path / "out")
    assert same(start, tmp_path / "out")
    base = open_translator(start, device="cpu")
    beside = base.with_adapter(tmp_path / "out")
    for one, other in zip(base.translate(TEXTS), beside.translate(TEXTS), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, rel=1e-6)  # other kernels, without adapters


def test_an_adapter_is_refused_by_any_other_model(tmp_path: Path, adapted: Path, start: Path) -> None:
    with pytest.raises(FolderError, match="beside the weights of another model"):
        open_translator(adapted, device="cpu").with_adapter(adapted)
    with pytest.raises(FolderError, match=r"no adapter\.safetensors there"):
        open_translator(start, device="cpu").with_adapter(tmp_path)
    with pytest.raises(FolderError, match="load the model in that"):
        open_translator(start, device="cpu", precision="int8").with_adapter(adapted)


def test_a_damaged_adapter_is_refused(tmp_path: Path, adapted: Path, start: Path) -> None:
    base, own = open_translator(start, device="cpu"), tmp_path / "adapter"
    shutil.copytree(adapted / "adapter", own)
    path = own / "adapter.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])  # still a number
    with pytest.raises(FolderError, match=r"adapter\.safetensors: damaged"):
        base.with_adapter(own)
    path.write_bytes(whole)
    base.with_adapter(own)
    held = load_file(path)
    first = min(name for name in held if name.endswith(".down"))
    without = {name: weight for name, weight in held.items() if name != first}
    for weights, told in (
        (without, rf"missing \['{first}'\], unknown \[\]"),
        ({**held, "x.down": torch.ones(2, 16)}, r"missing \[\], unknown \['x.down'\]"),
        ({**held, "x.down": torch.ones(1)}, r"x\.down of shape \[1\] is no adapter of rank 2"),
        (
            {**held, first: held[first][:1].contiguous()},
            rf"{first} of shape \[1, 16\] is no adapter of rank 2",
        ),
        (
            {**held, first: held[first][:, :1].contiguous()},
            rf"{first} has the shape \[2, 1\], where \[2, 16\]",
        ),
    ):
        save_file(weights, path, of_weights(weights))
        with pytest.raises(FolderError, match=told):
            base.with_adapter(own)


def test_a_run_without_adapters_leaves_none_of_the_run_before(tmp_path: Path, start: Path) -> None:
    fit(tuning(tmp_path, start, model={"adapter": {"rank": 2}}), tmp_path / "out")
    fit(tuning(tmp_path, start), tmp_path / "out", overwrite=True)
    with pytest.raises(FolderError, match=r"no adapter\.safetensors there"):
        open_translator(start, device="cpu").with_adapter(tmp_path / "out")
    assert {each.state for each in verify(tmp_path / "out")} == {"whole"}


@pytest.mark.parametrize("lost", ["adapter.safetensors", "config.json"])
def test_an_adapter_of_which_a_part_is_lost_is_damaged(tmp_path: Path, adapted: Path, lost: str) -> None:
    folder = shutil.copytree(adapted, tmp_path / "own")
    assert {each.state for each in verify(folder)} == {"whole"}
    (folder / "adapter" / lost).unlink()
    for each in (folder, folder / "adapter"):
        assert [found.file.name for found in verify(each) if found.state == "damaged"][:1] == [lost]


def test_a_prompt_may_name_an_adapter(start: Path, adapted: Path) -> None:
    pages = []
    for model, adapter in ((start, adapted), (adapted, None)):
        page = io.StringIO()
        translate(model, ["a red house", "big dog"], out=page, device="cpu", adapter=adapter)
        pages.append(page.getvalue())
    assert pages[0] == pages[1] != ""


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"optimizer": {"kind": "muon"}}, "beside model.adapter: choose adam"),
        ({"average": {"start": 0.5}}, "average.start=0.5 beside model.adapter"),
        ({"model": {"adapter": {"rank": -1}}}, "adapter.rank=-1 must be 0 or more"),
        ({"model": {"start": "", "adapter": {"rank": 2}}}, "without start there is nothing to be adapted"),
    ],
)
def test_what_adapters_cannot_do_is_refused(
    tmp_path: Path, start: Path, tables: dict[str, Any], told: str
) -> None:
    plain = tuning(tmp_path, start, **{"model": {"adapter": {"rank": 2}}, **tables})
    with pytest.raises(ConfigError, match=told):
        as_recipe(plain)
