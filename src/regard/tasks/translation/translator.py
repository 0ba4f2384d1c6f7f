"""Translating with a trained model: texts in, texts out, in their order.

    source   [<2de>] ids <eos>          the language token where the model writes several languages
    target   <sos> [forced prefix] ...  what the search finds, until <eos> or the maximum

Texts of like length are decoded together, within a budget of tokens; what a text becomes does not depend on
its neighbours. A text longer than the model was trained on is split into sentences, or refused, never cut. A
text of several sentences is split too, where the model was trained on single ones.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypedDict, Unpack, get_args, overload

import numpy as np
import torch

from regard.config import from_dict, to_dict
from regard.decode import DecodeConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.tasks.base.describe import Described
from regard.tasks.base.faster import Precision, check_precision, settle_precision
from regard.tasks.base.folder import (
    EXPORTED,
    FolderError,
    check_backed,
    load_quantized,
    load_weights,
    read_config,
    read_shape,
    read_tokenizer,
    require_task,
)
from regard.tasks.base.guards import CONFIG, check_decoding, folder_errors, read_share, read_whole, read_words
from regard.tasks.base.header import unfilled
from regard.tasks.base.predictor import Progress, evaluating, inference
from regard.tasks.translation.alignment import Alignment, source_spans, word_alignment
from regard.tasks.translation.engine import Options, SearchEngine, Split, TooLong, TorchEngine
from regard.tasks.translation.pieces import (
    Part,
    Piece,
    PieceResult,
    Source,
    assemble,
    encode_sources,
    number_sources,
)
from regard.tasks.translation.result import Translation, TranslationWarning
from regard.text import DataError, Origin, Tokenizer, splitting
from regard.text.training import each_text
from regard.train.ranks import find_device

SINGLE = 0.05
"""A model was trained on single sentences if no more of its training texts than this share hold several."""


class TranslateSettings(TypedDict, total=False):
    """What `Translator.translate` takes beside the texts."""

    to: str | Sequence[str] | None
    decoding: DecodeConfig | None
    prefixes: str | Sequence[str] | None
    suppressed: Sequence[str]
    too_long: TooLong
    split: Split
    align: bool
    batch_tokens: int | None
    keys: Sequence[int] | None
    progress: Progress | None


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
        decoding: DecodeConfig | None = None,
        precision: Precision = "float32",
        engine: SearchEngine | None = None,
    ) -> None:
        """`longest` is the most tokens of a source that the model was trained on, special ones included;
        `languages` are those it writes, if it is told which; `several_sentences` is the share of its training
        sources that hold several, if that is known; `decoding` applies where a call says no other. It runs
        where the model is, unless another `engine` does the search."""
        if longest < 3:
            raise ValueError(f"longest={longest} leaves no room for text beside the special tokens")
        self.model = model
        self.tokenizer = tokenizer
        self.longest = longest
        self.languages = languages
        self.several_sentences = several_sentences
        self.decoding = DecodeConfig() if decoding is None else decoding
        self.precision: Precision = precision
        self.start, self.end = tokenizer.require("start"), tokenizer.require("end")
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
            "decode": to_dict(self.decoding),
        }

    def with_model(self, model: Seq2Seq) -> "Translator":
        own: Any = {"longest": self.longest, "languages": self.languages, "decoding": self.decoding}
        own["several_sentences"] = self.several_sentences
        return Translator(model, self.tokenizer, precision=self.precision, **own)

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
        batch_tokens: int | None = None,
        keys: Sequence[int] | None = None,
        progress: Progress | None = None,
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
        batch_tokens  sources are decoded together while their number times their longest is no more than
                      this; a beam needs memory for as many rows of each. Unless given, what suits the device
        keys          numbers that the samples of each text hang on; unless given, its place in the list
        progress      called with how many more texts are done
        """
        options = self.options(decoding, suppressed, too_long, align, batch_tokens, split=split)
        single = isinstance(texts, str)
        listed = [texts] if isinstance(texts, str) else [*each_text(texts)]
        forced = [prefixes] if isinstance(prefixes, str) and single else prefixes
        if forced is None:
            forced = [""] * len(listed)
        if isinstance(forced, str) or len(forced) != len(listed):
            raise ValueError(f"{len(listed)} texts and prefixes={prefixes!r:.60}: give one for each text")
        sources = number_sources(listed, self.languages_of(to, len(listed)), forced, keys, 1)
        found = self._translate(sources, options, progress)
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
        align: bool = False,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Translation]:
        """The same for any number of lines: `window` of them are read, translated and given out at a time.
        Warns at the end if the model did not finish some of them."""
        if window < 1:
            raise ValueError(f"window={window} must be at least 1")
        options = self.options(decoding, suppressed, too_long, align, batch_tokens, split=split)
        self.languages_of(to, 1)
        return self._stream(each_text(lines), window, to, options, progress)

    def _stream(
        self, lines: Iterator[str], window: int, to: str | None, options: Options, progress: Progress | None
    ) -> Iterator[Translation]:
        count, unfinished = 0, 0
        while batch := list(itertools.islice(lines, window)):
            languages = self.languages_of(to, len(batch))
            sources = number_sources(batch, languages, [""] * len(batch), None, count + 1)
            found = self._translate(sources, options, progress)
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
        (language,) = self.languages_of(to, 1)
        (ids,) = encode_sources(self.tokenizer, [source], language)
        written = self.tokenizer.encode(target)
        with self.ready():
            (weights,) = self.attention([ids], [list(written.ids)], layer)
        spans = source_spans(self.tokenizer, source)
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
        )
        self.engine.check(options)
        return options

    @property
    def trained_on_single_sentences(self) -> bool:
        """False where that is not known."""
        return self.several_sentences is not None and self.several_sentences <= SINGLE

    def languages_of(self, to: str | Sequence[str] | None, count: int) -> list[str | None]:
        """The target language of each of so many texts; None for all where the model writes one only."""
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
    def never_written(self) -> tuple[int, ...]:
        """What is never written: special tokens but for the end, and rows without a token."""
        tokenizer = self.tokenizer
        special = {tokenizer.vocabulary[token] for token in tokenizer.specials}
        unused = set(range(self.model.config.decoder.vocabulary)) - set(tokenizer.vocabulary.values())
        return tuple(sorted((special | unused) - {self.end}))

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
        self, sources: list[Source], options: Options, progress: Progress | None
    ) -> list[Translation]:
        pieces = self.plan(sources, options)
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
        for own in parts:
            own.sort(key=lambda part: part[0].span)
        return [
            assemble(self.tokenizer, source.text, own, options.decoding, align=options.align)
            for source, own in zip(sources, parts, strict=True)
        ]

    def plan(self, sources: list[Source], options: Options) -> list[Piece]:
        """What is decoded at once: each text, or its sentences where they are parted or it is too long. A
        blank one has none."""
        full = [(number, source) for number, source in enumerate(sources) if source.text.strip()]
        stripped = [source.text.strip() for _, source in full]
        encoded = encode_sources(self.tokenizer, stripped, [source.language for _, source in full])
        prefixes = self.tokenizer.encode_batch([source.prefix.rstrip() for _, source in full])
        pieces = []
        for (number, source), text, ids, prefix in zip(full, stripped, encoded, prefixes, strict=True):
            if len(ids) == len(encode_sources(self.tokenizer, [""], source.language)[0]):
                continue  # nothing but characters that leave no token
            start = source.text.index(text)
            own = [Piece(number, (start, start + len(text)), text, ids, prefix, source.key << 20)]
            parted = options.split and len(splitting.sentences(source.text)) > 1
            if parted or (len(ids) > self.longest and options.too_long == "split"):
                own = self._split(number, source, prefix, cut=options.too_long == "split")
            most = max((len(piece.ids) for piece in own), default=0)
            lengths = f"{most} tokens, but the model was trained on {self.longest} at most"
            if most > self.longest and options.too_long == "error":
                remedy = "shorten it, or translate with too_long='split'"
                raise DataError(Origin("input", source.line), "too long:", lengths, remedy)
            if most > self.longest:
                message = f"line {source.line}: {lengths}; its translation may be poor, or stop early"
                warnings.warn(message, TranslationWarning, stacklevel=4)
            pieces += own
        return [self.limited(piece, options.decoding) for piece in pieces]

    def limited(self, piece: Piece, decoding: DecodeConfig) -> Piece:
        """With how many tokens its translation may have: no more than positions were learned for."""
        most = min(max(2 * len(piece.ids) + 20, decoding.minimum), decoding.maximum)
        room = self.engine.room(piece)
        return replace(piece, maximum=max(most if room is None else min(most, room), 1))

    def decode(self, pieces: list[Piece], options: Options) -> list[PieceResult]:
        """Some pieces in one batch; inside `ready`."""
        return self.engine.decode(pieces, options)

    def attention(
        self, sources: list[list[int]], targets: list[list[int]], layer: int | None = None
    ) -> list[np.ndarray]:
        """[target, source] without special tokens: the row of a token is what was looked at to write it;
        inside `ready`."""
        return self.engine.attention(sources, targets, layer)

    def _split(self, number: int, source: Source, prefix: list[int], *, cut: bool) -> list[Piece]:
        """The sentences of a text; with `cut`, in pieces where they are too long themselves."""

        def fits(part: str) -> bool:
            return not cut or len(encode_sources(self.tokenizer, [part], source.language)[0]) <= self.longest

        spans = splitting.pieces(source.text, fits)
        encoded = encode_sources(self.tokenizer, [source.text[a:b] for a, b in spans], source.language)
        marks = len(encode_sources(self.tokenizer, [""], source.language)[0])
        read = [(span, ids) for span, ids in zip(spans, encoded, strict=True) if len(ids) > marks]
        pieces = []
        for place, (span, ids) in enumerate(read):
            forced, key = [] if place else prefix, (source.key << 20) + place
            pieces.append(Piece(number, span, source.text[slice(*span)], ids, forced, key))
        return pieces

    @contextmanager
    def ready(self) -> Iterator[None]:
        with evaluating(self.model), inference(self.device, self.precision):
            yield


def open_translator(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Translator:
    """What a training has made."""
    folder = Path(folder)
    if (folder / EXPORTED).is_file():
        raise FolderError(f"{folder}: exported for CTranslate2; translate with --engine ctranslate2")
    require_task(folder, Translator.task)
    config, place = read_config(folder), find_device(device)
    precision = settle_precision(precision, place)
    with folder_errors(folder / CONFIG):
        shape = read_shape(folder, config, Seq2SeqConfig)
        decoding = from_dict(DecodeConfig, config["decode"], "decode")
        check_decoding(decoding)
        longest, languages = max(read_whole(config, "longest"), 3), read_words(config, "languages")
        several = read_share(config, "several_sentences")  # older folders do not know
    if precision == "int8" and place == "cpu":
        model = load_quantized(folder, lambda: Seq2Seq(shape))
    else:
        check_backed(folder, lambda: Seq2Seq(shape))
        model = unfilled(lambda: Seq2Seq(shape))
        load_weights(folder, model)
    vocabulary = min(shape.encoder.vocabulary, shape.decoder.vocabulary)
    model, tokenizer = model.to(place).eval(), read_tokenizer(folder, vocabulary)
    own: Any = {"longest": longest, "languages": languages, "several_sentences": several}
    with folder_errors(folder / CONFIG):
        return Translator(model, tokenizer, decoding=decoding, precision=precision, **own)
