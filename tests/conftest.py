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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases the gauntlet tried. Tests in a browser are easily missed: say that they were skipped,
    and how to run them."""
    skipped = terminalreporter.stats.get("skipped", [])
    told = [
        each
        for each in skipped
        if "look/browser/" in each.nodeid or "serve/test_serve_page.py" in each.nodeid
    ]
    tried = [each for each in _reports(terminalreporter) if "cases" in dict(each.user_properties)]
    if tried:
        terminalreporter.write_line("")
        for each in sorted(tried, key=lambda report: report.nodeid):
            found = dict(each.user_properties)
            name = each.nodeid.rpartition("::")[2]
            terminalreporter.write_line(f"{name}: {found['cases']:,} cases, {found['failures']:,} failures")
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
