"""A real browser for tests of pages: Debian's Chromium, offline but for the page's own server.

A page that logs an error, or asks any other host for anything, fails its test. Without a browser these tests
are skipped, and the summary says so, and how to run them.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright import sync_api

CHROMIUM = next(
    (found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None
)
WIDE, NARROW = 1280, 390
RUN_THEM = "then: python -m pytest -n 0 tests/look/browser tests/serve/test_serve_page.py"


def missing() -> str | None:
    """What these tests lack, and how to get it."""
    if find_spec("playwright") is None:
        return f"no playwright here: pip install playwright; {RUN_THEM}"
    if CHROMIUM is None:
        return f"no Chromium on this machine: apt-get install chromium; {RUN_THEM}"
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator["sync_api.Browser"]:
    """One for all tests of a process."""
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: "sync_api.Browser") -> Iterator[Callable[..., "sync_api.Page"]]:
    """Open an address at a view: opened(address, "heads", width=390). Whatever is wrong fails the test at its
    end: an error on the console, a question that broke, a request to anywhere else, a page wider than the
    screen."""
    wrong: list[str] = []
    pages: list[sync_api.Page] = []

    def listen(page: "sync_api.Page", address: str) -> None:
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on(
            "console",
            lambda said: wrong.append(f"console: {said.text}") if said.type in ("error", "warning") else None,
        )

        def only_own(route: "sync_api.Route") -> None:
            if route.request.url.startswith((address, "data:")):
                route.continue_()
            else:
                wrong.append(f"a request to {route.request.url}")
                route.abort()

        page.route("**/*", only_own)

    def open_page(
        address: str, view: str | None = None, *, width: int = WIDE, dark: bool = False
    ) -> "sync_api.Page":
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        listen(page, address)
        pages.append(page)
        page.goto(address)
        page.wait_for_selector("#tabs button")
        if view is not None:
            page.click(f"#tab-{view}")
        return page

    yield open_page
    for page in pages:
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            wrong.append(f"the page is {wide} pixels wider than the screen")
        page.close()
    assert wrong == []


def until(page: "sync_api.Page", expression: str, seconds: float = 20) -> None:
    """Wait until this is true on the page. (Playwright's own way needs `eval`, which the page's policy
    forbids.)"""
    ends = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < ends, f"not so within {seconds} s: {expression}"
        page.wait_for_timeout(20)
