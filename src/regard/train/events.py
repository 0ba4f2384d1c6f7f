"""TensorBoard's event files, scalars only, without TensorBoard.

A file is a series of records: length (8 bytes), its checksum (4), the data, its checksum (4). The data is a
protocol buffer, written here by hand:

    Event    wall_time = 1 (double), step = 2 (varint), file_version = 3 (string), summary = 5 (Summary)
    Summary  value = 1 (Value, repeated)          Value  tag = 1 (string), simple_value = 2 (float)
"""

import math
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from regard.disk import full_disk


def _table() -> list[int]:
    """CRC-32C (Castagnoli), a byte at a time."""
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        rows.append(byte)
    return rows


_TABLE = _table()


def _checksum(data: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    # rotated and shifted, so that the checksum of data that holds checksums stays a good one
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _single(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # a perplexity may be anything
        return struct.pack("<f", math.copysign(math.inf, value))


class EventWriter:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time_ns() // 1000}.regard"
        self._record(_text(3, b"brain.Event:2"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        summary = b"".join(
            _text(1, _text(1, tag.encode()) + _varint(2 << 3 | 5) + _single(value))
            for tag, value in values.items()
        )
        self._record(_varint(2 << 3) + _varint(step) + _text(5, summary))

    def _record(self, event: bytes) -> None:
        event = _varint(1 << 3 | 1) + struct.pack("<d", time.time()) + event
        size = struct.pack("<Q", len(event))
        with (
            full_disk(self.path),
            self.path.open("ab") as file,
        ):  # opened each time: nothing is lost with a process that is killed
            file.write(size + _checksum(size) + event + _checksum(event))
