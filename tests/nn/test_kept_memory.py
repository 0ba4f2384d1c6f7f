"""A training keeps the memory that it frees, and gives it back at the end."""

import ctypes
import os
import resource
from pathlib import Path

import pytest
import torch

from regard.nn.memory import freed_memory_kept

LARGE, TIMES = 16 << 20, 20
PAGES = 4 * LARGE // resource.getpagesize()
"""Of one tensor in float32."""


def glibc() -> bool:
    own = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return not own and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


def held() -> int:
    """Bytes that the system has given this process."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not glibc(), reason="glibc's malloc, as it comes")
def test_most_pages_are_used_again_and_all_are_given_back():
    torch.ones(LARGE)
    before = held()
    with freed_memory_kept():
        torch.ones(LARGE)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(TIMES):
            torch.ones(LARGE)
        # not all: a block that must lie at a multiple of 64 fits into none that was as large
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults < TIMES * PAGES / 2
    assert held() < before + 4 * LARGE


def test_what_a_user_has_chosen_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("malloc was asked"))
    with freed_memory_kept():
        pass
