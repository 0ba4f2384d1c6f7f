"""How a text is decoded where the prompt asks for something else than the model's own way."""

from dataclasses import replace
from typing import Any

from regard.config import ConfigError
from regard.decode.config import DecodeConfig

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


def changed(own: DecodeConfig, given: dict[str, Any], *, greedy: bool = False) -> DecodeConfig:
    """`given` are settings by name. A beam asks for a beam search, and one of 1 for greedy search; more
    hypotheses than it holds widen it. Settings of sampling are refused where nothing is sampled."""
    given = dict(given)
    if greedy and {"beam", "method"} & given.keys():
        raise ConfigError("--greedy and --beam or --method are two ways to search: give one")
    if greedy:
        given["method"] = "greedy"
    elif "method" not in given and "beam" in given:
        given["method"] = "greedy" if given["beam"] == 1 and given.get("n_best", 1) == 1 else "beam"
    method = given.get("method", own.method)
    if method == "beam" and given.get("n_best", 1) > given.get("beam", own.beam) > 0:
        given["beam"] = given["n_best"]
    idle = [name for name in _SAMPLING if name in given]
    if idle and method != "sample":
        option = f"--{idle[0].replace('_', '-')}"
        raise ConfigError(
            f"{option} is for sampling, and a {method} search draws nothing: add --method sample"
        )
    if own.method == "sample" and method != "sample":  # how it samples says nothing about a search
        own = replace(own, **{name: getattr(DecodeConfig(), name) for name in _SAMPLING})
    return replace(own, **given)
