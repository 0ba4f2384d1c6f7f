"""Watching a model while it works: what it attends to, and what its layers make of the tokens.

    with regard.trace(model, layers=[0, 3], what=("weights", "stream")) as seen:
        model(ids, layout)
    seen.weights("encoder", layer=3, head=1, sequence=0)        # [queries, keys]

The pass runs as it always does: hooks keep references to what the attentions were asked, for the layers and
heads that are looked at, and the rest is computed when somebody asks (`regard.look.passes`). Outputs are the
same to the bit, and everything is taken off at the end of the `with`, whatever happens in it.

A pass begins with an encoder, or with a decoder that has read before: a translation is one pass for the
sources and the first tokens, and one for each further step. Batches that threads read side by side are
passes of their own. Steps that were captured as CUDA graphs are not seen.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from itertools import pairwise
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from regard.layout import Layout
from regard.look.kept import Keeper, wide
from regard.look.parts import SIDES, Attention, Looked, Parts, Place, Side, chosen, head_count
from regard.look.passes import OF_ATTENTION, WHATS, Pass, Run, Views, What
from regard.models.encoder import Encoder
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.pooling import ScoredAttention
from regard.nn.stacks import Stack


@contextmanager
def trace(
    looked: Looked,
    *,
    what: What | Sequence[What] = ("weights",),
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    places: Sequence[Place] | None = None,
) -> Iterator["Trace"]:
    """Watch all passes inside the `with`, of a model or of what holds one. Nothing is kept but what is asked
    for: of all layers and heads, unless some are named. Negative layers count from the end.

    >>> embedder = regard.load("runs/minilm", regard.Embedder)
    >>> with regard.trace(embedder, what=("weights", "stream"), layers=[5]) as seen:
    ...     vectors = embedder.embed(["The bank by the river."])
    >>> seen.weights(layer=5, head=1).shape, seen.stream(layer=5).shape
    (torch.Size([8, 8]), torch.Size([8, 384]))
    """
    seen = Trace(Parts.of(looked), (what,) if isinstance(what, str) else what, layers, heads, places)
    with ExitStack() as until:
        seen.listen(until)
        yield seen


class Trace(Views):
    """What was seen: asked itself, it tells of the last pass.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> with regard.trace(translator) as seen:
    ...     text = translator.translate("Where is the station?").text
    >>> seen.passes[0].places, len(seen.passes) > 1  # the last passes are steps of the decoder alone
    (('encoder', 'decoder', 'cross'), True)
    >>> seen.passes[0].weights("encoder", layer=0).sum(dim=-1).round(decimals=5).unique()
    tensor([1.])
    """

    passes: list[Pass]
    """In the order in which they began."""

    def __init__(
        self,
        parts: Parts,
        what: Sequence[What],
        layers: Sequence[int] | None,
        heads: Sequence[int] | None,
        places: Sequence[Place] | None,
    ) -> None:
        self.passes = []
        self._parts = parts
        self._what = _checked_what(what, parts)
        self._attentions = _checked_places(parts, places)
        self._layers, self._heads = layers, heads
        self._check_numbers()
        self._here = threading.local()
        self._open = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "Trace":
        """A model that is copied inside the `with` talks to the same one."""
        return self

    @property
    def shown(self) -> Pass:
        if not self.passes:
            raise ValueError("nothing was seen yet: run the model inside the with statement")
        return self.passes[-1]

    def _check_numbers(self) -> None:
        depths = [*map(len, self._attentions.values()), *map(self._parts.depth, self._parts.sides)]
        counts = [head_count(each) for layers in self._attentions.values() for each in layers]
        both = ("layers", self._layers, max(depths)), ("heads", self._heads, max(counts, default=1))
        for name, wanted, most in both:
            for number in wanted or ():
                if not (-most if name == "layers" else 0) <= number < most:
                    raise ValueError(f"{name}={list(wanted or ())}, but there are {most}: count from 0")

    def listen(self, until: ExitStack) -> None:
        """Until that is closed."""
        self._open = True
        until.callback(setattr, self, "_open", False)
        for side, part in self._parts.sides.items():
            _wrap(until, part, "forward", self._enter)
            if isinstance(part, Encoder):
                _wrap(until, part, "layers", self._enter)
            else:
                _wrap(until, part, "prefill", self._enter)
                _wrap(until, part, "step", self._enter_step)
            _hook(until, part.embedding, partial(self._begin, side))
            if self._what & {"stream", "norms", "logits"}:
                writers = self._parts.writers(side)
                for layer in chosen(self._layers, len(writers)):
                    _hook(until, writers[layer], partial(self._write, side, layer))
        if not self._what & OF_ATTENTION:
            return
        for place, attentions in self._attentions.items():
            for layer in chosen(self._layers, len(attentions)):
                count = head_count(attentions[layer])
                heads = tuple(each for each in range(count) if self._heads is None or each in self._heads)
                if heads:
                    self._attach(until, place, layer, attentions[layer], heads)

    def _attach(
        self, until: ExitStack, place: Place, layer: int, attention: Attention, heads: tuple[int, ...]
    ) -> None:
        if not isinstance(attention, ScoredAttention) and attention.score is not None:
            heads = tuple(range(attention.heads))  # such a score takes them all at once
        keeper = Keeper(heads, "values" in self._what)

        def asked(own: Attention, *args: Any) -> None:
            run = self._run(SIDES[place])
            if run is None:
                return
            rows = run.layout.host_lengths
            match own:
                case SelfAttention():
                    found = keeper.of_self(own, *args)
                case CrossAttention():
                    found = keeper.of_cross(own, rows, *args)
                case ScoredAttention():
                    found = keeper.of_scored(own, rows if place == "cross" else None, *args)
            run.attended[place, layer] = found

        def asked_cache(own: SelfAttention, *args: Any) -> None:
            if (run := self._run(SIDES[place])) is not None:
                run.attended[place, layer] = keeper.of_cache(own, *args)

        if isinstance(attention, ScoredAttention):
            _hook(until, attention, lambda own, args: asked(own, *args), before=True)
            return
        _wrap(until, attention, "attend", asked)
        if isinstance(attention, SelfAttention):
            _wrap(until, attention, "attend_cache", asked_cache)

    def _enter(self, part: nn.Module, *args: Any) -> None:
        """A pass over whole sequences."""
        self._here.layout = args[1]

    def _enter_step(self, part: nn.Module, *args: Any) -> None:
        self._here.layout = Layout.singles(len(args[0]), args[0].device)

    def _begin(self, side: Side, embedding: nn.Module, args: tuple[Any, ...], x: Tensor) -> None:
        layout = vars(self._here).pop("layout", None)
        if self._closed:
            return
        ids, positions = args[0], args[1]
        if layout is None or layout.tokens != len(ids):
            layout = _guessed(positions)
        current: Pass | None = getattr(self._here, "current", None)
        if current is None or side in current.runs or side == "encoder":
            depths = {each: self._parts.depth(each) for each in self._parts.sides}
            attending = {place: len(layers) for place, layers in self._attentions.items()}
            current = Pass(self._what, attending, depths, *_lens(self._parts))
            self._here.current = current
            self.passes.append(current)
        run = Run(ids.detach(), layout)
        current.runs[side] = run
        if "inputs" in self._what:
            run.inputs = x.detach()
        if "norms" in self._what:
            run.norms[-1] = wide(x.detach()).norm(dim=-1)

    def _write(self, side: Side, layer: int, part: nn.Module, args: tuple[Any, ...], x: Tensor) -> None:
        run = self._run(side)
        if run is None:
            return
        if self._what & {"stream", "logits"}:
            run.stream[layer] = x.detach()
        if "norms" in self._what:
            run.norms[layer] = wide(x.detach()).norm(dim=-1)

    def _run(self, side: Side) -> Run | None:
        """The one that is under way in this thread, if it is listened to."""
        current: Pass | None = getattr(self._here, "current", None)
        return None if current is None or self._closed else current.runs.get(side)

    @property
    def _closed(self) -> bool:
        """A copy of the model, made inside the `with`, may still talk when that is over. And what is captured
        cannot be kept: it is overwritten by every replay."""
        return not self._open or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _hook(until: ExitStack, part: nn.Module, listener: Callable[..., None], *, before: bool = False) -> None:
    handle = part.register_forward_pre_hook(listener) if before else part.register_forward_hook(listener)
    until.callback(handle.remove)


def _wrap(until: ExitStack, part: nn.Module, name: str, listener: Callable[..., None]) -> None:
    """Tell the listener of all calls of a method of this one instance, before they are made. A bound method,
    so that a copy of the part calls its own."""
    own = vars(part).get(name)
    inner = getattr(type(part), name) if own is None else own.__func__

    def called(self: nn.Module, *args: Any, **named: Any) -> Any:
        every = signature(inner).bind(self, *args, **named).args if named else (self, *args)
        listener(*every)
        return inner(self, *args, **named)

    setattr(part, name, MethodType(called, part))

    def undo() -> None:
        if own is None:
            delattr(part, name)
        else:
            setattr(part, name, own)

    until.callback(undo)


def _checked_what(what: Sequence[What], parts: Parts) -> frozenset[What]:
    for each in what:
        if each not in WHATS:
            raise ValueError(f"what={each!r} cannot be looked at: choose from {', '.join(WHATS)}")
    if "logits" in what and _lens(parts)[0] is None:
        raise ValueError("this model scores no vocabulary, so its layers have no logits: leave them out")
    if not what:
        raise ValueError(f"what is empty: choose from {', '.join(WHATS)}")
    return frozenset(what)


def _checked_places(parts: Parts, places: Sequence[Place] | None) -> dict[Place, list[Attention]]:
    if places is None:
        return parts.attentions
    for place in places:
        if place not in parts.attentions:
            listed = ", ".join(parts.attentions) or "none"
            raise ValueError(f"this model does not attend in {place!r}; it does in: {listed}")
    return {place: parts.attentions[place] for place in places}


def _lens(parts: Parts) -> tuple[Callable[[Tensor], Tensor] | None, Side | None]:
    """What scores the vocabulary from the stream after a layer, and whose stream that is."""
    side: Side = "encoder" if parts.decoder is None else "decoder"
    head = parts.masked if parts.decoder is None else parts.decoder.head
    if head is None:
        return None, None
    body = parts.sides[side].body
    norm = body.final_norm if isinstance(body, Stack) else None
    return (lambda x: head(x if norm is None else norm(x))), side


def _guessed(positions: Tensor) -> Layout:
    """Where tokens came by another way than a model's own: sequences begin at 0."""
    starts = (positions == 0).nonzero()[:, 0].tolist()
    if starts[:1] != [0]:
        return Layout.singles(len(positions), positions.device)
    return Layout.of([b - a for a, b in pairwise([*starts, len(positions)])]).to(positions.device)
