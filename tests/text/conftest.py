from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    """Writes a file in a folder of its own and gives back its bare name, which origins then show."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write
