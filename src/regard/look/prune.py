"""Smaller models, without some of their heads.

    W_O [head_1 ; 0 ; head_3] = W_O' [head_1 ; head_3]

Their configuration says for each layer which heads are left (`TransformerConfig.kept_heads`); widths of heads
stay. A pruned model is a model like any other: it can be saved, loaded, run and trained.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.config import to_dict
from regard.hub import Checkpoint, DecoderCheckpoint
from regard.look.heads import check_heads
from regard.look.parts import Head, Model, Parts, Place, Reading, model_of
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.headed import Headed
from regard.models.seq2seq import Seq2Seq
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.positions import RelativeBias
from regard.nn.stacks import TransformerConfig
from regard.tasks.encoders.classifier import Classifier
from regard.tasks.encoders.embedder import Embedder
from regard.tasks.encoders.filler import Filler
from regard.tasks.encoders.reading import Reader
from regard.tasks.encoders.start import save_checkpoint
from regard.tasks.encoders.tagger import Tagger
from regard.tasks.folder import FORMAT, whole, write_json, write_weights
from regard.tasks.language.generator import Generator
from regard.tasks.language.start import save_language
from regard.tasks.translator import Translator

OneSide = TypeVar("OneSide", EncoderConfig, DecoderConfig)
Pruned = TypeVar("Pruned", Encoder, Decoder, Seq2Seq, Headed)
Task = TypeVar("Task", Translator, Generator, Classifier, Tagger, Filler, Embedder)


def prune(model: Pruned, heads: Iterable[Head]) -> Pruned:
    """A smaller model without these heads. It gives what the model gives with them scaled to 0, and can be
    saved, loaded and trained. Every layer keeps a head at least, and heads that share keys and values go
    together. Heads of a model that was pruned before are counted as they are now."""
    dropped = {*heads}
    check_heads(model, dropped)
    attentions = Parts.of(model).attentions
    if isinstance(model, Decoder) and "cross" in attentions:
        raise ValueError("this decoder looks at an encoder: prune the whole translator")
    kept = {
        place: [
            [head for head in range(_heads(each)) if (place, layer, head) not in dropped]
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


def prune_task(task: Task, heads: Iterable[Head]) -> Task:
    """The same task with a pruned model."""
    model: Any = prune(cast(Any, model_of(task)), heads)
    smaller: Any
    match task:
        case Translator():
            smaller = Translator(
                model,
                task.tokenizer,
                longest=task.longest,
                languages=task.languages,
                decoding=task.decoding,
                precision=task.precision,
            )
        case Generator():
            smaller = Generator(
                model, task.tokenizer, longest=task.longest, decoding=task.decoding, precision=task.precision
            )
            smaller.begins = task.begins
        case Classifier():
            smaller = Classifier(_reader(task, model), task.labels, task.problem)
        case Tagger():
            smaller = Tagger(_reader(task, model), task.labels, decode=task.decode)
        case _:
            smaller = type(task)(_reader(task, model))
    return smaller


def _reader(task: Reading, model: Headed) -> Reader:
    old = task.reader
    return Reader(model, old.tokenizer, longest=old.longest, precision=old.precision)


def save_task(task: Translator | Generator | Reading, folder: Path | str) -> None:
    """As a model folder, which `regard.load` opens."""
    folder = Path(folder)
    if isinstance(task, Generator):
        if task.tokenizer is None or task.longest is None:
            raise ValueError("a model folder needs a tokenizer and the longest text: give the generator both")
        checkpoint = DecoderCheckpoint(
            config=task.model.config,
            weights=whole(task.model),
            tokenizer=task.tokenizer,
            longest=task.longest,
        )
        save_language(checkpoint, folder)
        return
    if not isinstance(task, Translator):
        reader = task.reader
        save_checkpoint(
            Checkpoint(
                config=reader.model.config,
                weights=whole(reader.model),
                tokenizer=reader.tokenizer,
                longest=reader.longest,
                labels=getattr(task, "labels", ()),
                problem=getattr(task, "problem", "single"),
                decode=getattr(task, "decode", "greedy"),
            ),
            folder,
        )
        return
    folder.mkdir(parents=True, exist_ok=True)
    task.tokenizer.save(folder / "tokenizer.json")
    write_weights(folder, whole(task.model))
    about = {
        "model": to_dict(task.model.config),
        "decode": to_dict(task.decoding),
        "longest": task.longest,
        "languages": list(task.languages),
    }
    write_json(folder / "config.json", {"format": FORMAT, "task": "translate", **about})


def _heads(attention: nn.Module) -> int:
    return attention.heads if isinstance(attention, SelfAttention | CrossAttention) else 0


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

    smaller = replace(
        body,
        kept_heads=_numbers(body, kept, cross=False),
        kept_cross_heads=_numbers(body, across, cross=True),
    )
    for layer in range(body.layers):  # shared keys and values are told here, before anything is built
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
    return found


def _rows(heads: list[int], width: int, start: int = 0) -> Tensor:
    """The places of these heads, each so wide, from `start` on."""
    return (start + torch.tensor(heads)[:, None] * width + torch.arange(width)).flatten()
