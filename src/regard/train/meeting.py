"""How ranks find one another, also those that torchrun has started anew: by the store of its agents.

That store outlives the processes, and what the ones before have left in it looks like the word of those that
are expected. So rank 0 makes up a name for this meeting; every other rank answers with the name it read and a
number of its own, and believes it when rank 0 has repeated that number. All they do afterwards is under it.
"""

import json
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore, Store

LOOK = 0.02
"""Seconds between looks."""
AGAIN = 1.0
"""Seconds after which a rank reads once more what this meeting is called."""


def meet(store: Store, rank: int, count: int, timeout: timedelta) -> Store:
    """The store of this meeting, which none before has written into."""
    until = time.monotonic() + timeout.total_seconds()
    if rank == 0:
        name = secrets.token_hex(8)
        store.set("meeting", name)
        others = [f"here {other}" for other in range(1, count)]
        _poll(
            lambda: all(_said(store, each, "")[0] == name for each in others), until, f"of {count - 1} others"
        )
        store.set(f"all here {name}", json.dumps({each: _said(store, each, "")[1] for each in others}))
        return PrefixStore(name, store)
    own, key = secrets.token_hex(8), f"here {rank}"

    def met() -> str | None:
        name = store.get("meeting").decode() if store.check(["meeting"]) else None
        if name is None:
            return None
        store.set(key, json.dumps([name, own]))
        again = time.monotonic() + AGAIN
        while time.monotonic() < again:
            if store.check([f"all here {name}"]):
                known = json.loads(store.get(f"all here {name}"))
                if known.get(key) == own:
                    return name
            time.sleep(LOOK)
        return None

    return PrefixStore(_poll(met, until, "of rank 0"), store)


def _said(store: Store, key: str, nothing: str) -> tuple[str, str]:
    if not store.check([key]):
        return nothing, nothing
    name, number = json.loads(store.get(key))
    return name, number


def _poll(look: Callable[[], Any], until: float, missing: str) -> Any:
    while not (found := look()):
        if time.monotonic() > until:
            raise RuntimeError(f"no sign {missing} in time")
        time.sleep(LOOK)
    return found
