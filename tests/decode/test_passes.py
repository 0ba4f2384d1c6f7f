"""All layers in one call of C, against the same layers one by one."""

import copy
import shutil
import threading

import pytest
import torch
from torch.testing import assert_close

from regard.decode import DecodeConfig, decode
from regard.decode.groups import BeamGroups
from regard.layout import Layout
from regard.models.seq2seq import Seq2Seq
from regard.nn import decoder_passes
from regard.nn import native as libraries
from regard.nn.decoder_passes import DecoderPasses
from regard.nn.in_place import in_place
from regard.nn.layers import LayerNorm, RMSNorm
from regard.nn.native import attention, best, library, linear
from regard.nn.native import decoder as native
from regard.nn.packed import pack
from regard.nn.quantized import quantize
from regard.settings.network import AttentionConfig, FeedForwardConfig, NormConfig
from tests.decode.models import END, START
from tests.models.families import BODIES, VOCABULARY, seq2seq, transformer

pytestmark = [
    pytest.mark.skipif(library() is None, reason="no compiler"),
    pytest.mark.usefixtures("unchecked"),
]
KINDS = {
    "post-norm": {},
    "pre-norm": {"norm": NormConfig(place="pre")},
    "post-norm, one more at the end": {"final_norm": True},
    "pre-norm, none at the end": {"norm": NormConfig(place="pre"), "final_norm": False},
    "rms": {"norm": NormConfig(kind="rms", place="pre")},
    "gelu": {"feed_forward": FeedForwardConfig(d_ff=80, activation="gelu")},
    "swish": {"feed_forward": FeedForwardConfig(d_ff=40, activation="swish")},
    "gelu_tanh, no biases": {
        "attention": AttentionConfig(heads=2, bias=False),
        "feed_forward": FeedForwardConfig(d_ff=24, activation="gelu_tanh", bias=False),
    },
    "shared keys": {"attention": AttentionConfig(heads=4, kv_heads=2)},
    "free widths": {"attention": AttentionConfig(heads=3, d_head=8, d_value=12)},
    "whole registers": {"attention": AttentionConfig(heads=2, d_head=16, d_value=32)},
    "one layer": {"layers": 1},
}
MADE = {"float32": pack, "in place": lambda model: in_place(pack(model)), "int8": quantize}
EACH = pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
EACH_MADE = pytest.mark.parametrize("make", MADE.values(), ids=MADE)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def norms_in_c(monkeypatch):
    """So that nothing else can differ."""

    def layer(self, x):
        return native.normed(native.norm_of("layer", self.weight, self.bias, self.eps), x)

    def rms(self, x):
        return native.normed(native.norm_of("rms", self.weight, None, self.eps), x)

    monkeypatch.setattr(LayerNorm, "forward", layer)
    monkeypatch.setattr(RMSNorm, "forward", rms)


def model(make=pack, positions: str = "sinusoidal", **settings) -> Seq2Seq:
    made = Seq2Seq(seq2seq(transformer(**settings), positions)).eval()
    for weight in made.decoder.parameters():  # norms and biases too
        weight.add_(torch.randn_like(weight) * 0.1)
    return make(made)


def both(own: Seq2Seq, kept: torch.dtype = torch.float32) -> tuple[BeamGroups, BeamGroups]:
    """By one call, and layer by layer."""
    quick, slow = BeamGroups(own, kept=kept), BeamGroups(own, kept=kept)
    assert quick.passes is not None
    slow.passes = None
    return quick, slow


def walked(groups: BeamGroups, seed: int, steps: int = 14) -> list[torch.Tensor]:
    """Scores of prefixes, and of steps of two batches: rows are doubled and dropped, groups leave, and the
    second batch joins later."""
    draw = torch.Generator().manual_seed(seed)
    found, states = [], []

    def ids(count: int) -> torch.Tensor:
        return torch.randint(3, VOCABULARY, (count,), generator=draw)

    for number in range(steps):
        if number in (0, 5):
            lengths = torch.randint(1, 30, (4,), generator=draw).tolist()
            states.append(groups.start(ids(sum(lengths)), Layout.of(lengths)))
            read = torch.randint(1, 5, (4,), generator=draw).tolist()
            found.append(groups.prefill(ids(sum(read)), Layout.of(read), states[-1]))
        for state in states:
            kept = torch.randint(0, state.rows, (min(state.rows + 3, 11),), generator=draw)
            state.select(kept.sort().values)
        found.append(groups.together([(ids(state.rows), state) for state in states]))
    return found


@EACH_MADE
@EACH
@pytest.mark.parametrize("kept", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.usefixtures("norms_in_c")
def test_one_call_is_the_layers_one_by_one_to_the_last_bit(settings, make, kept):
    quick, slow = both(model(make, **settings), kept)
    for found, expected in zip(walked(quick, 1), walked(slow, 1), strict=True):
        assert torch.equal(found, expected)


@EACH
def test_with_torchs_norms_it_is_nearly_the_same(settings):
    quick, slow = both(model(**settings))
    for found, expected in zip(walked(quick, 2), walked(slow, 2), strict=True):
        assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    quick, _ = both(model(quantize))
    before, alone = torch.get_num_threads(), walked(quick, 3)
    torch.set_num_threads(threads)
    try:
        shared = walked(quick, 3)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(alone, shared, strict=True))


def test_several_searches_at_the_same_time_do_not_disturb_one_another():
    quick, _ = both(model(quantize))
    expected = [walked(quick, seed) for seed in range(4)]
    found: list[list[torch.Tensor] | None] = [None] * 4

    def walk(seed: int) -> None:
        with torch.no_grad():
            found[seed] = walked(quick, seed)

    threads = [threading.Thread(target=walk, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in zip(found, expected, strict=True):
        assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("width", [1, 7, 16, 64, 100, 512])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_is_torchs_but_for_rounding(kind, width):
    """The mean is off by half of its last bit, which counts the more the closer the numbers lie to it."""
    x = torch.randn(9, width) * torch.logspace(-3, 3, 9)[:, None] + 0.5
    weight, bias = torch.randn(width), torch.randn(width) if kind == "layer" else None
    found = native.normed(native.norm_of(kind, weight, bias, 1e-5), x)
    wide, shape = x.double(), (width,)
    if kind == "layer":
        exact = torch.nn.functional.layer_norm(wide, shape, weight.double(), bias.double(), 1e-5)
        apart = (wide.var(dim=1, correction=0) + 1e-5).sqrt()
    else:
        exact = torch.nn.functional.rms_norm(wide, shape, weight.double(), 1e-5)
        apart = (wide.square().mean(dim=1) + 1e-5).sqrt()
    steps = 2.0**-24 * (8 + 2 * wide.mean(dim=1).abs() / apart)
    assert ((found - exact).abs() <= steps[:, None] * (1 + exact.abs() + weight.abs())).all()


def test_no_rows_are_no_pass():
    quick, _ = both(model())
    state = quick.start(torch.tensor([4, 5]), Layout.of([2]))
    quick.prefill(torch.tensor([START]), Layout.of([1]), state)
    state.select([])
    assert quick.step(torch.zeros(0, dtype=torch.int64), state).shape == (0, VOCABULARY)


@pytest.mark.parametrize("made_by", ["cc, without AVX-512", "clang"])
def test_other_compilers_and_registers_make_the_same_of_it(made_by, tmp_path, monkeypatch):
    if shutil.which("clang" if made_by == "clang" else "cc") is None:
        pytest.skip("no such compiler")
    plain = model(lambda model: model)
    expected = walked(BeamGroups(plain), 7)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if made_by == "clang":
        monkeypatch.setenv("CC", "clang")
    else:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setattr(libraries, "FLAGS", (*libraries.FLAGS, "-march=x86-64-v3"))
    made = libraries.library.__wrapped__()
    assert made is not None
    for part in (attention, best, linear, native):
        monkeypatch.setattr(part, "library", lambda: made)
    groups = BeamGroups(pack(plain))
    assert groups.passes is not None
    for found, theirs in zip(walked(groups, 7), expected, strict=True):
        assert_close(found, theirs, atol=3e-5, rtol=1e-5)
    scores, never = torch.randn(9, 1003), torch.tensor([4, 9])
    values, ids = best.best(scores, 8, never)
    likely = scores.log_softmax(dim=1).index_fill(1, never, -torch.inf)
    assert torch.equal(ids, likely.topk(8, dim=1).indices.sort(dim=1).values)
    assert_close(values.float(), likely.gather(1, ids), atol=1e-6, rtol=1e-6)


# What goes layer by layer.


@pytest.mark.parametrize(
    "settings",
    [
        {"make": lambda model: model},  # its products are torch's
        {"positions": "rotary"},
        {"feed_forward": FeedForwardConfig(d_ff=32, activation="swiglu")},
        {"norm": NormConfig(kind="batch")},
        {"attention": AttentionConfig(heads=4, scale=1.0)},
    ],
    ids=["not packed", "rotary", "gated", "batch norm", "another scale"],
)
def test_what_has_no_counterpart_in_c_goes_layer_by_layer(settings):
    groups = BeamGroups(model(**settings))
    assert groups.passes is None
    assert len(walked(groups, 4)) == 16


def test_parts_of_other_classes_go_layer_by_layer():
    class Louder(LayerNorm):
        pass

    own = model()
    norm = own.decoder.body.each[1].feed_forward_residual
    norm.norm = vars(norm)["norm"] = Louder(32)
    assert DecoderPasses.of(own.decoder.body) is None


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "all"])
def test_hooks_see_their_tensors(kind):
    own = model()
    groups, _ = both(own)
    expected = walked(groups, 5)
    seen = []
    part = own.decoder.body.each[1].cross_attention.output
    hook = {
        "forward": lambda: part.register_forward_hook(lambda module, given, made: seen.append(made)),
        "forward_pre": lambda: part.register_forward_pre_hook(lambda module, given: seen.append(given[0])),
        "all": lambda: torch.nn.modules.module.register_module_forward_hook(
            lambda module, given, made: seen.append(made) if module is part else None
        ),
    }[kind]()
    try:
        found = walked(groups, 5)
    finally:
        hook.remove()
    assert [len(each) for each in seen[1:6]] == [len(each) for each in expected[1:6]]
    assert len(seen) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    walked(groups, 5)
    assert len(seen) == len(expected)


def test_with_gradients_products_are_torchs():
    groups, _ = both(model())
    expected = walked(groups, 6, steps=1)
    with torch.enable_grad():
        found = walked(groups, 6, steps=1)
    assert found[-1].requires_grad
    assert_close(found[-1].detach(), expected[-1], atol=1e-5, rtol=1e-5)


def test_a_description_goes_with_its_model():
    own = model()
    assert DecoderPasses.of(own.decoder.body) is DecoderPasses.of(own.decoder.body)
    other = copy.deepcopy(own)
    assert DecoderPasses.of(other.decoder.body) is not DecoderPasses.of(own.decoder.body)
    before = len(decoder_passes._known)
    del other
    assert len(decoder_passes._known) == before - 1


@EACH_MADE
def test_weights_of_norms_that_moved_are_read_where_they_are(make):
    """`double` gives every parameter other memory; what a description points at must not be used again."""
    plain = model(lambda model: model)
    own = make(plain)
    before, _ = both(own)
    expected = walked(before, 8)
    plain.double()
    plain.float()
    own.double()
    own.float()
    spoiled = [torch.full((size,), torch.nan) for size in (32, 64) for _ in range(300)]
    for groups in (before, both(own)[0]):
        assert all(torch.equal(*pair) for pair in zip(walked(groups, 8), expected, strict=True))
    assert len(spoiled) == 600


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_a_norms_weights_that_were_replaced_are_seen(part):
    own = model()
    before, _ = both(own)
    expected = walked(before, 9)
    norm = own.decoder.body.each[1].feed_forward_residual.norm
    setattr(norm, part, torch.nn.Parameter(getattr(norm, part).detach() * 5))
    after, slow = both(own)
    found = walked(slow, 9)
    assert not torch.allclose(found[-1], expected[-1])
    for groups in (before, after):
        for ours, theirs in zip(walked(groups, 9), found, strict=True):
            assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_norms_that_c_cannot_read_go_layer_by_layer():
    own = model()
    norm = own.decoder.body.each[1].feed_forward_residual.norm
    assert DecoderPasses.of(own.decoder.body) is not None
    norm.bias = torch.nn.Parameter(norm.bias.detach().repeat_interleave(2)[::2])
    assert DecoderPasses.of(own.decoder.body) is None


def test_another_number_of_rows_is_refused():
    groups, _ = both(model())
    state = groups.start(torch.tensor([4, 5]), Layout.of([2]))
    groups.prefill(torch.tensor([START]), Layout.of([1]), state)
    state.ask_step()
    with pytest.raises(ValueError, match="1 rows of 32 numbers are asked for"):
        groups.passes.through(torch.zeros(2, 32), [state.asking.search])


@pytest.mark.parametrize("method", ["beam", "greedy"])
@EACH_MADE
def test_searches_find_what_the_models_own_steps_find(make, method):
    plain = Seq2Seq(seq2seq(*BODIES["transformer, sinusoidal"])).eval()
    own = make(plain)
    source = torch.randint(3, VOCABULARY, (17,)), Layout.of([5, 3, 9])
    config = DecodeConfig(method=method, beam=3, maximum=12)
    found = [
        decode(stepper, stepper.start(*source), [[START]] * 3, end=END, config=config)
        for stepper in (BeamGroups(own), own)
    ]
    ids = [[[each.ids for each in row] for row in each] for each in found]
    assert ids[0] == ids[1]
