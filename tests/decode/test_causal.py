"""A language model in 4 or 8 bits by C is the model with its weights rounded, step by step and at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard.decode.causal import KINDS, CausalStepper
from regard.layout import Layout
from regard.models import Decoder
from regard.nn.native import library
from regard.nn.native.groups import KINDS as NUMBERS
from regard.nn.native.groups import GroupedWeight, restored
from regard.settings.models import DecoderConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
    TransformerConfig,
)
from regard.settings.presets import DECODERS
from regard.tasks.language.generator import Generator

pytestmark = pytest.mark.skipif(library() is None, reason="no C here")
ROWS = [[1, 5, 9, 12, 33, 2, 7], [4, 8], [1, 5, 9, 40, 41]]


def build(**attention) -> Decoder:
    torch.manual_seed(0)
    window = attention.pop("window", None)
    config = DecoderConfig(
        vocabulary=150,
        d_model=64,
        embedding=EmbeddingConfig(scaled=False),
        positions=PositionsConfig(kind="rotary", base=500.0),
        body=TransformerConfig(
            layers=3,
            attention=AttentionConfig(**{"heads": 4, "kv_heads": 2, "bias": False, **attention}),
            feed_forward=FeedForwardConfig(d_ff=96, activation="swiglu", bias=False),
            norm=NormConfig(kind="rms", place="pre"),
            window=window,
        ),
    )
    model = Decoder(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def steps(x: torch.Tensor) -> torch.Tensor:
    """Tokens as they are rounded on the way into a product."""
    blocks = x.unflatten(-1, (-1, 32))
    scale = (blocks.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-30)
    return ((blocks / scale).round() * scale).flatten(-2)


def rounded(model: Decoder, bits: str) -> Decoder:
    """The same with what is left of its weights, and of its tokens."""
    inner, outer = KINDS[bits]
    copy = Decoder(replace(model.config, tied=False)).eval()
    copy.load_state_dict(model.state_dict() | {"head.weight": model.head.weight.detach()}, strict=False)
    with torch.no_grad():
        for name, part in copy.named_modules():
            if isinstance(part, torch.nn.Linear):
                part.weight.copy_(restored(part.weight, inner))
                part.register_forward_pre_hook(lambda _, given: steps(given[0]))
            elif name == "head":
                part.weight.copy_(restored(part.weight, outer))
                part.register_forward_pre_hook(lambda _, given: steps(given[0]))
    return copy


SHAPES = [
    {},
    {"qk_norm": True, "d_head": 32},
    {"bias": True, "output_bias": False, "kv_heads": 4},
    {"window": 3, "kv_heads": 1},
]


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@torch.no_grad()
def test_scores_are_those_of_the_rounded_model(bits, shape):
    """The first keys and values but for halves. What comes after differs by what tokens lose when they are
    rounded, since the least difference rounds some the other way: half a step, about 0.6 % of their size, in
    each product."""
    model = build(**shape)
    stepper, expected = CausalStepper(model, bits), rounded(model, bits)
    ids, layout = torch.tensor([id for row in ROWS for id in row]), Layout.of([len(row) for row in ROWS])
    mine, theirs = stepper.start(rows=3, capacity=4), expected.start(rows=3)
    found, wanted = stepper.prefill(ids, layout, mine), expected.prefill(ids, layout, theirs)
    for step in range(6):
        size = wanted.std()
        assert (found - wanted).abs().max() < 0.12 * size
        assert (found - wanted).std() < 0.03 * size
        tokens = torch.tensor([3 + step, 60 - step, 100])[: mine.rows]
        if step == 3:
            mine.select([2, 0])
            theirs.select([2, 0])
            tokens = tokens[:2]
        found, wanted = stepper.step(tokens, mine), expected.step(tokens, theirs)
    assert mine.lengths.tolist() == theirs.lengths.tolist()
    for kept, wanted in ((mine.cache.keys, theirs.cache.keys), (mine.cache.values, theirs.cache.values)):
        for row, length in enumerate(mine.lengths.tolist()):
            expected = wanted[0, row, :, :length]
            assert_close(kept[0, row, :, :length].float(), expected, rtol=1e-3, atol=2e-3 * expected.std())


@pytest.mark.parametrize("kind", ["q4_0", "q4_1"])
@torch.no_grad()
def test_what_was_4_bits_before_is_not_rounded_again(kind):
    model = build()
    for layer in model.body.each:
        for part in (layer.attention.project, layer.attention.output, *layer.feed_forward.children()):
            if isinstance(part, torch.nn.Linear):
                part.weight.copy_(restored(part.weight, kind))
    stepper = CausalStepper(model, "int4")
    groups = [each for each in stepper._kept if isinstance(each, GroupedWeight)]
    assert {each.struct.kind for each in groups[:-1]} == {NUMBERS[kind]}
    part = model.body.each[0].attention.project
    ones = torch.eye(64)  # 127 steps of 1 / 127: tokens lose nothing
    assert_close(groups[0].times(ones), part.weight.T, rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_a_row_does_not_depend_on_its_company_and_steps_are_the_whole_pass():
    stepper = CausalStepper(build(), "int4")
    ids, layout = torch.tensor([id for row in ROWS for id in row]), Layout.of([len(row) for row in ROWS])
    together = stepper.prefill(ids, layout, stepper.start(rows=3))
    for row, scores in zip(ROWS, together, strict=True):
        stepper._last = None
        alone = stepper.prefill(torch.tensor(row), Layout.of([len(row)]), stepper.start(rows=1))
        assert torch.equal(alone[0], scores)
        stepper._last = None
        state = stepper.start(rows=1)
        last = stepper.prefill(torch.tensor(row[:1]), Layout.of([1]), state)
        for id in row[1:]:
            last = stepper.step(torch.tensor([id]), state)
        assert torch.equal(last[0], scores)


@torch.no_grad()
def test_what_was_read_is_not_read_again(monkeypatch):
    stepper = CausalStepper(build(), "int4")
    read = []
    inner = stepper._pass

    def counting(part, *rest):
        read.append(len(part))
        return inner(part, *rest)

    def prefill(*rows):
        read.clear()
        ids, layout = torch.tensor([id for row in rows for id in row]), Layout.of([len(row) for row in rows])
        state = stepper.start(rows=len(rows))
        return stepper.prefill(ids, layout, state), state, sum(read)

    monkeypatch.setattr(stepper, "_pass", counting)
    long = [*range(1, 40)]
    _, state, count = prefill(long)
    assert count == 39
    stepper.step(torch.tensor([77]), state)
    found, _, count = prefill([*long, 77, 5, 6])
    assert count == 2  # 39 and the step are known
    stepper._last = None
    fresh, _, count = prefill([*long, 77, 5, 6])
    assert count == 42
    assert torch.equal(found, fresh)
    stepper._last = None
    several, _, count = prefill([*long, 50], [*long, 60, 61], long)
    assert count == 39 + 1 + 2 + 1
    for row, scores in zip(([*long, 50], [*long, 60, 61], long), several, strict=True):
        stepper._last = None
        assert torch.equal(prefill(row)[0][0], scores)


@torch.no_grad()
def test_a_sample_that_outlives_the_others_leaves_nothing_wrong_behind():
    stepper = CausalStepper(build(), "int4")

    def prefill(ids):
        state = stepper.start(rows=1)
        return stepper.prefill(torch.tensor(ids), Layout.of([len(ids)]), state), state

    prompt = [1, 5, 9, 12]
    _, state = prefill(prompt)
    state.select([0, 0, 0])
    stepper.step(torch.tensor([20, 21, 22]), state)
    state.select([2])
    stepper.step(torch.tensor([23]), state)
    asked = [*prompt, 23, 30, 31]
    found, _ = prefill(asked)
    stepper._last = None
    assert torch.equal(found, prefill(asked)[0])


def test_two_threads_that_share_a_generator_write_what_each_would_alone():
    prompts = [[1, 5, 9, 12, 33, *range(40, 40 + number)] for number in range(8)]
    alone = Generator(build(), None, precision="int4")
    expected = [alone.generate_ids([prompt], max_tokens=12)[0] for prompt in prompts]
    shared = Generator(build(), None, precision="int4")
    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(lambda prompt: shared.generate_ids([prompt], max_tokens=12)[0], prompts * 4)]
    assert found == expected * 4


def test_a_generator_in_4_bits_writes_as_its_stepper_and_refuses_what_it_cannot():
    model = build()
    generator = Generator(model, None, precision="int4")
    assert isinstance(generator.engine.stepper(), CausalStepper)
    first = generator.generate_ids(ROWS, max_tokens=8)
    assert first == [generator.generate_ids([row], max_tokens=8)[0] for row in ROWS]
    stepper = generator.engine.stepper()
    assert generator.engine.stepper() is stepper
    with torch.no_grad():
        model.head.weight.mul_(-1)
    assert generator.engine.stepper() is not stepper
    seen = []
    handle = model.body.register_forward_hook(lambda *_: seen.append(1))
    assert generator.engine.stepper() is model
    handle.remove()
    with pytest.raises(ValueError, match=r"int4.*positions\.kind='learned'"):
        Generator(Decoder(DECODERS["tiny"](100)).eval(), None, precision="int4")
