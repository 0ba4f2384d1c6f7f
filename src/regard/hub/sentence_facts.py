"""config_sentence_transformers.json: what a folder says of its use, beside its modules.

    prompts, default_prompt_name    what stands before texts
    truncate_dim                    so many of a vector's first numbers are taken
    similarity_fn_name              what its vectors are compared by
    activation_fn                   what stands behind a cross-encoder's score; once in config.json

A key that is none of these may change what comes out, and is refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from regard.hub.files import HubError, read_table, read_table_if_there, write_json
from regard.hub.keys import check_keys
from regard.settings.models import EmbedConfig, PromptConfig, Similarity

Activation = Literal["none", "sigmoid"]
FILE = "config_sentence_transformers.json"
_KEYS = ("prompts", "default_prompt_name", "truncate_dim", "similarity_fn_name")
_METADATA = "__version__ model_type requirements"
_BEHIND: dict[Activation, tuple[str, ...]] = {
    "sigmoid": ("torch.nn.modules.activation.Sigmoid", "torch.nn.Sigmoid"),
    "none": ("torch.nn.modules.linear.Identity", "torch.nn.Identity"),
}


def with_facts(head: EmbedConfig, folder: Path, pooling: Path | None) -> EmbedConfig:
    """An embedder as its folder says that it is used."""
    path = folder / FILE
    facts = read_table_if_there(path)
    check_keys(facts, _KEYS, path, only={}, metadata=_METADATA)
    similarity: Any = facts.get("similarity_fn_name") or "cosine"
    dimensions = facts.get("truncate_dim")
    if similarity not in get_args(Similarity):
        known = ", ".join(get_args(Similarity))
        raise HubError(f"{path}: similarity_fn_name={similarity!r:.60} is not known, only {known}")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise HubError(f"{path}: truncate_dim={dimensions!r:.60} must be a whole number from 1, or null")
    head = replace(head, similarity=similarity, dimensions=dimensions or 0)
    return _with_prompts(head, facts, path, pooling)


def _with_prompts(
    head: EmbedConfig, facts: Mapping[str, Any], path: Path, pooling: Path | None
) -> EmbedConfig:
    """What stands before queries and passages. Empty ones are none."""
    prompts, default = facts.get("prompts") or {}, facts.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise HubError(f"{path}: prompts={prompts!r:.60} must be a table of texts by their names")
    if default is not None and default not in prompts:
        raise HubError(f"{path}: default_prompt_name={default!r:.60} is none of {', '.join(prompts)}")
    own = tuple(PromptConfig(name=name, text=text) for name, text in prompts.items() if name and text)
    include = read_table(pooling / "config.json").get("include_prompt", True) if own and pooling else True
    if include is not True:
        raise HubError(
            f"{pooling}/config.json: include_prompt={include!r:.60} is not supported, only true: a prompt "
            "counts as part of the text"
        )
    named = any(prompt.name == default for prompt in own)
    return replace(head, prompts=own, default_prompt=str(default) if named else "")


def write_facts(folder: Path, head: EmbedConfig | None) -> None:
    """None: a classifier, whose scores are nothing of this."""
    head = head or EmbedConfig()
    facts: dict[str, Any] = {
        "prompts": {prompt.name: prompt.text for prompt in head.prompts},
        "default_prompt_name": head.default_prompt or None,
        "similarity_fn_name": head.similarity,
    }
    write_json(folder / FILE, {**facts, "truncate_dim": head.dimensions} if head.dimensions else facts)


def read_activation(folder: Path, table: Mapping[str, Any], labels: int) -> Activation | None:
    """Of a cross-encoder, behind its one score; None for any other classifier. One that says neither what
    stands there nor what problem it solves is a cross-encoder too, as sentence-transformers has it: sigmoid.
    `table` is config.json."""
    facts = read_table_if_there(folder / FILE)
    older = table.get("sentence_transformers")
    older = older.get("activation_fn") if isinstance(older, dict) else None
    named = facts.get("activation_fn") or older or table.get("sbert_ce_default_activation_function")
    marked = named is not None or facts.get("model_type") == "CrossEncoder"
    if labels != 1 or not (marked or table.get("problem_type") is None):
        return None
    found = next((kind for kind, names in _BEHIND.items() if named in (*names, None)), None)
    prompts, default = facts.get("prompts"), facts.get("default_prompt_name")
    if default and (not isinstance(prompts, dict) or prompts.get(default)):
        raise HubError(
            f"{folder / FILE}: default_prompt_name={default!r:.60} stands before all pairs there, and a "
            "reranker has no prompts here; take the key out if it does without"
        )
    if found is None:
        known = ", ".join(names[0] for names in _BEHIND.values())
        raise HubError(f"{folder}: activation_fn={named!r:.60} behind the score is not known, only {known}")
    return found


def activation_facts(activation: Activation) -> dict[str, Any]:
    """What config.json says of it, to versions from 4 on, and to older ones."""
    named = _BEHIND[activation][0]
    return {
        "sentence_transformers": {"activation_fn": named},
        "sbert_ce_default_activation_function": named,
    }


def write_activation(folder: Path, activation: Activation) -> None:
    facts = {"model_type": "CrossEncoder", "activation_fn": _BEHIND[activation][0]}
    write_json(folder / FILE, {**facts, "prompts": {}, "default_prompt_name": None})
