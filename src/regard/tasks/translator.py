"""Translating with a trained model: texts in, texts out, in their order.

    source   [<2de>] ids <eos>          the language token where the model writes several languages
    target   <sos> [forced prefix] ...  what the search finds, until <eos> or the maximum

Texts of like length are decoded together, within a budget of tokens; what a text becomes does not depend on
its neighbours. A text longer than the model was trained on is split into sentences, or refused, never cut.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, get_args, overload

import numpy as np
import torch

from regard.data.packing import pack
from regard.decode import DecodeConfig, Hypothesis
from regard.decode.families import Families
from regard.decode.relay import relay
from regard.decode.search import check, run
from regard.decode.stepper import Request, Stepper
from regard.models.seq2seq import Seq2Seq
from regard.nn.state import State
from regard.tasks import splitting
from regard.tasks.alignment import (
    Alignment,
    check_attention,
    cross_attention,
    source_spans,
    word_alignment,
)
from regard.tasks.faster import Faster, Precision, check_precision, shared_out, side_by_side
from regard.tasks.pieces import Found, Part, Piece, Task, assemble, in_batches, in_small_batches, number_tasks
from regard.tasks.translation import Translation, TranslationWarning
from regard.text import DataError, Origin, Tokenizer
from regard.text.training import each_text

SPARE = 8
ROWS, SOURCES = 256, 128
"""Hypotheses of a batch on a CPU, at most, and sources."""
TooLong = Literal["split", "warn", "error"]
"""A text longer than the model was trained on: translate it sentence by sentence, translate it whole and
warn, or raise a DataError."""


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], to: str | Sequence[str | None] | None = None
) -> list[list[int]]:
    """The ids a model reads: each text behind its language token, if there is one, and before the end token.
    `to` is the language of all of them, or of each."""
    languages = [to] * len(texts) if to is None or isinstance(to, str) else list(to)
    if len(languages) != len(texts):
        raise ValueError(f"{len(languages)} languages for {len(texts)} texts: give one, or one for each")
    marks = {language: _language_token(tokenizer, language) for language in dict.fromkeys(languages)}
    end = tokenizer.require("end")
    encoded = zip(languages, tokenizer.encode_batch(texts), strict=True)
    return [[*marks[language], *ids, end] for language, ids in encoded]


def _language_token(tokenizer: Tokenizer, language: str | None) -> list[int]:
    if language is None:
        return []
    token = f"<2{language}>"
    if token not in tokenizer.ids.extra:
        present = ", ".join(t[2:-1] for t in tokenizer.ids.extra if t.startswith("<2"))
        raise ValueError(
            f"no token {token} for the language {language!r}: this tokenizer has {present or 'none'}"
        )
    return [tokenizer.ids.extra[token]]


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one call asks for."""

    decoding: DecodeConfig
    suppressed: tuple[int, ...]
    too_long: TooLong
    align: bool
    batch_tokens: int


class Translator:
    def __init__(
        self,
        model: Seq2Seq,
        tokenizer: Tokenizer,
        *,
        longest: int,
        languages: tuple[str, ...] = (),
        decoding: DecodeConfig | None = None,
        precision: Precision = "float32",
    ) -> None:
        """`longest` is the most tokens of a source that the model was trained on, special ones included;
        `languages` are those it writes, if it is told which; `decoding` applies where a call says no other.
        It runs where the model is."""
        if longest < 3:
            raise ValueError(f"longest={longest} leaves no room for text beside the special tokens")
        check_precision(precision, next(model.parameters()).device)
        self.model = model
        self.tokenizer = tokenizer
        self.longest = longest
        self.languages = languages
        self.decoding = DecodeConfig() if decoding is None else decoding
        self.precision = precision
        self._faster = Faster(model, precision)
        self._start, self._end = tokenizer.require("start"), tokenizer.require("end")

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self,
        texts: str,
        *,
        to: str | None = None,
        decoding: DecodeConfig | None = None,
        prefixes: str | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        align: bool = False,
        batch_tokens: int | None = None,
        keys: Sequence[int] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        decoding: DecodeConfig | None = None,
        prefixes: Sequence[str] | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        align: bool = False,
        batch_tokens: int | None = None,
        keys: Sequence[int] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        decoding: DecodeConfig | None = None,
        prefixes: str | Sequence[str] | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        align: bool = False,
        batch_tokens: int | None = None,
        keys: Sequence[int] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Translation | list[Translation]:
        """A text gives a translation, several give a list. A blank one stays empty; the model does not see
        it.

        to            the language of all texts, or of each, for a model that writes several
        decoding      in place of the translator's own
        prefixes      for each text, what its translation must begin with, in whole words; "" for nothing
        suppressed    words whose token must not be written, spelled as they would be; each a token of its
                      own, with which no longer word can begin then either
        align         also find which word came from which
        batch_tokens  sources are decoded together while their number times their longest is no more than
                      this; a beam needs memory for as many rows of each. Unless given, what suits the device
        keys          numbers that the samples of each text hang on; unless given, its place in the list
        progress      called with how many more texts are done
        """
        wish = self._wish(decoding, suppressed, too_long, align, batch_tokens)
        single = isinstance(texts, str)
        listed = [texts] if isinstance(texts, str) else [*each_text(texts)]
        forced = [prefixes] if isinstance(prefixes, str) and single else prefixes
        if forced is None:
            forced = [""] * len(listed)
        if isinstance(forced, str) or len(forced) != len(listed):
            raise ValueError(f"{len(listed)} texts and prefixes={prefixes!r:.60}: give one for each text")
        tasks = number_tasks(listed, self._languages(to, len(listed)), forced, keys, 1)
        found = self._translate(tasks, wish, progress)
        return found[0] if single else found

    def stream(
        self,
        lines: Iterable[str],
        *,
        window: int = 1000,
        to: str | None = None,
        decoding: DecodeConfig | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        align: bool = False,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Translation]:
        """The same for any number of lines: `window` of them are read, translated and given out at a time.
        Warns at the end if the model did not finish some of them."""
        if window < 1:
            raise ValueError(f"window={window} must be at least 1")
        wish = self._wish(decoding, suppressed, too_long, align, batch_tokens)
        self._languages(to, 1)
        return self._stream(each_text(lines), window, to, wish, progress)

    def _stream(
        self,
        lines: Iterator[str],
        window: int,
        to: str | None,
        wish: _Wish,
        progress: Callable[[int], None] | None,
    ) -> Iterator[Translation]:
        count, unfinished = 0, 0
        while batch := list(itertools.islice(lines, window)):
            languages = self._languages(to, len(batch))
            tasks = number_tasks(batch, languages, [""] * len(batch), None, count + 1)
            found = self._translate(tasks, wish, progress)
            count += len(batch)
            unfinished += sum(not translation.finished for translation in found)
            yield from found
        if unfinished:
            warnings.warn(
                f"{unfinished} of {count} translations were stopped at their maximum length, unfinished; "
                "look at those with finished=False, or raise decoding.maximum",
                TranslationWarning,
                stacklevel=3,
            )

    def align(
        self,
        source: str,
        target: str,
        *,
        to: str | None = None,
        layer: int | None = None,
        threshold: float | None = None,
    ) -> Alignment:
        """Which word of a translation, by whomever, came from which: what the decoder looks at if it is made
        to write it."""
        (language,) = self._languages(to, 1)
        (ids,) = encode_sources(self.tokenizer, [source], language)
        written = self.tokenizer.encode(target)
        with self._ready():
            (weights,) = self._weights([ids], [list(written.ids)], layer)
        spans = source_spans(self.tokenizer, source)
        return word_alignment(weights, source, spans, target, written.offsets, threshold)

    def _wish(
        self,
        decoding: DecodeConfig | None,
        suppressed: Sequence[str],
        too_long: TooLong,
        align: bool,
        batch_tokens: int | None,
    ) -> _Wish:
        if batch_tokens is None:  # a GPU is not busy with few
            batch_tokens = 65_536 if self.device.type == "cuda" else 4096
        if too_long not in get_args(TooLong):
            raise ValueError(f"too_long={too_long!r} is none of {', '.join(get_args(TooLong))}")
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens={batch_tokens} must be at least 1")
        if align:
            check_attention(self.model)
        return _Wish(
            decoding=self.decoding if decoding is None else decoding,
            suppressed=(*self._never, *self._ids_of(suppressed)),
            too_long=too_long,
            align=align,
            batch_tokens=batch_tokens,
        )

    def _languages(self, to: str | Sequence[str] | None, count: int) -> list[str | None]:
        listed = ", ".join(self.languages)
        if to is None and len(self.languages) == 1:
            to = self.languages[0]
        if to is None:
            if self.languages:
                raise ValueError(f"this model writes several languages: say to which, one of {listed}")
            return [None] * count
        wanted = [to] * count if isinstance(to, str) else list(to)
        for language in wanted:
            if language not in self.languages:
                choice = f"choose one of {listed}" if listed else "it writes one language only: leave it out"
                raise ValueError(f"to={language!r} is no language of this model; {choice}")
        if len(wanted) != count:
            raise ValueError(f"{len(wanted)} languages for {count} texts: give one, or one for each")
        return [*wanted]

    @cached_property
    def _never(self) -> tuple[int, ...]:
        """What is never written: special tokens but for the end, and rows without a token."""
        tokenizer = self.tokenizer
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        unused = set(range(self.model.config.decoder.vocabulary)) - set(tokenizer.vocabulary.values())
        return tuple(sorted((special | unused) - {self._end}))

    @cached_property
    def _spellings(self) -> dict[str, list[int]]:
        """The tokens that write a whole word, with a space before it or without."""
        found: dict[str, list[int]] = {}
        ids = sorted(self.tokenizer.vocabulary.values())
        for id, text in zip(ids, self.tokenizer.decode_batch([[id] for id in ids]), strict=True):
            found.setdefault(text.strip(), []).append(id)
        return found

    def _ids_of(self, words: Sequence[str]) -> list[int]:
        if isinstance(words, str):
            raise TypeError(f"suppressed={words!r} is one string, but a list of words is taken")
        unknown = [word for word in words if not word.strip() or word.strip() not in self._spellings]
        if unknown:
            pieces = " ".join(self.tokenizer.encode(unknown[0]).tokens)
            raise ValueError(
                f"the word {unknown[0]!r} cannot be suppressed: it is no token of its own, but made of "
                f"several ({pieces}), which other words need too; suppress words that are one token, or "
                "choose among several translations (n_best) one without it"
            )
        return [id for word in words for id in self._spellings[word.strip()]]

    def _translate(
        self, tasks: list[Task], wish: _Wish, progress: Callable[[int], None] | None
    ) -> list[Translation]:
        pieces = self._plan(tasks, wish)
        open_pieces = [0] * len(tasks)
        for piece in pieces:
            open_pieces[piece.task] += 1
        if progress is not None and (blank := open_pieces.count(0)):
            progress(blank)
        parts: list[list[Part]] = [[] for _ in tasks]
        with self._ready():
            for batch, results in self._side_by_side(pieces, wish):
                for piece, found in zip(batch, results, strict=True):
                    parts[piece.task].append((piece, found))
                    open_pieces[piece.task] -= 1
                done = sum(open_pieces[index] == 0 for index in {piece.task for piece in batch})
                if progress is not None and done:
                    progress(done)
        for own in parts:
            own.sort(key=lambda part: part[0].span)
        return [
            assemble(self.tokenizer, task.text, own, wish.decoding, align=wish.align)
            for task, own in zip(tasks, parts, strict=True)
        ]

    def _plan(self, tasks: list[Task], wish: _Wish) -> list[Piece]:
        full = [(index, task) for index, task in enumerate(tasks) if task.text.strip()]
        stripped = [task.text.strip() for _, task in full]
        encoded = encode_sources(self.tokenizer, stripped, [task.language for _, task in full])
        prefixes = self.tokenizer.encode_batch([task.prefix.rstrip() for _, task in full])
        pieces = []
        for (index, task), text, ids, prefix in zip(full, stripped, encoded, prefixes, strict=True):
            if len(ids) == len(encode_sources(self.tokenizer, [""], task.language)[0]):
                continue  # nothing but characters that leave no token
            start = task.text.index(text)
            own = [Piece(index, (start, start + len(text)), text, ids, prefix, task.key << 20)]
            lengths = f"{len(ids)} tokens, but the model was trained on {self.longest} at most"
            if len(ids) > self.longest and wish.too_long == "error":
                remedy = "shorten it, or translate with too_long='split'"
                raise DataError(Origin("input", task.line), "too long:", lengths, remedy)
            if len(ids) > self.longest and wish.too_long == "split":
                own = self._split(index, task, prefix)
            if any(len(piece.ids) > self.longest for piece in own):
                message = f"line {task.line}: {lengths}; its translation may be poor, or stop early"
                warnings.warn(message, TranslationWarning, stacklevel=4)
            pieces += own
        return pieces

    def _split(self, index: int, task: Task, prefix: list[int]) -> list[Piece]:
        def fits(part: str) -> bool:
            return len(encode_sources(self.tokenizer, [part], task.language)[0]) <= self.longest

        spans = splitting.pieces(task.text, fits)
        parts = [task.text[start:end] for start, end in spans]
        encoded = encode_sources(self.tokenizer, parts, task.language)
        return [
            Piece(index, span, part, ids, [] if number else prefix, (task.key << 20) + number)
            for number, (span, part, ids) in enumerate(zip(spans, parts, encoded, strict=True))
        ]

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """The model in eval mode, put back afterwards; no gradients. (Not inference_mode: what a model caches
        there, as tables of positions, could not be trained with any more.)"""
        training = [part for part in self.model.modules() if part.training]
        for part in training:
            part.training = False
        try:
            with self._modes():
                yield
        finally:
            for part in training:
                part.training = True

    @contextmanager
    def _modes(self) -> Iterator[None]:
        """Those of a thread."""
        half = self.precision == "bfloat16"
        with torch.no_grad(), torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half):
            yield

    def _side_by_side(self, pieces: list[Piece], wish: _Wish) -> Iterator[tuple[list[Piece], list[Found]]]:
        model = self._faster.now()  # once, and not by every thread
        sharers = torch.get_num_threads() if self.device.type == "cpu" else 1
        work = partial(self._decode_within, wish=wish)
        if model is self.model and self._faster.heard:
            # One after the other: who listens would hear them all at once.
            return ((batch, work(batch)) for batch in in_batches(pieces, wish.batch_tokens))
        if not Families.serve(model):
            return side_by_side(in_batches(pieces, wish.batch_tokens, sharers), work, self.device)
        width = wish.decoding.width
        most = min(max(ROWS // width, 1), SOURCES)
        batches = [*in_small_batches(pieces, wish.batch_tokens, most, sharers)]
        few = width * max(map(len, batches), default=0) // 2
        families = Families(model, kept=torch.float16 if self.precision == "int8" else torch.float32)
        return shared_out(batches, partial(self._relay, families, few=few, wish=wish), self.device)

    def _relay(
        self, families: Families, batches: Iterator[list[Piece]], few: int, wish: _Wish
    ) -> Iterator[tuple[list[Piece], list[Found]]]:
        """A batch joins the others when `few` hypotheses are left of them."""
        with self._modes():

            def begin(batch: list[Piece]) -> Request:
                source = pack([piece.ids for piece in batch])
                return self._request(families, families.start(source.ids, source.layout), batch, wish)

            for batch, found in relay(families, batches, begin, max(few, 1)):
                yield batch, self._explained(batch, found, wish)

    def _decode_within(self, batch: list[Piece], wish: _Wish) -> list[Found]:
        """All at once or, where the device's memory does not do, in halves."""
        try:
            with self._modes():
                return self._decode(batch, wish)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(batch) // 2
        halves = batch[:half], batch[half:]
        return [found for part in halves for found in self._decode_within(part, wish)]

    def _decode(self, batch: list[Piece], wish: _Wish) -> list[Found]:
        model = self._faster.now()
        source = pack([piece.ids for piece in batch]).to(self.device)
        # Most translations are about as long as their source; room for longer ones is made when they come.
        capacity = max(len(piece.prefix) + len(piece.ids) + SPARE for piece in batch)
        state = model.start(source.ids, source.layout, capacity=capacity)
        return self._explained(batch, run(self._request(model, state, batch, wish)), wish)

    def _request(self, stepper: Stepper, state: State, batch: list[Piece], wish: _Wish) -> Request:
        return check(
            stepper,
            state,
            [[self._start, *piece.prefix] for piece in batch],
            end=self._end,
            config=wish.decoding,
            maximums=[self._maximum(piece, wish.decoding) for piece in batch],
            suppressed=wish.suppressed,
            keys=[piece.key for piece in batch],
        )

    def _explained(self, batch: list[Piece], found: list[list[Hypothesis]], wish: _Wish) -> list[Found]:
        weights: list[np.ndarray | None] = [None] * len(batch)
        if wish.align:
            best = [[*row[0].ids] for row in found]
            weights = [*self._weights([piece.ids for piece in batch], best, None)]
        return [Found(row, own) for row, own in zip(found, weights, strict=True)]

    def _maximum(self, piece: Piece, config: DecodeConfig) -> int:
        """How many tokens a translation may have: no more than positions were learned for."""
        most = min(max(2 * len(piece.ids) + 20, config.minimum), config.maximum)
        positions = self.model.config.decoder.positions
        if positions.kind == "learned":
            most = min(most, positions.longest - 1 - len(piece.prefix))
        return max(most, 1)

    def _weights(
        self, sources: list[list[int]], targets: list[list[int]], layer: int | None
    ) -> list[np.ndarray]:
        """[target, source] without special tokens: the row of a token is what was looked at to write it."""
        source = pack(sources).to(self.device)
        target = pack([[self._start, *ids] for ids in targets]).to(self.device)
        found = cross_attention(self.model, source, target, layer)
        first = 1 if self.languages else 0
        return [weights[:-1, first:-1].float().cpu().numpy() for weights in found]
