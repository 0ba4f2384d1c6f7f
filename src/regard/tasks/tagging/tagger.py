"""Tagging with a trained model: sentences in, a tag for each word out.

The likeliest of all well-formed sequences (decode="valid"): with p_i(t) the probability of tag t for word i,

    argmax  sum_i log p_i(t_i)     where an I-x follows B-x or I-x only

Where the likeliest tags of the words are well-formed, they are that sequence; else Viterbi's recursion finds
it (1967). tests/tasks/encoders/test_tagger.py holds it equal to a search through all sequences.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TextIO, cast, get_args, overload

import numpy as np

from regard.disk import full_disk
from regard.models.heads import TagHead
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.guards import CONFIG, folder_errors
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Piece, Reader, ReadingWarning, ReadText
from regard.tasks.tagging.data import mark_spans
from regard.tasks.tagging.lines import LineFormat, TagCounts, line_format, tag_lines
from regard.tasks.tagging.recipe import Decode
from regard.tasks.tagging.windows import windows
from regard.text import Span, spans, to_iob2
from regard.text.files import scan
from regard.text.training import each_text, no_table

Words = Sequence[str]

SILENT = -1e4
"""The log-probability of all tags but one of a word that left no token."""


@dataclass(frozen=True, slots=True)
class TaggedWords:
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """Well-formed IOB2, where tags mark spans."""
    probabilities: tuple[float, ...]
    """Of each word's tag; nan for a word that left no token."""
    spans: tuple[Span, ...]
    """None where tags mark none."""
    values: tuple[float, ...] = ()
    """Of a model that gives words numbers: these; its tags are the same, written out. nan for a word that
    left no token."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "tags": list(self.tags),
            "probabilities": [None if np.isnan(each) else each for each in self.probabilities],
            **({"values": [None if np.isnan(each) else each for each in self.values]} if self.values else {}),
            "spans": [
                {**asdict(span), "text": " ".join(self.words[span.start : span.end])} for span in self.spans
            ],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """Sentences as a tagger reads them."""

    pieces: Sequence[Piece]
    owners: np.ndarray
    """For each token of the pieces, the word that it speaks for, counted over all sentences; -1: none."""
    sizes: Sequence[int]
    """Words of each sentence."""


class Tagger(EncoderPredictor):
    """Sentences in, a tag for each word out.

    >>> tagger = regard.load("runs/entities", regard.Tagger)
    >>> tagger.tag("Ann Leeson met Bob.").tags
    ('B-PER', 'I-PER', 'O', 'B-PER', 'O')
    """

    task: ClassVar[str] = "tag"

    def __init__(self, reader: Reader, labels: Sequence[str], *, decode: Decode = "greedy") -> None:
        """`labels` are the tags by their number; none: a number is given for each word. "valid" is for models
        that learned IOB2, as those trained here have; of others, "greedy" reads an I that continues nothing
        as the beginning of a span, which does for IOB1 too."""
        if not isinstance(reader.model.head, TagHead):
            raise TypeError(f"a {type(reader.model.head).__name__} does not tag: give a model with a TagHead")
        scores = reader.model.head.output.out_features
        if len(labels) != scores and (labels or scores != 1):
            raise ValueError(f"{len(labels)} labels for a model of {scores} tags: give one for each")
        if decode not in get_args(Decode):
            raise ValueError(f"decode={decode!r} is none of {', '.join(get_args(Decode))}")
        super().__init__(reader)
        self.labels = tuple(labels)
        self.decode = decode
        self.spans = mark_spans(labels)
        """Whether its tags mark some."""
        self._fallback = self.labels.index("O") if "O" in self.labels else 0
        self._allowed = allowed(self.labels)

    def about(self) -> dict[str, Any]:
        scheme = "IOB2" if self.spans else "none"
        own = {"labels": list(self.labels), "scheme": scheme, "decode": self.decode}
        return {**super().about(), **own, "problem": "single" if self.labels else "number"}

    def read_text(self, text: str, second: str | None = None) -> ReadText:
        if second is not None:
            return super().read_text(text, second)
        words = self.words(text)
        return ReadText(self.tokenizer.encode_words(words, template="cls"), text, words)

    def with_reader(self, reader: Reader) -> "Tagger":
        return Tagger(reader, self.labels, decode=self.decode)

    @overload
    def tag(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, sentences: str
    ) -> TaggedWords: ...

    @overload
    def tag(
        self, sentences: Iterable[str | Words], *, progress: Progress | None = None
    ) -> list[TaggedWords]: ...

    def tag(
        self, sentences: str | Iterable[str | Words], *, progress: Progress | None = None
    ) -> TaggedWords | list[TaggedWords]:
        """Sentences as lists of words or as plain text, or a single plain text. A text is split as the
        tokenizer splits words, at spaces and signs.

        Of any length: those longer than the model can read are read in overlapping windows. A word that
        leaves no token (a zero-width sign) gets O or, where there is none, the first of the labels, which in
        models trained here is the most frequent.
        """
        if isinstance(sentences, str):
            return self.tag([sentences])[0]
        split = [
            self.words(each) if isinstance(each, str) else tuple(each_text(each))
            for each in no_table(sentences)
        ]
        return self.tagged(split, self.lay_out(split), progress=progress)

    def tagged(
        self, sentences: Sequence[tuple[str, ...]], laid: Laid, *, progress: Progress | None = None
    ) -> list[TaggedWords]:
        """The same of sentences that are laid out already."""
        return [
            self._tagged(words, scores)
            for words, scores in zip(sentences, self.score(laid, progress=progress), strict=True)
        ]

    def predict(self, sentences: Iterable[str | Words]) -> list[list[str]]:
        """As taggers of scikit-learn's kind: the tags of each sentence."""
        return [list(each.tags) for each in self.tag(sentences)]

    def words(self, text: str) -> tuple[str, ...]:
        """The words of a text, cut out of it."""
        encoding = self.reader.tokenizer.encode(text)
        bounds: dict[int, tuple[int, int]] = {}
        for word, (start, end) in zip(encoding.words, encoding.offsets, strict=True):
            if word is not None:
                begin, stop = bounds.get(word, (start, end))
                bounds[word] = (min(begin, start), max(stop, end))
        found = (text[start:end].strip() for start, end in bounds.values())
        return tuple(word for word in found if word)

    def scores(self, sentences: Sequence[Words], *, progress: Progress | None = None) -> list[np.ndarray]:
        """For each sentence, float32 [words, tags]: before the softmax; nan for words that left no token.

        The mean of the scores of a word's tokens is the score of their mean, for the head is linear.
        """
        return self.score(self.lay_out(sentences), progress=progress)

    def lay_out(self, sentences: Sequence[Words]) -> Laid:
        """Sentences as they are read; for those that are scored again and again."""
        pieces: list[Piece] = []
        owners: list[np.ndarray] = []
        whole = cast(TagHead, self.reader.model.head).words == "mean"
        cut = before = 0
        for number, words in enumerate(sentences):
            encoding = self.reader.tokenizer.encode_words(words, template="cls")
            found, long = windows(encoding, self.reader.longest)
            for part in found:
                pieces.append(Piece(part.ids, None, number))
                owner = np.full(len(part.ids), -1)
                for word, place in part.spoken:
                    owner[place] = before + word
                owners.append(owner[np.asarray(part.firsts)] if whole else owner)
            cut += long
            before += len(words)
        if cut:
            warnings.warn(
                f"{cut} words have more tokens than the {self.reader.longest} that this model reads: their "
                "first ones spoke for them",
                ReadingWarning,
                stacklevel=4,
            )
        tokens = np.concatenate(owners) if owners else np.zeros(0, dtype=np.int64)
        return Laid(pieces, tokens, [len(words) for words in sentences])

    def score(self, laid: Laid, *, progress: Progress | None = None) -> list[np.ndarray]:
        head = cast(TagHead, self.reader.model.head)
        rows = self.reader.read(
            laid.pieces, lambda states, _: self.reader.head(states), rows="tokens", progress=progress
        )
        sums = np.zeros((sum(laid.sizes), head.output.out_features), np.float32)
        spoken = laid.owners >= 0
        if rows:
            np.add.at(sums, laid.owners[spoken], np.concatenate(rows)[spoken])
        counts = np.bincount(laid.owners[spoken], minlength=len(sums)).astype(np.float32)
        counts[counts == 0] = np.nan
        return np.split(sums / counts[:, None], np.cumsum(laid.sizes)[:-1]) if laid.sizes else []

    def choose(self, scores: np.ndarray) -> np.ndarray:
        """The tags of a sentence, as numbers, from the scores of its words."""
        logs = log_softmax(scores)
        silent = np.isnan(logs[:, 0])
        logs[silent] = SILENT
        logs[silent, self._fallback] = 0.0
        if self._allowed is None or self.decode == "greedy":
            return logs.argmax(axis=1)
        return best_valid(logs, *self._allowed)

    def _tagged(self, words: tuple[str, ...], scores: np.ndarray) -> TaggedWords:
        if not self.labels:
            values = scores[:, 0].astype(float).tolist()
            spelled = ("" if np.isnan(value) else f"{value:.4f}" for value in values)
            chances = tuple(value * 0 + 1 for value in values)  # nan stays nan
            return TaggedWords(words, tuple(spelled), chances, (), tuple(values))
        numbers = self.choose(scores)
        chances = np.exp(log_softmax(scores)[np.arange(len(words)), numbers]).tolist()
        tags = tuple(self.labels[number] for number in numbers)
        if not self.spans:
            return TaggedWords(words, tags, tuple(chances), ())
        tags = to_iob2(tags, "IOB1")  # an I that continues nothing becomes a B
        return TaggedWords(words, tags, tuple(chances), spans(tags))

    def tag_file(
        self,
        source: Path | str,
        out: Path | str | TextIO,
        *,
        format: LineFormat | None = None,
        word: int = 0,
        tag: str | int | None = None,
        comment: str = "",
        replace: bool = False,
        window: int = 1000,
        progress: Progress | None = None,
    ) -> TagCounts:
        """Tag the sentences of a file, and write them into another: see `regard.tasks.tagging.lines`.
        Unless given, the name tells the format."""
        form = format or line_format(source)
        columns: Any = {"word": word, "tag": tag, "comment": comment, "replace": replace}
        how: Any = {"format": form, "file": str(source), "window": window, "progress": progress}
        with _writable(out, source) as file:
            return tag_lines(scan(source), file, self.tag, **columns | how)


def open_tagger(folder: Path | str, *, device: str = "auto", precision: Precision | None = None) -> Tagger:
    """What a training has made, or a folder of Hugging Face's."""
    checkpoint, reader = open_reader(folder, "tag", device=device, precision=precision)
    labels = () if checkpoint.problem == "number" else checkpoint.labels
    with folder_errors(Path(folder) / CONFIG):
        return Tagger(reader, labels, decode=checkpoint.decode)


@contextmanager
def _writable(out: Path | str | TextIO, source: Path | str) -> Iterator[TextIO]:
    if not isinstance(out, str | Path):
        yield out
        return
    if Path(out).exists() and Path(source).exists() and Path(out).samefile(source):
        raise ValueError(f"{out} is the file that is read: choose another to write")
    with full_disk(out), Path(out).open("w", encoding="utf-8", newline="\n") as file:
        yield file


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """float64, over the last axis."""
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def allowed(labels: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """Which tags may begin a sentence, bool [tags], and which may follow which, bool [before, after]; None
    where no sequence would be well-formed, or tags are not those of IOB2."""
    begins = np.array([not label.startswith("I-") for label in labels])
    if not begins.any() or not mark_spans(labels):
        return None
    same = np.array([[one[1:] == other[1:] and one != "O" for other in labels] for one in labels])
    return begins, begins[None, :] | same


def best_valid(logs: np.ndarray, begins: np.ndarray, follows: np.ndarray) -> np.ndarray:
    """The likeliest well-formed sequence, from log-probabilities [words, tags]; of equal ones, tags of lower
    numbers."""
    greedy = logs.argmax(axis=1)
    if not len(logs) or (begins[greedy[0]] and follows[greedy[:-1], greedy[1:]].all()):
        return greedy
    steps = np.where(follows, 0.0, -np.inf)
    best = logs[0] + np.where(begins, 0.0, -np.inf)
    back = np.zeros(logs.shape, dtype=np.int64)
    for place in range(1, len(logs)):
        paths = best[:, None] + steps
        back[place] = paths.argmax(axis=0)
        best = paths.max(axis=0) + logs[place]
    chosen = [int(best.argmax())]
    for place in range(len(logs) - 1, 0, -1):
        chosen.append(int(back[place, chosen[-1]]))
    return np.array(chosen[::-1])
