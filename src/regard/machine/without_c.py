"""The same numbers in a process of its own without the compiled C, as REGARD_NATIVE=0 has it.

python -m regard.machine.without_c OUT FOLDER...        one file of tensors: 0/steps, 1/output 0, ...
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.machine.subjects import Subject, numbers
from regard.nn.native import library


class WithoutC:
    """Starts at once, beside this process, and with one thread: more would wait for those of this one."""

    def __init__(self, folders: Sequence[Path], out: Path) -> None:
        self._out = out
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(out), *map(str, folders)],
            env={**os.environ, "REGARD_NATIVE": "0", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        )  # fmt: skip

    def results(self) -> list[Mapping[str, Tensor]]:
        """Of each folder."""
        said, _ = self._process.communicate()
        if self._process.returncode:
            last = said.strip().splitlines()[-1:] or ["nothing was said"]
            raise RuntimeError(f"the process without C ended with {self._process.returncode}: {last[0]}")
        found: dict[int, dict[str, Tensor]] = {}
        for key, value in load_file(self._out).items():
            number, _, name = key.partition("/")
            found.setdefault(int(number), {})[name] = value
        return [found[number] for number in sorted(found)]

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def main(out: str, *folders: str) -> None:
    if library() is not None:
        raise SystemExit("REGARD_NATIVE=0, but there is C all the same")
    found: dict[str, Tensor] = {}
    for number, folder in enumerate(folders):
        subject = Subject.open(folder, Path(folder))
        with subject.predictor.ready():
            found |= {f"{number}/{name}": each for name, each in numbers(subject).items()}
    save_file(found, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
