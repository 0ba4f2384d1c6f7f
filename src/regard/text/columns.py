"""Sentences in columns: one word a line, a blank line after each sentence (CoNLL, CoNLL-U)."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from regard.text.charsets import check_encoding, check_separator
from regard.text.files import LONGEST, scan
from regard.text.records import DataError, OnError, Origin, Skipped, Tagged, sift
from regard.text.tags import Scheme, TagError, detect_scheme, to_iob2

ConlluColumn = Literal["FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]

_DOCUMENT_MARK = "-DOCSTART-"
_CONLLU_ID = re.compile(r"[0-9]+([-.][0-9]+)?")


def read_conll(
    path: str | Path,
    *,
    word: int = 0,
    tag: int = -1,
    scheme: Scheme | Literal["detect"] | None = "detect",
    comment: str | None = None,
    longest: int = LONGEST,
    encoding: str = "utf-8",
    separator: str | None = None,
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Tagged]:
    """Sentences of words with their tags, in IOB2 whatever scheme the file is in.

    Columns stand apart by the `separator`, several spaces counting as one; unless it is given, by tabs if the
    line of the first word has one, else by spaces. "detect" reads the file
    twice and takes the scheme that fits most sentences; None leaves tags as they are. Lines that begin with
    `comment` and -DOCSTART- lines are passed over. A broken line costs its sentence, which counts once.
    """
    if scheme not in (*get_args(Scheme), "detect", None):
        choices = ", ".join(get_args(Scheme))
        raise ValueError(f"scheme={scheme!r} is unknown: choose from {choices}, detect and None")
    check_encoding(encoding)
    separator, note = check_separator(separator) or "", ""
    if scheme == "detect":
        blocks = _scan_blocks(path, comment, longest, encoding)
        unread = sift(_read_conll(str(path), blocks, word, tag, None, "", separator), "skip", Skipped())
        scheme = detect_scheme(sentence.tags for sentence in unread)
        note = f", read as {scheme} (detected)"
    blocks = _scan_blocks(path, comment, longest, encoding)
    return sift(_read_conll(str(path), blocks, word, tag, scheme, note, separator), on_error, skipped)


def read_conllu(
    path: str | Path,
    *,
    tag: ConlluColumn = "UPOS",
    longest: int = LONGEST,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Tagged]:
    """The syntactic words of a Universal Dependencies treebank with one column as their tags.

    The lines of multiword tokens (1-2) are passed over, for their words follow; so are empty nodes (1.1).
    """
    if tag not in get_args(ConlluColumn):
        choices = ", ".join(get_args(ConlluColumn))
        raise ValueError(f"tag={tag!r} is no column of CoNLL-U: choose from {choices}")
    place = 1 + get_args(ConlluColumn).index(tag)  # the ID comes before
    check_encoding(encoding)
    blocks = _scan_blocks(path, "#", longest, encoding)
    return sift(_read_conllu(str(path), blocks, place), on_error, skipped)


_Block = list[tuple[int, str]]
"""The numbered lines of one sentence."""


def _scan_blocks(
    path: str | Path, comment: str | None, longest: int, encoding: str
) -> Iterator[_Block | DataError]:
    """Sentences as their lines; for one with a broken line, its first error.

    A sentence is held to the limit of a line, or a file without blank lines would be read into memory whole.
    """
    file = str(path)
    block: _Block = []
    size = 0
    error: DataError | None = None
    lines = chain(scan(path, longest, encoding=encoding), [""])  # the last sentence ends with the file
    for number, line in enumerate(lines, 1):
        if isinstance(line, DataError):
            error = error or line
        elif not line.strip(" \t") or line.startswith(_DOCUMENT_MARK):
            if error or block:
                yield error or block
            block, size, error = [], 0, None
        elif error is None and not (comment and line.startswith(comment)):
            block.append((number, line))
            size += len(line)
            if size > longest:
                first = Origin(file, block[0][0])
                error = DataError(first, "sentence too long", f"(at most {longest} characters)")


def _read_conll(
    file: str,
    blocks: Iterable[_Block | DataError],
    word: int,
    tag: int,
    scheme: Scheme | None,
    note: str,
    separator: str,
) -> Iterator[Tagged | DataError]:
    width = 0
    for block in blocks:
        if isinstance(block, DataError):
            yield block
            continue
        if not width:
            number, line = block[0]
            separator = separator or ("\t" if "\t" in line else " ")
            width = len(_split(line, separator))
            if not all(-width <= column < width for column in (word, tag)) or (width == 1 and word != tag):
                remedy = f"there are {width} columns, counted from 0: check word={word} and tag={tag}"
                other = next((mark for mark in ";,|" if width == 1 and mark in line), None)
                if other is not None:
                    remedy += f"; the columns are parted by {separator!r}: pass separator={other!r}"
                raise DataError(Origin(file, number), "no such column", remedy=remedy)
        try:
            rows = [_split_row(file, number, line, separator, width) for number, line in block]
            tags = tuple([row[tag] for row in rows])
            words = tuple([row[word] for row in rows])
            if scheme is not None:
                tags = to_iob2(tags, scheme)
        except TagError as error:
            yield DataError(Origin(file, block[error.position][0]), "wrong tag", f"({error.problem}){note}")
        except DataError as error:
            yield error
        else:
            yield Tagged(words, tags, Origin(file, block[0][0]))


def _read_conllu(file: str, blocks: Iterable[_Block | DataError], place: int) -> Iterator[Tagged | DataError]:
    for block in blocks:
        if isinstance(block, DataError):
            yield block
            continue
        try:
            rows = [_split_word(file, number, line) for number, line in block]
        except DataError as error:
            yield error
            continue
        rows = [row for row in rows if row[0].isdecimal()]
        words, tags = tuple([row[1] for row in rows]), tuple([row[place] for row in rows])
        first = Origin(file, block[0][0])
        yield Tagged(words, tags, first) if words else DataError(first, "a sentence without words")


def _split_word(file: str, number: int, line: str) -> list[str]:
    row = _split_row(file, number, line, "\t", 10)
    if not _CONLLU_ID.fullmatch(row[0]):
        raise DataError(Origin(file, number), "malformed ID", f"{row[0]!r} (there are 1, 1-2 and 1.1)")
    return row


def _split_row(file: str, number: int, line: str, separator: str, width: int) -> list[str]:
    row = _split(line, separator)
    if len(row) != width:
        particulars = f"({len(row)} columns where {width} are expected)"
        raise DataError(Origin(file, number), "ragged row", particulars)
    if "" in row:
        raise DataError(Origin(file, number), "empty cell", f"in column {row.index('')}")
    return row


def _split(line: str, separator: str) -> list[str]:
    # Not str.split(): it would also split a word at a no-break space.
    cells = line.split(separator)
    return [cell for cell in cells if cell] if separator == " " else cells
