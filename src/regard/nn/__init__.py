"""The mechanisms: each one an equation, and a fast twin where one exists.

Axis names, one glossary for every annotation in this package:

    tokens      all real tokens of the batch, laid end to end (see regard.layout)
    sequences   the sequences of the batch
    rows        the sequences that are being decoded, one new token each
    d_model     width of the residual stream
    heads       attentions side by side; kv_heads of keys and values, each shared by heads / kv_heads queries
    d_head      width of a query and of a key; d_value: width of a value
    query, key  the tokens of one sequence that ask, and that are asked
    vocab       entries of the vocabulary
"""

from jaxtyping import Float, Int
from torch import Tensor

Stream = Float[Tensor, "tokens d_model"]
Ids = Int[Tensor, "tokens"]

__all__ = ["Ids", "Stream"]
