"""Functions of ours as operators of torch: opaque to a compiler, which calls them as they are.

    @operator("draw_kept")
    def _draw_op(like: Tensor, seed: Tensor, dropped: int) -> Tensor: ...

`torch.library.custom_op` does the same, but the first call of such an operator imports torch's compiler:
seconds, also in a run that compiles nothing.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


class Operator:
    """Called as the function that it was made of, which changes none of its arguments."""

    def __init__(self, name: str, function: Callable[..., Any], devices: str) -> None:
        self._name = f"regard::{name}"
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(self._name, schema, tags=[torch.Tag.pt2_compliant_tag])
        torch.library.impl(self._name, devices, function)
        self.overload = getattr(torch.ops.regard, name).default

    def __call__(self, *given: Any) -> Any:
        return self.overload(*given)

    def register_fake(self, fake: Function) -> Function:
        """What comes out, in shape and type alone."""
        torch.library.register_fake(self._name, fake)
        return fake

    def register_autograd(self, backward: Callable[..., Any], setup_context: Callable[..., Any]) -> None:
        torch.library.register_autograd(self._name, backward, setup_context=setup_context)


def operator(name: str, devices: str = "default") -> Callable[[Callable[..., Any]], Operator]:
    """For all devices, or for one."""
    return lambda function: Operator(name, function, devices)
