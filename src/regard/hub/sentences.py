"""Folders of sentence-transformers: a list of modules around a model.

    modules.json        Transformer, Pooling, then Dense (tanh) and Normalize where there are any
    1_Pooling           how tokens become one vector
    2_Dense             a dense layer, in a file of its own
    2_Normalize         nothing: vectors of length 1

A classifier that pools as no class of transformers does is such a folder too: its "vectors" are the scores of
the labels, whose names are in config.json.

    2_Dense             the inner layer (tanh or relu), where there is one
    3_Dense             the scores: a dense layer without an activation

A cross-encoder scores a pair of texts: a classifier with one score, of transformers or of such modules.
How a folder says that all this is used stands in sentence_facts.py.

Modules are known by name; none is imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard.hub.files import (
    HubError,
    inside,
    read_json,
    read_table,
    read_table_if_there,
    read_tensors,
    write_json,
    write_tensors,
)
from regard.hub.names import DENSE, TABLES
from regard.hub.sentence_facts import with_facts, write_facts
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig

Inner = Literal["none", "tanh", "relu"]
MODULES = "modules.json"
_SETTINGS = "sentence_bert_config.json"
_POOLS: dict[str, Literal["first", "mean", "max", "last"]] = TABLES["pooling"]["modes"]
_FLAGS: dict[str, str] = TABLES["pooling"]["flags"]
_OTHERWISE = ("processing_kwargs", "query_length", "document_length", "query_expansion")
"""Keys that would have texts read otherwise: cut elsewhere for queries, or with tokens put behind them."""
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
_ACTIVATIONS: dict[Inner, tuple[str, ...]] = {
    "tanh": ("torch.nn.modules.activation.Tanh", "torch.nn.Tanh"),
    "relu": ("torch.nn.modules.activation.ReLU", "torch.nn.ReLU"),
    "none": ("torch.nn.modules.linear.Identity", "torch.nn.Identity"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences:
    root: Path
    """Where the model is: the folder itself or, in older ones, a folder in it."""
    head: EmbedConfig | ClassifyConfig | None
    """None where nothing pools: a cross-encoder, whose head is the model's own."""
    dense: Mapping[str, Tensor]
    longest: int | None
    lower_case: bool
    width: int | None
    """What the pooling says that a token's vector has."""


def read_sentences(folder: Path) -> Sentences | None:
    """None, if it is no folder of sentence-transformers."""
    path = folder / MODULES
    if not path.exists():
        return None
    kinds, places = _read_modules(folder, path)
    root = places[0] or folder
    settings = read_table_if_there(root / _SETTINGS)
    for key in _OTHERWISE:
        if settings.get(key):
            raise HubError(
                f"{root / _SETTINGS}: {key}={settings[key]!r:.60} is not supported; take the key out if the "
                "model does without"
            )
    longest = settings.get("max_seq_length")
    if longest is not None and (type(longest) is not int or longest < 1):
        raise HubError(f"{root / _SETTINGS}: max_seq_length={longest!r} must be a whole number from 1")
    head: EmbedConfig | ClassifyConfig | None = None
    width: int | None = None
    dense: dict[str, Tensor] = {}
    if "Pooling" in kinds:
        pool, width = _read_pooling(places[1], folder)
        layers = [
            _read_dense(place, folder) for place, kind in zip(places, kinds, strict=True) if kind == "Dense"
        ]
        head, dense = _read_head(pool, layers, "Normalize" in kinds, root / "config.json", path)
        if isinstance(head, EmbedConfig):
            head = with_facts(head, folder, places[1])
    lower = settings.get("do_lower_case") is True
    return Sentences(root=root, head=head, dense=dense, longest=longest, lower_case=lower, width=width)


def _read_modules(folder: Path, path: Path) -> tuple[list[str], list[Path | None]]:
    """The kind and the place of each module."""
    listed = read_json(path)
    if not isinstance(listed, list):
        raise HubError(f"{path}: {type(listed).__name__} instead of a list of modules; copy the folder anew")
    kinds: list[str] = []
    places: list[Path | None] = []
    for module in listed:
        kind = module.get("type") if isinstance(module, dict) else module
        name = str(kind).rpartition(".")[2]
        if not str(kind).startswith("sentence_transformers.") or name not in _KINDS:
            raise HubError(
                f"{path}: module {kind!r:.80} is not known, only those of sentence_transformers named "
                f"{', '.join(_KINDS)}: nothing of a folder is run here"
            )
        kinds.append(name)
        places.append(inside(folder, module["path"], path) if module.get("path") else None)
    order = [_KINDS.index(kind) for kind in kinds]
    alone = all(kinds.count(kind) <= 1 for kind in _KINDS if kind != "Dense")
    if (
        kinds[:1] != ["Transformer"]
        or kinds[1:2] not in ([], ["Pooling"])
        or order != sorted(order)
        or not alone
    ):
        raise HubError(
            f"{path}: modules {', '.join(kinds)}, but only Transformer, Pooling, Dense, Normalize in this "
            "order are known, the last two where wanted"
        )
    return kinds, places


def _read_pooling(place: Path | None, folder: Path) -> tuple[PoolConfig, int | None]:
    if place is None:
        raise HubError(f"{folder / MODULES}: the Pooling module has no path; copy the folder anew")
    path = place / "config.json"
    facts = read_table(path)
    modes = facts.get("pooling_mode", [mode for flag, mode in _FLAGS.items() if facts.get(flag)] or "mean")
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1 or modes[0] not in _POOLS:
        raise HubError(f"{path}: pooling {modes!r} is not supported, only one of {', '.join(_POOLS)}")
    width = facts.get("embedding_dimension", facts.get("word_embedding_dimension"))
    return PoolConfig(kind=_POOLS[modes[0]]), width


Layer = tuple[Inner, int, dict[str, Tensor]]
"""A Dense module: its activation, its width, its tensors."""


def _read_head(
    pool: PoolConfig, layers: list[Layer], normalised: bool, config: Path, path: Path
) -> tuple[EmbedConfig | ClassifyConfig, dict[str, Tensor]]:
    """One that scores labels has a problem to solve."""
    activations = [activation for activation, _, _ in layers]
    if activations[-1:] == ["none"] and "problem_type" in read_table(config):
        if normalised or len(layers) > 2 or (len(layers) == 2 and activations[0] == "none"):
            raise HubError(
                f"{path}: modules that no classifier here has behind its pool; copy the folder anew"
            )
        inner = activations[0] if len(layers) == 2 else "none"
        names = ("inner", "output")[-len(layers) :]
        named = zip(names, layers, strict=True)
        dense = {f"{DENSE}{name}/{key}": each for name, layer in named for key, each in layer[2].items()}
        return ClassifyConfig(labels=layers[-1][1], pool=pool, inner=inner), dense
    if len(layers) > 1 or activations not in ([], ["tanh"]):
        raise HubError(
            f"{path}: Dense modules with {', '.join(activations)} as activations, but only one with tanh is "
            "known; or, of a classifier with a problem_type in config.json, one without an activation"
        )
    project, tensors = (layers[0][1], layers[0][2]) if layers else (0, {})
    dense = {DENSE + name: tensor for name, tensor in tensors.items()}
    return EmbedConfig(pool=pool, project=project, normalised=normalised), dense


def _read_dense(place: Path | None, folder: Path) -> Layer:
    if place is None:
        raise HubError(f"{folder / MODULES}: the Dense module has no path; copy the folder anew")
    path = place / "config.json"
    facts = read_table(path)
    only: dict[str, tuple[Any, ...]] = {
        "activation_function": tuple(each for names in _ACTIVATIONS.values() for each in names),
        "module_input_name": ("sentence_embedding", None),
        "module_output_name": ("sentence_embedding", "scores", None),
        "use_residual": (False, None),
    }
    for key, allowed in only.items():
        value = facts.get(key, allowed[0])
        if value not in allowed:
            raise HubError(f"{path}: {key}={value!r:.60} is not supported, only {allowed[0]!r}")
    named = facts.get("activation_function", _ACTIVATIONS["tanh"][0])
    activation = next(kind for kind, names in _ACTIVATIONS.items() if named in names)
    width = facts.get("out_features")
    if type(width) is not int or width < 1:
        raise HubError(f"{path}: out_features={width!r} must be a whole number from 1")
    tensors = read_tensors(place)
    if facts.get("bias") is False and "linear.weight" in tensors:
        tensors["linear.bias"] = tensors["linear.weight"].new_zeros(width)
    return activation, width, tensors


def write_sentences(
    folder: Path,
    head: EmbedConfig | ClassifyConfig,
    dense: Mapping[str, Tensor],
    *,
    d_model: int,
    longest: int,
    ranks: bool = False,
) -> None:
    """`ranks`: a cross-encoder, whose last layer gives scores."""
    pools: dict[str, str] = {ours: theirs for theirs, ours in _POOLS.items()}
    flags = {flag: mode == pools[head.pool.kind] for flag, mode in _FLAGS.items()}
    modules: list[tuple[str, str]] = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write(folder / "1_Pooling", {"word_embedding_dimension": d_model, **flags, "include_prompt": True})
    layers = _dense_layers(head)
    for activation, name in layers:
        place = f"{len(modules)}_Dense"
        modules.append(("Dense", place))
        own = {key.removeprefix(name): each for key, each in dense.items() if key.startswith(name)}
        width = len(own["linear.bias"])
        facts: dict[str, Any] = {"in_features": d_model, "out_features": width, "bias": True}
        if ranks and (activation, name) == layers[-1]:
            facts["module_output_name"] = "scores"
        _write(folder / place, {**facts, "activation_function": _ACTIVATIONS[activation][0]})
        write_tensors(folder / place / "model.safetensors", own)
    if isinstance(head, EmbedConfig) and head.normalised:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
        (folder / modules[-1][1]).mkdir()
    listed = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(modules)
    ]
    write_json(folder / MODULES, listed)
    write_json(folder / _SETTINGS, {"max_seq_length": longest, "do_lower_case": False})
    write_facts(folder, head if isinstance(head, EmbedConfig) else None)


def _dense_layers(head: EmbedConfig | ClassifyConfig) -> list[tuple[Inner, str]]:
    """The activation of each, and what the names of its tensors begin with."""
    if isinstance(head, EmbedConfig):
        return [("tanh", "")] if head.project else []
    inner: list[tuple[Inner, str]] = [] if head.inner == "none" else [(head.inner, "inner/")]
    return [*inner, ("none", "output/")]


def _write(folder: Path, facts: Mapping[str, Any]) -> None:
    folder.mkdir()
    write_json(folder / "config.json", facts)
