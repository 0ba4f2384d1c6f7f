"""The tests of interpreted Triton kernels, in a process of their own: see tests/conftest.py."""

import os
import platform
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.long
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="Triton is for Linux on x86-64"
)
def test_triton_kernels_pass_their_own_tests_without_a_gpu():
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/interpreted"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "SHAPES": "off"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
