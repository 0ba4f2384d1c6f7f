"""The names of each family, ours on the left and Hugging Face's on the right; read in both directions.

`#` is the number of a layer and `*` is weight or bias. Where there are three names, our matrix is the three
laid one under the other: [query ; key ; value]. A `^T` behind a name says that their matrix is ours
transposed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

DENSE = "dense/"
"""Before the names of tensors of a sentence-transformers Dense module, which has a file of its own."""


class Theirs(NamedTuple):
    """What one of our parameters is called there."""

    names: tuple[str, ...]
    """None, if the family has no such parameter; several, if ours is theirs one under the other."""
    turned: bool
    """Their matrix is ours transposed. (A vector stays as it is.)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    name: str
    """The `model_type`."""
    stem: str
    """What the names of its architectures begin with."""
    prefix: str
    """Before the names of the body's tensors, in a model that has a head."""
    body: Mapping[str, str]
    """Names of parameters of the encoder, or of a decoder below its head, without the prefix."""
    buffers: tuple[str, ...]
    """Tensors that are no parameters: functions of the sizes, not read."""
    heads: Mapping[str, Mapping[str, str]]
    """Names of parameters of each kind of head."""
    aliases: Mapping[str, str]
    """Second names of one tensor, which are written where the output matrix is not tied."""
    keys: Mapping[str, str]
    """Our words for what stands in config.json, and its keys."""
    defaults: Mapping[str, object]
    """What a key means that is not there."""

    @property
    def layers(self) -> str:
        """Before the number of a layer, in the names of its tensors."""
        return next(name for name in self.body.values() if "#" in name).partition("#")[0]

    def foreign(self, name: str, head: str) -> Theirs:
        """Their names, without the prefix, for one of ours."""
        table = {**self.body, **self.heads[head]}
        layer = re.search(r"\.layers\.(\d+)\.", name)
        pattern = name if layer is None else name.replace(layer[0], ".layers.#.", 1)
        if pattern in table:
            found, kind = table[pattern], ""
        else:
            stem, _, kind = pattern.rpartition(".")
            found = table.get(f"{stem}.*", "")
        number = layer[1] if layer else ""
        names = tuple(each.replace("#", number).replace("*", kind) for each in found.split())
        return Theirs(tuple(each.removesuffix("^T") for each in names), found.endswith("^T"))


_EMBEDDINGS = {
    "encoder.embedding.tokens.*": "embeddings.word_embeddings.*",
    "encoder.embedding.positions.table.*": "embeddings.position_embeddings.*",
    "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
}
_BERT = {
    **_EMBEDDINGS,
    "encoder.embedding.segments.*": "embeddings.token_type_embeddings.*",
    "encoder.body.layers.#.attention.project.*": (
        "encoder.layer.#.attention.self.query.* encoder.layer.#.attention.self.key.* "
        "encoder.layer.#.attention.self.value.*"
    ),
    "encoder.body.layers.#.attention.output.*": "encoder.layer.#.attention.output.dense.*",
    "encoder.body.layers.#.attention_residual.norm.*": "encoder.layer.#.attention.output.LayerNorm.*",
    "encoder.body.layers.#.feed_forward.inner.*": "encoder.layer.#.intermediate.dense.*",
    "encoder.body.layers.#.feed_forward.output.*": "encoder.layer.#.output.dense.*",
    "encoder.body.layers.#.feed_forward_residual.norm.*": "encoder.layer.#.output.LayerNorm.*",
    "encoder.pooler.dense.*": "pooler.dense.*",
}
_DISTILBERT = {
    **_EMBEDDINGS,
    "encoder.body.layers.#.attention.project.*": (
        "transformer.layer.#.attention.q_lin.* transformer.layer.#.attention.k_lin.* "
        "transformer.layer.#.attention.v_lin.*"
    ),
    "encoder.body.layers.#.attention.output.*": "transformer.layer.#.attention.out_lin.*",
    "encoder.body.layers.#.attention_residual.norm.*": "transformer.layer.#.sa_layer_norm.*",
    "encoder.body.layers.#.feed_forward.inner.*": "transformer.layer.#.ffn.lin1.*",
    "encoder.body.layers.#.feed_forward.output.*": "transformer.layer.#.ffn.lin2.*",
    "encoder.body.layers.#.feed_forward_residual.norm.*": "transformer.layer.#.output_layer_norm.*",
}
_GPT2 = {
    "embedding.tokens.*": "wte.*",
    "embedding.positions.table.*": "wpe.*",
    "body.layers.#.attention_residual.norm.*": "h.#.ln_1.*",
    "body.layers.#.attention.project.*": "h.#.attn.c_attn.*^T",
    "body.layers.#.attention.output.*": "h.#.attn.c_proj.*^T",
    "body.layers.#.feed_forward_residual.norm.*": "h.#.ln_2.*",
    "body.layers.#.feed_forward.inner.*": "h.#.mlp.c_fc.*^T",
    "body.layers.#.feed_forward.output.*": "h.#.mlp.c_proj.*^T",
    "body.final_norm.*": "ln_f.*",
}
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_TAG = {"head.output.*": "classifier.*"}
_EMBED = {"head.project.*": f"{DENSE}linear.*"}

_BERT_KEYS = {
    "vocabulary": "vocab_size",
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "rows": "max_position_embeddings",
    "segments": "type_vocab_size",
    "eps": "layer_norm_eps",
    "std": "initializer_range",
    "pad": "pad_token_id",
    "head_dropout": "classifier_dropout",
}
_BERT_DEFAULTS = {
    "vocabulary": 30522,
    "d_model": 768,
    "layers": 12,
    "heads": 12,
    "d_ff": 3072,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "rows": 512,
    "segments": 2,
    "eps": 1e-12,
    "std": 0.02,
    "pad": 0,
    "head_dropout": None,
}

BERT = Family(
    name="bert",
    stem="Bert",
    prefix="bert.",
    body=_BERT,
    buffers=_BUFFERS,
    heads={
        "masked": {
            "head.dense.*": "cls.predictions.transform.dense.*",
            "head.norm.*": "cls.predictions.transform.LayerNorm.*",
            "head.vocabulary.bias": "cls.predictions.bias",
            "head.vocabulary.weight": "cls.predictions.decoder.weight",
            "head.next_sentence.output.*": "cls.seq_relationship.*",
        },
        "classify": {"head.output.*": "classifier.*"},
        "tag": _TAG,
        "embed": _EMBED,
    },
    aliases={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    keys=_BERT_KEYS,
    defaults=_BERT_DEFAULTS,
)
ROBERTA = Family(
    name="roberta",
    stem="Roberta",
    prefix="roberta.",
    body=_BERT,
    buffers=_BUFFERS,
    heads={
        "masked": {
            "head.dense.*": "lm_head.dense.*",
            "head.norm.*": "lm_head.layer_norm.*",
            "head.vocabulary.bias": "lm_head.bias",
            "head.vocabulary.weight": "lm_head.decoder.weight",
        },
        "classify": {"head.dense.*": "classifier.dense.*", "head.output.*": "classifier.out_proj.*"},
        "tag": _TAG,
        "embed": _EMBED,
    },
    aliases={"lm_head.decoder.bias": "lm_head.bias"},
    keys=_BERT_KEYS,
    defaults={**_BERT_DEFAULTS, "vocabulary": 50265, "pad": 1},
)
DISTILBERT = Family(
    name="distilbert",
    stem="DistilBert",
    prefix="distilbert.",
    body=_DISTILBERT,
    buffers=_BUFFERS,
    heads={
        "masked": {
            "head.dense.*": "vocab_transform.*",
            "head.norm.*": "vocab_layer_norm.*",
            "head.vocabulary.bias": "vocab_projector.bias",
            "head.vocabulary.weight": "vocab_projector.weight",
        },
        "classify": {"head.dense.*": "pre_classifier.*", "head.output.*": "classifier.*"},
        "tag": _TAG,
        "embed": _EMBED,
    },
    aliases={},
    keys={
        "vocabulary": "vocab_size",
        "d_model": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "d_ff": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "rows": "max_position_embeddings",
        "std": "initializer_range",
        "pad": "pad_token_id",
        "head_dropout": "seq_classif_dropout",
    },
    defaults={**_BERT_DEFAULTS, "layers": 6, "segments": 0, "head_dropout": 0.2},
)
GPT2 = Family(
    name="gpt2",
    stem="GPT2",
    prefix="transformer.",
    body=_GPT2,
    buffers=("h.#.attn.bias", "h.#.attn.masked_bias"),
    heads={"language": {"head.weight": "lm_head.weight"}},
    aliases={},
    keys={
        "vocabulary": "vocab_size",
        "d_model": "n_embd",
        "layers": "n_layer",
        "heads": "n_head",
        "d_ff": "n_inner",
        "activation": "activation_function",
        "dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
        "attention_dropout": "attn_pdrop",
        "rows": "n_positions",
        "eps": "layer_norm_epsilon",
        "std": "initializer_range",
        "pad": "pad_token_id",
    },
    defaults={
        "vocabulary": 50257,
        "d_model": 768,
        "layers": 12,
        "heads": 12,
        "d_ff": None,
        "activation": "gelu_new",
        "dropout": 0.1,
        "embedding_dropout": 0.1,
        "attention_dropout": 0.1,
        "rows": 1024,
        "eps": 1e-5,
        "std": 0.02,
        "pad": None,
    },
)

ENCODERS = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
}
"""By `model_type`. XLM-RoBERTa and CamemBERT are RoBERTa with other vocabularies."""
DECODERS = {"gpt2": GPT2}
"""Language models, by `model_type`. DistilGPT-2 and DialoGPT call themselves gpt2."""
