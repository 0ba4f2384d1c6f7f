"""Documents become chunks that hold every token once and in order, and never cross from one to another;
what is held out of them is never learned from."""

import io
import json
from dataclasses import replace
from itertools import chain, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from regard.config import ConfigError, from_dict, override
from regard.tasks.base import documents
from regard.tasks.base.documents import DocumentCorpus, DocumentsConfig, Passage, parted, parts
from regard.tasks.base.recipe import Written
from regard.tasks.pretraining import chunks
from regard.tasks.pretraining import train as pretrain
from regard.tasks.pretraining.chunks import build_store, cut
from regard.tasks.pretraining.recipe import RECIPE, PretrainRecipe
from regard.text import DataError, Tokenizer, TokenizerConfig
from regard.train.ranks import Ranks

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
    for _, own in groupby(cut(lines, size), key=lambda chunk: chunk[0]):
        *others, _ = [ids for _, ids in own]
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


@pytest.mark.parametrize(("count", "hold_out", "held"), [(100, 0, 5), (130, 0, 6), (2, 1, 1), (9, 4, 4)])
def test_whole_documents_are_held_out(tmp_path, count, hold_out, held):
    every = [[f"document {i}", *LINES] for i in range(count)]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    found = corpus(tmp_path, train=name, hold_out=hold_out)
    assert len(texts(found, "valid")) == held
    assert sorted(texts(found) + texts(found, "valid")) == sorted(every)


@pytest.mark.parametrize(("hold_out", "held"), [(0, 1), (0.05, 1), (0.2, 2), (3, 3)])
def test_dialogues_are_held_out_whole_however_few_and_long(tmp_path, hold_out, held):
    talk = [{"role": "user", "content": "word " * documents.LONG}]
    every = [json.dumps({"n": n, "messages": talk}) for n in range(9)]
    name = write(tmp_path / "train.jsonl", "\n".join(every))
    found = corpus(tmp_path, train=name, documents="messages", hold_out=hold_out)
    assert len(texts(found, "valid")) == held
    assert sorted(texts(found) + texts(found, "valid")) == [[line] for line in every]


def stream(every: list[list[str]]) -> list[Passage]:
    return [passage for lines in every for passage in parted(lines, lambda line: False)]


def divided(every: list[list[str]], share: float) -> list[tuple[list[str], list[str]]]:
    """The lines of each document to learn from, and those to validate on."""
    sizes = [sum(map(len, lines)) for lines in every]
    sides = []
    for split in ("train", "valid"):
        found: list[list[str]] = []
        for passage in parts(stream(every), sizes, share, split):
            found += [[]] if passage.begins else []
            found[-1] += passage.lines
        sides.append(found)
    return list(zip(*sides, strict=True))


WRITTEN = st.lists(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=9), max_size=5)


@given(WRITTEN, st.floats(1e-9, 1 - 1e-9), st.sampled_from([1, 10, 10**6]))
def test_the_end_of_every_document_is_held_out_to_the_nearest_line(every, share, passage):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "PASSAGE", passage)
        found = divided(every, share)
    assert len(found) == len(every)
    for lines, (first, last) in zip(every, found, strict=True):
        assert first + last == lines
        if len(lines) == 1:
            assert not last
            continue
        assert first
        assert last
        missed = [abs(sum(map(len, lines[at:])) - share * len("".join(lines))) for at in range(1, len(lines))]
        assert missed[len(first) - 1] == pytest.approx(min(missed))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.9])
def test_ends_of_long_documents_are_the_share_that_was_asked_for(tmp_path, share, monkeypatch):
    monkeypatch.setattr(documents, "PASSAGE", 700)
    every = [[f"{i} {n} " + LINES[n % 4] for n in range(400 + 300 * i)] for i in range(3)]
    names = [write(tmp_path / f"{i}.txt", "\n".join(lines)) for i, lines in enumerate(every)]
    found = corpus(tmp_path, train=tuple(names), documents="file", hold_out=share)
    for lines, first, last in zip(every, texts(found), texts(found, "valid"), strict=True):
        assert first + last == lines
        assert abs(len("".join(last)) - share * len("".join(lines))) <= max(map(len, lines)) / 2
    for split in ("train", "valid"):
        sizes = [sum(map(len, passage.lines)) for passage in found.passages(split)]
        assert max(sizes) < 700 + 30


AROUND = pytest.mark.parametrize(("before", "behind"), [([], []), (["title"], []), (["title"], ["the end"])])


@AROUND
@pytest.mark.parametrize("gap", [" ", ""])
def test_a_very_long_line_is_cut_inside_and_at_a_space_if_there_is_one(gap, before, behind):
    line = gap.join(["word"] * documents.LONG)
    [(first, last)] = divided([[*before, line, *behind]], 0.25)
    assert (first[:-1], last[1:]) == (before, behind)
    assert gap.join([first[-1], last[0]]) == line
    wanted = 0.75 * len("".join([*before, line, *behind]))
    assert abs(len("".join(first)) - wanted) <= (3 if gap else 0.5)


@AROUND
def test_other_lines_stay_whole(before, behind):
    line = "a " * (documents.LONG // 2)
    [(first, last)] = divided([[*before, line, *behind]], 0.25)
    assert first + last == [*before, line, *behind]
    assert bool(last) == bool(before or behind)


def test_a_long_line_has_text_on_either_side_of_its_cut():
    blank = " " * documents.LONG
    for line in (f"a{blank}b", f"{blank}ab", f"ab{blank}", f"{blank}a b{blank}"):
        for share in (0.01, 0.5, 0.99):
            [(first, last)] = divided([[line]], share)
            assert [each.strip() for each in first + last] == ["a", "b"]
    assert divided([[f"{blank}a"]], 0.5) == [([f"{blank}a"], [])]


def test_a_document_has_the_same_number_in_what_is_learned_and_what_is_held_out(tmp_path, tokenizer):
    every = [["one line"], LINES, ["another line"], ["a last one"], LINES[::-1]]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    found = corpus(tmp_path, train=name, hold_out=0.25)
    assert texts(found, "valid") == [[], LINES[3:], [], [], LINES[:1]]
    stores = {
        split: build_store(found, split, tokenizer, tmp_path / split, 500) for split in ("train", "valid")
    }
    assert stores["train"]["document"].values.tolist() == [0, 1, 2, 3, 4]
    assert stores["valid"]["document"].values.tolist() == [1, 4]
    assert [tokenizer.decode(stores["valid"]["ids"][row]) for row in (0, 1)] == [LINES[3], LINES[0]]


@pytest.mark.parametrize(("count", "share"), [(1, 0.05), (99, 0.05), (100, 0.0)])
@pytest.mark.parametrize("zero", [0, 0.0])
def test_unless_it_is_said_few_documents_lose_their_ends_and_many_are_held_out_whole(
    tmp_path, count, share, zero
):
    every = [[f"{i} {LINES[n % 4]}" for n in range(40)] for i in range(count)]
    name = write(tmp_path / "train.txt", "\n\n".join("\n".join(each) for each in every))
    found = corpus(tmp_path, train=name, hold_out=zero)
    assert found.share == share
    held = texts(found, "valid")
    assert len(held) == (count if share else 5)
    assert {len(lines) for lines in held} == {2 if share else 40}
    assert corpus(tmp_path, train=name, valid=name).share == 0


def test_a_share_or_a_number_comes_from_a_recipe_as_it_was_written():
    for text, wanted in (("0.1", 0.1), ("3", 3), ("0", 0), ("0.0", 0.0)):
        plain = override({"train": ["a.txt"]}, [f"hold_out={text}"])
        found = from_dict(DocumentsConfig, plain).hold_out
        assert (found, type(found)) == (wanted, type(wanted))
    for text in ("true", "some"):
        with pytest.raises(ConfigError, match="is none of int, float"):
            from_dict(DocumentsConfig, override({"train": ["a.txt"]}, [f"hold_out={text}"]))


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
    original = chunks.encoded
    monkeypatch.setattr(chunks, "encoded", lambda *given: built.append(1) or original(*given))
    name = write(tmp_path / "train.txt", "\n".join(LINES))
    found = corpus(tmp_path, train=name, valid=name)
    for size in (8, 8, 9):
        build_store(found, "train", tokenizer, tmp_path / "store", size)
    assert len(built) == 2
    write(tmp_path / "train.txt", "\n".join(LINES[:2]))
    build_store(found, "train", tokenizer, tmp_path / "store", 9)
    assert len(built) == 3
    marks = set()
    for hold_out in (0, 0.2, 0.4):
        store = build_store(
            corpus(tmp_path, train=name, hold_out=hold_out), "train", tokenizer, tmp_path / "ends", 9
        )
        marks.add(store.fingerprint)
    assert len(marks) == 3
    assert len(built) == 6


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
        ({"valid": ("a",), "hold_out": 0.1}, "hold_out=0.1, but valid names files"),
        ({"hold_out": -3}, "hold_out=-3 must be 0 or more"),
        ({"hold_out": -0.1}, "hold_out=-0.1 must be a number of documents"),
        ({"hold_out": 1.0}, "hold_out=1.0 must be .* written without a point"),
        ({"hold_out": 2.5}, "hold_out=2.5 must be"),
        ({"hold_out": float("nan")}, "hold_out=nan must be"),
        ({"documents": "lines"}, "did you mean 'line'"),
    ]:
        with pytest.raises(ValueError, match=message):
            DocumentsConfig(**{"train": ("train.txt",), **keys})
    with pytest.raises(ValueError, match="is a table, in which each row is a document"):
        corpus(tmp_path, train="train.tsv", documents="line")


def test_of_a_few_single_lines_whole_ones_are_held_out(tmp_path):
    own = corpus(tmp_path, train=write(tmp_path / "train.txt", "one\ntwo\nthree\n"), documents="line")
    assert [len([*own.lines(split)]) for split in ("train", "valid")] == [2, 1]


def test_text_that_cannot_do_is_told(tmp_path, tokenizer):
    name = write(tmp_path / "train.txt", "one\nonly\n")
    with pytest.raises(DataError, match=r"too few documents to hold some out; name files of data.valid"):
        texts(corpus(tmp_path, train=name, hold_out=1))
    with pytest.raises(DataError, match=r"train.txt: every document is a single line.* data.hold_out=1, or"):
        texts(corpus(tmp_path, train=name, documents="line", hold_out=0.3))
    single = write(tmp_path / "single.txt", "one line\n")
    with pytest.raises(DataError, match=r"no end to hold out; name files of data.valid"):
        texts(corpus(tmp_path, train=single))
    empty = write(tmp_path / "empty.txt", "\n \n")
    with pytest.raises(DataError, match=r"no documents to train on; name files that have text"):
        _ = corpus(tmp_path, train=empty, valid=name).survey
    with pytest.raises(DataError, match=r"empty.txt: no text for valid"):
        build_store(corpus(tmp_path, train=name, valid=empty), "valid", tokenizer, tmp_path / "store", 8)


@pytest.mark.parametrize(
    ("hold_out", "wanted"),
    [
        (2, "72 tokens in 3 documents to learn from, 48 tokens in 2 documents, held out, to validate on"),
        (0.25, "90 tokens in 5 documents to learn from, 30 tokens, the ends of 5 documents, to validate on"),
    ],
)
def test_pretraining_says_what_it_validates_on(tmp_path, hold_out, wanted):
    every = ["\n".join([f"document {i} begins", *["and goes on"] * 7]) for i in range(5)]
    name = write(tmp_path / "train.txt", "\n\n".join(every))
    plain = {
        "data": {"train": [name], "hold_out": hold_out, "longest": 16},
        "tokenizer": {"kind": "words", "vocabulary": 20},
        "model": {"d_model": 8, "heads": 1, "layers": 1, "d_ff": 8},
    }
    recipe = Written(plain, tmp_path, from_dict(PretrainRecipe, plain), RECIPE)
    said = io.StringIO()
    pretrain.prepare(recipe, tmp_path / "run", Ranks.join("cpu"), Console(file=said))
    assert wanted in said.getvalue()


def test_a_passage_never_holds_much_more_than_its_bound(monkeypatch):
    monkeypatch.setattr(documents, "PASSAGE", 50)
    lines = LINES * 30
    passages = list(parted(lines, lambda line: False))
    assert [line for passage in passages for line in passage.lines] == lines
    assert max(sum(map(len, passage.lines)) for passage in passages) < 50 + max(map(len, lines))
    assert [passage.begins for passage in passages] == [True] + [False] * (len(passages) - 1)
    assert len(set(chain(passage.key for passage in passages))) == 1
