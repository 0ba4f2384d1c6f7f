"""An index is of one model: whatever changes in its folder, its vectors are made again."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.meaning.corpus import open_corpus
from regard.tasks.base.model_hash import model_hash
from tests.hub.test_sentences import modules, write
from tests.hub.toys import toy

pytestmark = pytest.mark.usefixtures("unchecked")
TANH = "torch.nn.modules.activation.Tanh"


@pytest.fixture
def folder(hf, tmp_path) -> Path:
    model = toy(hf, tmp_path / "model", "bert")
    write(model / "modules.json", modules("Transformer", "Pooling"))
    write(model / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    return model


def other_weights(path: Path) -> None:
    torch.manual_seed(1)
    save_file({name: each + 0.3 * torch.randn_like(each) for name, each in load_file(path).items()}, path)


def in_a_folder_of_its_own(model: Path) -> Callable[[], None]:
    """As older versions wrote it."""
    root = model / "0_Transformer"
    root.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).rename(root / name)
    write(model / "modules.json", modules("Transformer", "Pooling", root="0_Transformer"))
    return partial(other_weights, root / "model.safetensors")


def in_shards(model: Path) -> Callable[[], None]:
    """The weights in two files, as large models have them."""
    whole = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + at % 2}-of-00002.safetensors" for at, name in enumerate(whole)}
    for file in {*places.values()}:
        save_file({name: whole[name] for name, own in places.items() if own == file}, model / file)
    write(model / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    return partial(other_weights, model / places[next(name for name in places if "word_embed" in name)])


def pooled_otherwise(model: Path) -> Callable[[], None]:
    return lambda: write(model / "1_Pooling" / "config.json", {"pooling_mode": "max"})


def with_another_dense(model: Path) -> Callable[[], None]:
    write(model / "modules.json", modules("Transformer", "Pooling", "Dense"))
    facts = {"in_features": 32, "out_features": 8, "bias": True, "activation_function": TANH}
    write(model / "2_Dense" / "config.json", facts)
    drawn = {"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)}
    save_file(drawn, model / "2_Dense" / "model.safetensors")
    return partial(other_weights, model / "2_Dense" / "model.safetensors")


def cut_short(model: Path) -> Callable[[], None]:
    return lambda: write(model / "sentence_bert_config.json", {"max_seq_length": 4})


def cased(model: Path) -> Callable[[], None]:
    state = json.loads((model / "tokenizer.json").read_text())
    state["normalizer"]["lowercase"] = False
    write(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    return lambda: write(model / "tokenizer.json", state)


def scores(model: Path, corpus: Path, index: Path | None = None) -> list[float]:
    found = open_corpus(model, corpus, index=index, device="cpu").search(["a cat and a dog"], 3)
    return [hit.score for hit in sorted(found[0])]


@pytest.mark.filterwarnings("ignore:.*only their beginnings were read")
@pytest.mark.parametrize(
    "change", [in_a_folder_of_its_own, in_shards, pooled_otherwise, with_another_dense, cut_short, cased]
)
def test_another_model_in_the_same_folder_is_not_searched_with_the_vectors_before(
    folder: Path, tmp_path: Path, change: Callable[[Path], Callable[[], None]]
):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The dog ran, and it ran.\na mat\nThe Cat sat on it, and the dog sat.\n")
    go_on = change(folder)
    before = scores(folder, corpus)
    assert scores(folder, corpus) == before
    go_on()
    after = scores(folder, corpus)
    assert after == scores(folder, corpus, tmp_path / "anew")
    assert after != before


def test_texts_and_index_in_the_models_folder_are_not_the_model(folder: Path):
    corpus = folder / "corpus.txt"
    corpus.write_text("The dog ran.\na mat\n")
    open_corpus(folder, corpus, device="cpu")
    built = (folder / "corpus.txt.index" / "index.json").stat().st_mtime_ns
    open_corpus(folder, corpus, device="cpu")
    assert (folder / "corpus.txt.index" / "index.json").stat().st_mtime_ns == built
    assert model_hash(folder, corpus, folder / "corpus.txt.index") != model_hash(folder)
