"""Layouts of different content are one shape to a compiler."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from regard.layout import Layout


def tokens_of(layout: Layout) -> Tensor:
    return torch.arange(1, layout.tokens * 3 + 1, dtype=torch.float64).view(layout.tokens, 3)


def pooled(x: Tensor, layout: Layout) -> Tensor:
    """Something of everything that a compiled model may ask of a layout."""
    grid = layout.to_grid(x)
    sums = grid.sum(1) / layout.lengths.clamp(min=1)[:, None]
    return layout.from_grid(grid + sums[:, None]) + layout.positions[:, None] + sums[layout.owners]


@pytest.mark.parametrize("touched", [False, True], ids=["fresh", "after host_lengths"])
def test_changing_lengths_compile_nothing_again_while_counts_and_bound_stay(touched: bool) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled: Callable[..., Any] = torch.compile(pooled, backend=counter, fullgraph=True, dynamic=False)
    for lengths in ([3, 2, 4], [1, 8, 0], [0, 0, 9], [3, 3, 3]):
        layout = Layout.of(lengths, longest=9)
        if touched and layout.host_lengths[0] % 2:  # a cached value must not count as another shape
            layout.split(tokens_of(layout))
        assert_close(compiled(tokens_of(layout), layout), pooled(tokens_of(layout), layout))
    assert counter.frame_count == 1


def test_compiled_gradients_are_the_gradients() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(pooled, backend="aot_eager", fullgraph=True, dynamic=False)
    for lengths in ([3, 0, 2], [1, 4, 0]):
        layout = Layout.of(lengths, longest=5)
        one, other = (tokens_of(layout).requires_grad_() for _ in range(2))
        compiled(one, layout).square().sum().backward()
        pooled(other, layout).square().sum().backward()
        assert_close(one.grad, other.grad)
