"""The explorer in a real browser. PICTURES=docs/pictures keeps what `picture` takes."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.server import Server
from regard.tasks.base.predictor import Predictor
from tests.browsing import NARROW, WIDE, missing, until

if TYPE_CHECKING:
    from playwright import sync_api

__all__ = ["NARROW", "WIDE", "until"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := missing():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[..., str]]:
    """The address of an explorer of a model, under a name: served(model, "name", "first text"). Each model is
    served once."""
    running: dict[int, Server] = {}

    def serve(task: Predictor, name: str, example: str = "") -> str:
        if id(task) not in running:
            server = Server(Explorer(task, name, example))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            running[id(task)] = server
        return running[id(task)].address

    yield serve
    for server in running.values():
        server.shutdown()
        server.server_close()


def settled(page: "sync_api.Page") -> None:
    """Wait until the page waits for no answer: it says so at its foot (Reading …)."""
    until(page, "!document.querySelector('#said').textContent.endsWith('…')")


@pytest.fixture(scope="session")
def picture() -> Callable[..., None]:
    """Keeps a screenshot: picture(page, "heads"). Its name says the width, unless that is the usual one."""
    folder = os.environ.get("PICTURES")

    def take(page: "sync_api.Page", name: str) -> None:
        width = page.viewport_size["width"]
        image = page.screenshot(full_page=True)
        assert image.startswith(b"\x89PNG")
        if folder:
            suffix = "" if width == WIDE else f"-{width}"
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"look-{name}{suffix}.png").write_bytes(image)

    return take
