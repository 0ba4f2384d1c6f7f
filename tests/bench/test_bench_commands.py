"""What `regard bench` does at the prompt, with benchmarks that measure nothing."""

import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from regard.bench import commands
from regard.bench.results import Row, path_of, write_report
from regard.cli import build
from regard.config import ConfigError
from tests.bench.invented import FAST, invented


@pytest.fixture
def benchmarks(monkeypatch):
    """Two that find what was invented, and one that this machine cannot run; `seen` is what ran."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # which a run sets
    seen = []

    def found(name, report):
        def measure(console):
            seen.append((name, torch.get_num_threads()))
            torch.set_num_threads(2)
            torch.set_float32_matmul_precision("high")
            if report is None:
                console.print(f"{name}: no abacus on this machine")
            return report

        return SimpleNamespace(TITLE=f"All about {name}", measure=measure)

    modules = {
        "reading": found("reading", invented("reading", rows=(FAST,))),
        "writing": found("writing", invented("writing")),
        "counting": found("counting", None),
    }
    monkeypatch.setattr(commands, "BENCHMARKS", {name: name for name in modules})
    monkeypatch.setattr(commands, "import_module", modules.__getitem__)
    return SimpleNamespace(seen=seen, modules=modules)


def said(*names, to=None, write=None, listed=False) -> str:
    out = io.StringIO()
    commands.bench(names, to=to, write=write, listed=listed, console=Console(file=out, width=200))
    return out.getvalue()


def test_without_a_name_all_run_each_with_the_settings_of_the_first(benchmarks):
    shown = said()
    assert benchmarks.seen == [("reading", 1), ("writing", 1), ("counting", 1)]
    assert torch.get_num_threads() == 1
    assert torch.get_float32_matmul_precision() == "highest"
    assert "What reading takes" in shown
    assert "counting: no abacus on this machine" in shown


def test_only_what_is_named_runs_and_once(benchmarks):
    said("writing", "writing")
    assert [name for name, _ in benchmarks.seen] == ["writing"]


def test_an_unknown_name_is_refused_before_anything_runs(benchmarks):
    with pytest.raises(ConfigError, match="no benchmark 'writin': there is reading, writing, counting; did"):
        said("reading", "writin")
    assert benchmarks.seen == []


def test_the_list_has_a_line_for_each(benchmarks):
    names = ["reading ", "writing ", "counting"]
    assert said(listed=True).splitlines() == [f"{name}  All about {name.strip()}" for name in names]


def test_results_are_kept_beside_those_of_other_machines(benchmarks, tmp_path):
    pytest.importorskip("matplotlib")
    write_report(tmp_path, invented("writing"))
    said("reading", "counting", to=tmp_path)
    assert sorted(path.name for path in (tmp_path / "speed").iterdir()) == ["reading.json", "writing.json"]
    written = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert written.index("## What reading takes") < written.index("## What writing takes")
    assert (tmp_path / "pictures" / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_a_benchmark_without_its_peers_leaves_older_results_alone(benchmarks, tmp_path):
    pytest.importorskip("matplotlib")
    write_report(tmp_path, invented("writing"))
    before = path_of(tmp_path, "writing").read_bytes()
    nothing = invented("writing", rows=(Row(work="w", setting="s", unit="ms", notes="none"),))
    benchmarks.modules["writing"].measure = lambda console: nothing
    said("writing", to=tmp_path)
    assert path_of(tmp_path, "writing").read_bytes() == before


def test_the_page_is_written_from_results_alone_and_unknown_ones_come_last(benchmarks, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("abacus", "writing"):
        write_report(tmp_path, invented(name))
    said(write=tmp_path)
    written = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert written.index("## What writing takes") < written.index("## What abacus takes")
    assert benchmarks.seen == []


def test_a_folder_without_results_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="has no results: measure first, regard bench --to"):
        said(write=tmp_path)


def test_writing_and_measuring_are_asked_for_one_at_a_time(benchmarks, tmp_path):
    with pytest.raises(ConfigError, match="--write measures nothing"):
        said("reading", write=tmp_path)


def test_a_file_where_the_folder_should_be_is_refused_before_anything_runs(benchmarks, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "docs").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="that is a file"):
        said("reading", to=tmp_path / "docs")
    assert benchmarks.seen == []


@pytest.mark.parametrize(("name", "code"), [("reading", 0), ("counting", 1)])
def test_the_prompt_learns_whether_anything_was_measured(benchmarks, name, code):
    assert CliRunner().invoke(build(), ["bench", name]).exit_code == code
