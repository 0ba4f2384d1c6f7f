"""The keys of a config.json, by allow-list.

What changes the computation must be known and supported; metadata is passed over; a key that is on neither
list must be empty; and a key that asks for code to be run is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.hub.files import HubError
from regard.hub.names import TABLES

_CODE = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_pipeline")
_ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "quantization_config": (None,),
    "_attn_implementation": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", None),
    "attn_implementation": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", None),
}
"""Keys that would change the computation (or load code for it), with the values that do not."""
_METADATA = frozenset(TABLES["config"]["metadata"].split())
"""Keys that say nothing about the computation, or are read elsewhere (labels, tied weights)."""


def check_keys(
    table: Mapping[str, Any],
    computing: Iterable[str],
    path: Path,
    *,
    only: Mapping[str, Sequence[object]],
    metadata: str,
) -> None:
    """`computing` are the keys that are read here; `only` and `metadata` are a family's own, on top of what
    is said of all."""
    known = {*computing, *_METADATA, *metadata.split()}
    bound = {**_ONLY, **{key: (*values, None) for key, values in only.items()}}
    for key, value in table.items():
        if key in bound and value not in bound[key]:
            raise HubError(f"{path}: {key}={value!r:.60} is not supported, only {bound[key][0]!r}")
        if key not in known and key not in bound and value not in (None, False, 0, "", [], {}):
            raise HubError(
                f"{path}: {repr(key)[1:-1]:.60}={value!r:.60} is not known, and may change what the model "
                "computes; take the key out if it does not"
            )


def refuse_code(table: Mapping[str, Any], path: Path) -> None:
    for key in _CODE:
        if key in table:
            raise HubError(
                f"{path}: {key}={table[key]!r:.60} asks for code to be run, and nothing of a folder is run "
                "here; take the key out if the model is an ordinary one without it"
            )
