"""Prompts: words that stand before a source and say what is to be done, as T5 is told it: "summarize: ".

    [<2de>] ids of the prompt, ids of the text <eos>

A prompt is cut apart from the text: what the text becomes in tokens does not hang on it. Imports no torch.
"""

from collections.abc import Mapping
from typing import Any


def prompt_text(prompts: Mapping[str, str], default: str, name: str | None) -> str:
    """What stands before a text with the prompt of this name; of None, with the default, and of "",
    nothing."""
    name = default if name is None else name
    if name and name not in prompts:
        known = f"it has {', '.join(prompts)}" if prompts else "it has none"
        raise ValueError(f"prompt={name!r} is no prompt of this model: {known}")
    return prompts[name] if name else ""


def with_prompt(prompts: Mapping[str, str], default: str, text: str | None) -> tuple[Mapping[str, str], str]:
    """The prompts of a model that is trained with this text before its sources, and the name of its default:
    a new one is called as it reads. None: as they were."""
    if text is None or not text.strip():
        return prompts, default if text is None else ""
    known = next((name for name, own in prompts.items() if own == text), None)
    name = known or text.strip().rstrip(":").rstrip() or text.strip()
    return {**prompts, name: text}, name


def read_prompts(config: Mapping[str, Any]) -> dict[str, Any]:
    """As a folder's config.json has them."""
    prompts, default = config.get("prompts", {}), config.get("default_prompt", "")
    plain = isinstance(prompts, dict) and all(isinstance(each, str) for each in prompts.values())
    if not plain or not isinstance(default, str):
        raise ValueError(
            f"prompts={prompts!r:.60} with default_prompt={default!r:.60} is nothing that is written"
        )
    prompt_text(prompts, default, None)
    return {"prompts": prompts, "default_prompt": default}


def prompt_facts(prompts: Mapping[str, str], default: str) -> dict[str, Any]:
    """And the way back; nothing where there are none."""
    return {"prompts": dict(prompts), "default_prompt": default} if prompts else {}
