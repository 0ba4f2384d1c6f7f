"""For every family: packed together = each alone, cached steps = the whole pass, train = eval without
dropout.
"""

import copy
import dataclasses
import pickle

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.nn.masks import Mask
from regard.settings.models import Seq2SeqConfig
from tests.models.families import BODIES, LONG, MODERN, VOCABULARY, decoder, encoder, seq2seq, transformer

FAMILIES = pytest.mark.parametrize("family", [*BODIES.values(), *LONG.values()], ids=[*BODIES, *LONG])
KERNELS = ("equation", "grouped", "padded")
TRAINING = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
TIGHT = {"atol": 1e-10, "rtol": 1e-10}


def draw(layout: Layout) -> Tensor:
    return torch.randint(0, VOCABULARY, (layout.tokens,))


def gradients(output: Tensor, model: torch.nn.Module) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        output.square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True
    )


@pytest.mark.spec("3.3", "3.7")
@FAMILIES
@TRAINING
def test_encoder_packed_together_equals_each_alone(family, training):
    model = Encoder(encoder(*family)).double().train(training)
    layout = Layout.of([3, 7, 7, 1])
    ids = draw(layout)
    together = model(ids, layout)
    alone = torch.cat([model(part, Layout.of([len(part)])) for part in layout.split(ids)])
    assert_close(together, alone, **TIGHT)
    assert_close(gradients(together, model), gradients(alone, model), **TIGHT)


@pytest.mark.spec("3.6")
@FAMILIES
@TRAINING
def test_translator_packed_together_equals_each_alone(family, training):
    model = Seq2Seq(seq2seq(*family)).double().train(training)
    sources, targets = Layout.of([3, 7, 7, 1]), Layout.of([5, 2, 4, 4])
    source, target = draw(sources), draw(targets)
    together = model.decoder.head(model(source, sources, target, targets))
    alone = torch.cat(
        [
            model.decoder.head(model(s, Layout.of([len(s)]), t, Layout.of([len(t)])))
            for s, t in zip(sources.split(source), targets.split(target), strict=True)
        ]
    )
    assert_close(together, alone, **TIGHT)
    assert_close(gradients(together, model), gradients(alone, model), **TIGHT)


@pytest.mark.spec("3.5", "3.6")
@FAMILIES
def test_translator_cached_steps_equal_the_whole_pass(family):
    model = Seq2Seq(seq2seq(*family)).double().eval()
    sources, targets = Layout.of([3, 7, 1]), Layout.of([6, 6, 6])
    source, target = draw(sources), draw(targets)
    whole = model.decoder.head(model(source, sources, target, targets)).view(3, 6, -1)
    state = model.start(source, sources, capacity=2)  # too small on purpose: it grows
    for t in range(6):
        assert_close(model.step(target.view(3, 6)[:, t], state), whole[:, t], **TIGHT)


@pytest.mark.spec("3.5")
@FAMILIES
def test_rows_may_be_repeated_reordered_and_dropped_between_steps(family):
    """As beam search does: two beams for each source, then the second source leaves."""
    model = Seq2Seq(seq2seq(*family)).double().eval()
    sources = Layout.of([3, 7, 1])
    source = draw(sources)
    tokens = torch.randint(0, VOCABULARY, (6, 5))
    state = model.start(source, sources)
    state.select([0, 0, 1, 1, 2, 2])
    model.step(tokens[:, 0], state)
    model.step(tokens[:, 1], state)
    kept, owners = [1, 0, 5], [0, 0, 2]
    state.select(kept)
    assert state.rows == 3
    logits = model.step(tokens[kept, 2], state)
    alone = [
        model.decoder.head(model(s, Layout.of([len(s)]), tokens[row, :3], Layout.of([3])))[-1]
        for row, s in zip(kept, [sources.split(source)[owner] for owner in owners], strict=True)
    ]
    assert_close(logits, torch.stack(alone), **TIGHT)


@pytest.mark.spec("3.5", "3.7")
@FAMILIES
def test_language_model_prefixes_of_different_lengths_then_steps_equal_the_whole_pass(family):
    model = Decoder(decoder(*family)).double().eval()
    prefixes = Layout.of([4, 1, 6])
    ids, following = draw(prefixes), torch.randint(0, VOCABULARY, (3, 3))
    state = model.start(rows=3, capacity=3)
    found = [model.prefill(ids, prefixes, state)]
    found += [model.step(following[:, t], state) for t in range(3)]
    for row, prefix in enumerate(prefixes.split(ids)):
        sentence = torch.cat([prefix, following[row]])
        whole = model.head(model(sentence, Layout.of([len(sentence)])))[len(prefix) - 1 :]
        assert_close(torch.stack([logits[row] for logits in found]), whole, **TIGHT)


@pytest.mark.spec("3.5")
@FAMILIES
def test_a_decoder_cannot_see_the_future(family):
    model = Decoder(decoder(*family)).double().eval()
    layout = Layout.of([8])
    ids = draw(layout)
    before = model(ids, layout)
    ids[5] = (ids[5] + 1) % VOCABULARY
    after = model(ids, layout)
    assert_close(after[:5], before[:5], atol=0, rtol=0)
    assert not torch.allclose(after[5], before[5])


@FAMILIES
def test_the_same_word_gets_another_vector_in_another_context(family):
    model = Encoder(encoder(*family)).double().eval()
    layout = Layout.of([4, 4])
    ids = torch.tensor([1, 5, 3, 4, 7, 5, 9, 8])  # 5 in the second place of both
    states = model(ids, layout)
    assert not torch.allclose(states[1], states[5])


@pytest.mark.parametrize(
    "body",
    [transformer(), MODERN, LONG["transformer, windows and global layers"][0]],
    ids=["classic", "modern", "windows"],
)
@TRAINING
def test_the_choice_of_kernel_does_not_change_a_model(body, training):
    results = []
    for kernel in KERNELS:
        torch.manual_seed(3)
        attention = dataclasses.replace(body.attention, kernel=kernel)
        model = (
            Seq2Seq(seq2seq(dataclasses.replace(body, attention=attention), "rotary"))
            .double()
            .train(training)
        )
        sources, targets = Layout.of([3, 7, 7, 1]), Layout.of([5, 2, 4, 4])
        output = model(draw(sources), sources, draw(targets), targets)
        results.append((output, *gradients(output, model)))
    assert_close(results[1], results[0], **TIGHT)
    assert_close(results[2], results[0], **TIGHT)


def test_encoder_and_decoder_may_be_of_different_kinds_and_widths():
    recurrent, kind = BODIES["lstm, additive"]
    config = Seq2SeqConfig(
        encoder=dataclasses.replace(encoder(recurrent, kind), d_model=24),
        decoder=decoder(transformer(), "sinusoidal"),
        shared=False,
    )
    model = Seq2Seq(config).double().eval()
    sources, targets = Layout.of([3, 7]), Layout.of([4, 4])
    source, target = draw(sources), draw(targets)
    whole = model.decoder.head(model(source, sources, target, targets)).view(2, 4, -1)
    state = model.start(source, sources)
    for t in range(4):
        assert_close(model.step(target.view(2, 4)[:, t], state), whole[:, t], **TIGHT)


def test_a_state_is_prefilled_fresh_and_with_a_prefix_for_each_row():
    model = Decoder(decoder(transformer(), "rotary"))
    state, layout = model.start(rows=2), Layout.of([3])
    with pytest.raises(ValueError, match="1 prefixes, 2 rows"):
        model.prefill(draw(layout), layout, state)
    with pytest.raises(ValueError, match="a prefix is empty"):
        model.prefill(draw(layout), Layout.of([3, 0]), state)


def test_a_state_needs_rows_or_a_memory():
    with pytest.raises(ValueError, match="either rows, or the memory"):
        Decoder(decoder(transformer(), "rotary")).start()


@pytest.mark.spec("3.5")
@FAMILIES
def test_forced_prefixes_of_a_translator_equal_its_steps_also_for_several_beams(family):
    model = Seq2Seq(seq2seq(*family)).double().eval()
    sources = Layout.of([3, 7])
    source, prefixes = draw(sources), Layout.of([2, 4, 3])
    ids = draw(prefixes)
    state = model.start(source, sources)
    state.select([0, 1, 1])  # the second source has two beams
    found = model.prefill(ids, prefixes, state)
    owners = [sources.split(source)[owner] for owner in (0, 1, 1)]
    for row, (s, prefix) in enumerate(zip(owners, prefixes.split(ids), strict=True)):
        alone = model(s, Layout.of([len(s)]), prefix, Layout.of([len(prefix)]))
        assert_close(found[row], model.decoder.head(alone)[-1], **TIGHT)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_a_recurrent_decoder_counts_positions_past_the_first_table(kind):
    body, _ = BODIES["lstm, no attention"]
    model = Decoder(decoder(body, kind)).eval()
    state, token = model.start(rows=1), torch.tensor([1])
    with torch.no_grad():
        for _ in range(64):
            model.step(token, state)
        assert state.longest == 64
        if kind == "learned":
            with pytest.raises(ValueError, match="positions were learned for 64"):
                model.step(token, state)
        else:
            for _ in range(460):
                model.step(token, state)
            assert state.lengths.tolist() == [524]


@FAMILIES
def test_decoding_runs_under_autocast(family):
    model = Seq2Seq(seq2seq(*family)).eval()
    sources = Layout.of([3, 7])
    source, tokens = draw(sources), torch.tensor([1, 2])
    with torch.no_grad():
        exact = model.step(tokens, model.start(source, sources))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            state = model.start(source, sources)
            rough = model.prefill(tokens, Layout.of([1, 1]), state).float()
            model.step(tokens, state)
    assert float((rough - exact).norm() / exact.norm()) < 5e-2


@FAMILIES
def test_a_language_model_reads_under_autocast(family):
    model, layout = Decoder(decoder(*family)).eval(), Layout.of([3, 7])
    ids = draw(layout)
    with torch.no_grad():
        exact = model.head(model(ids, layout))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = model.head(model(ids, layout)).float()
    assert float((rough - exact).norm() / exact.norm()) < 5e-2


def test_any_boolean_mask_reaches_an_encoder():
    model = Encoder(encoder(transformer(), "sinusoidal")).double().eval()
    layout = Layout.of([5])
    ids = draw(layout)
    chosen = torch.ones(1, 5, 5, dtype=torch.bool)
    chosen[:, :, 3] = False  # nobody sees the fourth word
    before = model(ids, layout, mask=Mask(chosen=chosen))
    ids[3] = (ids[3] + 1) % VOCABULARY
    after = model(ids, layout, mask=Mask(chosen=chosen))
    seen = torch.tensor([0, 1, 2, 4])
    assert torch.equal(after[seen], before[seen])
    assert not torch.equal(model(ids, layout)[seen], after[seen])


@FAMILIES
def test_a_model_can_be_copied_and_pickled_with_its_ties(family):
    model = Seq2Seq(seq2seq(*family))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.decoder.head.weight is twin.decoder.embedding.tokens.weight
        assert twin.encoder.embedding.tokens.weight is twin.decoder.embedding.tokens.weight


def test_weights_round_trip_through_safetensors(tmp_path):
    model, other = Seq2Seq(seq2seq(transformer(), "learned")), Seq2Seq(seq2seq(transformer(), "learned"))
    safetensors.torch.save_model(model, tmp_path / "model.safetensors")
    safetensors.torch.load_model(other, tmp_path / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.usefixtures("unchecked")
def test_ids_and_layout_must_agree():
    with pytest.raises(ValueError, match="4 ids but a layout of 3 tokens"):
        Encoder(encoder(transformer(), "none"))(torch.tensor([1, 2, 3, 4]), Layout.of([3]))
