"""Language models of Llama's family compute here what they compute in transformers, and go back there."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.config import from_dict, to_dict
from regard.decode import DecodeConfig, decode
from regard.hub import HubError, HubWarning, is_decoder, read_decoder, write_folder
from regard.hub.families import family_named
from regard.hub.family import DecoderFamily
from regard.hub.weights import write_names
from regard.settings.models import DecoderConfig
from regard.tasks.language.generator import open_generator
from tests.hub.gpts import TEXTS, change, decoder, refused, same_weights
from tests.hub.llamas import CASES, END, START, TURN, build, byte_pairs, named, own, save, sentence_pieces
from tests.hub.toys import batch

TIGHT = {"rtol": 1e-5, "atol": 1e-5}
ROWS = [
    [7, 9, 5, 3, 260],
    [2],
    [260, 20, 21, 22, 6, 8, 11, 3, 14, 15, 16, 17, 18, 19, 33, 34, 35, 36, 37, 38],
]


@pytest.fixture(params=CASES, ids=named)
def case(request):
    return request.param


def test_states_and_scores_are_theirs(hf, tmp_path, case):
    kind, settings = case
    model = build(hf, kind, **settings)
    mine = decoder(read_decoder(save(model, tmp_path)))
    assert mine.config.tied == settings.get("tie_word_embeddings", False)
    padded, packed, layout = batch(ROWS, pad=0)
    theirs = model(**padded, output_hidden_states=True)
    x = mine.embedding(packed, layout.positions, layout.longest)
    states = [x, *mine.body.states(x, layout)]
    for found, expected in zip(states, theirs.hidden_states, strict=True):
        assert_close(found, layout.from_grid(expected), **TIGHT)
    assert_close(mine.head(states[-1]), layout.from_grid(theirs.logits), **TIGHT)


def test_training_has_their_gradients(hf, tmp_path, case):
    kind, settings = case
    model = build(hf, kind, **settings).train()
    mine = decoder(read_decoder(save(model, tmp_path))).train()
    padded, packed, layout = batch(ROWS, pad=0)
    targets = packed.roll(1)
    for scores in (mine.head(mine(packed, layout)), layout.from_grid(model(**padded).logits)):
        torch.nn.functional.cross_entropy(scores, targets).backward()
    theirs = dict(model.named_parameters())
    found, _ = write_names(
        {name: parameter.grad for name, parameter in mine.named_parameters()},
        mine.config,
        family_named(model.config.model_type, DecoderFamily),
    )
    assert found.keys() == theirs.keys()
    for name, gradient in found.items():
        assert theirs[name].grad.abs().max() > 1e-4
        assert_close(gradient, theirs[name].grad, rtol=1e-4, atol=1e-5)


def test_greedy_search_with_a_cache_finds_what_theirs_generates(hf, tmp_path, case):
    kind, settings = case
    model = build(hf, kind, **settings)
    mine = decoder(read_decoder(save(model, tmp_path)))

    def generated(prompt):
        ids, most = torch.tensor([prompt]), {"max_new_tokens": 24, "pad_token_id": 0, "eos_token_id": 299}
        found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **most)
        return found[0, len(prompt) :].tolist()

    expected = [generated(prompt) for prompt in ROWS]
    config = DecodeConfig(method="greedy", maximum=24)
    found = decode(mine, mine.start(rows=len(ROWS)), ROWS, end=299, config=config)
    for prompt, row, (hypothesis,) in zip(ROWS, expected, found, strict=True):
        row = row[: row.index(299)] if 299 in row else row
        assert list(hypothesis.ids) == [*prompt[1:], *row]


def test_a_round_trip_keeps_every_tensor_to_the_bit(hf, tmp_path, case):
    kind, settings = case
    save(build(hf, kind, **settings), tmp_path / "before")
    checkpoint = read_decoder(tmp_path / "before")
    write_folder(checkpoint, tmp_path / "after")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("before", "after"))
    same_weights(first, second)
    again = read_decoder(tmp_path / "after")
    assert again.config == checkpoint.config
    assert again.conventions == checkpoint.conventions
    model, told = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "after", output_loading_info=True)
    windowless = kind == "Mistral" and settings["sliding_window"] is None  # which is a Llama
    assert type(model).__name__ == f"{'Llama' if windowless else kind}ForCausalLM"
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    padded, packed, layout = batch(ROWS, pad=0)
    mine = decoder(checkpoint)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model.eval()(**padded).logits), **TIGHT)


def test_shards_and_half_precision_are_one_model_in_float32(hf, tmp_path):
    model = build(hf, "Llama").bfloat16()
    whole = read_decoder(save(model, tmp_path / "whole")).weights
    model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    assert len([*(tmp_path / "parts").glob("*.safetensors")]) > 2
    same_weights(read_decoder(tmp_path / "parts").weights, whole)
    assert {weight.dtype for weight in whole.values()} == {torch.float32}


def test_rotary_positions_are_read_as_transformers_4_wrote_them(hf, tmp_path):
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"original_max_position_embeddings": 32}
    save(build(hf, "Llama", rope_parameters={**rope, "rope_theta": 500.0}), tmp_path)
    expected = read_decoder(tmp_path).config.positions
    facts = json.loads((tmp_path / "config.json").read_text())
    del facts["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps({**facts, "rope_theta": 500.0, "rope_scaling": rope}))
    assert read_decoder(tmp_path).config.positions == expected
    old = {**rope, "type": rope["rope_type"]}
    del old["rope_type"]
    change(tmp_path, rope_scaling=old)
    assert read_decoder(tmp_path).config.positions == expected


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces], ids=["bytes", "pieces"])
@pytest.mark.parametrize("facts", [{}, {"add_bos_token": False}, {"add_bos_token": True}], ids=str)
def test_texts_have_their_ids(hf, tmp_path, make, facts):
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"} if make is sentence_pieces else {}
    save(build(hf, "Llama"), tmp_path / "model", make(), **ends)
    change(tmp_path / "model", "tokenizer_config.json", **facts)
    generator = open_generator(tmp_path / "model")
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = [text for text in TEXTS if text.strip()]
    assert theirs(texts[0])["input_ids"][0] == generator.tokenizer.ids.start
    asked = generator._encoded(texts, None, generator._options(generator.decoding, {}, (), "stop", None))
    assert [prompt.ids for prompt in asked] == [theirs(text)["input_ids"] for text in texts]
    assert generator.begins
    plain = "the cat sat at the mat."
    assert generator.tokenizer.decode(generator.tokenizer.encode(plain).ids) == plain
    write_folder(read_decoder(tmp_path / "model"), tmp_path / "again")
    again = hf.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [again(text)["input_ids"] for text in texts] == [theirs(text)["input_ids"] for text in texts]


def test_several_ends_end_a_text_and_are_written_back(hf, tmp_path):
    model = build(hf, "Qwen2", eos_token_id=[261, 262])
    save(model, tmp_path / "model", byte_pairs(begins=False))
    generator = open_generator(tmp_path / "model")
    assert generator.ends == (261, 262)
    assert not {261, 262} & {*generator.never_written}
    assert 260 in generator.never_written
    write_folder(read_decoder(tmp_path / "model"), tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == [261, 262]
    assert hf.AutoModelForCausalLM.from_pretrained(tmp_path / "again").generation_config.eos_token_id == [
        261,
        262,
    ]


def test_what_a_folder_says_of_its_texts_survives_an_import(hf, tmp_path):
    from regard.tasks.language.start import open_language, save_language

    save(build(hf, "Qwen2", eos_token_id=[261, 262]), tmp_path / "model", byte_pairs(begins=False))
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    first = open_language(tmp_path / "model")
    assert (first.conventions.begins, first.conventions.ends) == (False, (262,))
    save_language(first, tmp_path / "own")
    second = open_language(tmp_path / "own")
    assert second.conventions == first.conventions
    assert second.conventions.chat_template == "{{ messages[0].content }}"
    assert second.tokenizer.specials.start == START
    assert second.tokenizer.specials.end == END
    assert TURN in second.tokenizer.specials.extra


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type='dynamic'"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "rope_type='longrope'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "mscale": 1.0}}, "'mscale'"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "partial_rotary_factor",
        ),
        ({"rope_parameters": {"rope_type": "linear"}}, "factor=None"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"rope_interleaved": True}, "rope_interleaved=True"),
        ({"pretraining_tp": 2}, "pretraining_tp=2"),
        ({"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"residual_multiplier": 0.2}, "residual_multiplier"),
        ({"num_key_value_heads": 3}, "kv_heads=3"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_almost_of_the_family_is_refused_by_the_settings_name(hf, tmp_path, facts, word):
    save(build(hf, "Llama"), tmp_path)
    change(tmp_path, **facts)
    refused(tmp_path, word)


@pytest.mark.parametrize("kind", ["mixtral", "gemma2", "smollm3", "qwen3_moe", "phi3"])
def test_another_architecture_is_refused_by_its_name(hf, tmp_path, kind):
    save(build(hf, "Llama"), tmp_path)
    change(tmp_path, model_type=kind)
    assert not is_decoder(tmp_path)
    refused(tmp_path, f"model_type={kind!r}")


def test_a_window_of_some_layers_is_refused(hf, tmp_path):
    save(build(hf, "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1), tmp_path)
    refused(tmp_path, "max_window_layers=1")


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("body.norm.place", "post", "norm.place='post'"),
        ("body.feed_forward.activation", "geglu", "activation='geglu'"),
        ("body.attention.d_value", 64, "d_value=64"),
        ("body.attention.output_bias", True, "output_bias=true"),
        ("body.final_norm", False, "final_norm=false"),
        ("embedding.scaled", True, "embedding.scaled=true"),
        ("embedding.normed", True, "embedding.normed=true"),
        ("head_bias", True, "head_bias=true"),
        ("positions.scaling", "ntk", "scaling='ntk'"),
    ],
)
def test_a_shape_that_no_llama_has_is_refused_by_name(tmp_path, path, value, word):
    checkpoint = own()
    plain = to_dict(checkpoint.config)
    *above, last = path.split(".")
    inner = plain
    for key in above:
        inner = inner[key]
    inner[last] = value
    config = from_dict(DecoderConfig, plain)
    with pytest.raises(HubError, match=word):
        write_folder(replace(checkpoint, config=config), tmp_path / "out")


def test_a_modern_model_from_nothing_opens_there_and_comes_back(hf, tmp_path):
    checkpoint = own()
    with pytest.warns(HubWarning, match="dropout"):
        write_folder(checkpoint, tmp_path / "out")
    model, told = hf.LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    rows = [row for row in checkpoint.tokenizer.encode_batch(TEXTS) if row]
    padded, packed, layout = batch(rows, pad=0)
    mine = decoder(checkpoint)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model.eval()(**padded).logits), **TIGHT)
    same_weights(read_decoder(tmp_path / "out").weights, checkpoint.weights)
