"""Older folders have a vocabulary instead of a tokenizer.json."""

import json

import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from regard.hub import HubError, read_decoder, read_folder, write_folder
from tests.hub import llamas
from tests.hub.gpts import change
from tests.hub.marians import ENGLISH, GERMAN, spm
from tests.hub.marians import TEXTS as SPELLED
from tests.hub.toys import STEMS, TEXTS, WORDS, byte_pairs, toy, unigrams, word_pieces

HARD = [*TEXTS, "The CAT, cát! 貓 on-a mat\t\x00 dógs  .", "", "aa" * 200, "a \u200b mat"]
MORE = ["CAT", "The", "cát", "貓", "-", "dóg"]


def plain(folder, **facts):
    """Only vocab.txt and what goes with it."""
    (folder / "tokenizer.json").unlink()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    text = "\n".join([*specials, *WORDS, *MORE]) + "\n"
    (folder / "vocab.txt").write_text(text, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_vocabulary_of_words_is_read_as_berts(hf, tmp_path, family, facts):
    toy(hf, tmp_path, family)
    plain(tmp_path, **facts)
    checkpoint = read_folder(tmp_path)
    theirs = hf.BertTokenizer.from_pretrained(tmp_path)
    assert checkpoint.tokenizer.encode_batch(HARD, template="cls") == theirs(HARD)["input_ids"]
    pair = theirs("the cat", "a dog")
    mine = checkpoint.tokenizer.encode("the cat", "a dog", template="cls")
    assert list(mine.ids) == pair["input_ids"]
    assert list(mine.segments) == pair["token_type_ids"]
    assert checkpoint.tokenizer.ids.mask == 4


@pytest.mark.parametrize("facts", [{}, {"do_lower_case": False}], ids=str)
def test_a_vocabulary_of_words_is_read_as_mpnets(hf, tmp_path, facts):
    """BERT's pieces between RoBERTa's special tokens, two between the texts of a pair."""
    toy(hf, tmp_path, "mpnet")
    plain(tmp_path, **facts)
    lines = ["<s>", "<pad>", "</s>", "<unk>", *WORDS, *MORE, "[UNK]", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    checkpoint = read_folder(tmp_path)
    theirs = hf.MPNetTokenizer.from_pretrained(tmp_path)
    assert checkpoint.tokenizer.encode_batch(HARD, template="cls") == theirs(HARD)["input_ids"]
    mine = checkpoint.tokenizer.encode("the cat", "a dog", template="cls")
    assert list(mine.ids) == theirs("the cat", "a dog")["input_ids"]
    assert checkpoint.tokenizer.ids.mask == lines.index("<mask>")


@pytest.mark.parametrize("facts", [{}, {"add_prefix_space": True}], ids=str)
def test_a_vocabulary_of_merges_is_read_as_robertas(hf, tmp_path, facts):
    toy(hf, tmp_path, "roberta")
    (tmp_path / "tokenizer.json").unlink()
    model = json.loads(byte_pairs().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = "\n".join(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts))
    checkpoint = read_folder(tmp_path)
    theirs = hf.RobertaTokenizer.from_pretrained(tmp_path)
    assert checkpoint.tokenizer.encode_batch(HARD, template="cls") == theirs(HARD)["input_ids"]
    mine = checkpoint.tokenizer.encode("the cat", "a dog", template="cls")
    assert list(mine.ids) == theirs("the cat", "a dog")["input_ids"]
    assert (checkpoint.tokenizer.ids.pad, checkpoint.tokenizer.ids.mask) == (1, 4)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"do_lower_case": False},
        {"tokenizer_class": "OwnTokenizer"},
        {"tokenizer_class": "OwnTokenizerFast", "do_lower_case": False},
        {"tokenizer_class": "OwnTokenizer", "tokenize_chinese_chars": False, "strip_accents": False},
        {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False},
        {"tokenizer_class": "TokenizersBackend", "do_lower_case": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "cased"])
@pytest.mark.parametrize("family", ["bert", "distilbert", "mpnet", "modernbert"])
def test_the_configuration_of_a_tokenizer_comes_before_its_file(hf, tmp_path, family, lower, facts):
    """By whether the family's own tokenizer in transformers is BERT's; ModernBERT's is tokenizer.json."""
    toy(hf, tmp_path, family)
    path = tmp_path / "tokenizer.json"
    state = json.loads(path.read_text())
    state["normalizer"]["lowercase"] = lower
    path.write_text(json.dumps(state))
    if facts is not None:
        named = facts.get("tokenizer_class", "").replace("Own", "MPNet" if family == "mpnet" else "Bert")
        facts = {**facts, "tokenizer_class": named} if named else facts
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts))
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    mine = read_folder(tmp_path).tokenizer
    assert mine.encode_batch(HARD, template="cls") == theirs(HARD)["input_ids"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.txt", "a\nb\n", "UNK"),
        ("added_tokens.json", '{"<new>": 299}', "added_tokens.json"),
        ("tokenizer_config.json", '{"cls_token": "<none>"}', "<none>"),
    ],
)
def test_vocabularies_that_lack_something_are_refused(hf, tmp_path, file, content, message):
    toy(hf, tmp_path)
    plain(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(HubError, match=message):
        read_folder(tmp_path)


@pytest.mark.parametrize("family", ["xlm-roberta", "camembert"])
def test_a_lone_sentencepiece_model_is_numbered_as_fairseq_does(hf, tmp_path, family):
    toy(hf, tmp_path, family)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "sentencepiece.bpe.model").write_bytes(spm((*ENGLISH, *GERMAN), 120))
    checkpoint = read_folder(tmp_path)
    there = getattr(hf, f"{STEMS[family]}Tokenizer").from_pretrained(tmp_path)
    assert there.get_vocab() == dict(checkpoint.tokenizer.vocabulary)
    texts = [text for text in SPELLED if not any(token in text for token in there.all_special_tokens)]
    assert len(texts) > 10
    assert checkpoint.tokenizer.encode_batch(texts, template="cls") == there(texts)["input_ids"]
    ids, _ = checkpoint.tokenizer.encode_pairs(ENGLISH, GERMAN)
    assert ids == there(ENGLISH, GERMAN)["input_ids"]
    masked = checkpoint.tokenizer.encode("The <mask> sat.", template="cls", specials_in_text=True)
    assert list(masked.ids) == there("The <mask> sat.")["input_ids"]
    assert checkpoint.tokenizer.ids.pad == there.pad_token_id == 1


SPACED = [" the cat", "  the  cat ", "the", "", "a  b\t\n ", "▁the", " ", "the▁ cat", "a</s>the", "貓 the"]
ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


@pytest.mark.parametrize(
    "facts", [{}, {"legacy": True}, {"legacy": False}, {"add_prefix_space": False}], ids=str
)
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("Llama", "LlamaTokenizer"),
        ("Llama", "LlamaTokenizerFast"),
        ("Llama", "CodeLlamaTokenizer"),
        ("Llama", "PreTrainedTokenizerFast"),
        ("Mistral", "LlamaTokenizer"),
    ],
)
def test_the_class_of_llamas_tokenizer_comes_before_its_file(hf, tmp_path, kind, named, facts):
    """As the folders of Llama 2 and TinyLlama were published: transformers 5 then has no Prepend."""
    folder = llamas.save(llamas.build(hf, kind), tmp_path / "model", llamas.sentence_pieces(), **ROLES)
    change(folder, "tokenizer_config.json", tokenizer_class=named, **facts)
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    checkpoint = read_decoder(folder)
    mine = checkpoint.tokenizer
    for text in SPACED:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert list(mine.encode(text, specials_in_text=True).ids) == expected
        assert mine.decode(expected) == theirs.decode(expected, skip_special_tokens=True)
    write_folder(checkpoint, tmp_path / "out")
    out = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert [out(text)["input_ids"] for text in SPACED] == [theirs(text)["input_ids"] for text in SPACED]


def test_llamas_of_byte_pairs_stay_as_their_file_has_them(hf, tmp_path):
    folder = llamas.save(llamas.build(hf, "Llama"), tmp_path, llamas.byte_pairs())
    change(folder, "tokenizer_config.json", tokenizer_class="LlamaTokenizerFast")
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    mine = read_decoder(folder).tokenizer
    assert mine.encode_batch(SPACED) == theirs(SPACED, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("named", ["GPT2Tokenizer", "PreTrainedTokenizerFast"])
def test_single_digits_of_the_file_are_kept(hf, tmp_path, named):
    """SmolLM's cut. transformers 5 drops it where the class is GPT2Tokenizer; docs/guides/checkpoints.md."""
    pairs = llamas.byte_pairs()
    state = json.loads(pairs.to_str())
    state["model"]["vocab"]["12"] = len(state["model"]["vocab"])
    state["model"]["merges"].append(["1", "2"])
    whole = Tokenizer.from_str(json.dumps(state))
    single = pre_tokenizers.Digits(individual_digits=True)
    whole.pre_tokenizer = pre_tokenizers.Sequence([single, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    folder = llamas.save(llamas.build(hf, "Llama"), tmp_path, whole)
    change(folder, "tokenizer_config.json", tokenizer_class=named)
    mine = read_decoder(folder).tokenizer
    assert mine.encode("the 12").tokens[-2:] == ("1", "2")
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    same = theirs("the 12", add_special_tokens=False)["input_ids"] == list(mine.encode("the 12").ids)
    assert same is (named != "GPT2Tokenizer")


@pytest.mark.parametrize("named", [None, "OwnTokenizer", "OwnTokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("family", ["xlm-roberta", "camembert"])
def test_the_class_of_a_tokenizer_of_pieces_comes_before_its_file(hf, tmp_path, family, named):
    """Newer files replace white space by their normalizer; those classes part at it."""
    toy(hf, tmp_path, family)
    path = tmp_path / "tokenizer.json"
    rust = Tokenizer.from_file(str(path))
    rust.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    rust.save(str(path))
    if named is not None:
        facts = {"tokenizer_class": named.replace("Own", STEMS[family])}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts))
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    mine = read_folder(tmp_path).tokenizer
    texts = ["the cat ", " the  cat", "the\tcat\n", "", " ", "½ cat", "the cat"]
    assert mine.encode_batch(texts, template="cls") == theirs(texts)["input_ids"]


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize(
    ("family", "rust", "named", "facts"),
    [
        ("bert", unigrams("xlm-roberta"), "XLMRobertaTokenizer", {}),
        ("bert", unigrams("xlm-roberta"), "PreTrainedTokenizerFast", {}),
        ("xlm-roberta", unigrams("xlm-roberta"), "PreTrainedTokenizerFast", {}),
        ("roberta", unigrams("xlm-roberta"), "XLMRobertaTokenizerFast", {}),
        ("roberta", word_pieces(), "BertTokenizer", {"do_lower_case": False}),
        ("roberta", byte_pairs(), "RobertaTokenizer", {"add_prefix_space": True}),
        ("bert", byte_pairs(), "RobertaTokenizer", {"add_prefix_space": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tokenizer_is_read_as_its_class_says_in_any_family(hf, tmp_path, family, rust, named, facts, file):
    """Multilingual E5 small is a BERT with XLM-RoBERTa's pieces, klue/roberta-base a RoBERTa with BERT's."""
    toy(hf, tmp_path, family)
    rust.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts))
    change(tmp_path, file, tokenizer_class=named)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    mine = read_folder(tmp_path).tokenizer
    texts = ["The cat ", " the  cat", "the\tcat\n", "", " ", "the cat"]
    assert mine.encode_batch(texts, template="cls") == theirs(texts)["input_ids"]


def test_a_bert_may_have_the_lone_pieces_of_xlm_roberta(hf, tmp_path):
    toy(hf, tmp_path, "bert")
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "sentencepiece.bpe.model").write_bytes(spm((*ENGLISH, *GERMAN), 120))
    change(tmp_path, "config.json", tokenizer_class="XLMRobertaTokenizer")
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    mine = read_folder(tmp_path).tokenizer
    assert mine.encode_batch(ENGLISH, template="cls") == theirs(ENGLISH)["input_ids"]


def test_a_vocabulary_whose_class_parts_texts_in_its_own_way_is_refused(hf, tmp_path):
    """Japanese BERTs part words by MeCab first."""
    toy(hf, tmp_path)
    plain(tmp_path, tokenizer_class="BertJapaneseTokenizer", word_tokenizer_type="mecab")
    with pytest.raises(
        HubError, match=r"vocab\.txt: tokenizer_class='BertJapaneseTokenizer' has its own way"
    ):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no pieces"),
        (b"\x0a\xff\x01x", "cut short"),
        (b"\xff" * 40, "no SentencePiece model"),
        (None, "of the kind bpe"),
    ],
)
def test_a_file_that_is_no_such_model_is_told(hf, tmp_path, content, words):
    toy(hf, tmp_path, "xlm-roberta")
    (tmp_path / "tokenizer.json").unlink()
    content = spm(tuple(ENGLISH), 60, "bpe") if content is None else content
    (tmp_path / "sentencepiece.bpe.model").write_bytes(content)
    with pytest.raises(HubError, match=rf"sentencepiece\.bpe\.model.*{words}"):
        read_folder(tmp_path)
