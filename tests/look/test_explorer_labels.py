"""Labels on the page, against classifier and tagger; and attention on words, against plain sums."""

import base64

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.look.explorer.explorer import Explorer, Refused
from regard.look.explorer.labels import asked
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig, TagConfig
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.tagging.tagger import Tagger, log_softmax
from tests.tasks.encoders import toys

TEXT = "sun likes the tree"
TAGS = ("O", "B-X", "I-X")
ROUNDED = 1e-5  # weights travel in 16 bits


def unpacked(text: str) -> torch.Tensor:
    raw = base64.b64decode(text[3:])
    if text.startswith("u2:"):
        return torch.from_numpy(np.frombuffer(raw, "<u2") / 65535).float()
    return torch.from_numpy(np.frombuffer(raw, "<f4").copy())


def classifier(kind: str = "first", problem: str = "single") -> Classifier:
    labels = () if problem == "number" else ("x", "y", "z")
    head = ClassifyConfig(labels=max(1, len(labels)), pool=PoolConfig(kind=kind))
    made = toys.model(head, len(toys.subwords())).eval()
    return Classifier(toys.reader(made, own=toys.subwords()), labels, problem)


def tagger() -> Tagger:
    made = toys.model(TagConfig(tags=3), len(toys.subwords())).eval()
    return Tagger(toys.reader(made, own=toys.subwords()), TAGS)


def on_words(explorer: Explorer, row: torch.Tensor) -> list[float]:
    """What falls on each word, and on each special token."""
    owners = explorer.traced(TEXT).read.owners
    found: dict[object, float] = {}
    for place, (owner, weight) in enumerate(zip(owners, row.tolist(), strict=True)):
        key = ("special", place) if owner is None else owner
        found[key] = found.get(key, 0.0) + weight
    return [*found.values()]


@pytest.mark.parametrize("problem", ["single", "multi", "number"])
def test_labels_are_those_of_the_classifier(problem):
    task = classifier(problem=problem)
    answer = Explorer(task).ask("label", {"text": TEXT, "second": "old river"})
    wanted = task.classify(TEXT, "old river")
    assert (answer["label"], answer["labels"], answer["value"]) == (
        wanted.label,
        list(wanted.labels),
        wanted.value,
    )
    assert answer["chances"] == [[name, chance] for name, chance in wanted.probabilities.items()]


@pytest.mark.parametrize(
    ("kind", "of"), [("first", "first"), ("last", "last"), ("mean", "all"), ("max", "all")]
)
def test_attention_is_that_of_what_the_head_reads_from(kind, of):
    explorer = Explorer(classifier(kind))
    answer = explorer.ask("label", {"text": TEXT})
    assert answer["units"] == ["[CLS]", *TEXT.split(), "[SEP]"]
    assert answer["special"] == [True, False, False, False, False, True]
    assert [(look["name"], look["of"]) for look in answer["looks"]] == [("layer 1", of), ("layer 2", of)]
    for layer, look in enumerate(answer["looks"]):
        weights = explorer.traced(TEXT).trace.weights(layer=layer).mean(dim=0)
        row = {"first": weights[0], "last": weights[-1], "all": weights.mean(dim=0)}[of]
        assert_close(unpacked(look["weights"]).tolist(), on_words(explorer, row), atol=ROUNDED, rtol=0)


def test_a_pool_that_attends_shows_its_own_weights_first():
    explorer = Explorer(classifier("attention"))
    looks = explorer.ask("label", {"text": TEXT})["looks"]
    assert [look["of"] for look in looks] == ["pool", "all", "all"]
    row = explorer.traced(TEXT).trace.weights("pool", layer=0)[0, 0]
    assert_close(unpacked(looks[0]["weights"]).tolist(), on_words(explorer, row), atol=ROUNDED, rtol=0)


def test_tags_are_those_of_the_tagger():
    task = tagger()
    answer = Explorer(task).ask("label", {"text": TEXT})
    wanted = task.tag(TEXT)
    assert answer["words"] == TEXT.split()
    assert (tuple(answer["tags"]), tuple(answer["chances"])) == (wanted.tags, wanted.probabilities)
    assert answer["spans"] == [[span.label, span.start, span.end] for span in wanted.spans]
    every = np.exp(log_softmax(task.scores([TEXT.split()])[0]))
    assert_close(unpacked(answer["every"]).reshape(4, 3), torch.from_numpy(every).float())


def test_a_tagged_word_attends_by_the_mean_of_its_tokens():
    explorer = Explorer(tagger())
    read = explorer.traced(TEXT).read
    assert len(read) > 6  # some words have several
    for word in range(4):
        answer = explorer.ask("word_attention", {"text": TEXT, "word": word})
        own = [place for place, owner in enumerate(read.owners) if owner == word]
        found = unpacked(answer["weights"]).reshape(answer["layers"], -1)
        for layer, weights in enumerate(found):
            rows = explorer.traced(TEXT).trace.weights(layer=layer).mean(dim=0)[own]
            assert_close(weights.tolist(), on_words(explorer, rows.mean(dim=0)), atol=ROUNDED, rtol=0)
    with pytest.raises(Refused, match="words go from 0 to 3"):
        explorer.ask("word_attention", {"text": TEXT, "word": 4})


def test_a_word_that_leaves_no_token_has_no_probability():
    answer = Explorer(tagger()).ask("label", {"text": "sun \u200d tree"})
    assert len(answer["chances"]) == len(answer["words"])
    assert torch.isfinite(unpacked(answer["every"])).all()


def test_a_saved_page_has_the_attention_of_every_word():
    explorer = Explorer(tagger())
    questions = [*asked(explorer, TEXT, None, None)]
    assert [name for name, _ in questions] == ["label", *["word_attention"] * 4]
    assert [*asked(Explorer(classifier()), TEXT, "tree", None)] == [
        ("label", {"text": TEXT, "second": "tree"})
    ]


def test_what_gives_no_labels_is_refused():
    embedder = Explorer(Embedder(toys.reader(toys.model(EmbedConfig()))))
    assert [*asked(embedder, TEXT, None, None)] == []
    for question in ({"text": TEXT}, {"text": TEXT, "word": 0}):
        with pytest.raises(Refused, match="look at a"):
            embedder.ask("word_attention" if "word" in question else "label", question)
