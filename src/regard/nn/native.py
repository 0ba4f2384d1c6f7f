"""The few loops that are written in C: the machine's own compiler makes a library of native.c when it is
first needed, for the processor at hand, and keeps it where programs keep such things (XDG_CACHE_HOME).

Where there is no compiler, or no processor that it was written for, `library` is None, and torch does the
same work: tests/nn/test_native.py holds the two equal.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor

from regard.nn.packed import Then

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp", "-shared", "-fPIC",
)  # fmt: skip
PANEL = 64
"""Outputs whose weights lie together."""
THENS: dict[Then | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3}


class NativeWarning(UserWarning):
    """What could be fast is not."""


@cache
def library() -> ctypes.CDLL | None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None or not torch.cpu._is_vnni_supported():
        return None
    try:
        found = ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        warnings.warn(
            f"{compiler} made no library of {SOURCE}, so 8 bits are computed by torch, more slowly: {why}",
            NativeWarning,
            stacklevel=2,
        )
        return None
    pointer = ctypes.c_void_p
    found.linear.argtypes = [pointer, pointer, ctypes.c_int64, pointer, ctypes.c_int]
    return found


def _compiled(compiler: str) -> Path:
    """Made once for this source, these flags, this compiler and this processor."""
    processor = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), ""
    )
    about = (SOURCE.read_text(encoding="utf-8"), *FLAGS, os.path.realpath(compiler), processor)
    name = f"native-{hashlib.sha256(chr(0).join(about).encode()).hexdigest()[:16]}.so"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may be doing the same: what is there under its name is whole.
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / name
            subprocess.run(
                [compiler, *FLAGS, str(SOURCE), "-o", str(made), "-lm"],
                check=True, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            made.replace(folder / name)
    return folder / name


class _Layer(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("shifts", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("then", ctypes.c_int64),
        ("steps", ctypes.c_float),
    )


class Panels:
    """A linear layer's weights in 8 bits, in the order of native.c."""

    def __init__(
        self,
        library: ctypes.CDLL,
        whole: Int8[Tensor, "outputs inputs"],
        scales: Float[Tensor, "outputs"],
        bias: Float[Tensor, "outputs"] | None,
        steps: int,
        then: Then | None,
    ) -> None:
        self.outputs, inputs = whole.shape
        more = -self.outputs % PANEL
        shifts = -128 * whole.sum(dim=1, dtype=torch.int32)
        by_fours = F.pad(whole, (0, -inputs % 4, 0, more)).unflatten(1, (-1, 4)).unflatten(0, (-1, PANEL))
        self._kept = (
            by_fours.transpose(1, 2).contiguous(),
            F.pad(scales, (0, more)),
            F.pad(shifts, (0, more)),
            F.pad(torch.zeros_like(scales) if bias is None else bias.detach().float(), (0, more)).clone(),
        )
        addresses = (each.data_ptr() for each in self._kept)
        self._layer = _Layer(inputs, self.outputs, *addresses, THENS[then], steps)
        self._address, self._call = ctypes.addressof(self._layer), library.linear

    def __deepcopy__(self, memo: object) -> "Panels":
        return self  # nothing in it ever changes

    def times(self, x: Float[Tensor, "*tokens inputs"]) -> Float[Tensor, "*tokens outputs"]:
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], self.outputs)
        tokens = y.numel() // self.outputs
        if self._call(self._address, x.data_ptr(), tokens, y.data_ptr(), torch.get_num_threads()):
            raise MemoryError(f"no memory for {tokens} tokens of {x.shape[-1]} numbers in 8 bits")
        return y
