"""Models of Hugging Face, in and out. Nothing of a folder is ever executed."""

from regard.hub.files import HubError, HubWarning
from regard.hub.folder import Checkpoint, is_foreign, read_folder, write_folder

__all__ = ["Checkpoint", "HubError", "HubWarning", "is_foreign", "read_folder", "write_folder"]
