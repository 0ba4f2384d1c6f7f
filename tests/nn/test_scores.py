"""Scores other than the scaled dot product, a plugin's among them: every path gives what the equation does.

whole pass = cached steps        packed = alone        weights that are seen = weights that were used
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.layout import Layout
from regard.look.heads import scaled_heads
from regard.look.parts import Parts
from regard.look.pruning import prune
from regard.look.tracing import trace
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.attention import AdditiveScore, attend, dot_scores
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.positions import AlibiBias, RelativeBias
from regard.plugins import load_plugin, unload_plugin
from regard.settings.network import SCORES, AttentionConfig, EmbeddingConfig
from tests.models.families import VOCABULARY, decoder, encoder, seq2seq, transformer

PARTS = Path(__file__).parents[1] / "plugins" / "parts.py"
TIGHT = {"atol": 1e-10, "rtol": 1e-10}
SOURCES, TARGETS = Layout.of([3, 7, 1]), Layout.of([5, 2, 4])


@pytest.fixture(scope="module", autouse=True)
def _cosine():
    load_plugin(PARTS)
    yield
    unload_plugin("parts")


SCORED = pytest.mark.parametrize("score", ["cosine", "additive", "dot"])
POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
WINDOWS = pytest.mark.parametrize("window", [None, 2], ids=["all", "window"])
SHARED = pytest.mark.parametrize("kv_heads", [None, 2], ids=["own keys", "shared keys"])
TRAINING = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def body(score: str, window: int | None = None, kv_heads: int | None = None):
    return transformer(attention=AttentionConfig(heads=4, kv_heads=kv_heads, score=score), window=window)


def draw(layout: Layout) -> Tensor:
    return torch.randint(0, VOCABULARY, (layout.tokens,))


def gradients(output: Tensor, model: torch.nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        output.square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True
    )


def by_hand(score: str, part: torch.nn.Module, q: Tensor, k: Tensor) -> Tensor:
    """One number at a time, from the formula."""
    found = torch.empty(q.shape[1], len(q), len(k), dtype=q.dtype)
    for head in range(q.shape[1]):
        for i, one in enumerate(q[:, head]):
            for j, other in enumerate(k[:, head]):
                match score:
                    case "dot":
                        found[head, i, j] = one @ other
                    case "cosine":
                        cosine = one @ other / (one.norm() * other.norm())
                        found[head, i, j] = part.temperature[head, 0, 0] * cosine
                    case "additive":
                        inner = torch.tanh(one @ part.query[head] + other @ part.key[head])
                        found[head, i, j] = part.direction[head] @ inner
    return found.detach()


@SCORED
def test_each_score_is_its_formula(score):
    part = SCORES[score].build(4, 6).double()
    q, k = torch.randn(3, 4, 6, dtype=torch.float64), torch.randn(5, 4, 6, dtype=torch.float64)
    assert_close(part(q, k), by_hand(score, part, q, k), **TIGHT)


def test_additive_scores_draw_values_of_unit_variance_inside_the_tanh():
    part = AdditiveScore(2, 64)
    q = torch.randn(4000, 2, 64)
    assert_close(torch.einsum("qhd,hde->hqe", q, part.query).var(), torch.tensor(1.0), atol=0.1, rtol=0)


@SCORED
def test_attention_with_a_score_is_softmax_of_it_times_the_values(score):
    part = SCORES[score].build(4, 6).double()
    q, k, v = (torch.randn(n, 4, 6, dtype=torch.float64) for n in (3, 5, 5))
    weights = by_hand(score, part, q, k).softmax(dim=-1)
    assert_close(attend(q, k, v, score=part), torch.einsum("hqk,khd->qhd", weights, v), **TIGHT)


def test_the_scaled_score_by_its_name_is_the_one_that_has_kernels():
    named, plain = AttentionConfig(score="scaled"), AttentionConfig()
    assert SelfAttention(16, named).score is None
    assert SelfAttention(16, plain).score is None
    q, k = torch.randn(3, 2, 8), torch.randn(4, 2, 8)
    assert torch.equal(SCORES["scaled"].build(2, 8)(q, k), dot_scores(q, k))


def test_a_kernel_that_cannot_have_the_score_is_refused():
    with pytest.raises(ValueError, match=r"attention.kernel='padded' .* attention.score='additive'"):
        AttentionConfig(score="additive", kernel="padded")
    choice = SelfAttention(16, AttentionConfig(score="additive")).explain(torch.randn(3, 16))
    assert choice.kernel == "equation"


@SCORED
@POSITIONS
@WINDOWS
@TRAINING
def test_packed_together_equals_each_alone(score, positions, window, training):
    model = Seq2Seq(seq2seq(body(score, window), positions)).double().train(training)
    source, target = draw(SOURCES), draw(TARGETS)
    together = model.decoder.head(model(source, SOURCES, target, TARGETS))
    pairs = zip(SOURCES.split(source), TARGETS.split(target), strict=True)
    alone = torch.cat(
        [model.decoder.head(model(s, Layout.of([len(s)]), t, Layout.of([len(t)]))) for s, t in pairs]
    )
    assert_close(together, alone, **TIGHT)
    assert_close(gradients(together, model), gradients(alone, model), **TIGHT)


@SCORED
def test_gradients_are_those_of_the_equation(score):
    """Differences of the function itself, for the inputs and for what the score has learned."""
    part = SCORES[score].build(2, 4).double()
    weights = [*part.parameters()]
    q, k, v = (torch.randn(n, 2, 4, dtype=torch.float64, requires_grad=True) for n in (2, 3, 3))
    visible = torch.tensor([[True, True, False], [True, True, True]])

    def function(*_: Tensor) -> Tensor:
        return attend(q, k, v, visible, score=part)

    assert torch.autograd.gradcheck(function, (q, k, v, *weights))


@SCORED
@POSITIONS
@WINDOWS
@SHARED
def test_cached_steps_equal_the_whole_pass(score, positions, window, kv_heads):
    """Causal and cross; rows are repeated, reordered and dropped meanwhile, as a beam does."""
    model = Seq2Seq(seq2seq(body(score, window, kv_heads), positions)).double().eval()
    source, tokens = draw(SOURCES), torch.randint(0, VOCABULARY, (6, 7))
    owners, kept = [0, 0, 1, 1, 2, 2], [1, 0, 5]
    with torch.no_grad():
        state = model.start(source, SOURCES, capacity=2)  # too small on purpose: it grows
        state.select(owners)
        model.prefill(tokens[:, :2].flatten(), Layout.of([2] * 6), state)
        model.step(tokens[:, 2], state)
        state.select(kept)
        found = torch.stack([model.step(tokens[kept, t], state) for t in range(3, 7)], dim=1)
        chosen = [SOURCES.split(source)[owners[row]] for row in kept]
        layout = Layout.of([len(each) for each in chosen])
        states = model(torch.cat(chosen), layout, tokens[kept].flatten(), Layout.of([7] * 3))
    assert_close(found, model.decoder.head(states).view(3, 7, -1)[:, 3:], **TIGHT)


@SCORED
@POSITIONS
@WINDOWS
@SHARED
def test_cached_steps_of_rows_of_different_lengths_equal_each_row_alone(score, positions, window, kv_heads):
    """Where the cache holds more places than a row has tokens."""
    model = Decoder(decoder(body(score, window, kv_heads), positions)).double().eval()
    lengths, new = [4, 1, 2], torch.randint(0, VOCABULARY, (3, 4))
    prompts = [torch.randint(0, VOCABULARY, (length,)) for length in lengths]
    with torch.no_grad():
        state = model.start(rows=3, capacity=2)
        model.prefill(torch.cat(prompts), Layout.of(lengths), state)
        found = torch.stack([model.step(new[:, t], state) for t in range(4)], dim=1)
        for row, prompt in enumerate(prompts):
            ids = torch.cat([prompt, new[row]])
            whole = model.head(model(ids, Layout.of([len(ids)])))
            assert_close(found[row], whole[-4:], **TIGHT)


@SCORED
@POSITIONS
@WINDOWS
@SHARED
def test_the_weights_that_are_seen_are_those_that_were_used(score, positions, window, kv_heads):
    """Times the values, through the output matrix, they are what attention gave."""
    model = Seq2Seq(seq2seq(body(score, window, kv_heads), positions)).double().eval()
    outputs: dict[tuple[str, int], Tensor] = {}
    attentions = Parts.of(model).attentions
    for place, layers in attentions.items():
        for layer, attention in enumerate(layers):
            attention.register_forward_hook(
                lambda part, args, output, key=(place, layer): outputs.__setitem__(key, output.detach())
            )
    with trace(model, what=("weights", "values", "scores", "queries", "keys")) as seen:
        model(draw(SOURCES), SOURCES, draw(TARGETS), TARGETS)
    assert {place for place, _ in outputs} == {"encoder", "decoder", "cross"}
    for (place, layer), output in outputs.items():
        attention = attentions[place][layer]
        assert isinstance(attention, SelfAttention | CrossAttention)
        for sequence, wanted in enumerate((SOURCES if place == "encoder" else TARGETS).split(output)):
            at = {"layer": layer, "sequence": sequence}
            weights = seen.weights(place, **at)
            assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2], dtype=torch.float64))
            mixed = weights @ seen.values(place, **at)
            assert_close(attention.output(mixed.transpose(0, 1).flatten(1)), wanted, **TIGHT)
            if place == "cross" or positions in ("sinusoidal", "rotary"):
                q, k = (getattr(seen, name)(place, **at).transpose(0, 1) for name in ("queries", "keys"))
                assert_close(seen.scores(place, **at), by_hand(score, attention.score, q, k), **TIGHT)


@SCORED
@POSITIONS
@WINDOWS
def test_cached_steps_show_the_rows_of_the_whole_pass(score, positions, window):
    model = Seq2Seq(seq2seq(body(score, window), positions)).double().eval()
    source, tokens = draw(SOURCES), torch.randint(0, VOCABULARY, (3, 5))
    with torch.no_grad(), trace(model) as stepped:
        state = model.start(source, SOURCES, capacity=2)
        for t in range(5):
            model.step(tokens[:, t], state)
    with torch.no_grad(), trace(model) as whole:
        model(source, SOURCES, tokens.flatten(), Layout.of([5] * 3))
    for place in ("decoder", "cross"):
        for row in range(3):
            wanted = whole.weights(place, layer=1, sequence=row)[:, -1:]
            assert_close(stepped.weights(place, layer=1, sequence=row), wanted, **TIGHT)


@SCORED
def test_one_head_can_be_looked_at_alone(score):
    """A score takes all heads at once; what is asked for is one of them."""
    model = Encoder(encoder(body(score), "sinusoidal")).double().eval()
    ids = draw(SOURCES)
    with trace(model) as every:
        model(ids, SOURCES)
    with trace(model, layers=[1], heads=[2]) as one:
        model(ids, SOURCES)
    assert_close(one.weights(layer=1, head=2), every.weights(layer=1, head=2), **TIGHT)


@SCORED
@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "alibi"])
def test_a_pruned_model_gives_what_it_gave_with_those_heads_silent(score, positions):
    model = Seq2Seq(seq2seq(body(score), positions)).double().eval()
    heads = [("encoder", 0, 1), ("encoder", 1, 0), ("decoder", 0, 3), ("cross", 1, 0), ("cross", 1, 2)]
    given = draw(SOURCES), SOURCES, draw(TARGETS), TARGETS
    with torch.no_grad():
        with scaled_heads(model, dict.fromkeys(heads, 0.0)):
            wanted = model(*given)
        assert_close(prune(model, heads)(*given), wanted, **TIGHT)


@SCORED
def test_keys_in_another_precision_are_compared_in_that_of_the_queries(score):
    """As a cache may hold them: what is remembered in half precision is read as such."""
    from regard.nn.kernels import attend_cached

    part = SCORES[score].build(4, 8)
    q, k, v = torch.randn(2, 4, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 8)
    found = attend_cached(q, k.bfloat16(), v.bfloat16(), None, score=part)
    assert found.dtype == torch.float32
    wanted = attend_cached(q, k.bfloat16().float(), v.bfloat16().float(), None, score=part)
    assert_close(found, wanted)


def test_what_a_row_does_not_hold_cannot_be_felt_even_if_the_score_is_no_number_there():
    """A score of one's own may divide by the length of a key, and unused places of a cache hold zeros."""
    from regard.nn.kernels import attend_cached

    class Undefined(torch.nn.Module):
        def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
            return torch.einsum("qhd,khd->hqk", queries, keys / keys.norm(dim=-1, keepdim=True))

    q, k = torch.randn(2, 4, 8, dtype=torch.float64), torch.randn(2, 4, 5, 8, dtype=torch.float64)
    k[1, :, 3:] = 0.0
    places = torch.tensor([4, 2])
    for bias in (None, AlibiBias(4), RelativeBias(4, causal=True).double()):
        with torch.no_grad():
            found = attend_cached(q, k, k, places, bias=bias, score=Undefined())
            short = attend_cached(q[1:], k[1:, :, :3], k[1:, :, :3], None, bias=bias, score=Undefined())
        assert_close(found[1:], short, **TIGHT)


@SCORED
def test_no_folder_of_another_library_takes_such_a_model(score):
    from regard.deploy.onnx_body import check_config
    from regard.hub.writing import check_body

    config = encoder(body(score), "learned")
    with pytest.raises(ValueError, match=f"attention.score='{score}'"):
        check_config("encoder", config)
    with pytest.raises(ValueError, match=f"attention.score='{score}'"):
        check_body(replace(config, embedding=EmbeddingConfig(scaled=False)))
