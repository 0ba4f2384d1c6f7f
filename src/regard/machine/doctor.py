"""`regard doctor`: this machine, fact by fact, and a remedy for each problem. Works where torch does not.

What torch and the C say comes from a process of its own (`torch_facts`), which may hang or crash: the rest is
told all the same. Imports no torch.
"""

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console

from regard import __version__
from regard.machine import facts
from regard.machine.problems import LATE, Problem, diagnose, size_text
from regard.tasks.base.terminal import say

PATIENCE = 20.0
"""Seconds for torch: where a library is being compiled, or the disk is cold."""


def doctor(*, as_json: bool, console: Console) -> bool:
    """Whether regard can work here."""
    found = examine()
    problems = [*diagnose(found)]
    if as_json:
        plain = {"facts": found, "problems": [asdict(each) for each in problems]}
        typer.echo(json.dumps(plain, ensure_ascii=False, indent=1))
    else:
        _render(found, problems, console)
    return not any(each.weight == "broken" for each in problems)


def examine() -> dict[str, Any]:
    """All facts. Torch is asked while the others are gathered."""
    asked = _ask()
    own = {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "system": platform.platform(),
        "regard": __version__,
        "packages": facts.packages(),
        "needed": facts.needed(),
        "processor": facts.processor(),
        "cores": facts.cores(),
        "settings": facts.settings(),
        "compiler": facts.compiler(),
        "cache": facts.cache(),
        "driver": facts.driver(),
        "memory": facts.memory(),
        "disk": facts.here(),
        "terminal": facts.terminal(),
    }
    return {**own, **_answer(asked)}


def _ask() -> "subprocess.Popen[str] | None":
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "regard.machine.torch_facts"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except OSError:  # no memory for a process, or nothing may be started here
        return None


def _answer(asked: "subprocess.Popen[str] | None") -> dict[str, Any]:
    """What the process found; what went wrong stands under `errors`."""
    nothing: dict[str, Any] = {"torch": None, "cuda": None, "native": None}
    if asked is None:
        return {**nothing, "errors": {"torch": "no process could be started to try it"}}
    aside = ""
    try:
        said, aside = asked.communicate(timeout=PATIENCE)
        found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return found
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.communicate()
        return {**nothing, "errors": {"torch": f"{LATE} {PATIENCE:.0f} s"}}
    except (ValueError, IndexError):
        last = (aside.strip().splitlines() or ["nothing was said"])[-1]
        return {**nothing, "errors": {"torch": f"the process ended with {asked.returncode}: {last}"}}


def _render(found: dict[str, Any], problems: list[Problem], console: Console) -> None:
    for name, value in _lines(found):
        say(console, f"{name:<12}{value}")
    say(console, "")
    for each in problems:
        say(console, f"{each.weight}: {each.what}; {each.remedy}")
    if not problems:
        say(console, "nothing is missing; regard selftest says whether it computes as it should")


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    versions, torch, own = found["packages"], found["torch"], found["cores"]
    yield "python", f"{found['python']['version']}, {found['python']['executable']}"
    yield "system", found["system"]
    yield "regard", found["regard"]
    if torch is None:
        yield "torch", f"{versions.get('torch') or 'not installed'}, cannot be imported"
    else:
        yield (
            "torch",
            f"{torch['version']}, {torch['built_for'] or 'for the CPU'}; uses {torch['capability']}",
        )
    others = [name for name in found["needed"] if name != "torch"]
    yield "packages", ", ".join(f"{name} {versions[name] or 'MISSING'}" for name in others)
    for name, (extra, use) in facts.ENABLES.items():
        missing = f"not installed: pip install 'regard[{extra}]' for {use}"
        yield "", f"{name} {versions[name]}: {use}" if versions[name] else f"{name} {missing}"
    features = found["processor"]["features"]
    has = (
        "features unknown"
        if features is None
        else ", ".join(name if name in features else f"no {name}" for name in facts.FEATURES)
    )
    yield "processor", f"{found['processor']['model']} ({found['processor']['architecture']}); {has}"
    limit = "" if own["limit"] is None else f", {own['limit']:g} by the container's limit"
    threads = "" if torch is None else f"; torch has {torch['threads']} threads"
    yield "cores", f"{own['affinity'] or own['machine']} of {own['machine']}{limit}{threads}"
    yield "settings", ", ".join(f"{name}={value}" for name, value in found["settings"].items()) or "none"
    yield "compiler", found["compiler"]["version"] or found["compiler"]["path"] or "none"
    native, cache = found["native"], found["cache"]
    works = "not asked" if native is None else "works" if native["works"] else f"off: {native['why']}"
    bytes_too = ", int8 too" if native is not None and native["bytes"] else ""
    yield "compiled C", f"{works}{bytes_too}; kept in {cache['folder']}, {size_text(cache['bytes'])}"
    for each in found["cuda"] or ():
        room = f"{size_text(each['free'])} of {size_text(each['memory'])} free"
        yield "GPU", f"{each['name']}, compute capability {each['capability']}, {room}"
    if not found["cuda"]:
        yield "GPU", "none that torch can use"
    if found["driver"] is not None:
        yield "driver", found["driver"]
    yield "memory", f"{size_text(found['memory']['free'])} of {size_text(found['memory']['total'])} free"
    yield "disk", f"{size_text(found['disk']['free'])} free here, {size_text(cache['free'])} for the cache"
    terminal = found["terminal"]
    yield (
        "text",
        f"{terminal['encoding']} (files {terminal['files']}), locale {terminal['locale'] or 'not set'}",
    )
