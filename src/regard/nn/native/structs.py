"""What C is given, field by field as attention.h, linear.h, decoder.h and beam.c declare it. `check` holds
the two equal; `missing` is what a library has not that it is asked for."""

import ctypes
from ctypes import c_double, c_float, c_int64, c_void_p


class Attention(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sequences", "heads", "kv_heads", "d_head", "d_value")),
        *((name, c_void_p) for name in ("queries", "keys", "values")),
        *((name, c_int64) for name in ("half", "query_token", "key_token", "value_token")),
        *((name, c_int64) for name in ("key_head", "value_head", "key_sequence", "value_sequence")),
        *((name, c_void_p) for name in ("asking", "starts", "counts", "sees")),
        *((name, c_int64) for name in ("seen_token", "before", "after")),
        ("bias", c_void_p),
        *((name, c_int64) for name in ("bias_head", "bias_middle")),
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


class Norm(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("kind", "width")),
        *((name, c_void_p) for name in ("weight", "bias")),
        ("eps", c_double),
    )


class Heads(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("heads", "kv_heads", "d_head", "d_value")),
        *((name, c_void_p) for name in ("input", "output")),
    )


class DecoderLayer(ctypes.Structure):
    _fields_ = (
        *((name, Heads) for name in ("own", "other")),
        *((name, c_void_p) for name in ("inner", "outer")),
        *((name, Norm) for name in ("own_norm", "other_norm", "feed_forward_norm")),
    )


class Decoder(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("layers", "d_model", "pre", "widest", "found")),
        ("each", c_void_p),
        ("last", Norm),
    )


class Asked(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "half")),
        *((name, c_void_p) for name in ("owners", "slots", "back", "across")),
        *((name, c_int64) for name in ("own_room", "other_room")),
        ("grids", c_void_p),
    )


class Ends(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("d_model", "vocabulary")),
        *((name, c_void_p) for name in ("tokens", "positions", "head")),
        ("scale", c_float),
    )


class Grouped(ctypes.Structure):
    """groups.h"""

    _fields_ = (
        *((name, c_int64) for name in ("kind", "inputs", "outputs")),
        *((name, c_void_p) for name in ("codes", "scales", "bias")),
    )


class CausalLayer(ctypes.Structure):
    """causal.c"""

    _fields_ = (
        *((name, c_void_p) for name in ("project", "output", "inner", "outer")),
        *((name, c_void_p) for name in ("norm", "query_norm", "key_norm", "feed_forward_norm")),
        ("before", c_int64),
    )


class Causal(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("layers", "d_model", "heads", "kv_heads", "d_head", "d_ff")),
        *((name, c_void_p) for name in ("each", "final_norm", "head")),
        ("eps", c_double),
        ("scale", c_float),
    )


class CausalAsked(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in ("tokens", "wanted", "apart")),
        *((name, c_void_p) for name in ("x", "rows", "places", "lasts", "turns", "keys", "values")),
        *((name, c_int64) for name in ("cache_rows", "room")),
        ("scores", c_void_p),
    )


class _Field(ctypes.Structure):
    """vectors.h"""

    _fields_ = (("name", ctypes.c_char_p), ("at", c_int64))


STRUCTS = {
    "attention_fields": Attention,
    "layer_fields": Layer,
    "norm_fields": Norm,
    "heads_fields": Heads,
    "decoder_layer_fields": DecoderLayer,
    "decoder_fields": Decoder,
    "asked_fields": Asked,
    "grouped_fields": Grouped,
    "causal_layer_fields": CausalLayer,
    "causal_fields": Causal,
    "causal_asked_fields": CausalAsked,
    "ends_fields": Ends,
}
"""By the name under which a library tells the fields of its own."""


FUNCTIONS = (
    "attend", "best", "books_begin", "books_close", "books_count", "books_flags", "books_free", "books_gone",
    "books_kept", "books_lay", "books_left", "books_length", "books_needed", "books_new", "books_place",
    "books_present", "books_room", "books_rows", "books_step",
    "causal_pass", "decoder_pass", "decoder_room", "grouped", "keep", "linear", "linear_bytes",
    "linear_panel", "log_softmax", "norm",
)  # fmt: skip
"""That are called from Python."""


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
