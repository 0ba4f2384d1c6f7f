"""Translators that are told, inside their sources, what terms become."""

import io
import json
import random
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose as assert_close
from rich.console import Console

from regard.config import ConfigError, write_toml
from regard.tasks.base.folder import FolderError
from regard.tasks.check import check
from regard.tasks.registry import as_recipe
from regard.tasks.translation.commands import translate
from regard.tasks.translation.data import build_store
from regard.tasks.translation.inline import with_terms
from regard.tasks.translation.lexicon import Lexicon
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.pieces import Source, own_weights
from regard.text import Specials, Tokenizer, TokenizerConfig
from regard.text.terms import Term, Terms, held
from tests.tasks import tiny
from tests.tasks.test_fuzzy import fit, prepared, sources_of

WORDS = ["ash", "bay", "cat", "dew", "elm", "fog", "gem", "hay", "ink", "jet", "kin", "log"]
LENGTH = 4


def text(count: int, seed: int) -> list[tuple[str, str]]:
    """Each word becomes one of two: which, nothing tells but a term."""
    chance, found = random.Random(seed), []
    for _ in range(count):
        words = chance.sample(WORDS, LENGTH)
        found.append((" ".join(words), " ".join(f"{word}{chance.choice('ao')}" for word in words)))
    return found


def recipe(folder: Path, **terms: Any) -> dict[str, Any]:
    return tiny.recipe(folder, data={"terms": {"share": 1.0, **terms}})


def glossary(folder: Path, *rows: tuple[str, str]) -> str:
    lines = "".join(f"{term}\t{translation}\n" for term, translation in rows)
    (folder / "terms.tsv").write_text(f"term\ttranslation\n{lines}", encoding="utf-8")
    return "terms.tsv"


def test_sources_have_the_terms_that_both_sides_have(tmp_path: Path) -> None:
    name = glossary(tmp_path, ("dog", "hund"), ("big tree", "gross baum"), ("red", "blau"))
    found = prepared(recipe(tmp_path, glossary=name), tmp_path / "out")
    own = found.tokenizer
    entries, annotated = {"dog": "hund", "big tree": "gross baum", "red": "blau"}, 0
    for (source, target), ids in zip(tiny.pairs(200), sources_of(found), strict=True):
        terms = Terms(entries).find(source)
        there = [term for term, how in zip(terms, held(target, terms), strict=True) if how]
        written, done = "", 0
        for term in there:
            word = source[term.start : term.end]
            written += f"{source[done : term.start]}<term> {word} <trans> {term.target} </term>"
            done = term.end
        annotated += bool(there)
        written = " ".join(f"{written}{source[done:]}".split())
        assert own.decode(ids[:-1], skip_specials=False).split() == written.split()
        assert ids[-1] == own.require("end")
    assert 50 < annotated < 200
    assert found.counts.annotated == annotated
    assert found.inline is not None
    assert found.inline.longest == max(map(len, sources_of(found)))
    assert found.longest == 1 + max(len(source.split()) for source, _ in tiny.pairs(200))
    valid, counts = build_store(found.corpus, "valid", own, tmp_path / "valid")
    assert own.ids.extra["<term>"] not in valid["source"].values
    assert counts.annotated == 0


def test_a_share_is_told_by_text_and_seed(tmp_path: Path) -> None:
    def told(name: str, **terms: Any) -> set[int]:
        found = prepared(recipe(tmp_path / "text", **terms), tmp_path / name)
        return {i for i, ids in enumerate(sources_of(found)) if found.tokenizer.ids.extra["<term>"] in ids}

    every, half, other = told("1"), told("2", share=0.5), told("3", share=0.5, seed=1)
    assert half < every
    assert other < every
    assert half != other
    assert len(half) / len(every) == pytest.approx(0.5, abs=0.15)


def test_without_a_glossary_terms_are_words_that_come_together(tmp_path: Path) -> None:
    found = prepared(recipe(tmp_path), tmp_path / "out")
    extra = found.tokenizer.ids.extra
    count = 0
    for ids in sources_of(found):
        words = found.tokenizer.decode(ids, skip_specials=False).split()
        for place, word in enumerate(words):
            if word == "<term>":
                one, between, other, end = words[place + 1 : place + 5]
                assert (between, end) == ("<trans>", "</term>")
                assert tiny.WORDS[one] == other
                count += 1
    assert count > 50
    assert {"<term>", "<trans>", "</term>"} <= {*extra}


def test_the_lexicon_is_dices_coefficient_counted_naively() -> None:
    pairs = [*tiny.pairs(100), *text(100, seed=3)]
    read, written = [{*source.split()} for source, _ in pairs], [{*target.split()} for _, target in pairs]

    def dice(one: str, other: str) -> float:
        both = sum(one in s and other in t for s, t in zip(read, written, strict=True))
        alone = sum(one in each for each in read) + sum(other in each for each in written)
        return 2 * both / alone if both >= 2 else 0.0

    known = [word for word in {*chain(*read)} if len(word) > 1]  # a letter is no word
    lexicon = Lexicon(pairs)
    for source, target in pairs[::10]:
        found = {each.target: source[each.start : each.end] for each in lexicon.terms(source, target)}
        wanted: dict[str, str] = {}
        for word in sorted({*target.split()}):
            best = max(known, key=lambda one: dice(one, word))
            once = source.split().count(best) == 1 and target.split().count(word) == 1
            if once and dice(best, word) >= max(0.3, dice(best, wanted.get(best, ""))):
                wanted[best] = word
        assert {one: word for word, one in found.items()} == wanted


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "words"])
def test_the_own_tokens_stay_whatever_the_tokenizer(kind: Any, tmp_path: Path) -> None:
    lines = ["The station, the Hauptbahnhof!", "Where is the station?", "stations of the hauptbahnhof"] * 3
    extra = ("<term>", "<trans>", "</term>")
    settings = {"kind": kind, "vocabulary": 330, "specials": Specials(extra=extra)}
    own = Tokenizer.train(lines, TokenizerConfig(**settings))
    source = "Where is the station?"
    plain = [*own.encode(source).ids, own.require("end")]
    ids, added = with_terms(own, plain, source, [Term(13, 20, "Hauptbahnhof")])
    told = {place for place, _ in added}
    assert [id for i, id in enumerate(ids) if i not in told] == plain
    inside = ids[ids.index(own.ids.extra["<trans>"]) + 1 : ids.index(own.ids.extra["</term>"])]
    assert inside == own.encode_batch(["Hauptbahnhof"])[0]
    before = ids[ids.index(own.ids.extra["<term>"]) + 1 : ids.index(own.ids.extra["<trans>"])]
    assert own.decode(before).strip() == "station"


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    name = glossary(tmp_path, ("dog", "katze"))
    with pytest.raises(ConfigError, match="none of 200 pairs has a term on both sides"):
        prepared(recipe(tmp_path, glossary=name), tmp_path / "out")
    for wrong in ({"share": 2}, {"share": 0, "glossary": name}, {"languages": "en:de"}):
        with pytest.raises(ConfigError):
            as_recipe(recipe(tmp_path, **wrong))
    with pytest.raises(ConfigError, match="en:de"):
        as_recipe(recipe(tmp_path, glossary=name, languages="en"))
    fit(tiny.recipe(tmp_path, train={"steps": 1}), tmp_path / "plain")
    plain = recipe(tmp_path)
    plain["model"] = {"start": str(tmp_path / "plain")}
    del plain["tokenizer"]
    with pytest.raises(ConfigError, match="its tokenizer has no <term>"):
        prepared(plain, tmp_path / "tuned")


def test_a_check_and_a_training_tell(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(recipe(tmp_path)))
    report = check(tmp_path / "recipe.toml", [], None, console=Console(file=io.StringIO(), width=300))
    assert any("pairs have a term on both sides; 100% of all" in note for note in report.notes)
    said = io.StringIO()
    found = prepared(recipe(tmp_path), tmp_path / "out", said)
    assert f"terms: {found.counts.annotated} of 200 sources have some inside" in said.getvalue()


def test_another_glossary_is_another_text(tmp_path: Path) -> None:
    plain = recipe(tmp_path, glossary=glossary(tmp_path, ("dog", "hund")))
    plain["train"] = {**plain["train"], "steps": 2}
    fit(plain, tmp_path / "out")
    glossary(tmp_path, ("dog", "hund"), ("red", "rot"))
    with pytest.raises(ConfigError, match="begun with other text"):
        fit({**plain, "train": {**plain["train"], "steps": 4}}, tmp_path / "out", resume=True)


def trained(place: Path, steps: int) -> Path:
    plain = tiny.recipe(
        place,
        data={
            "train": tiny.write_pairs(place, "forms", text(1500, seed=0)),
            "valid": tiny.write_pairs(place, "valid", text(20, seed=1)),
            "terms": {"share": 0.8},
        },
        tokenizer={"kind": "words", "vocabulary": 100},
        model={
            "d_model": 32,
            "heads": 2,
            "layers": 1,
            "d_ff": 64,
            "dropout": 0.0,
            "norm": "pre",
            "positions": "rotary",
        },
        batch={"tokens": 1024},
        optimizer={"warmup": 30, "learning_rate": 1e-2},
        train={"steps": steps, "validate_every": steps, "log_every": 100},
        average={"decay": 0.98},
        valid={"metric": "loss"},
    )
    fit(plain, place / "run")
    return place / "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is trained with terms, for a moment."""
    return trained(tmp_path_factory.mktemp("forms"), steps=30)


@pytest.mark.long
def test_a_model_writes_the_terms_that_it_is_told(tmp_path: Path) -> None:
    """By itself, without a second search."""
    translator = open_translator(trained(tmp_path, steps=2000), device="cpu")
    chance = random.Random(7)
    terms = {word: f"{word}{chance.choice('ao')}" for word in WORDS[::3]}
    texts = [source for source, _ in text(100, seed=5)]
    found = translator.translate(texts, glossary=terms, inflected=False, align=True)
    uses = [use for each in found for use in each.terms or ()]
    assert len(uses) > 80
    assert sum(use.how == "model" for use in uses) > 0.95 * len(uses)
    wanted = [Terms(terms).find(each) for each in texts]
    alone = [held(each.text, own) for each, own in zip(translator.translate(texts), wanted, strict=True)]
    assert sum(how is not None for each in alone for how in each) < 0.8 * len(uses)
    straight = sum(i == j for each in found for i, j in each.alignment or ())
    assert straight > 0.9 * sum(len(each.alignment or ()) for each in found)


def test_links_are_of_the_source_and_not_of_what_was_put_in(folder: Path) -> None:
    translator = open_translator(folder, device="cpu")
    given = [Source("ash cat dew elm", None, "", 0, 1, terms=(Term(4, 7, "cata"),))]
    (piece,) = translator.plan(given, translator.options())
    rows = np.zeros((2, len(piece.ids) - 1))
    rows[0, [1, 2, 4]] = 0.1, 0.2, 0.3  # <term> cat, and cata
    rows[1, -1] = 1.0
    assert_close(own_weights(piece, rows), [[0, 0.6, 0, 0], [0, 0, 0, 1]])
    found = translator.translate("ash cat dew elm", glossary={"cat": "cata"}, align=True)
    assert {source for source, _ in found.alignment or ()} <= {*range(LENGTH)}


def test_what_is_still_missing_is_searched_for(folder: Path) -> None:
    translator = open_translator(folder, device="cpu")
    strange = {"ash": "bayo"}  # which it has never seen for it
    found = translator.translate("ash cat dew elm", glossary=strange, inflected=False)
    assert "bayo" in found.text.split()
    assert found.terms is not None
    assert found.terms[0].how in ("model", "decoded", "replaced")


def test_what_does_not_fit_is_left_to_the_search(folder: Path) -> None:
    translator = open_translator(folder, device="cpu")
    assert translator.inline is not None
    source = "ash cat dew elm"
    short = translator.with_model(translator.model)
    short.inline = replace(translator.inline, longest=LENGTH + 2)
    options = translator.options()
    given = [Source(source, None, "", 0, 1, terms=(Term(0, 3, "asha"),))]
    assert [len(each.plan(given, options)[0].ids) for each in (translator, short)] == [LENGTH + 5, LENGTH + 1]
    short.inline = None
    assert short.plan(given, options)[0].inline == ()


def test_terms_go_with_the_sentence_that_they_stand_in(folder: Path) -> None:
    translator = open_translator(folder, device="cpu")
    several = "Ash cat dew. Fog elm bay."
    given = [Source(several, None, "", 0, 1, terms=(Term(0, 3, "asha"), Term(13, 16, "fogo")))]
    first, second = translator.plan(given, translator.options(split="always"))
    own, extra = translator.tokenizer, translator.tokenizer.ids.extra
    for piece, word in ((first, "asha"), (second, "fogo")):
        assert piece.ids[piece.ids.index(extra["<trans>"]) + 1] == own.encode(word).ids[0]
        assert piece.ids.count(extra["<term>"]) == 1


def test_commands_tell_what_became_of_terms(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / glossary(tmp_path, ("ash", "asho"), ("cat", "cata"))
    page = io.StringIO()
    translate(folder, ["ash cat dew elm"], out=page, device="cpu", as_json=True, glossary=name)
    assert [each["target"] for each in json.loads(page.getvalue())["terms"]] == ["asho", "cata"]
    assert "2 of 2 terms of the glossary are there" in capfd.readouterr().err


def test_the_folder_remembers(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    translator = open_translator(folder, device="cpu")
    assert translator.inline is not None
    assert config["terms"] == {"longest": translator.inline.longest} == translator.about()["terms"]
    assert LENGTH + 1 < translator.inline.longest <= LENGTH + 1 + 3 * 4
    assert config["longest"] == LENGTH + 1
    assert translator.with_model(translator.model).inline == translator.inline
    wrong = tmp_path / "wrong"
    shutil.copytree(folder, wrong)
    config["terms"]["longest"] = 0
    (wrong / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError):
        open_translator(wrong, device="cpu")
    own = tiny.write_pairs(tmp_path, "own", text(20, seed=7))
    plain = {"data": {"train": own, "valid": own, "root": str(tmp_path)}, "model": {"start": str(folder)}}
    assert prepared(plain, tmp_path / "tuned").inline == translator.inline
