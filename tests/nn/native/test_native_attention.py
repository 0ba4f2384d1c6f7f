"""Attention in C, against the equation."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn.attention import attend
from regard.nn.grouped import attend_by_distance, takes_distances
from regard.nn.kernels import attend_packed
from regard.nn.masks import FULL, Mask
from regard.nn.native import attention
from regard.nn.native.attention import Asking, keep

pytestmark = pytest.mark.skipif(not attention.available(), reason="no compiler")
MASKS = {
    "full": FULL,
    "causal": Mask(after=0),
    "window": Mask(before=5, after=2),
    "own": Mask(before=0, after=0),
}


@pytest.fixture(autouse=True, params=[1, 2])
def _threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def native(queries, keys, values, query_layout: Layout, key_layout: Layout, mask: Mask = FULL):
    """Without the choice of `attend_packed`."""
    starts = key_layout.host_offsets.long()
    reach = {
        name: -1 if far is None else far for name, far in (("before", mask.before), ("after", mask.after))
    }
    asking = Asking(query_layout.host_offsets.long(), starts[:-1], starts.diff(), **reach)
    output = queries.new_full((len(queries), queries.shape[1], values.shape[2]), torch.nan)
    asking.attend(queries, keys, values, output, queries.shape[2] ** -0.5)
    return output


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "d_head", "d_value"),
    [(4, 4, 32, 32), (4, 2, 64, 64), (2, 1, 16, 128), (3, 3, 20, 7), (2, 2, 8, 48), (2, 2, 5, 80)],
)
@pytest.mark.parametrize("lengths", [[1], [6, 3, 1], [7, 16, 17, 33, 2], [200, 0, 48]])
def test_it_is_the_equation(lengths, heads, kv_heads, d_head, d_value, mask):
    layout = Layout.of(lengths)
    queries = torch.randn(layout.tokens, heads, d_head)
    keys, values = (torch.randn(layout.tokens, kv_heads, width) for width in (d_head, d_value))
    found = native(queries, keys, values, layout, layout, mask)
    exact = attend_packed(
        queries.double(), keys.double(), values.double(), layout, layout, mask, kernel="equation"
    )
    assert_close(found.double(), exact, atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("heads", "kv_heads", "d_head", "d_value"), [(4, 2, 64, 64), (3, 3, 20, 7)])
@pytest.mark.parametrize("lengths", [[1], [6, 3, 1], [7, 16, 17, 33, 2], [200, 0, 48]])
def test_a_bias_by_distance_is_the_equations(lengths, heads, kv_heads, d_head, d_value, mask):
    layout = Layout.of(lengths)
    queries = torch.randn(layout.tokens, heads, d_head)
    keys, values = (torch.randn(layout.tokens, kv_heads, width) for width in (d_head, d_value))
    distances = torch.randn(heads, 2 * layout.longest - 1)
    asked = (queries, keys, values)
    assert takes_distances(*asked, distances)
    reach = [-1 if far is None else far for far in (mask.before, mask.after)]
    offsets = layout.host_offsets, layout.host_offsets
    found = attend_by_distance(*asked, *offsets, *reach, d_head**-0.5, distances)
    exact = attend_packed(
        *(each.double() for each in asked),
        layout,
        layout,
        mask,
        distances=distances.double(),
        kernel="equation",
    )
    assert_close(found.double(), exact, atol=3e-6, rtol=1e-5)
    if d_head == d_value:
        assert torch.equal(attend_packed(*asked, layout, layout, mask, distances=distances), found)


def test_biases_that_are_not_of_all_heads_and_distances_are_refused():
    layout = Layout.of([9])
    asked = torch.randn(3, 9, 2, 16)
    offsets = layout.host_offsets, layout.host_offsets
    for distances, words in ((torch.zeros(3, 17), "heads"), (torch.zeros(2, 15), "15 distances")):
        with pytest.raises(ValueError, match=words):
            attend_by_distance(*asked, *offsets, -1, -1, 0.25, distances)


@pytest.mark.parametrize(("heads", "d_head"), [(4, 32), (2, 16), (3, 20)])
def test_a_sequence_has_the_same_bits_in_any_company(heads, d_head):
    """Whatever the lengths of the others: a corpus may be cut anywhere."""
    lengths = [1, 4, 6, 7, 40, 2, 13]
    layout = Layout.of(lengths)
    queries, keys, values = torch.randn(3, layout.tokens, heads, d_head)
    together = native(queries, keys, values, layout, layout)
    for start, length in zip(layout.host_offsets.tolist(), lengths, strict=False):
        own, alone = slice(start, start + length), Layout.of([length])
        assert torch.equal(native(queries[own], keys[own], values[own], alone, alone), together[own])


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("asked", [[1, 4, 0, 6], [1, 9, 0, 2]])  # few of each, or many of one
def test_other_keys_than_queries_and_none_at_all(asked, mask):
    query_layout, key_layout = Layout.of(asked), Layout.of([5, 18, 3, 0])
    queries = torch.randn(query_layout.tokens, 2, 16)
    keys, values = torch.randn(2, key_layout.tokens, 2, 16)
    found = native(queries, keys, values, query_layout, key_layout, mask)
    exact = attend_packed(queries, keys, values, query_layout, key_layout, mask, kernel="equation")
    assert_close(found, exact, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("d", [16, 24])
def test_numbers_are_read_where_they_lie(d):
    layout = Layout.of([3, 20, 8])
    parts = torch.randn(layout.tokens, 6, d).split(2, dim=1)
    assert_close(native(*parts, layout, layout), native(*(each.clone() for each in parts), layout, layout))


@pytest.mark.parametrize("kept", [torch.float32, torch.float16])
@pytest.mark.parametrize("asked", [2, 9])
@pytest.mark.parametrize("d", [16, 20, 64])
def test_a_cache_is_asked_for_what_each_row_sees(asked, d, kept):
    rows, families, heads, room, counts = 2 * asked, 3, 2, 21, [17, 20, 4]
    grid_keys, grid_values = torch.full((2, families, room, heads, d), torch.nan, dtype=kept)
    owners = torch.arange(families).repeat_interleave(torch.tensor(counts))
    slots = torch.cat([torch.randperm(count) for count in counts])
    keys, values = torch.randn(2, len(owners), heads, d)
    keep(keys, owners, slots, grid_keys)
    keep(values, owners, slots, grid_values)
    keys, values = keys.to(kept).float(), values.to(kept).float()  # as they are remembered
    sees = np.random.default_rng(0).random((rows, room)) < 0.5
    sees[1] = False
    queries, output = torch.randn(rows, heads, d), torch.full((rows, heads, d), torch.nan)
    bounds = torch.tensor([0, asked, asked, 2 * asked])  # nobody asks the second family
    asking = Asking(bounds, None, torch.tensor(counts), sees=sees)
    asking.attend(queries, grid_keys, grid_values, output, 0.3)
    for row in range(rows):
        family = 0 if row < asked else 2
        own = (owners == family).nonzero().squeeze(1)
        own = own[slots[own].argsort()]
        visible = torch.from_numpy(sees[row : row + 1, : counts[family]])
        expected = attend(queries[row : row + 1], keys[own], values[own], visible, scale=0.3)
        assert_close(output[row : row + 1], expected, atol=1e-6, rtol=1e-5)


def test_scores_of_any_size_are_weighed():
    layout = Layout.of([30])
    queries, keys, values = torch.randn(3, 30, 1, 16)
    for size in (1e-30, 1e3, 1e8):
        found = native(queries * size, keys, values, layout, layout)
        exact = attend_packed((queries * size).double(), keys.double(), values.double(), layout, layout)
        assert_close(found.double(), exact, atol=2e-5 if size == 1e3 else 1e-6, rtol=1e-5)


@pytest.mark.parametrize("lengths", [[4, 5, 6], [20, 21, 22]])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_what_is_no_number_is_not_lost_and_stays_in_its_sequence(lengths, part):
    layout = Layout.of(lengths)
    parts = torch.randn(3, layout.tokens, 2, 16)
    clean = native(*parts, layout, layout)
    parts[part, lengths[0]] = torch.nan  # the first token of the second sequence
    first, second, third = native(*parts, layout, layout).split(lengths)
    assert torch.equal(first, clean[: lengths[0]])
    assert torch.equal(third, clean[-lengths[2] :])
    assert second[0].isnan().all() if part == 0 else second.isnan().all()


def test_what_was_not_compiled_is_refused(monkeypatch):
    monkeypatch.setattr(attention, "library", lambda: None)
    with pytest.raises(ValueError, match="not compiled"):
        Asking(torch.tensor([0, 1]), None, torch.tensor([1]))


def test_half_precision_remembers_nothing_that_it_cannot_hold():
    x = torch.tensor([1.0, 1e-3, -7e4, 7e4, torch.inf, -torch.inf, torch.nan, 0.1] + [2.0] * 12).view(
        1, 1, 20
    )
    cache = torch.zeros(1, 1, 1, 20, dtype=torch.float16)
    nothing = torch.zeros(1, dtype=torch.int64)
    keep(x, nothing, nothing, cache)
    assert_close(cache.view(-1), x.view(-1).clamp(-65504, 65504).half(), atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
@pytest.mark.usefixtures("unchecked")
def test_other_kinds_of_numbers_are_refused_where_they_would_be_misread(part, kind):
    sides = [torch.randn(3, 2, 8) for _ in range(4)]
    sides[part] = sides[part].to(kind)
    asking = Asking(torch.tensor([0, 3]), torch.tensor([0]), torch.tensor([3]))
    with pytest.raises(ValueError, match=f"not in .*{kind}"):
        asking.attend(*sides, 1.0)
    places, cache = torch.arange(3), torch.zeros(3, 3, 2, 8)
    with pytest.raises(ValueError, match=f"not in .*{kind}"):
        keep(torch.randn(3, 2, 8), places, places, cache.to(kind))
    with pytest.raises(ValueError, match=f"not in {kind}"):
        keep(torch.randn(3, 2, 8).to(kind), places, places, cache)


@pytest.mark.usefixtures("unchecked")
def test_keys_and_values_are_remembered_alike_and_on_the_cpu():
    x, far = torch.randn(3, 2, 8), torch.randn(3, 2, 8, device="meta")
    asking = Asking(torch.tensor([0, 3]), torch.tensor([0]), torch.tensor([3]))
    with pytest.raises(ValueError, match=r"not in .*float16"):
        asking.attend(x, x.half(), x, torch.empty_like(x), 1.0)
    with pytest.raises(ValueError, match="move the tensors"):
        asking.attend(x, far, far, torch.empty_like(x), 1.0)


@pytest.mark.parametrize(
    ("heads", "keys", "values"),
    [(2, (4, 16), (4, 16)), (3, (2, 16), (2, 16)), (2, (2, 8), (2, 16)), (2, (1, 16), (2, 16))],
)
@pytest.mark.usefixtures("unchecked")
def test_heads_and_widths_that_do_not_fit_are_refused(heads, keys, values):
    layout = Layout.of([4, 3])
    sides = torch.randn(7, heads, 16), torch.randn(7, *keys), torch.randn(7, *values)
    with pytest.raises(ValueError, match="do not fit"):
        attend_packed(*sides, layout, layout)
