"""The README's and the docs' commands run, and do what the text says."""

import gzip
import re
import subprocess
import sys

from tests.conftest import ROOT


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_in_the_readme_runs(tmp_path, monkeypatch):
    """All blocks in order, as a reader would type them; the files they name hold text with two faults."""
    monkeypatch.chdir(tmp_path)
    words = b"one two three four five six seven eight nine ten " * 3
    lines = [words + str(number).encode() for number in range(1200)]
    broken = [b"\xff\xfe broken" if number in (16, 1040) else line for number, line in enumerate(lines)]
    for name, content in (("train.en.gz", lines), ("train.de.gz", broken)):
        with gzip.open(name, "wb") as file:
            file.write(b"\n".join(content) + b"\n")
    shown: list[str] = []
    names: dict[str, object] = {"print": lambda *values: shown.append(" ".join(map(str, values)))}
    for code in blocks("README.md", "python"):
        exec(compile(code, "README.md", "exec"), names)
    promised = [
        line.split("#", 1)[1].strip()
        for code in blocks("README.md", "python")
        for line in code.splitlines()
        if "print(" in line and "#" in line
    ] + [
        line.removeprefix("# ")
        for code in blocks("README.md", "python")
        for line in code.splitlines()
        if line.startswith("# ")
    ]
    assert sorted(shown) == sorted(promised)


def test_the_readme_names_only_targets_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in blocks("README.md", "sh"):
        for target in re.findall(r"^make (\w+)", block, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_demo_runs_and_takes_a_users_words():
    command = [sys.executable, "demo/reverse.py", "--steps", "3", "hello"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "hello -> " in run.stdout
    assert "what it looks at while it writes hello backwards" in run.stdout
