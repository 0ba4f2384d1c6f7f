"""Prompts of a text-to-text model, as its config.json has them, both ways.

task_specific_params.NAME.prefix    what is set before a text for a task: "summarize: "
prefix                              what is set before every text
"""

from collections.abc import Mapping
from typing import Any

from regard.hub.facts import Facts
from regard.hub.files import HubError
from regard.hub.names import Family

DEFAULT = "default"
"""What the one before every text is called, if no task has it."""


def read_prompts(facts: Facts[Family]) -> dict[str, Any]:
    tasks, always = facts.table.get("task_specific_params") or {}, facts.table.get("prefix") or ""
    if not isinstance(tasks, dict) or not all(isinstance(each, dict | None) for each in tasks.values()):
        raise HubError(f"{facts.path}: task_specific_params={tasks!r:.60} must be a table of tables")
    found = {name: (own or {}).get("prefix") for name, own in tasks.items()}
    for name, text in {**found, "prefix": always}.items():
        if text is not None and not isinstance(text, str):
            raise HubError(f"{facts.path}: the prefix {text!r:.60} of {name!r:.40} must be a text")
    prompts = {name: text for name, text in found.items() if name and text}
    default = next((name for name, text in prompts.items() if text == always), DEFAULT) if always else ""
    if default and default not in prompts:
        prompts[default] = always
    return {"prompts": prompts, "default_prompt": default}


def prompt_facts(prompts: Mapping[str, str], default: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if prompts:
        facts["task_specific_params"] = {name: {"prefix": text} for name, text in prompts.items()}
    if default:
        facts["prefix"] = prompts[default]
    return facts
