"""Tiny folders of GPT-2's family, made by transformers on the spot, and models of ours of that shape."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from regard.hub import DecoderCheckpoint, HubError, read_decoder
from regard.models import Decoder
from regard.settings.presets import DECODERS
from regard.text import Tokenizer, TokenizerConfig

END = "<|endoftext|>"
TEXTS = [
    "The cat sat on the mat.",
    "that",
    "",
    "  two  spaces\n\tand  ",
    "Über naïve 貓 🙂",
    "it's they'll 12345",
]


def byte_pairs(*more: str) -> tokenizers.Tokenizer:
    """As GPT-2's, in small: its one special token is the last of the vocabulary."""
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "Ġth", "Ġthe", "at", END, *more]
    merges = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("a", "t")]
    tokenizer = tokenizers.Tokenizer(models.BPE({token: id for id, token in enumerate(letters)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return tokenizer


def build(hf, architecture: str = "GPT2LMHeadModel", **settings):
    """A tiny model with weights far from their first values, in eval mode."""
    sizes = {"vocab_size": 300, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    ends = {"bos_token_id": 260, "eos_token_id": 260}
    model = getattr(hf, architecture)(hf.GPT2Config(**{**sizes, **ends, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def save(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    byte_pairs().save(str(folder / "tokenizer.json"))
    return folder


def decoder(checkpoint: DecoderCheckpoint) -> Decoder:
    model = Decoder(checkpoint.config)
    model.load_state_dict(checkpoint.weights, strict=False)
    assert {name for name, _ in model.named_parameters()} == checkpoint.weights.keys()
    return model.eval()


def change(folder: Path, file: str = "config.json", **facts) -> None:
    path = folder / file
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **facts}))


def tensors(folder: Path, **changes) -> None:
    path = folder / "model.safetensors"
    held = {**load_file(path), **changes}
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, path)


def same_weights(a, b) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def own(kind: str = "byte-bpe", **changes) -> DecoderCheckpoint:
    """A model of ours, as it would be trained from nothing, with every value moved from its first one."""
    tokenizer = Tokenizer.train(TEXTS * 3, TokenizerConfig(kind=kind, vocabulary=300))
    config = replace(DECODERS["tiny"](len(tokenizer)), **changes)
    model = Decoder(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return DecoderCheckpoint(config=config, weights=weights, tokenizer=tokenizer, longest=64)


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(HubError) as caught:
        read_decoder(folder)
    for word in words:
        assert word in str(caught.value)
