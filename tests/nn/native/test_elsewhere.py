"""Systems that have less than Linux: what Python offers on Unix alone is taken from it here."""

import os
import subprocess
import sys

from regard import disk
from regard.tasks import run

CODE = """
import importlib, os, pkgutil, sys

for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None  # importing it fails
for name in ("fork", "geteuid", "getgid", "getuid", "O_DIRECTORY", "sched_getaffinity"):
    delattr(os, name)

import regard

EXTRAS = {
    "ctranslate2", "datasets", "faiss", "fastapi", "lxml", "matplotlib", "onnx", "onnxruntime", "onnxscript",
    "playwright", "polib", "pyarrow", "sentence_transformers", "transformers", "triton", "uvicorn",
}
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    if module.name == "regard.__main__":
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        continue
    print(module.name)
"""


def test_everything_is_imported_without_what_only_unix_has():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"regard.cli", "regard.tasks.run", "regard.train.trainer", "regard.nn.native"} <= {
        *done.stdout.split()
    }


def test_without_locks_runs_are_not_kept_apart_but_run(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOCKS", None)
    with run._held(tmp_path / "a"), run._held(tmp_path / "a"):
        assert (tmp_path / "a").is_dir()


def test_folders_that_cannot_be_opened_are_written_to(tmp_path, monkeypatch):
    def refuse(*given: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.delattr(os, "O_DIRECTORY")
    monkeypatch.setattr(disk.os, "open", refuse)
    disk.write_text(tmp_path / "a", "b")
    assert (tmp_path / "a").read_text() == "b"
