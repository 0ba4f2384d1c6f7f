"""The few loops that are written in C. The machine's own compiler makes a library of them when they are first
needed, for the processor at hand, and keeps it where programs keep such things (XDG_CACHE_HOME).

    attention.c     attention of packed or cached tokens
    linear.c        a linear layer in float32, and in 8 bits on processors with VNNI
    vectors.h       what both share

They are for inference. Where there is no compiler `library` is None, and torch does the same work:
tests/nn/native holds the two equal.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path

SOURCES = tuple(Path(__file__).with_name(name) for name in ("attention.c", "linear.c", "vectors.h"))
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp", "-shared", "-fPIC",
)  # fmt: skip


class NativeWarning(UserWarning):
    """What could be fast is not."""


@cache
def library() -> ctypes.CDLL | None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        warnings.warn(
            f"{compiler} made no library of {SOURCES[0].parent}, so torch does its work, more slowly: {why}",
            NativeWarning,
            stacklevel=2,
        )
        return None


def _compiled(compiler: str) -> Path:
    """Made once for these sources and flags, this compiler and this processor."""
    processor = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), ""
    )
    sources = (source.read_text(encoding="utf-8") for source in SOURCES)
    about = "\0".join([*sources, *FLAGS, os.path.realpath(compiler), processor])
    name = f"native-{hashlib.sha256(about.encode()).hexdigest()[:16]}.so"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may be doing the same: what is there under its name is whole.
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / name
            parts = [str(source) for source in SOURCES if source.suffix == ".c"]
            subprocess.run(
                [compiler, *FLAGS, *parts, "-o", str(made), "-lm"],
                check=True, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            made.replace(folder / name)
    return folder / name
