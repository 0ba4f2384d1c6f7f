"""Corpora as numbers: a store of ids on disk, a plan of which examples make which batch, and packing.

store = open_or_build(folder, fingerprint(files, tokenizer.fingerprint()), columns, rows)
plan = Plan([store["source"].lengths], BatchConfig(tokens=4096))
packed = [pack([store["source"][i] for i in batch]) for batch in plan.batches(epoch=0, step=0)]
"""

from regard.data.batches import Plan, prefetch
from regard.data.packing import Packed, Shape, pack, pack_flat, spread
from regard.data.store import Column, Store, StoreError, fingerprint, id_type, open_or_build, ragged

__all__ = [
    "Column",
    "Packed",
    "Plan",
    "Shape",
    "Store",
    "StoreError",
    "fingerprint",
    "id_type",
    "open_or_build",
    "pack",
    "pack_flat",
    "prefetch",
    "ragged",
    "spread",
]
