"""The same model, faster, in inference: in place, packed or rounded weights on a CPU, batches side by side.

A model that has hooks works itself: a hook may keep what it is given, or change things on the way. Otherwise
a copy works, which writes over what it needs no more (regard.nn.in_place), and on a CPU has

    float32    its products from weights in the order they are read in   (regard.nn.packed)
    int8       its products in 8 bits                                     (regard.nn.quantized)
    int4       a language model in 4 bits, all layers in one call of C    (regard.decode.causal)

It is made when it is first needed, and anew when the weights have changed since (but by way of `.data`, which
leaves no trace). The copy of a model that is being trained, so that its weights have gradients, has the
model's own products: the trainer changes weights without their knowing.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Generic, Literal, TypeVar, get_args

import torch
from torch import nn
from torch.nn.modules import module as every_module

from regard.nn.in_place import in_place
from regard.nn.packed import pack
from regard.nn.quantized import quantize

_MAKING = threading.Lock()
"""One copy is made at a time: two threads must not make the same one twice."""
Precision = Literal["float32", "bfloat16", "int8", "int4"]
Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch")
Result = TypeVar("Result")


def check_precision(precision: Precision, device: torch.device, *, grouped: bool = False) -> None:
    """`grouped`: the task can do with 4 bits."""
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is none of {', '.join(get_args(Precision))}")
    if precision in ("int8", "int4") and device.type != "cpu":
        raise ValueError(f"precision={precision!r} is for the CPU: choose bfloat16 here, or device='cpu'")
    if precision == "int4" and not grouped:
        raise ValueError("precision='int4' is for language models: choose int8 here")


def settle_precision(wanted: Precision | None, device: str) -> Precision:
    """Unless something is wanted, bfloat16 on a GPU."""
    return wanted or ("bfloat16" if device.startswith("cuda") else "float32")


class Faster(Generic[Model]):
    def __init__(self, model: Model, precision: Precision) -> None:
        self._model, self._precision = model, precision
        self._made: Model | None = None
        self._of: tuple[bool, tuple[tuple[int, int], ...]] = (False, ())

    @property
    def hooked(self) -> bool:
        """Whether the model has forward hooks, of its own or those of all modules."""
        if every_module._global_forward_hooks or every_module._global_forward_pre_hooks:
            return True
        return any(part._forward_hooks or part._forward_pre_hooks for part in self._model.modules())

    def current(self) -> Model:
        """What computes what the model does, as it is now. It must be in eval mode."""
        if self.hooked:
            return self._model
        every = [*self._model.parameters()]
        packs = self._packs and all(each.grad is None for each in every)
        of = packs, tuple((each.data_ptr(), each._version) for each in every)
        with _MAKING:
            if self._made is None or of != self._of:
                make = quantize if self._precision == "int8" else pack
                self._made, self._of = in_place(make(self._model) if packs else self._model), of
            return self._made

    @property
    def _packs(self) -> bool:
        weight = next(self._model.parameters(), None)
        if weight is None or weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
            return False
        if not any(isinstance(part, nn.Linear) for part in self._model.modules()):
            return False  # made so already
        return self._precision == "int8" or (self._precision == "float32" and weight.dtype == torch.float32)


def side_by_side(
    batches: Iterable[Batch], work: Callable[[Batch], Result], device: torch.device
) -> Iterator[tuple[Batch, Result]]:
    """Each batch with its results. On the CPU, a thread for each batch is faster than all threads on each
    batch in turn: they never wait for one another. (A thread has its own modes: `work` must set what it
    needs.)"""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from ((batch, work(batch)) for batch in batches)
        return
    every = list(batches)
    workers = min(threads, len(every)) or 1
    if workers == 1:
        yield from ((batch, work(batch)) for batch in every)
        return
    with thread_count(threads // workers), ThreadPoolExecutor(workers) as pool:
        yield from zip(every, pool.map(work, every), strict=True)


def shared_out(
    batches: Iterable[Batch],
    work: Callable[[Iterator[Batch]], Iterator[tuple[Batch, Result]]],
    device: torch.device,
) -> Iterator[tuple[Batch, Result]]:
    """The same for work that takes one batch after the other when it has room for it: on the CPU, a thread
    each takes from the same pile. Results come as they are done."""
    pile = deque(batches)
    workers = min(torch.get_num_threads(), len(pile)) if device.type == "cpu" else 1
    if workers <= 1:
        yield from work(iter(pile))
        return

    def taken() -> Iterator[Batch]:
        while True:
            try:
                yield pile.popleft()
            except IndexError:
                return

    def run() -> None:
        try:
            for done in work(taken()):
                results.put(done)
        except BaseException:
            pile.clear()  # nobody goes on
            raise
        finally:
            results.put(None)

    results: SimpleQueue[tuple[Batch, Result] | None] = SimpleQueue()
    with thread_count(torch.get_num_threads() // workers), ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(run) for _ in range(workers)]
        try:
            for _ in running:
                yield from iter(results.get, None)
            for each in running:
                each.result()
        finally:
            pile.clear()


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """So many for each operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
