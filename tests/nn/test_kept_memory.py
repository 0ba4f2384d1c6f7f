"""A training keeps the memory that it frees, and gives it back at the end."""

import ctypes
import json
import os
import resource
import subprocess
import sys

import pytest

from regard.nn.memory import freed_memory_kept

LARGE, TIMES = 16 << 20, 20
PAGES = 4 * LARGE // resource.getpagesize()
"""Of one tensor in float32."""
MEASURE = f"""
import json, resource
from pathlib import Path
import torch
from regard.nn.memory import freed_memory_kept

def held():
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()

torch.ones({LARGE})
before = held()
with freed_memory_kept():
    torch.ones({LARGE})
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({TIMES}):
        torch.ones({LARGE})
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
print(json.dumps([faults, held() - before]))
"""
"""In a process of its own, as a training has: where much else was done, the heap may have no room to grow."""


def glibc() -> bool:
    own = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return not own and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


@pytest.mark.skipif(not glibc(), reason="glibc's malloc, as it comes")
def test_most_pages_are_used_again_and_all_are_given_back():
    done = subprocess.run([sys.executable, "-c", MEASURE], check=True, capture_output=True, text=True)
    faults, more = json.loads(done.stdout)
    # not none: a block that must lie at a multiple of 64 fits into none that was as large
    assert faults < TIMES * PAGES / 2
    assert more < 4 * LARGE


def test_what_a_user_has_chosen_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("malloc was asked"))
    with freed_memory_kept():
        pass
