"""The folder where libraries are kept, spoiled: a process neither dies of it nor computes with it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from regard.nn import native
from regard.nn.native import structs

pytestmark = pytest.mark.skipif(native.library() is None, reason="no library")

CODE = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from regard.nn import native

run, made = native.subprocess.run, []
native.subprocess.run = lambda *given, **how: made.append(1) or run(*given, **how)
native.check = lambda library: None
native.SOURCES = (Path(sys.argv[1]),)
for cache in sys.argv[2:]:
    os.environ["XDG_CACHE_HOME"] = cache
    found = native.library.__wrapped__()
    print(json.dumps([found is not None and found.attend() == 42, len(made)]), flush=True)
    made.clear()
"""
"""The folders of libraries in turn, with a source that is compiled at once instead of ours."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "small.c"
    others = ", ".join(name for name in (*structs.FUNCTIONS, *structs.STRUCTS) if name != "attend")
    path.write_text(
        f"int {others}; static char room[20000] = {{1}}; int attend(void) {{ return 41 + room[0]; }}"
    )
    return path


def run(source: Path, caches: Iterable[Path]) -> list[list[object]]:
    """Whether a process that has each cache can call C, and how often it compiled it."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(source), *map(str, caches)],
        env={**os.environ, "REGARD_NATIVE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the library in it."""
    cache = tmp_path_factory.mktemp("cache")
    assert run(source, [cache, cache]) == [[True, 1], [True, 0]]
    return cache


def library(cache: Path) -> Path:
    [found] = (cache / "regard").glob("native-*.so")
    return found


def foreign(folder: Path) -> bytes:
    """A library of somebody else's, whole as it is."""
    source, made = folder / "foreign.c", folder / "foreign.so"
    source.write_text("int answer(void) { return 42; }")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    return made.read_bytes()


def test_what_is_spoiled_is_made_anew_and_then_kept(whole: Path, source: Path, tmp_path: Path) -> None:
    content, other = library(whole).read_bytes(), foreign(tmp_path)
    middle = len(content) // 2
    spoiled = {
        "empty": b"",
        "cut": content[:middle],
        "cut to a page": content[:4096],  # what the loader reads is there, what it maps is not: SIGBUS
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "no mark": content[: -native.MARK],
        "foreign": other,
        "foreign with a mark": other + hashlib.sha256(other).digest(),
    }
    caches = []
    for name, wrong in spoiled.items():
        cache = shutil.copytree(whole, tmp_path / name)
        library(cache).write_bytes(wrong)
        caches.append(cache)
    assert run(source, caches) == [[True, 1]] * len(spoiled)
    assert run(source, caches) == [[True, 0]] * len(spoiled)


def test_a_library_cut_short_would_kill(whole: Path, tmp_path: Path) -> None:
    """Or else the test above says little."""
    path = tmp_path / "cut.so"
    path.write_bytes(library(whole).read_bytes()[:4096])
    load = f"import ctypes; ctypes.CDLL({str(path)!r})"
    assert subprocess.run([sys.executable, "-c", load], capture_output=True, check=False).returncode < 0


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def huge(path: Path) -> None:
    os.truncate(path, 2**40)  # sparse: it takes no room


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def full_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "more").write_text("")


def cut_failure(path: Path) -> None:
    path.unlink()
    path.with_suffix(".failed").write_bytes(b"\xff\xfe")


def test_what_is_no_library_at_all_is_replaced_or_left_to_torch(
    whole: Path, source: Path, tmp_path: Path
) -> None:
    ways: dict[Callable[[Path], None], bool] = {
        pipe: True, huge: True, link: True, full_folder: False, cut_failure: False
    }  # fmt: skip
    caches = [shutil.copytree(whole, tmp_path / spoil.__name__) for spoil in ways]
    for cache, spoil in zip(caches, ways, strict=True):
        spoil(library(cache))
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    assert [there for there, _ in run(source, [*caches, nowhere])] == [*ways.values(), False]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_to_leaves_the_work_to_torch(
    whole: Path, source: Path, tmp_path: Path
) -> None:
    cache = shutil.copytree(whole, tmp_path / "cache")
    library(cache).unlink()
    (cache / "regard").chmod(0o500)
    assert run(source, [cache]) == [[False, 0]]
