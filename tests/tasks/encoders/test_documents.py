"""Documents become chunks that hold every token once and in order, and never cross from one to another."""

import json
from dataclasses import replace
from itertools import chain, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.encoders import documents
from regard.tasks.encoders.documents import DocumentCorpus, DocumentsConfig, build_store, cut, parted
from regard.text import DataError, Tokenizer, TokenizerConfig

LINES = ["the old dog", "sees a tree", "a big house", "the red river"]
SIZES = st.integers(1, 9)
TEXTS = st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=6), min_size=1, max_size=5)
"""Documents, as the lengths of their lines."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(vocabulary=300))


def write(path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return path.name


def corpus(folder, **keys) -> DocumentCorpus:
    keys = {
        name: (value,) if name in ("train", "valid") and isinstance(value, str) else value
        for name, value in keys.items()
    }
    return DocumentCorpus(DocumentsConfig(**keys), folder)


def texts(corpus: DocumentCorpus, split="train") -> list[list[str]]:
    """The lines of each document."""
    found: list[list[str]] = []
    for passage in corpus.passages(split):
        if passage.begins:
            found.append([])
        found[-1] += passage.lines
    return found


def numbered(lengths: list[list[int]]) -> list[tuple[int, list[int]]]:
    """Lines with the number of their document; no two tokens are the same."""
    ids = iter(range(10_000))
    return [
        (number, [next(ids) for _ in range(length)])
        for number, document in enumerate(lengths)
        for length in document
    ]


@given(TEXTS, SIZES)
def test_chunks_hold_each_token_of_a_document_once_and_in_order(lengths, size):
    lines = numbered(lengths)
    chunks = list(cut(lines, size))
    for number in range(len(lengths)):
        wanted = [id for document, ids in lines if document == number for id in ids]
        assert [id for document, ids in chunks if document == number for id in ids] == wanted
    assert [document for document, _ in chunks] == sorted(document for document, _ in chunks)
    assert all(1 <= len(ids) <= size for _, ids in chunks)


@given(TEXTS, SIZES)
def test_a_chunk_ends_full_or_half_full_at_the_end_of_a_line_or_with_its_document(lengths, size):
    lines = numbered(lengths)
    line_ends = {ids[-1] for _, ids in lines if ids}
    for _, chunks in groupby(cut(lines, size), key=lambda chunk: chunk[0]):
        *others, _ = [ids for _, ids in chunks]
        for ids in others:
            assert len(ids) == size or (2 * len(ids) >= size and ids[-1] in line_ends)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({}, [["<doc 1>", "a", "b"], ["c", "<doc 2>", "d"]]),
        ({"documents": "line"}, [["<doc 1>"], ["a"], ["b"], ["c"], ["<doc 2>"], ["d"]]),
        ({"documents": "file"}, [["<doc 1>", "a", "b", "c", "<doc 2>", "d"]]),
        ({"documents": "mark", "mark": "<doc"}, [["a", "b", "c"], ["d"]]),
    ],
)
def test_plain_text_parts_as_it_is_told_to(tmp_path, how, wanted):
    name = write(tmp_path / "train.txt", "<doc 1>\na\nb\n\n\nc\n<doc 2>\nd\n")
    assert texts(corpus(tmp_path, train=name, valid=name, **how)) == wanted


def test_each_row_of_a_table_is_a_document(tmp_path):
    tsv = write(tmp_path / "train.tsv", "id\ttext\n1\ta b\n2\tc\n3\t \n")
    rows = [{"text": "d\n\ne"}, {"text": "f"}]
    jsonl = write(tmp_path / "more.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = corpus(tmp_path, train=(tsv, jsonl), valid=tsv)
    assert texts(found) == [["a b"], ["c"], ["d", "e"], ["f"]]
    assert (found.survey.documents, found.survey.words) == (4, 6)


def test_a_long_document_comes_in_passages_and_stays_one(tmp_path, tokenizer, monkeypatch):
    every = [[f"document number {i}", *LINES * 5] for i in range(6)]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    whole = corpus(tmp_path, train=name, valid=name)
    stores = [build_store(whole, "train", tokenizer, tmp_path / "whole", 9)]
    monkeypatch.setattr(documents, "PASSAGE", 15)
    stores.append(build_store(whole, "train", tokenizer, tmp_path / "parts", 9))
    for column in ("ids", "document"):
        assert stores[0][column].values.tolist() == stores[1][column].values.tolist()
        assert stores[0][column].offsets.tolist() == stores[1][column].offsets.tolist()
    parts = corpus(tmp_path, train=name, hold_out=2)
    assert sum(1 for _ in parts.passages("train")) > 4
    assert sorted(texts(parts) + texts(parts, "valid")) == every
    assert len(texts(parts, "valid")) == 2


@pytest.mark.parametrize(("count", "hold_out", "held"), [(2, 0, 1), (30, 0, 1), (60, 0, 3), (9, 4, 4)])
def test_whole_documents_are_held_out(tmp_path, count, hold_out, held):
    every = [[f"document {i}", *LINES] for i in range(count)]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    found = corpus(tmp_path, train=name, hold_out=hold_out)
    assert len(texts(found, "valid")) == held
    assert sorted(texts(found) + texts(found, "valid")) == sorted(every)


def test_the_store_has_the_tokens_of_every_line(tmp_path, tokenizer):
    every = [LINES[i % 4 :] + LINES[: i % 3] for i in range(7)]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    store = build_store(corpus(tmp_path, train=name, valid=name), "train", tokenizer, tmp_path / "store", 8)
    for number, lines in enumerate(every):
        rows = [row for row in range(len(store)) if store["document"][row].tolist() == [number]]
        found = [id for row in rows for id in store["ids"][row].tolist()]
        assert found == [id for line in lines for id in tokenizer.encode(line).ids]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "characters", "words"])
def test_lines_of_a_document_do_not_run_into_each_other(tmp_path, kind):
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocabulary=300))
    name = write(tmp_path / "train.txt", "\n".join(LINES))
    store = build_store(corpus(tmp_path, train=name, valid=name), "train", tokenizer, tmp_path / "store", 500)
    assert tokenizer.decode(store["ids"][0]) == " ".join(LINES)


def test_a_store_is_built_again_only_for_other_text_or_other_settings(tmp_path, tokenizer, monkeypatch):
    built = []
    original = documents.encoded
    monkeypatch.setattr(documents, "encoded", lambda *given: built.append(1) or original(*given))
    name = write(tmp_path / "train.txt", "\n".join(LINES))
    found = corpus(tmp_path, train=name, valid=name)
    for size in (8, 8, 9):
        build_store(found, "train", tokenizer, tmp_path / "store", size)
    assert len(built) == 2
    write(tmp_path / "train.txt", "\n".join(LINES[:2]))
    build_store(found, "train", tokenizer, tmp_path / "store", 9)
    assert len(built) == 3


def test_broken_lines_stop_or_are_counted(tmp_path):
    (tmp_path / "train.txt").write_bytes(b"a\n\xff\nb\n")
    (tmp_path / "valid.txt").write_bytes(b"\xff\nc\n")
    found = corpus(tmp_path, train="train.txt", valid="valid.txt", on_error="skip")
    assert texts(found) == [["a", "b"]]
    assert found.survey.skipped.total == 2
    with pytest.raises(DataError, match=r"train.txt:2: invalid UTF-8 .* data.on_error=skip"):
        texts(DocumentCorpus(replace(found.config, on_error="raise"), tmp_path))


def test_impossible_settings_are_told(tmp_path):
    for keys, message in [
        ({"train": ()}, "train is empty"),
        ({"test": ("test.txt",)}, "pretraining has no test"),
        ({"mark": "<doc"}, "set both"),
        ({"documents": "mark"}, "set both"),
        ({"longest": 5}, "longest=5 leaves no room"),
        ({"valid": ("a",), "hold_out": 3}, "leave one of the two out"),
        ({"documents": "lines"}, "did you mean 'line'"),
    ]:
        with pytest.raises(ValueError, match=message):
            DocumentsConfig(**{"train": ("train.txt",), **keys})
    with pytest.raises(ValueError, match="is a table, in which each row is a document"):
        corpus(tmp_path, train="train.tsv", documents="line")


def test_text_that_cannot_do_is_told(tmp_path, tokenizer):
    name = write(tmp_path / "train.txt", "one\nonly\n")
    with pytest.raises(DataError, match=r"too few documents to hold some out; name files of data.valid"):
        texts(corpus(tmp_path, train=name))
    empty = write(tmp_path / "empty.txt", "\n \n")
    with pytest.raises(DataError, match=r"no documents to train on; name files that have text"):
        _ = corpus(tmp_path, train=empty, valid=name).survey
    with pytest.raises(DataError, match=r"empty.txt: no text for valid"):
        build_store(corpus(tmp_path, train=name, valid=empty), "valid", tokenizer, tmp_path / "store", 8)


def test_a_passage_never_holds_much_more_than_its_bound(monkeypatch):
    monkeypatch.setattr(documents, "PASSAGE", 50)
    lines = LINES * 30
    passages = list(parted(lines, lambda line: False))
    assert [line for passage in passages for line in passage.lines] == lines
    assert max(sum(map(len, passage.lines)) for passage in passages) < 50 + max(map(len, lines))
    assert [passage.begins for passage in passages] == [True] + [False] * (len(passages) - 1)
    assert len(set(chain(passage.key for passage in passages))) == 1
