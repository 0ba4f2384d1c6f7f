"""A model's shape in a few words: a preset, and whatever is set beside it.

    preset = "small", layers = 6, dropout = 0.3

Each word stands for a field deep in `EncoderConfig` or `DecoderConfig`; for a translator, on both sides. What
has no word can be set where it is: `encoder.body.window = 64`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from regard.config import check_choices, from_dict, to_dict
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.network import POSITIONS, SCORES, Activation, AdapterConfig, Cell, NormKind, Scaling
from regard.settings.presets import DECODERS, ENCODERS, MODERN, SEQ2SEQ

_PATHS: dict[str, tuple[str, ...]] = {
    "layers": ("body.layers",),
    "d_model": ("d_model",),
    "heads": ("body.attention.heads",),
    "d_ff": ("body.feed_forward.d_ff",),
    "dropout": ("body.dropout", "embedding.dropout"),
    "attention_dropout": ("body.attention.dropout",),
    "activation": ("body.feed_forward.activation",),
    "activation_dropout": ("body.feed_forward.dropout",),
    "norm": ("body.norm.place",),
    "norm_kind": ("body.norm.kind",),
    "positions": ("positions.kind",),
    "score": ("body.attention.score",),
    "cell": ("body.cell",),
    "attention": ("body.attention",),
}
"""Where in a side's configuration each word stands."""

_RECURRENT = ("cell", "attention")
_SHARED = ("layers", "d_model", "dropout", "positions", "longest", "tied")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The words that all models share."""

    preset: str = "small"
    """The shape to start from; every other key changes one thing about it."""
    layers: int | None = None
    """Layers, one after the other; of a translator, of each side."""
    d_model: int | None = None
    """Width of the residual stream."""
    heads: int | None = None
    """Attentions side by side."""
    d_ff: int | None = None
    """Inner width of the feed-forward network."""
    dropout: float | None = None
    """Share dropped of the embedding and of each sublayer's output."""
    attention_dropout: float | None = None
    """Share of the attention weights dropped; the fused kernels cannot, so it costs speed."""
    activation: Activation | None = None
    """Of the feed-forward network."""
    activation_dropout: float | None = None
    """Share of the feed-forward network's inner elements dropped."""
    norm: Literal["post", "pre"] | None = None
    """After the residual sum, or before the layer."""
    norm_kind: NormKind | None = None
    """LayerNorm, RMSNorm, or, to compare with, BatchNorm."""
    positions: Annotated[str, POSITIONS] | None = None
    """How a token's position is encoded."""
    score: Annotated[str, SCORES] | None = None
    """How queries and keys are compared; the scaled dot product, which alone has fast kernels, unless
    given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorConfig(Shape):
    start: str = ""
    """A folder to start from: a translator, to be fine-tuned. Its shape, its tokenizer and its languages are
    taken over. Without it, all is learned from nothing."""
    preset: Literal["tiny", "small", "base", "big", "recurrent"] = "small"
    """The shape to start from; every other key changes one thing about it."""
    encoder_layers: int | None = None
    """Layers of the encoder, where they are not `layers`."""
    decoder_layers: int | None = None
    """Layers of the decoder, where they are not `layers`."""
    cell: Cell | None = None
    """Of a recurrent model."""
    attention: Literal["none", "additive", "dot", "scaled"] | None = None
    """Of a recurrent model: how the decoder looks at the source."""
    tied: bool = True
    """The output matrix is the target embedding."""
    shared: bool = True
    """Source and target have one embedding matrix."""
    encoder: dict[str, Any] = field(default_factory=dict)
    """Anything else about the encoder, by the names of `EncoderConfig`."""
    decoder: dict[str, Any] = field(default_factory=dict)
    """Anything else about the decoder, by the names of `DecoderConfig`."""
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    """Fine-tuning: low-rank adapters (LoRA) learn in place of the weights."""

    def __post_init__(self) -> None:
        check_choices(self)
        _check_adapter(self)
        if self.start:
            fixed = [name for name in _PATHS if name not in _FREE]
            _check_start(self, [*fixed, "encoder_layers", "decoder_layers", "encoder", "decoder"])
            _check_start(self, ["tied", "shared"], usual=True)
            return
        _check_words(self, _PATHS)
        self.build(8)  # what does not fit together is reported before anything is read

    def build(self, vocabulary: int) -> Seq2SeqConfig:
        """From nothing."""
        plain = to_dict(SEQ2SEQ[self.preset](vocabulary))
        for side in ("encoder", "decoder"):
            _put_words(plain[side], self, _PATHS)
            _put(plain[side], "body.layers", getattr(self, f"{side}_layers"))
            plain[side] = _merged(plain[side], getattr(self, side))
        plain["decoder"]["tied"], plain["shared"] = self.tied, self.shared
        return from_dict(Seq2SeqConfig, plain)

    def changed(self, config: Seq2SeqConfig) -> Seq2SeqConfig:
        """The translator that is started from, with what may be set beside it."""
        plain = to_dict(config)
        for side in ("encoder", "decoder"):
            _check_recurrent(plain[side], self, _FREE)
            _put_words(plain[side], self, {name: _PATHS[name] for name in _FREE})
        return from_dict(Seq2SeqConfig, plain)

    def resolved(self) -> "TranslatorConfig":
        """The same with every word written out; of a start, its own folder says them."""
        if self.start:
            return self
        # of the preset: what only one side has stays in `encoder` and `decoder`
        plain = to_dict(SEQ2SEQ[self.preset](8))
        return replace(self, **_words_of(plain["encoder"], self, _PATHS))


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderShape(Shape):
    start: str = ""
    """A folder to start from: a model of regard's, or one of Hugging Face's (BERT, RoBERTa, DistilBERT,
    MiniLM). Its encoder, its shape and its tokenizer are taken over. Without it, all is learned from
    nothing."""
    preset: Literal["tiny", "mini", "small", "base", "recurrent"] = "small"
    """The shape to start from; every other key changes one thing about it."""
    longest: int | None = None
    """Most tokens of an input, special ones included, where positions are learned."""
    cell: Cell | None = None
    """Of a recurrent encoder."""
    frozen: int = 0
    """Fine-tuning: so many of the lowest layers stay as they are, the embedding with them; -1: all of them,
    and only the head learns."""
    encoder: dict[str, Any] = field(default_factory=dict)
    """Anything else about the encoder, by the names of `EncoderConfig`."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.frozen < -1:
            raise ValueError(f"frozen={self.frozen} must be a number of layers, or -1 for all of them")
        if self.start:
            _check_start(self, [*(name for name in _ENCODER_PATHS if name not in _FREE), "encoder"])
            return
        if self.frozen:
            raise ValueError(f"frozen={self.frozen}, but without start there is nothing worth keeping")
        _check_words(self, _ENCODER_PATHS)
        self.build(8)  # what does not fit together is reported before anything is read

    def build(self, vocabulary: int) -> EncoderConfig:
        """From nothing."""
        plain = to_dict(ENCODERS[self.preset](vocabulary))
        _put_words(plain, self, _ENCODER_PATHS)
        # Sines have size 1, and counts more: tokens that start at 0.02 would not be seen beside them.
        plain["embedding"]["scaled"] |= self.positions in ("sinusoidal", "index", "fraction")
        return from_dict(EncoderConfig, _merged(plain, self.encoder))

    def changed(self, config: EncoderConfig) -> EncoderConfig:
        """The encoder that is started from, with what may be set beside it."""
        plain = to_dict(config)
        _check_recurrent(plain, self, _FREE)
        _put_words(plain, self, {name: _ENCODER_PATHS[name] for name in _FREE})
        return from_dict(EncoderConfig, plain)

    def resolved(self) -> "EncoderShape":
        """The same with every word written out; of a start, its own folder says them."""
        if self.start:
            return self
        return replace(self, **_words_of(to_dict(ENCODERS[self.preset](8)), self, _ENCODER_PATHS))


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageShape(Shape):
    start: str = ""
    """What to start from: the folder of a language model of regard's or of Hugging Face's (GPT-2, Llama,
    SmolLM, Mistral, Qwen), or a GGUF file. Its shape and its tokenizer are taken over. Without it, all is
    learned from nothing."""
    preset: Literal["tiny", "small", "base", "recurrent"] = "small"
    """The size to start from; every other key changes one thing about it."""
    cell: Cell | None = None
    """Of a recurrent model."""
    make: Literal["gpt2", "modern"] = "gpt2"
    """GPT-2's LayerNorm, learned positions and GELU; or RMSNorm, rotary positions, SwiGLU, and pairs of heads
    that share keys and values."""
    kv_heads: int | None = None
    """Heads of keys and values, each shared by heads / kv_heads queries."""
    window: int | None = None
    """Sliding window: how many tokens before it a token sees besides itself; all, unless given."""
    global_every: int | None = None
    """With a window: every so many layers, one sees everything."""
    scaling: Scaling | None = None
    """Rotary positions: how they reach further than was trained."""
    factor: float | None = None
    """With a scaling: how many times further."""
    trained: int | None = None
    """With yarn: the length that was trained."""
    tied: bool | None = None
    """The output matrix is the embedding."""
    decoder: dict[str, Any] = field(default_factory=dict)
    """Anything else, by the names of `DecoderConfig`."""
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    """Fine-tuning: low-rank adapters (LoRA) learn in place of the weights."""

    def __post_init__(self) -> None:
        check_choices(self)
        _check_adapter(self)
        if self.start:
            fixed = [name for name in _LANGUAGE_PATHS if name not in _LANGUAGE_FREE]
            _check_start(self, [*fixed, "decoder"])
            return
        _check_words(self, _LANGUAGE_PATHS)
        if self.preset == "recurrent" and self.make != "gpt2":
            raise ValueError(
                f"make={self.make!r} is of a Transformer, but preset='recurrent' is none: leave it out"
            )
        self.build(8, 8)  # what does not fit together is reported before anything is read

    def build(self, vocabulary: int, context: int) -> DecoderConfig:
        """From nothing; learned positions reach as far as the `context`."""
        plain = to_dict(self._preset(vocabulary))
        if self.make == "modern" and self.kv_heads is None:
            heads = self.heads or plain["body"]["attention"]["heads"]
            plain["body"]["attention"]["kv_heads"] = heads // 2 if heads % 2 == 0 else heads
        plain["positions"]["longest"] = context
        _put_words(plain, self, _LANGUAGE_PATHS)
        return from_dict(DecoderConfig, _merged(plain, self.decoder))

    def changed(self, config: DecoderConfig) -> DecoderConfig:
        """The model that is started from, with what may be set beside it."""
        plain = to_dict(config)
        _check_recurrent(plain, self, _LANGUAGE_FREE)
        _put_words(plain, self, {name: _LANGUAGE_PATHS[name] for name in _LANGUAGE_FREE})
        return from_dict(DecoderConfig, plain)

    def resolved(self) -> "LanguageShape":
        """The same with every word written out; of a start, its own folder says them."""
        if self.start:
            return self
        plain = to_dict(self.build(8, 8))
        words = {
            name: _get(plain, paths[0])
            for name, paths in _LANGUAGE_PATHS.items()
            if name not in _NONE and _has(self.preset, name)
        }
        return replace(self, **words)

    def _preset(self, vocabulary: int) -> DecoderConfig:
        return (MODERN if self.make == "modern" else DECODERS)[self.preset](vocabulary)


_LANGUAGE_PATHS = {
    **{name: paths for name, paths in _PATHS.items() if name != "attention"},
    "kv_heads": ("body.attention.kv_heads",),
    "window": ("body.window",),
    "global_every": ("body.global_every",),
    "scaling": ("positions.scaling",),
    "factor": ("positions.factor",),
    "trained": ("positions.trained",),
    "tied": ("tied",),
}
_LANGUAGE_FREE = (
    *("dropout", "attention_dropout", "activation_dropout", "window", "global_every"),
    *("scaling", "factor", "trained"),
)
"""What can be set for a language model that is not new."""
_NONE = ("kv_heads", "window", "score")
"""What may be absent from a configuration."""

_ENCODER_PATHS = {
    **{name: paths for name, paths in _PATHS.items() if name != "attention"},
    "longest": ("positions.longest",),
}
_FREE = ("dropout", "attention_dropout", "activation_dropout")
"""What can be set for an encoder or a translator that is not new."""


def _check_adapter(shape: Any) -> None:
    if shape.adapter.rank and not shape.start:
        raise ValueError(
            f"adapter.rank={shape.adapter.rank}, but without start there is nothing to be adapted: name a "
            "folder to start from, or leave it out"
        )


def _check_words(shape: Any, words: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse what a preset of this kind does not have."""
    for name in words:
        if getattr(shape, name) is not None and not _has(shape.preset, name):
            kind = "a Transformer" if name not in _RECURRENT else "a recurrent model"
            raise ValueError(
                f"{name}={getattr(shape, name)!r} is for {kind}, but preset={shape.preset!r} is none: "
                "leave it out, or choose another preset"
            )


def _check_recurrent(plain: Mapping[str, Any], shape: Any, free: tuple[str, ...]) -> None:
    """Refuse what a recurrent start does not have."""
    for name in free:
        if plain["body"]["kind"] == "recurrent" and name != "dropout" and getattr(shape, name) is not None:
            raise ValueError(
                f"{name}={getattr(shape, name)!r} is for a Transformer, but start={shape.start!r} is "
                "recurrent: leave it out"
            )


def _has(preset: str, name: str) -> bool:
    return name in _SHARED or (name in _RECURRENT) == (preset == "recurrent")


def _put_words(plain: dict[str, Any], shape: Any, words: Mapping[str, tuple[str, ...]]) -> None:
    for name, paths in words.items():
        for path in paths:
            _put(plain, path, getattr(shape, name))


def _words_of(plain: Mapping[str, Any], shape: Any, words: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """What a preset says where the shape is silent."""
    return {
        name: _get(plain, paths[0])
        for name, paths in words.items()
        if getattr(shape, name) is None and _has(shape.preset, name)
    }


def _put(table: dict[str, Any], path: str, value: Any) -> None:
    if value is None:
        return
    *above, last = path.split(".")
    for key in above:
        table = table[key]
    table[last] = value


def _get(table: Mapping[str, Any], path: str) -> Any:
    value: Any = table
    for key in path.split("."):
        value = value.get(key)  # None is left out
    return value


def _merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(table)
    for key, value in over.items():
        inner = both.get(key)
        both[key] = (
            _merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
        )
    return both


def _check_start(shape: Any, fixed: list[str], usual: Any = None) -> None:
    """Beside a start, nothing that would change what it is."""
    for name in fixed:
        if getattr(shape, name) not in (usual, {}):
            raise ValueError(
                f"{name}={getattr(shape, name)!r} beside start={shape.start!r}: the shape is that of the "
                "model it starts from; leave one of the two out"
            )
