"""Embedders of the shapes that people have, with random weights, as folders that both sides of a comparison
open.

The cost of a pass does not depend on what the weights are. The vocabulary is MiniLM's, under the special
tokens of the family: rows of an embedding that no text looks up cost nothing.
"""

from dataclasses import replace
from pathlib import Path

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub import Checkpoint, write_folder
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import EmbedConfig, EncoderConfig, PoolConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.text import Tokenizer

_BASE = EncoderConfig(
    vocabulary=1,
    d_model=768,
    embedding=EmbeddingConfig(scaled=False, normed=True),
    positions=PositionsConfig(kind="learned", longest=512, first=2),
    body=TransformerConfig(
        layers=12,
        attention=AttentionConfig(heads=12),
        feed_forward=FeedForwardConfig(d_ff=3072, activation="gelu"),
        norm=NormConfig(eps=1e-5),
    ),
    initial=InitialConfig(scheme="normal"),
)
SHAPES = {
    "XLM-R-base": replace(_BASE, embedding=replace(_BASE.embedding, segments=1)),
    "MPNet-base": replace(_BASE, positions=replace(_BASE.positions, beside="relative", shared=True)),
}
"""12 layers, 768 wide: what most embedders on such encoders are."""
_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def tokenizer_like(words: Path) -> Tokenizer:
    """The pieces of a vocab.txt, numbered from behind the special tokens that fairseq has."""
    found = words.read_text(encoding="utf-8").split("\n")
    pieces = [piece for piece in found if piece and not (piece.startswith("[") and piece.endswith("]"))]
    vocabulary = {piece: id for id, piece in enumerate([*_SPECIALS, *pieces])}
    rust = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    rust.normalizer = normalizers.BertNormalizer(lowercase=True)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    rust.add_special_tokens([AddedToken(token, special=True) for token in _SPECIALS])
    rust.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return Tokenizer(rust.to_str())


def write_shape(name: str, words: Path, folder: Path) -> Path:
    """A folder of sentence-transformers with such a model."""
    tokenizer = tokenizer_like(words)
    head = EmbedConfig(pool=PoolConfig(kind="mean"))
    config = HeadedConfig(encoder=replace(SHAPES[name], vocabulary=len(tokenizer)), head=head)
    torch.manual_seed(0)
    weights = {name: weight.detach() for name, weight in Headed(config).named_parameters()}
    write_folder(Checkpoint(config=config, weights=weights, tokenizer=tokenizer, longest=256), folder)
    return folder
