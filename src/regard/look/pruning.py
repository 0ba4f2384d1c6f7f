"""Smaller models, without some of their heads.

    W_O [head_1 ; 0 ; head_3] = W_O' [head_1 ; head_3]

Their configuration says for each layer which heads are left (`TransformerConfig.kept_heads`); widths of heads
stay. A pruned model is a model like any other: it can be saved, loaded, run and trained.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.look.heads import check_heads
from regard.look.parts import Head, Model, Parts, Place, head_count, model_of
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed
from regard.models.seq2seq import Seq2Seq
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.positions import RelativeBias
from regard.settings.models import DecoderConfig, EncoderConfig
from regard.settings.network import TransformerConfig
from regard.tasks.base.predictor import Predictor

OneSide = TypeVar("OneSide", EncoderConfig, DecoderConfig)
Pruned = TypeVar("Pruned", Encoder, Decoder, Seq2Seq, Headed)
Holder = TypeVar("Holder", bound=Predictor)


def prune(model: Pruned, heads: Iterable[Head]) -> Pruned:
    """A smaller model without these heads. It gives what the model gives with them scaled to 0, and can be
    saved, loaded and trained. Every layer keeps a head at least, and heads that share keys and values go
    together. Heads of a model that was pruned before are counted as they are now.

    >>> from regard.settings.presets import ENCODERS
    >>> from regard.models import Encoder
    >>> model = Encoder(ENCODERS["tiny"](100))
    >>> smaller = regard.look.prune(model, [("encoder", 0, 1)])
    >>> model.body.each[0].attention.heads - smaller.body.each[0].attention.heads
    1
    """
    dropped = {*heads}
    check_heads(model, dropped)
    attentions = Parts.of(model).attentions
    if isinstance(model, Decoder) and "cross" in attentions:
        raise ValueError("this decoder looks at an encoder: prune the whole translator")
    kept = {
        place: [
            [head for head in range(head_count(each)) if (place, layer, head) not in dropped]
            for layer, each in enumerate(layers)
        ]
        for place, layers in attentions.items()
    }
    smaller = type(model)(_smaller(model, kept))
    parameter = next(model.parameters())
    smaller = smaller.to(device=parameter.device, dtype=parameter.dtype)
    weights = dict(model.state_dict())
    names = {id(part): name for name, part in model.named_modules()}
    for place, layers in attentions.items():
        for layer, each in enumerate(layers):
            if isinstance(each, SelfAttention | CrossAttention):
                cut = _cut(each, kept[place][layer])
                weights |= {f"{names[id(each)]}.{name}": value for name, value in cut.items()}
    smaller.load_state_dict(weights)
    return smaller.train(model.training)


def prune_predictor(predictor: Holder, heads: Iterable[Head]) -> Holder:
    """The same predictor with a pruned model; `regard.save` makes a folder of it.

    >>> classifier = regard.load("runs/sentiment", regard.Classifier)
    >>> smaller = regard.look.prune_predictor(classifier, [("encoder", 0, 1)])
    >>> regard.save(smaller, "runs/pruned")
    >>> regard.load("runs/pruned", regard.Classifier).labels
    ('negative', 'positive')
    """
    model: Any = prune(cast(Any, model_of(predictor)), heads)
    return predictor.with_model(model)


def _smaller(model: Model, kept: Mapping[Place, list[list[int]]]) -> Any:
    """The configuration of the pruned model."""
    match model:
        case Encoder():
            return _smaller_side(model.config, kept.get("encoder"))
        case Decoder():
            return _smaller_side(model.config, kept.get("decoder"), kept.get("cross"))
        case Headed():
            return replace(model.config, encoder=_smaller_side(model.config.encoder, kept.get("encoder")))
        case Seq2Seq():
            return replace(
                model.config,
                encoder=_smaller_side(model.config.encoder, kept.get("encoder")),
                decoder=_smaller_side(model.config.decoder, kept.get("decoder"), kept.get("cross")),
            )


def _smaller_side(
    config: OneSide, kept: list[list[int]] | None, across: list[list[int]] | None = None
) -> OneSide:
    body = config.body
    if not isinstance(body, TransformerConfig):
        return config
    for layer in range(body.layers):
        for cross, own in ((False, kept), (True, across)):
            if own is not None and not own[layer]:
                place = "cross-attention" if cross else "self-attention"
                raise ValueError(f"layer {layer} would lose all heads of its {place}: keep one at least")

    left, crossing = _numbers(body, kept, cross=False), _numbers(body, across, cross=True)
    smaller = replace(body, kept_heads=left, kept_cross_heads=crossing)
    for layer in range(body.layers):  # shared keys and values are reported here, before anything is built
        smaller.attention.only(smaller.heads_of(layer), config.d_model)
        smaller.attention.only(smaller.heads_of(layer, cross=True), config.d_model)
    return replace(config, body=smaller)


def _numbers(
    body: TransformerConfig, kept: list[list[int]] | None, *, cross: bool
) -> tuple[tuple[int, ...], ...] | None:
    """For each layer, which heads are left, as they were first counted."""
    before = [body.heads_of(layer, cross=cross) for layer in range(body.layers)]
    if kept is None or kept == [[*range(len(own))] for own in before]:
        return body.kept_cross_heads if cross else body.kept_heads
    return tuple(tuple(own[i] for i in left) for own, left in zip(before, kept, strict=True))


def _cut(attention: SelfAttention | CrossAttention, kept: list[int]) -> dict[str, Tensor]:
    """The weights of these heads alone, by their names."""
    share = attention.heads // attention.kv_heads
    shared = sorted({head // share for head in kept})
    queries = _rows(kept, attention.d_head)
    keys = _rows(shared, attention.d_head)
    values = _rows(shared, attention.d_value, start=attention.d_keys)
    memory = torch.cat([keys, values])
    if isinstance(attention, SelfAttention):
        rows = {"project": torch.cat([queries, attention.d_queries + memory])}
    else:
        rows = {"project_queries": queries, "project_memory": memory}
    found = {}
    for name, own in rows.items():
        for kind, value in getattr(attention, name).state_dict().items():
            found[f"{name}.{kind}"] = value[own.to(value.device)]
    weight = attention.output.weight.detach()
    found["output.weight"] = weight[:, _rows(kept, attention.d_value).to(weight.device)]
    if isinstance(attention, SelfAttention) and isinstance(attention.bias, RelativeBias):
        found["bias.table.weight"] = attention.bias.table.weight.detach()[:, kept]
    elif isinstance(attention, SelfAttention) and attention.bias is not None:
        found |= _first_axis(attention.bias, "bias", attention.heads, kept)
    if attention.score is not None:
        found |= _first_axis(attention.score, "score", attention.heads, kept)
    return found


def _first_axis(part: nn.Module, name: str, heads: int, kept: list[int]) -> dict[str, Tensor]:
    """What a score, or a plugin's bias, has for each head lies along the first axis."""
    own = part.state_dict().items()
    return {f"{name}.{kind}": value[kept] for kind, value in own if value.shape[:1] == (heads,)}


def _rows(heads: list[int], width: int, start: int = 0) -> Tensor:
    """The places of these heads, each so wide, from `start` on."""
    return (start + torch.tensor(heads)[:, None] * width + torch.arange(width)).flatten()
