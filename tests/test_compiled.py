"""The tests of compiled code, in a process of their own: see tests/conftest.py."""

import os
import subprocess
import sys

from tests.conftest import ROOT


def test_compiled_code_passes_its_own_tests():
    command = [sys.executable, "-m", "pytest", "-n", "0", "tests/compiled"]
    settings = {"SHAPES": "off", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
