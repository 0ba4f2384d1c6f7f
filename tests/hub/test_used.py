"""What encoders of Hugging Face's are used for: fine-tuned by every task, in 8 bits, looked into, exported
to ONNX.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

import regard
from regard.deploy.exchange import export_model
from regard.hub import HubWarning, read_folder
from regard.layout import Layout
from regard.nn.multihead import SelfAttention
from tests.hub.toys import STEMS, TEXTS, headed, scores_of, tokenizer_of, toy

QUIET = Console(quiet=True)
FAMILIES = [*STEMS]
TASKS = ["pretrain", "classify", "tag", "answer", "embed", "rerank"]
NAMED_ALIKE = ["roberta", "camembert"]
"""Of these, only what their heads are called is not XLM-RoBERTa's: the first three tasks will do."""
HEADS = ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"]
LABELLED = [f"{text}\t{'long' if len(text) > 12 else 'short'}" for text in TEXTS * 3]
TAGGED = "\n\n".join(
    "\n".join(f"{word} {'B-X' if 'at' in word else 'O'}" for word in t.split()) for t in TEXTS * 3
)
STORY = "the cat sat on a mat and the dog ran to it."
ASKED = [("on a mat", "a mat"), ("the dog ran", "the dog")]


def data(folder: Path) -> dict[str, dict]:
    """A little of it for each task, and its table."""
    (folder / "lines.txt").write_text("\n".join(TEXTS * 4) + "\n")
    (folder / "labels.tsv").write_text("\n".join(["text\tlabel", *LABELLED]) + "\n")
    (folder / "tags.conll").write_text(TAGGED + "\n")
    questions = [
        {"id": str(n), "question": asked, "answers": [{"text": found, "answer_start": STORY.index(found)}]}
        for n, (asked, found) in enumerate(ASKED)
    ]
    squad = {"data": [{"title": "x", "paragraphs": [{"context": STORY, "qas": questions}]}]}
    (folder / "squad.json").write_text(json.dumps(squad))
    (folder / "other.txt").write_text("\n".join(reversed(TEXTS * 4)) + "\n")
    both = ["lines.txt", "other.txt"]
    ranked = [{"query": asked, "positive": STORY, "negatives": [found, "a dog"]} for asked, found in ASKED]
    (folder / "ranked.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ranked * 3))
    return {
        "pretrain": {"train": "lines.txt", "valid": "lines.txt"},
        "classify": {"train": "labels.tsv", "valid": "labels.tsv"},
        "tag": {"train": "tags.conll", "valid": "tags.conll"},
        "answer": {"train": "squad.json", "valid": "squad.json"},
        "embed": {"train": both, "valid": both, "overlap": "keep"},
        "rerank": {"train": "ranked.jsonl", "valid": "ranked.jsonl"},
    }


@pytest.mark.parametrize(
    ("family", "task"),
    [(each, task) for each in FAMILIES for task in (TASKS[:3] if each in NAMED_ALIKE else TASKS)],
)
def test_every_task_fine_tunes_it(hf, tmp_path, family, task):
    words = tokenizer_of(family).get_vocab_size()
    start = toy(hf, tmp_path / "start", family, "ForMaskedLM", vocab_size=words, max_position_embeddings=512)
    recipe = {
        "task": task,
        "data": {**data(tmp_path)[task], "root": str(tmp_path)},
        "model": {"start": str(start)},
        "batch": {"tokens": 512},
        "train": {"steps": 2, "validate_every": 2},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts that are few, or long
        regard.fit(recipe, out=tmp_path / "out", device="cpu", check=False, console=QUIET)
    tuned = regard.load(tmp_path / "out", device="cpu")
    before, after = read_folder(start).config.encoder, tuned.reader.model.config.encoder
    assert (after.body.layers, after.positions) == (before.body.layers, before.positions)
    export_model(tmp_path / "out", tmp_path / "theirs", to="hf", console=QUIET)
    name = json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"][0]
    model, told = getattr(hf, name).from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert not {name for name in told["missing_keys"] if not name.startswith("pooler.")}
    assert not told["unexpected_keys"]
    mine = headed(read_folder(tmp_path / "theirs"))
    ids = tuned.reader.tokenizer.encode(TEXTS[0], template="cls").ids
    layout = Layout.of([len(ids)])
    with torch.no_grad():
        states = mine.states(torch.tensor(ids), layout)
        theirs = model.eval()(torch.tensor([ids]), output_hidden_states=True)
        assert_close(states, theirs.hidden_states[-1][0], rtol=1e-4, atol=1e-4)
        if task in ("tag", "answer"):
            assert_close(mine.head(states), scores_of(theirs)[0], rtol=1e-4, atol=1e-4)


def test_what_a_modernbert_has_learned_before_its_scores_is_taken_over(hf, tmp_path):
    words = tokenizer_of("modernbert").get_vocab_size()
    for head, ours in (("ForMaskedLM", "head."), ("ForTokenClassification", "head.transform.")):
        start = toy(hf, tmp_path / head, "modernbert", head, vocab_size=words)
        recipe = {
            "task": "tag",
            "data": {**data(tmp_path)["tag"], "root": str(tmp_path)},
            "model": {"start": str(start)},
            "optimizer": {"learning_rate": 0.0, "weight_decay": 0.0},
            "train": {"steps": 1, "validate_every": 1},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regard.fit(recipe, out=tmp_path / f"{head}-out", device="cpu", check=False, console=QUIET)
        tuned = dict(regard.load(tmp_path / f"{head}-out", device="cpu").reader.model.named_parameters())
        before = read_folder(start).weights
        for part in ("dense.weight", "norm.weight"):
            assert torch.equal(tuned[f"head.transform.{part}"].data, before[f"{ours}{part}"])


@pytest.mark.parametrize("family", FAMILIES)
def test_in_8_bits_vectors_point_the_same_way(hf, tmp_path, family):
    toy(hf, tmp_path, family)
    exact = regard.load(tmp_path, regard.Embedder, device="cpu").embed(TEXTS, normalised=True)
    rough = regard.load(tmp_path, regard.Embedder, device="cpu", precision="int8").embed(
        TEXTS, normalised=True
    )
    assert (exact * rough).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_that_are_looked_at_are_those_that_are_used(hf, tmp_path, family):
    """By the model of transformers, layer by layer."""
    folder = toy(hf, tmp_path, family)
    embedder = regard.load(folder, regard.Embedder, device="cpu", precision="float32")
    layers = embedder.layers
    with regard.trace(embedder, what=("weights",), layers=[*range(layers)]) as seen:
        embedder.embed([TEXTS[0]])
    theirs = hf.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([embedder.reader.tokenizer.encode(TEXTS[0], template="cls").ids])
    expected = theirs(input_ids=ids, output_attentions=True).attentions
    for layer in range(layers):
        assert_close(seen.weights(layer=layer), expected[layer][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "head"),
    [*zip(FAMILIES, HEADS * 3, strict=False), ("modernbert", HEADS[1]), ("modernbert", HEADS[2])],
)
def test_onnx_gives_the_same_numbers(hf, tmp_path, family, head):
    """`export_model` compares them, and refuses what differs."""
    pytest.importorskip("onnxruntime")
    folder = toy(hf, tmp_path / "there", family, head)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HubWarning)
        export_model(folder, tmp_path / "onnx", to="onnx", console=QUIET)
    assert list((tmp_path / "onnx").glob("*.onnx"))


@pytest.mark.parametrize("family", ["mpnet", "modernbert"])
def test_packed_is_alone_and_what_is_fast_is_the_equation(hf, tmp_path, family):
    from dataclasses import replace

    from regard.models import Headed

    checkpoint = read_folder(toy(hf, tmp_path, family))
    model = headed(checkpoint)
    encoder = checkpoint.config.encoder
    attention = replace(encoder.body.attention, kernel="equation")
    config = replace(encoder, body=replace(encoder.body, attention=attention))
    exact = Headed(replace(checkpoint.config, encoder=config)).eval().double()
    exact.load_state_dict(model.double().state_dict())
    model = model.float()
    rows = [np.random.default_rng(n).integers(5, 20, n).tolist() for n in (3, 60, 1, 33, 17)]
    packed, layout = torch.tensor([id for row in rows for id in row]), Layout.of([len(row) for row in rows])
    with torch.no_grad():
        together = model.states(packed, layout)
        assert_close(together.double(), exact.states(packed, layout), rtol=1e-5, atol=1e-5)
        for row, own in zip(rows, layout.split(together), strict=True):
            alone = model.states(torch.tensor(row), Layout.of([len(row)]))
            assert_close(own, alone, rtol=1e-5, atol=1e-5)
    shared = [part.bias for part in model.modules() if isinstance(part, SelfAttention)]
    assert len({id(each) for each in shared}) == 1
