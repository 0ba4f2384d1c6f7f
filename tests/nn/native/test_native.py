"""The library that is made of the sources in C."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.nn import native
from regard.nn.native import NativeWarning, library

compiled = pytest.mark.skipif(library() is None, reason="no compiler")


@compiled
def test_it_shares_torchs_threads():
    """Two libraries of threads in one process would wait for one another."""
    code = (
        "import torch; from regard.nn.native import library; library(); "
        "print({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("libgomp") == 1


@compiled
def test_the_library_is_made_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.__wrapped__()
    (made,) = (tmp_path / "regard").iterdir()
    time = made.stat().st_mtime_ns
    monkeypatch.setattr(native.subprocess, "run", None)
    native.library.__wrapped__()
    assert made.stat().st_mtime_ns == time


@compiled
def test_a_compiler_that_fails_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "broken.c"
    broken.write_text("int linear(")
    monkeypatch.setattr(native, "SOURCES", (broken,))
    with pytest.warns(NativeWarning, match=r"so torch does its work, more slowly: .*broken\.c.* error: "):
        assert native.library.__wrapped__() is None
    assert [*(tmp_path / "regard").iterdir()] == []


@compiled
def test_a_library_that_is_broken_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    made = native._place(shutil.which("cc"))
    made.write_bytes(b"")
    assert native.library.__wrapped__() is not None
    assert made.stat().st_size > 1000


@compiled
def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "regard").mkdir()
    (tmp_path / "regard").chmod(0o777)
    with pytest.warns(NativeWarning, match="not yours alone: set XDG_CACHE_HOME"):
        assert native.library.__wrapped__() is None
    assert [*(tmp_path / "regard").iterdir()] == []


def test_a_processor_that_cannot_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(native, "_processor", lambda: {"sse2", "avx"})
    assert native.library.__wrapped__() is None


def test_without_a_compiler_torch_does_it(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native.library.__wrapped__() is None


def test_the_sources_are_in_the_package():
    assert all(source.is_file() for source in native.SOURCES)
    assert {*native.SOURCES} == {*native.SOURCES[0].parent.glob("*.[ch]")}
    assert '"nn/native/*.[ch]"' in Path("pyproject.toml").read_text(encoding="utf-8")
