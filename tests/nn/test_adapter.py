"""Low-rank adapters: none before they learn; beside a matrix or in it, the same."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from regard.data.packing import pack as pack_ids
from regard.models.seq2seq import Seq2Seq
from regard.nn.adapter import LowRank, adapt, adapters, merge, merged_weights, with_adapters
from regard.nn.packed import pack
from regard.nn.quantized import quantize
from regard.settings.network import AdapterConfig
from regard.settings.shape import TranslatorConfig
from regard.tasks.base.folder import whole

CONFIG = AdapterConfig(rank=3, alpha=6.0)
SOURCE, TARGET = pack_ids([[1, 2, 3], [4, 5]]), pack_ids([[6, 7], [1, 9, 3, 2]])


def model(**shape: Any) -> Seq2Seq:
    torch.manual_seed(0)
    small = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 2, "d_ff": 32, "dropout": 0.0}
    return Seq2Seq(TranslatorConfig(**{**small, **shape}).build(12)).double()


def scores(model: Seq2Seq) -> torch.Tensor:
    states = model(SOURCE.ids, SOURCE.layout, TARGET.ids, TARGET.layout)
    return model.decoder.head(states)


def learned(plain: Seq2Seq, config: AdapterConfig = CONFIG) -> Seq2Seq:
    """With adapters that are not nothing any more."""
    adapted = copy.deepcopy(plain)
    adapt(adapted, config)
    for part in adapted.modules():
        if isinstance(part, LowRank):
            nn.init.normal_(part.up, std=0.3)
    return adapted


def test_an_adapter_is_its_formula() -> None:
    base = nn.Linear(5, 7).double()
    low = LowRank(base, 2, 8.0)
    nn.init.normal_(low.up)
    x = torch.randn(4, 5, dtype=torch.float64)
    expected = torch.stack([base(row) + 8 / 2 * low.up @ (low.down @ row) for row in x])
    torch.testing.assert_close(low(x), expected)
    torch.testing.assert_close(low(x), x @ low.whole.T + base.bias)


def test_before_it_learns_the_model_is_what_it_was() -> None:
    plain = model()
    adapted = copy.deepcopy(plain)
    adapt(adapted, CONFIG)
    assert torch.equal(scores(adapted), scores(plain))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_merged_and_beside_are_the_same(activation: str) -> None:
    adapted = learned(model(activation=activation))
    beside = scores(adapted)
    assert (beside - scores(model(activation=activation))).abs().max() > 0.01
    weights = merged_weights(whole(adapted), CONFIG)
    merged = model(activation=activation)
    merged.load_state_dict(weights, strict=False)
    assert weights.keys() == whole(merged).keys()
    torch.testing.assert_close(scores(merged), beside, rtol=0, atol=1e-12)
    merge(adapted)
    assert whole(adapted).keys() == weights.keys()
    torch.testing.assert_close(scores(adapted), beside, rtol=0, atol=1e-12)


def test_only_adapters_learn() -> None:
    adapted = learned(model())
    scores(adapted).sum().backward()
    for name, parameter in adapted.named_parameters():
        own = name.rpartition(".")[2] in ("down", "up")
        assert (parameter.grad is not None) == own == (name in adapters(whole(adapted)))


def test_which_matrices_have_adapters_is_chosen() -> None:
    names = {}
    for matrices in (("attention",), ("feed_forward",), ("attention", "feed_forward")):
        adapted = learned(model(), AdapterConfig(rank=2, matrices=matrices))
        names[matrices] = {path for path, part in adapted.named_modules() if isinstance(part, LowRank)}
    first, second, both = names.values()
    assert both == first | second
    assert len(first) == 2 * 2 + 2 * 5  # self-attention 2, cross-attention 3
    assert len(second) == 2 * 2 + 2 * 2


def test_a_model_with_given_adapters_shares_all_weights() -> None:
    plain = model().eval()
    trained = learned(plain)
    before = scores(plain)
    shared = with_adapters(plain, CONFIG, adapters(whole(trained)))
    torch.testing.assert_close(scores(shared), scores(trained), rtol=0, atol=0)
    assert torch.equal(scores(plain), before)
    own = {each.data_ptr() for each in plain.parameters()}
    extra = [name for name, each in shared.named_parameters() if each.data_ptr() not in own]
    assert {*extra} == adapters(whole(shared)).keys()


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_copies_for_inference_have_the_adapters_too(activation: str) -> None:
    adapted = learned(model(activation=activation)).float().eval().requires_grad_(False)
    with torch.no_grad():
        expected = scores(adapted)
        torch.testing.assert_close(scores(pack(adapted)), expected, rtol=1e-5, atol=1e-5)
        merged = copy.deepcopy(adapted)
        merge(merged)
        rough = (scores(quantize(merged)) - expected).abs().max()
        assert (scores(quantize(adapted)) - expected).abs().max() < 2 * rough + 1e-3


def test_a_model_without_such_layers_is_refused() -> None:
    recurrent = Seq2Seq(TranslatorConfig(preset="recurrent", d_model=16).build(12))
    with pytest.raises(ValueError, match="adapters are for Transformers"):
        adapt(recurrent, CONFIG)
