import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from regard.train.checkpoint import CheckpointError
from regard.train.report import LOG, Report, read_log
from tests.train.parsing import scalars

FIGURES = {"loss": 4.0, "perplexity": 54.6, "tokens_per_second": 12345.6, "rate": 0.1}


def report(folder: Path, *, start: int = 0, quiet: bool = False) -> tuple[Report, io.StringIO]:
    said = io.StringIO()
    return Report(folder, 100, Console(file=said, width=60), start=start, quiet=quiet), said


def filled(folder: Path) -> None:
    first, _ = report(folder)
    for step in range(10, 51, 10):
        first.logged(step, {**FIGURES, "loss": float(step)})
        first.validated(step, {"bleu": step / 10}, best=True, example="", seconds=1.0)


def test_the_log_is_an_object_a_line_and_the_events_are_the_same(tmp_path: Path) -> None:
    own, said = report(tmp_path)
    own.logged(50, FIGURES)
    own.validated(50, {"bleu": 31.5}, best=True, example="  [b]a[/b]\n  -> b", seconds=2.0)
    assert [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()] == [
        {"step": 50, **FIGURES},
        {"step": 50, "valid": {"bleu": 31.5}, "best": True, "took": 2.0},
    ]
    events = scalars(next(tmp_path.glob("events.*")))
    assert [step for step, _ in events] == [50, 50]
    assert events[0][1].keys() == {f"train/{name}" for name in FIGURES}
    assert events[1][1] == {"valid/bleu": 31.5}
    assert "step 50/100  loss 4.000  ppl 54.60  12,346 tokens/s" in said.getvalue()
    assert "bleu 31.5" in said.getvalue()
    assert "[b]a[/b]\n" in said.getvalue()  # text is no markup


def test_a_line_without_perplexity_and_of_other_units(tmp_path: Path) -> None:
    said = io.StringIO()
    own = Report(tmp_path, 100, Console(file=said, width=60), unit="texts")
    own.logged(50, {"loss": 4.0, "tokens_per_second": 1234.0})
    assert "step 50/100  loss 4.000  1,234 texts/s" in said.getvalue()


def test_going_on_from_a_step_cuts_the_log_back_to_it(tmp_path: Path) -> None:
    filled(tmp_path)
    report(tmp_path, start=30)
    assert [entry["step"] for entry in read_log(tmp_path)] == [10, 10, 20, 20, 30, 30]


def test_starting_anew_empties_the_log(tmp_path: Path) -> None:
    filled(tmp_path)
    report(tmp_path)
    assert read_log(tmp_path) == []


def test_half_a_line_at_the_end_is_dropped(tmp_path: Path) -> None:
    filled(tmp_path)
    whole = read_log(tmp_path)
    path = tmp_path / LOG
    path.write_text(path.read_text() + '{"step": 60, "lo')
    assert read_log(tmp_path) == whole
    own, _ = report(tmp_path, start=50)
    own.logged(60, FIGURES)
    assert read_log(tmp_path) == [*whole, {"step": 60, **FIGURES}]


def test_a_quiet_report_writes_and_says_nothing(tmp_path: Path) -> None:
    own, said = report(tmp_path, quiet=True)
    own.logged(1, FIGURES)
    own.validated(1, {"bleu": 1.0}, best=True, example="x", seconds=1.0)
    own.say("y")
    own.close()
    assert said.getvalue() == ""
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_one_line_moves(tmp_path: Path) -> None:
    said = io.StringIO()
    own = Report(tmp_path, 100, Console(file=said, force_terminal=True, width=120))
    own.moved(7, 90)
    own.logged(7, FIGURES)
    own.close()
    own.close()
    assert "step 7/90" in said.getvalue()
    assert "loss 4.000" in said.getvalue()


def test_a_log_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    own, _ = report(tmp_path)
    (tmp_path / LOG).unlink()
    (tmp_path / LOG).mkdir()
    with pytest.raises(CheckpointError, match=r"log\.jsonl: the log could not be written .*--resume"):
        own.validated(1, {"loss": 1.0}, best=True, example="", seconds=0.0)
