"""The mechanisms: each one an equation, and a fast twin where one exists.

Axis names, one glossary for every annotation in this package:

    tokens      all real tokens of the batch, laid end to end (see regard.layout)
    sequences   the sequences of the batch
    rows        the sequences that are being decoded, one new token each
    d_model     width of the residual stream
    heads       attentions side by side; kv_heads of keys and values, each shared by heads / kv_heads queries
    d_head      width of a query and of a key; d_value: width of a value
    query, key  the tokens of one sequence that ask, and that are asked; queries, keys: those of all sequences
    memory      the encoder's tokens, as a decoder sees them; d_memory: their width
    bounds      the offsets of a layout: one more than sequences
    longest     the bound of the lengths of a layout; capacity: that of a cache
    vocab       entries of the vocabulary; labels, tags: of a task
"""

from jaxtyping import Float, Int
from torch import Tensor

Stream = Float[Tensor, "tokens d_model"]
Ids = Int[Tensor, "tokens"]

__all__ = ["Ids", "Stream"]
