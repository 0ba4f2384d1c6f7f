"""A translator that is loaded in 8 bits: what stays in float32, and what is there on the way."""

import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from regard.config import to_dict
from regard.decode import DecodeConfig
from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.nn import quantized
from regard.nn.quantized import QuantizedLinear, quantize
from regard.settings.network import InitialConfig
from regard.tasks.base.folder import FORMAT, FolderError, load_quantized, whole, write_json, write_weights
from regard.tasks.load import load
from regard.tasks.translation.translator import Translator
from tests.models.families import BODIES, VOCABULARY, decoder, seq2seq
from tests.tasks.test_translator import sentences, translator

FAMILIES = pytest.mark.parametrize("family", BODIES.values(), ids=BODIES.keys())


def stored(folder: Path, own: Translator) -> Path:
    about = {"model": to_dict(own.model.config), "decode": to_dict(own.decoding), "longest": own.longest}
    write_json(folder / "config.json", {"format": FORMAT, "task": "translate", "languages": [], **about})
    write_weights(folder, whole(own.model))
    own.tokenizer.save(folder / "tokenizer.json")
    return folder


@FAMILIES
@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_a_model_that_is_read_in_8_bits_is_the_one_that_is_rounded_afterwards(tmp_path, family, tied):
    initial = InitialConfig(scheme="normal", shrink_residuals=True)
    target = decoder(*family, tied=tied, head_bias=True)
    config = replace(seq2seq(*family), decoder=replace(target, initial=initial), shared=tied)
    model = Seq2Seq(config).eval()
    write_weights(tmp_path, whole(model))
    before = torch.get_rng_state()
    read, made = load_quantized(tmp_path, lambda: Seq2Seq(config)), quantize(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert not read.training
    assert not any(weight.is_meta for weight in whole(model_without_products(read)).values())
    layout, ids = Layout.of([5, 9, 1]), torch.randint(0, VOCABULARY, (15,))
    found, expected = (each.decoder.head(each(ids, layout, ids, layout)) for each in (read, made))
    assert torch.equal(found, expected)
    shared = read.encoder.embedding.tokens.weight is read.decoder.embedding.tokens.weight
    assert shared == config.shared


def model_without_products(model: nn.Module) -> nn.ModuleList:
    """Those cannot be stored."""
    kept = [part for part in model.modules() if not [*part.children()]]
    return nn.ModuleList(part for part in kept if not isinstance(part, QuantizedLinear))


def test_matrices_are_read_one_after_the_other_and_do_not_stay(tmp_path, monkeypatch):
    own = translator()
    there: list[weakref.ref[torch.Tensor]] = []
    most = []

    class Seen(QuantizedLinear):
        def __init__(self, weight, *others):
            super().__init__(weight, *others)
            there.append(weakref.ref(weight))
            most.append(sum(each() is not None for each in there))

    monkeypatch.setattr(quantized, "QuantizedLinear", Seen)
    small = load(stored(tmp_path, own), device="cpu", precision="int8").model
    embedding = small.decoder.embedding.tokens.weight
    assert len(most) == sum(isinstance(part, QuantizedLinear) for part in small.modules()) > 10
    assert max(most) <= 2  # with that of the embedding, which the head was made from
    assert all(each() in (None, embedding) for each in there)
    matrices = {weight for weight in small.parameters() if weight.dim() > 1}
    assert matrices == {part.weight for part in small.modules() if isinstance(part, nn.Embedding)}


def test_translations_and_alignments_are_those_of_a_model_that_is_rounded_when_used(tmp_path):
    own = translator(decoding=DecodeConfig(beam=3, maximum=8))
    eight = Translator(own.model, own.tokenizer, longest=own.longest, decoding=own.decoding, precision="int8")
    read = load(stored(tmp_path, own), device="cpu", precision="int8")
    texts = sentences(9, seed=3)
    found, expected = read.translate(texts), eight.translate(texts)
    assert [(each.text, each.score) for each in found] == [(each.text, each.score) for each in expected]
    aligned = read.translate(texts, align=True)
    assert [each.text for each in aligned] == [each.text for each in expected]
    assert all(each.alignment is not None for each in aligned)


def test_weights_that_are_not_those_of_the_model_are_named(tmp_path):
    folder = stored(tmp_path, translator())
    path = folder / "model.safetensors"
    weights = load_file(path)
    matrix = next(name for name in weights if name.endswith("attention.output.weight"))
    vector = next(name for name in weights if name.endswith("norm.weight"))
    for name in (matrix, vector):
        save_file({**weights, name: torch.ones(1, 2, 3)}, path)
        with pytest.raises(FolderError, match=rf"model\.safetensors: cannot be read \({name}.*\[1, 2, 3\]"):
            load(folder, device="cpu", precision="int8")
    save_file({name: weight for name, weight in weights.items() if name != matrix}, path)
    with pytest.raises(FolderError, match=rf"model\.safetensors: .*missing \['{matrix}'\]"):
        load(folder, device="cpu", precision="int8")


def test_loading_needs_nothing_of_torchs_compiler(tmp_path):
    folder = stored(tmp_path, translator())
    code = (
        f"import sys, regard; regard.load({str(folder)!r}, device='cpu', precision='int8'); "
        "print([name for name in ('sympy', 'torch._dynamo') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
