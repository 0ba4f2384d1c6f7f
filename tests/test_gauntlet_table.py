"""The table that make gauntlet prints: nothing that failed is left out of it."""

from types import SimpleNamespace
from typing import Any

from tests.conftest import table_of


def report(name: str, when: str = "call", **told: int) -> Any:
    return SimpleNamespace(nodeid=f"tests/{name}", when=when, user_properties=[*told.items()])


def test_workers_that_died_fixtures_that_failed_and_what_was_skipped_are_counted():
    lines = table_of(
        {
            "passed": [
                *(report("a.py::kills[x]", when) for when in ("setup", "teardown")),
                report("a.py::kills[x]", cases=19, failures=0),
                report("a.py::kills[y]", cases=20, failures=0),
            ],
            "failed": [report("b.py::bytes", cases=200, failures=3), report("c.py::crash", when="???")],
            "error": [report("d.py::fixture", when="setup")],
            "skipped": [report("e.py::data", when="setup")],
        }
    )
    assert [line.split() for line in lines] == [
        ["tests", "cases", "failures", "skipped"],
        ["2", "39", "0", "0", "a.py::kills"],
        ["1", "200", "3", "0", "b.py::bytes"],
        ["1", "1", "1", "0", "c.py::crash"],
        ["1", "1", "1", "0", "d.py::fixture"],
        ["0", "0", "0", "1", "e.py::data"],
        ["5", "241", "5", "1", "in", "all"],
    ]
