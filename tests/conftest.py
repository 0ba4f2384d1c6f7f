"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch

from tests.browsing import browser, opened  # noqa: F401  # fixtures

ROOT = Path(__file__).parents[1]

# Shapes are annotations, and tests check them; but a compiler cannot trace the checks.
# tests/test_compiled.py runs the tests of compiled code in a process of their own, with the checks off.
SHAPES = os.environ.get("SHAPES", "on")
collect_ignore = ["compiled"] if SHAPES == "on" else []
# Triton's interpreter must be asked for before the kernels are imported, and cannot run wrapped ones:
# tests/test_interpreted.py does both for its tests.
if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore.append("interpreted")
if SHAPES == "on":
    jaxtyping.install_import_hook(["regard.layout", "regard.nn", "regard.models"], "beartype.beartype")

# A busy machine is no failure. More examples for who has the time: EXAMPLES=500 make test.
EXAMPLES = int(os.environ.get("EXAMPLES", "30"))
hypothesis.settings.register_profile("regard", deadline=None, max_examples=EXAMPLES)
hypothesis.settings.load_profile("regard")

torch.set_num_threads(1)  # test processes run side by side: more threads would only wait for each other


def _reports(terminalreporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    kinds = ("passed", "failed")
    return [each for kind in kinds for each in terminalreporter.stats.get(kind, []) if each.when == "call"]


def _table(terminalreporter: pytest.TerminalReporter) -> None:
    """Of the gauntlet: its tests, the cases that they tried, and how many of these failed."""
    tests: dict[str, list[int]] = {}
    for each in sorted(_reports(terminalreporter), key=lambda report: report.nodeid):
        told = dict(each.user_properties)
        failed = int(each.failed)
        row = tests.setdefault(each.nodeid.partition("[")[0].removeprefix("tests/"), [0, 0, 0])
        for place, count in enumerate((1, told.get("cases", 1), max(told.get("failures", 0), failed))):
            row[place] += count
    terminalreporter.write_line("")
    terminalreporter.write_line(f"{'tests':>7} {'cases':>9} {'failures':>9}")
    for name, row in tests.items():
        terminalreporter.write_line(f"{row[0]:7,} {row[1]:9,} {row[2]:9,}  {name}")
    whole = [sum(column) for column in zip(*tests.values(), strict=True)] or [0, 0, 0]
    terminalreporter.write_line(f"{whole[0]:7,} {whole[1]:9,} {whole[2]:9,}  in all")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """What the gauntlet tried. Tests in a browser are easily missed: say that they were skipped,
    and how to run them."""
    skipped = terminalreporter.stats.get("skipped", [])
    told = [
        each
        for each in skipped
        if "look/browser/" in each.nodeid or "serve/test_serve_page.py" in each.nodeid
    ]
    if config.option.markexpr == "long":
        _table(terminalreporter)
    for reason in {each.longrepr[2] for each in told}:
        said = reason.removeprefix("Skipped: ")
        terminalreporter.write_line(f"SKIPPED [{len(told)}] tests in a browser: {said}")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Another seed must do as well: SEED=1 make test."""
    torch.manual_seed(int(os.environ.get("SEED", "0")))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data, where the machine has it beside the checkout."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data beside this checkout")
    return folder


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Shapes are not checked, for tests that repeat the same passes many times."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", SHAPES != "on")
