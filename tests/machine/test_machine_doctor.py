"""The doctor for the machine: facts as the system gives them, a remedy for each problem, and it works where
hardly anything else does."""

import copy
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard.machine import doctor, facts, torch_facts
from regard.machine.problems import diagnose
from regard.nn import native
from tests.conftest import ROOT

HEALTHY: dict[str, Any] = {
    "system": "Linux-6.1-x86_64",
    "packages": {"torch": "2.13.0+cpu", "numpy": "2.4.6"},
    "needed": {"torch": "2.11", "numpy": "1.26"},
    "processor": {"model": "x", "architecture": "x86_64", "features": ["AVX2", "AVX-512", "VNNI"]},
    "cores": {"machine": 8, "affinity": 4, "limit": None},
    "settings": {},
    "compiler": {"command": "cc", "path": "/usr/bin/cc", "version": "cc 12"},
    "cache": {"folder": "/c", "bytes": 0, "writable": True, "free": 2**40},
    "driver": None,
    "memory": {"total": 2**36, "free": 2**35},
    "disk": {"folder": "/d", "free": 2**40},
    "terminal": {"locale": "C.UTF-8", "encoding": "utf-8", "files": "UTF-8"},
    "torch": {"version": "2.13.0", "threads": 4, "vnni": True, "onednn": True, "built_for": None},
    "cuda": [],
    "native": {"works": True, "why": None, "bytes": True},
    "errors": {},
}
OFF = {"works": False, "why": "cc: error", "bytes": False}


def told(*changes: tuple[str, Any]) -> list[str]:
    """Problems of a healthy machine where this is otherwise: `cores.limit` 2."""
    found = copy.deepcopy(HEALTHY)
    for key, value in changes:
        place = found
        *way, last = key.split(".")
        for each in way:
            place = place[each]
        place[last] = value
    return [f"{each.weight}: {each.what}; {each.remedy}" for each in diagnose(found)]


def test_a_healthy_machine_has_no_problems():
    assert told() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("packages.numpy", None)], "broken: numpy is not installed; pip install 'numpy>=1.26'"),
        ([("packages.torch", "2.2.1")], "broken: torch 2.2.1 is older than 2.11"),
        (
            [("torch", None), ("errors", {"torch": "OSError: libc"})],
            "broken: torch cannot be imported: OSError",
        ),
        (
            [("torch", None), ("errors", {"torch": "importing it took longer than 20 s"})],
            "longer than 20 s; ask once more; if python -c 'import torch' never ends, install it anew",
        ),
        ([("torch.threads", 8)], "problem: torch has 8 threads for 4 cores"),
        ([("cores.limit", 1.5)], "export OMP_NUM_THREADS=2"),
        ([("torch.threads", 1), ("settings", {"OMP_NUM_THREADS": "1"})], "note: OMP_NUM_THREADS=1, but 4"),
        ([("torch.vnni", False)], "problem: the processor has VNNI, but torch does not use it"),
        ([("torch.vnni", False), ("processor.features", ["AVX2"])], "note: no VNNI"),
        ([("torch.onednn", False)], "no oneDNN"),
        ([("native", OFF), ("compiler.path", None)], "problem: no C compiler (cc): inference"),
        ([("native", OFF)], "the compiled C does not work, so inference on the CPU"),
        ([("native", OFF), ("settings", {"REGARD_NATIVE": "0"})], "note: REGARD_NATIVE=0"),
        ([("native", OFF), ("system", "macOS-15")], "is for Linux on x86-64"),
        ([("native", OFF), ("processor.features", [])], "no AVX2"),
        ([("native", None), ("errors", {"native": "ValueError: x"})], "the compiled C: ValueError: x"),
        (
            [("driver", "580.1")],
            "driver (580.1), but this torch is built for the CPU; install torch for CUDA",
        ),
        ([("driver", "470.1"), ("torch.built_for", "CUDA 13.0")], "the driver must suit CUDA 13.0"),
        (
            [("driver", "5"), ("torch.built_for", "CUDA 13"), ("settings", {"CUDA_VISIBLE_DEVICES": ""})],
            "note: CUDA_VISIBLE_DEVICES hides every GPU",
        ),
        ([("disk.folder", None)], "broken: the current folder was removed; cd to one"),
        ([("cache.writable", False)], "set XDG_CACHE_HOME to a folder of your own"),
        ([("memory.free", 2**29)], "0.5 GB of memory are free"),
        ([("disk.free", 2**28)], "the disk of the current folder has 256.0 MB free"),
        ([("cache.free", 0)], "the disk of the cache has 0.0 MB free"),
        ([("terminal.encoding", "ascii")], "written as ascii, not as UTF-8; set LANG=C.UTF-8"),
    ],
)
def test_every_problem_has_a_line_with_its_remedy(changes, said):
    (line,) = told(*changes)
    assert said in line
    assert "; " in line
    assert "\n" not in line


# Facts.


@pytest.fixture
def system(tmp_path, monkeypatch) -> Path:
    """An empty /proc and /sys/fs/cgroup."""
    for name in ("proc", "cgroup"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(facts, name.upper(), tmp_path / name)
    return tmp_path


def put(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_system_that_says_nothing_is_no_error(system):
    assert facts.processor()["features"] is None
    assert facts.cpu_limit() is None
    assert facts.memory() == {"total": None, "free": None}


def test_the_features_of_a_processor_that_matter(system):
    flags = "fpu avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni"
    put(system / "proc", cpuinfo=f"processor : 0\nmodel name\t: A B\nflags\t\t: {flags}\n\nprocessor : 1\n")
    found = facts.processor()
    assert (found["model"], found["features"]) == ("A B", ["AVX2", "AVX-512", "VNNI"])


def test_limits_of_a_container(system):
    put(system / "proc", self__cgroup="0::/a/b\n", meminfo="MemTotal: 8000 kB\nMemAvailable: 6000 kB\n")
    assert facts.memory() == {"total": 8000 * 1024, "free": 6000 * 1024}
    put(system / "cgroup", a__cpu_dot_max="150000 100000", a__b__cpu_dot_max="max 100000")
    put(system / "cgroup", a__b__memory_dot_max="2048000", a__b__memory_dot_current="48000")
    assert facts.cpu_limit() == 1.5
    assert facts.memory() == {"total": 2_048_000, "free": 2_000_000}


def test_limits_of_an_old_container(system):
    put(system / "proc", self__cgroup="3:cpu,cpuacct:/x\n2:memory:/x\n", meminfo="")
    put(system / "cgroup", cpu__x__cpu_dot_cfs_quota_us="200000", cpu__x__cpu_dot_cfs_period_us="100000")
    assert facts.cpu_limit() == 2.0


def test_what_extras_bring_is_told():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {
        re.split(r"[>\[]", package)[0]: extra
        for extra, packages in extras.items()
        if extra not in ("docs", "dev")
        for package in packages
    }
    assert {name: extra for name, (extra, _) in facts.ENABLES.items()} == brought


def test_versions_compare_as_numbers():
    assert facts.numbers("2.13.0+cpu") > facts.numbers("2.9")
    assert facts.numbers("1.26") <= facts.numbers("1.26.0rc1")


def test_the_cache_is_where_the_c_is_kept(monkeypatch, tmp_path):
    for given in (str(tmp_path), "not/absolute", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert facts.cache()["folder"] == str(native.cache_folder())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    put(tmp_path / "regard", a="12345")
    assert facts.cache()["bytes"] == 5


def test_what_torch_says_is_plain_data():
    found = torch_facts.gather()
    assert found["errors"] == {}
    assert found["native"]["works"] is (native.library() is not None)
    assert json.loads(json.dumps(found)) == found


# The command, where something is broken.


def regard(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "regard", "doctor", *arguments],
        env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_it_tells_the_facts_and_imports_no_torch():
    done = regard("--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["facts"]["torch"]["threads"] > 0
    assert found["facts"]["errors"] == {}
    probe = (
        "import sys, io\nfrom rich.console import Console\nfrom regard.machine import doctor\n"
        "doctor.doctor(as_json=False, console=Console(file=io.StringIO()))\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libtorch.so is gone')", "ImportError: libtorch.so is gone"),
        ("import os; os._exit(132)", "the process ended with 132: nothing was said"),
    ],
)
def test_it_works_where_torch_does_not(tmp_path, code, said):
    put(tmp_path, torch_dot_py=code)
    began = time.monotonic()
    done = regard(PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}")
    assert time.monotonic() - began < 15  # a busy machine; it takes one second
    assert done.returncode == 1
    assert f"broken: torch cannot be imported: {said}" in done.stdout
    assert "processor" in done.stdout


def test_torch_that_hangs_is_given_up(tmp_path, monkeypatch):
    put(tmp_path, torch_dot_py="import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT / 'src'}")
    monkeypatch.setattr(doctor, "PATIENCE", 0.5)
    assert doctor.examine()["errors"] == {"torch": "importing it took longer than 0 s"}


def test_it_works_where_nothing_else_is():
    """No compiler, no home, no UTF-8."""
    environment = {
        "PYTHONPATH": str(ROOT / "src"), "PATH": "", "HOME": "/nonexistent", "LC_ALL": "POSIX",
        "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:replace",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "regard", "doctor"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "written as ascii, not as UTF-8" in done.stdout
    assert "compiler    none" in done.stdout


def test_it_works_where_there_is_no_folder_to_stand_in(tmp_path, monkeypatch):
    """torch itself does not."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = regard(PYTHONPATH=str(ROOT / "src"))
    monkeypatch.chdir(ROOT)
    assert done.returncode == 1
    assert "broken: the current folder was removed; cd to one that is there" in done.stdout


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({}, {"GOMP_SPINCOUNT": "1000 (by regard)"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_how_long_threads_spin_is_set_before_torch_comes_unless_the_user_has(own, told):
    """OpenMP reads it when torch is imported; who set it is told."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    script = (
        "import sys, os, json, regard; assert 'torch' not in sys.modules\n"
        "from regard.machine.facts import settings; assert 'torch' not in sys.modules\n"
        f"print(json.dumps({{name: each for name, each in settings().items() if name in {names}}}))"
    )
    plain = {name: each for name, each in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**plain, **own}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == told
