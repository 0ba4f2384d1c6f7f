import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from regard.models.seq2seq import Seq2Seq
from regard.settings.presets import SEQ2SEQ
from regard.train.flat import ALIGNMENT, FlatParameters, Slot
from tests.train.toys import Headed, toy, uneven


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
    assert [part.decays for part in flat.parts] == [True, False]
    first, second = (part.span.stop - part.span.start for part in flat.parts)
    decayed = {name for name, place in flat.places.items() if place.start < first}
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    expected = {name for name, each in model.named_parameters() if each.ndim >= 2 and id(each) not in tables}
    assert decayed == expected
    assert any("project" in name for name in decayed)
    assert first + second == flat.values.numel()


@pytest.mark.parametrize("factor", [None, lambda name: 2.0])
def test_where_all_learn_alike_matrices_come_first_and_the_rest_as_in_the_model(factor: Any) -> None:
    """Checkpoints hang on it."""
    model = toy()
    flat, end = FlatParameters(model, factor=factor), 0
    own = dict(model.named_parameters())
    for name in [
        *("inner.weight", "outer.weight"),
        *("embedding.weight", "inner.bias", "norm.weight", "norm.bias"),
    ]:
        assert flat.places[name] == Slot(end, own[name].shape)
        end += math.ceil(own[name].numel() / ALIGNMENT) * ALIGNMENT
    assert [part.factor for part in flat.parts] == [factor("") if factor else 1.0] * 2


def test_what_decays_and_learns_alike_lies_side_by_side() -> None:
    flat = FlatParameters(toy(), factor=uneven)
    inside: dict[tuple[bool, float], set[str]] = {}
    start = 0
    for part in flat.parts:
        assert part.span.start == start
        stop = part.span.stop
        names = {name for name, place in flat.places.items() if start <= place.start < place.stop <= stop}
        inside[part.decays, part.factor] = names
        start = stop
    assert start == flat.values.numel()
    assert inside == {
        (True, 0.125): {"outer.weight"},
        (True, 0.5): {"inner.weight"},
        (False, 0.5): {"inner.bias", "norm.weight", "norm.bias"},
        (False, 3.0): {"embedding.weight"},
    }


def test_what_another_optimizer_takes_comes_first_in_parts_of_its_own() -> None:
    flat = FlatParameters(toy(), factor=uneven, first={"outer.weight", "inner.weight"})
    ahead = [part for part in flat.parts if part.first]
    assert [part.factor for part in ahead] == [0.125, 0.5]
    assert flat.parts[: len(ahead)] == ahead
    assert (flat.places["outer.weight"].start, flat.places["inner.weight"].start) == (0, ahead[1].span.start)
    assert all(flat.places[name].start >= ahead[1].span.stop for name in flat.places if "norm" in name)
    alike = FlatParameters(toy(), first={"outer.weight"}).parts
    assert [(part.first, part.decays) for part in alike] == [(True, True), (False, True), (False, False)]


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan])
def test_what_cannot_be_a_factor_is_refused_with_its_parameter(wrong: float) -> None:
    with pytest.raises(ValueError, match=rf"inner\.bias: the factor {wrong} .* above 0, and finite"):
        FlatParameters(toy(), factor=lambda name: wrong if name == "inner.bias" else 1.0)


def test_a_factor_of_zero_says_to_freeze_instead() -> None:
    with pytest.raises(ValueError, match=r"outer\.weight: a factor of 0 .* freeze it instead"):
        FlatParameters(toy(), factor=lambda name: float(name != "outer.weight"))


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


def test_the_whole_model_is_its_parameters_and_what_it_would_save_beside_them() -> None:
    model = Headed()
    flat = FlatParameters(model)
    vector = torch.rand_like(flat.values)
    whole = flat.whole(vector)
    names = [name for name, _ in model.named_parameters()]
    assert list(whole) == [*names, "shift"]  # "scratch" is not saved; the shared table is there once
    assert flat.fixed.keys() == whole.keys() - {"head.weight", "head.bias"}
    for name in ("head.weight", "head.bias"):
        assert torch.equal(whole[name], flat.named(vector)[name])
    for name in flat.fixed:
        assert torch.equal(whole[name], model.state_dict()[name])
