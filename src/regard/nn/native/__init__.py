"""The few loops that are written in C. The machine's own compiler makes a library of them when they are first
needed, for the processor at hand, and keeps it where programs keep such things (XDG_CACHE_HOME).

    attention.c     attention of packed or cached tokens
    linear.c        a linear layer in float32, and in 8 bits on processors with AVX-512 VNNI
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
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

SOURCES = tuple(Path(__file__).with_name(name) for name in ("attention.c", "linear.c", "vectors.h"))
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp", "-shared", "-fPIC",
)  # fmt: skip
NEEDED = {"avx2", "fma", "f16c"}
"""What a processor must be able to do."""


class NativeWarning(UserWarning):
    """What could be fast is not."""


@cache
def library() -> ctypes.CDLL | None:
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None or NEEDED - _processor():
        return None
    try:
        path = _place(compiler)
        with suppress(OSError):  # not there yet, or broken
            return ctypes.CDLL(str(path))
        _make(compiler, path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        warnings.warn(
            f"{compiler} made no library of {SOURCES[0].parent}, so torch does its work, more slowly: {why}",
            NativeWarning,
            stacklevel=2,
        )
        return None


def _processor() -> set[str]:
    """What it can, as far as Linux says so."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return set()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return {*next((line for line in lines if line.startswith("flags")), "").split()}


def _place(compiler: str) -> Path:
    """Of the library for these sources and flags, this compiler and this processor. Nobody else may have put
    it there."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    folder = (given if given.is_absolute() else Path.home() / ".cache") / "regard"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise OSError(f"{folder} is not yours alone: set XDG_CACHE_HOME to a folder that is")
    sources = (source.read_text(encoding="utf-8") for source in SOURCES)
    by = Path(compiler).resolve()
    facts = [*sources, *FLAGS, str(by), str(by.stat().st_mtime_ns), *sorted(_processor())]
    return folder / f"native-{hashlib.sha256(chr(0).join(facts).encode()).hexdigest()[:16]}.so"


def _make(compiler: str, path: Path) -> None:
    """Another process may be doing the same: what is there under its name is whole."""
    parts = [str(source) for source in SOURCES if source.suffix == ".c"]
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        made = Path(work) / path.name
        subprocess.run(
            [compiler, *FLAGS, *parts, "-o", str(made), "-lm"],
            check=True, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        made.replace(path)


def recorded() -> bool:
    """Whether torch's operations are being recorded, by a compiler or a tracer: calls of C leave no trace."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
