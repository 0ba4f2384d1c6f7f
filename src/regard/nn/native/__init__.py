"""The few loops that are written in C. The machine's own compiler makes a library of them when they are first
needed, for the processor at hand, and keeps it where programs keep such things (XDG_CACHE_HOME).

    attention.c     attention of packed or cached tokens
    linear.c        a linear layer in float32, and in 8 bits on processors with AVX-512 VNNI
    decoder.c       all layers of a translator's decoder, by those two
    groups.c        products with weights of 4 or 8 bits by groups of 32
    causal.c        all layers of a language model of Llama's make, by those
    best.c          the best tokens of each row, and their log-probabilities
    beam.c          the steps of a beam search, by those
    vectors.h       what they share; registers.h too
    threads.h       torch's own threads
    structs.py      what C is given

They are for inference, on Linux, on x86-64 processors with AVX2, by gcc or clang. Anywhere else `library` is
None, and torch does the same work: tests/nn/native holds the two equal.

    REGARD_NATIVE=0     no C: torch does the work
    CC="ccache gcc"     the compiler, with its first arguments; else cc

What the compiler could not make is not tried again until it, the sources or the processor change: its message
is kept beside the libraries. A compiler that was killed, or had no memory or disk, is tried again the next
time; one that had no time, after an hour.

A library that was cut short would kill the process as it is loaded, so none is loaded unseen: at its end,
where the loader does not look, lies the hash of the rest. What is not as it was made is made anew.
"""

import ctypes
import errno
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from regard.disk import cache_folder, is_full
from regard.nn.native.structs import check, missing

SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in (
        "attention.c", "beam.c", "best.c", "causal.c", "decoder.c", "groups.c", "linear.c",
        "attention.h", "best.h", "decoder.h", "groups.h", "linear.h", "registers.h", "threads.h", "vectors.h",
    )
)  # fmt: skip
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-fno-math-errno",
    "-fno-trapping-math", "-shared", "-fPIC",
)  # fmt: skip
LIBRARIES = ("-lm", "-lgomp")
NEEDED = {"avx2", "fma", "f16c"}
"""What a processor must be able to do."""
LONGEST = 120
"""Seconds that a compiler may take."""
MARK = 32
"""Bytes of the hash at the end of a library."""
LARGEST = 64 * 2**20
"""Bytes that a library may have."""
SOON = 60 * 60
"""Seconds after which a compiler that had no time is tried again."""
OLD = 24 * 60 * 60
"""Seconds after which a library may go when another is made. Other versions of regard may be in use beside
this one: what one of them has just made, or is making, stays."""
_CUT_OFF = re.compile(r"\b[Kk]illed\b|[Oo]ut of memory|[Cc]annot allocate memory|memory exhausted")


class NativeWarning(UserWarning):
    """What could be fast is not."""


@cache
def library() -> ctypes.CDLL | None:
    if not _wanted() or NEEDED - _processor():
        return None
    try:
        compiler = _compiler()
        made = None if compiler is None else _load(compiler)
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"there is no library of {SOURCES[0].parent}, so torch does its work, more slowly: {error}\n"
            "(REGARD_NATIVE=0 leaves it to torch without this warning)",
            NativeWarning,
            stacklevel=2,
        )
        return None
    if made is not None:
        check(made)
    return made


def explain() -> str | None:
    """Why there is no library, in a line; None where there is one."""
    if not _wanted():
        return "REGARD_NATIVE=0 turns it off"
    if missing := NEEDED - _processor():
        return f"it is for Linux on x86-64, and the processor must have {', '.join(sorted(missing))}"
    try:
        compiler = _compiler()
        if compiler is None:
            return "there is no C compiler (cc): install gcc"
        _load(compiler)
    except (OSError, RuntimeError) as error:
        return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return None


def _wanted() -> bool:
    said = os.environ.get("REGARD_NATIVE") or "1"
    if said not in ("0", "1"):
        raise ValueError(f"REGARD_NATIVE={said}: set it to 0 for torch alone, or to 1 for C where it can be")
    return said == "1"


def _processor() -> set[str]:
    """What it can, as far as Linux says so."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return set()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {*next((line for line in lines if line.startswith("flags")), "").split()}


def _compiler() -> list[str] | None:
    """The command. None if there is no cc, and no other was asked for."""
    said = os.environ.get("CC") or ""
    try:
        command = shlex.split(said) or ["cc"]
    except ValueError as error:
        raise RuntimeError(f"CC={said} is no command ({error}): mend it, or unset it to use cc") from None
    if shutil.which(command[0]) is not None:
        return command
    if not said:
        return None
    raise RuntimeError(f"CC={said}: {command[0]} was not found; install it, or unset CC to use cc")


def _load(compiler: list[str]) -> ctypes.CDLL:
    path = _place(compiler)
    with suppress(OSError):  # not there yet, or broken
        return _opened(path)
    for failed in (path.with_suffix(".failed"), path.with_suffix(".late")):
        if failed.exists() and not (failed.suffix == ".late" and _age(failed) > SOON):
            why = failed.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{why}\n(so it was when it was tried; remove {failed} to try again)")
    return _make(compiler, path)


def _opened(path: Path) -> ctypes.CDLL:
    """A library that is as it was made; else an OSError."""
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise OSError(f"{path}: no ordinary file, or no small one")
    content = path.read_bytes()
    if _mark(content[:-MARK]) != content[-MARK:]:
        raise OSError(f"{path}: not as it was made")
    loaded = ctypes.CDLL(str(path))
    if lacking := missing(loaded):
        raise OSError(f"{path}: it has no {', '.join(lacking)}")
    return loaded


def _mark(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _seal(path: Path) -> None:
    """Put the mark at the end of a library, and all of it on the disk."""
    with path.open("rb+") as file:
        mark = _mark(file.read())
        file.write(mark)
        file.flush()
        os.fsync(file.fileno())


def _place(compiler: list[str]) -> Path:
    """Of the library for these sources and flags, this compiler and this processor. Nobody else may have put
    it there."""
    folder = cache_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise OSError(f"{folder} is not yours alone: set XDG_CACHE_HOME to a folder that is")
    sources = (source.read_text(encoding="utf-8") for source in SOURCES)
    command = (_identity(word) for word in compiler)
    facts = [*sources, *FLAGS, *LIBRARIES, *command, *sorted(_processor())]
    return folder / f"native-{hashlib.sha256(chr(0).join(facts).encode()).hexdigest()[:16]}.so"


def _identity(word: str) -> str:
    """Of a word of the command: if it is a program, the one that is there now."""
    if (found := shutil.which(word)) is None:
        return word
    program = Path(found).resolve()
    return f"{program} {program.stat().st_mtime_ns}"


def _make(compiler: list[str], path: Path) -> ctypes.CDLL:
    """Another process may be doing the same: what is there under its name is whole."""
    parts = [str(source) for source in SOURCES if source.suffix == ".c"]
    with tempfile.TemporaryDirectory(prefix="native-", dir=path.parent) as work:
        made = Path(work) / path.name
        try:
            subprocess.run(
                [*compiler, *FLAGS, *parts, "-o", str(made), *LIBRARIES],
                check=True, capture_output=True, encoding="utf-8", errors="replace", timeout=LONGEST,
            )  # fmt: skip
            _seal(made)
            loaded = _opened(made)
        except (OSError, subprocess.SubprocessError) as error:
            said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
            why = f"{shlex.join(compiler)}: {said or error}"
            if not _is_passing(error, why):
                late = isinstance(error, subprocess.TimeoutExpired)  # on a machine that was busy, or is slow
                kept = made.with_suffix(".late" if late else ".failed")
                kept.write_text(why, encoding="utf-8")
                kept.replace(path.with_suffix(kept.suffix))
            raise RuntimeError(why) from None
        made.replace(path)
    _remove_old(path)
    return loaded


def _is_passing(error: Exception, why: str) -> bool:
    """Whether another time will do better. A compiler's driver tells in words of a part that was killed."""
    killed = isinstance(error, subprocess.CalledProcessError) and error.returncode < 0
    short = getattr(error, "errno", None) in (errno.ENOMEM, errno.EAGAIN)
    return killed or short or is_full(RuntimeError(why)) or bool(_CUT_OFF.search(why))


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _remove_old(path: Path) -> None:
    """All but this library that are old, and what was left of compilers that were killed."""
    for other in path.parent.glob("native-*"):
        with suppress(OSError):  # another process was faster
            if other == path or _age(other) < OLD:
                continue
            shutil.rmtree(other) if other.is_dir() else other.unlink()


def recorded() -> bool:
    """Whether torch's operations are being recorded, by a compiler or a tracer: calls of C leave no trace."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
