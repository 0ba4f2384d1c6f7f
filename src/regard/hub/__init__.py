"""Models of Hugging Face, in and out. Nothing of a folder is ever executed."""

from regard.hub.files import HubError, HubWarning
from regard.hub.folder import (
    Checkpoint,
    DecoderCheckpoint,
    head_kind,
    is_decoder,
    is_foreign,
    is_translator,
    read_decoder,
    read_folder,
    read_translator,
    write_folder,
)
from regard.hub.translators import TranslatorCheckpoint

__all__ = [
    "Checkpoint",
    "DecoderCheckpoint",
    "HubError",
    "HubWarning",
    "TranslatorCheckpoint",
    "head_kind",
    "is_decoder",
    "is_foreign",
    "is_translator",
    "read_decoder",
    "read_folder",
    "read_translator",
    "write_folder",
]
