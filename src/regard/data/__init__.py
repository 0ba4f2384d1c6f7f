"""Corpora as numbers: a store of ids on disk, a plan of which examples make which batch, and packing.

store = open_or_build(folder, fingerprint(files, tokenizer.fingerprint()), columns, rows)
plan = Plan([store["source"].lengths], BatchConfig(tokens=4096))
packed = [pack([store["source"][i] for i in batch]) for batch in plan.batches(epoch=0, step=0)]

Names are loaded when they are first used: a store is built without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.data.batches import Plan, prefetch
    from regard.data.mixing import JoinedColumn, Mix, joined
    from regard.data.packing import Packed, Shape, pack, pack_flat, spread
    from regard.data.store import Column, Store, StoreError, fingerprint, id_type, open_or_build, ragged

_HOMES = {
    "Column": "store",
    "JoinedColumn": "mixing",
    "Mix": "mixing",
    "Packed": "packing",
    "Plan": "batches",
    "Shape": "packing",
    "Store": "store",
    "StoreError": "store",
    "fingerprint": "store",
    "id_type": "store",
    "open_or_build": "store",
    "joined": "mixing",
    "pack": "packing",
    "pack_flat": "packing",
    "prefetch": "batches",
    "ragged": "store",
    "spread": "packing",
}

__all__ = [
    "Column",
    "JoinedColumn",
    "Mix",
    "Packed",
    "Plan",
    "Shape",
    "Store",
    "StoreError",
    "fingerprint",
    "id_type",
    "joined",
    "open_or_build",
    "pack",
    "pack_flat",
    "prefetch",
    "ragged",
    "spread",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"regard.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'regard.data' has no attribute {name!r}")
