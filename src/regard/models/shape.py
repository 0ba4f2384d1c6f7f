"""A translator's shape in a few words: a preset, and whatever is set beside it.

    preset = "small", layers = 6, dropout = 0.3

Each word stands for a field deep in `Seq2SeqConfig`, on both sides. What has no word can be set where it is:
`encoder.body.window = 64`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from regard.config import check_choices, from_dict, to_dict
from regard.models.presets import SEQ2SEQ
from regard.models.seq2seq import Seq2SeqConfig

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
    "cell": ("body.cell",),
    "attention": ("body.attention",),
}
"""Where in a side's configuration each word stands."""

_RECURRENT = ("cell", "attention")
_SHARED = ("layers", "d_model", "dropout", "positions")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorConfig:
    preset: Literal["tiny", "small", "base", "big", "recurrent"] = "small"
    """The shape to start from; every other key changes one thing about it."""
    layers: int | None = None
    """Layers of each side."""
    encoder_layers: int | None = None
    """Layers of the encoder, where they are not `layers`."""
    decoder_layers: int | None = None
    """Layers of the decoder, where they are not `layers`."""
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
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] | None = None
    """Of the feed-forward network."""
    activation_dropout: float | None = None
    """Share of the feed-forward network's inner elements dropped."""
    norm: Literal["post", "pre"] | None = None
    """After the residual sum, or before the layer."""
    norm_kind: Literal["layer", "rms"] | None = None
    """LayerNorm or RMSNorm."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"] | None = None
    """How a token's place is told."""
    cell: Literal["lstm", "gru"] | None = None
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

    def __post_init__(self) -> None:
        check_choices(self)
        recurrent = self.preset == "recurrent"
        for name in _PATHS:
            foreign = name not in _SHARED and (name in _RECURRENT) != recurrent
            if getattr(self, name) is not None and foreign:
                kind = "a Transformer" if name not in _RECURRENT else "a recurrent model"
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for {kind}, but preset={self.preset!r} is none: "
                    "leave it out, or choose another preset"
                )
        self.build(8)  # what does not fit together is told before anything is read

    def build(self, vocabulary: int) -> Seq2SeqConfig:
        plain = to_dict(SEQ2SEQ[self.preset](vocabulary))
        for side in ("encoder", "decoder"):
            for name, paths in _PATHS.items():
                for path in paths:
                    _put(plain[side], path, getattr(self, name))
            _put(plain[side], "body.layers", getattr(self, f"{side}_layers"))
            plain[side] = _merged(plain[side], getattr(self, side))
        plain["decoder"]["tied"], plain["shared"] = self.tied, self.shared
        return from_dict(Seq2SeqConfig, plain)

    def resolved(self) -> "TranslatorConfig":
        """The same with every word written out."""
        # of the preset: what only one side has stays in `encoder` and `decoder`
        plain = to_dict(SEQ2SEQ[self.preset](8))
        given = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        recurrent = self.preset == "recurrent"
        found = {
            name: _get(plain["encoder"], paths[0])
            for name, paths in _PATHS.items()
            if given[name] is None and (name in _SHARED or (name in _RECURRENT) == recurrent)
        }
        return replace(self, **found)


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
        value = value[key]
    return value


def _merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(table)
    for key, value in over.items():
        inner = both.get(key)
        both[key] = (
            _merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
        )
    return both
