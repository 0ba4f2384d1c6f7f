"""What `regard look` does at the prompt: a page on this machine, or the same page in one file."""

import webbrowser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.config import ConfigError
from regard.disk import replace
from regard.look.explorer.explorer import Explorer, Refused, check_text
from regard.look.page import page, record
from regard.look.server import HOST, Server
from regard.tasks.base.terminal import counting, say
from regard.tasks.load import load


def open_explorer(
    model: Path, device: str = "auto", example: str = "", *, name: str | None = None
) -> Explorer:
    """In float32, so that the numbers on the page are as exact as can be. It is called as its folder is,
    unless there is a name."""
    return Explorer(load(model, device=device, precision="float32"), name or model.resolve().name, example)


def look(
    model: Path,
    texts: Sequence[str] | None = None,
    *,
    second: str | None = None,
    to: str | None = None,
    out: Path | None = None,
    port: int = 0,
    browser: bool = True,
    device: str = "auto",
    console: Console,
) -> None:
    """Serve the page until it is interrupted; or, with `out`, save it with these texts in it. A page that is
    served begins with the one text, if there is one."""
    texts = texts or ()
    if out is not None:
        save(model, texts, second=second, to=to, out=out, device=device, console=console)
        return
    for name, value in (("--second", second), ("TEXT", texts[1] if len(texts) > 1 else None), ("--to", to)):
        if value is not None:
            raise ConfigError(
                f"{name} {value!r:.60} is for a page that is saved: add --out, or type it there"
            )
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: give one from 1 to 65535, or leave it out for one that is free")
    explorer = open_explorer(model, device, texts[0] if texts else "")
    try:
        server = Server(explorer, port)
    except OSError as error:
        raise ConfigError(
            f"--port {port} of {HOST} is not free ({error}); leave it out for one that is"
        ) from error
    say(console, f"{explorer.name}: {explorer.kind}, at {server.address} (stop with Ctrl+C)")
    if browser:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say(console, "stopped")
    finally:
        server.server_close()


def save(
    model: Path,
    texts: Sequence[str],
    *,
    second: str | None = None,
    to: str | None = None,
    out: Path,
    device: str = "auto",
    console: Console,
) -> None:
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out {out}: a page is a file in .html")
    if not texts:
        raise ConfigError("a saved page answers for its own texts: give one or more")
    if second is not None and len(texts) > 1:
        raise ConfigError(f"--second {second!r:.60} beside {len(texts)} texts: give one text")
    explorer = open_explorer(model, device)
    languages = explorer.task.about().get("languages")
    if second is not None and languages is None and not {"label", "fill", "answer"} & {*explorer.views}:
        raise ConfigError(f"--second {second!r:.60}: this {explorer.kind} reads one text: leave it out")
    if to is not None and languages is None:
        raise ConfigError(f"--to {to!r:.60}: this {explorer.kind} does not translate: leave it out")
    if to is None and languages:
        to = languages[0]  # as the page begins
    try:
        for text in texts:
            check_text(text)
        with counting("answers") as progress:
            found = record(explorer, [(text, second, to) for text in texts], progress)
    except Refused as error:
        raise ConfigError(str(error)) from error
    replace(out, lambda partial: partial.write_text(page(found), encoding="utf-8", newline="\n"))
    say(console, f"{out}: {len(found) - 1:,} answers, {out.stat().st_size / 1e6:.1f} MB")
