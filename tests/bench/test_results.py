"""Rows and reports: the ratio, what is missing, and the file."""

import json
from dataclasses import replace

import pytest

from regard import __version__
from regard.bench.results import (
    compared,
    installed,
    named,
    path_of,
    processor,
    read_report,
    report,
    skipped,
    write_report,
)
from regard.config import ConfigError
from regard.tasks.base.folder import FolderError
from tests.bench.invented import ALONE, COST, FAST, MISSING, invented

WHAT = {"work": "w", "setting": "s", "peer": "p 1.0"}


def test_the_ratio_is_the_median_of_the_rounds_own():
    ours, theirs = [10.0, 30.0, 80.0], [10.0, 10.0, 20.0]
    row = compared(ours, theirs, unit="tokens/s", **WHAT)
    assert (row.ratio, row.low, row.high) == (3.0, 1.0, 4.0)  # of 1, 3 and 4
    assert (row.ours, row.theirs) == (30.0, 10.0)


@pytest.mark.parametrize("unit", ["ms", "s", "GiB"])
def test_less_time_and_less_memory_is_ahead(unit):
    row = compared([2.0, 2.0], [6.0, 4.0], unit=unit, **WHAT)
    assert (row.ratio, row.low, row.high) == (2.5, 2.0, 3.0)


def test_rounds_must_be_those_of_both_sides():
    with pytest.raises(ValueError, match="zip"):
        compared([1.0, 2.0], [1.0], unit="ms", **WHAT)


def test_a_row_without_its_peer_says_what_to_install_and_keeps_our_figure():
    assert MISSING.notes == "not measured: pip install sentence-transformers"
    assert (MISSING.ours, MISSING.theirs, MISSING.ratio) == (1234.0, None, None)


def test_a_peer_that_is_there_but_broken_is_no_missing_peer():
    with pytest.raises(ImportError, match="symbol not found"):
        skipped(ImportError("symbol not found"), unit="ms", **WHAT)


def test_a_pass_of_our_own_is_no_peer():
    assert COST.among_ours
    assert not FAST.among_ours


def test_a_report_survives_its_file(tmp_path):
    write_report(tmp_path, invented())
    assert read_report(path_of(tmp_path, "generation")) == invented()


def test_the_file_is_json_by_the_benchmarks_name(tmp_path):
    write_report(tmp_path, invented("looking", rows=(ALONE,)))
    plain = json.loads((tmp_path / "speed" / "looking.json").read_text(encoding="utf-8"))
    assert plain["machine"] == "An abacus, 2 threads"
    words = {"work": "the page", "setting": "drawn", "unit": "ms", "peer": "", "notes": ""}
    assert plain["rows"] == [{**words, "ours": 33.8}]


def test_a_file_with_a_strange_key_is_refused_by_its_name(tmp_path):
    write_report(tmp_path, invented())
    path = path_of(tmp_path, "generation")
    path.write_text(path.read_text(encoding="utf-8").replace('"machine"', '"machina"'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"generation\.json: unknown key 'machina'; did you mean 'machine'"):
        read_report(path)


def test_a_file_that_is_cut_short_is_refused_by_its_name(tmp_path):
    write_report(tmp_path, invented())
    path = path_of(tmp_path, "generation")
    path.write_text(path.read_text(encoding="utf-8")[:40], encoding="utf-8")
    with pytest.raises(FolderError, match=r"generation\.json: not JSON"):
        read_report(path)


def test_a_report_knows_the_versions_of_this_machine_and_of_the_peers_that_are_here():
    made = report("x", title="t", method="m", machine="c", rows=[], peers=["numpy", "no-such-package"])
    assert made.versions["regard"] == __version__
    assert made.versions["numpy"] == installed("numpy")
    assert "no-such-package" not in made.versions


def test_a_package_is_named_with_its_version_where_it_is_installed():
    assert named("numpy") == f"numpy {installed('numpy')}"
    assert named("no-such-package") == "no-such-package"


def test_the_processor_is_told_with_its_threads():
    assert processor().endswith(", 1 thread")  # as tests have it


def test_a_report_of_missing_peers_alone_has_measured_nothing():
    assert not invented(rows=(replace(MISSING, ours=None),)).measured
    assert invented(rows=(MISSING,)).measured
