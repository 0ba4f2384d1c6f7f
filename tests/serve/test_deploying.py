"""The unit for systemd and the recipe of a container: they parse, are closed, and what they start serves."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.serve.server import serving

UNIT, CONTAINER = ROOT / "deploy" / "regard.service", ROOT / "Containerfile"


def unit() -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return dict(parser["Service"])


def container() -> list[tuple[str, str]]:
    """Instructions and what they say."""
    text = re.sub(r"\\\n\s*", "", CONTAINER.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def started(command: list[str], models: Path) -> list[str]:
    """Behind `regard serve`: the model is one of ours, and the port one that is free."""
    assert command[0].endswith("regard")
    assert command[1] == "serve"
    plain = [each for each in command[2:] if "=" not in each]
    place = plain.index("--port")
    assert plain[place + 1] == "8000"
    return [*plain[:place], *plain[place + 2 :], f"en-de={models / 'en-de'}"]


def test_the_command_of_the_unit_serves(models):
    arguments = started(unit()["ExecStart"].split(), models)
    with serving(*arguments) as running:
        assert running.post("/v1/translate", {"texts": "The dog sleeps."}).status_code == 200
        assert running.end() == 0


def test_the_unit_lets_it_write_nothing_and_has_no_secrets():
    found = unit()
    closed = ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices")
    assert {found[name] for name in closed} == {"yes"}
    assert found["ProtectSystem"] == "strict"
    assert found["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert int(found["TimeoutStopSec"]) > 35  # a deadline of 30 s, and the rest


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_understands_the_unit(tmp_path):
    """All but where regard is, which is not here."""
    text = UNIT.read_text(encoding="utf-8").replace("/opt/regard/bin/regard", sys.executable)
    (tmp_path / "regard.service").write_text(text, encoding="utf-8")
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "regard.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (run.stdout + run.stderr).splitlines() if "regard.service" in line]
    assert said == []


def test_the_container_runs_as_nobody_in_particular_and_its_command_serves(models):
    found = container()
    by_name = dict(found)
    assert by_name["USER"] == "10001:10001"
    assert not any(re.search("(?i)password|secret|token", value) for _, value in found)
    assert "--read-only" in CONTAINER.read_text(encoding="utf-8")
    sources = [path for name, value in found if name == "COPY" for path in value.split()[:-1]]
    assert all((ROOT / path).exists() for path in sources)
    installed = next(value for name, value in found if name == "RUN" and "pip install" in value)
    assert '"/source[serve,desk]"' in installed  # documents, --memory, and tokenizers of translators
    health = json.loads(by_name["HEALTHCHECK"].partition("CMD ")[2])
    arguments = started(json.loads(by_name["ENTRYPOINT"]), models)
    assert arguments[:2] == ["--host", "0.0.0.0"]
    with serving(*arguments[2:]) as running:
        code = health[2].replace("127.0.0.1:8000", f"127.0.0.1:{running.port}")
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        running.end()
        assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode != 0
