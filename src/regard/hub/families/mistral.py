"""Mistral (Jiang et al. 2023): a Llama whose layers see a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.hub.facts import Facts
from regard.hub.families.llama import (
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
from regard.hub.names import Family
from regard.hub.vocabularies import UNFRAMED
from regard.hub.writing import require
from regard.settings.models import DecoderConfig
from regard.text import Tokenizer


def _read(facts: Facts[Family], tied: bool) -> DecoderConfig:
    return read_config(facts, tied, bias=False, window=read_window(facts, facts.get("window")))


def _claims(config: DecoderConfig, tokenizer: Tokenizer | None) -> bool:
    return is_of_the_make(config) and body_of(config).window is not None


def _check(config: DecoderConfig, tokenizer: Tokenizer | None) -> None:
    check_config(config, tokenizer)
    require(
        not body_of(config).attention.bias,
        "attention.bias=true beside a window",
        "Mistral has none",
        "train with model.decoder.body.attention.bias=false",
    )
    check_biases(config, "Mistral")


def _words(config: DecoderConfig) -> Mapping[str, Any]:
    window = body_of(config).window
    return {**config_words(config), "window": None if window is None else window + 1}


MISTRAL = replace(
    LLAMA,
    name="mistral",
    stem="Mistral",
    keys={**KEYS, "d_head": "head_dim", "window": "sliding_window"},
    defaults={**DEFAULTS, "d_ff": 14336, "kv_heads": 8, "rows": 131072, "window": 4096},
    vocabulary=UNFRAMED,
    architectures=("MistralForCausalLM", "MistralModel"),
    read=_read,
    claims=_claims,
    check=_check,
    words=_words,
    gguf=None,  # llama.cpp writes them as llama
)
