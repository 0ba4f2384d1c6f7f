"""What torch and the compiled C say of themselves, as JSON; in a process of its own, since either may be
broken.

python -m regard.machine.torch_facts
"""

import json
import sys
from collections.abc import Callable
from typing import Any


def gather() -> dict[str, Any]:
    """Facts by name; `errors` has those that could not be found out."""
    errors: dict[str, str] = {}

    def tried(name: str, find: Callable[[], Any]) -> Any:
        try:
            return find()
        except BaseException as error:
            errors[name] = f"{type(error).__name__}: {error}"
            return None

    found = {
        name: tried(name, find) for name, find in (("torch", _torch), ("cuda", _cuda), ("native", _native))
    }
    return {**found, "errors": errors}


def _torch() -> dict[str, Any]:
    import torch

    return {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "vnni": torch.cpu._is_vnni_supported(),
        "onednn": torch.backends.mkldnn.is_available(),
        "built_for": torch.version.cuda and f"CUDA {torch.version.cuda}",
    }


def _cuda() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        kind = f"{about.major}.{about.minor}"
        found.append({"name": about.name, "capability": kind, "memory": total, "free": free})
    return found


def _native() -> dict[str, Any]:
    from regard.nn.native import explain, library

    why = explain()
    made: Any = None if why else library()
    bytes_too = made is not None and bool(made.linear_bytes())
    return {"works": why is None and made is not None, "why": why, "bytes": bytes_too}


if __name__ == "__main__":
    found = gather()
    sys.stdout.write(f"\n{json.dumps(found)}\n")
