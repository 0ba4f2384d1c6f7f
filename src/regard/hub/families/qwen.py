"""Qwen2 (Yang et al. 2024): a Llama with biases of queries, keys and values; and Qwen3 (Yang et al. 2025),
which normalises queries and keys instead."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.hub.facts import Facts
from regard.hub.families.llama import (
    BODY,
    DEFAULTS,
    KEYS,
    LLAMA,
    body_of,
    check_biases,
    check_config,
    config_words,
    is_of_the_make,
    read_config,
    read_window,
)
from regard.hub.files import HubError
from regard.hub.names import Family
from regard.hub.vocabularies import UNFRAMED
from regard.hub.writing import require
from regard.settings.models import DecoderConfig
from regard.text import Tokenizer


def _window(facts: Facts[Family]) -> int | None:
    window = facts.get("window") if facts.get("windowed") is True else None
    if window is not None and facts.get("windowless") != 0:
        raise HubError(
            f"{facts.path}: max_window_layers={facts.get('windowless')!r:.60}, use_sliding_window=true: a "
            "window is read for all layers (0) or for none (set use_sliding_window to false)"
        )
    return read_window(facts, window)


def _window_words(config: DecoderConfig) -> dict[str, Any]:
    window = body_of(config).window
    if window is None:
        return {"windowed": False, "window": None}
    return {"windowed": True, "window": window + 1, "windowless": 0}


def _read2(facts: Facts[Family], tied: bool) -> DecoderConfig:
    return read_config(facts, tied, bias=True, output_bias=False, window=_window(facts))


def _read3(facts: Facts[Family], tied: bool) -> DecoderConfig:
    bias = facts.get("bias") is True
    return read_config(facts, tied, bias=bias, qk_norm=True, window=_window(facts))


def _claims2(config: DecoderConfig, tokenizer: Tokenizer | None) -> bool:
    return is_of_the_make(config) and body_of(config).attention.bias and not _biased_output(config)


def _claims3(config: DecoderConfig, tokenizer: Tokenizer | None) -> bool:
    return is_of_the_make(config) and body_of(config).attention.qk_norm


def _biased_output(config: DecoderConfig) -> bool:
    return body_of(config).attention.biased_output


def _check2(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    check_config(config, tokenizer)
    body = body_of(config)
    width = config.d_model // body.attention.heads
    require(
        body.attention.width(config.d_model) == width,
        f"attention.d_head={body.attention.d_head}",
        "Qwen2's is d_model / heads",
        f"train with model.decoder.body.attention.d_head={width}",
    )
    require(
        not body.feed_forward.bias,
        "feed_forward.bias=true",
        "Qwen2 has none",
        "train with model.decoder.body.feed_forward.bias=false",
    )


def _check3(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    check_config(config, tokenizer)
    check_biases(config, "Qwen3")


def _words(config: DecoderConfig) -> Mapping[str, Any]:
    return {**config_words(config), **_window_words(config), "bias": body_of(config).attention.bias}


_KEYS = {
    **KEYS,
    "windowed": "use_sliding_window",
    "window": "sliding_window",
    "windowless": "max_window_layers",
}
_DEFAULTS = {
    **DEFAULTS,
    "vocabulary": 151936,
    "d_ff": 22016,
    "kv_heads": 32,
    "rows": 32768,
    "windowed": False,
    "window": 4096,
    "windowless": 28,
}

QWEN2 = replace(
    LLAMA,
    name="qwen2",
    stem="Qwen2",
    keys=_KEYS,
    defaults=_DEFAULTS,
    vocabulary=UNFRAMED,
    architectures=("Qwen2ForCausalLM", "Qwen2Model"),
    read=_read2,
    claims=_claims2,
    check=_check2,
    words=_words,
    gguf="plain",
)
QWEN3 = replace(
    LLAMA,
    name="qwen3",
    stem="Qwen3",
    body={
        **BODY,
        "body.layers.#.attention.query_norm.*": "layers.#.self_attn.q_norm.*",
        "body.layers.#.attention.key_norm.*": "layers.#.self_attn.k_norm.*",
    },
    keys={**_KEYS, "d_head": "head_dim", "bias": "attention_bias"},
    defaults={**_DEFAULTS, "d_head": 128},
    vocabulary=UNFRAMED,
    architectures=("Qwen3ForCausalLM", "Qwen3Model"),
    read=_read3,
    claims=_claims3,
    check=_check3,
    words=_words,
    gguf="plain",
)
