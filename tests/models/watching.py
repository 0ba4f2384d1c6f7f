"""Hooks on every part of a model, which keep what they are given."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Seen = list[tuple[str, Tensor, Tensor]]
"""The name of a part, a tensor that it took or gave, and a copy made in that moment."""


@contextmanager
def watched(model: nn.Module) -> Iterator[Seen]:
    """What all parts take and give, while this lasts."""
    seen: Seen = []

    def keep(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            seen.append((name, value, value.detach().clone()))
        elif isinstance(value, tuple | list):
            for each in value:
                keep(name, each)

    def listen(name: str, part: nn.Module) -> None:
        before = part.register_forward_pre_hook(lambda _, args: keep(f"into {name}", args))
        after = part.register_forward_hook(lambda _part, _args, found: keep(f"out of {name}", found))
        until.callback(before.remove)
        until.callback(after.remove)

    with ExitStack() as until:
        for name, part in model.named_modules():
            listen(name or "the model", part)
        yield seen


def changed(seen: Seen) -> list[str]:
    """Where a tensor is no more what it was."""
    return [name for name, now, then in seen if not torch.equal(now, then)]
