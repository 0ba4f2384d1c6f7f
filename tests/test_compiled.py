"""The tests of compiled code, in a process of their own: see tests/conftest.py."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize("which", ["not long", pytest.param("long", marks=pytest.mark.long)])
def test_compiled_code_passes_its_own_tests(which):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", which, "tests/compiled"]
    settings = {"SHAPES": "off", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
