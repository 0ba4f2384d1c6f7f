"""Language models that GPT-2's family has no place for, or that come in folders not to be trusted."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.config import from_dict, to_dict
from regard.hub import (
    DecoderCheckpoint,
    HubError,
    HubWarning,
    is_decoder,
    is_foreign,
    read_decoder,
    read_folder,
    write_folder,
)
from regard.hub.files import write_tensors
from regard.settings.models import DecoderConfig
from regard.settings.network import RecurrentConfig
from tests.hub.gpts import build, change, own, refused, save, tensors
from tests.hub.test_hostile import Harm
from tests.hub.toys import toy


@pytest.fixture
def folder(hf, tmp_path) -> Path:
    return save(build(hf), tmp_path / "model")


def changed(checkpoint: DecoderCheckpoint, path: str, value) -> DecoderCheckpoint:
    plain = to_dict(checkpoint.config)
    *above, last = path.split(".")
    inner = plain
    for key in above:
        inner = inner[key]
    inner[last] = value
    return replace(checkpoint, config=from_dict(DecoderConfig, plain))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("body.norm.place", "post", "norm.place='post'"),
        ("body.norm.kind", "rms", "norm.kind='rms'"),
        ("body.final_norm", False, "final_norm=false"),
        ("body.window", 8, "window=8"),
        ("body.attention.kv_heads", 1, "kv_heads=1"),
        ("body.attention.d_head", 64, "d_head=64"),
        ("body.attention.d_value", 64, "d_value=64"),
        ("body.attention.bias", False, "attention.bias=false"),
        ("body.feed_forward.activation", "swiglu", "activation='swiglu'"),
        ("body.feed_forward.bias", False, "feed_forward.bias=false"),
        ("positions.kind", "rotary", "positions.kind='rotary'"),
        ("positions.first", 2, "positions.first=2"),
        ("embedding.scaled", True, "embedding.scaled=true"),
        ("embedding.normed", True, "embedding.normed=true"),
        ("embedding.segments", 2, "embedding.segments=2"),
        ("head_bias", True, "head_bias=true"),
        ("vocabulary", 8, "the model vectors for 8"),
        ("positions.longest", 8, "longest=64"),
    ],
)
def test_a_shape_that_the_family_does_not_have_is_refused_by_name(tmp_path, path, value, named):
    with pytest.raises(HubError, match=named):
        write_folder(changed(own(), path, value), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_recurrent_body_is_refused(tmp_path):
    checkpoint = changed(changed(own(), "positions.kind", "none"), "body", to_dict(RecurrentConfig()))
    with pytest.raises(HubError, match=r"body\.kind='recurrent'"):
        write_folder(checkpoint, tmp_path / "out")


def test_a_dropout_without_a_place_is_told(tmp_path):
    with pytest.warns(HubWarning, match=r"feed_forward.dropout=0.5"):
        write_folder(changed(own(), "body.feed_forward.dropout", 0.5), tmp_path / "out")


def test_what_does_not_read_back_the_same_is_not_kept(tmp_path, monkeypatch):
    def miswrite(path, tensors):
        write_tensors(path, {name: tensor + 1e-3 for name, tensor in tensors.items()})

    monkeypatch.setattr("regard.hub.folder.write_tensors", miswrite)
    with pytest.raises(HubError, match="reads back differently"):
        write_folder(own(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scale_attn_weights", False),
        ("scale_attn_weights", None),
        ("scale_attn_by_inverse_layer_idx", True),
        ("add_cross_attention", True),
        ("activation_function", "silu"),
        ("activation_function", "gelu_fast"),
        ("hidden_size", 32),
        ("rope_theta", 1e4),
        ("auto_map", {"AutoModel": "evil.Model"}),
        ("n_layer", 10**9),
        ("n_layer", 3),
        ("n_layer", 1),
        ("n_inner", 0),
        ("n_inner", "48"),
        ("n_positions", 0),
        ("resid_pdrop", "0.1"),
        ("model_type", "gpt_neo"),
        ("model_type", ["gpt2"]),
        ("architectures", "GPT2LMHeadModel"),
    ],
)
def test_what_changes_the_computation_must_be_known(folder, key, value):
    change(folder, **{key: value})
    refused(folder, "config.json", key)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("n_embd", 36, "[300, 32]"),
        ("n_head", 5, "heads=5"),
        ("embd_pdrop", 1.5, "dropout=1.5"),
        ("n_inner", 48, "h.0.mlp.c_fc.weight is [32, 128], but config.json makes it [32, 48]"),
        ("n_positions", 2**28, "wpe.weight"),
    ],
)
def test_sizes_that_are_not_those_of_the_tensors_are_told(folder, key, value, words):
    change(folder, **{key: value})
    refused(folder, words)


def test_metadata_is_passed_over(folder):
    before = read_decoder(folder)
    old = {"n_ctx": 64, "task_specific_params": {"text-generation": {"do_sample": True}}, "_num_labels": 1}
    change(folder, **old, pad_token_id=260)
    change(folder, "generation_config.json", temperature=0.7, eos_token_id=[260, 3])
    after = read_decoder(folder)
    assert after.config == before.config
    assert after.longest == before.longest
    assert_close(dict(after.weights), dict(before.weights), rtol=0, atol=0)


@pytest.mark.parametrize("architecture", ["GPT2ForSequenceClassification", "GPT2DoubleHeadsModel"])
def test_other_heads_are_refused_and_what_is_read_is_named(folder, architecture):
    change(folder, architectures=[architecture])
    refused(folder, architecture, "GPT2LMHeadModel and GPT2Model")


def test_no_pickle_is_opened_and_the_remedy_is_told(folder, tmp_path):
    for name in ("model.safetensors", "pytorch_model.bin"):
        (folder / "model.safetensors").unlink(missing_ok=True)
        (folder / name).write_bytes(pickle.dumps({"x": Harm(tmp_path / "harm")}))
        refused(folder, name)
    refused(folder, "regard import FOLDER OUT --pickle")
    assert not (tmp_path / "harm").exists()


def test_shards_stay_in_the_folder(folder):
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    names = load_file(folder.parent / "outside.safetensors").keys()
    index = {"weight_map": dict.fromkeys(names, "../outside.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, "index.json", "no plain file name")


def test_missing_and_misshapen_tensors_are_named(folder):
    name = "transformer.h.1.attn.c_attn.weight"
    held = load_file(folder / "model.safetensors")[name]
    tensors(folder, **{name: None})
    refused(folder, "model.safetensors", "h.1.attn.c_attn.weight")
    tensors(folder, **{name: held.t().contiguous()})
    refused(folder, "h.1.attn.c_attn.weight", "[96, 32]", "[32, 96]")


def test_an_encoder_and_a_language_model_are_not_taken_for_each_other(hf, folder, tmp_path):
    encoder = toy(hf, tmp_path / "encoder")
    assert is_foreign(folder)
    assert is_foreign(encoder)
    assert (is_decoder(folder), is_decoder(encoder), is_decoder(tmp_path)) == (True, False, False)
    with pytest.raises(HubError, match="model_type='gpt2' is a language model"):
        read_folder(folder)
    refused(encoder, "model_type='bert' is an encoder")
    change(folder, "modules.json")
    refused(folder, "modules.json", "vectors of sentences")
