"""What language models of Hugging Face's are used for: fine-tuned, looked into, exported to ONNX."""

import json
import warnings

import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

import regard
from regard.deploy.exchange import export_model
from regard.hub import HubWarning, read_decoder
from regard.layout import Layout
from tests.hub import gpts, llamas

QUIET = Console(quiet=True)
KINDS = {
    "GPT2": {},
    "Llama": {"attention_bias": True, "mlp_bias": True},
    "Mistral": {"sliding_window": 4},
    "Qwen2": {},
    "Qwen3": {"head_dim": 16},
}
IDS = [7, 9, 5, 3, 20, 21, 22, 6, 8, 11, 3, 14]


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def folder(hf, tmp_path, kind):
    if kind == "GPT2":
        return gpts.save(gpts.build(hf), tmp_path / "start")
    return llamas.save(llamas.build(hf, kind, **KINDS[kind]), tmp_path / "start")


def scores(model) -> torch.Tensor:
    with torch.no_grad():
        return model.head(model(torch.tensor(IDS), Layout.of([len(IDS)])))


def test_it_is_fine_tuned_and_goes_back(hf, folder, tmp_path, kind):
    (tmp_path / "text.txt").write_text("the cat sat at the mat.\n" * 40)
    recipe = {
        "task": "language",
        "data": {"train": "text.txt", "valid": "text.txt", "root": str(tmp_path)},
        "model": {"start": str(folder)},
        "context": {"tokens": 32},
        "batch": {"tokens": 256},
        "train": {"steps": 2, "validate_every": 2},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts that are few
        regard.fit(recipe, out=tmp_path / "out", device="cpu", check=False, console=QUIET)
    tuned = regard.load(tmp_path / "out", regard.Generator, device="cpu", precision="float32")
    before = read_decoder(folder)
    assert tuned.model.config.body == before.config.body
    assert tuned.model.config.positions == before.config.positions
    assert not torch.equal(scores(tuned.model), scores(gpts.decoder(before)))
    export_model(tmp_path / "out", tmp_path / "theirs", to="hf", console=QUIET)
    architecture = json.loads((folder / "config.json").read_text())["architectures"]
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"] == architecture
    model, told = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    with torch.no_grad():
        theirs = model.eval()(torch.tensor([IDS])).logits[0]
    assert_close(scores(tuned.model), theirs, rtol=1e-4, atol=1e-4)


def test_weights_that_are_looked_at_are_those_that_are_used(hf, folder):
    """By the model of transformers, layer by layer."""
    generator = regard.load(folder, regard.Generator, device="cpu", precision="float32")
    with regard.trace(generator, what=("weights",), layers=[0, 1]) as seen:
        scores(generator.model)
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = theirs(torch.tensor([IDS]), output_attentions=True).attentions
    for layer in (0, 1):
        assert_close(seen.weights(layer=layer), expected[layer][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["Mistral", "Qwen2", "Qwen3"], indirect=True)
def test_onnx_gives_the_same_numbers(folder, tmp_path):
    """`export_model` compares them, and refuses what differs."""
    pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HubWarning)
        export_model(folder, tmp_path / "onnx", to="onnx", console=QUIET)
    assert [*(tmp_path / "onnx").glob("*.onnx")]
