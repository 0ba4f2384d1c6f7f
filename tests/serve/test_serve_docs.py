"""What docs/serve.md asks is answered as it shows."""

import json
import re
import subprocess

import pytest
import typer
from typer.main import get_command

from regard.serve import cli
from regard.serve.app import DOORS
from tests.conftest import ROOT
from tests.serve.test_openapi import alike

TEXT = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
ASKED = re.findall(r"```sh\n(curl .*?)\n```\n```json\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), ASKED, ids=[each[0].split()[2] for each in ASKED])
def test_each_command_is_answered_as_shown(server, command, shown):
    assert " localhost:8000/" in command
    command = command.replace("localhost:8000", server.url.removeprefix("http://"))
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    found, wanted = json.loads(run.stdout), json.loads(shown)
    alike(found, wanted)
    if "Der Hund" in shown:
        assert "Der Hund schläft." in run.stdout


def test_the_python_that_is_shown_runs(server):
    [code] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    shown: list[str] = []
    exec(
        code.replace("http://localhost:8000", server.url), {"print": lambda *given: shown.append(str(*given))}
    )
    assert shown[0] == re.findall(r"^# (.*)$", code, re.MULTILINE)[0]
    assert len(shown) > 3


def test_every_limit_and_path_that_is_named_is_there():
    app = typer.Typer()
    app.command()(cli.serve)
    options = {name for each in get_command(app).params for name in each.opts}
    assert {*re.findall(r"`(--[\w-]+)[` ]", TEXT)} <= {*options, "--help"}
    paths = {way.path for door in DOORS for way in door.ways}
    named = re.findall(r"`(/[\w/]+)`", TEXT[TEXT.index("| protocol") : TEXT.index("**regard's own**")])
    assert {*named} <= paths
