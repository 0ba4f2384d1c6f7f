"""The weights of a `pytorch_model.bin`, without unpickling it.

    torch 1.6 on     a zip: `data.pkl`, a program for Python's pickle machine, and a file of bytes for each
                     storage, uncompressed
    before           a stream: a magic number, a version, facts about the machine, the program, the keys of
                     the storages, each a pickle; then the storages, each behind the count of its numbers

The programs are read and not run, by an allow-list of opcodes and names (`regard.hub.programs`). Before
anything of a storage is read, the tensors' names are checked, all that they ask for has been found to be
there, exactly as large as they say, and no more than the file has.

(`torch.load(weights_only=True)` does much the same in a machine that calls what it allows; it has been got
round.) tests/hub/test_pickles.py holds the tensors equal to torch.load's, and feeds it what is hostile.
"""

import io
import struct
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from regard.hub.files import HubError, check_plain, inside, read_table
from regard.hub.programs import RefusedError, Storage, View, read_program, read_views

PICKLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"

_PROGRAM = 64 * 2**20
_ENTRIES = 100_000
"""Bytes of a program, and files in a zip."""
_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
"""Of torch before 1.6."""
_COUNT = struct.Struct("<q")
_TRUST = "do not use this file unless you know who made it"

CheckNames = Callable[[Collection[str], Path], None]
"""Raises an error about tensors of the file that it does not know."""


def read_pickled(folder: Path, check: CheckNames) -> dict[str, Tensor]:
    """All tensors of `pytorch_model.bin`, or of the shards that its index names."""
    if (folder / PICKLE).exists():
        return read_pickle(folder / PICKLE, check)
    if not (folder / INDEX).exists():
        raise HubError(
            f"{folder}: no {PICKLE} in it, so there is nothing to read with --pickle; leave that out"
        )
    index = folder / INDEX
    places = read_table(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise HubError(f"{index}: no 'weight_map' in it; copy the folder anew")
    tensors: dict[str, Tensor] = {}
    for shard in sorted({str(place) for place in places.values()}):
        path = inside(folder, shard, index)
        held = read_pickle(path, check)
        for name in (name for name, place in places.items() if place == shard):
            if name not in held:
                raise HubError(
                    f"{path}: no tensor {name!r:.60}, where {INDEX} places it; copy the folder anew"
                )
            tensors[name] = held[name]
    return tensors


def read_pickle(path: Path, check: CheckNames | None = None) -> dict[str, Tensor]:
    """The tensors of one file by their names; those that share a storage share it here."""
    check_plain(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
            file.seek(0)
            if start == b"PK\x03\x04":
                return _read_zip(file, path, check)
            if start[:2] == b"\x80\x02":
                return _read_stream(file, path, check)
        raise HubError(f"{path}: neither a zip nor a stream, as torch writes them; copy the folder anew")
    except RefusedError as error:
        raise HubError(f"{path}: {error}; {_TRUST}") from error
    except OSError as error:
        raise HubError(f"{path}: {error.strerror or error}; copy the folder anew") from error


def _read_zip(file: BinaryIO, path: Path, check: CheckNames | None) -> dict[str, Tensor]:
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(file) as archive:
            entries, root = _entries(archive, size)
            views = read_views(io.BytesIO(archive.read(entries[f"{root}/data.pkl"])))
            if check is not None:
                check(views, path)
            storages = _storages(views)
            for storage in storages.values():
                entry = entries.get(f"{root}/data/{storage.key}")
                if entry is None or entry.file_size != storage.bytes:
                    there = "missing" if entry is None else f"{entry.file_size:,} bytes"
                    raise RefusedError(
                        f"storage {storage.key} should have {storage.bytes:,} bytes, but is {there}"
                    )
            total = sum(storage.bytes for storage in storages.values())
            if total > size:
                raise RefusedError(f"its storages have {total:,} bytes, more than the file: they overlap")
            held = {
                key: _numbers(archive.read(entries[f"{root}/data/{key}"]), each)
                for key, each in storages.items()
            }
    except HubError:
        raise
    except (  # all that zipfile raises where headers contradict each other
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        OverflowError,
        RuntimeError,
        ValueError,
        struct.error,
    ) as error:
        raise HubError(
            f"{path}: no whole zip ({error!s:.200}); it may be cut short: copy the folder anew"
        ) from error
    return _tensors(views, held)


def _entries(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """The files of the zip, and the folder that all are in."""
    listed = archive.infolist()
    if len(listed) > _ENTRIES:
        raise RefusedError(f"{len(listed):,} files in the zip, but a model has no more than {_ENTRIES:,}")
    entries = {each.filename: each for each in listed}
    if len(entries) != len(listed):
        raise RefusedError("two files in the zip have one name")
    programs = [name for name in entries if name.endswith("/data.pkl")]
    if len(programs) != 1 or programs[0].count("/") != 1:
        raise RefusedError("not one data.pkl in the zip, in one folder")
    root = programs[0].partition("/")[0]
    for name, entry in entries.items():
        if not name.startswith(f"{root}/") or ".." in name.split("/") or "\\" in name:
            raise RefusedError(f"{name!r:.60} in the zip lies outside its folder {root!r:.60}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise RefusedError(f"{name!r:.60} in the zip is compressed, which torch does not do")
        if entry.flag_bits & 1 or entry.file_size > size:
            raise RefusedError(f"{name!r:.60} in the zip is encrypted, or larger than the zip")
    if entries[programs[0]].file_size > _PROGRAM:
        raise RefusedError(f"data.pkl has more than {_PROGRAM:,} bytes")
    order = entries.get(f"{root}/byteorder")
    if order is not None and (order.file_size > 16 or archive.read(order) != b"little"):
        raise RefusedError("the bytes of its numbers are not in little-endian order")
    return entries, root


def _read_stream(file: BinaryIO, path: Path, check: CheckNames | None) -> dict[str, Tensor]:
    """What torch wrote before 1.6."""
    size = path.stat().st_size
    stream = io.BytesIO(file.read(_PROGRAM))
    if read_program(stream) != _MAGIC or read_program(stream) != _VERSION:
        raise RefusedError("a pickle that is no file of torch's")
    facts = read_program(stream)
    if not isinstance(facts, dict) or facts.get("little_endian") is not True:
        raise RefusedError("the bytes of its numbers are not in little-endian order")
    views = read_views(stream)
    if check is not None:
        check(views, path)
    storages, keys = _storages(views), read_program(stream, lists=True)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise RefusedError("the keys of its storages are no list of strings")
    if sorted(keys) != sorted(storages):
        raise RefusedError("its storages are not those of its tensors, each once")
    place = stream.tell()
    wanted = place + sum(_COUNT.size + storage.bytes for storage in storages.values())
    if size < wanted:
        raise HubError(f"{path}: {size:,} bytes where {wanted:,} should be, cut short: copy the folder anew")
    file.seek(place)
    held = {}
    for key in keys:
        storage = storages[key]
        if file.read(_COUNT.size) != _COUNT.pack(storage.count):
            raise RefusedError(f"storage {key} does not have the {storage.count:,} numbers that it should")
        held[key] = _numbers(file.read(storage.bytes), storage)
    return _tensors(views, held)


def _storages(views: Mapping[str, View]) -> dict[str, Storage]:
    """By their keys."""
    return {view.storage.key: view.storage for view in views.values()}


def _numbers(content: bytes, storage: Storage) -> Tensor:
    if not content:
        return torch.empty(0, dtype=storage.dtype)
    if storage.dtype == torch.bool:
        return torch.frombuffer(bytearray(content), dtype=torch.uint8).ne(0)
    return torch.frombuffer(bytearray(content), dtype=storage.dtype)


def _tensors(views: Mapping[str, View], held: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: torch.as_strided(held[view.storage.key], view.shape, view.strides, view.offset)
        for name, view in views.items()
    }
