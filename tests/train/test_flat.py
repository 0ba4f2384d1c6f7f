from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.models.presets import SEQ2SEQ
from regard.models.seq2seq import Seq2Seq
from regard.train.flat import ALIGNMENT, FlatParameters
from tests.train.toys import toy


def test_parameters_keep_their_values_and_become_views() -> None:
    model, before = toy(), {name: value.clone() for name, value in toy().state_dict().items()}
    flat = FlatParameters(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.untyped_storage().data_ptr() == flat.values.untyped_storage().data_ptr()
    flat.values.fill_(3.0)
    assert all(bool((parameter == 3).all()) for parameter in model.parameters())


def test_backward_adds_to_the_flat_gradients_and_zero_empties_them_with_the_totals() -> None:
    model = toy()
    flat = FlatParameters(model, totals=3)
    ids = torch.tensor([1, 2, 3])
    alone = torch.autograd.grad(model(ids).square().sum(), list(model.parameters()))
    for _ in range(2):
        model(ids).square().sum().backward()
    for (name, _), gradient in zip(model.named_parameters(), alone, strict=True):
        torch.testing.assert_close(flat.named(flat.gradients)[name], 2 * gradient)
    flat.totals.fill_(1.0)
    assert flat.travelling[-3:].tolist() == [1, 1, 1]  # they travel behind the gradients
    flat.zero()
    assert not flat.travelling.any()
    assert all(not parameter.grad.any() for parameter in model.parameters())


def test_only_matrices_decay() -> None:
    model = Seq2Seq(SEQ2SEQ["tiny"](20))
    flat = FlatParameters(model)
    decayed = {name for name, place in flat.places.items() if place.start < flat.decayed.numel()}
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    expected = {name for name, each in model.named_parameters() if each.ndim >= 2 and id(each) not in tables}
    assert decayed == expected
    assert any("project" in name for name in decayed)
    assert flat.decayed.numel() + flat.plain.numel() == flat.values.numel()


def test_a_tied_matrix_is_there_once() -> None:
    model = Seq2Seq(SEQ2SEQ["tiny"](20))
    flat = FlatParameters(model)
    assert model.decoder.head.weight is model.encoder.embedding.tokens.weight
    assert flat.places.keys() == dict(model.named_parameters()).keys()


def test_places_are_aligned_and_do_not_overlap() -> None:
    flat = FlatParameters(toy())
    places = sorted(flat.places.values(), key=lambda place: place.start)
    assert all(place.start % ALIGNMENT == 0 for place in places)
    assert all(one.stop <= other.start for one, other in pairwise(places))


def test_frozen_parameters_are_left_alone() -> None:
    model = toy()
    model.inner.requires_grad_(False)
    flat = FlatParameters(model)
    assert not any(name.startswith("inner") for name in flat.places)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that can be trained"):
        FlatParameters(model)
