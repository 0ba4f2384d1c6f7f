"""Models of transformers compute here what they compute there."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from regard.hub import HubError, HubWarning, head_kind, is_foreign, read_folder, write_folder
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, SpanConfig, TagConfig
from tests.hub.toys import CASES, HEADS, PADS, PAIRS, TEXTS, batch, build, headed, save, scores_of, toy

TIGHT = {"rtol": 1e-5, "atol": 1e-5}
ROWS = [[2, 7, 9, 5, 3], [2, 3], [2, 20, 21, 22, 6, 8, 11, 3]]
KINDS = {
    "Model": EmbedConfig,
    "ForMaskedLM": MaskedConfig,
    "ForPreTraining": MaskedConfig,
    "ForSequenceClassification": ClassifyConfig,
    "ForTokenClassification": TagConfig,
    "ForQuestionAnswering": SpanConfig,
}


def theirs(model, padded, layout):
    """Their scores, packed: of every token, or of every sequence."""
    scores = scores_of(model(**padded))
    return layout.from_grid(scores) if scores.dim() == 3 else scores


@pytest.mark.parametrize(
    ("family", "architecture"),
    [
        ("bert", "BertForMultipleChoice"),
        ("bert", "BertForNextSentencePrediction"),
        ("bert", "BertLMHeadModel"),
        ("roberta", "RobertaForCausalLM"),
        ("distilbert", "DistilBertForMultipleChoice"),
    ],
)
def test_a_model_for_something_else_is_refused_by_its_name(hf, tmp_path, family, architecture):
    folder = toy(hf, tmp_path, family)
    change(folder, architectures=[architecture])
    for look in (read_folder, head_kind):
        with pytest.raises(HubError, match=f"{architecture}.*is for something that is not done here.*Model"):
            look(folder)


def ours(model, packed, layout, segments=None):
    bare = isinstance(model.config.head, EmbedConfig)
    return model.states(packed, layout, segments) if bare else model(packed, layout, segments)


@pytest.mark.spec("5.7")
@pytest.mark.parametrize(("family", "head"), CASES)
def test_scores_and_states_are_theirs(hf, tmp_path, family, head):
    model = build(hf, family, head)
    checkpoint = read_folder(save(model, tmp_path))
    mine = headed(checkpoint)
    padded, packed, layout = batch(ROWS, pad=PADS.get(family, 1))
    assert isinstance(checkpoint.config.head, KINDS[head])
    assert checkpoint.fresh == ()
    assert_close(ours(mine, packed, layout), theirs(model, padded, layout), **TIGHT)
    states = layout.from_grid(model(**padded, output_hidden_states=True).hidden_states[-1])
    assert_close(mine.states(packed, layout), states, **TIGHT)


def test_the_next_sentence_is_theirs(hf, tmp_path):
    model = build(hf, "bert", "ForPreTraining")
    mine = headed(read_folder(save(model, tmp_path)))
    padded, packed, layout = batch(ROWS, pad=0)
    expected = model(**padded).seq_relationship_logits
    assert_close(mine.head.follows(mine.states(packed, layout), layout), expected, **TIGHT)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("family", HEADS)
def test_activations_are_theirs(hf, tmp_path, family, activation):
    key = {"distilbert": "activation", "modernbert": "classifier_activation"}.get(family, "hidden_act")
    model = build(hf, family, "ForMaskedLM", **{key: activation})
    mine = headed(read_folder(save(model, tmp_path)))
    padded, packed, layout = batch(ROWS, pad=PADS.get(family, 1))
    assert_close(mine(packed, layout), theirs(model, padded, layout), **TIGHT)


@pytest.mark.parametrize("family", HEADS)
def test_training_without_dropout_has_their_gradients(hf, tmp_path, family):
    none = {
        "distilbert": {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
        "modernbert": {},
    }.get(family, {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    model = build(hf, family, "ForSequenceClassification", **none).train()
    mine = headed(read_folder(save(model, tmp_path))).train()
    padded, packed, layout = batch(ROWS, pad=PADS.get(family, 1))
    labels = torch.tensor([0, 2, 1])
    loss = torch.nn.functional.cross_entropy(mine(packed, layout), labels)
    output = model(**padded, labels=labels)
    assert_close(loss, output.loss, **TIGHT)
    loss.backward()
    output.loss.backward()
    table = dict(model.named_parameters())
    prefix = model.base_model_prefix
    found = {name: parameter.grad for name, parameter in mine.named_parameters()}
    words = "tok_embeddings" if family == "modernbert" else "word_embeddings"
    embedding = table[f"{prefix}.embeddings.{words}.weight"].grad
    assert_close(found["encoder.embedding.tokens.weight"], embedding, **TIGHT)
    if family == "modernbert":
        for layer in range(4):
            expected = table[f"{prefix}.layers.{layer}.attn.Wqkv.weight"].grad
            assert_close(found[f"encoder.body.layers.{layer}.attention.project.weight"], expected, **TIGHT)
        return
    stem = "transformer" if family == "distilbert" else "encoder"
    parts = {"distilbert": ["q_lin", "k_lin", "v_lin"], "mpnet": ["attn.q", "attn.k", "attn.v"]}.get(
        family, ["self.query", "self.key", "self.value"]
    )
    layer = f"{prefix}.{stem}.layer.0.attention"
    expected = torch.cat([table[f"{layer}.{part}.weight"].grad for part in parts])
    assert_close(found["encoder.body.layers.0.attention.project.weight"], expected, **TIGHT)
    if family == "mpnet":
        shared = table[f"{prefix}.encoder.relative_attention_bias.weight"].grad
        assert_close(found["encoder.body.layers.0.attention.bias.table.weight"], shared, **TIGHT)


def test_pairs_have_their_segments(hf, tmp_path):
    model = build(hf, "bert", "ForSequenceClassification")
    checkpoint = read_folder(save(model, tmp_path))
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
    padded = tokenizer([a for a, _ in PAIRS], [b for _, b in PAIRS], padding=True, return_tensors="pt")
    ids, segments = checkpoint.tokenizer.encode_pairs([a for a, _ in PAIRS], [b for _, b in PAIRS])
    _, packed, layout = batch(ids, pad=0)
    flat = torch.tensor([segment for row in segments for segment in row])
    assert flat.any()
    assert_close(headed(checkpoint)(packed, layout, flat), model(**padded).logits, **TIGHT)


@pytest.mark.parametrize("family", HEADS)
def test_texts_have_their_ids(hf, tmp_path, family):
    checkpoint = read_folder(toy(hf, tmp_path, family))
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert checkpoint.tokenizer.encode_batch(TEXTS, template="cls") == tokenizer(TEXTS)["input_ids"]


def test_roberta_counts_positions_from_behind_the_padding(hf, tmp_path):
    checkpoint = read_folder(toy(hf, tmp_path, "roberta"))
    positions = checkpoint.config.encoder.positions
    assert (positions.first, positions.longest, checkpoint.longest) == (2, 62, 62)


def test_positions_that_were_sinusoids_are_a_table_like_others(hf, tmp_path):
    model = build(hf, "distilbert", "Model", sinusoidal_pos_embds=True)
    mine = headed(read_folder(save(model, tmp_path)))
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine.states(packed, layout), theirs(model, padded, layout), **TIGHT)


def change(folder, **facts):
    """Other values in config.json; None takes a key out."""
    path = folder / "config.json"
    table = {**json.loads(path.read_text()), **facts}
    path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))


def rename(folder, rule):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({rule(name): tensor for name, tensor in tensors.items()}, path, {"format": "pt"})
    return tensors


def same_weights(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_old_names_and_missing_prefixes_are_understood(hf, tmp_path):
    expected = read_folder(toy(hf, tmp_path, "bert", "ForMaskedLM")).weights
    for old, new in (
        ("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta"),
        ("bert.", ""),
    ):
        rename(tmp_path, lambda name, old=old, new=new: name.replace(old, new))
        same_weights(read_folder(tmp_path).weights, expected)


def test_doubles_of_tied_tensors_are_dropped_and_a_decoder_of_its_own_is_kept(hf, tmp_path):
    toy(hf, tmp_path, "bert", "ForMaskedLM")
    expected = read_folder(tmp_path).weights
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    rows = tensors["bert.embeddings.word_embeddings.weight"]
    doubles = {
        "cls.predictions.decoder.weight": rows.clone(),
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"].clone(),
        "bert.embeddings.position_ids": torch.arange(64),
    }
    save_file({**tensors, **doubles}, path)
    same_weights(read_folder(tmp_path).weights, expected)
    save_file({**tensors, **doubles, "cls.predictions.decoder.weight": rows + 1}, path)
    apart = read_folder(tmp_path)
    assert not apart.config.head.tied
    assert torch.equal(apart.weights["head.vocabulary.weight"], rows + 1)


def test_an_untied_model_uses_the_biases_of_its_decoder(hf, tmp_path):
    model = build(hf, "bert", "ForMaskedLM", tie_word_embeddings=False)
    assert not torch.equal(model.cls.predictions.bias, model.cls.predictions.decoder.bias)
    mine = headed(read_folder(save(model, tmp_path)))
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine(packed, layout), theirs(model, padded, layout), **TIGHT)


def test_an_untied_model_without_its_output_matrix_is_refused(hf, tmp_path):
    toy(hf, tmp_path, "distilbert", "ForMaskedLM")
    change(tmp_path, tie_word_embeddings=False)
    with pytest.raises(HubError, match=r"vocab_projector\.weight"):
        read_folder(tmp_path)


def test_bert_as_published_keeps_its_next_sentence_head_and_pooler(hf, tmp_path):
    """Declared as a masked language model, it holds what it was pretrained with."""
    toy(hf, tmp_path, "bert", "ForPreTraining")
    change(tmp_path, architectures=["BertForMaskedLM"])
    checkpoint = read_folder(tmp_path)
    assert checkpoint.config.head.next_sentence
    assert checkpoint.config.encoder.pooler


def test_shards_are_one_model(hf, tmp_path):
    model = build(hf, "bert", "ForMaskedLM")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    save(model, whole)
    shutil.copytree(whole, parts)
    (parts / "model.safetensors").unlink()
    model.save_pretrained(parts, max_shard_size="40KB")
    assert (parts / "model.safetensors.index.json").exists()
    same_weights(read_folder(parts).weights, read_folder(whole).weights)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(hf, tmp_path, dtype):
    model = build(hf, "bert", "Model").to(dtype)
    weights = read_folder(save(model, tmp_path)).weights
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    expected = model.embeddings.word_embeddings.weight.float()
    assert torch.equal(weights["encoder.embedding.tokens.weight"], expected)


def test_a_head_without_tensors_starts_untrained_and_says_so(hf, tmp_path):
    toy(hf, tmp_path, "distilbert", "Model")
    change(tmp_path, architectures=["DistilBertForSequenceClassification"])
    with pytest.warns(HubWarning, match="start untrained"):
        checkpoint = read_folder(tmp_path)
    assert checkpoint.fresh == (
        "head.dense.weight",
        "head.dense.bias",
        "head.output.weight",
        "head.output.bias",
    )
    headed(checkpoint)


def test_labels_and_problems_are_read(hf, tmp_path):
    names = {0: "good", 1: "bad", 2: "neither"}
    toy(hf, tmp_path, "bert", "ForSequenceClassification", id2label=names, num_labels=3)
    checkpoint = read_folder(tmp_path)
    assert (checkpoint.labels, checkpoint.problem) == (("good", "bad", "neither"), "single")
    change(tmp_path, problem_type="multi_label_classification", id2label=None)
    checkpoint = read_folder(tmp_path)
    assert (checkpoint.labels, checkpoint.problem) == (("LABEL_0", "LABEL_1", "LABEL_2"), "multi")


def test_one_label_is_a_number(hf, tmp_path):
    checkpoint = read_folder(toy(hf, tmp_path, "roberta", "ForSequenceClassification", num_labels=1))
    assert (checkpoint.config.head.labels, checkpoint.problem) == (1, "number")


def test_dropouts_are_read_but_for_that_of_the_attention_weights(hf, tmp_path):
    settings = {
        "hidden_dropout_prob": 0.3,
        "attention_probs_dropout_prob": 0.2,
        "classifier_dropout": 0.4,
    }
    config = read_folder(toy(hf, tmp_path, "bert", "ForSequenceClassification", **settings)).config
    body = config.encoder.body
    assert (body.dropout, config.encoder.embedding.dropout, body.attention.dropout) == (0.3, 0.3, 0.0)
    assert config.head.dropout == 0.4


@pytest.mark.parametrize(
    ("head", "share"), [("ForSequenceClassification", 0.4), ("ForTokenClassification", 0.3)]
)
def test_distilbert_has_a_dropout_for_classifiers_only(hf, tmp_path, head, share):
    folder = toy(hf, tmp_path, "distilbert", head, dropout=0.3, seq_classif_dropout=0.4)
    assert read_folder(folder).config.head.dropout == share


def test_a_folder_is_foreign_by_its_configuration(hf, tmp_path):
    assert not is_foreign(tmp_path)
    toy(hf, tmp_path)
    assert is_foreign(tmp_path)
    change(tmp_path, format=1)
    assert not is_foreign(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert not is_foreign(tmp_path)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_modernbert_classifies_by_either_pool(hf, tmp_path, pooling):
    model = build(hf, "modernbert", "ForSequenceClassification", classifier_pooling=pooling)
    mine = headed(read_folder(save(model, tmp_path)))
    padded, packed, layout = batch(ROWS, pad=0)
    assert_close(mine(packed, layout), theirs(model, padded, layout), **TIGHT)
    write_folder(read_folder(tmp_path), tmp_path / "after")
    facts = json.loads((tmp_path / "after" / "config.json").read_text())
    assert facts["classifier_pooling"] == pooling


def test_modernbert_as_it_was_published_tells_bases_and_layers_by_numbers(hf, tmp_path):
    model = build(hf, "modernbert", "Model")
    expected = read_folder(save(model, tmp_path)).config
    told = {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    change(tmp_path, layer_types=None, rope_parameters=None, **told)
    assert read_folder(tmp_path).config == expected
    positions, body = expected.encoder.positions, expected.encoder.body
    assert (positions.base, positions.local_base) == (160000.0, 10000.0)
    assert (body.window, body.global_every, body.global_first) == (3, 3, 1)
    change(tmp_path, global_attn_every_n_layers=1)
    body = read_folder(tmp_path).config.encoder.body
    assert (body.window, body.global_every) == (None, 0)


def test_long_texts_see_as_far_as_modernberts_windows(hf, tmp_path):
    settings = {"num_hidden_layers": 7, "local_attention": 10, "max_position_embeddings": 128}
    model = build(hf, "modernbert", "Model", **settings)
    mine = headed(read_folder(save(model, tmp_path)))
    rows = [torch.randint(5, 20, (length,)).tolist() for length in (100, 37, 5)]
    padded, packed, layout = batch(rows, pad=0)
    with torch.no_grad():
        assert_close(mine.states(packed, layout), theirs(model, padded, layout), **TIGHT)


@pytest.mark.parametrize(
    ("family", "facts", "message"),
    [
        ("modernbert", {"norm_bias": True}, "norm_bias=True is not supported, only False"),
        ("modernbert", {"attention_bias": True}, "attention_bias=True"),
        ("modernbert", {"mlp_bias": True}, "mlp_bias=True"),
        ("modernbert", {"decoder_bias": False}, "decoder_bias=False"),
        ("modernbert", {"hidden_activation": "silu"}, "hidden_activation='silu'"),
        ("modernbert", {"layer_types": ["sliding_attention"] * 4}, "layer_types="),
        ("modernbert", {"layer_types": ["full_attention"]}, "layer_types="),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}},
            "rope_parameters=.*only the type 'default'",
        ),
        ("modernbert", {"classifier_activation": "swish"}, "classifier_activation='swish'"),
        ("modernbert", {"some_other_attention": 4}, "some_other_attention=4 is not known"),
        ("mpnet", {"relative_attention_num_buckets": 30}, "buckets=30 must be a multiple of 4"),
        ("mpnet", {"relative_attention_num_buckets": 0}, "relative_attention_num_buckets=0"),
        ("mpnet", {"relative_attention_num_buckets": 16}, "relative_attention_bias.weight is"),
        ("mpnet", {"type_vocab_size": 2}, "type_vocab_size=2 is not known"),
        ("xlm-roberta", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("camembert", {"is_decoder": True}, "is_decoder=True"),
    ],
)
def test_what_is_almost_of_a_family_is_refused_by_the_name_of_the_setting(
    hf, tmp_path, family, facts, message
):
    toy(hf, tmp_path, family, "ForMaskedLM")
    change(tmp_path, **facts)
    with pytest.raises(HubError, match=message):
        read_folder(tmp_path)
