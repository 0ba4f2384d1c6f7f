"""What is believed of a model folder: nothing that cannot be true, and nothing before it was looked at.

Files are ordinary ones, of a sensible size, and lead nowhere else: the guards are those against folders of
strangers (`regard.hub.files`). Numbers are in their range. Whatever is wrong is one FolderError that names
the file. That the weights are of the shape that config.json says is seen to in `regard.tasks.base.header`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from regard.decode import DecodeConfig
from regard.hub.files import HubError, check_plain, inside, read_table, read_text
from regard.oom import memory_told
from regard.train.digests import of_text

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
LONGEST = 10_000_000
"""Tokens that a model may claim to read."""
MOST_HEADS = 65_536
LIMITS = {"beam": 10_000, "n_best": 10_000, "minimum": 1_000_000, "maximum": 2**31, "no_repeat": 1_000_000}
"""Of what a folder may ask for when it decodes."""


class FolderError(ValueError):
    """A folder that is no model; the message names it and the remedy."""


@contextmanager
def folder_errors(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file, or with what it says, becomes one line that names it: a FolderError.
    Where there is no memory for it, nothing is wrong with it: that is a NoMemoryError."""
    try:
        with memory_told(path):
            yield
    except (FolderError, MemoryError):
        raise
    except HubError as error:
        raise FolderError(_line(error)) from error
    except KeyError as error:
        raise FolderError(f"{path}: {_line(error)} is missing; copy the folder anew") from error
    except OSError as error:
        raise FolderError(f"{path}: {error.strerror or error}; copy the folder anew") from error
    except SafetensorError as error:
        raise FolderError(f"{path}: cannot be read ({_line(error)}); copy the folder anew") from error
    except RecursionError as error:
        raise FolderError(f"{path}: nested too deeply; copy the folder anew") from error
    except (ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError) as error:
        line = _line(error)
        raise FolderError(line if line.startswith(f"{path}: ") else f"{path}: {line}") from error


def _line(error: BaseException) -> str:
    """A message may show a value, and that may be of any length."""
    text = " ".join(str(error).split())
    return text if len(text) < 500 else f"{text[:500]}..."


def damaged(path: Path) -> FolderError:
    remedy = "copy the folder anew"
    if path.name != WEIGHTS:
        remedy += f", or accept it, if you changed it yourself, with regard check {path.parent} --accept"
    return FolderError(f"{path}: damaged: its content is not what was written; {remedy}")


# Files.


def own_file(folder: Path, name: str) -> Path:
    """The path of a file of the folder. It may be a link, though not out of the folder, and is an ordinary
    file, if it is there."""
    path = folder / name
    with folder_errors(path):
        inside(folder, name, folder)
        check_plain(path)
        if path.is_symlink() and not path.exists():
            raise FolderError(f"{path}: a link to nothing; copy the folder anew")
    return path


def read_own_table(folder: Path, name: str) -> dict[str, Any]:
    path = own_file(folder, name)
    with folder_errors(path):
        return read_table(path)


def read_own_text(folder: Path, name: str, digest: object = None) -> str:
    """With the digest that it must have, if it has one."""
    path = own_file(folder, name)
    with folder_errors(path):
        text = read_text(path)
    if digest is not None and digest != of_text(text):
        raise damaged(path)
    return text


# What config.json says.


def check_finite(value: Any) -> None:
    """JSON has no infinity, but Python reads one from 1e999."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no number that is known here; copy the folder anew")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_finite(each)


def read_whole(config: Mapping[str, Any], key: str, least: int = 1, most: int = LONGEST) -> int:
    value = config[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key}={value!r} should be a whole number from {least} to {most:,}")
    return value


def read_share(config: Mapping[str, Any], key: str) -> float | None:
    """Where there is one."""
    value = config.get(key)
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
        raise ValueError(f"{key}={value!r} should be a number from 0 to 1")
    return value


def read_words(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config[key]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key}={value!r} should be a list of texts")
    return tuple(value)


def check_decoding(decoding: DecodeConfig) -> None:
    """Before rows and steps of such a number are made."""
    for name, most in LIMITS.items():
        if getattr(decoding, name) > most:
            raise ValueError(f"decode.{name}={getattr(decoding, name)} should be {most:,} at most")


def check_depth(plain: Any, tensors: int, key: str = "model") -> None:
    """Before a shape is even read: each layer has a tensor of its own."""
    if not isinstance(plain, dict):
        return
    for name, most in (("layers", tensors), ("heads", MOST_HEADS)):
        if isinstance(plain.get(name), int) and plain[name] > most:
            why = f"but {WEIGHTS} has {tensors} tensors" if name == "layers" else f"more than {most:,}"
            raise ValueError(f"{key}.{name}={plain[name]}, {why}; copy the folder anew")
    for name, value in plain.items():
        check_depth(value, tensors, f"{key}.{name}")
