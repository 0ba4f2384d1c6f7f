"""N identical layers: the body of every Transformer here.

Vaswani et al. 2017, 3.1. Encoder: full mask. Decoder: causal mask, and cross-attention where there is an
encoder to look at.
"""

from collections.abc import Callable
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.layout import Layout
from regard.nn import Stream
from regard.nn.layers import FeedForward, Residual, RMSNorm, Sublayer, TransformerLayer, build_norm
from regard.nn.masks import Mask
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.pooling import pool_mean
from regard.nn.positions import rotary_positions, score_bias
from regard.nn.state import CrossCache, KeyValueCache, Memory, Sources, TransformerState
from regard.settings.network import (
    PositionsConfig,
    TransformerConfig,
)


def is_static(body: object) -> bool:
    """Whether a pass through a body of this configuration is the same work for all batches of one size, so
    that it can be compiled and captured. Recurrent ones, and attention by the equation, go by lengths; batch
    norm must not see what fills a batch up."""
    if not isinstance(body, TransformerConfig) or body.norm.kind == "batch":
        return False
    return body.attention.kernel != "equation" and not body.attention.scored


class Stack(nn.Module):
    def __init__(
        self,
        d_model: int,
        config: TransformerConfig,
        positions: PositionsConfig,
        *,
        causal: bool,
        d_memory: int | None = None,
    ) -> None:
        """With a `d_memory`, each layer also attends to a memory of that width."""
        super().__init__()
        local = Mask(before=config.window, after=0 if causal else config.window)
        everything = Mask(after=0 if causal else None)
        every = config.global_every
        first = config.global_first or every
        self.masks = tuple(
            everything if every and (number - first) % every == 0 else local
            for number in range(1, config.layers + 1)
        )
        """What each layer shows its tokens."""
        d_head = config.attention.width(d_model)

        one = score_bias(positions, config.attention.heads, causal=causal) if positions.shared else None

        def bias(layer: int) -> nn.Module | None:
            if one is not None and config.kept_heads is None:  # what is pruned, each layer has for itself
                return one
            return score_bias(positions, config.attention.heads, causal=causal, kept=config.heads_of(layer))

        def residual() -> Residual:
            return Residual(build_norm(config.norm, d_model), config.norm.place, config.dropout)

        def qk_norm(width: int) -> nn.Module:
            return RMSNorm(width, eps=config.norm.eps)

        self.layers = nn.ModuleList(
            TransformerLayer(
                attention=SelfAttention(
                    d_model,
                    config.attention.only(config.heads_of(layer), d_model),
                    rotary=rotary_positions(
                        positions, d_head, local=config.window is not None and self.masks[layer] is local
                    ),
                    norm=qk_norm if config.attention.qk_norm else None,
                    bias=bias(layer),
                ),
                cross_attention=None
                if d_memory is None
                else CrossAttention(
                    d_model,
                    config.attention.only(config.heads_of(layer, cross=True), d_model),
                    d_memory=d_memory,
                ),
                feed_forward=FeedForward(d_model, config.feed_forward),
                residual=residual,
                first=None
                if layer or config.first_norm
                else Residual(nn.Identity(), config.norm.place, config.dropout),
            )
            for layer in range(config.layers)
        )
        final = config.norm.place == "pre" if config.final_norm is None else config.final_norm
        self.final_norm = build_norm(config.norm, d_model) if final else None

    @property
    def each(self) -> list[TransformerLayer]:
        return [cast(TransformerLayer, layer) for layer in self.layers]

    def forward(
        self, x: Stream, layout: Layout, memory: Memory | None = None, mask: Mask | None = None
    ) -> Stream:
        """A `mask` takes the place of the layers' own."""
        for layer, own in zip(self.each, self.masks, strict=True):
            x = layer(x, layout, mask or own, memory)
        return x if self.final_norm is None else self.final_norm(x)

    def through(
        self, x: Stream, ways: Callable[[int, TransformerLayer, Mask], tuple[Sublayer, Sublayer | None]]
    ) -> Stream:
        """All layers and the final norm, where each attends in a way of the caller's: `ways` gives the
        self-attention and the cross-attention of a layer, by its number."""
        for index, (layer, mask) in enumerate(zip(self.each, self.masks, strict=True)):
            x = layer.through(x, *ways(index, layer, mask))
        return x if self.final_norm is None else self.final_norm(x)

    def states(self, x: Stream, layout: Layout) -> list[Stream]:
        """What each layer makes of it; the last one through the final norm, if there is one."""
        found = []
        for layer, mask in zip(self.each, self.masks, strict=True):
            x = layer(x, layout, mask)
            found.append(x)
        return found if self.final_norm is None else [*found[:-1], self.final_norm(x)]

    def prefill(self, x: Stream, layout: Layout, state: TransformerState) -> Stream:
        """Whole prefixes, sequence r for row r; their keys and values are kept, so that steps can follow."""
        state.cache.reserve(layout.longest)
        for index, layer in enumerate(self.each):
            cross = state.crosses[index] if state.crosses else None
            x = layer.prefill(x, layout, self.masks[index], state.cache.layer(index), cross)
        state.cache.advance(layout.host_offsets.diff().long())
        return x if self.final_norm is None else self.final_norm(x)

    def summary(self, states: Stream, layout: Layout) -> Float[Tensor, "sequences d_model"]:
        return pool_mean(states, layout)

    def start(
        self, *, rows: int, capacity: int, like: Float[Tensor, "..."], memory: Memory | None = None
    ) -> TransformerState:
        """A state with nothing decoded yet. With a memory there is one row for each source sentence, and
        its keys and values are computed here, once."""
        attention = self.each[0].attention
        cache = KeyValueCache(
            layers=len(self.layers),
            rows=rows,
            capacity=capacity,
            kv_heads=max(layer.attention.kv_heads for layer in self.each),
            d_head=attention.d_head,
            d_value=attention.d_value,
            like=like,
        )
        if memory is None:
            return TransformerState(cache, None, ())
        sources = Sources(memory.layout)
        crosses = []
        for layer in self.each:
            if layer.cross_attention is None:
                raise ValueError("a memory was given, but these layers have no cross-attention")
            keys, values = layer.cross_attention.keys_values(memory.states)
            crosses.append(CrossCache(keys, values, sources))
        return TransformerState(cache, sources, tuple(crosses))

    def step(
        self, x: Float[Tensor, "rows d_model"], state: TransformerState
    ) -> Float[Tensor, "rows d_model"]:
        """One new token in each row."""
        state.cache.reserve(1)
        for index, layer in enumerate(self.each):
            cross = state.crosses[index] if state.crosses else None
            x = layer.step(x, self.masks[index], state.cache.layer(index), cross)
        state.cache.advance()
        return x if self.final_norm is None else self.final_norm(x)
