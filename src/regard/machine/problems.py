"""What is wrong with a machine, from its facts: what, what it costs, and the remedy, a line each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from regard.machine import facts

LATE = "importing it took longer than"
"""What is said of torch where nobody waited for it any more."""
LITTLE = 2 * 2**30
"""Bytes free that are few: a small model and its checkpoints."""


@dataclass(frozen=True, slots=True)
class Problem:
    weight: Literal["broken", "problem", "note"]
    """Whether regard cannot work, or could work better, or this may be as it is meant."""
    what: str
    remedy: str


def diagnose(found: dict[str, Any]) -> Iterator[Problem]:
    """Every problem that the facts show, with its remedy."""
    yield from _of_packages(found)
    yield from _of_threads(found)
    yield from _of_processor(found)
    yield from _of_native(found)
    yield from _of_cuda(found)
    yield from _of_room(found)
    encodings = [found["terminal"][name] or "" for name in ("encoding", "files")]
    if other := [each for each in encodings if each.lower().replace("-", "") != "utf8"]:
        remedy = "set LANG=C.UTF-8, or PYTHONUTF8=1"
        yield Problem("problem", f"text is written as {other[0] or 'nothing known'}, not as UTF-8", remedy)


def _of_packages(found: dict[str, Any]) -> Iterator[Problem]:
    errors, versions = found["errors"], found["packages"]
    for name, least in found["needed"].items():
        there = versions[name]
        if there is None:
            yield Problem("broken", f"{name} is not installed", f"pip install '{name}>={least}'")
        elif facts.numbers(there) < facts.numbers(least):
            what = f"{name} {there} is older than {least}, which regard needs"
            yield Problem("broken", what, f"pip install '{name}>={least}'")
    if "torch" in errors and versions["torch"] is not None:
        remedy = "install it anew: pip install --force-reinstall torch"
        if errors["torch"].startswith(LATE):  # from a slow disk, or on a busy machine
            remedy = "ask once more; if python -c 'import torch' never ends, install it anew"
        yield Problem("broken", f"torch cannot be imported: {errors['torch']}", remedy)


def _of_threads(found: dict[str, Any]) -> Iterator[Problem]:
    own, torch = found["cores"], found["torch"]
    usable = own["affinity"] or own["machine"]
    if usable is None or torch is None:
        return
    if own["limit"] is not None:
        usable = min(usable, max(1, round(own["limit"])))
    threads = torch["threads"]
    if threads > usable:
        yield Problem(
            "problem",
            f"torch has {threads} threads for {usable} core{'s' * (usable > 1)}: they wait for one another",
            f"export OMP_NUM_THREADS={usable}",
        )
    elif threads < usable and "OMP_NUM_THREADS" in found["settings"]:
        what = f"OMP_NUM_THREADS={found['settings']['OMP_NUM_THREADS']}, but {usable} cores are there"
        yield Problem("note", what, "unset OMP_NUM_THREADS, unless several runs share the machine")


def _of_processor(found: dict[str, Any]) -> Iterator[Problem]:
    features, torch = found["processor"]["features"], found["torch"]
    if torch is None:
        return
    if features is not None and "VNNI" in features and not torch["vnni"]:
        yield Problem(
            "problem",
            "the processor has VNNI, but torch does not use it: int8 rounds more coarsely and is slower",
            "unset ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA, or install a newer torch",
        )
    elif not torch["vnni"]:
        what = "no VNNI: --precision int8 gains less here, and rounds tokens to 63 steps instead of 127"
        yield Problem("note", what, "stay with float32, unless memory is short")
    if not torch["onednn"]:
        what = "this build of torch has no oneDNN: there is no int8, and products are slower"
        yield Problem("problem", what, "install torch from pytorch.org or PyPI")


def _of_native(found: dict[str, Any]) -> Iterator[Problem]:
    # 1.1 to 1.5 times as long: sentences translated by a tiny model, and embedded by MiniLM, on two cores
    native, slower = found["native"], "inference on the CPU takes up to half as long again"
    if native is None:
        if "native" in found["errors"] and found["torch"] is not None:
            what = f"the compiled C: {found['errors']['native']}"
            yield Problem("problem", what, "export REGARD_NATIVE=0 leaves its work to torch")
        return
    if native["works"]:
        return
    command, why = found["compiler"], native["why"]
    if found["settings"].get("REGARD_NATIVE") == "0":
        yield Problem("note", f"REGARD_NATIVE=0: no compiled C, {slower}", "unset REGARD_NATIVE")
    elif not found["system"].startswith("Linux") or found["processor"]["architecture"] != "x86_64":
        what = f"the compiled C is for Linux on x86-64: {slower}"
        yield Problem("note", what, "nothing to do: torch does its work")
    elif "AVX2" not in (found["processor"]["features"] or ()):
        what = f"the processor has no AVX2, which the compiled C needs: {slower}"
        yield Problem("note", what, "nothing to do: torch does its work")
    elif command["path"] is None:
        what = f"no C compiler ({command['command']}): {slower}"
        yield Problem("problem", what, "install gcc (apt install gcc), or set CC")
    else:
        what = f"the compiled C does not work, so {slower}: {why}"
        yield Problem("problem", what, f"mend that, or remove *.failed in {found['cache']['folder']}")


def _of_cuda(found: dict[str, Any]) -> Iterator[Problem]:
    if found["torch"] is None or found["driver"] is None or found["cuda"]:
        return
    why = found["errors"].get("cuda", "torch finds no GPU")
    if found["torch"]["built_for"] is None:
        what = f"there is an NVIDIA driver ({found['driver']}), but this torch is built for the CPU"
        yield Problem("problem", what, "install torch for CUDA, see pytorch.org")
    elif found["settings"].get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        yield Problem("note", "CUDA_VISIBLE_DEVICES hides every GPU", "unset CUDA_VISIBLE_DEVICES")
    else:
        what = f"there is an NVIDIA driver ({found['driver']}), but {why}"
        yield Problem("problem", what, f"the driver must suit {found['torch']['built_for']}: renew it")


def _of_room(found: dict[str, Any]) -> Iterator[Problem]:
    cache, free = found["cache"], found["memory"]["free"]
    if found["disk"]["folder"] is None:
        yield Problem("broken", "the current folder was removed", "cd to one that is there")
    if not cache["writable"]:
        what = f"nothing can be written to {cache['folder']}, where the compiled C is kept"
        yield Problem("problem", what, "set XDG_CACHE_HOME to a folder of your own")
    if free is not None and free < LITTLE:
        what = f"{size_text(free)} of memory are free"
        yield Problem("problem", what, "end other programs, or lower batch.tokens and the size of the model")
    for name, room in (("the current folder", found["disk"]["free"]), ("the cache", cache["free"])):
        if room is not None and room < LITTLE:
            what = f"the disk of {name} has {size_text(room)} free"
            yield Problem("problem", what, "make room: checkpoints and what was compiled go there")


def size_text(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count / 2**30:.1f} GB" if count >= 2**29 else f"{count / 2**20:.1f} MB"
