"""Looking while a model works: what is seen is what was used, and nothing changes."""

import copy
import threading

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.layout import Layout
from regard.look.parts import Parts
from regard.look.tracing import trace
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.nn.attention import weigh
from regard.nn.masks import Mask
from regard.nn.multihead import CrossAttention, SelfAttention
from regard.nn.recurrent import RecurrentEncoder
from regard.settings.models import ClassifyConfig, MaskedConfig, PoolConfig
from tests.models.families import BODIES, LONG, MODERN, VOCABULARY, decoder, encoder, seq2seq, transformer

EVERY = {**BODIES, **LONG}
FAMILIES = pytest.mark.parametrize("family", EVERY.values(), ids=EVERY)
ATTENDING = {name: family for name, family in EVERY.items() if name != "lstm, no attention"}
ATTENDS = pytest.mark.parametrize("family", ATTENDING.values(), ids=ATTENDING)
TIGHT = {"atol": 1e-10, "rtol": 1e-10}
SOURCES, TARGETS = Layout.of([3, 7, 1]), Layout.of([5, 2, 4])
ALL = ("weights", "scores", "queries", "keys", "values", "stream", "norms", "logits", "inputs")


def draw(layout: Layout) -> Tensor:
    return torch.randint(0, VOCABULARY, (layout.tokens,))


def translator(family) -> Seq2Seq:
    return Seq2Seq(seq2seq(*family)).double().eval()


def heard(part: nn.Module) -> list[str]:
    """What was added to a model to listen."""
    hooks = [name for name, each in part.named_modules() if each._forward_hooks or each._forward_pre_hooks]
    wraps = [name for name, each in part.named_modules() if {"forward", "attend", "step"} & vars(each).keys()]
    return hooks + wraps


@FAMILIES
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_the_output_is_the_same_to_the_bit_and_nothing_stays_behind(family, training):
    model = Seq2Seq(seq2seq(*family)).train(training)
    source, target = draw(SOURCES), draw(TARGETS)
    plain = model(source, SOURCES, target, TARGETS)
    with trace(model, what=ALL):
        assert heard(model)
        seen = model(source, SOURCES, target, TARGETS)
    assert torch.equal(plain, seen)
    assert plain.requires_grad == seen.requires_grad
    assert heard(model) == []


def test_nothing_stays_behind_after_an_error():
    model = translator(BODIES["transformer, rotary"])
    with pytest.raises(RuntimeError, match="in the middle"), trace(model, what=ALL):
        raise RuntimeError("in the middle")
    assert heard(model) == []


@pytest.mark.spec("2.10")
@ATTENDS
def test_weights_times_values_through_the_output_matrix_are_what_attention_gave(family):
    """For self-, causal and cross-attention of every family, recurrent ones too."""
    model = translator(family)
    outputs: dict[str, Tensor] = {}
    parts = Parts.of(model)
    for place, layers in parts.attentions.items():
        for layer, attention in enumerate(layers):
            attention.register_forward_hook(
                lambda part, args, output, key=(place, layer): outputs.__setitem__(key, output.detach())
            )
    with trace(model, what=("weights", "values")) as seen:
        model(draw(SOURCES), SOURCES, draw(TARGETS), TARGETS)
    assert set(seen.places) == set(parts.attentions)
    for (place, layer), output in outputs.items():
        layout = SOURCES if place == "encoder" else TARGETS
        attention = parts.attentions[place][layer]
        for sequence, wanted in enumerate(layout.split(output)):
            weights = seen.weights(place, layer=layer, sequence=sequence)
            assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2], dtype=torch.float64))
            mixed = weights @ seen.values(place, layer=layer, sequence=sequence)
            if isinstance(attention, SelfAttention | CrossAttention):
                found = attention.output(mixed.transpose(0, 1).flatten(1))
            else:
                found = mixed.squeeze(0)
            assert_close(found, wanted, **TIGHT)


@pytest.mark.spec("2.10")
@FAMILIES
def test_weights_are_those_of_the_equation(family):
    model = Encoder(encoder(*family)).double().eval()
    if "encoder" not in Parts.of(model).attentions:
        assert isinstance(model.body, RecurrentEncoder)
        pytest.skip("nothing attends in a recurrent encoder")
    x, layout = draw(SOURCES), SOURCES
    with trace(model, what=("weights", "scores", "queries", "keys", "stream", "inputs")) as seen:
        model(x, layout)
    for number, layer in enumerate(model.body.each):
        before = [
            seen.inputs(sequence=s) if number == 0 else seen.stream(layer=number - 1, sequence=s)
            for s in range(3)
        ]
        stream = torch.cat(before)
        stream = layer.attention_residual.norm(stream) if layer.attention_residual.place == "pre" else stream
        wanted = layer.attention.weights(stream, layout, model.body.masks[number])
        for sequence in range(3):
            assert_close(seen.weights(layer=number, sequence=sequence), wanted[sequence], **TIGHT)
            scores = seen.scores(layer=number, sequence=sequence)
            visible = model.body.masks[number].visible(*scores.shape[1:])
            assert_close(weigh(scores, visible.expand_as(scores)), wanted[sequence], **TIGHT)
            if layer.attention.bias is None:
                q, k = (getattr(seen, name)(layer=number, sequence=sequence) for name in ("queries", "keys"))
                assert_close(q @ k.transpose(1, 2) / layer.attention.d_head**0.5, scores, **TIGHT)


@pytest.mark.spec("2.10")
@ATTENDS
def test_cached_steps_show_the_rows_of_the_whole_pass(family):
    """Also where rows were repeated, reordered and dropped, as a beam does."""
    model = translator(family)
    source, tokens = draw(SOURCES), torch.randint(0, VOCABULARY, (6, 4))
    with trace(model, what=("weights", "values")) as seen, torch.no_grad():
        state = model.start(source, SOURCES, capacity=2)
        state.select([0, 0, 1, 1, 2, 2])
        model.prefill(tokens[:, :2].flatten(), Layout.of([2] * 6), state)
        model.step(tokens[:, 2], state)
        kept, owners = [1, 0, 5], [0, 0, 2]
        state.select(kept)
        model.step(tokens[kept, 3], state)
    assert len(seen.passes) == 3
    with trace(model, what=("weights", "values")) as whole:
        chosen = [SOURCES.split(source)[owner] for owner in owners]
        layout = Layout.of([len(each) for each in chosen])
        model(torch.cat(chosen), layout, tokens[kept].flatten(), Layout.of([4] * 3))
    for place in set(whole.places) - {"encoder"}:
        for layer in whole.layers(place):
            for row in range(3):
                wanted = whole.weights(place, layer=layer, sequence=row)
                found = seen.weights(place, layer=layer, sequence=row)
                assert_close(found, wanted[:, 3:], **TIGHT)
                middle = seen.passes[1].weights(place, layer=layer, sequence=kept[row])
                assert_close(middle, wanted[:, 2:3, : middle.shape[2]], **TIGHT)
                first = seen.passes[0].weights(place, layer=layer, sequence=kept[row])
                assert_close(first, wanted[:, :2, : first.shape[2]], **TIGHT)
                values = seen.values(place, layer=layer, sequence=row)
                assert_close(values, whole.values(place, layer=layer, sequence=row), **TIGHT)


@FAMILIES
def test_the_stream_is_what_the_layers_made(family):
    model = Encoder(encoder(*family)).double().eval()
    ids = draw(SOURCES)
    wanted = model.layers(ids, SOURCES)
    final = getattr(model.body, "final_norm", None)
    with trace(model, what=("stream", "norms", "inputs")) as seen:
        model(ids, SOURCES)
    depth = Parts.of(model).depth("encoder")
    for sequence in range(3):
        assert_close(seen.inputs(sequence=sequence), SOURCES.split(wanted[0])[sequence], **TIGHT)
        states = [seen.stream(layer=layer, sequence=sequence) for layer in range(depth)]
        lengths = [each.norm(dim=1) for each in (seen.inputs(sequence=sequence), *states)]
        assert_close(seen.norms(sequence=sequence), torch.stack(lengths), **TIGHT)
        if final is not None:
            states[-1] = final(states[-1])
        for state, own in zip(states, wanted[1:], strict=True):
            assert_close(state, SOURCES.split(own)[sequence], **TIGHT)


@FAMILIES
def test_the_logit_lens_ends_at_the_models_own_scores(family):
    model = Decoder(decoder(*family)).double().eval()
    ids = draw(TARGETS)
    with trace(model, what="logits") as seen:
        states = model(ids, TARGETS)
    for sequence, wanted in enumerate(TARGETS.split(model.head(states))):
        assert_close(seen.logits(sequence=sequence), wanted, **TIGHT)
    if Parts.of(model).depth("decoder") > 1:
        assert not torch.allclose(seen.logits(layer=0), TARGETS.split(model.head(states))[0])


def test_a_masked_language_model_has_a_lens_too():
    model = Headed(HeadedConfig(encoder=encoder(*BODIES["transformer, alibi"]), head=MaskedConfig())).eval()
    ids = draw(SOURCES)
    with trace(model, what="logits") as seen:
        scores = model(ids, SOURCES)
    assert_close(seen.logits(sequence=1), SOURCES.split(scores)[1])


def test_a_pool_that_attends_is_seen():
    head = ClassifyConfig(pool=PoolConfig(kind="attention"))
    model = Headed(HeadedConfig(encoder=encoder(*BODIES["transformer, learned"]), head=head)).double().eval()
    ids = draw(SOURCES)
    with trace(model) as seen:
        model(ids, SOURCES)
    pool = model.head.pool.attention
    states = SOURCES.split(model.states(ids, SOURCES))[1]
    wanted = (states @ pool.query / 32**0.5).softmax(dim=0)
    assert_close(seen.weights("pool", sequence=1), wanted[None, None], **TIGHT)


@pytest.mark.parametrize("body", [transformer(), MODERN], ids=["plain", "shared keys"])
def test_only_the_layers_and_heads_asked_for_are_kept(body):
    model = Encoder(encoder(body, "rotary")).double().eval()
    ids = draw(SOURCES)
    with trace(model) as whole:
        model(ids, SOURCES)
    with trace(model, layers=[-1], heads=[1, 3]) as seen:
        model(ids, SOURCES)
    assert seen.layers() == [1]
    assert torch.equal(seen.weights(sequence=1), whole.weights(sequence=1)[[1, 3]])
    assert torch.equal(seen.weights(layer=1, head=3), whole.weights(layer=1, head=3))
    kept = seen.shown.runs["encoder"].attended["encoder", 1]
    assert kept.keys[1].shape == (7, 2, 8)
    assert kept.values is None
    for wrong in ({"layer": 0}, {"layer": 2}, {"head": 0}, {"sequence": 3}):
        with pytest.raises(ValueError, match=r"was not looked at|where there are"):
            seen.weights(**wrong)
    with pytest.raises(ValueError, match="stream were not asked for"):
        seen.stream()


def test_what_cannot_be_looked_at_is_told_before_the_pass():
    model = Encoder(encoder(*BODIES["transformer, rotary"]))
    cases = [
        ({"what": "wieghts"}, "choose from weights"),
        ({"what": ()}, "what is empty"),
        ({"what": "logits"}, "scores no vocabulary"),
        ({"layers": [2]}, "count from 0"),
        ({"heads": [4]}, "count from 0"),
        ({"places": ["cross"]}, "it does in: encoder"),
    ]
    for settings, message in cases:
        with pytest.raises(ValueError, match=message), trace(model, **settings):
            pass
    with pytest.raises(TypeError, match="cannot be looked into"), trace(nn.Linear(2, 2)):
        pass
    with trace(model) as seen, pytest.raises(ValueError, match="nothing was seen yet"):
        seen.weights()


def test_a_mask_of_ones_own_is_seen():
    model = Encoder(encoder(*BODIES["transformer, relative"])).double().eval()
    chosen = torch.rand(3, 7, 7) < 0.5
    with trace(model) as seen:
        model(draw(SOURCES), SOURCES, mask=Mask(chosen=chosen))
    weights = seen.weights(layer=0, sequence=1)
    assert torch.equal(weights > 0, chosen[1].expand_as(weights))


def test_traces_inside_each_other_both_see():
    model = Encoder(encoder(*BODIES["transformer, rotary"]))
    with trace(model) as outer:
        with trace(model, layers=[0]) as inner:
            model(draw(SOURCES), SOURCES)
        model(draw(TARGETS), TARGETS)
    assert [len(outer.passes), len(inner.passes)] == [2, 1]
    assert torch.equal(outer.passes[0].weights(layer=0), inner.weights(layer=0))
    assert heard(model) == []


def test_a_copy_made_inside_works_with_its_own_weights_and_falls_silent():
    model = Encoder(encoder(*BODIES["transformer, rotary"])).eval()
    ids = draw(SOURCES)
    with trace(model) as seen:
        other = copy.deepcopy(model)
        for parameter in other.parameters():
            parameter.data.mul_(2)
    clean = Encoder(model.config).eval()
    clean.load_state_dict(other.state_dict())
    assert torch.equal(other(ids, SOURCES), clean(ids, SOURCES))
    assert seen.passes == []


def test_threads_have_passes_of_their_own():
    model = Encoder(encoder(*BODIES["transformer, rotary"])).double().eval()
    layouts = [Layout.of([length] * 5) for length in range(2, 10)]
    batches = [draw(layout) for layout in layouts]
    with trace(model) as seen:
        workers = [threading.Thread(target=model, args=pair) for pair in zip(batches, layouts, strict=True)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(seen.passes) == 8
    found = {len(each.ids()): each for each in seen.passes}
    for ids, layout in zip(batches, layouts, strict=True):
        with trace(model) as alone:
            model(ids, layout)
        assert torch.equal(found[layout.longest].weights(sequence=4), alone.weights(sequence=4))


def test_weights_are_of_the_pass_even_if_the_model_changes_after_it():
    model = Encoder(encoder(*BODIES["transformer, relative"])).eval()
    with trace(model) as seen:
        model(draw(SOURCES), SOURCES)
    before = seen.weights(sequence=1)
    for parameter in model.parameters():
        parameter.data.zero_()
    assert torch.equal(seen.weights(sequence=1), before)


def test_names_of_arguments_may_be_given():
    model = Encoder(encoder(*BODIES["transformer, rotary"]))
    with trace(model) as seen:
        model(ids=draw(SOURCES), layout=SOURCES)
    assert seen.sequences() == 3
