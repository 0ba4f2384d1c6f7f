"""GGUF files, as llama.cpp keeps language models: one file with settings, weights in blocks and the
tokenizer.

The `gguf` package reads the file and undoes the blocks (Q8_0, Q4_0, Q4_1, Q6_K, F16 and the rest). Its
settings become those of a config.json and its tensors get the names of Hugging Face's, so that a family's own
file reads both: what is refused there is refused here. llama.cpp turns neighbouring dimensions of queries and
keys of a Llama, so their rows lie in another order there; it is taken back.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import ConfigError
from regard.hub.facts import Facts, told_by
from regard.hub.families import DECODERS, family_named
from regard.hub.family import DecoderFamily
from regard.hub.files import HubError
from regard.hub.gguf_files.tokens import read_conventions, read_tokenizer
from regard.hub.weights import check_layers, read_weights
from regard.settings.models import DecoderConfig
from regard.text import Tokenizer
from regard.text.conventions import Conventions

ENDING = ".gguf"
_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Theirs, and Hugging Face's."""
_BIASES = {
    "bias": ("attention_bias", ("attn_q", "attn_output")),
    "inner_bias": ("mlp_bias", ("ffn_gate", "ffn_up", "ffn_down")),
}
"""No setting of the file tells of them: our words for keys of config.json, the keys, and where they are."""
_KNOWN = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
_READ = {
    *("attention.value_length", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor"),
    *("rope.scaling.original_context_length", "rope.scaling.attn_factor", "attention.sliding_window"),
    "rope.scaling.finetuned",
}
_LLAMA3 = ((8.0, 1.0, 4.0, 8192), (32.0, 1.0, 4.0, 8192))
"""Published stretchings of Llama 3.1 and 3.2: a GGUF has only the numbers that they come to."""
_STRETCHED = "rope_freqs.weight"


def is_gguf(path: Path) -> bool:
    return Path(path).suffix == ENDING and Path(path).is_file()


def read_gguf(
    path: Path,
) -> tuple[DecoderConfig, dict[str, Tensor], Tokenizer, Conventions]:
    """The configuration, the weights in float32 by our names, the tokenizer, and how texts begin and end."""
    try:
        import gguf
    except ImportError:
        raise ConfigError("GGUF files are read with gguf: pip install regard[gguf]") from None
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        kinds = {each.name: each.tensor_type for each in reader.tensors}
        tensors = {each.name: _whole(each, gguf) for each in reader.tensors}
    except HubError:
        raise
    except Exception as error:  # the package raises what comes
        raise HubError(f"{path}: no GGUF file that gguf can read ({error!r}); copy the file anew") from error
    if not kinds:
        raise HubError(f"{path}: no tensors in it; copy the file anew")
    kind = fields.get("general.architecture")
    family = family_named(kind, DecoderFamily)
    if family is None or family.gguf is None:
        known = ", ".join(sorted(each.name for each in DECODERS if each.gguf is not None))
        raise HubError(f"{path}: general.architecture={kind!r:.60} is none of {known}, which can be read")
    stretch = tensors.pop(_STRETCHED, None)
    table = _table(path, family, fields, tensors)
    if stretch is not None:
        table["rope_scaling"] = _llama3(path, stretch, table)
    facts = Facts(path, table, family)
    named = _renamed(path, family, tensors, table)
    tied = "lm_head.weight" not in named
    with told_by(path):
        config = family.read(facts, tied)
    check_layers(named, family, facts.count("layers"), path)
    weights, _ = read_weights(named, config, family, path)
    if named:
        left = min(map(_named_there, named))
        raise HubError(f"{path}: a tensor {left!r:.60}, which no {kind} that can be read here has")
    tokenizer = read_tokenizer(path, fields, config.vocabulary)
    return config, weights, tokenizer, read_conventions(path, fields, tokenizer)


def _whole(tensor: Any, gguf: Any) -> Tensor:
    """In float32, with the shape that torch gives it."""
    shape = tuple(int(each) for each in reversed(tensor.shape.tolist()))
    try:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:
        raise HubError(
            f"{tensor.name}: its type {tensor.tensor_type.name} is not undone by gguf ({error}); take a file "
            "of another type"
        ) from error
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32).reshape(shape).copy())


def _table(
    path: Path, family: DecoderFamily, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    """What a config.json would say."""
    kind = family.name
    own = {
        name.removeprefix(f"{kind}."): value for name, value in fields.items() if name.startswith(f"{kind}.")
    }
    odd = sorted(own.keys() - _KNOWN.keys() - _READ)
    if odd := [name for name in odd if own[name] not in (None, False, 0, 0.0, "")]:
        raise HubError(
            f"{path}: {kind}.{odd[0]}={own[odd[0]]!r:.60} is not known, and may change what it computes"
        )
    table = {key: _plain(own[name]) for name, key in _KNOWN.items() if name in own}
    embedding = tensors.get("token_embd.weight")
    if embedding is not None and embedding.dim() == 2:
        table.setdefault("vocab_size", len(embedding))
    if not isinstance(table.get("num_attention_heads"), int):
        raise HubError(f"{path}: {kind}.attention.head_count={table.get('num_attention_heads')!r:.60}")
    width = table.get("head_dim") or table.get("hidden_size", 0) // max(table["num_attention_heads"], 1)
    for name in ("rope.dimension_count", "attention.value_length"):
        if own.get(name, width) != width:
            raise HubError(f"{path}: {kind}.{name}={own[name]!r:.60} is not supported, only {width} here")
    if "d_head" not in family.keys:
        table.pop("head_dim", None)
    table.setdefault("num_key_value_heads", table["num_attention_heads"])
    if own.get("attention.sliding_window"):
        raise HubError(f"{path}: {kind}.attention.sliding_window is not read from GGUF files")
    scaling = own.get("rope.scaling.type")
    if scaling not in (None, "none"):
        rope = {"rope_type": scaling, "factor": _plain(own.get("rope.scaling.factor"))}
        rope["attention_factor"] = _plain(own.get("rope.scaling.attn_factor"))
        if scaling == "yarn":
            rope["original_max_position_embeddings"] = own.get("rope.scaling.original_context_length")
        table["rope_scaling"] = {name: value for name, value in rope.items() if value is not None}
    for word, (key, parts) in _BIASES.items():
        if word in family.keys and any(f"blk.0.{part}.bias" in tensors for part in parts):
            table[key] = True
    return {"model_type": kind, **table}


def _plain(value: Any) -> Any:
    """A number as it was meant: 1e-05, where float32 has 9.99999974e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _llama3(path: Path, stretch: Tensor, table: Mapping[str, Any]) -> dict[str, Any]:
    from regard.nn.positions import frequencies, scaled_frequencies

    width, base = 2 * len(stretch), float(table.get("rope_theta", 10_000.0))
    for factor, few, many, trained in _LLAMA3:
        scaled = scaled_frequencies(width, base, "llama3", factor, trained, few=few, many=many)
        if torch.allclose(stretch.double(), frequencies(width, base) / scaled, rtol=1e-4):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": few,
                "high_freq_factor": many,
                "original_max_position_embeddings": trained,
            }
    raise HubError(f"{path}: {_STRETCHED} is none of the published stretchings of Llama 3.1 and 3.2")


def _renamed(
    path: Path, family: DecoderFamily, tensors: Mapping[str, Tensor], table: Mapping[str, Any]
) -> dict[str, Tensor]:
    heads = {"attn_q": table["num_attention_heads"], "attn_k": table["num_key_value_heads"]}
    found = {}
    for name, tensor in tensors.items():
        stem, _, ending = name.rpartition(".")
        block = stem.startswith("blk.")
        number, part = stem.split(".", 2)[1:] if stem.count(".") > 1 else ("", stem)
        if part not in _NAMES or (block and not number.isdigit()):
            raise HubError(f"{path}: a tensor {name!r:.60}, which no {family.name} that can be read here has")
        if family.gguf == "turned" and part in heads:
            if type(heads[part]) is not int or heads[part] < 1 or len(tensor) % (2 * heads[part]):
                raise HubError(f"{path}: {name} has {len(tensor)} rows for {heads[part]!r:.60} heads")
            tensor = _halves(tensor, heads[part])
        theirs = _NAMES[part]
        found[f"layers.{number}.{theirs}.{ending}" if block else f"{theirs}.{ending}"] = tensor
    return found


def _named_there(name: str) -> str:
    back = {ours: theirs for theirs, ours in _NAMES.items()}
    stem, _, ending = name.rpartition(".")
    if not stem.startswith("layers."):
        return f"{back[stem]}.{ending}"
    number, part = stem.split(".", 2)[1:]
    return f"blk.{number}.{back[part]}.{ending}"


def _halves(tensor: Tensor, heads: int) -> Tensor:
    """Rows of each head: llama.cpp pairs 2i with 2i + 1, Hugging Face i with i + d/2."""
    pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape).contiguous()
