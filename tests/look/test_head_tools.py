"""Heads scaled, ranked and taken out."""

import json

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import regard
from regard.config import ConfigError, from_dict, to_dict
from regard.decode import DecodeConfig
from regard.layout import Layout
from regard.look.heads import rank_heads, scaled_heads
from regard.look.measures import accuracy, bleu, pair_likelihood, tag_f1, text_likelihood
from regard.look.parts import each_head
from regard.look.pruning import prune, prune_predictor
from regard.look.tracing import trace
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, Seq2SeqConfig, TagConfig
from regard.settings.network import AttentionConfig, PositionsConfig
from regard.tasks.base.predictor import save
from regard.tasks.base.reading import Reader
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.tasks.pretraining.filler import Filler
from regard.tasks.tagging.tagger import Tagger
from regard.text import Origin, Tagged, Tokenizer, TokenizerConfig
from tests.models.families import BODIES, LONG, MODERN, VOCABULARY, decoder, encoder, seq2seq, transformer
from tests.tasks import copying

TRANSFORMERS = {name: each for name, each in {**BODIES, **LONG}.items() if name.startswith("transformer")}
FAMILIES = pytest.mark.parametrize("family", TRANSFORMERS.values(), ids=TRANSFORMERS)
TIGHT = {"atol": 1e-10, "rtol": 1e-10}
SOURCES, TARGETS = Layout.of([3, 7, 1]), Layout.of([5, 2, 4])


def draw(layout: Layout) -> Tensor:
    return torch.randint(0, VOCABULARY, (layout.tokens,))


def some_heads(model: Seq2Seq) -> list:
    """Other ones in each layer: of shared keys and values a whole group, and never all."""
    attention = model.config.encoder.body.attention
    share = attention.heads // (attention.kv_heads or attention.heads)
    groups = [each for each in each_head(model) if each[2] // share == each[1] % (attention.heads // share)]
    return [each for each in groups if each[:2] != ("decoder", 0)]


@FAMILIES
def test_a_scaled_head_gives_so_many_times_as_much(family):
    """By what is added to the stream: each head's weights times its values, through its part of the output
    matrix."""
    model = Encoder(encoder(*family)).double().eval()
    ids, attention = draw(SOURCES), model.body.each[0].attention
    given: list[Tensor] = []
    attention.register_forward_hook(lambda part, args, output: given.append(output.detach()))
    with trace(model, what=("weights", "values")) as seen:
        model(ids, SOURCES)
    with scaled_heads(model, {("encoder", 0, 1): 0.25, ("encoder", 0, 2): 0.0}):
        model(ids, SOURCES)
    model(ids, SOURCES)
    lost = torch.zeros_like(given[0])
    for head, share in ((1, 0.75), (2, 1.0)):
        own = attention.output.weight[:, head * attention.d_value : (head + 1) * attention.d_value]
        mixed = [
            seen.weights(layer=0, head=head, sequence=s) @ seen.values(layer=0, head=head, sequence=s)
            for s in range(3)
        ]
        lost += share * torch.cat(mixed) @ own.T.detach()
    assert_close(given[1], given[0] - lost, **TIGHT)
    assert torch.equal(given[2], given[0])


def test_steps_and_training_feel_it_too():
    model = Seq2Seq(seq2seq(*TRANSFORMERS["transformer, modern"])).double()
    source, target = draw(SOURCES), torch.randint(0, VOCABULARY, (3, 4))
    factors = {("cross", 1, 0): 0.0, ("decoder", 0, 3): 2.0, ("encoder", 1, 2): 0.5}
    with scaled_heads(model, factors):
        states = model(source, SOURCES, target.flatten(), Layout.of([4] * 3))
        whole = model.decoder.head(states).view(3, 4, -1)
        with torch.no_grad():
            state = model.start(source, SOURCES)
            for step in range(4):
                assert_close(model.step(target[:, step], state), whole[:, step], **TIGHT)
        whole.square().sum().backward()
    asked = model.decoder.body.each[1].cross_attention.project_queries.weight.grad
    assert torch.count_nonzero(asked[:8]) == 0  # a head that is not there learns nothing
    assert torch.count_nonzero(asked[8:]) > 0


@FAMILIES
def test_a_pruned_model_gives_what_the_model_gives_without_these_heads(family):
    model = Seq2Seq(seq2seq(*family)).double().eval()
    source, target, heads = draw(SOURCES), torch.randint(0, VOCABULARY, (3, 4)), some_heads(model)
    smaller = prune(model, heads)
    assert sum(each.numel() for each in smaller.parameters()) < sum(
        each.numel() for each in model.parameters()
    )
    assert len(each_head(smaller)) == len(each_head(model)) - len(heads)
    with scaled_heads(model, dict.fromkeys(heads, 0.0)):
        wanted = model(source, SOURCES, target.flatten(), Layout.of([4] * 3))
    assert_close(smaller(source, SOURCES, target.flatten(), Layout.of([4] * 3)), wanted, **TIGHT)
    scores = model.decoder.head(wanted).view(3, 4, -1)
    with torch.no_grad():
        state = smaller.start(source, SOURCES, capacity=1)
        first = smaller.prefill(target[:, :2].flatten(), Layout.of([2] * 3), state)
        assert_close(first, scores[:, 1], **TIGHT)
        for step in (2, 3):
            assert_close(smaller.step(target[:, step], state), scores[:, step], **TIGHT)
    again = from_dict(Seq2SeqConfig, json.loads(json.dumps(to_dict(smaller.config))))
    assert again == smaller.config
    Seq2Seq(again).double().load_state_dict(smaller.state_dict())


@pytest.mark.parametrize("kind", ["alibi", "relative", "rotary"])
def test_a_pruned_model_can_be_pruned_again(kind):
    """Its heads count anew, but remember which they were: a slope belongs to a head, not to a place."""
    model = Decoder(decoder(transformer(), kind)).double().eval()
    ids = draw(TARGETS)
    once = prune(model, [("decoder", 0, 0), ("decoder", 1, 3)])
    twice = prune(once, [("decoder", 0, 1)])
    assert twice.config.body.kept_heads == ((1, 3), (0, 1, 2))
    gone = [("decoder", 0, 0), ("decoder", 0, 2), ("decoder", 1, 3)]
    with scaled_heads(model, dict.fromkeys(gone, 0.0)):
        wanted = model(ids, TARGETS)
    assert_close(twice(ids, TARGETS), wanted, **TIGHT)


def test_what_cannot_be_pruned_is_told():
    model = Encoder(encoder(MODERN, "rotary"))
    with pytest.raises(ValueError, match=r"heads \[2, 3\] share keys and values, but only \[2\] would stay"):
        prune(model, [("encoder", 1, 3)])
    with pytest.raises(ValueError, match="layer 1 would lose all heads of its self-attention"):
        prune(model, [("encoder", 1, head) for head in range(4)])
    with pytest.raises(ValueError, match="its places are: encoder"):
        prune(model, [("decoder", 0, 0)])
    with pytest.raises(ValueError, match="prune the whole translator"):
        prune(Seq2Seq(seq2seq(*BODIES["transformer, rotary"])).decoder, [])
    for kept, message in [
        (((0,),), "for 1 layers"),
        (((0, 1), ()), "at least one"),
        (((1, 0), (4,)), "in order"),
    ]:
        with pytest.raises(ValueError, match=message):
            transformer(kept_heads=kept)
    with pytest.raises(ConfigError, match="kept_heads"):
        from_dict(type(MODERN), {"kept_heads": [0, 1]})
    assert AttentionConfig(heads=4).only([0, 3], 32) == AttentionConfig(heads=2, d_head=8)


def test_heads_are_ranked_by_what_is_lost_without_them():
    model = Encoder(encoder(*BODIES["transformer, rotary"])).double().eval()
    ids = draw(SOURCES)
    wanted = model(ids, SOURCES).detach()

    def metric() -> float:
        return -float((model(ids, SOURCES).detach() - wanted).square().mean())

    done: list[int] = []
    ranked = rank_heads(model, metric, progress=done.append)
    assert len(done) == len(ranked) == 8
    assert [each.lost for each in ranked] == sorted((each.lost for each in ranked), reverse=True)
    for head, lost in ranked:
        with scaled_heads(model, {head: 0.0}):
            assert lost == -metric()
    assert [each.head for each in rank_heads(model, metric, heads=[ranked[3].head])] == [ranked[3].head]
    with pytest.raises(ValueError, match=r"\(place, layer, head\)"):
        rank_heads(model, metric, heads=[("encoder", 2, 0)])


def test_a_translator_can_be_ranked_pruned_saved_and_loaded(tmp_path):
    translator = copying.translator(decoding=DecodeConfig(method="greedy", maximum=12))
    texts = copying.sentences(12, seed=9999)
    own = [each.text for each in translator.translate(texts)]
    (tmp_path / "own.txt").write_text("".join(f"{text}\n" for text in own), encoding="utf-8")
    good = bleu(translator, texts, tmp_path / "own.txt", decoding=translator.decoding)
    assert good() == pytest.approx(100)
    heads = [("encoder", 0, 1), ("decoder", 1, 2), ("cross", 0, 3)]
    ranked = rank_heads(translator, good, heads=heads)
    assert sorted(each.head for each in ranked) == sorted(heads)
    assert all(0 <= each.lost <= 100 for each in ranked)
    sure = pair_likelihood(translator, texts, own, batch=5)
    assert sure() == pytest.approx(pair_likelihood(translator, texts, own)(), abs=1e-6)
    smaller = prune_predictor(translator, heads)
    with scaled_heads(translator, dict.fromkeys(heads, 0.0)):
        wanted, masked = translator.translate(texts), sure()
    assert pair_likelihood(smaller, texts, own)() == pytest.approx(masked, abs=1e-5)
    save(smaller, tmp_path / "smaller")
    loaded = regard.load(tmp_path / "smaller", device="cpu")
    assert loaded.model.config == smaller.model.config
    assert [each.text for each in loaded.translate(texts)] == [each.text for each in wanted]


def words() -> Tokenizer:
    return Tokenizer.train(["a b c d e f g h"], TokenizerConfig(kind="words", vocabulary=16))


HEADS = {
    Classifier: ClassifyConfig(labels=2),
    Tagger: TagConfig(tags=3),
    Filler: MaskedConfig(),
    Embedder: EmbedConfig(),
}


@pytest.mark.parametrize("kind", HEADS, ids=lambda kind: kind.__name__)
def test_every_reading_task_can_be_pruned_saved_and_loaded(kind, tmp_path):
    own = words()
    config = HeadedConfig(encoder=encoder(transformer(), "rotary"), head=HEADS[kind])
    labels = {Classifier: (["yes", "no"],), Tagger: (["O", "B-X", "I-X"],)}.get(kind, ())
    task = kind(Reader(Headed(config).eval(), own, longest=16), *labels)
    smaller = prune_predictor(task, [("encoder", 1, 2)])
    save(smaller, tmp_path)
    loaded = regard.load(tmp_path, device="cpu")
    assert type(loaded) is kind
    ids, layout = torch.tensor([5, 6, 7]), Layout.of([3])
    with scaled_heads(task, {("encoder", 1, 2): 0.0}):
        wanted = task.reader.model(ids, layout)
    assert_close(loaded.reader.model(ids, layout), wanted)


def test_measures_of_classifiers_and_taggers_are_those_of_their_own_answers():
    reader = Reader(
        Headed(HeadedConfig(encoder=encoder(transformer(), "rotary"), head=HEADS[Classifier])).eval(),
        words(),
        longest=16,
    )
    classifier, texts = Classifier(reader, ["yes", "no"]), ["a b", "c", "d e f", "g h"]
    answers = [each.label for each in classifier.classify(texts)]
    wrong = [{"yes": "no", "no": "yes"}[answers[0]], *answers[1:]]
    assert accuracy(classifier, texts, answers)() == 1.0
    assert accuracy(classifier, texts, wrong)() == 0.75
    with pytest.raises(ValueError, match="'maybe' is no label"):
        accuracy(classifier, ["a"], ["maybe"])
    with pytest.raises(ValueError, match="2 lines beside 1"):
        accuracy(classifier, ["a", "b"], ["yes"])
    model = Headed(HeadedConfig(encoder=encoder(transformer(), "rotary"), head=HEADS[Tagger])).eval()
    tagger = Tagger(Reader(model, words(), longest=16), ["O", "B-X", "I-X"], decode="valid")
    tagged = [Tagged(each.words, each.tags, Origin("a", 1)) for each in tagger.tag(["a b c", "d e", "f g h"])]
    right = any("B-X" in each.tags for each in tagged)
    assert tag_f1(tagger, tagged)() == float(right)


def test_the_likelihood_of_a_text_is_minus_the_log_of_its_perplexity():
    torch.manual_seed(1)
    own = words()
    config = decoder(transformer(), PositionsConfig(kind="rotary"))
    model = Decoder(config).eval()
    generator = Generator(model, own, longest=16)
    ids = torch.tensor(own.encode("a b c d e\nf g h").ids)
    logits = model.head(model(ids, Layout.of([len(ids)]))).log_softmax(dim=1)
    wanted = logits[:-1].gather(1, ids[1:, None]).mean()
    assert text_likelihood(generator, ["a b c d e", "f g h"])() == pytest.approx(wanted.item(), abs=1e-6)


def test_a_pruned_language_model_writes_what_the_model_writes_without_these_heads(tmp_path):
    greedy = DecodeConfig(method="greedy")
    generator = Generator(Decoder(decoder(MODERN, "rotary")).eval(), words(), longest=16, decoding=greedy)
    heads = [("decoder", 0, 0), ("decoder", 0, 1)]
    with scaled_heads(generator, dict.fromkeys(heads, 0.0)):
        (wanted,) = generator.generate("a b c", max_tokens=8)
    save(prune_predictor(generator, heads), tmp_path)
    (found,) = regard.load(tmp_path, device="cpu").generate("a b c", max_tokens=8, decoding=greedy)
    assert (found.text, found.ids, found.finished) == (wanted.text, wanted.ids, wanted.finished)
    assert found.score == pytest.approx(wanted.score, rel=1e-5)  # sums of other lengths
