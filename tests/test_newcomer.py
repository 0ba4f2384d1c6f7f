"""Somebody comes with two damaged text files of their own, and does what the messages say."""

from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import regard
from regard.cli import build
from regard.text.phrasebook.corpus import phrases

LINES = 5000
BROKEN, MISSING, EMPTY, ESCAPED, SWAPPED = 700, 2500, 1000, 1500, 4000
"""Lines, counted from 1: not UTF-8; lost from the German; untranslated; with HTML; in each other's file."""


def said(*arguments: str) -> Result:
    return CliRunner().invoke(build(), arguments, env={"COLUMNS": "80"})


def flat(result: Result) -> str:
    """What was printed, whatever the width of the terminal did to it."""
    return " ".join(result.output.split())


def save(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cache
def corpus() -> tuple[tuple[str, ...], tuple[str, ...]]:
    pairs = phrases("train", LINES)
    return tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs)


def damage(folder: Path) -> None:
    """Line numbers hold in the English file; after the lost line the German is one behind."""
    english, german = map(list, corpus())
    german[EMPTY - 1] = ""
    german[ESCAPED - 1] = f"&quot;{german[ESCAPED - 1]}&quot;"
    english[SWAPPED - 1], german[SWAPPED - 1] = german[SWAPPED - 1], english[SWAPPED - 1]
    save(folder / "mine.en", english)
    encoded = [line.encode() for line in german]
    encoded[BROKEN - 1] = "Das Mädchen schläft.".encode("latin-1")
    del encoded[MISSING - 1]
    (folder / "mine.de").write_bytes(b"\xef\xbb\xbf" + b"".join(line + b"\r\n" for line in encoded))


def mend_lines(folder: Path) -> None:
    """The line that was not UTF-8 is converted, the one that was lost is put back."""
    german = (folder / "mine.de").read_bytes().split(b"\r\n")[:-1]
    german[BROKEN - 1] = german[BROKEN - 1].decode("latin-1").encode()
    german.insert(MISSING - 1, corpus()[1][MISSING - 1].encode())
    (folder / "mine.de").write_bytes(b"".join(line + b"\r\n" for line in german))


def mend_pairs(folder: Path) -> None:
    """The pairs that the report names are removed, or unescaped."""
    english, german = (
        (folder / name).read_text(encoding="utf-8-sig").splitlines() for name in ("mine.en", "mine.de")
    )
    german[ESCAPED - 1] = german[ESCAPED - 1].replace("&quot;", "")
    for name, lines in (("mine.en", english), ("mine.de", german)):
        kept = [line for number, line in enumerate(lines, 1) if number not in (EMPTY, BROKEN, SWAPPED)]
        save(folder / name, kept)


def test_the_doctor_names_each_fault_with_its_file_and_line(folder):
    damage(folder)
    result = said("check", "--pairs", "mine.en", "mine.de")
    page = flat(result)
    assert result.exit_code == 1, page
    assert "out of step" in page
    assert "mine.en has 5000 lines, mine.de has 4999" in page
    assert f"mine.en:{LINES} nothing stands beside it" in page
    assert f"mine.de:{BROKEN} at byte" in page
    assert f"mine.en:{EMPTY} | mine.de:{EMPTY} target is empty" in page
    assert f"mine.en:{ESCAPED} | mine.de:{ESCAPED} &quot;" in page
    assert f"mine.en:{SWAPPED} | mine.de:{SWAPPED} the other side's words" in page
    assert "Verdict: do not train on this yet" in page
    place = int(page.partition("from mine.de:")[2].split()[0])
    assert abs(place - MISSING) <= 5


def test_training_refuses_what_the_doctor_refuses_and_leaves_nothing_behind(folder):
    damage(folder)
    (folder / "mine.toml").write_text('[data]\ntrain = ["mine.en", "mine.de"]\n')
    result = said("train", "mine.toml", "--out", "model", "--device", "cpu")
    assert result.exit_code == 1
    assert "do not train on this yet" in flat(result)
    assert not [*(folder / "model").glob("*")]


@pytest.mark.filterwarnings("ignore:.*unfinished.*:regard.tasks.translation.result.TranslationWarning")
def test_what_the_messages_say_leads_to_a_model_that_translates(folder):
    damage(folder)
    mend_lines(folder)
    page = flat(said("check", "--pairs", "mine.en", "mine.de"))
    assert "out of step" not in page
    assert "invalid UTF-8" not in page
    assert f"mine.en:{SWAPPED} | mine.de:{SWAPPED} the other side's words" in page

    mend_pairs(folder)
    result = said("check", "--pairs", "mine.en", "mine.de")
    assert result.exit_code == 0, result.output
    assert "is empty" not in result.output
    assert "&quot;" not in result.output

    (folder / "mine.toml").write_text('[data]\ntrain = ["mine.en", "mine.de"]\n')
    tiny = ["model.d_model=16", "model.d_ff=32", "model.layers=1", "train.steps=3", "data.hold_out=20"]
    result = said("train", "mine.toml", "--out", "model", "--device", "cpu", *tiny)
    assert result.exit_code == 0, result.output
    assert f"{LINES - 3 - 20:,} pairs to learn from" in flat(result)

    (folder / "letter.en").write_text("The dog sleeps.\n\nWhere is the cat?\n")
    result = said("translate", "model", "letter.en", "--maximum", "5", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.split("\n")) == 4
    assert result.stdout.split("\n")[1] == ""
    assert len(regard.load("model", device="cpu").translate(["The dog sleeps."])) == 1
