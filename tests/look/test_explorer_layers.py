"""What each layer would predict, as the page is told, against the model itself."""

import base64

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.look.explorer.explorer import Explorer, Refused
from regard.look.explorer.layers import LISTED, PAGE, asked
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, PoolConfig, TagConfig
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.language.generator import Generator
from regard.tasks.pretraining.filler import Filler
from regard.tasks.tagging.tagger import Tagger
from tests.tasks import copying
from tests.tasks.encoders import toys
from tests.tasks.language import scripted

TEXT = "sun likes old tree rain sees red house"


def unpacked(text: str, *shape: int) -> torch.Tensor:
    assert text.startswith("f4:")
    return torch.from_numpy(np.frombuffer(base64.b64decode(text[3:]), "<f4").copy()).reshape(shape)


def tables(answer) -> tuple[list[list[list[str]]], torch.Tensor, torch.Tensor]:
    """Candidates by name, their shares, and the shares of the right ones."""
    named = [[[answer["names"][number] for number in place] for place in layer] for layer in answer["best"]]
    layers, places, listed = len(named), len(named[0]), len(named[0][0])
    shares = unpacked(answer["shares"], layers, places, listed)
    return named, shares, unpacked(answer["right_shares"], layers, places)


def reader(head, **settings):
    return toys.reader(toys.model(head, len(toys.tokenizer())).eval(), **settings)


def test_the_last_layer_of_a_language_model_predicts_what_the_model_does():
    torch.manual_seed(0)
    generator = scripted.generator()
    explorer = Explorer(generator)
    text = "The cat sat on the mat."
    seen = explorer.traced(text).trace
    named, shares, rights = tables(answer := explorer.ask("layers", {"text": text}))
    assert answer["how"] == "next"
    assert len(named) == 2  # the embedding, and one layer
    own = seen.logits(layer=-1).softmax(dim=-1)
    best = own.topk(LISTED)
    assert_close(shares[-1], best.values)
    spelled = generator.tokenizer.token
    assert named[-1] == [[spelled(id) for id in place] for place in best.indices.tolist()]
    ids = seen.ids()
    assert answer["rights"] == [*map(spelled, ids[1:]), None]
    for place, id in enumerate(ids[1:]):
        assert_close(rights[-1, place], own[place, id])
        assert answer["ranks"][-1][place] == 1 + sum(other > own[place, id] for other in own[place])
    assert answer["ranks"][-1][-1] == 0


def test_the_embedding_goes_through_the_final_norm_and_the_head_like_any_layer():
    torch.manual_seed(0)
    generator = scripted.generator()
    explorer = Explorer(generator)
    model, seen = generator.model, explorer.traced("The old tree").trace
    _, shares, _ = tables(explorer.ask("layers", {"text": "The old tree"}))
    with torch.no_grad():
        wanted = model.head(model.body.final_norm(seen.inputs())).softmax(dim=-1)
    assert_close(shares[0], wanted.topk(LISTED).values)


def test_the_right_answer_of_a_translators_decoder_is_what_was_written():
    explorer = Explorer(copying.translator())
    answer = explorer.ask("layers", {"text": "silver bridge"})
    assert (answer["side"], answer["sides"]) == ("decoder", ["decoder", "encoder"])
    assert tuple(answer["rights"]) == explorer.traced("silver bridge").written.tokens
    ids = [*explorer.traced("silver bridge").trace.ids("decoder")[1:], explorer.tokenizer.require("end")]
    scores = explorer.traced("silver bridge").trace.logits("decoder")
    ranks = [1 + int((row > row[id]).sum()) for row, id in zip(scores, ids, strict=True)]
    assert answer["ranks"][-1] == ranks


@pytest.mark.parametrize("made", ["encoder of a translator", "embedder"])
def test_without_a_head_for_tokens_the_nearest_embeddings_are_named(made):
    if made == "embedder":
        explorer, text = Explorer(Embedder(reader(EmbedConfig()))), TEXT
    else:
        explorer, text = Explorer(copying.translator()), "silver bridge"
    answer = explorer.ask("layers", {"text": text, "side": "encoder"})
    named, shares, _ = tables(answer)
    assert answer["how"] == "nearest"
    seen, table = explorer.traced(text).trace, explorer.parts.encoder.embedding.tokens.weight.detach()
    known = sorted(explorer.tokenizer.vocabulary.values())
    for place, state in enumerate(seen.stream("encoder", layer=0)):
        cosines = {id: float(torch.cosine_similarity(state, table[id], dim=0)) for id in known}
        best = sorted(known, key=lambda id: -cosines[id])[:LISTED]
        assert named[1][place] == [explorer.tokenizer.token(id) for id in best]
        assert_close(shares[1, place].tolist(), [cosines[id] for id in best], atol=1e-5, rtol=0)
    assert answer["rights"] == list(explorer.traced(text).read.tokens)


def test_of_a_mask_nobody_knows_what_stands_there():
    explorer = Explorer(Filler(reader(MaskedConfig())))
    answer = explorer.ask("layers", {"text": "sun [MASK] tree"})
    assert answer["how"] == "masked"
    assert answer["rights"] == ["[CLS]", "sun", None, "tree", "[SEP]"]
    _, shares, _ = tables(answer)
    own = explorer.traced("sun [MASK] tree").trace.logits().softmax(dim=-1)
    assert_close(shares[-1], own.topk(LISTED).values)


def test_the_last_layer_of_a_tagger_gives_the_tags_of_the_tokens():
    task = Tagger(reader(TagConfig(tags=3)), ("A", "B", "C"))
    named, shares, _ = tables(answer := Explorer(task).ask("layers", {"text": TEXT}))
    assert answer["how"] == "tags"
    [tagged] = task.tag([TEXT.split()])  # of one token each
    assert [place[0] for place in named[-1][1:-1]] == list(tagged.tags)
    assert_close(shares[-1, 1:-1, 0].tolist(), list(tagged.probabilities), atol=1e-5, rtol=0)


@pytest.mark.parametrize("problem", ["single", "multi", "number"])
def test_the_last_layer_of_a_classifier_says_what_the_classifier_does(problem):
    labels = () if problem == "number" else ("x", "y", "z")
    head = ClassifyConfig(labels=max(1, len(labels)), pool=PoolConfig(kind="mean"))
    task = Classifier(reader(head), labels, problem)
    named, shares, _ = tables(answer := Explorer(task).ask("layers", {"text": TEXT}))
    found = task.classify(TEXT)
    assert (len(named), answer["count"]) == (3, 1)
    assert_close(float(shares[-1, 0, 0]), found.value, atol=1e-5, rtol=0)
    assert named[-1][0] == ([""] if problem == "number" else [*found.probabilities])


def test_a_long_text_comes_in_pages():
    torch.manual_seed(0)
    explorer = Explorer(scripted.generator(positions="sinusoidal"))
    text = "The cat sat on the mat. " * 130
    count = len(explorer.traced(text).read)
    assert count > 1000
    first = explorer.ask("layers", {"text": text})
    assert (len(first["tokens"]), first["count"]) == (PAGE, count)
    third = explorer.ask("layers", {"text": text, "start": 2 * PAGE})
    own = explorer.traced(text).trace.logits()[2 * PAGE : 3 * PAGE].softmax(dim=-1)
    assert_close(tables(third)[1][-1], own.topk(LISTED).values)
    questions = [given for _, given in asked(explorer, text, None, None)]
    assert [given["start"] for given in questions] == [*range(0, count, PAGE)]
    with pytest.raises(Refused, match=f"from 0 to {count - 1}"):
        explorer.ask("layers", {"text": text, "start": count})


def test_rows_that_stand_for_no_token_have_a_number():
    torch.manual_seed(0)
    tokenizer = scripted.tokens()
    model = scripted.model(len(tokenizer) + 3)
    model.head.bias.data[-1] += 100.0
    named, _, _ = tables(Explorer(Generator(model, tokenizer)).ask("layers", {"text": "The cat"}))
    assert named[-1][0][0] == f"#{len(tokenizer) + 2}"


def test_a_side_that_is_not_there_is_refused():
    with pytest.raises(Refused, match="no decoder"):
        Explorer(Embedder(reader(EmbedConfig()))).ask("layers", {"text": TEXT, "side": "decoder"})
