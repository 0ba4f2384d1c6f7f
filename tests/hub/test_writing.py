"""What is written opens in transformers and in sentence-transformers, and says the same."""

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.config import from_dict, to_dict
from regard.deploy.exchange import export_model, import_model
from regard.hub import Checkpoint, HubError, HubWarning, read_folder, write_folder
from regard.hub.files import write_tensors
from regard.hub.folder import head_kind
from regard.models import Headed, HeadedConfig
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, PoolConfig, TagConfig
from regard.settings.network import RecurrentConfig
from regard.settings.presets import ENCODERS
from regard.tasks.classification.classifier import Classifier
from regard.tasks.load import load
from regard.tasks.run import fit
from regard.text import Tokenizer, TokenizerConfig
from tests.hub.toys import CASES, PAIRS, TEXTS, batch, build, headed, save, scores_of, toy

TIGHT = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.spec("5.7")
@pytest.mark.parametrize(("family", "head"), CASES)
def test_a_round_trip_keeps_every_tensor_to_the_bit(hf, tmp_path, family, head):
    before = save(build(hf, family, head), tmp_path / "before")
    write_folder(read_folder(before), tmp_path / "after")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("before", "after"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    facts = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("before", "after")]
    dropped = {"attention_probs_dropout_prob", "attention_dropout"}  # not taken over
    named = {"bos_token_id", "eos_token_id", "classifier_dropout"}  # now what None stood for
    both = facts[0].keys() & facts[1].keys() - dropped - named
    assert {"model_type", "architectures", "vocab_size", "tie_word_embeddings"} <= both
    assert {key: facts[0][key] for key in both} == {key: facts[1][key] for key in both}


@pytest.mark.parametrize(("family", "head"), CASES)
def test_transformers_opens_it_with_the_same_scores_and_ids(hf, tmp_path, family, head):
    checkpoint = read_folder(toy(hf, tmp_path / "before", family, head))
    write_folder(checkpoint, tmp_path / "after")
    architecture = json.loads((tmp_path / "after" / "config.json").read_text())["architectures"][0]
    model, told = getattr(hf, architecture).from_pretrained(tmp_path / "after", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "after")
    padded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert ("token_type_ids" in padded) == (family == "bert")
    rows = checkpoint.tokenizer.encode_batch(TEXTS, template="cls")
    _, packed, layout = batch(rows, pad=0)
    assert layout.from_grid(padded["input_ids"]).tolist() == packed.tolist()
    scores = scores_of(model.eval()(**padded))
    mine = headed(checkpoint)
    expected = mine.states(packed, layout) if head == "Model" else mine(packed, layout)
    assert_close(layout.from_grid(scores) if scores.dim() == 3 else scores, expected, **TIGHT)


def trained(kind: str, **settings) -> Tokenizer:
    """A tokenizer of our own, from a little text."""
    lines = [*TEXTS, *(text for pair in PAIRS for text in pair), "Über den Fluß, naïve café"] * 3
    return Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=400, **settings))


def own(head, tokenizer: Tokenizer, *, pooler: bool = False, **changes) -> Checkpoint:
    """A model of ours, as it would be trained from nothing, with every value moved from its first one."""
    encoder = replace(ENCODERS["tiny"](len(tokenizer)), pooler=pooler, **changes)
    config = HeadedConfig(encoder=encoder, head=head)
    model = Headed(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return Checkpoint(config=config, weights=weights, tokenizer=tokenizer, longest=64)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe", "unigram", "words", "characters"])
def test_tokenizers_trained_here_give_the_same_ids_there(hf, tmp_path, kind):
    tokenizer = trained(kind, byte_fallback=False) if kind in ("bpe", "unigram") else trained(kind)
    write_folder(own(EmbedConfig(), tokenizer), tmp_path / "out")
    there = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    texts = [*TEXTS, "Über den Fluß", "  two  spaces ", "naïve"]
    assert there(texts)["input_ids"] == tokenizer.encode_batch(texts, template="cls")
    pairs = there([a for a, _ in PAIRS], [b for _, b in PAIRS])
    ids, segments = tokenizer.encode_pairs([a for a, _ in PAIRS], [b for _, b in PAIRS])
    assert (pairs["input_ids"], pairs["token_type_ids"]) == (ids, segments)
    assert there.mask_token_id == tokenizer.ids.mask
    assert there.model_max_length == 64


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe"])
def test_a_model_from_nothing_opens_there(hf, tmp_path, kind):
    head = ClassifyConfig(labels=3, pool=PoolConfig(kind="pooler"))
    checkpoint = replace(own(head, trained(kind), pooler=True), labels=("x", "y", "z"), problem="multi")
    write_folder(checkpoint, tmp_path / "out")
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert model.config.id2label == {0: "x", 1: "y", 2: "z"}
    assert model.config.problem_type == "multi_label_classification"
    there = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
    padded = there([a for a, _ in PAIRS], [b for _, b in PAIRS], padding=True, return_tensors="pt")
    ids, segments = checkpoint.tokenizer.encode_pairs([a for a, _ in PAIRS], [b for _, b in PAIRS])
    _, packed, layout = batch(ids, pad=0)
    flat = torch.tensor([segment for row in segments for segment in row])
    assert_close(headed(checkpoint)(packed, layout, flat), model(**padded).logits, **TIGHT)
    assert read_folder(tmp_path / "out").problem == "multi"


@pytest.mark.parametrize(
    "head",
    [
        EmbedConfig(),
        EmbedConfig(pool=PoolConfig(kind="first"), normalised=False),
        EmbedConfig(pool=PoolConfig(kind="max"), project=16),
        EmbedConfig(pool=PoolConfig(kind="last"), project=16, normalised=False),
    ],
    ids=["mean", "first", "max, dense", "last, dense"],
)
def test_sentence_transformers_gives_the_same_vectors(st, tmp_path, head):
    checkpoint = own(head, trained("wordpiece"), pooler=True)
    write_folder(checkpoint, tmp_path / "out")
    model = st.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert model.max_seq_length == 64
    _, packed, layout = batch(checkpoint.tokenizer.encode_batch(TEXTS, template="cls"), pad=0)
    there = model.encode(TEXTS, convert_to_tensor=True)
    assert_close(headed(checkpoint)(packed, layout), there.cpu(), **TIGHT)
    again = read_folder(tmp_path / "out")
    assert again.config.head == head
    assert again.longest == 64
    model.save(str(tmp_path / "theirs"))
    theirs = read_folder(tmp_path / "theirs")
    assert theirs.config.head == head
    assert theirs.longest == 64
    assert all(torch.equal(theirs.weights[name], checkpoint.weights[name]) for name in theirs.weights)


SCORED = [
    ("bert", ClassifyConfig(labels=3, pool=PoolConfig(kind="mean"), dropout=0.3)),
    ("bert", ClassifyConfig(labels=3, pool=PoolConfig(kind="first"))),
    ("bert", ClassifyConfig(labels=3, pool=PoolConfig(kind="max"), inner="relu")),
    ("bert", ClassifyConfig(labels=3, pool=PoolConfig(kind="first"), inner="tanh")),
    ("roberta", ClassifyConfig(labels=3, pool=PoolConfig(kind="mean"))),
    ("roberta", ClassifyConfig(labels=3, pool=PoolConfig(kind="first"))),
    ("distilbert", ClassifyConfig(labels=3, pool=PoolConfig(kind="mean"), inner="relu")),
    ("distilbert", ClassifyConfig(labels=3, pool=PoolConfig(kind="last"))),
]


@pytest.mark.parametrize(("family", "head"), SCORED, ids=lambda value: getattr(value, "inner", value))
def test_a_classifier_that_pools_otherwise_gives_the_same_scores_in_sentence_transformers(
    hf, st, tmp_path, family, head
):
    body = read_folder(toy(hf, tmp_path / "body", family))
    config = replace(body.config, head=head)
    model = Headed(config)
    own = dict(model.named_parameters())
    weights = {**{name: own[name].detach() for name in own}, **body.weights}
    weights = {name: weights[name] for name in own}
    checkpoint = replace(body, config=config, weights=weights, labels=("x", "y", "z"), problem="multi")
    write_folder(checkpoint, tmp_path / "out")
    _, packed, layout = batch(checkpoint.tokenizer.encode_batch(TEXTS, template="cls"), pad=0)
    there = st.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS, convert_to_tensor=True)
    assert_close(headed(checkpoint)(packed, layout), there.cpu(), **TIGHT)
    again = read_folder(tmp_path / "out")
    assert again.config.head == head
    assert (again.labels, again.problem) == (("x", "y", "z"), "multi")
    assert head_kind(tmp_path / "out") == "classify"
    assert all(torch.equal(again.weights[name], weights[name]) for name in weights)
    st.SentenceTransformer(str(tmp_path / "out"), device="cpu").save(str(tmp_path / "theirs"))
    assert read_folder(tmp_path / "theirs").config.head == head


def test_a_projection_without_an_activation_is_no_classifier(tmp_path):
    """Unless config.json has a problem for it to solve."""
    checkpoint = own(ClassifyConfig(labels=3, pool=PoolConfig(kind="mean")), trained("wordpiece"))
    write_folder(checkpoint, tmp_path / "out")
    path = tmp_path / "out" / "config.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in facts.items() if key != "problem_type"}))
    with pytest.raises(
        HubError, match="only one with tanh is known; or, of a classifier with a problem_type"
    ):
        read_folder(tmp_path / "out")
    path.write_text(json.dumps({**facts, "id2label": {"0": "x", "1": "y"}}))
    with pytest.raises(HubError, match="names for 2 labels, but there are 3 scores"):
        read_folder(tmp_path / "out")


def test_weights_are_written_in_float32(hf, tmp_path):
    checkpoint = own(EmbedConfig(), trained("wordpiece"))
    half = {name: weight.bfloat16() for name, weight in checkpoint.weights.items()}
    write_folder(replace(checkpoint, weights=half), tmp_path / "out")
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in written.values()} == {torch.float32}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "float32"


def changed(checkpoint: Checkpoint, path: str, value) -> Checkpoint:
    plain = to_dict(checkpoint.config)
    *above, last = path.split(".")
    inner = plain
    for key in above:
        inner = inner[key]
    inner[last] = value
    config = from_dict(HeadedConfig, plain)
    return replace(checkpoint, config=config)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("encoder.body.norm.place", "pre", "norm.place='pre'"),
        ("encoder.body.norm.kind", "rms", "norm.kind='rms'"),
        ("encoder.body.final_norm", True, "final_norm=true"),
        ("encoder.body.window", 8, "window=8"),
        ("encoder.body.attention.kv_heads", 1, "kv_heads=1"),
        ("encoder.body.attention.d_head", 32, "d_head=32"),
        ("encoder.body.attention.d_value", 32, "d_value=32"),
        ("encoder.body.attention.bias", False, "attention.bias=false"),
        ("encoder.body.feed_forward.activation", "swiglu", "activation='swiglu'"),
        ("encoder.body.feed_forward.bias", False, "feed_forward.bias=false"),
        ("encoder.positions.kind", "rotary", "positions.kind='rotary'"),
        ("encoder.positions.kind", "sinusoidal", "positions.kind='sinusoidal'"),
        ("encoder.positions.first", 2, "positions.first=2"),
        ("encoder.embedding.scaled", True, "embedding.scaled=true"),
        ("encoder.embedding.normed", False, "embedding.normed=false"),
        ("encoder.embedding.segments", 0, "encoder.pooler=true"),
        ("encoder.body", to_dict(RecurrentConfig()), "body.kind='recurrent'"),
        ("head.pool.kind", "attention", "head.pool.kind='attention'"),
        ("head.inner", "tanh", "head.inner='tanh'"),
    ],
)
def test_a_shape_that_no_family_has_is_refused_by_name(tmp_path, path, value, named):
    head = ClassifyConfig(pool=PoolConfig(kind="pooler"))
    checkpoint = changed(own(head, trained("wordpiece"), pooler=True), path, value)
    with pytest.raises(HubError, match=f"{named}.*: train .*or keep the model"):
        write_folder(checkpoint, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (TagConfig(words="mean"), "head.words='mean'"),
        (MaskedConfig(activation="relu"), "head.activation='relu'"),
        (MaskedConfig(eps=1e-5), "head.eps=1e-05"),
        (EmbedConfig(pool=PoolConfig(kind="attention")), "head.pool.kind='attention'"),
    ],
)
def test_a_head_that_no_family_has_is_refused_by_name(tmp_path, head, named):
    with pytest.raises(HubError, match=f"{named}.*: train with .*or keep the model"):
        write_folder(own(head, trained("wordpiece")), tmp_path / "out")


def test_dropouts_without_a_place_are_told(tmp_path):
    checkpoint = own(EmbedConfig(), trained("wordpiece"))
    with pytest.warns(HubWarning, match=r"feed_forward.dropout=0.5"):
        write_folder(changed(checkpoint, "encoder.body.feed_forward.dropout", 0.5), tmp_path / "out")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(HubError, match="something already"):
        write_folder(own(EmbedConfig(), trained("wordpiece")), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_what_does_not_read_back_the_same_is_not_kept(tmp_path, monkeypatch):
    def miswrite(path, tensors):
        write_tensors(path, {name: tensor + 1e-3 for name, tensor in tensors.items()})

    monkeypatch.setattr("regard.hub.folder.write_tensors", miswrite)
    with pytest.raises(HubError, match="reads back differently"):
        write_folder(own(EmbedConfig(), trained("wordpiece")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken(tmp_path):
    checkpoint = own(EmbedConfig(), trained("wordpiece"))
    write_folder(checkpoint, tmp_path)
    assert read_folder(tmp_path).config.head == checkpoint.config.head
    modes = {path.stat().st_mode for path in tmp_path.glob("*.*") if path.is_file()}
    assert len(modes) == 1


def test_weights_of_another_shape_are_not_written(tmp_path):
    checkpoint = own(EmbedConfig(), trained("wordpiece"))
    name = "encoder.embedding.norm.weight"
    with pytest.raises(HubError, match=name):
        write_folder(replace(checkpoint, weights={**checkpoint.weights, name: torch.ones(3)}), tmp_path / "a")
    fewer = {each: weight for each, weight in checkpoint.weights.items() if each != name}
    with pytest.raises(HubError, match=name):
        write_folder(replace(checkpoint, weights=fewer), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_output_matrix_of_its_own_stays_one(hf, tmp_path):
    checkpoint = own(MaskedConfig(tied=False), trained("wordpiece"))
    write_folder(checkpoint, tmp_path / "out")
    model = hf.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    padded, packed, layout = batch(checkpoint.tokenizer.encode_batch(TEXTS, template="cls"), pad=0)
    expected = layout.from_grid(model(**padded).logits)
    assert_close(headed(checkpoint)(packed, layout), expected, **TIGHT)


def test_an_export_says_what_reads_it(st, tmp_path):
    """From a training to scores elsewhere, and back by `regard import`."""
    data = "".join(f"{'good' if number % 2 else 'bad'} film {number}\t{number % 2}\n" for number in range(40))
    (tmp_path / "films.tsv").write_text(f"text\tlabel\n{data}")
    plain = {
        "task": "classify",
        "data": {"train": str(tmp_path / "films.tsv")},
        "model": {"preset": "tiny", "layers": 1, "positions": "learned"},
        "head": {"pool": "mean"},
        "train": {"steps": 3},
    }
    quiet, said = Console(quiet=True), io.StringIO()
    fit(plain, out=tmp_path / "model", check=False, device="cpu", console=quiet)
    export_model(tmp_path / "model", tmp_path / "out", console=Console(file=said, width=400))
    assert "SentenceTransformer(" in said.getvalue()
    assert "train with head.pool=pooler" in said.getvalue()
    import_model(tmp_path / "out", tmp_path / "back", console=quiet)
    texts = ["good film 3", "a bad one"]
    there = st.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    for folder in ("model", "out", "back"):
        classifier = load(tmp_path / folder, Classifier, device="cpu")
        assert classifier.labels == ("0", "1")
        assert_close(torch.from_numpy(classifier.scores(texts)), torch.from_numpy(there), **TIGHT)
