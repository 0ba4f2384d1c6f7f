"""How a model learns: batches, masks, losses, optimizers, averages, and the loop."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.config import check_choices


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    tokens: int = 4096
    """At most so many slots in a batch, on the side with more tokens; the other side's are in proportion.
    Where an epoch has few batches, up to a tenth may be taken off so that they fill evenly."""
    parts: int = 1
    """Batches that make up one step: gradients are accumulated over them, or ranks share them out."""
    seed: int = 0
    """The order of the examples is a function of it, the epoch and the step."""

    def __post_init__(self) -> None:
        for name in ("tokens", "parts", "seed"):
            if not isinstance(value := getattr(self, name), int | np.integer):
                raise TypeError(f"batch.{name}={value!r} is no whole number: choose one")
        if self.tokens < 1 or self.parts < 1:
            raise ValueError(f"batch.tokens={self.tokens} and batch.parts={self.parts} must be at least 1")
        if self.seed < 0:
            raise ValueError(f"batch.seed={self.seed} cannot seed anything: choose 0 or more")


LONGEST_SPAN = 10
"""In words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingConfig:
    share: float = 0.15
    """Of the tokens, special ones aside, so many are chosen to be predicted."""
    mask: float = 0.8
    """Of the chosen ones, so many are replaced by the mask."""
    random: float = 0.1
    """Of the chosen ones, so many are replaced by a token drawn at random; the rest stays as it is."""
    unit: Literal["token", "word", "span"] = "token"
    """What is chosen as a whole: a token, a word, or a run of words."""
    span: float = 3.8
    """Mean length of a run of words; no run is longer than 10."""
    fresh: bool = True
    """Choose anew in every epoch (RoBERTa), or (false) among a few `copies` in turn (BERT)."""
    copies: int = 10
    """Different choices for each sequence where they are not fresh; 1 makes all epochs the same."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 < self.share <= 1:
            raise ValueError(f"share={self.share} leaves nothing to learn: choose more than 0, up to 1")
        if self.mask < 0 or self.random < 0 or self.mask + self.random > 1 + 1e-9:
            raise ValueError(
                f"mask={self.mask} and random={self.random} are no shares of what is chosen: "
                "choose 0 or more, together 1 at most"
            )
        longest_mean = (1 + LONGEST_SPAN) / 2
        if not 1 <= self.span <= longest_mean:
            raise ValueError(
                f"span={self.span} cannot be the mean of geometric lengths from 1 to {LONGEST_SPAN}: "
                f"choose 1 to {longest_mean}"
            )
        if self.copies < 1:
            raise ValueError(f"copies={self.copies} leaves no choice to train on: choose 1 or more")


MOMENTUM = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    kind: Literal["adam", "muon"] = "adam"
    """adam: AdamW for all weights. muon: Muon for the matrices inside Transformer layers, at the same rate,
    and AdamW for the rest: embeddings, heads, biases, norms, recurrent layers."""
    learning_rate: float | None = None
    """The highest rate, reached at the end of the warm-up: 0.001 unless given. For the paper's schedule, a
    factor on its formula: 1 unless given."""
    schedule: Literal["cosine", "inverse_sqrt", "linear", "constant", "paper"] = "cosine"
    """How the rate falls after the warm-up."""
    warmup: int = 400
    """Steps over which the rate rises."""
    final: float = 0.0
    """Share of the peak that is left at the last step (cosine, linear)."""
    betas: tuple[float, float] = (0.9, 0.98)
    """How slowly the means of the gradients and of their squares move."""
    momentum: float = MOMENTUM
    """muon: how slowly the mean of the gradients moves, for the matrices that Muon takes."""
    eps: float = 1e-9
    """Keeps the division finite."""
    weight_decay: float = 0.0
    """Pull of matrices towards 0; embeddings, biases and norms are left alone."""
    clip: float = 1.0
    """Longest gradient; longer ones are shortened to it. 0: never."""
    layer_decay: float = 1.0
    """Fine-tuning: each layer learns at this share of the rate of the one above it; 1: all alike."""
    head_rate: float = 1.0
    """Fine-tuning: factor on the rate of a head that starts from nothing."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("learning_rate", "weight_decay", "clip", "final"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}={value} must be 0 or more, and finite")
        if self.warmup < 0:
            raise ValueError(f"warmup={self.warmup} must be 0 or more")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={list(self.betas)} must both be in [0, 1)")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum} must be in [0, 1)")
        if self.momentum != MOMENTUM and self.kind != "muon":
            raise ValueError(
                f"momentum={self.momentum} is for the kind muon, but kind={self.kind!r}: leave it out, or "
                "choose the other kind; AdamW's own is the first of betas"
            )
        if not 0 < self.eps < math.inf:
            raise ValueError(f"eps={self.eps} must be greater than 0, and finite")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay={self.layer_decay} must be above 0, and at most 1: all alike")
        if not 0 < self.head_rate < math.inf:
            raise ValueError(f"head_rate={self.head_rate} must be greater than 0, and finite")
        if self.final and self.schedule not in ("cosine", "linear"):
            raise ValueError(
                f"final={self.final} is for the schedules cosine and linear, but schedule={self.schedule!r}: "
                "leave it out, or choose another schedule"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class AverageConfig:
    kind: Literal["ema", "last", "none"] = "ema"
    """Which mean of the weights is validated and kept; none: the weights themselves."""
    decay: float = 0.999
    """ema: how much of the mean stays at each step. It reaches back about 1 / (1 - decay) steps."""
    last: int = 5
    """last: over how many validations."""
    start: float = 0.0
    """Fine-tuning: this share of what is validated and kept are the weights that were started from, against
    forgetting what they could. 0: none."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 <= self.decay < 1:
            raise ValueError(f"average.decay={self.decay} must be in [0, 1)")
        if self.last < 1:
            raise ValueError(f"average.last={self.last} must be at least 1")
        if not 0 <= self.start < 1:
            raise ValueError(f"average.start={self.start} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothingConfig:
    label_smoothing: float = 0.0
    """Share of the probability that is spread over all there is to choose from."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be in [0, 1)")


@dataclass(frozen=True, kw_only=True, slots=True)
class LossConfig(SmoothingConfig):
    r_drop: float = 0.0
    """Weight of the disagreement between two passes with other dropout. 0: one pass, half the time."""

    def __post_init__(self) -> None:
        SmoothingConfig.__post_init__(self)
        if not 0 <= self.r_drop < math.inf:
            raise ValueError(f"r_drop={self.r_drop} must be 0 or more, and finite")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    steps: int = 10_000
    """Updates of the weights."""
    minutes: float = 0.0
    """Stop after so much time; the learning rate falls to its end by then. 0: no limit. Compiling, waiting
    for data, checkpoints and validations, the last one too, are in it, and what was trained before a resume;
    what comes before the first step (reading, tokens) and the test at the end are not. How many steps that
    makes hangs on the machine, so such a run cannot be repeated to the bit; --dry-run says what it can do."""
    seed: int = 0
    """Initial weights, order of the examples, dropout: all of it is a function of this number."""
    validate_every: int = 500
    """Steps between validations."""
    patience: int = 0
    """Stop after so many validations without a better figure. 0: never."""
    log_every: int = 50
    """Steps between lines of the log."""
    save_every: int = 0
    """Steps between checkpoints. One is written at the end anyway, after two minutes, and at a validation if
    the last is ten seconds old: short runs would spend their time on it."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the matrix products; weights are always float32. auto: bfloat16 on CUDA."""
    compile: Literal["auto", "yes", "no"] = "auto"
    """Compile the layers. auto: on CUDA, where the run is long enough to win the time back."""
    capture: Literal["auto", "yes", "no"] = "auto"
    """Replay each step as a captured CUDA graph. auto: wherever the model allows it."""
    fsdp: Literal["auto", "yes", "no"] = "auto"
    """Cut weights, gradients and the optimizer's state over all processes (FSDP2, layer by layer), where one
    GPU has no room for them; otherwise each has all of them, which is faster (DDP, over one flat vector).
    auto: on several GPUs, if they do not fit; --dry-run says which it is."""
    cpu_offload: bool = False
    """fsdp: keep what is cut in the memory of the host, and update it there: slow, and room for much more."""
    activation_checkpointing: bool = False
    """Keep of each Transformer layer its input only, and compute the rest once more on the way back: a third
    more work for a fraction of the memory. With or without fsdp; such steps are not captured."""
    workers: int = 1
    """Threads that prepare the next batches while a GPU computes. On the CPU none do: they would only be in
    the way of the threads that compute, which made training half as fast."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("steps", "validate_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.cpu_offload and self.fsdp != "yes":
            raise ValueError(
                f"cpu_offload=true is for what fsdp cuts, but fsdp={self.fsdp!r}: set train.fsdp='yes' too"
            )
        for name in ("seed", "minutes", "patience", "save_every", "workers"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be 0 or more, and finite")

    def bfloat16(self, device: Any) -> bool:
        """Whether that is the precision of the matrix products there."""
        return device.type == "cuda" if self.precision == "auto" else self.precision == "bfloat16"
