"""`regard look` at the prompt."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.look import explore
from regard.look.explorer.explorer import Explorer
from regard.models.decoder import Decoder
from regard.settings.presets import gpt
from regard.tasks.language.generator import Generator
from tests.look.browser.models import translator
from tests.tasks import copying

MODEL = Path("model")


@pytest.fixture
def loaded(monkeypatch):
    """Whatever folder is named, this is what is loaded from it."""
    found = {"task": translator()}
    monkeypatch.setattr(explore, "load", lambda *_, **__: found["task"])
    return found


def look(*texts: str, **options) -> str:
    said = io.StringIO()
    explore.look(MODEL, texts, browser=False, console=Console(file=said, width=200), **options)
    return said.getvalue()


class Interrupted(explore.Server):
    def serve_forever(self, *_, **__) -> None:
        type(self).last = self.explorer
        raise KeyboardInterrupt


def test_a_page_begins_with_the_text_and_ends_with_an_interrupt(loaded, monkeypatch):
    monkeypatch.setattr(explore, "Server", Interrupted)
    said = look("garden bridge")
    assert "model: translator, at http://127.0.0.1:" in said
    assert said.endswith("stopped\n")
    own: Explorer = Interrupted.last
    assert own.ask("about", {})["example"] == "garden bridge"


def test_what_cannot_be_served_is_refused_with_a_remedy(loaded):
    with (
        explore.Server(Explorer(loaded["task"])) as taken,
        pytest.raises(ConfigError, match=r"is not free .* leave it out"),
    ):
        look(port=taken.server_port)
    for port in (-1, 65536):
        with pytest.raises(ConfigError, match=f"--port {port}: give one from 1 to 65535"):
            look(port=port)
    with pytest.raises(ConfigError, match="TEXT 'bridge' is for a page that is saved"):
        look("garden", "bridge")
    with pytest.raises(ConfigError, match="--second 'bridge' is for a page that is saved"):
        look("garden", second="bridge")


def test_what_cannot_be_saved_is_refused_with_a_remedy(loaded, tmp_path):
    out = tmp_path / "page.html"
    for texts, options, message in (
        ((), {}, "give one or more"),
        ((" ",), {}, "there is no text"),
        (("garden", "bridge"), {"second": "window"}, "give one text"),
        (("garden",), {"to": "fr"}, "to='fr'"),
    ):
        with pytest.raises(ConfigError, match=message):
            look(*texts, out=out, **options)
    with pytest.raises(ConfigError, match=r"a page is a file in \.html"):
        look("garden", out=tmp_path / "page.txt")
    own = copying.tokenizer()
    loaded["task"] = Generator(Decoder(gpt(len(own), layers=1, d_model=16, heads=1, d_ff=16)).eval(), own)
    for options in ({"second": "bridge"}, {"to": "de"}):
        with pytest.raises(ConfigError, match=r"this language model .*: leave it out"):
            look("garden", out=out, **options)
    assert not out.exists()


def test_a_page_is_saved_with_its_texts(loaded, tmp_path):
    out = tmp_path / "new" / "page.html"
    assert look("garden", "bridge window", out=out).startswith(f"{out}: ")
    assert out.read_text("utf-8").startswith("<!doctype html>")
