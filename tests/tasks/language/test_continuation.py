"""Text that grows by tokens: whole characters, no stop string, nothing taken back."""

import random

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from regard.tasks.language.continuation import BROKEN, Writer, spelled
from regard.text import Tokenizer, TokenizerConfig
from tests.tasks.language.scripted import TEXTS, scripted, tokens

pytestmark = pytest.mark.usefixtures("unchecked")
KINDS = ["byte-bpe", "bpe", "unigram", "wordpiece", "characters", "words"]


def pieces(tokenizer: Tokenizer, prompt: list[int], ids: list[int], stop: tuple[str, ...] = ()) -> list[str]:
    writer = Writer(tokenizer, prompt, stop)
    told = []
    for id in ids:
        told.append(writer.add(id))
        if writer.stopped:
            return told
    return [*told, writer.close()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_make_up_the_text_behind_a_prompt_wherever_that_ends(kind, text):
    tokenizer = tokens(kind)
    ids = tokenizer.encode_batch([text])[0]
    whole = tokenizer.decode(ids)
    for cut in range(len(ids)):
        before = tokenizer.decode(ids[:cut])
        if before.endswith(BROKEN):
            continue  # no prompt ends inside a character
        told = pieces(tokenizer, ids[:cut], ids[cut:])
        assert before + "".join(told) == whole
        assert "".join(told) == spelled(tokenizer, ids[:cut], ids[cut:])
        assert not any(BROKEN in piece for piece in told)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_tokens_all_at_once_is_one_by_one(kind):
    tokenizer = tokens(kind)
    ordinary = sorted(
        set(tokenizer.vocabulary.values()) - {tokenizer.vocabulary[each] for each in tokenizer.specials}
    )
    prompt = tokenizer.encode_batch(["The cat"])[0]
    draw = random.Random(7)
    for _ in range(200):
        ids = draw.choices(ordinary, k=draw.randint(0, 12))
        assert spelled(tokenizer, prompt, ids) == "".join(pieces(tokenizer, prompt, ids))


def test_a_character_is_told_when_its_last_byte_has_come():
    tokenizer = tokens()
    ids = bytewise(tokenizer, "a🙂é")
    assert pieces(tokenizer, bytewise(tokenizer, "x"), ids) == ["a", "", "", "", "🙂", "", "é", ""]


def test_bytes_of_no_character_are_told_in_the_end_or_when_something_follows():
    tokenizer = tokens()
    half = bytewise(tokenizer, "🙂")[:2]
    assert pieces(tokenizer, [], half) == ["", "", BROKEN]
    assert pieces(tokenizer, [], [*half, *bytewise(tokenizer, "a")]) == ["", "", BROKEN + "a", ""]


def test_a_byte_that_breaks_a_run_of_bytes_takes_back_nothing():
    tokenizer = tokens("bpe", 600)
    snowman = tokenizer.encode_batch(["☃"])[0][-3:]
    assert [tokenizer.token(id) for id in snowman] == ["<0xE2>", "<0x98>", "<0x83>"]
    [a] = tokenizer.encode_batch(["The cat"])[0][-1:]
    told = pieces(tokenizer, tokenizer.encode_batch(["The"])[0], [*snowman, snowman[0], a])
    assert told[:4] == ["", "", "☃", ""]
    assert told[4].startswith(BROKEN)


def bytewise(tokenizer: Tokenizer, text: str) -> list[int]:
    """One token for each byte."""
    spelled_out = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return [tokenizer.vocabulary[letter] for word, _ in spelled_out for letter in word]


STOPS = {
    "across tokens": ("one two three", ("two",), "one ", True),
    "the first of several": ("one two three", ("three", "wo t", "two"), "one ", True),
    "at the very beginning": ("one two", ("one",), "", True),
    "at the very end": ("one two", ("two",), "one ", True),
    "begun but never whole": ("one twi", ("two",), "one twi", False),
    "begun at the end": ("one tw", ("two",), "one tw", False),
    "begun within itself": ("aabaabaac", ("aabaac",), "aab", True),
    "not there": ("one two", ("six",), "one two", False),
    "of wide characters": ("a 🙂貓 b", ("貓",), "a 🙂", True),
}


@pytest.mark.parametrize(("text", "stop", "expected", "stops"), STOPS.values(), ids=STOPS.keys())
@pytest.mark.parametrize("kind", ["byte-bpe", "characters"])
def test_a_text_ends_before_its_stop_string(text, stop, expected, stops, kind):
    tokenizer = Tokenizer.train([text], TokenizerConfig(kind=kind, vocabulary=330))
    ids = bytewise(tokenizer, text) if kind == "byte-bpe" else tokenizer.encode_batch([text])[0]
    writer = Writer(tokenizer, [], stop)
    told = ""
    for id in ids:
        told += writer.add(id)
        assert expected.startswith(told)  # no part of a stop string has been told
        if writer.stopped:
            break
    else:
        told += writer.close()
    assert (told, writer.stopped) == (expected, stops)


def test_a_model_that_spells_in_bytes_streams_whole_characters():
    tokenizer = tokens()
    end = tokenizer.require("end")
    generator = scripted(tokenizer, [*bytewise(tokenizer, "é🙂 STOP and on"), end])
    told = list(generator.stream("The", seed=1))
    assert told[:3] == ["é", "🙂", " "]
    assert "".join(told) == "é🙂 STOP and on"
    assert "".join(generator.stream("The", stop=["STOP"])) == "é🙂 "
    assert list(generator.stream("The", stop=["P and"]))[-1] == "O"
    [found] = generator.generate("The", stop=["x", "P and"])
    assert (found.text, found.finished) == ("é🙂 STO", "stop")
    assert tokenizer.decode(found.ids) == "é🙂 STOP and"
