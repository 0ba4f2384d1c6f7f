"""The command that translates, with a translator that costs nothing."""

import io
from pathlib import Path

import pytest

from regard.decode import DecodeConfig
from regard.tasks.translation import commands
from tests.documents.standin import StandIn, upper


class Out(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.buffer = io.BytesIO()


@pytest.fixture
def translate(monkeypatch):
    """What the translator has read is its `read`; what it does is its `write`."""
    translator = StandIn(upper)
    translator.decoding = DecodeConfig()
    monkeypatch.setattr(commands, "open_by_engine", lambda *given: translator)
    monkeypatch.setattr(commands, "pair_of", lambda folder: ("en", "de"))

    def run(*inputs, **how):
        out = Out()
        translator.write = run.write
        commands.translate(Path("model"), [str(each) for each in inputs], out=out, **how)
        return out.buffer.getvalue() or out.getvalue()

    run.read, run.write = translator.read, upper
    return run
