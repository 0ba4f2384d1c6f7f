"""Documents in chunks, for pretraining: their tokens on disk.

A chunk is up to so many tokens of one document, a row of the token store. It ends at the end of a line where
it is at least half full there, or else wherever it is full. Chunks hold all tokens of a document once and in
order; what is left over at its end is a short one.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import to_dict
from regard.data import Store, fingerprint, id_type, open_or_build
from regard.tasks.base.documents import PASSAGE, DocumentCorpus, Passage
from regard.tasks.base.splits import Split
from regard.text import DataError, Origin, Tokenizer


def cut(lines: Iterable[tuple[int, Sequence[int]]], size: int) -> Iterator[tuple[int, list[int]]]:
    """Chunks of up to so many tokens, each with the number of its document, from lines that come with it."""
    document, held = 0, list[int]()
    for number, ids in lines:
        if number != document and held:
            yield document, held
            held = []
        document = number
        while len(held) + len(ids) > size:
            if 2 * len(held) >= size:
                yield document, held
                held = []
            else:
                room = size - len(held)
                yield document, [*held, *ids[:room]]
                held, ids = [], ids[room:]
        held.extend(ids)
    if held:
        yield document, held


def encoded(passages: Iterable[Passage], tokenizer: Tokenizer) -> Iterator[tuple[int, list[int]]]:
    """The ids of every line, with the number of its document. Many lines are encoded at once."""
    a = tokenizer.encode("a").ids
    gap = " " if tokenizer.decode([*a, *a]) == "aa" else ""  # where a word does not carry its space
    numbers, lines, size, number = list[int](), list[str](), 0, -1
    for passage in passages:
        number += passage.begins
        numbers += [number] * len(passage.lines)
        first = passage.begins
        lines += [line if first and not place else gap + line for place, line in enumerate(passage.lines)]
        size += sum(map(len, passage.lines))
        if size >= PASSAGE:
            yield from zip(numbers, tokenizer.encode_batch(lines), strict=True)
            numbers, lines, size = [], [], 0
    yield from zip(numbers, tokenizer.encode_batch(lines), strict=True)


def build_store(corpus: DocumentCorpus, split: Split, tokenizer: Tokenizer, folder: Path, size: int) -> Store:
    """The documents of a split in chunks of up to `size` tokens, on disk: columns `ids` and `document`. Built
    only if the one there is not of the same text and settings."""
    config = corpus.config
    paths = corpus.paths("train" if split == "valid" and not config.valid else split)
    settings = json.dumps(to_dict(replace(config, root="")))  # the same text elsewhere is the same
    wanted = fingerprint(paths, tokenizer.fingerprint(), split, settings, str(size), str(corpus.share))

    def rows() -> Iterator[dict[str, Any]]:
        for document, ids in cut(encoded(corpus.passages(split), tokenizer), size):
            yield {"ids": ids, "document": document}

    columns = {"ids": id_type(len(tokenizer)), "document": np.dtype(np.int64)}
    store = open_or_build(folder, wanted, columns, rows)
    if not len(store):
        raise DataError(Origin(str(paths[0])), f"no text for {split}", remedy="name files that have some")
    return store
