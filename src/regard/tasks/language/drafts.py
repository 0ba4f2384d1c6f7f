"""Texts that are being written: a batch of prompts, and rows of tokens that follow them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from regard.decode import DecodeConfig, Sliding, Step, decode, steps
from regard.decode.captured import CapturedStepper
from regard.decode.causal import CausalStepper
from regard.decode.stepper import Stepper
from regard.models.decoder import Decoder
from regard.nn.state import State
from regard.tasks.language.continuation import Finished, Writer
from regard.text import Tokenizer

Steps = Decoder | CapturedStepper | CausalStepper
"""What takes the steps of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """What one call asks for."""

    decoding: DecodeConfig
    end: int | Collection[int] | None
    suppressed: tuple[int, ...]
    stop: tuple[str, ...]
    slides: int | None
    """The context, where a text goes on past it."""
    batch_tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    ids: list[int]
    most: int
    """So many tokens may follow."""
    crowded: bool
    """Fewer than were asked for: the context has no room for more."""
    key: int


@dataclass(slots=True)
class Row:
    """One text behind a prompt."""

    ids: list[int] = field(default_factory=list)
    text: str | None = None
    """Known here only if stop strings are looked for."""
    score: float = 0.0
    finished: Finished = "length"


def in_batches(prompts: Sequence[Prompt], options: GenerateOptions) -> Iterator[list[int]]:
    """Numbers of prompts, the longest first: as many together as keep to the budget with all that may follow
    them, and at least one."""
    rows = options.decoding.beam if options.decoding.method == "beam" else options.decoding.n_best
    batch: list[int] = []
    longest = 0
    for number in sorted(range(len(prompts)), key=lambda number: -len(prompts[number].ids)):
        whole = len(prompts[number].ids) + prompts[number].most
        longest = max(longest, whole)
        if batch and (len(batch) + 1) * rows * longest > options.batch_tokens:
            yield batch
            batch, longest = [], whole
        batch.append(number)
    if batch:
        yield batch


def write(
    model: Steps, tokenizer: Tokenizer | None, batch: Sequence[Prompt], options: GenerateOptions
) -> list[list[Row]]:
    """The rows of each prompt. The tokenizer is needed for stop strings only."""
    if options.decoding.method == "beam":
        return _searched(model, batch, options)
    samples = options.decoding.n_best
    owners = [prompt for prompt in batch for _ in range(samples)]
    rows = [Row() for _ in owners]
    writers: list[Writer | None] = [None for _ in owners]
    if tokenizer is not None and options.stop:
        writers = [Writer(tokenizer, prompt.ids, options.stop) for prompt in owners]
    for step in take_steps(model, batch, options):
        parts = (step.running, step.tokens, step.scores, step.ended, step.cut)
        for place, each in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
            number, token, score, ended, cut = each
            row, writer, over = rows[number], writers[number], ended or cut
            row.score, row.finished = score, "end" if ended else "length"
            if not over:
                row.ids.append(token)
            if writer is not None:
                row.text = (row.text or "") + (writer.close() if over else writer.add(token))
                row.finished = "stop" if writer.stopped else row.finished
                step.stopped[place] = writer.stopped
    return [rows[first : first + samples] for first in range(0, len(rows), samples)]


def take_steps(model: Steps, batch: Sequence[Prompt], options: GenerateOptions) -> Iterator[Step]:
    return steps(
        *_started(model, batch, options),
        end=options.end,
        config=options.decoding,
        maximums=[prompt.most for prompt in batch],
        suppressed=options.suppressed,
        keys=[prompt.key for prompt in batch],
    )


def _searched(model: Steps, batch: Sequence[Prompt], options: GenerateOptions) -> list[list[Row]]:
    found = decode(
        *_started(model, batch, options),
        end=options.end,
        config=options.decoding,
        maximums=[prompt.most for prompt in batch],
        suppressed=options.suppressed,
    )
    rows: list[list[Row]] = []
    for prompt, hypotheses in zip(batch, found, strict=True):
        before = len(prompt.ids) - 1  # a hypothesis leaves out the first token only
        rows.append(
            [
                Row([*each.ids[before:]], None, each.score, "end" if each.finished else "length")
                for each in hypotheses
            ]
        )
    return rows


def _started(
    model: Steps, batch: Sequence[Prompt], options: GenerateOptions
) -> tuple[Stepper, State, list[list[int]]]:
    """What takes the steps, with room for the longest text that may come, and what each text begins with."""
    stepper = model if options.slides is None else Sliding(model, options.slides)
    capacity = max(len(prompt.ids) + prompt.most for prompt in batch)
    return stepper, stepper.start(rows=len(batch), capacity=capacity), [prompt.ids for prompt in batch]
