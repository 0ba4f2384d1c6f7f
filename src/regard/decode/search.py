"""`decode`: from a state that has seen nothing to hypotheses, by the method of the configuration.

state = model.start(source, layout)
found = decode(model, state, [[start]] * layout.sequences, end=end, config=DecodeConfig(beam=5))
found[0][0].ids

`steps` takes the same and gives the tokens as they come.
"""

import reprlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, cast

import torch

from regard.decode import beam, constrained, sample
from regard.decode.config import DecodeConfig, Hypothesis
from regard.decode.sample import Step
from regard.decode.stepper import Request, Search, Stepper
from regard.nn.state import State


@torch.no_grad()  # not inference mode: tables that a model grows here must serve in training too
def decode(
    stepper: Stepper,
    state: State,
    prefixes: Sequence[Sequence[int]],
    *,
    end: int | Collection[int] | None,
    config: DecodeConfig | None = None,
    maximums: Sequence[int] | None = None,
    suppressed: Collection[int] = (),
    keys: Sequence[int] | None = None,
    phrases: Sequence[Sequence[Sequence[int]]] | None = None,
    inner: Collection[int] = (),
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first (samples: in the order drawn). The state is used up.

    prefixes    one for each row: the start token, and behind it whatever is forced. Where there is no start,
                hypotheses leave out the first token all the same; the rules of repetition count it in
    end         the id that ends a hypothesis; any of several does; None where only the maximum does
    maximums    most tokens for each source, whatever the minimum; config.maximum holds all the same
    suppressed  ids that never come: padding, start, unknown
    keys        a number for each source that its samples hang on besides the seed; unless given, its row.
                To get the same samples from any batch, give each sentence the same key in all of them.
    phrases     for each source, sequences of ids that every finished hypothesis of a beam holds
    inner       ids that go on with a word, and so may not come right behind a phrase

    The model's mode is the caller's business: `model.eval()` before, or its dropout decodes too.
    """
    config = config or DecodeConfig()
    how: dict[str, Any] = {"suppressed": suppressed, "keys": keys, "phrases": phrases, "inner": inner}
    request = check(stepper, state, prefixes, end=end, config=config, maximums=maximums, **how)
    return run(request)


def run(request: Request) -> list[list[Hypothesis]]:
    """To the end."""
    if len(request.prefixes) == 0:
        return []
    work, scores = search(request), None
    while True:
        try:
            scores = request.step(work.send(cast(Any, scores)))  # None begins it
        except StopIteration as found:
            return cast(list[list[Hypothesis]], found.value)


def search(request: Request) -> Search:
    """By the method of its configuration."""
    if any(request.phrases):
        return constrained.search(request)
    return beam.search(request) if request.config.method == "beam" else sample.search(request)


def steps(
    stepper: Stepper,
    state: State,
    prefixes: Sequence[Sequence[int]],
    *,
    end: int | Collection[int] | None,
    config: DecodeConfig,
    maximums: Sequence[int] | None = None,
    suppressed: Collection[int] = (),
    keys: Sequence[int] | None = None,
) -> Iterator[Step]:
    """What `decode` finds by greedy search or sampling, one token of every sentence at a time. Between two
    steps nothing is computed, and the caller may set `Step.stopped`."""
    if config.method == "beam":
        raise ValueError(
            "method='beam' has no tokens before its end: which hypothesis is best may change at each step; "
            "choose greedy or sample"
        )
    request = check(
        stepper, state, prefixes, end=end, config=config, maximums=maximums, suppressed=suppressed, keys=keys
    )
    return sample.steps(request) if len(prefixes) else iter(())


def check(
    stepper: Stepper,
    state: State,
    prefixes: Sequence[Sequence[int]],
    *,
    end: int | Collection[int] | None,
    config: DecodeConfig,
    maximums: Sequence[int] | None,
    suppressed: Collection[int],
    keys: Sequence[int] | None,
    told: Callable[[int, list[Hypothesis]], None] | None = None,
    gone: set[int] | None = None,
    phrases: Sequence[Sequence[Sequence[int]]] | None = None,
    inner: Collection[int] = (),
) -> Request:
    """What `decode` is asked for, checked; `told` and `gone` are `Request`'s."""
    ends = [] if end is None else [end] if isinstance(end, int) else sorted(set(end))
    count = len(prefixes)
    _check_rows(state, prefixes)
    for name, given in (("maximums", maximums), ("keys", keys), ("phrases", phrases)):
        if given is not None and len(given) != count:
            raise ValueError(f"{len(given)} {name} for {count} prefixes: give one for each")
    if end is None and config.method == "beam":
        raise ValueError("end=None: a beam looks for whole sentences; give the id that ends one, or draw")
    if end is not None and (not ends or min(ends) < 0):
        raise ValueError(f"end={end!r} would never come: give the id that ends a sentence, or several")
    if any(maximum < 0 for maximum in maximums or ()):
        raise ValueError(f"maximums has {min(maximums or ())}: a source gets 0 tokens or more")
    if any(id < 0 for id in suppressed):
        raise ValueError(f"suppressed has {min(suppressed)}: ids are 0 or more")
    wanted = [[tuple(phrase) for phrase in own] for own in phrases or ()]
    if any(wanted) and config.method != "beam":
        raise ValueError(f"method={config.method!r} cannot be held to phrases: take a beam")
    if any(not phrase for own in wanted for phrase in own):
        raise ValueError("a phrase without tokens cannot be held: leave it out")
    limits = [config.maximum] * count if maximums is None else [min(m, config.maximum) for m in maximums]
    ids = partial(torch.tensor, dtype=torch.int64, device="cpu")
    numbers = range(count) if keys is None else keys
    never = ids(sorted(suppressed))
    left = set() if gone is None else gone
    return Request(
        stepper,
        state,
        prefixes,
        ids(limits),
        ids(ends),
        never,
        numbers,
        config,
        told,
        left,
        wanted,
        ids(sorted(inner)),
    )


def _check_rows(state: State, prefixes: Sequence[Sequence[int]]) -> None:
    if state.rows != len(prefixes):
        raise ValueError(f"{len(prefixes)} prefixes for a state of {state.rows} rows: give one for each row")
    for row, prefix in enumerate(prefixes):
        if len(prefix) == 0:
            raise ValueError(f"prefix {row} is empty: it must begin with the start token")
        if min(prefix) < 0:
            raise ValueError(f"prefix {row} has {reprlib.repr(list(prefix))}: ids are 0 or more")
