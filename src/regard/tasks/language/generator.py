"""Going on where a prompt ends: text in, its continuation out, whole or as it comes.

    read       [start] prompt          the start token where the model was trained on documents that have one
    written    ...                     until the end token, a stop string, or as many tokens as may come

Prompts are decoded together without padding, within a budget of tokens; what follows one does not depend on
its neighbours. Where the context is full, a text stops there, or goes on with its last half in view.
"""

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args, overload

import torch

from regard.config import to_dict
from regard.decode import DecodeConfig
from regard.models.decoder import Decoder
from regard.nn.memory import memory_errors
from regard.tasks.base.describe import Described
from regard.tasks.base.faster import Precision, check_precision, settle_precision
from regard.tasks.base.guards import CONFIG, FolderError, folder_errors
from regard.tasks.base.predictor import Progress, evaluating
from regard.tasks.language.batch import Asked, TextBatch
from regard.tasks.language.continuation import Generated, GenerationWarning, Writer, Written, spelled
from regard.tasks.language.dialogue import ChatPrompt, Message, render
from regard.tasks.language.drafts import GenerateOptions, Prompt, Row, in_batches, take_steps, write
from regard.tasks.language.engine import StepEngine
from regard.tasks.language.start import built, open_language, without_tokenizer
from regard.text import DataError, Origin, Tokenizer
from regard.text.conventions import Conventions
from regard.text.training import each_text
from regard.train.ranks import find_device

Past = Literal["stop", "slide"]
"""Where the context is full: stop there, and refuse longer prompts; or go on from the last half of it, again
and again, and read the end of longer prompts."""
SAMPLING = DecodeConfig(method="sample", temperature=0.8, top_p=0.95)
"""How texts are written unless something else is asked for: a little bolder than the model is in doubt, and
never the long tail of unlikely tokens, one of which can spoil a text."""

CHATTING = DecodeConfig(method="sample", temperature=0.3, top_p=0.9)
"""How answers are written: nearer to what is likeliest, which is more often true."""


class GenerateSettings(TypedDict, total=False):
    """What `Generator.generate` takes beside the prompts."""

    decoding: DecodeConfig | None
    samples: int | None
    max_tokens: int | None
    seed: int | None
    stop: Sequence[str]
    past: Past
    keys: Sequence[int] | None
    batch_tokens: int | None
    progress: Progress | None


class Generator(Described):
    """Prompts in, continuations out.

    >>> generator = regard.load("runs/shakespeare", regard.Generator)
    >>> [generated] = generator.generate("ROMEO:", max_tokens=40, seed=1)
    >>> len(generated.ids) <= 40
    True
    >>> "".join(generator.stream("ROMEO:", max_tokens=40, seed=1)) == generated.text
    True
    """

    task: ClassVar[str] = "language"
    begins: bool
    """A start token stands before every prompt. One that is the end token too stands before empty prompts
    only, as in GPT-2, unless this is set."""

    def __init__(
        self,
        model: Decoder,
        tokenizer: Tokenizer | None,
        *,
        longest: int | None = None,
        decoding: DecodeConfig | None = None,
        precision: Precision = "float32",
        conventions: Conventions = Conventions(),  # noqa: B008  # frozen
    ) -> None:
        """Without a tokenizer, `generate_ids` is what there is. `longest` is the most tokens that the model
        was trained to read; None for as many as its positions take. `decoding` applies where a call says no
        other; unless given, it is SAMPLING. `conventions` are how texts begin and end. It runs where the
        model is."""
        positions = model.config.positions
        if positions.kind == "learned":
            if longest is not None and longest > positions.longest:
                raise ValueError(
                    f"longest={longest}, but the model has learned {positions.longest} positions"
                )
            longest = positions.longest if longest is None else longest
        if longest is not None and longest < 2:
            raise ValueError(f"longest={longest} leaves no room for text behind a prompt")
        check_precision(precision, next(model.parameters()).device, grouped=True)
        self.engine = StepEngine(model, precision)
        self.model = model
        self.tokenizer = tokenizer
        self.longest = longest
        self.decoding = SAMPLING if decoding is None else decoding
        self.precision: Precision = precision
        ids = None if tokenizer is None else tokenizer.ids
        self.conventions = conventions
        begins = conventions.begins if ids is None or conventions.begins is not None else ids.start != ids.end
        self.begins = bool(begins) and ids is not None and ids.start is not None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def about(self) -> dict[str, Any]:
        plain = {"model": to_dict(self.model.config), "longest": self.longest}
        return {**plain, **self.conventions.to_dict()}

    def with_model(self, model: Decoder) -> "Generator":
        other = Generator(
            model,
            self.tokenizer,
            longest=self.longest,
            decoding=self.decoding,
            precision=self.precision,
            conventions=self.conventions,
        )
        other.begins = self.begins
        return other

    @property
    def _text(self) -> Tokenizer:
        if self.tokenizer is None:
            if self.folder is None:
                raise ValueError("this generator has no tokenizer: use generate_ids")
            raise FolderError(without_tokenizer(self.folder))
        return self.tokenizer

    @overload
    def generate(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, prompts: str, **settings: Unpack[GenerateSettings]
    ) -> list[Generated]: ...

    @overload
    def generate(
        self, prompts: Iterable[str], **settings: Unpack[GenerateSettings]
    ) -> list[list[Generated]]: ...

    def generate(
        self,
        prompts: str | Iterable[str],
        *,
        decoding: DecodeConfig | None = None,
        samples: int | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
        past: Past = "stop",
        keys: Sequence[int] | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> list[Generated] | list[list[Generated]]:
        """A prompt gives a list of its samples (of a beam: the best first), several give a list of lists.
        Special tokens are never written, but for the end.

        decoding      in place of the generator's own
        samples       for each prompt, in place of decoding.n_best
        max_tokens    that may follow a prompt, in place of decoding.maximum; fewer where the context is full
        seed          in place of decoding.seed
        stop          strings before which a text ends; not for beams
        past          where the context is full: stop, or slide
        keys          numbers that the samples of each prompt hang on; unless given, its place in the list
        batch_tokens  prompts are decoded together while their samples, with all that may follow, are no more
                      tokens than this. Unless given, what suits the device
        progress      called with how many more prompts are done
        """
        changes = {"n_best": samples, "maximum": max_tokens, "seed": seed}
        options = self._options(decoding or self.decoding, changes, stop, past, batch_tokens)
        single = isinstance(prompts, str)
        listed = [prompts] if isinstance(prompts, str) else [*each_text(prompts)]
        asked = self._encoded(listed, keys, options)
        written = self._written(asked, options, progress)
        found = [
            [self._generated(prompt, row) for row in rows]
            for prompt, rows in zip(asked, written, strict=True)
        ]
        return found[0] if single else found

    def stream(
        self,
        prompt: str,
        *,
        decoding: DecodeConfig | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
        past: Past = "stop",
        key: int = 0,
    ) -> Iterator[str]:
        """The text as it comes, in pieces that make up what `generate` gives with the same settings. Whole
        characters only, and nothing that may turn out to be a stop string. The model stays in eval mode until
        the last piece, or until the iterator is closed."""
        changes = {"n_best": 1, "maximum": max_tokens, "seed": seed}
        options = self._options(decoding or self.decoding, changes, stop, past, None)
        if options.decoding.method == "beam":
            raise ValueError("a beam has no text before its end: stream with method greedy or sample")
        [asked] = self._encoded([prompt], [key], options)
        return self._stream(asked, options)

    def prompt(
        self, messages: Sequence[Message], *, chat_template_kwargs: Mapping[str, Any] | None = None
    ) -> ChatPrompt:
        """Messages as the text that the model's template makes of them, up to where the answer begins. What a
        message says stays text: no special token can be written in it. `chat_template_kwargs` are further
        variables of the template, as `{"enable_thinking": False}` of Qwen3's."""
        template = self.conventions.chat_template
        return render(template, self._text, messages, chat_template_kwargs=chat_template_kwargs)

    def chat(
        self,
        messages: Sequence[Message],
        *,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **settings: Unpack[GenerateSettings],
    ) -> Generated:
        """The answer to messages, each `{"role": "user", "content": "Hello"}`, the last one the user's. As
        `generate(prompt(messages))`, but unless told otherwise by CHATTING; `stream(prompt(messages))` gives
        an answer as it comes."""
        settings.setdefault("decoding", CHATTING)
        prompt = self.prompt(messages, chat_template_kwargs=chat_template_kwargs)
        return self.generate(prompt, **settings)[0]

    def write(
        self,
        prompts: Sequence[str],
        *,
        decoding: DecodeConfig | None = None,
        samples: int | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
        past: Past = "stop",
        keys: Sequence[int] | None = None,
    ) -> Iterator[list[Written]]:
        """What `generate` gives, as it comes: one more token of every text that is still being written, all
        prompts in one batch. Inside `ready`; between two tokens nothing is computed."""
        how: Any = {"max_tokens": max_tokens, "seed": seed, "stop": stop, "past": past, "keys": keys}
        batch = self.batch()
        batch.add(self.asked(prompts, decoding=decoding, samples=samples, **how))
        while batch.rows:
            told = batch.step()
            for error in (each.error for each in told if each.error is not None):
                raise error
            yield told

    def asked(
        self,
        prompts: Sequence[str],
        *,
        decoding: DecodeConfig | None = None,
        samples: int | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop: Sequence[str] = (),
        past: Past = "stop",
        keys: Sequence[int] | None = None,
    ) -> list[Asked]:
        """Prompts and settings, checked, for a `batch`."""
        changes = {"n_best": samples, "maximum": max_tokens, "seed": seed}
        options = self._options(decoding or self.decoding, changes, stop, past, None)
        return [Asked(prompt, options) for prompt in self._encoded([*prompts], keys, options)]

    def batch(self) -> TextBatch:
        """Texts that are written together, where others may join at any time. Inside `ready`."""
        return TextBatch(self.engine.stepper, self._text)

    def generate_ids(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        end: int | Collection[int] | None = None,
        decoding: DecodeConfig | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        suppressed: Collection[int] = (),
        past: Past = "stop",
        keys: Sequence[int] | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """New ids for each list of ids, by greedy search unless `decoding` says otherwise. Nothing is put
        before a prompt, and any token may come that is not `suppressed`. Without an `end`, `max_tokens` of
        them come; it is not among them."""
        changes = {"n_best": 1, "maximum": max_tokens, "seed": seed}
        options = self._options(decoding or DecodeConfig(method="greedy"), changes, (), past, batch_tokens)
        options = replace(options, end=end, suppressed=tuple(suppressed))
        for number, ids in enumerate(prompts):
            if len(ids) == 0:
                raise ValueError(f"prompt {number} has no ids: it needs one at least")
            if not 0 <= min(ids) <= max(ids) < self.model.config.vocabulary:
                raise ValueError(
                    f"prompt {number} is {ids!r:.40}: ids are from 0 to {self.model.config.vocabulary - 1}"
                )
        asked = self._fitted([("", [*ids]) for ids in prompts], keys, options)
        return [row.ids for [row] in self._written(asked, options, progress)]

    def _options(
        self,
        decoding: DecodeConfig,
        changes: dict[str, Any],
        stop: Sequence[str],
        past: Past,
        batch_tokens: int | None,
    ) -> GenerateOptions:
        decoding = replace(decoding, **{name: value for name, value in changes.items() if value is not None})
        if batch_tokens is None:  # a GPU is not busy with few
            batch_tokens = 65_536 if self.device.type == "cuda" else 4096
        if past not in get_args(Past):
            raise ValueError(f"past={past!r} is none of {', '.join(get_args(Past))}")
        if isinstance(stop, str) or not all(isinstance(each, str) and each for each in stop):
            raise ValueError(f"stop={stop!r:.60}: give a list of strings, none of them empty")
        if stop and decoding.method == "beam":
            raise ValueError(
                f"stop={[*stop]!r:.60}: a beam ranks texts that the model ends; choose greedy or sample"
            )
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens={batch_tokens} must be at least 1")
        return GenerateOptions(
            decoding=decoding,
            end=self.ends or None,
            suppressed=self.never_written,
            stop=tuple(stop),
            slides=self.longest if past == "slide" else None,
            batch_tokens=batch_tokens,
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        own = None if self.tokenizer is None else self.tokenizer.ids.end
        return (*(() if own is None else (own,)), *self.conventions.ends)

    @cached_property
    def never_written(self) -> tuple[int, ...]:
        """What is never written: special tokens but for the end, and rows without a token."""
        tokenizer = self.tokenizer
        if tokenizer is None:
            return ()
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        written = {*tokenizer.vocabulary.values()} - special | {*self.ends}
        return tuple(id for id in range(self.model.config.vocabulary) if id not in written)

    def _encoded(
        self, texts: list[str], keys: Sequence[int] | None, options: GenerateOptions
    ) -> list[Prompt]:
        start = self._text.ids.start
        listed: list[tuple[str, list[int]]] = []
        for number, ids in enumerate(self._text.encode_batch(texts), start=1):
            text = texts[number - 1]
            if isinstance(text, ChatPrompt):  # the template has set what stands before
                listed.append((text, text.ids))
                continue
            front = [start] if start is not None and (self.begins or not ids) else []
            if not front and not ids:
                remedy = "the model has no start token to go on from: give it a word at least"
                raise DataError(Origin("input", number), "the prompt is empty", remedy=remedy)
            listed.append((text, [*front, *ids]))
        return self._fitted(listed, keys, options)

    def _fitted(
        self, listed: list[tuple[str, list[int]]], keys: Sequence[int] | None, options: GenerateOptions
    ) -> list[Prompt]:
        """With as many tokens to follow as were asked for, or as there is room for."""
        numbers = range(len(listed)) if keys is None else keys
        if len(numbers) != len(listed):
            raise ValueError(f"{len(numbers)} keys for {len(listed)} prompts: give one for each")
        prompts, most = [], options.decoding.maximum
        for line, ((text, ids), key) in enumerate(zip(listed, numbers, strict=True), start=1):
            room = self.longest - len(ids) if self.longest is not None and options.slides is None else most
            if room < min(most, 1):
                lengths = f"{len(ids)} tokens, where the model reads {self.longest} with what follows"
                remedy = "shorten it, or read its end only, with past='slide'"
                raise DataError(Origin("input", line), "the prompt is too long:", lengths, remedy)
            crowded = room < most and most != DecodeConfig().maximum  # which nobody asked for
            prompts.append(Prompt(text, ids, min(room, most), crowded, key))
        return prompts

    def _written(
        self, prompts: list[Prompt], options: GenerateOptions, progress: Progress | None
    ) -> list[list[Row]]:
        rows: dict[int, list[Row]] = {}
        with self.ready():
            for numbers in in_batches(prompts, options):
                batch = [prompts[number] for number in numbers]
                rows.update(zip(numbers, self._decode_within(batch, options), strict=True))
                if progress is not None:
                    progress(len(batch))
        ordered = [rows[number] for number in range(len(prompts))]
        crowded = [own for prompt, own in zip(prompts, ordered, strict=True) if prompt.crowded]
        self._warn_of_full(sum(row.finished == "length" for own in crowded for row in own))
        return ordered

    def _decode_within(self, batch: list[Prompt], options: GenerateOptions) -> list[list[Row]]:
        """All at once or, where the device's memory does not do, in halves."""
        try:
            with memory_errors():
                return write(self.engine.stepper(), self.tokenizer, batch, options)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(batch) // 2
        return [*self._decode_within(batch[:half], options), *self._decode_within(batch[half:], options)]

    def _stream(self, prompt: Prompt, options: GenerateOptions) -> Iterator[str]:
        writer = Writer(self._text, prompt.ids, options.stop)
        with evaluating(self.model):
            with self.engine.autocast():
                coming = take_steps(self.engine.stepper(), [prompt], options)
            while True:
                with self.engine.autocast():  # not while the caller has its turn
                    step = next(coming)
                over = bool(step.ended[0] or step.cut[0])
                piece = writer.close() if over else writer.add(int(step.tokens[0]))
                if piece:
                    yield piece
                if over or writer.stopped:
                    break
        self._warn_of_full(int(prompt.crowded and bool(step.cut[0])))

    def _generated(self, prompt: Prompt, row: Row) -> Generated:
        text = spelled(self._text, prompt.ids, row.ids) if row.text is None else row.text
        return Generated(prompt.text, text, tuple(row.ids), row.score, row.finished)

    def _warn_of_full(self, count: int) -> None:
        if count:
            warnings.warn(
                f"the context of {self.longest} tokens was full before {count} of the texts had the tokens "
                "that were asked for; shorten the prompts, or let it slide (past='slide', --past slide)",
                GenerationWarning,
                stacklevel=4,
            )

    @contextmanager
    def ready(self) -> Iterator[None]:
        with evaluating(self.model), torch.no_grad(), self.engine.autocast():
            yield


def open_generator(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Generator:
    """What a training has made, or a folder of Hugging Face's. It runs on the GPU if there is one, unless
    told otherwise, and there in bfloat16."""
    place = find_device(device)
    precision = settle_precision(precision, place)
    checkpoint = open_language(folder)
    model = built(checkpoint, folder, spent=True).to(place).eval()
    with folder_errors(Path(folder) / CONFIG):
        generator = Generator(
            model,
            checkpoint.tokenizer,
            longest=checkpoint.longest,
            precision=precision,
            conventions=checkpoint.conventions,
        )
    generator.folder = Path(folder)
    return generator
