"""Folders of strangers: broken, mislabelled, or made to do harm."""

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from regard.hub import HubError, read_folder
from tests.hub.toys import toy


@pytest.fixture
def folder(hf, tmp_path) -> Path:
    return toy(hf, tmp_path / "model", "bert", "ForSequenceClassification")


class Harm:
    """What runs when a pickle of it is opened."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def change(folder, **facts):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def refused(folder, *words):
    with pytest.raises(HubError) as caught:
        read_folder(folder)
    for word in words:
        assert word in str(caught.value)


def test_the_harmful_pickle_would_do_harm(tmp_path):
    pickle.loads(pickle.dumps(Harm(tmp_path / "harm")))
    assert (tmp_path / "harm").exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.pt"])
def test_no_pickle_is_opened_whatever_its_name(folder, tmp_path, name, protocol):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps({"x": Harm(tmp_path / "harm")}, protocol=protocol))
    refused(folder, name)
    assert not (tmp_path / "harm").exists()


def test_an_archive_of_torch_is_not_opened(folder, tmp_path):
    torch.save({"x": Harm(tmp_path / "harm")}, folder / "model.safetensors")
    refused(folder, "model.safetensors", "not opened")
    assert not (tmp_path / "harm").exists()


def test_pickles_come_with_the_remedy(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "pytorch_model.bin", "regard import FOLDER OUT --pickle")


@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code", "custom_pipelines"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_a_configuration_is_refused(folder, file, key):
    path = folder / file
    facts = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**facts, key: {"AutoModel": "evil.Model"}}))
    (folder / "evil.py").write_text("raise SystemExit")
    refused(folder, file, key, "nothing of a folder is run")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("hidden_act", "silu"),
        ("hidden_act", ["gelu"]),
        ("quantization_config", {"bits": 4}),
        ("pruned_heads", {"0": [1]}),
        ("attn_implementation", "someone/kernel"),
        ("rope_theta", 10000.0),
        ("model_type", "gpt2"),
        ("model_type", ["bert"]),
        ("hidden_size", "32"),
        ("hidden_size", True),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", 1),
        ("num_hidden_layers", 0),
        ("intermediate_size", -1),
        ("max_position_embeddings", 0),
        ("hidden_dropout_prob", "0.1"),
        ("hidden_dropout_prob", float("nan")),
        ("hidden_size", 10**30),
        ("architectures", "BertModel"),
        ("problem_type", "guessing"),
        ("problem_type", ["regression"]),
        ("hidden_dropout_prob", 10**400),
        ("id2label", {"0": "a", "2": "b", "3": "c"}),
        ("id2label", {"0": "a", "1": "a", "2": "b"}),
        ("id2label", ["a", "b", "c"]),
    ],
)
def test_what_changes_the_computation_must_be_known(folder, key, value):
    change(folder, **{key: value})
    refused(folder, "config.json", key)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hidden_size", 36, "[300, 32]"),
        ("hidden_size", 33, "d_model=33"),
        ("num_attention_heads", 5, "heads=5"),
        ("hidden_dropout_prob", 1.5, "dropout=1.5"),
        ("layer_norm_eps", 0, "norm.eps=0"),
        ("vocab_size", 2**28, "embeddings.word_embeddings.weight"),
        ("intermediate_size", 2**28, "encoder.layer.0.intermediate.dense.weight"),
    ],
)
def test_sizes_that_are_not_those_of_the_tensors_are_told(folder, key, value, words):
    change(folder, **{key: value})
    refused(folder, words)


def test_metadata_and_empty_keys_are_passed_over(folder):
    before = read_folder(folder)
    change(folder, _name_or_path="x", gradient_checkpointing=True, use_cache=True, something=None, other=[])
    change(folder, task_specific_params={"a": 1}, finetuning_task="sst2", torch_dtype="float32")
    after = read_folder(folder)
    assert (after.config, after.longest, after.labels) == (before.config, before.longest, before.labels)
    assert_close(dict(after.weights), dict(before.weights), rtol=0, atol=0)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "modules.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null"],
    ids=["empty", "cut", "bytes", "deep", "null"],
)
def test_broken_files_are_named(folder, file, content):
    (folder / file).write_bytes(content)
    refused(folder, file)


def test_huge_files_are_not_read(folder):
    with (folder / "config.json").open("r+b") as file:
        file.truncate(2**30)  # sparse: it takes no room
    refused(folder, "config.json", "bytes")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_without_an_end_is_not_read(folder, name):
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refused(folder, name, "no ordinary file")


@pytest.mark.parametrize(
    "change",
    [
        {"model": 3},
        {"model": {"type": "Unknown"}},
        {"normalizer": 3},
        {"added_tokens": [{"content": "x"}]},
        {"post_processor": {"type": "TemplateProcessing"}},
    ],
    ids=str,
)
def test_a_tokenizer_that_is_none_is_named(folder, change):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    refused(folder, "tokenizer.json", "AutoTokenizer")


def test_a_missing_folder_and_missing_files_are_named(folder, tmp_path):
    refused(tmp_path / "nowhere", "nowhere")
    (folder / "tokenizer.json").unlink()
    refused(folder, "tokenizer.json", "AutoTokenizer")
    (folder / "model.safetensors").unlink()
    refused(folder, "model.safetensors")
    (folder / "config.json").unlink()
    refused(folder, "config.json")


def test_a_file_cut_short_is_named(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    refused(folder, "model.safetensors", "cut short")
    path.write_bytes(path.read_bytes()[:50])
    refused(folder, "model.safetensors", "cut short")


@pytest.mark.parametrize("size", [2**62, 10**6], ids=["endless", "beyond the file"])
def test_a_header_that_lies_about_its_size_is_named(folder, size):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + b"{}")
    refused(folder, "model.safetensors")


def tensors(folder, **changes):
    path = folder / "model.safetensors"
    held = {**load_file(path), **changes}
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, path)


def test_missing_and_misshapen_tensors_are_named(folder):
    name = "bert.encoder.layer.1.attention.self.key.weight"
    held = load_file(folder / "model.safetensors")
    tensors(folder, **{name: None})
    refused(folder, "model.safetensors", name.removeprefix("bert."))
    tensors(folder, **{name: held[name][:8].clone()})
    refused(folder, "model.safetensors", name.removeprefix("bert."), "[8, 32]", "[32, 32]")
    tensors(folder, **{name: held[name].to(torch.int32)})
    refused(folder, "model.safetensors", name.removeprefix("bert."), "int32")
    tensors(folder, **{name: held[name], "classifier.bias": None})
    refused(folder, "model.safetensors", "classifier.bias")


def test_a_tensor_under_two_names_with_two_values_is_refused(folder):
    held = load_file(folder / "model.safetensors")["bert.embeddings.LayerNorm.weight"]
    tensors(folder, **{"embeddings.LayerNorm.weight": held + 1})
    refused(folder, "embeddings.LayerNorm.weight", "twice")


def test_labels_that_are_not_those_of_the_tensors_are_refused(folder):
    change(folder, id2label={"0": "a", "1": "b"})
    refused(folder, "classifier.weight")


def test_a_tokenizer_of_another_model_is_refused(folder):
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text())
    state["model"]["vocab"]["more"] = 300
    path.write_text(json.dumps(state))
    refused(folder, "tokenizer.json", "300", "vocab_size")


def sharded(folder, shard):
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    names = load_file(folder.parent / "outside.safetensors").keys()
    index = {"weight_map": dict.fromkeys(names, shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    "shard",
    [
        "../outside.safetensors",
        "sub/../../outside.safetensors",
        "..",
        "",
        ".hidden.safetensors",
        "a\\b",
        "a\0b",
    ],
)
def test_shards_stay_in_the_folder(folder, shard):
    sharded(folder, shard)
    refused(folder, "index.json", "no plain file name")


def test_an_absolute_shard_is_refused(folder, tmp_path):
    sharded(folder, str(tmp_path / "outside.safetensors"))
    refused(folder, "index.json", "no plain file name")


def test_a_shard_that_is_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    sharded(folder, "part.safetensors")
    (folder / "part.safetensors").symlink_to(tmp_path / "outside.safetensors")
    refused(folder, "index.json", "leads out of the folder")


def test_a_shard_that_is_a_pickle_is_not_opened(folder, tmp_path):
    sharded(folder, "pytorch_model-00001.bin")
    (folder / "pytorch_model-00001.bin").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))
    refused(folder, "pytorch_model-00001.bin", "not opened")
    assert not (tmp_path / "harm").exists()


def test_indices_that_are_wrong_are_named(folder):
    sharded(folder, "part.safetensors")
    refused(folder, "part.safetensors")
    save_file({"x": torch.zeros(1)}, folder / "part.safetensors")
    refused(folder, "part.safetensors", "no tensor")
    for content in ({}, {"weight_map": []}, {"weight_map": {"x": 3}}, []):
        (folder / "model.safetensors.index.json").write_text(json.dumps(content))
        refused(folder, "index.json")


def test_the_cache_of_the_hub_may_link_to_its_blobs(folder, tmp_path):
    """A snapshot is links to ../../blobs, shards too."""
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    expected = read_folder(folder).weights
    sharded(folder, "part.safetensors")
    (folder.parent / "outside.safetensors").rename(folder / "part.safetensors")
    for path in folder.iterdir():
        path.rename(blobs / path.name)
        (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / path.name)
    found = read_folder(snapshot).weights
    assert all(torch.equal(found[name], expected[name]) for name in expected)
