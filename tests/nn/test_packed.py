"""Products from packed weights."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.packed import PackedLinear, pack
from tests.models.families import BODIES, VOCABULARY, decoder, seq2seq

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize("shape", [(1, 48), (8, 48), (0, 48), (3, 5, 48), (48,)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_are_those_of_the_plain_layer(shape, bias):
    layer, x = nn.Linear(48, 20, bias=bias).eval(), torch.randn(shape)
    packed = pack(layer)
    with torch.no_grad():
        assert_close(packed(x), layer(x), **CLOSE)
        assert_close(packed(x.double().float()), layer(x), **CLOSE)
    assert_close(packed(x), layer(x), **CLOSE)


@pytest.mark.parametrize("family", BODIES.values(), ids=BODIES.keys())
@torch.no_grad()
def test_models_of_every_family_say_the_same(family):
    model = Seq2Seq(seq2seq(*family)).eval()
    layout, ids = Layout.of([5, 9, 1]), torch.randint(0, VOCABULARY, (15,))
    scores = [each.decoder.head(each(ids, layout, ids, layout)) for each in (pack(model), model)]
    assert_close(*scores, **CLOSE)


@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_are_the_models_own(tied):
    model = Decoder(decoder(*BODIES["transformer, modern"], tied=tied)).eval()
    packed = pack(model)
    assert [type(part) for part in model.modules() if isinstance(part, PackedLinear)] == []
    assert isinstance(packed.head, PackedLinear)
    own = dict(model.named_parameters())
    assert own.keys() == dict(packed.named_parameters()).keys()
    assert all(value is own[name] for name, value in packed.named_parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


@torch.no_grad()
def test_a_part_that_is_exchanged_is_used():
    packed = pack(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval())
    assert not any(isinstance(part, nn.Dropout) for part in packed.modules())
    heads = pack(Decoder(decoder(*BODIES["transformer, modern"])).eval())
    heads.head = nn.Identity()
    layout, ids = Layout.of([3]), torch.tensor([1, 2, 3])
    states = heads.prefill(ids, layout, heads.start(rows=1))
    assert torch.equal(states, heads(ids, layout)[-1:])


def test_gradients_are_those_of_the_plain_layer():
    layer, x = nn.Linear(8, 4).eval(), torch.randn(3, 8, requires_grad=True)
    results = [torch.autograd.grad(each(x).square().sum(), x)[0] for each in (layer, pack(layer))]
    assert_close(*results)


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(ValueError, match=r"eval\(\)"):
        pack(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="bfloat16"):
        pack(nn.Linear(2, 2).bfloat16().eval())
    with pytest.raises(ValueError, match="cannot be trained"):
        pack(nn.Linear(2, 2).eval()).train()
