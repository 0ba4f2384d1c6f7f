"""Folders of sentence-transformers: a list of modules around a model.

    modules.json        Transformer, Pooling, then Dense (tanh) and Normalize where there are any
    1_Pooling           how tokens become one vector
    2_Dense             a dense layer, in a file of its own
    2_Normalize         nothing: vectors of length 1

Modules are known by name; none is imported.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard.hub.families import DENSE, TABLES
from regard.hub.files import (
    HubError,
    HubWarning,
    inside,
    read_json,
    read_table,
    read_table_if_there,
    read_tensors,
    write_json,
    write_tensors,
)
from regard.settings.models import EmbedConfig, PoolConfig

MODULES = "modules.json"
_SETTINGS = "sentence_bert_config.json"
_POOLS: dict[str, Literal["first", "mean", "max", "last"]] = TABLES["pooling"]["modes"]
_FLAGS: dict[str, str] = TABLES["pooling"]["flags"]
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
_TANH = ("torch.nn.modules.activation.Tanh", "torch.nn.Tanh")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences:
    root: Path
    """Where the model is: the folder itself or, in older ones, a folder in it."""
    head: EmbedConfig | None
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
    places = _read_modules(folder, path)
    root = folder if places["Transformer"] is None else places["Transformer"]
    settings = read_table_if_there(root / _SETTINGS)
    longest = settings.get("max_seq_length")
    if longest is not None and (type(longest) is not int or longest < 1):
        raise HubError(f"{root / _SETTINGS}: max_seq_length={longest!r} must be a whole number from 1")
    head: EmbedConfig | None = None
    width: int | None = None
    dense: dict[str, Tensor] = {}
    if "Pooling" in places:
        pool, width = _read_pooling(places["Pooling"], folder)
        project, dense = _read_dense(places["Dense"], folder) if "Dense" in places else (0, {})
        head = EmbedConfig(pool=pool, project=project, normalised="Normalize" in places)
    _warn_of_prompts(folder)
    lower = settings.get("do_lower_case") is True
    return Sentences(root=root, head=head, dense=dense, longest=longest, lower_case=lower, width=width)


def _read_modules(folder: Path, path: Path) -> dict[str, Path | None]:
    """The place of each module, by kind."""
    listed = read_json(path)
    if not isinstance(listed, list):
        raise HubError(f"{path}: {type(listed).__name__} instead of a list of modules; copy the folder anew")
    places: dict[str, Path | None] = {}
    for module in listed:
        kind = module.get("type") if isinstance(module, dict) else module
        name = str(kind).rpartition(".")[2]
        if not str(kind).startswith("sentence_transformers.") or name not in _KINDS:
            raise HubError(
                f"{path}: module {kind!r:.80} is not known, only those of sentence_transformers named "
                f"{', '.join(_KINDS)}: nothing of a folder is run here"
            )
        places[name] = inside(folder, module["path"], path) if module.get("path") else None
    kinds = [kind for kind in _KINDS if kind in places]
    whole = kinds == list(places) and kinds[:1] == ["Transformer"] and len(kinds) == len(listed)
    if not whole or (len(kinds) > 1 and kinds[1] != "Pooling"):
        raise HubError(
            f"{path}: modules {', '.join(places)}, but only Transformer, Pooling, Dense, Normalize in this "
            "order are known, the last two where wanted, each once"
        )
    return places


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


def _read_dense(place: Path | None, folder: Path) -> tuple[int, dict[str, Tensor]]:
    if place is None:
        raise HubError(f"{folder / MODULES}: the Dense module has no path; copy the folder anew")
    path = place / "config.json"
    facts = read_table(path)
    only: dict[str, tuple[Any, ...]] = {
        "activation_function": _TANH,
        "module_input_name": ("sentence_embedding", None),
        "module_output_name": ("sentence_embedding", None),
        "use_residual": (False, None),
    }
    for key, allowed in only.items():
        value = facts.get(key, allowed[0])
        if value not in allowed:
            raise HubError(f"{path}: {key}={value!r:.60} is not supported, only {allowed[0]!r}")
    width = facts.get("out_features")
    if type(width) is not int or width < 1:
        raise HubError(f"{path}: out_features={width!r} must be a whole number from 1")
    tensors = read_tensors(place)
    if facts.get("bias") is False and "linear.weight" in tensors:
        tensors["linear.bias"] = tensors["linear.weight"].new_zeros(width)
    return width, {DENSE + name: tensor for name, tensor in tensors.items()}


def _warn_of_prompts(folder: Path) -> None:
    facts = read_table_if_there(folder / "config_sentence_transformers.json")
    prompts, default = facts.get("prompts"), facts.get("default_prompt_name")
    used = {key: text for key, text in prompts.items() if text} if isinstance(prompts, dict) else {}
    if used:
        always = f", {default!r} before every text" if default in used else ""
        warnings.warn(
            f"{folder}: its prompts were left out{always}: put them before the texts yourself: {used!r:.200}",
            HubWarning,
            stacklevel=4,
        )


def write_sentences(
    folder: Path, head: EmbedConfig, dense: Mapping[str, Tensor], *, d_model: int, longest: int
) -> None:
    pools: dict[str, str] = {ours: theirs for theirs, ours in _POOLS.items()}
    flags = {flag: mode == pools[head.pool.kind] for flag, mode in _FLAGS.items()}
    modules: list[tuple[str, str]] = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write(folder / "1_Pooling", {"word_embedding_dimension": d_model, **flags, "include_prompt": True})
    if head.project:
        modules.append(("Dense", "2_Dense"))
        facts = {"in_features": d_model, "out_features": head.project, "bias": True}
        _write(folder / "2_Dense", {**facts, "activation_function": _TANH[0]})
        write_tensors(folder / "2_Dense" / "model.safetensors", dense)
    if head.normalised:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
        (folder / modules[-1][1]).mkdir()
    listed = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(modules)
    ]
    write_json(folder / MODULES, listed)
    write_json(folder / _SETTINGS, {"max_seq_length": longest, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None})


def _write(folder: Path, facts: Mapping[str, Any]) -> None:
    folder.mkdir()
    write_json(folder / "config.json", facts)
