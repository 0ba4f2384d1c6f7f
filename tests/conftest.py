"""What all tests share."""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
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


def pytest_collection_finish() -> None:
    """What was imported and collected stays: Python need not search it for cycles again and again."""
    gc.collect()
    gc.freeze()


def table_of(stats: Mapping[str, Sequence[pytest.TestReport]]) -> list[str]:
    """Of the gauntlet: its tests, the cases that they tried, how many of these failed, and how many tests
    were skipped. A worker that died, and what failed before or after a test, is a failure too."""
    tests: dict[str, list[int]] = {}
    for kind in ("passed", "failed", "error", "skipped"):
        for each in stats.get(kind, []):
            if kind == "passed" and each.when != "call":
                continue
            told = dict(each.user_properties)
            failed = int(kind in ("failed", "error"))
            row = tests.setdefault(each.nodeid.partition("[")[0].removeprefix("tests/"), [0, 0, 0, 0])
            cases = 0 if kind == "skipped" else told.get("cases", 1)
            counts = (
                int(kind != "skipped"),
                cases,
                max(told.get("failures", 0), failed),
                int(kind == "skipped"),
            )
            for place, count in enumerate(counts):
                row[place] += count
    whole = [sum(column) for column in zip(*tests.values(), strict=True)] or [0] * 4
    return [
        f"{'tests':>7} {'cases':>9} {'failures':>9} {'skipped':>8}",
        *(
            f"{row[0]:7,} {row[1]:9,} {row[2]:9,} {row[3]:8,}  {name}"
            for name, row in [*sorted(tests.items()), ("in all", whole)]
        ),
    ]


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
    if config.option.markexpr in ("long", "alone"):
        for line in ["", *table_of(terminalreporter.stats)]:
            terminalreporter.write_line(line)
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
