"""The config.json of models as their authors publish them, with the keys that older versions of transformers
wrote."""

import json

import pytest

from regard.hub import HubError
from regard.hub.families import read_facts
from regard.hub.family import DecoderFamily, EncoderFamily

MODERNBERT = {
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "cls_token_id": 50281,
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "eos_token_id": 50282,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "gradient_checkpointing": False,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "repad_logits_with_grad": False,
    "sep_token_id": 50282,
    "sparse_pred_ignore_index": -100,
    "sparse_prediction": False,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "transformers_version": "4.47.0.dev0",
    "vocab_size": 50368,
}
ROBERTA = {
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
}
XLM = {
    **ROBERTA,
    "model_type": "xlm-roberta",
    "output_past": True,
    "type_vocab_size": 1,
    "vocab_size": 250002,
}
RERANKER = {
    **XLM,
    "_name_or_path": "BAAI/bge-m3",
    "architectures": ["XLMRobertaForSequenceClassification"],
    "classifier_dropout": None,
    "hidden_size": 1024,
    "id2label": {"0": "LABEL_0"},
    "intermediate_size": 4096,
    "label2id": {"LABEL_0": 0},
    "max_position_embeddings": 8194,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "position_embedding_type": "absolute",
    "torch_dtype": "float32",
    "transformers_version": "4.38.1",
    "use_cache": True,
}
BERT = {
    **ROBERTA,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
ENCODERS = {
    "ModernBERT-base": MODERNBERT,
    "gte-modernbert-base": {**MODERNBERT, "architectures": ["ModernBertModel"], "torch_dtype": "float16"},
    "mmBERT-base": {
        **MODERNBERT,
        "bos_token_id": 2,
        "cls_token_id": 1,
        "eos_token_id": 1,
        "local_rope_theta": 160000.0,
        "mask_token_id": 4,
        "pad_token_id": 0,
        "position_embedding_type": "sans_pos",
        "sep_token_id": 1,
        "unk_token_id": 3,
        "vocab_size": 256000,
    },
    "ettin-encoder-17m": {
        **MODERNBERT,
        "causal_mask": False,
        "is_causal": False,
        "position_embedding_type": "sans_pos",
    },
    "a classifier from ModernBERT": {
        **MODERNBERT,
        "architectures": ["ModernBertForSequenceClassification"],
        "id2label": {"0": "no", "1": "yes"},
        "label2id": {"no": 0, "yes": 1},
        "problem_type": "single_label_classification",
        "reference_compile": False,
        "_attn_implementation_autoset": True,
    },
    "xlm-roberta-base": {**XLM, "architectures": ["XLMRobertaForMaskedLM"]},
    "multilingual-e5-base": {
        **XLM,
        "_name_or_path": "xlm-roberta-base",
        "architectures": ["XLMRobertaModel"],
        "classifier_dropout": None,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
        "transformers_version": "4.29.0.dev0",
        "use_cache": True,
    },
    "bge-m3": {**RERANKER, "architectures": ["XLMRobertaModel"]},
    "bge-reranker-v2-m3": RERANKER,
    "all-mpnet-base-v2": {
        **ROBERTA,
        "_name_or_path": "microsoft/mpnet-base",
        "architectures": ["MPNetForMaskedLM"],
        "model_type": "mpnet",
        "relative_attention_num_buckets": 32,
        "torch_dtype": "float32",
        "transformers_version": "4.8.2",
        "vocab_size": 30527,
    },
    "e5-base-v2": {
        **BERT,
        "_name_or_path": "tmp/",
        "architectures": ["BertModel"],
        "classifier_dropout": None,
        "gradient_checkpointing": False,
        "torch_dtype": "float32",
    },
    "bge-base-en-v1.5": {
        **BERT,
        "_name_or_path": "/root/.cache/torch/sentence_transformers/BAAI_bge-base-en/",
        "architectures": ["BertModel"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    },
    "LaBSE": {
        **BERT,
        "architectures": ["BertModel"],
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
        "vocab_size": 501153,
    },
    "ms-marco-MiniLM-L-6-v2": {
        **BERT,
        "architectures": ["BertForSequenceClassification"],
        "gradient_checkpointing": False,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
        "sentence_transformers": {
            "activation_fn": "torch.nn.modules.linear.Identity",
            "version": "4.1.0.dev0",
        },
    },
    "distilbert-base-uncased": {
        "activation": "gelu",
        "architectures": ["DistilBertForMaskedLM"],
        "attention_dropout": 0.1,
        "dim": 768,
        "dropout": 0.1,
        "hidden_dim": 3072,
        "initializer_range": 0.02,
        "max_position_embeddings": 512,
        "model_type": "distilbert",
        "n_heads": 12,
        "n_layers": 6,
        "pad_token_id": 0,
        "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": False,
        "tie_weights_": True,
        "transformers_version": "4.10.0.dev0",
        "vocab_size": 30522,
    },
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0.dev0",
    "use_cache": True,
    "vocab_size": 128256,
}
OLDER = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.31.0",
    "use_cache": True,
    "vocab_size": 32000,
}
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 896,
    "initializer_range": 0.02,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "model_type": "qwen2",
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
DECODERS = {
    "Llama-3.2-1B-Instruct": LLAMA,
    "Llama-2-7b-chat-hf": {
        **OLDER,
        "_name_or_path": "meta-llama/Llama-2-7b-chat-hf",
        "max_position_embeddings": 4096,
        "num_key_value_heads": 32,
        "pretraining_tp": 1,
        "rope_scaling": None,
    },
    "llama-7b": {**OLDER, "max_sequence_length": 2048, "pad_token_id": -1},
    "TinyLlama-1.1B-Chat-v1.0": {
        **OLDER,
        "attention_bias": False,
        "max_position_embeddings": 2048,
        "num_key_value_heads": 4,
        "pretraining_tp": 1,
        "rope_scaling": None,
        "rope_theta": 10000.0,
    },
    "SmolLM2-135M-Instruct": {
        **LLAMA,
        "eos_token_id": 2,
        "is_llama_config": True,
        "pad_token_id": 2,
        "rope_interleaved": False,
        "rope_scaling": None,
        "rope_theta": 100000,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    },
    "tuned and saved by transformers 4.48": {
        **LLAMA,
        "_attn_implementation_autoset": True,
        "neftune_noise_alpha": 5,
        "unsloth_fixed": True,
        "unsloth_version": "2024.12.4",
    },
    "Mistral-7B-v0.1": {
        **OLDER,
        "architectures": ["MistralForCausalLM"],
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "model_type": "mistral",
        "num_key_value_heads": 8,
        "rope_theta": 10000.0,
        "sliding_window": 4096,
    },
    "Mistral-7B-Instruct-v0.3": {
        **OLDER,
        "architectures": ["MistralForCausalLM"],
        "attention_dropout": 0.0,
        "max_position_embeddings": 32768,
        "model_type": "mistral",
        "num_key_value_heads": 8,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "vocab_size": 32768,
    },
    "Qwen2.5-0.5B-Instruct": QWEN,
    "Qwen2.5-0.5B": {**QWEN, "use_mrope": False, "max_window_layers": 24},
    "Qwen3-0.6B": {
        **QWEN,
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "head_dim": 128,
        "hidden_size": 1024,
        "max_position_embeddings": 40960,
        "max_window_layers": 28,
        "model_type": "qwen3",
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "rope_scaling": None,
        "sliding_window": None,
    },
}


def written(folder, table):
    path = folder / "config.json"
    path.write_text(json.dumps(table))
    return path


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_read_by_the_config_that_it_was_published_with(tmp_path, name):
    facts = read_facts(written(tmp_path, ENCODERS[name]), EncoderFamily)
    config = facts.family.read(facts, False)
    expected = {"hidden_size", "dim"} & {*facts.table}
    assert config.d_model == facts.table[expected.pop()]
    assert config.vocabulary == facts.table["vocab_size"]
    assert facts.kind(()) in ("masked", "embed", "classify")


@pytest.mark.parametrize("name", DECODERS)
def test_a_language_model_is_read_by_the_config_that_it_was_published_with(tmp_path, name):
    facts = read_facts(written(tmp_path, DECODERS[name]), DecoderFamily)
    config = facts.family.read(facts, facts.tied)
    assert config.d_model == facts.table["hidden_size"]
    assert config.tied == facts.table["tie_word_embeddings"]
    assert config.body.norm.eps == facts.table["rms_norm_eps"]
    assert config.positions.base == facts.table.get("rope_theta", 10_000.0)


def test_two_names_of_one_setting_must_say_the_same(tmp_path):
    facts = read_facts(written(tmp_path, {**MODERNBERT, "layer_norm_eps": 1e-6}), EncoderFamily)
    with pytest.raises(HubError, match=r"layer_norm_eps=1e-06.*norm_eps=1e-05"):
        facts.family.read(facts, False)
