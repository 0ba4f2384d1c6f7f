"""Which names a service answers to."""

import pytest
from starlette.testclient import TestClient

from regard.serve.app import build_app, own_names

NEVER = None


@pytest.mark.parametrize(
    ("host", "names", "keys", "asked", "status"),
    [
        ("127.0.0.1", [], [], "127.0.0.1:8000", 200),
        ("127.0.0.1", [], [], "localhost:8000", 200),
        ("::1", [], [], "[::1]:8000", 200),
        ("127.0.0.1", [], [], "evil.example:8000", 400),
        ("127.0.0.1", ["desk.example"], [], "desk.example", 200),
        ("127.0.0.1", ["desk.example"], [], "evil.example", 400),
        ("127.0.0.1", ["*"], [], "evil.example", 200),
        ("127.0.0.1", [], ["key"], "desk.example", 200),
        ("0.0.0.0", [], [], "desk.example", 200),
    ],
)
def test_a_service_for_this_machine_is_asked_by_its_own_names(host, names, keys, asked, status) -> None:
    """A page whose name points here is of another site, though a browser takes it for the same."""
    app = build_app(lambda: NEVER, hosts=own_names(host, names, keys))
    assert TestClient(app).get("/health", headers={"host": asked}).status_code == status
