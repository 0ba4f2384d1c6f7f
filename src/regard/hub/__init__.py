"""Models of Hugging Face, in and out. Nothing of a folder is ever executed."""

from regard.hub.files import HubError, HubWarning
from regard.hub.folder import (
    Checkpoint,
    DecoderCheckpoint,
    head_kind,
    is_decoder,
    is_foreign,
    read_decoder,
    read_folder,
    write_folder,
)

__all__ = [
    "Checkpoint",
    "DecoderCheckpoint",
    "HubError",
    "HubWarning",
    "head_kind",
    "is_decoder",
    "is_foreign",
    "read_decoder",
    "read_folder",
    "write_folder",
]
