"""Words by what they mean where they stand: found, grouped and labelled, by their vectors in a chosen layer.

    search      words of a corpus that mean what the *marked* word of a sentence means there
    cluster     the words of a text in groups; of one word, its senses
    classify    labels for words, by logistic regression on vectors of words whose labels are known

The encoder stays as it is. A word's vector is the mean of its tokens' states.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt
from rich.console import Console

from regard.config import ConfigError
from regard.meaning import cluster as clustering
from regard.meaning import describe
from regard.meaning.nearest import nearest
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.texts import numbered_texts, on_one_line
from regard.tasks.base.vectors import normalised
from regard.tasks.classification.frozen import FrozenClassifier
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.text import DataError, Origin, read_conll

AT_ONCE = 256
"""Texts whose words are held at once."""


@dataclass(frozen=True, slots=True)
class WordPlace:
    """A word where it stands."""

    line: int
    """Of the file, from 1."""
    start: int
    end: int
    text: str
    """The whole line."""

    @property
    def word(self) -> str:
        return self.text[self.start : self.end]

    @property
    def shown(self) -> str:
        return f"{self.text[: self.start]}*{self.word}*{self.text[self.end :]}"


def read_words(
    embedder: Embedder, lines: Sequence[tuple[int, str]], layer: int, only: str = ""
) -> tuple[list[WordPlace], npt.NDArray[np.float32]]:
    """All words of numbered lines with their vectors in this layer; `only` one of them, in capitals or not.
    Signs are no words."""
    places: list[WordPlace] = []
    vectors: list[npt.NDArray[np.float32]] = []
    with counting("lines", total=len(lines)) as advance:
        for begin in range(0, len(lines), AT_ONCE):
            part = lines[begin : begin + AT_ONCE]
            read = embedder.words([text for _, text in part], layers=[layer], too_long="cut")
            for (line, text), own in zip(part, read, strict=True):
                for (start, end), vector in zip(own.spans, own.vectors[0], strict=True):
                    word = text[start:end]
                    if re.search(r"\w", word) and (not only or word.lower() == only.lower()):
                        places.append(WordPlace(line, start, end, text))
                        vectors.append(vector)
            if advance is not None:
                advance(len(part))
    width = embedder.model.config.encoder.d_model
    return places, np.stack(vectors) if vectors else np.zeros((0, width), np.float32)


def marked_word(query: str) -> tuple[str, tuple[int, int]]:
    """A sentence, and where the word stands in it that is marked: "the *bank* of the river". A word alone
    needs no marks."""
    found = [*re.finditer(r"\*(\w[^*]*)\*", query)]
    if len(found) == 1:
        [each] = found
        plain = query[: each.start()] + each[1] + query[each.end() :]
        return plain, (each.start(), each.start() + len(each[1]))
    if not found and re.fullmatch(r"\s*\w+\s*", query):
        return query.strip(), (0, len(query.strip()))
    raise ConfigError(f"{query!r:.60}: which word? Mark one, as in 'the *bank* of the river'")


def word_vector(embedder: Embedder, text: str, span: tuple[int, int], layer: int) -> npt.NDArray[np.float32]:
    [read] = embedder.words([text], layers=[layer])
    own = _inside(read.spans, *span)
    if not own:
        raise ConfigError(f"{text!r:.60}: the model's tokenizer sees nothing of {text[slice(*span)]!r}")
    return np.asarray(read.vectors[0, own].mean(axis=0))


def _inside(spans: Sequence[tuple[int, int]], begin: int, end: int) -> list[int]:
    """Which of them reach into this stretch of the text."""
    return [place for place, (start, stop) in enumerate(spans) if start < end and stop > begin]


def _lines(file: str, files: FileOptions) -> list[tuple[int, str]]:
    lines = [*numbered_texts(file, files)]
    if not lines:
        raise DataError(Origin(file), "no text", remedy="give a file with a text a line")
    return lines


def search_words(
    model: Path, corpus: Path, queries: Sequence[str], *, top: int, layer: int, device: str, as_json: bool,
    console: Console, files: FileOptions = AS_NAMED,
) -> None:  # fmt: skip
    if top < 1:
        raise ConfigError(f"--top {top}: ask for 1 or more")
    lines = _lines(str(corpus), files)
    embedder = open_embedder(model, device=device)
    asked = [marked_word(query) for query in queries]
    wanted = np.stack([word_vector(embedder, text, span, layer) for text, span in asked])
    places, vectors = read_words(embedder, lines, layer)
    if not places:
        raise ConfigError(f"{corpus}: no words in it")
    rows, scores = nearest(normalised(wanted), normalised(vectors), min(top, len(places)))
    for query, own, near in zip(queries, rows.tolist(), scores.tolist(), strict=True):
        hits = [(places[row], score) for row, score in zip(own, near, strict=True)]
        if as_json:
            plain = [
                {
                    "line": at.line,
                    "word": at.word,
                    "start": at.start,
                    "end": at.end,
                    "text": at.text,
                    "score": score,
                }
                for at, score in hits
            ]
            say(console, json.dumps({"query": query, "hits": plain}, ensure_ascii=False))
            continue
        if len(queries) > 1:
            say(console, f"\n{query}")
        for at, score in hits:
            say(console, f"{score:.4f}  {at.line:>6}  {on_one_line(at.shown)}")


def cluster_words(
    model: Path, file: str, *, word: str, clusters: int | None, threshold: float | None, smallest: int,
    examples: int, seed: int, layer: int, device: str, as_json: bool, console: Console,
    files: FileOptions = AS_NAMED,
) -> None:  # fmt: skip
    lines = _lines(file, files)
    places, vectors = read_words(open_embedder(model, device=device), lines, layer, only=word)
    if not places:
        raise ConfigError(
            f"{file}: the word {word!r} is nowhere in it" if word else f"{file}: no words in it"
        )
    found = (
        clustering.kmeans(vectors, clusters, seed)
        if threshold is None
        else clustering.communities(vectors, threshold, smallest)
    )
    if as_json:
        for at, number in zip(places, found.numbers(), strict=True):
            plain = {"cluster": number, "line": at.line, "word": at.word, "start": at.start, "end": at.end}
            say(console, json.dumps(plain, ensure_ascii=False))
        return
    # of one word the sentences tell its senses apart, of many the words themselves
    describe.render(found, [at.shown if word else at.word for at in places], console, examples)


def classify_words(
    model: Path, file: str, *, labelled: Path, layer: int, device: str, as_json: bool, out: TextIO,
    encoding: str = "utf-8",
) -> None:  # fmt: skip
    """Every word of a file with its label and how sure it is; an empty line between texts that have words."""
    embedder = open_embedder(model, device=device)
    names, vectors = _labelled(embedder, labelled, layer, encoding)
    if len({*names}) < 2:
        raise DataError(Origin(str(labelled)), "one label for all words", remedy="give words of several")
    size = float(np.linalg.norm(vectors, axis=1).mean())  # strengths are meant for vectors of length 1
    found = FrozenClassifier.fit(vectors / size, names)
    places, rows = read_words(embedder, _lines(file, FileOptions(encoding=encoding)), layer)
    chances = found.predict_proba(rows / size)
    line = places[0].line if places else 0
    for at, own in zip(places, chances, strict=True):
        best = int(own.argmax())
        label, chance = found.facts.labels[best], float(own[best])
        if at.line != line and not as_json:
            out.write("\n")
        line = at.line
        if as_json:
            plain = {"line": at.line, "word": at.word, "label": label, "probability": chance}
            out.write(json.dumps(plain, ensure_ascii=False) + "\n")
        else:
            out.write(f"{at.word}\t{label}\t{chance:.4f}\n")


def _labelled(
    embedder: Embedder, path: Path, layer: int, encoding: str
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """The labels of the words of a CoNLL file, and their vectors; of words that left a token."""
    names: list[str] = []
    vectors: list[npt.NDArray[np.float32]] = []
    for sentences in _parts(path, encoding):
        texts = [" ".join(words) for words, _ in sentences]
        read = embedder.words(texts, layers=[layer], too_long="cut")
        for (words, tags), own in zip(sentences, read, strict=True):
            begin = 0
            for word, tag in zip(words, tags, strict=True):
                end = begin + len(word)
                inside = [
                    place for place, (start, stop) in enumerate(own.spans) if start < end and stop > begin
                ]
                if inside:
                    names.append(tag)
                    vectors.append(np.asarray(own.vectors[0, inside].mean(axis=0)))
                begin = end + 1
    if not vectors:
        raise DataError(Origin(str(path)), "no labelled words", remedy="give columns of words and labels")
    return names, np.stack(vectors)


def _parts(path: Path, encoding: str) -> Iterator[list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    part: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for record in read_conll(path, scheme=None, encoding=encoding):
        part.append((record.words, record.tags))
        if len(part) == AT_ONCE:
            yield part
            part = []
    if part:
        yield part
