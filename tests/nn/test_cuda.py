"""On an NVIDIA GPU: the variable-length kernel in bf16 against the equation in float32, and whole models.

bf16 has 8 bits of mantissa, so a relative error of a few times 2^-8 is its own. Errors are relative to the
norm of the reference, since single elements near zero have no meaningful relative error.
"""

import dataclasses

import pytest
import torch
from torch import Tensor

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.attention import attend
from regard.nn.kernels import attend_packed, choose_kernel
from regard.nn.masks import CAUSAL, FULL, Mask
from regard.settings.models import DecoderConfig
from regard.settings.network import (
    AttentionConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
BF16 = 1e-2
"""A few times 2^-8."""

MASKS = {"full": FULL, "causal": CAUSAL, "sliding": Mask(before=5, after=0), "local": Mask(before=3, after=4)}
LAYOUTS = {
    "mixed": ([3, 50, 50, 1, 130], [3, 50, 50, 1, 130]),
    "short": ([3, 20, 60, 1, 33], [3, 20, 60, 1, 33]),
    "of one block": ([128, 100, 65], [128, 100, 65]),
    "long": ([300, 513], [300, 513]),
    "empty ones": ([3, 0, 50, 0], [3, 0, 50, 0]),
    "cross": ([7, 1, 64, 33], [60, 6, 4, 130]),
    "nothing to ask": ([7, 5, 0], [9, 0, 4]),
}


def close(found: Tensor, reference: Tensor, limit: float = BF16) -> None:
    found, reference = found.detach().float(), reference.detach().float()
    assert torch.isfinite(found).all()
    scale = max(float(reference.norm()), 1e-6)
    assert float((found - reference).norm()) / scale < limit


def on_gpu(lengths: list[int], longest: int | None = None) -> Layout:
    return Layout.of(lengths, longest).to("cuda")


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("lengths", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize(
    ("heads", "kv_heads", "d_head"), [(8, 8, 64), (8, 2, 64), (4, 4, 32), (4, 1, 128), (2, 2, 40)]
)
def test_varlen_equals_the_equation(mask, lengths, heads, kv_heads, d_head):
    queries, keys = on_gpu(lengths[0]), on_gpu(lengths[1])
    shapes = [(queries.tokens, heads), (keys.tokens, kv_heads), (keys.tokens, kv_heads)]
    halves = [torch.randn(*shape, d_head, device="cuda", dtype=torch.bfloat16) for shape in shapes]
    gradient = torch.randn(queries.tokens, heads, d_head, device="cuda", dtype=torch.bfloat16)
    results = []
    for kernel, dtype in (("varlen", torch.bfloat16), ("equation", torch.float32)):
        inputs = [half.detach().to(dtype).requires_grad_() for half in halves]
        output = attend_packed(*inputs, queries, keys, mask, kernel=kernel)
        results.append(
            (output, *torch.autograd.grad(output, inputs, gradient.to(dtype), materialize_grads=True))
        )
    for found, reference in zip(*results, strict=True):
        close(found, reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_padded_equals_the_equation_with_bias_and_free_mask(dtype, kv_heads):
    queries, keys = on_gpu([3, 50, 17]), on_gpu([9, 50, 33])
    mask = Mask(chosen=torch.rand(3, 50, 50, device="cuda") < 0.5)
    bias = torch.randn(4, 50, 50, device="cuda")
    shapes = [(queries.tokens, 4), (keys.tokens, kv_heads), (keys.tokens, kv_heads)]
    halves = [torch.randn(*shape, 32, device="cuda").to(dtype) for shape in shapes]
    results = []
    for kernel, kind in (("padded", dtype), ("equation", torch.float32)):
        inputs = [half.detach().to(kind).requires_grad_() for half in halves]
        output = attend_packed(*inputs, queries, keys, mask, bias=bias.to(kind), kernel=kernel)
        results.append((output, *torch.autograd.grad(output.float().square().sum(), inputs)))
    for found, reference in zip(*results, strict=True):
        close(found, reference, BF16 if dtype == torch.bfloat16 else 1e-3)


def test_the_gpu_picks_varlen_in_half_precision():
    facts = {"device": "cuda", "d_head": 64, "d_value": 64}
    assert choose_kernel(dtype=torch.bfloat16, **facts).kernel == "varlen"
    assert choose_kernel(dtype=torch.float32, **facts).kernel == "padded"


def still(config):
    """Without dropout."""
    body = dataclasses.replace(config.body, dropout=0.0)
    return dataclasses.replace(
        config, body=body, embedding=dataclasses.replace(config.embedding, dropout=0.0)
    )


def pair(model: torch.nn.Module) -> list[tuple[torch.nn.Module, torch.dtype]]:
    """The model in bf16 on the GPU, and a float32 reference of the same (rounded) weights on the CPU."""
    half = model.to(torch.bfloat16)
    reference = type(model)(model.config)
    reference.load_state_dict({name: value.float() for name, value in half.state_dict().items()})
    return [(half.cuda(), "cuda"), (reference, "cpu")]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_an_encoder_in_bf16_is_its_float32_reference(training):
    ids, results = torch.randint(0, 100, (200,)), []
    gradient = torch.randn(200, 256)
    for model, device in pair(Encoder(still(ENCODERS["mini"](100)))):
        layout = Layout.of([60, 3, 100, 37]).to(device)
        output = model.train(training)(ids.to(device), layout)
        output.backward(gradient.to(output))
        results.append((output.cpu(), model.body.each[0].attention.project.weight.grad.cpu()))
    close(results[0][0], results[1][0], 2e-2)  # four layers, each rounding anew
    close(results[0][1], results[1][1], 5e-2)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"])
def test_a_decoder_in_bf16_is_its_float32_reference_for_all_positions(positions):
    config = dataclasses.replace(still(DECODERS["tiny"](100)), positions=PositionsConfig(kind=positions))
    ids, results = torch.randint(0, 100, (200,)), []
    for model, device in pair(Decoder(config)):
        layout = Layout.of([60, 3, 100, 37]).to(device)
        results.append(model.eval()(ids.to(device), layout).cpu())
    close(*results, 2e-2)


WINDOWS = {"everything": {}, "window": {"window": 20}, "global layers": {"window": 20, "global_every": 2}}


def modern(window: dict[str, int]) -> DecoderConfig:
    """Rotary with yarn, RMSNorm, SwiGLU, shared key heads."""
    return DecoderConfig(
        vocabulary=100,
        d_model=128,
        positions=PositionsConfig(kind="rotary", scaling="yarn", factor=4.0, trained=32),
        body=TransformerConfig(
            layers=4,
            attention=AttentionConfig(heads=4, kv_heads=2, bias=False),
            feed_forward=FeedForwardConfig(activation="swiglu", bias=False),
            norm=NormConfig(kind="rms", place="pre"),
            **window,
        ),
    )


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_a_modern_decoder_in_bf16_is_its_float32_reference(window):
    ids, results = torch.randint(0, 100, (200,)), []
    gradient = torch.randn(200, 128)
    for model, device in pair(Decoder(still(modern(window)))):
        layout = Layout.of([60, 3, 100, 37]).to(device)
        output = model(ids.to(device), layout)
        output.backward(gradient.to(output))
        results.append((output.cpu(), model.body.each[0].attention.project.weight.grad.cpu()))
    close(results[0][0], results[1][0], 2e-2)
    close(results[0][1], results[1][1], 5e-2)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("lengths", [[40, 40, 40], [40, 7, 23]], ids=["level", "not level"])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2)])
@torch.no_grad()
def test_a_modern_decoder_steps_as_it_reads_on_the_gpu(window, lengths, dtype, limit):
    model = Decoder(modern(window)).eval().cuda().to(dtype)
    rows = [torch.randint(0, 100, (length + 3,), device="cuda") for length in lengths]
    state = model.start(rows=3, capacity=2)
    prefixes = torch.cat([row[:-3] for row in rows])
    found = [model.prefill(prefixes, on_gpu(lengths), state)]
    found += [model.step(torch.stack([row[place] for row in rows]), state) for place in (-3, -2, -1)]
    whole = model.head(model(torch.cat(rows), on_gpu([length + 3 for length in lengths])))
    for row, scores in enumerate(Layout.of([length + 3 for length in lengths]).split(whole)):
        close(torch.stack([each[row] for each in found]), scores[-4:], limit)


def test_cached_steps_equal_the_whole_pass_on_the_gpu():
    """In float32, where the two paths must agree closely; then in bf16, where each rounds in its own way."""
    for dtype, limit in ((torch.float32, 1e-4), (torch.bfloat16, 3e-2)):
        model = Seq2Seq(SEQ2SEQ["tiny"](100)).eval().cuda().to(dtype)
        sources, targets = on_gpu([30, 7, 1]), on_gpu([6, 6, 6])
        source = torch.randint(0, 100, (38,), device="cuda")
        target = torch.randint(0, 100, (18,), device="cuda")
        with torch.no_grad():
            whole = model.decoder.head(model(source, sources, target, targets)).view(3, 6, -1)
            state = model.start(source, sources, capacity=2)
            for t in range(6):
                close(model.step(target.view(3, 6)[:, t], state), whole[:, t], limit)
            state.select([0, 0, 2])
            assert model.step(target.view(3, 6)[:, 0], state).shape == (3, 100)


def test_one_compilation_serves_every_layout():
    model = Encoder(still(ENCODERS["mini"](100))).cuda().to(torch.bfloat16).eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    torch._dynamo.utils.counters.clear()
    for lengths in ([60, 3, 100, 37], [1, 99, 50, 50], [128, 70, 2, 0]):
        layout = on_gpu(lengths, longest=128)
        ids = torch.randint(0, 100, (200,), device="cuda")
        close(compiled(ids, layout), model(ids, layout))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_layouts_move_with_their_host_side_staying():
    layout = Layout.of([3, 2]).to("cuda")
    assert layout.offsets.is_cuda
    assert layout.positions.is_cuda
    assert not layout.host_offsets.is_cuda
    assert layout.host_lengths == [3, 2]
    assert layout.to("cuda") is layout


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
@pytest.mark.parametrize("before", [None, 5, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_for_the_next_token_is_the_equation(heads, kv_heads, before, dtype):
    from regard.nn.next_token import attend_next

    rows, room, d_head, d_value = 5, 300, 64, 32
    lengths = torch.tensor([0, 1, 64, 200, 299], device="cuda")

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda").to(dtype)

    cached = drawn(rows, kv_heads, room, d_head), drawn(rows, kv_heads, room, d_value)
    queries, keys, values = (
        drawn(rows, heads, d_head),
        drawn(rows, kv_heads, d_head),
        drawn(rows, kv_heads, d_value),
    )
    wanted = [each.clone() for each in cached]
    numbers = torch.arange(rows, device="cuda")
    wanted[0][numbers, :, lengths], wanted[1][numbers, :, lengths] = keys, values
    found = attend_next(queries, keys, values, *cached, lengths, before)
    assert torch.equal(cached[0], wanted[0])
    assert torch.equal(cached[1], wanted[1])
    for row, length in enumerate(lengths.tolist()):
        first = 0 if before is None else max(0, length - before)
        own = [each[row, :, first : length + 1].transpose(0, 1).float() for each in wanted]
        expected = attend(queries[row : row + 1].float(), *own)
        close(found[row : row + 1], expected, 1e-5 if dtype == torch.float32 else BF16)
