"""What a step asks of a machine, from the model alone: arithmetic, and bytes that stay until the way back.

    arithmetic of a token   6 x weights of the layers + 6 x d_model x vocabulary for what is predicted
                            + 12 x layers x d_model x tokens that it sees: useful work, nothing computed twice
    bytes of a token        in each layer, in bfloat16: STREAM d_model + 2 d_ff for each copy of the inner
                            states that the activation needs, + ACROSS d_model where there is cross-attention

The first is the count of `regard bench training`; the constants of the second are read off what it measured
(train/measured.py). Rows that they were not read off agree to a few per cent: tests/train/test_scaling.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from regard.nn.embedding import VocabularyHead
from regard.nn.layers import TransformerLayer

STREAM = 19.3
"""Bytes for each element of a token's vector that a layer keeps, its feed-forward part aside: what goes into
norms, projections and attention, and what comes out, in bfloat16. From BERT-base, length 128."""
ACROSS = 13.9
"""The same for cross-attention, keys and values of the source among them. From Transformer-base."""
WORKSPACE = 96 * 2**20
"""Bytes that libraries take for themselves. From Transformer-small."""
SCORED = 8192
"""Rows of scores over a vocabulary that are in memory at a time, at most: nn/vocabulary_loss.py."""
COPIES = {"relu": 1, "gelu": 2, "gelu_tanh": 2, "swish": 2, "geglu": 3, "geglu_tanh": 3, "swiglu": 3}
"""Of the inner states that the way back needs: before the activation and after; ReLU's own output does."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    d_model: int
    d_ff: int
    copies: int
    across: bool
    parameters: int

    @property
    def kept(self) -> float:
        """Bytes of a token."""
        return (STREAM + (ACROSS if self.across else 0)) * self.d_model + 2 * self.copies * self.d_ff


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, and a batch of its tokens: of a translator's, of the targets; sources have as many."""

    name: str
    parameters: int
    trained: int
    layers: tuple[LayerShape, ...]
    vocabulary: int
    """0: there is no head over one."""
    d_model: int
    tokens: int
    """Of a batch, on one GPU at a time."""
    predicted: float
    """The share of the tokens that the head scores."""
    seen: float
    """Tokens that a token sees, on average."""

    @property
    def body(self) -> int:
        """Weights inside of layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def beside(self) -> int:
        """Weights in no layer: embeddings, heads."""
        return self.parameters - self.body

    @property
    def flops(self) -> float:
        """Of one token, forwards and backwards."""
        head = self.predicted * self.vocabulary * self.d_model
        own = [layer for layer in self.layers if not layer.across]
        looks = self.seen * sum(layer.d_model for layer in own)
        return 6 * self.body + 6 * head + 12 * looks

    @property
    def translates(self) -> bool:
        return any(layer.across for layer in self.layers)

    def activations(self, *, recomputed: bool = False) -> float:
        """Bytes; `recomputed`, the input of each layer, and all of one."""
        each = [layer.kept for layer in self.layers]
        if recomputed:
            each = [2.0 * layer.d_model for layer in self.layers] + [max(each, default=0.0)]
        return self.tokens * sum(each)

    @property
    def scores(self) -> float:
        """Bytes around the head: some rows of scores, its matrix in half precision, its gradient."""
        rows = min(SCORED, -(-self.predicted * self.tokens // 2))
        return 2 * rows * self.vocabulary + (4 + 2) * self.vocabulary * self.d_model


def workload_of(
    model: nn.Module, *, name: str, tokens: int, predicted: float = 1.0, seen: float = 0.0
) -> Workload:
    """Of a model, real or on the meta device."""
    layers = tuple(_layer(part) for part in model.modules() if isinstance(part, TransformerLayer))
    head = next((part for part in model.modules() if isinstance(part, VocabularyHead)), None)
    vocabulary, d_model = (0, layers[0].d_model if layers else 0) if head is None else head.weight.shape
    return Workload(
        name=name,
        parameters=_count(model.parameters()),
        trained=_count(each for each in model.parameters() if each.requires_grad),
        layers=layers,
        vocabulary=int(vocabulary),
        d_model=int(d_model),
        tokens=tokens,
        predicted=predicted,
        seen=seen,
    )


def _layer(layer: TransformerLayer) -> LayerShape:
    part = layer.feed_forward
    return LayerShape(
        d_model=part.output.out_features,
        d_ff=part.output.in_features,
        copies=COPIES.get(part.activation, 2),
        across=layer.cross_attention is not None,
        parameters=_count(layer.parameters()),
    )


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(each.numel() for each in parameters)
