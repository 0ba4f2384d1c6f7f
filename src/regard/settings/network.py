"""The parts of a network: attention, feed-forward, norms, positions, and the stacks they make."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from regard.config import check_choices
from regard.plugins import Registry

SCORES: Registry[Any] = Registry(
    "scaled", "dot", "additive", key="attention.score", home="regard.nn.attention"
)
"""All scores, by name. Only the scaled dot product has fused kernels; others run as they are written."""
POSITIONS: Registry[Any] = Registry(
    *("sinusoidal", "learned", "index", "fraction", "rotary", "relative", "alibi", "none"),
    key="positions.kind",
    home="regard.nn.positions",
)
"""All kinds, by name."""

NormKind = Literal["layer", "rms", "batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NormConfig:
    kind: NormKind = "layer"
    """LayerNorm; RMSNorm: no mean, no beta; or BatchNorm, over the tokens of the batch."""
    place: Literal["post", "pre"] = "post"
    """After the residual sum, as in the paper, or before the layer, which trains without warm-up."""
    eps: float = 1e-5
    """Added to the variance."""
    bias: bool = True
    """LayerNorm's beta; ModernBERT has none."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.eps <= 0:
            raise ValueError(f"norm.eps={self.eps} must be greater than 0")
        if not self.bias and self.kind == "batch":
            raise ValueError("norm.bias=false is for LayerNorm: choose norm.kind=layer, or leave it")


Activation = Literal["relu", "gelu", "gelu_tanh", "swish", "geglu", "geglu_tanh", "swiglu"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForwardConfig:
    d_ff: int | None = None
    """Inner width; 4 * d_model unless given."""
    activation: Activation = "relu"
    """gelu_tanh is the approximation that GPT-2 uses, swish is Marian's; geglu, geglu_tanh and swiglu have a
    third matrix, the gate."""
    bias: bool = True
    """b_1 and b_2."""
    dropout: float = 0.0
    """Share of the inner elements dropped in training; the paper drops none there."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.d_ff is not None and self.d_ff < 1:
            raise ValueError(f"feed_forward.d_ff={self.d_ff} must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"feed_forward.dropout={self.dropout} must be in [0, 1)")


Kernel = Literal["equation", "varlen", "grouped", "padded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig:
    heads: int = 8
    """Attentions side by side."""
    kv_heads: int | None = None
    """Heads of keys and values, each shared by heads / kv_heads queries; as many as heads unless given."""
    d_head: int | None = None
    """Width of a query and a key; d_model / heads unless given."""
    d_value: int | None = None
    """Width of a value; d_head unless given."""
    bias: bool = True
    """Biases of the four projections. The paper writes none; BERT's and GPT-2's checkpoints have them."""
    output_bias: bool | None = None
    """Of the output's projection alone; as `bias` unless given. Qwen2 has biases, but none there."""
    qk_norm: bool = False
    """An RMSNorm over each head's query and key, before positions act on them, as Qwen3 has it; its eps is
    that of `norm`."""
    dropout: float = 0.0
    """Share of the attention weights dropped in training. The fused kernels cannot: it costs speed."""
    kernel: Kernel | Literal["auto"] = "auto"
    """Which kernel computes it; auto takes the fastest that can."""
    score: Annotated[str, SCORES] | None = None
    """How queries and keys are compared: the scaled dot product unless given. Others have no fused kernel:
    they are computed by the equation, one sequence after the other."""
    scale: float | None = None
    """What the scaled dot product is multiplied by; 1 / sqrt(d_head) unless given. T5 has 1."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise ValueError(f"attention.scale={self.scale} must be greater than 0, and finite")
        if self.scale is not None and self.scored:
            raise ValueError(
                f"attention.scale={self.scale} is of the scaled dot product, but "
                f"attention.score={self.score!r}: leave one of the two out"
            )
        if self.score is not None:
            SCORES.check(self.score, "attention.score")
        if self.scored and self.kernel not in ("auto", "equation"):
            raise ValueError(
                f"attention.kernel={self.kernel!r} computes the scaled dot product, but "
                f"attention.score={self.score!r}: leave one of the two out"
            )
        for name in ("heads", "kv_heads", "d_head", "d_value"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"attention.{name}={value} must be at least 1")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"attention.heads={self.heads} cannot share kv_heads={self.kv_heads}: "
                f"choose a divisor of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"attention.dropout={self.dropout} must be in [0, 1)")

    @property
    def scored(self) -> bool:
        """Whether the score is another than the kernels have."""
        return self.score not in (None, "scaled")

    @property
    def biased_output(self) -> bool:
        return self.bias if self.output_bias is None else self.output_bias

    def width(self, d_model: int) -> int:
        """d_head for a model of this width."""
        if self.d_head is None and d_model % self.heads:
            raise ValueError(
                f"d_model={d_model} cannot be split over heads={self.heads}: "
                f"choose a multiple of {self.heads}, or set attention.d_head"
            )
        return self.d_head or d_model // self.heads

    def only(self, kept: Sequence[int], d_model: int) -> "AttentionConfig":
        """The same with these of the heads alone, each as wide as before. Heads that share keys and values
        stay or go together."""
        share = self.heads // (self.kv_heads or self.heads)
        groups = {head // share for head in kept}
        if len(groups) * share != len(kept):
            broken = next(group for group in sorted(groups) if not self._group(group, share) <= {*kept})
            raise ValueError(
                f"heads {sorted(self._group(broken, share))} share keys and values, but only "
                f"{sorted(self._group(broken, share) & {*kept})} would stay: keep or drop all of them"
            )
        return replace(
            self, heads=len(kept), kv_heads=self.kv_heads and len(groups), d_head=self.width(d_model)
        )

    def _group(self, number: int, share: int) -> set[int]:
        return set(range(number * share, number * share + share))


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    kind: Literal["transformer"] = "transformer"
    layers: int = 6
    """Identical layers, one after the other."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    feed_forward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    final_norm: bool | None = None
    """One more norm after the last layer; unless given, exactly where pre-norm leaves the stream without
    one."""
    first_norm: bool = True
    """Pre-norm: one before the first attention. ModernBERT, whose embedding is normed, has none there."""
    dropout: float = 0.1
    """Share of each sublayer's output dropped in training, before it is added."""
    window: int | None = None
    """Sliding window: how many tokens each way (backwards only, if causal) a token sees besides itself; None
    for all. Other libraries count the token too: their 1024 is 1023 here."""
    global_every: int = 0
    """With a window: every so many layers, one sees everything: 6 for layers 6, 12, ...; 0 for none."""
    global_first: int = 0
    """The first of them, counted from 1 (ModernBERT: 1); 0: the global_every-th."""
    kept_heads: tuple[tuple[int, ...], ...] | None = None
    """Self-attention of a pruned model: for each layer, which of the attention.heads are there, from 0."""
    kept_cross_heads: tuple[tuple[int, ...], ...] | None = None
    """The same of its cross-attention."""

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"layers={self.layers} must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")
        if not self.first_norm and self.norm.place != "pre":
            raise ValueError("first_norm=false is for norms before layers: set norm.place=pre")
        self._check_kept("kept_heads", self.kept_heads)
        self._check_kept("kept_cross_heads", self.kept_cross_heads)
        if self.window is not None and self.window < 1:
            raise ValueError(f"window={self.window} must be at least 1, or None to see everything")
        if self.global_every or self.global_first:
            self._check_global()

    def _check_global(self) -> None:
        if self.window is None:
            raise ValueError(
                f"global_every={self.global_every}, but without a window every layer sees everything: "
                "set window, or leave global_every at 0"
            )
        most = max(self.layers, self.global_every if self.global_first else 0)
        if not 2 <= self.global_every <= most:
            raise ValueError(
                f"global_every={self.global_every} must be from 2 to layers={self.layers}, or 0: "
                "some layers have the window and some see everything"
            )
        if not 0 <= self.global_first <= min(self.global_every, self.layers):
            raise ValueError(
                f"global_first={self.global_first} must be from 1 to global_every={self.global_every} and to "
                f"layers={self.layers}, or 0"
            )

    def _check_kept(self, name: str, kept: tuple[tuple[int, ...], ...] | None) -> None:
        if kept is None:
            return
        if len(kept) != self.layers:
            raise ValueError(
                f"{name} is for {len(kept)} layers, but layers={self.layers}: name heads for each"
            )
        for layer, heads in enumerate(kept):
            whole = range(self.attention.heads)
            if not heads or list(heads) != sorted({*heads} & {*whole}):
                raise ValueError(
                    f"{name}[{layer}]={list(heads)}: name at least one head, each once and in order, "
                    f"from 0 to {self.attention.heads - 1}"
                )

    def heads_of(self, layer: int, *, cross: bool = False) -> tuple[int, ...]:
        """Which heads a layer has."""
        kept = self.kept_cross_heads if cross else self.kept_heads
        return tuple(range(self.attention.heads)) if kept is None else kept[layer]


Cell = Literal["lstm", "gru", "rnn"]
"""rnn is the plain one, with tanh: the first, and the one that forgets soonest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig:
    kind: Literal["recurrent"] = "recurrent"
    cell: Cell = "lstm"
    """What carries the state from token to token; rnn is the plain one, with tanh."""
    layers: int = 2
    """Recurrent layers, one on top of the other."""
    bidirectional: bool = True
    """Encoders: half of the width reads forwards, half backwards. Decoders read forwards."""
    attention: Literal["none", "additive", "dot", "scaled"] = "additive"
    """Decoders: the score by which each step looks at the encoder's states."""
    dropout: float = 0.2
    """Share of each layer's output dropped in training, and of what the decoder says at last."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.layers < 1:
            raise ValueError(f"layers={self.layers} must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be in [0, 1)")


Scaling = Literal["none", "linear", "ntk", "yarn", "llama3"]
Sinusoids = Literal["paper", "halves", "tensor2tensor"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionsConfig:
    kind: Annotated[str, POSITIONS] = "sinusoidal"
    """How tokens know their place."""
    base: float = 10_000.0
    """n of the sinusoidal and rotary formulas: the longest wavelength is 2 pi n."""
    sinusoids: Sinusoids = "paper"
    """Sinusoidal: sines and cosines in turn, as in the paper; halves: all sines first, as Marian has them; or
    halves whose longest wavelength is 2 pi n itself, as tensor2tensor and M2M100 have them."""
    longest: int = 512
    """Learned: no input may be longer. Fraction: the length that 1 stands for. Inputs of the other kinds may
    have any length."""
    first: int = 0
    """Learned: rows of the table before that of the first token (RoBERTa: 2). Sinusoidal: the position that
    it stands at (M2M100: 2)."""
    buckets: int = 32
    """Relative: how many distances the bias tells apart; half of them exact, half ever wider."""
    reach: int = 128
    """Relative: distances from here on share one bucket."""
    shared: bool = False
    """Relative: one table for all layers, as T5 and MPNet have it, and not one for each."""
    beside: Literal["none", "relative"] = "none"
    """A relative bias beside positions that act elsewhere: MPNet has learned ones and this."""
    local_base: float | None = None
    """Rotary: `base` of the layers that have a window, where it is another (ModernBERT)."""
    scaling: Scaling = "none"
    """Rotary: how angles shrink, for inputs longer than the model was trained on."""
    factor: float = 1.0
    """With a scaling: how many times the trained length is to be read."""
    trained: int = 0
    """Yarn and llama3: the length that the model was trained on, in tokens."""
    few_turns: float = 1.0
    """Yarn and llama3: pairs that turn so often or less in the trained length shrink by the whole factor."""
    many_turns: float | None = None
    """Yarn and llama3: pairs that turn so often or more keep their angles; 32 (yarn) or 4 (llama3) unless
    given."""
    stretch: float | None = None
    """Yarn: queries and keys are multiplied by it; 0.1 ln(factor) + 1 unless given."""

    def __post_init__(self) -> None:
        check_choices(self)
        POSITIONS.check(self.kind, "positions.kind")
        if self.base <= 1:
            raise ValueError(f"positions.base={self.base} must be greater than 1: 10000 is the usual value")
        if self.longest < 1:
            raise ValueError(f"positions.longest={self.longest} must be at least 1")
        if self.first < 0:
            raise ValueError(f"positions.first={self.first} must be 0 or more")
        if self.buckets < 4 or self.buckets % 4:
            raise ValueError(f"positions.buckets={self.buckets} must be a multiple of 4: halves, each way")
        if self.reach <= self.buckets:
            raise ValueError(
                f"positions.reach={self.reach} must be greater than positions.buckets={self.buckets}"
            )
        self._check_beside()
        self._check_scaling()

    def _check_beside(self) -> None:
        if self.beside != "none" and self.kind in ("relative", "alibi"):
            raise ValueError(
                f"positions.beside={self.beside!r}, but positions.kind={self.kind!r} is a bias already: "
                "choose one of the two"
            )
        if self.shared and "relative" not in (self.kind, self.beside):
            raise ValueError(
                "positions.shared=true is one table of a relative bias, and there is none: set "
                "positions.kind or positions.beside to relative"
            )
        if self.local_base is not None and (self.kind != "rotary" or self.local_base <= 1):
            raise ValueError(
                f"positions.local_base={self.local_base} with positions.kind={self.kind!r}: it is for rotary "
                "positions, and greater than 1"
            )

    def _check_scaling(self) -> None:
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"positions.factor={self.factor} must be at least 1: it makes inputs longer")
        if self.scaling == "none":
            if self.factor != 1:
                raise ValueError(
                    f"positions.factor={self.factor} does nothing without a scaling: "
                    "set positions.scaling to linear, ntk, yarn or llama3"
                )
            return
        if self.kind != "rotary":
            raise ValueError(
                f"positions.scaling={self.scaling!r} shrinks rotary angles, which "
                f"positions.kind={self.kind!r} has not: choose kind='rotary' or scaling='none'"
            )
        if self.scaling in ("yarn", "llama3") and self.trained <= 2 * math.pi:
            raise ValueError(
                f"positions.trained={self.trained} must be at least 7, one turn of the fastest pair: "
                f"for {self.scaling}, set it to the length that the model was trained on"
            )
        if not 0 < self.few_turns < self.turns_kept < math.inf:
            raise ValueError(
                f"positions.few_turns={self.few_turns} must be above 0 and below "
                f"positions.many_turns={self.turns_kept}"
            )
        if self.stretch is not None and not 0 < self.stretch < math.inf:
            raise ValueError(f"positions.stretch={self.stretch} must be greater than 0, and finite")

    @property
    def turns_kept(self) -> float:
        """`many_turns`, written out."""
        return (4.0 if self.scaling == "llama3" else 32.0) if self.many_turns is None else self.many_turns


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingConfig:
    scaled: bool = True
    """Multiply the token's row by sqrt(d_model), as the paper does."""
    segments: int = 0
    """How many segments have a vector of their own (BERT: 2); 0 for none."""
    normed: bool = False
    """Normalise the sum, as BERT does."""
    dropout: float = 0.1
    """Share of the sum's elements dropped in training."""

    def __post_init__(self) -> None:
        if self.segments < 0:
            raise ValueError(f"embedding.segments={self.segments} must be 0 or more")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"embedding.dropout={self.dropout} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class InitialConfig:
    scheme: Literal["xavier", "normal"] = "xavier"
    """How matrices start."""
    std: float = 0.02
    """Of the normal scheme, and of embeddings that are not scaled."""
    shrink_residuals: bool = False
    """Divide the matrices that write to the residual stream by sqrt(their number), as GPT-2 does."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.std <= 0:
            raise ValueError(f"initial.std={self.std} must be greater than 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterConfig:
    """Low-rank adapters (LoRA): fine-tuning learns two thin matrices beside each large one."""

    rank: int = 0
    """Of what is added to each matrix; 0: no adapters, all weights learn."""
    alpha: float = 16.0
    """What is added is multiplied by alpha / rank."""
    matrices: tuple[Literal["attention", "feed_forward"], ...] = ("attention", "feed_forward")
    """Which layers get adapters."""

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise ValueError(f"adapter.rank={self.rank} must be 0 or more")
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"adapter.alpha={self.alpha} must be greater than 0, and finite")
        if not self.matrices or {*self.matrices} - {"attention", "feed_forward"}:
            raise ValueError(
                f"adapter.matrices={list(self.matrices)} must be some of attention, feed_forward"
            )
