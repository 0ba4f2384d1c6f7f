"""Tiny folders of T5, FLAN-T5 and mT5, made by transformers and sentencepiece on the spot."""

import io
import json
from functools import cache
from pathlib import Path

import torch

from tests.hub.marians import ENGLISH, GERMAN

KINDS = {
    "t5": {"feed_forward_proj": "relu"},
    "flan": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "silu": {"feed_forward_proj": "gated-silu", "tie_word_embeddings": False},
    "mt5": {"feed_forward_proj": "gated-gelu"},
}
PROMPTS = {
    "summarization": {"prefix": "summarize: ", "max_length": 200, "num_beams": 4},
    "translation_en_to_de": {"prefix": "translate English to German: ", "early_stopping": True},
}


@cache
def spiece(size: int = 120, texts: tuple[str, ...] = (*ENGLISH, *GERMAN), **settings) -> bytes:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 4),
        model_writer=made,
        vocab_size=size,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=3,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        **settings,
    )
    return made.getvalue()


def t5(hf, folder: Path, kind: str = "t5", *, seed: int = 0, ends: float = 0.0, fast: bool = False, **more):
    """A model of more rows than its tokenizer has tokens, as theirs are; `ends` is how much likelier it is
    made to come to an end. With `fast`, its tokenizer is a tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(spiece())
    sentinels = 0 if kind == "mt5" else 100
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"extra_ids": sentinels, "model_max_length": 512, "tokenizer_class": "T5Tokenizer"})
    )
    made = hf.T5Tokenizer.from_pretrained(folder)
    rows = len(made) + 12
    if fast:
        made.save_pretrained(folder)
        (folder / "spiece.model").unlink()
    name = "MT5" if kind == "mt5" else "T5"
    config = getattr(hf, f"{name}Config")(
        vocab_size=rows, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0,
        **{"num_decoder_layers": 3, **KINDS[kind], **more},
    )  # fmt: skip
    torch.manual_seed(seed)
    model = getattr(hf, f"{name}ForConditionalGeneration")(config)
    if kind != "t5":  # an output matrix of its own
        model.lm_head.weight = torch.nn.Parameter(torch.randn(rows, 32) / 6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # norms and biases count too
        weights = [model.shared.weight, *([] if kind == "t5" else [model.lm_head.weight])]
        for weight in weights[-1:]:
            weight[1] *= 1 + ends
    model.eval().save_pretrained(folder)
    return model
