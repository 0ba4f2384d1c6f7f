"""Tensors to weights and back, by the names of a family."""

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.hub.family import EncoderFamily, TranslatorFamily
from regard.hub.files import HubError, HubWarning, as_float32
from regard.hub.names import DENSE, Family
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import ClassifyConfig, DecoderConfig, MaskedConfig, Seq2SeqConfig
from regard.settings.network import TransformerConfig

Config = HeadedConfig | DecoderConfig | Seq2SeqConfig


def canonical(tensors: Mapping[str, Tensor], family: Family, where: Path, *, tied: bool) -> dict[str, Tensor]:
    """The tensors under the names of the tables: without prefix, each once. Of second names that are not
    `tied`, the second is the one in use."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain, pattern = _plain(name, family)
        if pattern in family.buffers:
            continue
        if plain in found and not torch.equal(found[plain], tensor):
            raise HubError(
                f"{where}: {name!r:.60} is there twice, with different values; save the model anew"
            )
        found[plain] = tensor
    for second, name in family.aliases.items():
        if second in found:
            used = found.pop(second)
            if tied and not torch.equal(found.get(name, used), used):
                raise HubError(f"{where}: {second} and {name} should be one, but differ; save the model anew")
            found[name] = used
    return found


def _plain(name: str, family: Family) -> tuple[str, str]:
    """The name without prefix, and the same with # for the number of a layer."""
    plain = name.removeprefix(family.prefix)
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        plain = plain.removesuffix(old) + new if plain.endswith(old) else plain
    return plain, re.sub(r"\.\d+\.", ".#.", plain, count=1)


def check_names(names: Iterable[str], family: Family, where: Path) -> None:
    """That some model of the family has such tensors."""
    known = family.patterns()
    for name in names:
        if _plain(name, family)[1] not in known:
            raise HubError(
                f"{where}: a tensor {name!r:.60}, which no {family.stem} has; save the model anew without "
                "it, in a place where you trust it"
            )


def check_layers(
    tensors: Iterable[str], family: Family, layers: int, where: Path, *, start: str = "", key: str = "layers"
) -> None:
    """Before anything of that many layers is built. `start` is before the number of a layer, where a family
    has several kinds, and `key` our word for their count."""
    start = start or family.layers
    held = {name.removeprefix(start).split(".")[0] for name in tensors if name.startswith(start)}
    if held != {str(index) for index in range(min(layers, len(held) + 1))}:
        raise HubError(
            f"{where}: tensors of {len(held)} layers, but {family.keys[key]}={layers} in config.json; "
            "copy the folder anew"
        )


def shapes(config: Config) -> dict[str, torch.Size]:
    """The parameters of a model, without building one."""
    with torch.device("meta"):
        return {name: parameter.shape for name, parameter in _model(config).named_parameters()}


def parts(name: str, rows: int, count: int, config: Config) -> list[int]:
    """The rows of each of `count` matrices that lie one under the other in one of ours: equally many, unless
    keys and values have fewer heads than queries."""
    body = config.body if isinstance(config, DecoderConfig) else None
    if count == 3 and isinstance(body, TransformerConfig) and ".attention.project." in name:
        width = body.attention.width(config.d_model)  # type: ignore[union-attr]
        shared = (body.attention.kv_heads or body.attention.heads) * width
        return [rows - 2 * shared, shared, shared]
    return [rows // max(count, 1)] * count


def _model(config: Config) -> nn.Module:
    match config:
        case DecoderConfig():
            return Decoder(config)
        case Seq2SeqConfig():
            return Seq2Seq(config)
        case _:
            return Headed(config)


def head_names(config: Config, family: Family) -> str:
    """The table that has the names of its head; of a translator, of its embeddings."""
    if isinstance(config, Seq2SeqConfig):
        return family.kind(config) if isinstance(family, TranslatorFamily) else ""
    if isinstance(config, DecoderConfig):
        return "language"
    head = config.head
    if isinstance(head, ClassifyConfig) and isinstance(family, EncoderFamily) and not family.classifies(head):
        return "scored"
    return str(head.kind)


def read_weights(
    tensors: dict[str, Tensor], config: Config, family: Family, where: Path
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """All weights of a model of this shape, and the names of those that the folder does not have, which are
    at their first values (of a language model or a translator, none may be missing). `tensors` is emptied of
    what is used."""
    kind = head_names(config, family)
    wanted = shapes(config)
    missing = {
        name: absent
        for name in wanted
        if (absent := [each for each in family.foreign(name, kind).names if each not in tensors])
    }
    fresh = _fresh(missing, wanted) if isinstance(config, HeadedConfig) else ()
    for name, absent in missing.items():
        if name not in fresh:
            raise HubError(
                f"{where}: no tensor {absent[0]}, which config.json calls for; copy the folder anew"
            )
    weights: dict[str, Tensor] = {}
    for name, shape in wanted.items():
        if name in fresh:
            continue
        names, transposed = family.foreign(name, kind)
        for each, rows in zip(names, parts(name, shape[0], len(names), config), strict=True):
            part = torch.Size((rows, *shape[1:]))
            part = part[::-1] if transposed else part
            if tensors[each].shape != part:
                raise HubError(
                    f"{where}: {each} is {list(tensors[each].shape)}, but config.json makes it {list(part)}; "
                    "copy the folder anew"
                )
        held = [as_float32(tensors.pop(each), each, where) for each in names]
        held = [each.t().contiguous() for each in held] if transposed else held
        weights[name] = held[0] if len(held) == 1 else torch.cat(held)
    if fresh and isinstance(config, HeadedConfig):
        first = dict(Headed(config).named_parameters())
        weights |= {name: first[name].detach() for name in fresh}
        warnings.warn(
            f"{where}: no tensors for {', '.join(fresh)}: they start untrained", HubWarning, stacklevel=3
        )
    return {name: weights[name] for name in wanted}, fresh


def _fresh(missing: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """The parts that may be missing as a whole: the pooler, and the head."""
    lacking, found = list(missing), []
    for part in ("encoder.pooler.", "head."):
        whole = [name for name in wanted if name.startswith(part)]
        if whole and all(name in lacking for name in whole):
            found += whole
    return tuple(found)


def warn_left_out(tensors: Iterable[str], where: Path) -> None:
    names = sorted(tensors)
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        listed = ", ".join(f"{name!r:.60}" for name in names[:8])
        warnings.warn(
            f"{where}: tensors that no part here takes were left out: {listed}{more}",
            HubWarning,
            stacklevel=3,
        )


def write_names(
    weights: Mapping[str, Tensor], config: Config, family: Family
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors under their names: of the model, and of the Dense modules behind it."""
    wanted, kind = shapes(config), head_names(config, family)
    if wanted.keys() != weights.keys():
        odd = sorted(wanted.keys() ^ weights.keys())
        raise HubError(f"the weights are not those of the configuration: {odd[:3]} on one side only")
    model: dict[str, Tensor] = {}
    dense: dict[str, Tensor] = {}
    prefix = "" if kind in ("embed", "scored") else family.prefix
    for name, tensor in weights.items():
        if tensor.shape != wanted[name]:
            raise HubError(
                f"the weight {name} is {list(tensor.shape)}, but the configuration makes it "
                f"{list(wanted[name])}"
            )
        names, transposed = family.foreign(name, kind)
        cut = tensor.split(parts(name, len(tensor), len(names), config)) if names else ()
        for each, part in zip(names, cut, strict=True):
            if each.startswith(DENSE):
                dense[each.removeprefix(DENSE)] = part
            else:
                headed = name.startswith(("head.", "decoder.head."))
                model[("" if headed else prefix) + each] = part.t() if transposed else part
    if isinstance(config, HeadedConfig) and isinstance(config.head, MaskedConfig) and not config.head.tied:
        model |= {second: model[name] for second, name in family.aliases.items()}
    return model, dense
