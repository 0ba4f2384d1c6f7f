"""A corpus through a model: the same as all at once, whoever works and whoever is killed."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.config import ConfigError
from regard.corpus import commands, local, running
from regard.corpus.folder import OutFolder
from regard.corpus.work import ShardWork
from regard.tasks.embedding.commands import embed
from regard.text import DataError
from tests.corpus.corpora import corpus, done, files, parts, vectors
from tests.corpus.dying import die
from tests.corpus.processes import lives, started, wait_for, workers


@pytest.fixture
def whole(tiny, lines, tmp_path) -> np.ndarray:
    """What `regard embed` gives for the file."""
    with pytest.warns(UserWarning, match="longer than 64 tokens"):
        embed(tiny["embedder"], str(lines), tmp_path / "whole.npy", device="cpu", console=Console(quiet=True))
    return np.load(tmp_path / "whole.npy")


@pytest.mark.parametrize("tokens", [40, 300, 100_000])
def test_shards_are_what_embed_gives_for_the_whole_to_the_bit(tiny, lines, whole, tmp_path, tokens):
    found = corpus("embed", tiny["embedder"], lines, tmp_path / "out", shard_tokens=tokens)
    assert np.array_equal(vectors(tmp_path / "out"), whole)
    assert len(parts(tmp_path / "out", "npy")) == found.manifest["shards"]
    assert (tokens < 1000) == (found.manifest["shards"] > 5)


def test_the_number_of_workers_changes_nothing(tiny, lines, whole, tmp_path):
    for count in (1, 2, 3):
        corpus("embed", tiny["embedder"], lines, tmp_path / f"{count}", workers=count, engine="local")
        assert np.array_equal(vectors(tmp_path / f"{count}"), whole)
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")


def test_the_manifest_tells_what_was_done_with_what(tiny, lines, sentences, tmp_path):
    found = corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest == {**found.manifest, "format": "regard corpus 1"}
    assert manifest["state"] == "done"
    assert manifest["counts"]["rows"] == len(sentences) == sum(part["rows"] for part in manifest["parts"])
    assert manifest["counts"]["bad"] == 0
    assert manifest["flags"]["blank"] == sum(not each.strip() for each in sentences)
    assert manifest["flags"]["cut"] == 4
    assert manifest["inputs"][0]["address"] == str(lines)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_vectors_take_the_place_of_no_pipe(tiny, lines, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"vectors are written to a file; give --out NAME\.npy"):
        embed(tiny["embedder"], str(lines), tmp_path / "pipe", device="cpu", console=Console(quiet=True))
    assert (tmp_path / "pipe").is_fifo()


def test_what_is_done_is_not_done_again(tiny, lines, tmp_path):
    first = corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    before = {path.name: path.stat().st_mtime_ns for path in parts(tmp_path / "out", "npy")}
    again = corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    assert (first.worked, again.worked) == (first.manifest["shards"], 0)
    lost = parts(tmp_path / "out", "npy")[2]
    content = lost.read_bytes()
    lost.unlink()
    assert corpus("embed", tiny["embedder"], lines, tmp_path / "out").worked == 1
    assert lost.read_bytes() == content
    after = {path.name: path.stat().st_mtime_ns for path in parts(tmp_path / "out", "npy")}
    assert {name for name in before if before[name] != after[name]} == {lost.name}


def test_another_model_input_or_setting_is_refused_unless_it_may_overwrite(tiny, lines, tmp_path):
    out = tmp_path / "out"
    corpus("embed", tiny["embedder"], lines, out)
    with pytest.raises(ConfigError, match=r"another model .* --overwrite"):
        corpus("embed", tiny["tagger"], lines, out)
    with pytest.raises(ConfigError, match=r"shard_tokens=300, not 200; .*--overwrite"):
        corpus("embed", tiny["embedder"], lines, out, shard_tokens=200)
    with pytest.raises(ConfigError, match=r"other files; .*--overwrite"):
        corpus("embed", tiny["embedder"], [lines, _more(lines)], out)
    changed = lines.read_text().replace("a", "b", 1)
    lines.write_text(changed)
    with pytest.raises(ConfigError, match=r"lines\.txt is not what it was .*--overwrite"):
        corpus("embed", tiny["embedder"], lines, out)
    before = files(out)
    corpus("embed", tiny["embedder"], lines, out, overwrite=True)
    assert files(out) != before
    corpus("embed", tiny["embedder"], lines, tmp_path / "anew")
    assert files(out) == files(tmp_path / "anew")


def test_who_stops_it_is_told_that_it_goes_on(tiny, lines, tmp_path, monkeypatch, capsys):
    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run", stopped)
    own = dict.fromkeys(commands.OWN) | {"device": "cpu", "engine": "auto", "overwrite": False}
    with pytest.raises(KeyboardInterrupt):
        commands.embed(inputs=[str(lines)], folder=tmp_path / "out", model=tiny["embedder"], **own)
    assert capsys.readouterr().err == "stopped; the same command goes on with what is not done\n"


def test_a_command_that_came_to_nothing_is_mended_without_overwriting(tiny, lines, tmp_path):
    out = tmp_path / "out"
    for model, settings in ((tiny["embedder"], {"layer": 99}), (tiny["translator"], {})):
        with pytest.raises(ValueError, match=r"layer=99|a model for the task"):
            corpus("embed", model, lines, out, settings=settings)
    corpus("embed", tiny["embedder"], lines, out)
    corpus("embed", tiny["embedder"], lines, tmp_path / "anew")
    assert files(out) == files(tmp_path / "anew")


def test_the_device_that_was_found_is_a_setting_like_any_other(tiny, lines, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(running, "find_device", lambda wanted: "cpu" if wanted == "auto" else wanted)
    found = corpus("embed", tiny["embedder"], lines, out, device="auto")
    assert found.manifest["settings"]["device"] == "cpu"
    assert corpus("embed", tiny["embedder"], lines, out, device="cpu").worked == 0
    monkeypatch.setattr(running, "find_device", lambda wanted: "cuda" if wanted == "auto" else wanted)
    with pytest.raises(ConfigError, match=r"device='cpu', not 'cuda'; .*--overwrite"):
        corpus("embed", tiny["embedder"], lines, out, device="auto")


def test_another_version_does_not_go_on_but_leaves_what_is_done(tiny, lines, tmp_path, monkeypatch):
    out = tmp_path / "out"
    corpus("embed", tiny["embedder"], lines, out)
    monkeypatch.setattr(running, "__version__", "99.0")
    assert corpus("embed", tiny["embedder"], lines, out).worked == 0
    parts(out, "npy")[0].unlink()
    with pytest.raises(ConfigError, match=r"begun by regard .*, this is 99\.0: .*--overwrite"):
        corpus("embed", tiny["embedder"], lines, out)


def test_a_file_that_is_written_while_it_is_read_ends_the_run(tiny, lines, tmp_path, monkeypatch):
    out, before = tmp_path / "out", lines.read_bytes()
    computed = ShardWork._computed

    def writing(self, records, progress):
        lines.write_bytes(before.replace(b"a", b"b"))
        return computed(self, records, progress)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ShardWork, "_computed", writing)
        with pytest.raises(DataError, match=r"lines\.txt: was written again while it was read"):
            corpus("embed", tiny["embedder"], lines, out)
    assert json.loads((out / "manifest.json").read_text())["state"] == "working"
    with pytest.raises(ConfigError, match=r"lines\.txt is not what it was"):
        corpus("embed", tiny["embedder"], lines, out)
    lines.write_bytes(before)
    corpus("embed", tiny["embedder"], lines, out)
    corpus("embed", tiny["embedder"], lines, tmp_path / "anew")
    assert files(out) == files(tmp_path / "anew")


def _more(lines: Path) -> Path:
    path = lines.with_name("more.txt")
    path.write_text("one more\n")
    return path


def test_a_file_that_was_only_touched_is_the_same(tiny, lines, tmp_path):
    corpus("embed", tiny["embedder"], lines, tmp_path / "out")
    os.utime(lines)
    assert corpus("embed", tiny["embedder"], lines, tmp_path / "out").worked == 0


def test_a_folder_with_other_files_and_one_that_is_worked_in_are_refused(tiny, lines, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds other files \(thesis\.txt\)"):
        corpus("embed", tiny["embedder"], lines, tmp_path / "mine")
    with OutFolder(tmp_path / "out").locked(), pytest.raises(ConfigError, match="another process"):
        corpus("embed", tiny["embedder"], lines, tmp_path / "out")


@pytest.mark.parametrize("left", ["the manifest is gone", "marks and shards are there as well"])
def test_shards_of_another_model_are_never_taken_for_done(left, tiny, lines, tmp_path, monkeypatch):
    """Whoever is killed while a folder is cleared, or loses its manifest."""
    out, other = tmp_path / "out", {"settings": {"pool": "max"}}
    corpus("embed", tiny["embedder"], lines, out)
    (out / "manifest.json").unlink()
    if left != "the manifest is gone":
        monkeypatch.setattr(OutFolder, "clear", lambda self: None)
    found = corpus("embed", tiny["embedder"], lines, out, **other)
    assert found.worked == found.manifest["shards"]
    corpus("embed", tiny["embedder"], lines, tmp_path / "anew", **other)
    assert files(out) == files(tmp_path / "anew")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["part-000000.npy", "manifest.json", "bad.jsonl"])
def test_files_of_others_are_neither_written_over_nor_removed(name, overwrite, tiny, lines, tmp_path):
    """However they are called."""
    out = tmp_path / "mine"
    out.mkdir()
    (out / name).write_text('{"of": "others"}')
    (out / "part-000000.parquet").write_text("of others")
    before = files(out), (out / name).read_bytes()
    with pytest.raises(ConfigError, match="choose an empty or a new folder"):
        corpus("embed", tiny["embedder"], lines, out, overwrite=overwrite)
    assert (files(out), (out / name).read_bytes()) == before


def test_what_lies_in_a_models_folder_and_is_no_model_changes_nothing(tiny, lines, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny["embedder"], model)
    corpus("embed", model, lines, model / "vectors")
    corpus("classify", tiny["classifier"], lines, model / "labels")
    for name in ("checkpoint-12/state.json", ".cache/x.json"):
        (model / name).parent.mkdir()
        (model / name).write_text("{}")
    assert corpus("embed", model, lines, model / "vectors").worked == 0
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(settings, indent=7))
    with pytest.raises(ConfigError, match="made by another model"):
        corpus("embed", model, lines, model / "vectors")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found by /proc")
def test_a_worker_and_a_driver_that_are_killed_leave_the_output_as_it_would_be(tiny, lines, whole, tmp_path):
    out = tmp_path / "out"
    with started("embed", tiny["embedder"], lines, out, "--workers", "2", "--engine", "local") as driver:
        wait_for(out, 1, driver)
        os.kill(workers(driver.pid, "local")[0], signal.SIGKILL)
        wait_for(out, 4, driver)
        working = workers(driver.pid, "local")
        driver.kill()
    until = time.monotonic() + 20
    while any(map(lives, working)):
        assert time.monotonic() < until, "workers outlive who started them"
        time.sleep(0.01)
    there = done(out)
    corpus("embed", tiny["embedder"], lines, out)
    assert np.array_equal(vectors(out), whole)
    kept = {path.name: path.stat().st_mtime_ns for path in parts(out, "npy") if path.name in there}
    assert kept == there, "a shard was done twice"


def test_a_shard_that_kills_every_worker_is_told(tiny, lines, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_serve", die)
    with pytest.raises(local.WorkerError, match=r"shard [01] .*lines\.txt:\d+ on.* has cost 3 workers"):
        corpus("embed", tiny["embedder"], lines, tmp_path / "out", workers=2, engine="local")


def test_what_a_worker_raises_is_raised_here(tiny, lines, tmp_path):
    with pytest.raises(ValueError, match="layer=9: there are 0"):
        corpus("embed", tiny["embedder"], lines, tmp_path / "out", workers=2, settings={"layer": 9})


@pytest.mark.parametrize("gpus", [0, 1, 3])
def test_each_worker_has_a_gpu_of_its_own_where_there_are_some(gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    for device in ("auto", "cuda"):
        assert local.default_workers(device) == max(gpus, 1)
        given = [local.device_of(device, number) for number in range(4)]
        assert given == ([f"cuda:{number % gpus}" for number in range(4)] if gpus else [device] * 4)
    for device in ("cpu", "cuda:1"):
        assert local.default_workers(device) == 1
        assert local.device_of(device, 2) == device
