"""What C is given, field by field as attention.c and linear.c declare it. `check` holds the two equal;
`missing` is what a library has not that it is asked for."""

import ctypes
from ctypes import c_float, c_int64, c_void_p


class Attention(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sequences", "heads", "kv_heads", "d_head", "d_value")),
        *((name, c_void_p) for name in ("queries", "keys", "values")),
        *((name, c_int64) for name in ("half", "query_token", "key_token", "value_token")),
        *((name, c_int64) for name in ("key_head", "value_head", "key_sequence", "value_sequence")),
        *((name, c_void_p) for name in ("asking", "starts", "counts", "sees")),
        *((name, c_int64) for name in ("seen_token", "before", "after")),
        ("output", c_void_p),
        ("scale", c_float),
    )


class Layer(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("inputs", "outputs")),
        *((name, c_void_p) for name in ("weights", "scales", "shifts", "bias")),
        ("then", c_int64),
        ("steps", c_float),
    )


class _Field(ctypes.Structure):
    """vectors.h"""

    _fields_ = (("name", ctypes.c_char_p), ("at", c_int64))


STRUCTS = {"attention_fields": Attention, "layer_fields": Layer}
"""By the name under which a library tells the fields of its own."""


FUNCTIONS = ("attend", "keep", "linear", "linear_bytes", "linear_panel")
"""That attention.py and linear.py call."""


def missing(library: ctypes.CDLL) -> list[str]:
    return [name for name in (*FUNCTIONS, *STRUCTS) if not hasattr(library, name)]


def check(library: ctypes.CDLL) -> None:
    for name, struct in STRUCTS.items():
        ours = {field: getattr(struct, field).offset for field, *_ in struct._fields_}
        ours["sizeof"] = ctypes.sizeof(struct)
        theirs: dict[str, int] = {}
        for each in (_Field * 100).in_dll(library, name):
            theirs[each.name.decode() if each.name else "sizeof"] = each.at
            if not each.name:
                break
        wrong = sorted({field for field, _ in ours.items() ^ theirs.items()})
        if wrong:
            places = (f"{field} at {ours.get(field)}, in C at {theirs.get(field)}" for field in wrong)
            raise RuntimeError(
                f"structs.{struct.__name__} is not the struct in C ({'; '.join(places)}): "
                f"declare them alike, and name each field in {name}"
            )
