"""What can be known of a machine without torch: each fact on its own, None where it cannot be found out."""

import importlib.metadata
import locale
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import regard

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
ENABLES = {
    "matplotlib": ("look", "pictures: regard plot, training curves"),
    "pyarrow": ("data", "Parquet and Arrow"),
    "datasets": ("data", "Hugging Face data sets"),
    "fsspec": ("scale", "texts at addresses, for regard corpus"),
    "ray": ("scale", "regard corpus on many machines"),
    "faiss-cpu": ("search", "search in more than 100,000 texts"),
    "ctranslate2": ("deploy", "translators for CTranslate2"),
    "onnx": ("onnx", "export to ONNX"),
    "onnxruntime": ("onnx", "export to ONNX"),
    "onnxscript": ("onnx", "export to ONNX"),
    **dict.fromkeys(
        (
            *("starlette", "uvicorn", "httptools", "uvloop", "prometheus-client", "orjson"),
            *("python-multipart", "py3langid"),
        ),
        ("serve", "models over HTTP: regard serve"),
    ),
    "gguf": ("gguf", "language models in GGUF files"),
    "lxml": ("desk", "Word and OpenDocument files, Android's strings"),
    "markdown-it-py": ("desk", "Markdown files"),
    "rapidfuzz": ("desk", "fuzzy matches of translation memories"),
    "ruamel.yaml": ("desk", "YAML files"),
    "sentencepiece": ("desk", "tokenizers of MarianMT, M2M100 and NLLB"),
}
"""Optional packages: the extra that brings each, and what it is good for."""
FEATURES = {
    "AVX2": {"avx2", "fma", "f16c"},
    "AVX-512": {"avx512f", "avx512bw", "avx512vl"},
    "VNNI": {"avx512_vnni"},
    "bf16": {"avx512_bf16"},
    "AMX": {"amx_tile", "amx_bf16", "amx_int8"},
}
"""What matters of a processor, by the names that Linux has for it: all of them must be there. AVX2 (with FMA
and F16C) is what the C needs, VNNI what its 8-bit products need, and bf16 and AMX are for bfloat16."""
SETTINGS = (
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "CUDA_VISIBLE_DEVICES",
    "REGARD_NATIVE", "CC", "XDG_CACHE_HOME",
)  # fmt: skip
"""Of the environment: what changes how fast it is, or whether it runs."""


def settings() -> dict[str, str]:
    """Those that are set; what regard itself has set, because nobody else did, is told."""
    own = {"GOMP_SPINCOUNT"} if regard._spins else set()
    said = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    return {name: f"{value} (by regard)" if name in own else value for name, value in said.items()}


def packages() -> dict[str, str | None]:
    """Versions of those that regard needs, and of the optional ones."""
    return {name: version(name) for name in (*needed(), *ENABLES)}


def needed() -> dict[str, str]:
    """Packages that regard cannot do without, and the least version of each."""
    with suppress(Exception):  # never installed, or its files are broken
        lines = importlib.metadata.requires("regard") or []
        plain = [line.partition(";")[0] for line in lines if "extra ==" not in line]
        found = [re.match(r"([\w.-]+)\s*(?:\[.*\])?\s*(?:>=\s*([\w.]+))?", line) for line in plain]
        return {each[1]: each[2] or "0" for each in found if each}
    return {"torch": "0", "numpy": "0", "tokenizers": "0", "safetensors": "0"}


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except Exception:  # not there, or its files are broken
        return None


def numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(each) for each in re.findall(r"\d+", re.split(r"[+-]", version)[0]))


def processor() -> dict[str, Any]:
    """Its model, and which of FEATURES it has; None where the system does not say."""
    text = _read(PROC / "cpuinfo") or ""
    lines = dict(re.findall(r"^(model name|flags)\s*:\s*(.*)$", text, re.MULTILINE))
    flags = {*lines["flags"].split()} if "flags" in lines else None
    return {
        "model": lines.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "features": None if flags is None else [name for name, own in FEATURES.items() if own <= flags],
    }


def cores() -> dict[str, Any]:
    """How many the machine has, how many this process may run on, and how much of them it may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return {
        "machine": os.cpu_count(),
        "affinity": len(allowed(0)) if allowed is not None else None,
        "limit": cpu_limit(),
    }


def cpu_limit() -> float | None:
    """Of cgroups, which containers have: cores of time in a second."""
    found = []
    for folder in _groups("cpu"):
        with suppress(ValueError, ZeroDivisionError):
            two = (_read(folder / "cpu.max") or "").split()
            one = [_read(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
            quota, period = (int(each) for each in (two or one))
            if quota > 0:
                found.append(quota / period)
    return min(found, default=None)


def memory() -> dict[str, int | None]:
    """Bytes that there are, and that are free; of a container with a limit, its own."""
    text = _read(PROC / "meminfo") or ""
    found = {name: 1024 * int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    total, free = found.get("MemTotal"), found.get("MemAvailable")
    for folder in _groups("memory"):
        with suppress(ValueError):
            pairs = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
            for limit, used in pairs:
                most = int(_read(folder / limit) or "none")
                if total is not None and free is not None and most < total:
                    total, free = most, min(free, most - int(_read(folder / used) or 0))
    return {"total": total, "free": free}


def _groups(kind: str) -> Iterator[Path]:
    """The folders of this process's control group, innermost first; version 2, or 1 for this kind."""
    for line in (_read(PROC / "self" / "cgroup") or "").splitlines():
        _, kinds, path = [*line.split(":", 2), "", ""][:3]
        if kinds and kind not in kinds.split(","):
            continue
        top = CGROUP / kind if kinds else CGROUP
        inside = top / path.lstrip("/")
        yield from (each for each in (inside, *inside.parents) if each == top or top in each.parents)


def disk(folder: Path) -> int | None:
    """Bytes free where this folder is, or will be."""
    for each in (folder, *folder.parents):
        with suppress(OSError):
            return shutil.disk_usage(each).free
    return None


def here() -> dict[str, Any]:
    """The current folder, unless it was removed, and how much can be written there."""
    try:
        folder = Path.cwd()
    except OSError:
        return {"folder": None, "free": None}
    return {"folder": str(folder), "free": disk(folder)}


def cache() -> dict[str, Any]:
    """Where the compiled C is kept, how large that is, and whether something can be written there."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    try:
        folder = (given if given.is_absolute() else Path.home() / ".cache") / "regard"
    except RuntimeError:  # nobody has a home
        return {"folder": None, "bytes": 0, "writable": False, "free": None}
    size = 0
    with suppress(OSError):
        size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    writable = there is not None and os.access(there, os.W_OK)
    return {"folder": str(folder), "bytes": size, "writable": writable, "free": disk(folder)}


def compiler() -> dict[str, Any]:
    """The command, where it is, and the first line of its --version."""
    said = os.environ.get("CC") or "cc"
    try:
        command = shlex.split(said)
        path = shutil.which(command[0])
        about = None if path is None else output([*command, "--version"])
    except (ValueError, IndexError):
        path = about = None
    return {"command": said, "path": path, "version": (about or "").partition("\n")[0] or None}


def driver() -> str | None:
    """Of an NVIDIA GPU, as the kernel says, or nvidia-smi."""
    found = re.search(r"Kernel Module.*?(\d+(?:\.\d+)+)", _read(PROC / "driver" / "nvidia" / "version") or "")
    if found:
        return found[1]
    if shutil.which("nvidia-smi") is None:
        return None
    said = output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return (said or "").strip().partition("\n")[0] or None


def terminal() -> dict[str, Any]:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    return {
        "locale": os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG"),
        "encoding": getattr(sys.stdout, "encoding", None),
        "files": locale.getpreferredencoding(False),
    }


def output(command: list[str]) -> str | None:
    """What a command prints; None if it cannot run, fails or takes longer than a second."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=1, encoding="utf-8", errors="replace", check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
