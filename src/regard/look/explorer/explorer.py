"""Questions about a model, by name, with arguments as JSON has them: the one door between page and model.

    explorer = Explorer(regard.load("runs/phrasebook"), "phrasebook")
    explorer.ask("head", {"text": "Where is the station?", "place": "cross", "layer": 1, "head": 0})

A question carries its text along: nothing depends on what was asked before. The last few passes are kept, so
that heads can be asked for one by one. Whatever cannot be answered is a `Refused`, in words for the reader.
"""

import base64
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast, get_args, get_type_hints

import numpy as np
from torch import Tensor

from regard.config import ConfigError
from regard.look.parts import Parts
from regard.look.passes import What
from regard.look.texts import TracedText, trace_generation, trace_reading, trace_translation
from regard.models.headed import Headed
from regard.models.seq2seq import Seq2Seq
from regard.tasks.base.predictor import Predictor
from regard.tasks.base.reading import EncoderPredictor
from regard.tasks.language.generator import Generator
from regard.tasks.registry import get_task, names
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Tokenizer

Answer = dict[str, Any]
Question = Callable[..., Answer]
"""Takes the explorer, then arguments by name: strings, numbers, and lists of them."""
Call = tuple[str, dict[str, Any]]
"""A question and its arguments, as the page asks it."""

CHARACTERS, TOKENS = 20_000, 2048
"""The longest text that is taken, and the most tokens of a pass: a head is a square of them."""
KEPT = 3
"""Passes that are remembered."""


class Refused(ValueError):  # noqa: N818  # an answer, no accident
    """Something that is not answered; the message is for the page."""


class Explorer:
    """What answers the explorer's page; it can be asked from Python too.

    >>> explorer = regard.look.Explorer(regard.load("runs/phrasebook"), "phrasebook")
    >>> explorer.ask("about", {})["kind"]
    'translator'
    >>> explorer.ask("read", {"text": "Where is the station?"})["places"]["cross"]["heads"]
    [2]
    """

    def __init__(
        self,
        task: Predictor,
        name: str = "",
        example: str = "",
        questions: Mapping[str, Question] | None = None,
    ) -> None:
        """`example` is the text that a page begins with; questions are all that there are, unless some are
        given."""
        if getattr(task, "task", None) not in names():
            raise TypeError(f"a {type(task).__name__} cannot be explored: give what regard.load gives")
        if questions is None:
            from regard.look.explorer.questions import QUESTIONS

            questions = QUESTIONS
        self.task, self.name, self.example, self.questions = task, name, example, questions
        self._passes: OrderedDict[tuple[str, str | None, str | None], TracedText] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def kind(self) -> str:
        return get_task(self.task.task).noun

    @property
    def views(self) -> tuple[str, ...]:
        """Of the page, beside those that every model has."""
        return get_task(self.task.task).views

    def require(self, view: str, refusal: str) -> Any:
        """The predictor, if its task has this view; else the refusal is the answer."""
        if view not in self.views:
            raise Refused(f"this {self.kind} {refusal}")
        return self.task

    @cached_property
    def tokenizer(self) -> Tokenizer:
        if self.task.tokenizer is None:
            raise Refused("this model has no tokenizer, so it cannot read a text")
        return self.task.tokenizer

    @cached_property
    def parts(self) -> Parts:
        return Parts.of(self.task)

    def ask(self, question: str, given: Mapping[str, Any]) -> Answer:
        """One question at a time, whoever asks."""
        if question not in self.questions:
            listed = ", ".join(sorted(self.questions))
            raise Refused(f"no question {question!r:.60}; there is {listed}")
        answer = self.questions[question]
        checked = checked_arguments(question, answer, given)
        with self._lock:
            with _own_warnings() as warned:
                try:
                    found = answer(self, **checked)
                except Refused:
                    raise
                except (ValueError, TypeError, ConfigError, DataError) as error:
                    raise Refused(str(error)) from error
            return {**found, "warned": warned} if warned else found

    def traced(self, text: str, second: str | None = None, to: str | None = None) -> TracedText:
        """The pass of a text, with all that can be looked at: of a translator, with `second` as the
        translation, or its own; of a language model, the text alone; of others, with `second` as a pair."""
        key = (text, second, to)
        if key in self._passes:
            self._passes.move_to_end(key)
            return self._passes[key]
        self._check_length(text, "text")
        if second:
            self._check_length(second, "second text")
        what: list[What] = ["weights", "scores", "queries", "keys", "values", "stream", "inputs"]
        if self.parts.decoder is not None or self.parts.masked is not None:
            what.append("logits")
        found = self.run(text, second, to, what)
        self._passes[key] = found
        while len(self._passes) > KEPT:
            self._passes.popitem(last=False)
        return found

    def _check_length(self, text: str, what: str) -> None:
        check_text(text, what)
        if (count := len(self.tokenizer.encode(text))) > TOKENS:
            raise Refused(f"the {what} has {count:,} tokens: at most {TOKENS:,} here")

    def run(self, text: str, second: str | None, to: str | None, what: Sequence[What]) -> TracedText:
        """A pass, with no more than this kept of it."""
        match self.task.model:
            case Seq2Seq():
                translator = cast(Translator, self.task)
                return trace_translation(translator, text, second or None, to=to, what=what)
            case Headed():
                return trace_reading(cast(EncoderPredictor, self.task), text, second or None, what=what)
        longest = self.task.longest
        if longest is not None and (count := len(self.tokenizer.encode(text))) >= longest:
            raise Refused(f"the text has {count:,} tokens, but the model reads {longest:,} at most")
        return trace_generation(cast(Generator, self.task), text, max_tokens=0, what=what)


@contextmanager
def _own_warnings() -> Iterator[list[str]]:
    """What this thread is warned of. Another's may be about a text that is none of this reader's business."""
    own, warned = threading.get_ident(), list[str]()

    def keep(message: Warning | str, *about: Any, **settings: Any) -> None:
        if threading.get_ident() == own:
            warned.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield warned


def checked_arguments(name: str, question: Question, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, if the question takes it: each of its type, and none too many."""
    hints = get_type_hints(question)
    taken = [*inspect.signature(question).parameters.values()][1:]
    if unknown := sorted(set(given) - {each.name for each in taken}):
        raise Refused(f"{name} takes no {unknown[0]!r:.60}")
    for each in taken:
        if each.name not in given:
            if each.default is inspect.Parameter.empty:
                raise Refused(f"{name} needs {each.name}")
            continue
        if not _fits(given[each.name], hints[each.name]):
            raise Refused(f"{name} cannot take {each.name}={given[each.name]!r:.60}")
    return dict(given)


def _fits(value: Any, wanted: Any) -> bool:
    own = get_args(wanted)
    if wanted in (int, float):
        return isinstance(value, int | wanted) and not isinstance(value, bool)
    if not own:
        return isinstance(value, wanted)
    if getattr(wanted, "__origin__", None) is list:
        return isinstance(value, list) and all(_fits(each, own[0]) for each in value)
    if all(isinstance(each, str) for each in own):  # a closed choice
        return value in own
    return any(_fits(value, each) for each in own)  # a union


def check_text(text: str, what: str = "text") -> None:
    if len(text) > CHARACTERS:
        raise Refused(f"a {what} of {len(text):,} characters: at most {CHARACTERS:,} are read here")
    if not text.strip():
        raise Refused(f"there is no {what} to read")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(f"the {what} has half of a character, at {error.start + 1}: write it anew") from error


class Numbers(str):
    """Numbers as an answer spells them, distinct from a text that reads like them."""

    __slots__ = ()


def shares(weights: Tensor) -> Numbers:
    """Numbers from 0 to 1 as 16-bit whole ones, 65535 for 1, in base 64: finer than a screen by far."""
    return spelled((weights.clamp(0, 1) * 65535 + 0.5).cpu().numpy().astype("<u2"))  # cut off, so it rounds


def floats(numbers: Tensor) -> Numbers:
    """As they are, in 32 bits."""
    return spelled(numbers.detach().cpu().numpy().astype("<f4"))


def spelled(numbers: np.ndarray) -> Numbers:
    """In base 64, behind the name of the format."""
    text = base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
    return Numbers(f"{numbers.dtype.kind}{numbers.dtype.itemsize}:{text}")
