"""Translating with a trained model: texts in, texts out, in their order.

    source   [<2de>] [prompt] ids <eos>    the language token where the model writes several languages
    target   <sos> [forced prefix] ...     what the search finds, until <eos> or the maximum

M2M100 and NLLB are told both languages: [__en__] ids <eos>, and <eos> [__de__] [forced prefix] ...

Texts of like length are decoded together, within a budget of tokens; what a text becomes does not depend on
its neighbours. A text longer than the model was trained on is split into sentences, or refused, never cut. A
text of several sentences is split too, where the model was trained on single ones.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Unpack, get_args, overload

import numpy as np
import torch

from regard.config import to_dict
from regard.decode import DecodeConfig
from regard.hub.translators import Marks
from regard.memory import Recall
from regard.models.seq2seq import Seq2Seq
from regard.nn.adapter import with_adapters
from regard.nn.quantized import QuantizedLinear
from regard.tasks.base.adapter import check_base, read_adapter
from regard.tasks.base.describe import Described
from regard.tasks.base.faster import Precision, check_precision
from regard.tasks.base.folder import FolderError
from regard.tasks.base.guards import folder_errors
from regard.tasks.base.predictor import Progress, evaluating, inference
from regard.tasks.translation.aids import Aids, GivenGlossary, TranslateSettings, aided, helped
from regard.tasks.translation.alignment import Alignment, source_spans, word_alignment
from regard.tasks.translation.confidence import Calibration
from regard.tasks.translation.encoding import (
    encode_sources,
    language_token,
    spellings,
    suppressed_ids,
    target_languages,
    told_language,
)
from regard.tasks.translation.engine import Options, SearchEngine, Split, TooLong, TorchEngine
from regard.tasks.translation.fuzzy import Fuzzy
from regard.tasks.translation.glossary import inner_tokens, phrases_of
from regard.tasks.translation.inline import Inline
from regard.tasks.translation.pieces import Part, Piece, PieceResult, Source, assemble, number_sources
from regard.tasks.translation.planning import planned
from regard.tasks.translation.prompts import prompt_facts, prompt_text, read_prompts
from regard.tasks.translation.result import Translation, TranslationWarning
from regard.text import Tokenizer
from regard.text.flags import FlagSettings
from regard.text.terms import Term
from regard.text.training import each_text

SINGLE = 0.05
"""A model was trained on single sentences if no more of its training texts than this share hold several."""


class Translator(Described):
    """Texts in, translations out.

    >>> translator = regard.load("runs/phrasebook", regard.Translator)
    >>> translator.translate("Where is the station?").text
    'Wo ist der Bahnhof?'
    """

    task: ClassVar[str] = "translate"

    def __init__(
        self,
        model: Seq2Seq,
        tokenizer: Tokenizer,
        *,
        longest: int,
        languages: tuple[str, ...] = (),
        several_sentences: float | None = None,
        marks: Marks = "source",
        source_language: str | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str = "",
        fuzzy: Fuzzy | None = None,
        inline: Inline | None = None,
        calibration: Calibration | None = None,
        decoding: DecodeConfig | None = None,
        precision: Precision = "float32",
        engine: SearchEngine | None = None,
    ) -> None:
        """`longest` is the most tokens of a source that the model was trained on, special ones included;
        `languages` are those it writes, if it is told which; `several_sentences` is the share of its training
        sources that hold several, if that is known; `decoding` applies where a call says no other. It runs
        where the model is, unless another `engine` does the search.

        `marks` says where the model is told a language: before the source, the one to write; or before both
        sides, each its own. `source_language` is then the one it reads, unless a call says another. `prompts`
        may stand before a source, by name, and the `default_prompt` does unless another is asked for. `fuzzy`
        says how it was given near matches while it was trained, if it was, and `inline` how terms;
        `calibration` what its probabilities say of how good a translation is, if that was learned."""
        if longest < 3:
            raise ValueError(f"longest={longest} leaves no room for text beside the special tokens")
        self.model = model
        self.tokenizer = tokenizer
        self.longest = longest
        self.languages = languages
        self.several_sentences = several_sentences
        self.decoding = DecodeConfig() if decoding is None else decoding
        self.precision: Precision = precision
        self.marks: Marks = marks
        self.source_language = source_language
        self.prompts: Mapping[str, str] = prompts or {}
        self.default_prompt = default_prompt
        prompt_text(self.prompts, default_prompt, None)
        self.fuzzy = fuzzy
        self.inline = inline
        self.calibration = calibration
        self.start, self.end = tokenizer.target.require("start"), tokenizer.target.require("end")
        if engine is None:
            check_precision(precision, next(model.parameters()).device)
            engine = TorchEngine(
                model, precision, start=self.start, end=self.end, marks=1 if languages else 0
            )
        self.engine = engine

    @property
    def device(self) -> torch.device:
        return self.engine.device

    def about(self) -> dict[str, Any]:
        return {
            "model": to_dict(self.model.config),
            "longest": self.longest,
            "languages": list(self.languages),
            **({} if self.several_sentences is None else {"several_sentences": self.several_sentences}),
            **({} if self.marks == "source" else {"marks": self.marks}),
            **({} if self.source_language is None else {"source_language": self.source_language}),
            **prompt_facts(self.prompts, self.default_prompt),
            **({} if self.fuzzy is None else {"fuzzy": to_dict(self.fuzzy)}),
            **({} if self.inline is None else {"terms": to_dict(self.inline)}),
            **({} if self.calibration is None else {"confidence": to_dict(self.calibration)}),
            "decode": to_dict(self.decoding),
        }

    def with_model(self, model: Seq2Seq) -> "Translator":
        own: Any = {"longest": self.longest, "languages": self.languages, "decoding": self.decoding}
        others = ["several_sentences", "marks", "source_language", "prompts", "default_prompt"]
        own |= {name: getattr(self, name) for name in [*others, "fuzzy", "inline", "calibration"]}
        return Translator(model, self.tokenizer, precision=self.precision, **own)

    def with_adapter(self, folder: Path | str) -> "Translator":
        """The same with what a fine-tuning with model.adapter has learned; the weights are shared, so that
        many adapters take little more room than one model. `folder` is that of the training, or `adapter` in
        it. (On a CPU, each that is used keeps a copy of the weights that is packed for products.)"""
        adapter = read_adapter(Path(folder), self.task)
        if any(isinstance(part, QuantizedLinear) for part in self.model.modules()):
            raise FolderError(f"{folder}: adapters stand beside weights in float32; load the model in that")
        check_base(adapter, self.model, Path(folder))
        found = self.with_model(with_adapters(self.model, adapter.config, adapter.weights))
        if "prompts" in adapter.told:
            with folder_errors(Path(folder)):
                told = read_prompts(adapter.told)
            found.prompts, found.default_prompt = told["prompts"], told["default_prompt"]
        return found

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, texts: str, **settings: Unpack[TranslateSettings]
    ) -> Translation: ...

    @overload
    def translate(self, texts: Iterable[str], **settings: Unpack[TranslateSettings]) -> list[Translation]: ...

    def translate(
        self,
        texts: str | Iterable[str],
        *,
        to: str | Sequence[str] | None = None,
        decoding: DecodeConfig | None = None,
        prefixes: str | Sequence[str] | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        split: Split = "auto",
        align: bool = False,
        glossary: GivenGlossary = None,
        inflected: bool = True,
        memory: Recall | None = None,
        flags: bool | FlagSettings = False,
        batch_tokens: int | None = None,
        keys: Sequence[int] | None = None,
        progress: Progress | None = None,
        source_language: str | None = None,
        prompt: str | None = None,
    ) -> Translation | list[Translation]:
        """A text gives a translation, several give a list. A blank one stays empty; the model does not see
        it.

        to            the language of all texts, or of each, for a model that writes several
        decoding      in place of the translator's own
        prefixes      for each text, what its translation must begin with, in whole words; "" for nothing
        suppressed    words whose token must not be written, spelled as they would be; each a token of its
                      own, with which no longer word can begin then either
        split         whether a text of several sentences is translated sentence by sentence, and put together
                      again: "always", "never", or ("auto") if the model was trained on single sentences
        align         also find which word came from which
        glossary      terms that must become what it says: a mapping, or a file (see docs/tasks/memory.md);
                      `Translation.terms` tells what became of them. A model that was trained with terms is
                      told them first
        inflected     a form of a term that the model has written with another ending counts
        memory        what was translated before (`regard.memory.recall`): exact matches are taken as they
                      are, and near ones listed in `Translation.matches`; a model that was trained with near
                      matches is given the best
        flags         also tell what somebody should look at (`regard.text.flags`); a translation that is
                      caught in a loop is made again without
        batch_tokens  sources are decoded together while their number times their longest is no more than
                      this; a beam needs memory for as many rows of each. Unless given, what suits the device
        keys          numbers that the samples of each text hang on; unless given, its place in the list
        progress      called with how many more texts are done
        source_language  of all texts, for a model that is told it
        prompt        the name of one of the model's, which stands before each text and each part of one; ""
                      for none. Unless given, it is the model's default
        """
        self.reads(source_language)
        options = self.options(
            decoding, suppressed, too_long, align, batch_tokens, split=split, prompt=prompt
        )
        single = isinstance(texts, str)
        listed = [texts] if isinstance(texts, str) else [*each_text(texts)]
        forced = [prefixes] if isinstance(prefixes, str) and single else prefixes
        if forced is None:
            forced = [""] * len(listed)
        if isinstance(forced, str) or len(forced) != len(listed):
            raise ValueError(f"{len(listed)} texts and prefixes={prefixes!r:.60}: give one for each text")
        languages = self.languages_of(to, len(listed))
        sources = number_sources(listed, languages, forced, keys, 1, source_language)
        found = self._translate(sources, options, progress, Aids.of(glossary, inflected, memory, flags))
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
        split: Split = "auto",
        align: bool | Iterable[bool] = False,
        glossary: GivenGlossary = None,
        inflected: bool = True,
        memory: Recall | None = None,
        flags: bool | FlagSettings = False,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
        source_language: str | None = None,
        prompt: str | None = None,
    ) -> Iterator[Translation]:
        """The same for any number of lines: `window` of them are read, translated and given out at a time.
        `align` may also say it of each line. Warns at the end if the model did not finish some of them."""
        if window < 1:
            raise ValueError(f"window={window} must be at least 1")
        options = self.options(
            decoding, suppressed, too_long, align is not False, batch_tokens, split=split, prompt=prompt
        )
        aligned = itertools.repeat(align) if isinstance(align, bool) else iter(align)
        self.languages_of(to, 1)
        self.reads(source_language)
        aids = Aids.of(glossary, inflected, memory, flags)
        return self._stream(each_text(lines), aligned, window, to, source_language, options, progress, aids)

    def _stream(
        self,
        lines: Iterator[str],
        aligned: Iterator[bool],
        window: int,
        to: str | None,
        reads: str | None,
        options: Options,
        progress: Progress | None,
        aids: Aids,
    ) -> Iterator[Translation]:
        count, unfinished = 0, 0
        while batch := list(itertools.islice(lines, window)):
            languages = self.languages_of(to, len(batch))
            flags = [*itertools.islice(aligned, len(batch))]
            sources = number_sources(batch, languages, [""] * len(batch), None, count + 1, reads, flags)
            found = self._translate(sources, options, progress, aids)
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
        source_language: str | None = None,
    ) -> Alignment:
        """Which word of a translation, by whomever, came from which: what the decoder looks at if it is made
        to write it."""
        (language,) = self.languages_of(to, 1)
        (ids,) = self.encode([source], language, source_language)
        written = self.tokenizer.target.encode(target)
        with self.ready():
            (weights,) = self.attention([ids], [list(written.ids)], layer, [self.mark(language)])
        spans = source_spans(self.tokenizer, source)
        weights = weights[:, weights.shape[1] - len(spans) :]  # without the prompt's
        return word_alignment(weights, source, spans, target, written.offsets, threshold)

    def options(
        self,
        decoding: DecodeConfig | None = None,
        suppressed: Sequence[str] = (),
        too_long: TooLong = "split",
        align: bool = False,
        batch_tokens: int | None = None,
        *,
        split: Split = "auto",
        prompt: str | None = None,
    ) -> Options:
        """What a call asks for, checked; see `translate`."""
        if too_long not in get_args(TooLong):
            raise ValueError(f"too_long={too_long!r} is none of {', '.join(get_args(TooLong))}")
        if split not in get_args(Split):
            raise ValueError(f"split={split!r} is none of {', '.join(get_args(Split))}")
        if batch_tokens is not None and batch_tokens < 1:
            raise ValueError(f"batch_tokens={batch_tokens} must be at least 1")
        options = Options(
            decoding=self.decoding if decoding is None else decoding,
            suppressed=(*self.never_written, *self._ids_of(suppressed)),
            too_long=too_long,
            split=split == "always" or (split == "auto" and self.trained_on_single_sentences),
            align=align,
            batch_tokens=self.engine.batch_tokens if batch_tokens is None else batch_tokens,
            prompt=prompt_text(self.prompts, self.default_prompt, prompt),
        )
        self.engine.check(options)
        return options

    @property
    def trained_on_single_sentences(self) -> bool:
        """False where that is not known."""
        return self.several_sentences is not None and self.several_sentences <= SINGLE

    def languages_of(self, to: str | Sequence[str] | None, count: int) -> list[str | None]:
        """The target language of each of so many texts; None for all where the model writes one only."""
        return target_languages(self.languages, to, count)

    def reads(self, source_language: str | None = None) -> str | None:
        """The language before a source, for a model that is told it; None where it is not."""
        if self.marks == "source":
            if source_language is not None:
                raise ValueError(
                    f"source_language={source_language!r}: this model is not told what it reads; leave it out"
                )
            return None
        return told_language(self.languages, source_language or self.source_language)

    def encode(
        self, texts: Sequence[str], to: str | Sequence[str | None] | None, reads: str | None = None
    ) -> list[list[int]]:
        """The ids that the model reads, with the languages that it is told there, and its default prompt."""
        before = prompt_text(self.prompts, self.default_prompt, None)
        told = to if self.marks == "source" else self.reads(reads)
        return encode_sources(self.tokenizer, texts, told, prompt=before)

    def mark(self, language: str | None) -> tuple[int, ...]:
        """What stands between the start and a translation into this language: its token, in some models."""
        return () if self.marks == "source" else tuple(language_token(self.tokenizer.target, language))

    @cached_property
    def never_written(self) -> tuple[int, ...]:
        """What is never written: special tokens but for the end, and rows without a token."""
        tokenizer = self.tokenizer.target
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        unused = set(range(self.model.config.decoder.vocabulary)) - set(tokenizer.vocabulary.values())
        return tuple(sorted((special | unused) - {self.end}))

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Tokens that, behind a word, go on with it."""
        return inner_tokens(self.tokenizer.target)

    @cached_property
    def _spellings(self) -> dict[str, list[int]]:
        return spellings(self.tokenizer.target)

    def _ids_of(self, words: Sequence[str]) -> list[int]:
        if isinstance(words, str):
            raise TypeError(f"suppressed={words!r} is one string, but a list of words is taken")
        return suppressed_ids(self.tokenizer.target, self._spellings, words) if words else []

    def _translate(
        self, sources: list[Source], options: Options, progress: Progress | None, aids: Aids
    ) -> list[Translation]:
        return aided(self, sources, options, progress, aids)

    def searched(
        self,
        sources: list[Source],
        options: Options,
        progress: Progress | None,
        terms: Sequence[Sequence[Term]] = (),
    ) -> list[Translation]:
        """What the model makes of each. With `terms`, it is held to those of each source."""
        pieces = self.plan(sources, options)
        if terms:
            pieces = [
                replace(piece, phrases=phrases_of(self.tokenizer.target, piece, terms[piece.number]))
                for piece in pieces
            ]
        open_pieces = [0] * len(sources)
        for piece in pieces:
            open_pieces[piece.number] += 1
        if progress is not None and (blank := open_pieces.count(0)):
            progress(blank)
        parts: list[list[Part]] = [[] for _ in sources]
        with self.ready():
            for batch, results in self.engine.search(pieces, options):
                for piece, result in zip(batch, results, strict=True):
                    parts[piece.number].append((piece, result))
                    open_pieces[piece.number] -= 1
                done = sum(open_pieces[number] == 0 for number in {piece.number for piece in batch})
                if progress is not None and done:
                    progress(done)
        return [self.assembled(source, own, options) for source, own in zip(sources, parts, strict=True)]

    def assembled(self, source: Source, parts: list[Part], options: Options) -> Translation:
        """A translation from what was found for its pieces, in any order."""
        return assemble(
            self.tokenizer,
            source.text,
            sorted(parts, key=lambda part: part[0].span),
            options.decoding,
            align=options.align and source.aligned,
            calibration=self.calibration,
        )

    def plan(self, sources: list[Source], options: Options) -> list[Piece]:
        """What is decoded at once: each text, or its sentences where they are parted or it is too long. A
        blank one has none."""
        limited = [self.limited(piece, options.decoding) for piece in planned(self, sources, options)]
        return helped(limited, sources, self.tokenizer, self.fuzzy, self.inline)

    def encode_all(self, texts: Sequence[str], sources: Sequence[Source], prompt: str) -> list[list[int]]:
        """A text of each source, behind a prompt."""
        told = [source.language if self.marks == "source" else self.reads(source.reads) for source in sources]
        return encode_sources(self.tokenizer, texts, told, prompt=prompt)

    def limited(self, piece: Piece, decoding: DecodeConfig) -> Piece:
        """With how many tokens its translation may have: no more than positions were learned for."""
        most = min(max(2 * len(piece.ids) + 20, decoding.minimum), decoding.maximum)
        room = self.engine.room(piece)
        return replace(piece, maximum=max(most if room is None else min(most, room), 1))

    def decode(self, pieces: list[Piece], options: Options) -> list[PieceResult]:
        """Some pieces in one batch; inside `ready`."""
        return self.engine.decode(pieces, options)

    def attention(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        layer: int | None = None,
        marks: Sequence[Sequence[int]] = (),
    ) -> list[np.ndarray]:
        """[target, source] without special tokens: the row of a token is what was looked at to write it;
        `marks` are those of the targets' languages, if there are any. Inside `ready`."""
        return self.engine.attention(sources, targets, layer, marks)

    @contextmanager
    def ready(self) -> Iterator[None]:
        with evaluating(self.model), inference(self.device, self.precision):
            yield
