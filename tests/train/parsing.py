"""TensorBoard's event files, read by another hand: bit by bit, from the format's description."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, one bit at a time."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
    return value ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) % 2**32 + 0xA282EAD8) % 2**32


def records(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    while content:
        size, check = struct.unpack("<QI", content[:12])
        assert check == masked(content[:8])
        data, (check,) = content[12 : 12 + size], struct.unpack("<I", content[12 + size : 16 + size])
        assert check == masked(data)
        yield data
        content = content[16 + size :]


def number(data: bytes) -> tuple[int, bytes]:
    value = shift = 0
    while True:
        byte, data = data[0], data[1:]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, data


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    while data:
        key, data = number(data)
        match key & 7:
            case 0:
                value, data = number(data)
            case 1:
                (value,), data = struct.unpack("<d", data[:8]), data[8:]
            case 2:
                size, data = number(data)
                value, data = data[:size], data[size:]
            case 5:
                (value,), data = struct.unpack("<f", data[:4]), data[4:]
        yield key >> 3, value


def scalars(path: Path) -> list[tuple[int, dict[str, float]]]:
    found = []
    first, *rest = [dict(fields(each)) for each in records(path)]
    assert first[3] == b"brain.Event:2"
    for event in rest:
        values = [dict(fields(value)) for _, value in fields(event[5])]
        found.append((event[2], {value[1].decode(): value[2] for value in values}))
    return found
