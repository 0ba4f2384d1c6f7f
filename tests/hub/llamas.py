"""Tiny folders of Llama's family, made by transformers on the spot, and models of ours of that shape."""

from dataclasses import replace
from pathlib import Path

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub import DecoderCheckpoint
from regard.models import Decoder
from regard.settings.presets import MODERN
from regard.text import Tokenizer, TokenizerConfig
from tests.hub.gpts import TEXTS

START, END, TURN = "<|begin|>", "<|end|>", "<|turn|>"
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 500.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 1e6}
CASES = [
    ("Llama", {}),
    ("Llama", {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}}),
    ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "num_key_value_heads": 1}),
    ("Llama", {"rope_parameters": LLAMA3, "rms_norm_eps": 0.1}),
    ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}),
    ("Mistral", {"sliding_window": 3}),
    ("Mistral", {"sliding_window": None, "head_dim": 12}),
    ("Qwen2", {}),
    ("Qwen2", {"rope_parameters": YARN}),
    ("Qwen2", {"rope_parameters": {**YARN, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.5}}),
    ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}),
    ("Qwen3", {"head_dim": 16}),
    ("Qwen3", {"head_dim": 8, "attention_bias": True, "tie_word_embeddings": True}),
]
"""A kind, and its settings."""


def named(case: tuple) -> str:
    return f"{case[0]}-{'-'.join(case[1])}"


def build(hf, kind: str, **settings):
    """A tiny model with weights far from their first values, in eval mode."""
    sizes = {
        "vocab_size": 300,
        "max_position_embeddings": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "bos_token_id": 260,
        "eos_token_id": 261,
    }
    model = getattr(hf, f"{kind}ForCausalLM")(getattr(hf, f"{kind}Config")(**{**sizes, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def byte_pairs(*, begins: bool = True) -> tokenizers.Tokenizer:
    """As Llama 3's, in small: pieces of bytes, and a start token before a text."""
    specials = [START, END, TURN]
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "Ġth", "Ġthe", "at", *specials]
    merges = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("a", "t")]
    tokenizer = tokenizers.Tokenizer(models.BPE({token: id for id, token in enumerate(letters)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in specials])
    whole = processors.ByteLevel(trim_offsets=True)
    if begins:
        frame = processors.TemplateProcessing(
            single=f"{START}:0 $A:0", pair=f"{START}:0 $A:0 {START}:1 $B:1", special_tokens=[(START, 260)]
        )
        whole = processors.Sequence([whole, frame])
    tokenizer.post_processor = whole
    return tokenizer


def sentence_pieces() -> tokenizers.Tokenizer:
    """As Llama 2's and Mistral's: SentencePiece's BPE, with bytes for what is not in the vocabulary."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁t", "▁th", "▁the", *"abcdefghijklmnopqrstuvwxyz.,", "at"]
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("a", "t")]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(
            {token: id for id, token in enumerate(pieces)},
            merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(prepend="▁"), normalizers.Replace(pattern=" ", content="▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(pattern="▁", content=" "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0", pair="<s>:0 $A:0 <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def save(model, folder: Path, tokenizer: tokenizers.Tokenizer | None = None, **facts) -> Path:
    """As `save_pretrained` leaves model and tokenizer."""
    import transformers

    model.save_pretrained(folder)
    facts = {"bos_token": START, "eos_token": END, **facts}
    rust = tokenizer or byte_pairs()
    transformers.PreTrainedTokenizerFast(tokenizer_object=rust, **facts).save_pretrained(folder)
    return folder


def own(**changes) -> DecoderCheckpoint:
    """A model of ours, as it would be trained from nothing, with every value moved from its first one."""
    tokenizer = Tokenizer.train(TEXTS * 3, TokenizerConfig(kind="byte-bpe", vocabulary=300))
    config = replace(MODERN["tiny"](len(tokenizer)), **changes)
    model = Decoder(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return DecoderCheckpoint(config=config, weights=weights, tokenizer=tokenizer, longest=64)
