"""Language models of GPT-2's family compute here what they compute in transformers, and go back there."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.hub import HubWarning, read_decoder, write_folder
from regard.settings.presets import DECODERS
from tests.hub.gpts import (
    END,
    TEXTS,
    build,
    byte_pairs,
    change,
    decoder,
    own,
    refused,
    same_weights,
    save,
    tensors,
)
from tests.hub.toys import batch

TIGHT = {"rtol": 1e-5, "atol": 1e-5}
ROWS = [[7, 9, 5, 3, 260], [2], [260, 20, 21, 22, 6, 8, 11, 3]]
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


@pytest.fixture
def folder(hf, tmp_path) -> Path:
    return save(build(hf), tmp_path / "model")


@pytest.mark.spec("3.7")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_word_embeddings": False},
        {"n_inner": 48, "n_head": 2, "n_layer": 3},
        {"activation_function": "gelu"},
        {"activation_function": "relu"},
        {"activation_function": "gelu_pytorch_tanh"},
        {"layer_norm_epsilon": 0.1},
        {"reorder_and_upcast_attn": True},
    ],
    ids=str,
)
def test_scores_are_theirs(hf, tmp_path, settings):
    model = build(hf, **settings)
    mine = decoder(read_decoder(save(model, tmp_path)))
    assert mine.config.tied == settings.get("tie_word_embeddings", True)
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model(**padded).logits), **TIGHT)


@pytest.mark.parametrize("tied", [True, False])
def test_training_without_dropout_has_their_gradients(hf, tmp_path, tied):
    model = build(hf, tie_word_embeddings=tied, **NO_DROPOUT).train()
    mine = decoder(read_decoder(save(model, tmp_path))).train()
    padded, packed, layout = batch(ROWS, pad=0)
    targets = packed.roll(1)
    for scores in (mine.head(mine(packed, layout)), layout.from_grid(model(**padded).logits)):
        torch.nn.functional.cross_entropy(scores, targets).backward()
    theirs, found = dict(model.named_parameters()), dict(mine.named_parameters())
    for ours, name, turned in (
        ("embedding.tokens.weight", "wte.weight", False),
        ("embedding.positions.table.weight", "wpe.weight", False),
        ("body.layers.0.attention.project.weight", "h.0.attn.c_attn.weight", True),
        ("body.layers.1.attention.output.weight", "h.1.attn.c_proj.weight", True),
        ("body.layers.0.feed_forward.inner.weight", "h.0.mlp.c_fc.weight", True),
        ("body.layers.1.feed_forward.output.bias", "h.1.mlp.c_proj.bias", False),
        ("body.final_norm.weight", "ln_f.weight", False),
    ):
        expected = theirs[f"transformer.{name}"].grad
        assert expected.abs().max() > 1e-3
        assert_close(found[ours].grad, expected.t() if turned else expected, **TIGHT)
    if not tied:
        assert_close(found["head.weight"].grad, theirs["lm_head.weight"].grad, **TIGHT)


def test_greedy_search_finds_what_theirs_generates(hf, tmp_path):
    """All prompts in one batch here, each alone there. The end is a token that some come to, and some not."""
    model = build(hf)
    checkpoint = read_decoder(save(model, tmp_path))
    mine = decoder(checkpoint)
    prompts = [[260, *ids] for ids in checkpoint.tokenizer.encode_batch(TEXTS)]

    def generated(prompt, end):
        ids, most = torch.tensor([prompt]), {"max_new_tokens": 12, "pad_token_id": 0, "eos_token_id": end}
        found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **most)
        return found[0, len(prompt) :].tolist()

    free = [generated(prompt, 299) for prompt in prompts]
    end = next(id for row in free for id in row[2:] if any(id not in other for other in free))
    expected = [row[: row.index(end)] if end in row else row for row in free]
    assert [[*row, end][:12] for row in expected] == [generated(prompt, end) for prompt in prompts]
    config = DecodeConfig(method="greedy", maximum=12)
    found = decode(mine, mine.start(rows=len(prompts)), prompts, end=end, config=config)
    for prompt, row, whole, (hypothesis,) in zip(prompts, expected, free, found, strict=True):
        assert list(hypothesis.ids) == [*prompt[1:], *row]
        assert hypothesis.finished == (end in whole)


def test_gpt2s_own_configuration_is_the_preset(hf, tmp_path):
    small = {"n_layer": 2, "n_embd": 128, "n_head": 4, "n_positions": 1024}
    checkpoint = read_decoder(save(build(hf, **small), tmp_path))
    assert checkpoint.config == DECODERS["tiny"](300)


def test_dropouts_are_read_but_for_that_of_the_attention_weights(hf, tmp_path):
    settings = {"resid_pdrop": 0.3, "embd_pdrop": 0.2, "attn_pdrop": 0.4}
    config = read_decoder(save(build(hf, **settings), tmp_path)).config
    assert (config.body.dropout, config.embedding.dropout, config.body.attention.dropout) == (0.3, 0.2, 0.0)


def test_a_bare_body_is_the_model_without_its_prefix(hf, tmp_path):
    model = build(hf)
    whole = read_decoder(save(model, tmp_path / "whole"))
    bare = read_decoder(save(model.transformer, tmp_path / "bare"))
    assert json.loads((tmp_path / "bare" / "config.json").read_text())["architectures"] == ["GPT2Model"]
    same_weights(bare.weights, whole.weights)
    change(tmp_path / "bare", tie_word_embeddings=False)
    refused(tmp_path / "bare", "lm_head.weight")


def test_masks_of_old_folders_are_no_weights(folder):
    expected = read_decoder(folder).weights
    mask = torch.ones(1, 1, 64, 64, dtype=torch.uint8).tril()
    old = {f"transformer.h.{layer}.attn.bias": mask.clone() for layer in range(2)}
    tensors(folder, **old, **{"transformer.h.0.attn.masked_bias": torch.tensor(-1e4)})
    same_weights(read_decoder(folder).weights, expected)
    tensors(folder, **{"transformer.h.0.crossattention.bias": torch.ones(2)})
    with pytest.warns(HubWarning, match=r"left out: 'h\.0\.crossattention\.bias'"):
        read_decoder(folder)


def test_a_double_of_the_tied_matrix_is_dropped_and_one_of_its_own_is_kept(hf, folder):
    expected = read_decoder(folder).weights
    rows = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    tensors(folder, **{"lm_head.weight": rows.clone()})
    same_weights(read_decoder(folder).weights, expected)
    tensors(folder, **{"transformer.wte.weight": None})  # each name does for both
    same_weights(read_decoder(folder).weights, expected)
    tensors(folder, **{"transformer.wte.weight": rows, "lm_head.weight": rows + 1})
    apart = read_decoder(folder)
    assert not apart.config.tied
    assert torch.equal(apart.weights["head.weight"], rows + 1)
    theirs = hf.GPT2LMHeadModel.from_pretrained(folder)
    assert torch.equal(theirs.lm_head.weight, rows + 1)


def test_shards_and_half_precision_are_one_model_in_float32(hf, tmp_path):
    model = build(hf).bfloat16()
    whole = read_decoder(save(model, tmp_path / "whole")).weights
    model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    byte_pairs().save(str(tmp_path / "parts" / "tokenizer.json"))
    assert (tmp_path / "parts" / "model.safetensors.index.json").exists()
    same_weights(read_decoder(tmp_path / "parts").weights, whole)
    assert {weight.dtype for weight in whole.values()} == {torch.float32}


@pytest.mark.parametrize("facts", [None, {}, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}])
@pytest.mark.parametrize("old", [False, True], ids=["tokenizer.json", "vocab.json"])
def test_texts_have_their_ids(hf, folder, old, facts):
    if old:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        lines = "".join(f"{a} {b}\n" for a, b in model["merges"])
        (folder / "merges.txt").write_text(f"#version: 0.2\n{lines}", encoding="utf-8")
    if facts is not None:
        change(folder, "tokenizer_config.json", **facts)
    mine = read_decoder(folder).tokenizer
    theirs = hf.GPT2TokenizerFast.from_pretrained(folder)
    assert mine.encode_batch(TEXTS) == theirs(TEXTS)["input_ids"]
    within = f"the cat{END} the mat"
    assert list(mine.encode(within, specials_in_text=True).ids) == theirs(within)["input_ids"]
    assert mine.decode(mine.encode(TEXTS[4]).ids).strip() == TEXTS[4]
    assert (mine.ids.start, mine.ids.end, mine.ids.pad) == (260, 260, None)
    with pytest.raises(ValueError, match="no cls template"):
        mine.encode("the cat", template="cls")


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_the_end_is_what_the_folder_says_it_is(hf, folder, tmp_path, file):
    byte_pairs("<over>").save(str(folder / "tokenizer.json"))
    change(folder, file, eos_token={"content": "<over>", "special": True})
    checkpoint = read_decoder(folder)
    assert (checkpoint.tokenizer.ids.start, checkpoint.tokenizer.ids.end) == (260, 261)
    write_folder(checkpoint, tmp_path / "out")
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "out").eos_token_id == 261
    assert hf.AutoModelForCausalLM.from_pretrained(tmp_path / "out").generation_config.eos_token_id == 261
    change(folder, file, eos_token="<none>")
    refused(folder, "<none>")


@pytest.mark.spec("5.7")
@pytest.mark.parametrize("tied", [True, False])
def test_a_round_trip_keeps_every_tensor_to_the_bit(hf, tmp_path, tied):
    save(build(hf, tie_word_embeddings=tied, n_inner=48), tmp_path / "before")
    write_folder(read_decoder(tmp_path / "before"), tmp_path / "after")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("before", "after"))
    same_weights(first, second)
    facts = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("before", "after")]
    both = facts[0].keys() & facts[1].keys() - {"attn_pdrop"}  # not taken over
    assert {"model_type", "architectures", "n_inner", "tie_word_embeddings", "eos_token_id"} <= both
    assert {key: facts[0][key] for key in both} == {key: facts[1][key] for key in both}
    states = [json.loads((tmp_path / name / "tokenizer.json").read_text()) for name in ("before", "after")]
    assert states[0] == states[1]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["byte-bpe", "unigram"])
def test_a_model_from_nothing_opens_there_and_comes_back(hf, tmp_path, kind, tied):
    checkpoint = own(kind, tied=tied)
    write_folder(checkpoint, tmp_path / "out")
    model, told = hf.GPT2LMHeadModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    there = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    rows = checkpoint.tokenizer.encode_batch(TEXTS, template="none")
    assert there(TEXTS)["input_ids"] == rows
    assert there.model_max_length == 64
    assert (there.bos_token_id, there.eos_token_id) == (
        checkpoint.tokenizer.ids.start,
        model.config.eos_token_id,
    )
    padded, packed, layout = batch([row for row in rows if row], pad=0)
    mine = decoder(checkpoint)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model.eval()(**padded).logits), **TIGHT)
    again = read_decoder(tmp_path / "out")
    assert again.config == checkpoint.config
    same_weights(again.weights, checkpoint.weights)
    model.save_pretrained(tmp_path / "theirs")
    there.save_pretrained(tmp_path / "theirs")
    same_weights(read_decoder(tmp_path / "theirs").weights, checkpoint.weights)
