import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Plan
from regard.settings.training import BatchConfig
from regard.tasks.tagging.batches import TagFeed, encode
from regard.tasks.tagging.data import TaggedConfig, TaggedCorpus, format_of, mark_spans, tag_names
from regard.tasks.tagging.windows import windows
from regard.text import DataError, Origin, Skipped, Tagged, Tokenizer, TokenizerConfig
from regard.train.objectives import HIDDEN

LETTERS = Tokenizer.train(["abcdefgh"], TokenizerConfig(kind="characters", vocabulary=40))
"""A word has as many tokens as letters."""

word = st.text("abcdefgh", min_size=0, max_size=6)


def sentence(words: list[str]) -> Tagged:
    return Tagged(tuple(words), tuple(f"T{len(each)}" for each in words), Origin("made up", 1))


@given(st.lists(word, min_size=1, max_size=30), st.integers(3, 20))
def test_every_word_with_a_token_is_spoken_for_once_by_its_first_token(words, longest):
    encoding = LETTERS.encode_words(words, template="cls")
    found, _ = windows(encoding, longest)
    spoken = sorted(word for window in found for word, _ in window.spoken)
    assert spoken == [number for number, word in enumerate(words) if word]
    for window in found:
        assert len(window.ids) <= longest
        assert (window.ids[0], window.ids[-1]) == (encoding.ids[0], encoding.ids[-1])
        for number, place in window.spoken:
            assert LETTERS.token(window.ids[place]) == words[number][0]
            assert window.firsts[place] == place


@given(st.lists(word.filter(bool), min_size=1, max_size=30), st.integers(8, 20))
def test_a_word_is_whole_and_spoken_for_where_it_has_most_context(words, longest):
    found, cut = windows(LETTERS.encode_words(words, template="cls"), longest)
    assert cut == 0
    text = "".join(words)
    begins = np.cumsum([0, *map(len, words)]).tolist()
    stretches = []
    for window in found:
        number, place = window.spoken[0]
        begin = begins[number] - (place - 1)
        stretches.append((begin, begin + len(window.ids) - 2))
        assert "".join(map(LETTERS.token, window.ids[1:-1])) == text[slice(*stretches[-1])]

    def context(number, stretch):
        """-1 where the word is not whole."""
        (begin, stop), (start, end) = stretch, begins[number : number + 2]
        if start < begin or end > stop:
            return -1
        left = np.inf if begin == 0 else start - begin
        return min(left, np.inf if stop == len(text) else stop - end)

    for window, own in zip(found, stretches, strict=True):
        for number, _ in window.spoken:
            assert 0 <= context(number, own) == max(context(number, each) for each in stretches)


def test_a_sentence_that_fits_is_one_window_as_it_is():
    encoding = LETTERS.encode_words(["ab", "c", "", "def"], template="cls")
    [window], cut = windows(encoding, len(encoding))
    assert (tuple(window.ids), cut) == (encoding.ids, 0)
    assert window.spoken == [(0, 1), (1, 3), (3, 4)]
    assert window.firsts == [0, 1, 1, 3, 4, 4, 4, 7]


def test_the_first_tokens_speak_for_a_word_that_no_window_holds():
    found, cut = windows(LETTERS.encode_words(["a", "bcdefgh", "a"], template="cls"), 5)
    assert cut == 1
    [(window, place)] = [(w, place) for w in found for word, place in w.spoken if word == 1]
    assert [LETTERS.token(id) for id in window.ids[place:-1]] == ["b", "c", "d"]


def test_a_window_without_room_is_refused():
    with pytest.raises(ValueError, match="longest=2 leaves no room"):
        windows(LETTERS.encode_words(["abc"], template="cls"), 2)


@pytest.mark.parametrize("static", [False, True])
def test_batches_have_each_tag_where_its_word_begins_and_each_token_at_its_word(static):
    records = [sentence(words) for words in (["ab", "c"], ["d", "", "efg"], ["abcdefgh", "ab", "cdef"])]
    names = {name: number for number, name in enumerate(tag_names(records))}
    text = encode(LETTERS, records, names, longest=12)
    assert (text.silent, text.cut) == (1, 0)
    plan = Plan([text.ids.lengths], BatchConfig(tokens=30))
    feed = TagFeed(text, plan, mean=True, static=static)
    seen = []
    for step in range(1, plan.steps(0) + 1):
        for _, batch in feed.parts(step):
            slots = len(batch.text.ids)
            assert len(batch.labels) == len(batch.places) == slots
            assert slots == (plan.shapes()[0].slots if static else batch.text.tokens)
            starts = {place for place in range(slots) if batch.labels[place] != HIDDEN}
            assert batch.tokens == len(starts)
            offsets = batch.text.layout.host_offsets.tolist()
            ends = [*(end - 1 for end in offsets[1:]), *offsets[:-1]]
            for place in range(slots):
                row = int(batch.places[place])
                assert row == place or row in range(place - 7, place)
                if place in ends or place >= batch.text.tokens:  # [CLS], [SEP] and filler
                    assert row == place
                    assert place not in starts
            for place in starts:
                length = int((batch.places == place).sum())
                assert names[f"T{length}"] == batch.labels[place]
                seen.append(length)
    assert sorted(seen) == [1, 1, 2, 2, 3, 4, 8]


def test_words_by_their_first_token_need_no_places():
    records = [sentence(["ab", "c"])]
    names = {name: number for number, name in enumerate(tag_names(records))}
    text = encode(LETTERS, records, names, longest=12)
    feed = TagFeed(text, Plan([text.ids.lengths], BatchConfig(tokens=30)), mean=False, static=False)
    [(_, batch)] = feed.parts(1)
    assert batch.places is None
    assert batch.labels.tolist() == [HIDDEN, names["T2"], HIDDEN, names["T1"], HIDDEN]


def test_sentences_without_tokens_are_told():
    with pytest.raises(DataError, match=r"made up:1: none of 1 sentences can be used"):
        encode(LETTERS, [sentence(["", ""])], {"T0": 0}, longest=12)


def test_tags_come_by_frequency_and_tell_whether_they_mark_spans():
    records = [Tagged(("a", "b", "c"), ("O", "B-X", "O"), Origin("f", 1))]
    assert tag_names(records) == ("O", "B-X")
    assert mark_spans(("O", "B-X", "I-X"))
    assert not mark_spans(("O",))
    assert not mark_spans(("NOUN", "VERB"))
    assert not mark_spans(("O", "B-X", "S-X"))


IOB1 = """-DOCSTART- -X- O O

# a comment
EU NNP I-ORG
rejects VBZ O

Peter NNP I-PER
Blackburn NNP I-PER
Ann NNP B-PER
"""


def corpus(folder: Path, name: str, text: str, **settings) -> TaggedCorpus:
    (folder / name).write_text(text, encoding="utf-8")
    return TaggedCorpus(TaggedConfig(train=(name,), valid=(name,), **settings), folder)


def test_columns_become_iob2_whatever_their_scheme(tmp_path):
    first, second = corpus(tmp_path, "train", IOB1.replace(" O O", " O"), comment="#").read("train")
    assert (first.words, first.tags) == (("EU", "rejects"), ("B-ORG", "O"))
    assert second.tags == ("B-PER", "I-PER", "B-PER")
    assert str(second.origin) == f"{tmp_path}/train:7"


def test_a_column_may_be_chosen_and_left_as_it_is(tmp_path):
    first, _ = corpus(tmp_path, "train", IOB1, comment="#", tag=1, scheme="none").read("train")
    assert first.tags == ("NNP", "VBZ")


def test_tables_become_iob2_too(tmp_path):
    rows = [
        {"words": ["Ann", "Lee", "met", "Bo"], "tags": ["I-PER", "I-PER", "O", "I-PER"]},
        {"words": ["Ann", "Bo"], "tags": ["I-PER", "B-PER"]},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    first, second = corpus(tmp_path, "train.jsonl", text).read("train")
    assert first.tags == ("B-PER", "I-PER", "O", "B-PER")
    assert second.tags == ("B-PER", "B-PER")


def test_tags_of_a_table_may_be_numbers(tmp_path):
    text = json.dumps({"tokens": ["Ann", "met"], "ner": [1, 0]})
    settings = {"word": "tokens", "tag": "ner", "names": ("O", "B-PER")}
    [record] = corpus(tmp_path, "train.jsonl", text, **settings).read("train")
    assert (record.words, record.tags) == (("Ann", "met"), ("B-PER", "O"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("train.conll", "a B-X\nb\n", "train.conll:2: ragged row"),
        ("train.conll", "a B-X\nb I-X\n\nc O\nd I-X\n", "train.conll:5: wrong tag"),
        (
            "train.jsonl",
            '{"words": ["a"], "tags": ["B-X"]}\n{"words": [], "tags": []}',
            "train.jsonl:2: a sent",
        ),
        (
            "train.jsonl",
            '{"words": ["a", "b"], "tags": ["B-X", "I-X"]}\n{"words": ["a"], "tags": ["I-X"]}',
            "train.jsonl:2: wrong tag",
        ),
    ],
)
def test_a_broken_sentence_is_told_by_file_and_line_or_counted(tmp_path, name, text, message):
    with pytest.raises(DataError, match=r"data\.on_error=skip") as error:
        corpus(tmp_path, name, text).read("train")
    assert message in str(error.value)
    skipped = Skipped()
    corpus(tmp_path, name, text, on_error="skip").read("train", skipped)
    assert skipped.total == 1


def test_universal_dependencies_give_parts_of_speech(tmp_path):
    line = "1\tDogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n"
    for tag, wanted in ((None, "NOUN"), ("XPOS", "NNS")):
        [record] = corpus(tmp_path, "train.conllu", line, **({"tag": tag} if tag else {})).read("train")
        assert (record.words, record.tags) == (("Dogs",), (wanted,))


def test_names_of_files_tell_their_format():
    names = {"a.conllu.gz": "conllu", "a.jsonl": "jsonl", "a.parquet": "parquet", "eng.train": "conll"}
    assert {name: format_of(name) for name in names} == names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": ()}, "train is empty"),
        ({"train": ("a.conll",), "tag": "ner"}, "columns without names"),
        ({"train": ("a.conllu",), "tag": "POS"}, "no column of CoNLL-U"),
        ({"train": ("a.conllu",), "word": 1}, "words have their place"),
        ({"train": ("a",), "longest": 3}, "no room for a word"),
        ({"train": ("a",), "scheme": "BIO"}, "scheme='BIO'"),
    ],
)
def test_what_cannot_be_meant_is_told(settings, message):
    with pytest.raises(ValueError, match=message):
        TaggedConfig(**settings)
