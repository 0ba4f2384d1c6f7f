"""Translators that are trained with near matches behind their sources."""

import io
import json
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from regard.config import ConfigError, write_toml
from regard.memory import Memory, Segment, recall
from regard.memory.words import score
from regard.tasks import run
from regard.tasks.base.folder import FolderError
from regard.tasks.check import check
from regard.tasks.registry import as_recipe
from regard.tasks.translation.commands import translate
from regard.tasks.translation.data import build_store
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.train import Prepared, read_corpus
from regard.train.ranks import Ranks
from tests.tasks import tiny

WORDS = ["ash", "bay", "cat", "dew", "elm", "fog", "gem", "hay", "ink", "jet", "kin", "log"]
LENGTH = 6


def dialect(words: list[str], ending: str) -> str:
    return " ".join(f"{word}{ending}" for word in words)


def twins(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences two by two, with one word apart, and translated into one of two dialects: which one, only the
    translation of the other tells."""
    chance, found = random.Random(seed), []
    for _ in range(count):
        words = chance.choices(WORDS, k=LENGTH)
        other = [*words]
        other[chance.randrange(LENGTH)] = chance.choice(WORDS)
        ending = chance.choice("ao")
        if words != other:
            found += [(" ".join(each), dialect(each, ending)) for each in (words, other)]
    return found


def recipe(folder: Path, **fuzzy: Any) -> dict[str, Any]:
    return tiny.recipe(folder, data={"fuzzy": {"share": 0.5, "at_least": 60, **fuzzy}})


def prepared(plain: dict[str, Any], out: Path, said: io.StringIO | None = None) -> Prepared:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    return read_corpus(as_recipe(plain), out, ranks, Console(file=said or io.StringIO(), width=300))


def sources_of(found: Prepared) -> list[list[int]]:
    column = found.feed._source
    return [column.gather(np.array([i])).tolist() for i in range(len(column.lengths))]


def fit(plain: dict[str, Any], out: Path, **how: Any) -> Any:
    return run.fit(plain, out=out, device="cpu", check=False, console=Console(file=io.StringIO()), **how)


def nearest(text: str, texts: list[tuple[str, str]], at_least: int) -> str | None:
    """By a scan over everything; of equals, the first."""
    scored = [(score(text, source), target) for source, target in texts if source != text]
    best = max((each for each, _ in scored), default=0)
    return next(target for each, target in scored if each == best) if best >= at_least else None


def test_sources_have_the_nearest_translation_behind_them(tmp_path: Path) -> None:
    found = prepared(recipe(tmp_path, share=1.0), tmp_path / "out")
    own, pairs = found.tokenizer, tiny.pairs(200)
    between, end, matched = own.ids.extra["<match>"], own.require("end"), 0
    for (source, _), ids in zip(pairs, sources_of(found), strict=True):
        near = nearest(source, pairs, 60)
        matched += near is not None
        behind = [] if near is None else [between, *own.encode(near).ids]
        assert ids == [*own.encode(source).ids, *behind, end]
    assert 50 < matched < 200
    assert found.counts.matched == matched
    assert found.fuzzy is not None
    assert found.fuzzy.longest == max(map(len, sources_of(found)))
    assert found.longest == 1 + max(len(source.split()) for source, _ in pairs)
    valid, counts = build_store(found.corpus, "valid", own, tmp_path / "valid")
    assert between not in valid["source"].values
    assert counts.matched == 0


def test_a_share_is_looked_up_by_text_and_seed(tmp_path: Path) -> None:
    def matched(name: str, **fuzzy: Any) -> set[int]:
        found = prepared(recipe(tmp_path / "text", **fuzzy), tmp_path / name)
        between = found.tokenizer.ids.extra["<match>"]
        return {i for i, ids in enumerate(sources_of(found)) if between in ids}

    every, half, other = matched("1", share=1.0), matched("2"), matched("3", seed=1)
    assert half < every
    assert other < every
    assert half != other
    assert len(half) / len(every) == pytest.approx(0.5, abs=0.15)
    assert matched("4", share=1.0, at_least=80) < every


def test_a_memory_in_the_place_of_the_text(tmp_path: Path) -> None:
    (source, target), *_ = tiny.pairs(200)
    with Memory(tmp_path / "company.db", create=True) as memory:
        memory.add(
            [
                Segment(source, target, "en", "de"),
                Segment(f"{source} dog", "ein hund", "en", "de"),
                Segment(f"{source} dog", "ein baum", "en", "fr"),
            ]
        )
    plain = recipe(tmp_path, share=1.0, memory="company.db", languages="en:de")
    found = prepared(plain, tmp_path / "out")
    own = found.tokenizer
    behind = [own.ids.extra["<match>"], *own.encode("ein hund").ids, own.require("end")]
    assert sources_of(found)[0] == [*own.encode(source).ids, *behind]
    plain["data"]["fuzzy"]["languages"] = "en:fr"
    assert sources_of(prepared(plain, tmp_path / "out"))[0][-2] == own.encode("baum").ids[0]
    del plain["data"]["fuzzy"]["languages"]
    with pytest.raises(ValueError, match="which languages"):
        prepared(plain, tmp_path / "other")


def test_each_target_language_has_its_own_matches(tmp_path: Path) -> None:
    texts = {"de": [("a b c d", "A B C D"), ("a b c e", "A B C E")], "fr": [("a b c f", "X Y Z F")]}
    files = [[*tiny.write_pairs(tmp_path, to, pairs), to] for to, pairs in texts.items()]
    plain = recipe(tmp_path, share=1.0)
    plain["data"] |= {"train": files, "valid": files}
    found = prepared(plain, tmp_path / "out")
    read = [found.tokenizer.decode(ids, skip_specials=False) for ids in sources_of(found)]
    assert [text.split("<match>")[-1].split()[:4] for text in read[:2]] == [[*"ABCE"], [*"ABCD"]]
    assert "<match>" not in read[2]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none of 200 sources has a near match of 99 %"):
        prepared(recipe(tmp_path, at_least=99), tmp_path / "out")
    for wrong in ({"share": 2}, {"at_least": 100}, {"share": 0, "memory": "m.db"}, {"languages": "en:de"}):
        with pytest.raises(ConfigError):
            as_recipe(recipe(tmp_path, **wrong))
    with pytest.raises(ConfigError, match="en:de"):
        as_recipe(recipe(tmp_path, memory="m.db", languages="en"))
    fit(tiny.recipe(tmp_path, train={"steps": 1}), tmp_path / "plain")
    plain = recipe(tmp_path)
    plain["model"] = {"start": str(tmp_path / "plain")}
    del plain["tokenizer"]
    with pytest.raises(ConfigError, match="its tokenizer has no <match>"):
        prepared(plain, tmp_path / "tuned")


def test_a_check_and_a_training_tell(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(recipe(tmp_path)))
    console = Console(file=io.StringIO(), width=300)
    report = check(tmp_path / "recipe.toml", [], None, console=console)
    assert any("sources have a near match of 60 % or more; 50% of all" in note for note in report.notes)
    said = io.StringIO()
    found = prepared(recipe(tmp_path), tmp_path / "out", said)
    assert f"near matches: {found.counts.matched} of 200 sources have one behind them" in said.getvalue()
    said = io.StringIO()
    run.dry_run(recipe(tmp_path), device="cpu", console=Console(file=said, width=300))
    assert "near matches: " in said.getvalue()
    assert "[data.fuzzy]" in said.getvalue()


def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = recipe(tmp_path)
    plain["train"] = {**plain["train"], "steps": 12, "validate_every": 4}
    fit(plain, tmp_path / "whole")
    build = run.build_trainer

    def stopping(*given: Any) -> Any:
        trainer = build(*given)
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
    for name in ("tokens", "tokens.json"):  # as if somebody had tidied up: they are made again
        path = tmp_path / "parted" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert fit(None, tmp_path / "parted", resume=True).step == 12
    for name in ("model.safetensors", "checkpoint.safetensors"):
        whole, parted = (load_file(tmp_path / each / name) for each in ("whole", "parted"))
        assert all(torch.equal(whole[key], parted[key]) for key in whole)


def test_another_memory_is_another_text(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", create=True) as memory:
        memory.add(
            Segment(f"{source} dog", f"{target} hund", "en", "de") for source, target in tiny.pairs(200)
        )
    plain = recipe(tmp_path, memory="m.db", share=1.0)
    plain["train"] = {**plain["train"], "steps": 2}
    fit(plain, tmp_path / "out")
    with Memory(tmp_path / "m.db") as memory:
        memory.add([Segment("something new", "etwas neues", "en", "de")])
    with pytest.raises(ConfigError, match="begun with other text"):
        fit({**plain, "train": {**plain["train"], "steps": 4}}, tmp_path / "out", resume=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained with matches, in seconds."""
    place = tmp_path_factory.mktemp("dialects")
    plain = tiny.recipe(
        place,
        data={
            "train": tiny.write_pairs(place, "twins", twins(1000, seed=0)),
            "valid": tiny.write_pairs(place, "valid", twins(20, seed=1)),
            "fuzzy": {"share": 0.8, "at_least": 80},
        },
        tokenizer={"kind": "words", "vocabulary": 100},
        model={"d_model": 32, "heads": 2, "layers": 1, "d_ff": 64, "dropout": 0.0, "norm": "pre"},
        batch={"tokens": 512},
        optimizer={"warmup": 30, "learning_rate": 1e-2},
        train={"steps": 600, "validate_every": 600, "log_every": 100},
        average={"decay": 0.98},
    )
    fit(plain, place / "run")
    return place / "run"


def test_a_model_writes_as_its_match_does(folder: Path, tmp_path: Path) -> None:
    translator = open_translator(folder, device="cpu")
    pairs = twins(40, seed=2)
    with Memory(tmp_path / "m.db", create=True) as memory:
        memory.add(Segment(*pair, "en", "de") for pair in pairs[::2])
    aid = recall(tmp_path / "m.db", "en", "de", at_least=60)
    texts, wanted = [source for source, _ in pairs[1::2]], [target for _, target in pairs[1::2]]
    found = translator.translate(texts, memory=aid)
    assert all(each.match_given and not each.remembered for each in found)
    right = sum(each.text == target for each, target in zip(found, wanted, strict=True))
    alone = translator.translate(texts)
    guessed = sum(each.text == target for each, target in zip(alone, wanted, strict=True))
    assert right > 0.9 * len(texts)
    assert guessed < 0.8 * len(texts)


def test_commands_give_matches_and_tell(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (source, target), (other, _), *_ = twins(1, seed=5)
    with Memory(tmp_path / "m.db", create=True) as memory:
        memory.add([Segment(source, target, "en", "de")])
    far = "ash ash log"
    lines = [source, other, far]

    def said(**how: Any) -> list[dict[str, Any]]:
        page = io.StringIO()
        translate(folder, lines, out=page, device="cpu", as_json=True, **how)
        return [json.loads(line) for line in page.getvalue().splitlines()]

    exact, near, none = said(memory=tmp_path / "m.db", align=True)
    assert (exact["text"], exact["remembered"], exact["match_given"]) == (target, True, False)
    assert (near["remembered"], near["match_given"], near["matches"][0]["score"]) == (False, True, 83)
    assert {link[0] for link in near["alignment"]} <= {*range(LENGTH)}, "of the source, not of the match"
    assert (none["match_given"], none["matches"]) == (False, [])
    assert "1 of 3 lines were given a near match" in capfd.readouterr().err
    alone = said()
    assert none["text"] == alone[2]["text"]
    assert "match_given" not in alone[1]
    listed = said(memory=tmp_path / "m.db", memory_use="never")
    assert [each["text"] for each in listed] == [each["text"] for each in alone]
    assert not any(each["match_given"] for each in listed)


def test_matches_that_do_not_fit_are_left_out(folder: Path, tmp_path: Path) -> None:
    translator = open_translator(folder, device="cpu")
    (source, _), (other, _), *_ = twins(1, seed=5)
    with Memory(tmp_path / "m.db", create=True) as memory:
        memory.add([Segment(source, dialect(WORDS * 2, "a"), "en", "de")])
    aid = recall(tmp_path / "m.db", "en", "de")
    found = translator.translate(other, memory=aid)
    assert (found.match_given, found.matches[0].score) == (False, 83)
    assert found.text == translator.translate(other).text
    parted = translator.translate(f"{other}. {other}", memory=aid, split="always")
    assert not parted.match_given


def test_the_folder_remembers(folder: Path, tmp_path: Path) -> None:
    longest = 2 * LENGTH + 2
    config = json.loads((folder / "config.json").read_text())
    assert config["fuzzy"] == {"at_least": 80, "longest": longest}
    assert config["longest"] == LENGTH + 1
    translator = open_translator(folder, device="cpu")
    assert translator.about()["fuzzy"] == config["fuzzy"]
    assert translator.with_model(translator.model).fuzzy == translator.fuzzy
    wrong = tmp_path / "wrong"
    shutil.copytree(folder, wrong)
    config["fuzzy"]["at_least"] = 1000
    (wrong / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError):
        open_translator(wrong, device="cpu")


def test_a_tuned_model_still_takes_matches(folder: Path, tmp_path: Path) -> None:
    own = tiny.write_pairs(tmp_path, "own", twins(20, seed=7))
    plain = {
        "data": {"train": own, "valid": own, "root": str(tmp_path)},
        "model": {"start": str(folder)},
        "batch": {"tokens": 128},
        "train": {"steps": 2, "validate_every": 2},
        "valid": {"sentences": 2},
    }
    found = prepared(plain, tmp_path / "out")
    assert found.fuzzy == open_translator(folder, device="cpu").fuzzy
    assert found.counts.matched == 0
    plain["data"] |= {"fuzzy": {"share": 1.0, "at_least": 75}}
    found = prepared(plain, tmp_path / "again")
    assert found.counts.matched > 30
    assert found.fuzzy is not None
    assert found.fuzzy.at_least == 75
