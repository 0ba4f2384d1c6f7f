"""The keys of a config.json, by allow-list.

What changes the computation must be known and supported; metadata is passed over; a key that is on neither
list must be empty; and a key that asks for code to be run is refused.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.hub.files import HubError

_CODE = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_pipeline")
_ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "quantization_config": (None,),
    "_attn_implementation": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", None),
    "attn_implementation": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", None),
}
"""Keys that would change the computation (or load code for it), with the values that do not."""
_HARMLESS = """
    _commit_hash _name_or_path _num_labels adapters_mixins architectures bos_token_id chunk_size_feed_forward
    dtype eos_token_id finetuning_task gradient_checkpointing id2label keys_to_ignore_at_inference label2id
    language license max_length model_max_length model_type name name_or_path num_labels output_attentions
    output_hidden_states output_past past_key_values_length prefix problem_type pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type qa_dropout return_dict
    return_dict_in_generate sbert_ce_default_activation_function sentence_transformers sep_token_id
    sinusoidal_pos_embds summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj task_specific_params tf_legacy_loss tie_weights_ tie_word_embeddings tokenizer_class
    torch_dtype torchscript directionality transformers_version use_bfloat16 use_cache vocab_file
    cls_token_id mask_token_id unk_token_id max_seq_length xla_device n_ctx reorder_and_upcast_attn
    decoder_start_token_id begin_suppress_tokens suppress_tokens bad_words_ids num_beams num_beam_groups
    num_return_sequences temperature top_k top_p typical_p do_sample diversity_penalty early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id
    length_penalty min_length no_repeat_ngram_size output_scores remove_invalid_values repetition_penalty
"""
_METADATA = frozenset(_HARMLESS.split())
"""Keys that say nothing about the computation, or are read elsewhere (labels, tied weights)."""


def check_keys(table: Mapping[str, Any], computing: Iterable[str], path: Path) -> None:
    """`computing` are the keys that are read here."""
    known = {*computing, *_METADATA}
    for key, value in table.items():
        if key in _ONLY and value not in _ONLY[key]:
            raise HubError(f"{path}: {key}={value!r:.60} is not supported, only {_ONLY[key][0]!r}")
        if key not in known and key not in _ONLY and value not in (None, False, 0, "", [], {}):
            raise HubError(
                f"{path}: {key}={value!r:.60} is not known, and may change what the model computes; take the "
                "key out if it does not"
            )


def refuse_code(table: Mapping[str, Any], path: Path) -> None:
    for key in _CODE:
        if key in table:
            raise HubError(
                f"{path}: {key}={table[key]!r:.60} asks for code to be run, and nothing of a folder is run "
                "here; take the key out if the model is an ordinary one without it"
            )
