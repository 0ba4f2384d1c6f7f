"""Each family learns to reverse a sentence, within seconds: the whole machine turns."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layout import Layout
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.heads import ClassifyHead, TagHead
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import ClassifyConfig, PoolConfig, TagConfig
from regard.settings.network import RecurrentConfig
from tests.models.families import BODIES, D_MODEL, VOCABULARY, decoder, encoder, seq2seq

START, END, FIRST = 0, 1, 2
Sentences = list[Tensor]
pytestmark = pytest.mark.usefixtures("unchecked")


def families(*names: str) -> pytest.MarkDecorator:
    """All learn to reverse, which is harder than to copy; the first one is the short proof."""
    first, *rest = [*((name, "reverse") for name in names), (names[0], "copy")]
    long = [pytest.param(*each, marks=pytest.mark.long) for each in rest]
    return pytest.mark.parametrize(("family", "task"), [first, *long])


def sentences(count: int, shortest: int = 2, longest: int = 6) -> Sentences:
    lengths = torch.randint(shortest, longest + 1, (count,)).tolist()
    return [torch.randint(FIRST, VOCABULARY, (length,)) for length in lengths]


def answer(task: str, sentence: Tensor) -> Tensor:
    return sentence if task == "copy" else sentence.flip(0)


def ended(batch: Sentences) -> Sentences:
    """With an end mark, as a translator's sources have: relative positions need something to start from."""
    return [F.pad(sentence, (0, 1), value=END) for sentence in batch]


def join(parts: Sentences) -> tuple[Tensor, Layout]:
    return torch.cat(parts), Layout.of([len(part) for part in parts])


def train(model: nn.Module, loss, *, steps: int, rate: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(sentences(64)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def greedy(logits: Tensor, step, state, most: int = 12) -> list[list[int]]:
    """The best token of each row, until its end."""
    rows, found = range(len(logits)), [[] for _ in logits]
    open_rows = set(rows)
    for _ in range(most):
        tokens = logits.argmax(dim=-1)
        for row in list(open_rows):
            if int(tokens[row]) == END:
                open_rows.remove(row)
            else:
                found[row].append(int(tokens[row]))
        if not open_rows:
            break
        logits = step(tokens, state)
    return found


def accuracy(found: list[list[int]], wanted: Sentences) -> float:
    return sum(f == w.tolist() for f, w in zip(found, wanted, strict=True)) / len(wanted)


@pytest.mark.spec("3.6", "4.2")
@families("transformer, sinusoidal", "lstm, additive", "transformer, modern", "gru, dot")
def test_translators_learn(task, family):
    model = Seq2Seq(seq2seq(*BODIES[family]))

    def loss(batch: Sentences) -> Tensor:
        source, sources = join(ended(batch))
        targets = [answer(task, sentence) for sentence in batch]
        inputs, layout = join([F.pad(target, (1, 0), value=START) for target in targets])
        labels, _ = join(ended(targets))
        return F.cross_entropy(model.decoder.head(model(source, sources, inputs, layout)), labels)

    train(model, loss, steps=500, rate=5e-3)
    batch = sentences(100)
    state = model.start(*join(ended(batch)))
    with torch.no_grad():
        found = greedy(model.step(torch.full((100,), START), state), model.step, state)
    assert accuracy(found, [answer(task, sentence) for sentence in batch]) >= 0.95


@pytest.mark.spec("3.7")
@families("lstm, no attention", "transformer, modern", "transformer, sinusoidal")
def test_language_models_learn(task, family):
    """The sentence, a start mark, the answer, an end mark: the answer is predicted."""
    model = Decoder(decoder(*BODIES[family]))
    short = 3 if family.startswith("lstm") else 6  # one state must carry the whole sentence

    def loss(batch: Sentences) -> Tensor:
        batch = [sentence[:short] for sentence in batch]
        texts = [torch.cat([s, torch.tensor([START]), answer(task, s), torch.tensor([END])]) for s in batch]
        ids, layout = join([text[:-1] for text in texts])
        labels = torch.cat([text[1:] for text in texts])
        predicted = torch.cat([torch.arange(len(s) * 2 + 1) >= len(s) for s in batch])
        return F.cross_entropy(model.head(model(ids, layout)[predicted]), labels[predicted])

    train(model, loss, steps=900, rate=5e-3)
    batch = [sentence[:short] for sentence in sentences(100)]
    prompts, layout = join([F.pad(sentence, (0, 1), value=START) for sentence in batch])
    state = model.start(rows=100)
    with torch.no_grad():
        found = greedy(model.prefill(prompts, layout, state), model.step, state)
    assert accuracy(found, [answer(task, sentence) for sentence in batch]) >= 0.95


@pytest.mark.spec("3.7", "4.1")
@families("transformer, sinusoidal", "lstm, no attention")
def test_taggers_learn(task, family):
    """Each token's tag is the token that stands there in the answer. To mirror itself a sentence must know
    where it ends, so all of these have three words."""
    body = nn.ModuleDict(
        {
            "encoder": Encoder(encoder(*BODIES[family])),
            "head": TagHead(D_MODEL, TagConfig(tags=VOCABULARY, dropout=0.0)),
        }
    )

    def tags(batch: Sentences) -> tuple[Tensor, Tensor]:
        ids, layout = join(batch)
        labels = torch.cat([answer(task, sentence) for sentence in batch])
        return body["head"](body["encoder"](ids, layout)), labels

    def of_three(batch: Sentences) -> Sentences:
        return [torch.randint(FIRST, VOCABULARY, (3,)) for _ in batch]

    train(body, lambda batch: F.cross_entropy(*tags(of_three(batch))), steps=900, rate=5e-3)
    with torch.no_grad():
        scores, labels = tags(of_three(sentences(100)))
    assert float((scores.argmax(-1) == labels).float().mean()) >= 0.95


@pytest.mark.spec("4.1", "2.5")
@pytest.mark.parametrize(
    "pool",
    [PoolConfig(kind="ends"), PoolConfig(kind="attention"), PoolConfig(kind="attention", query="fixed")],
    ids=["last states", "trained query", "fixed query"],
)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_recurrent_classifiers_learn(cell, pool):
    """Whether a word occurs in the sentence, wherever it stands."""
    body = RecurrentConfig(cell=cell, layers=1, dropout=0.0)
    head = ClassifyHead(D_MODEL, ClassifyConfig(pool=pool, dropout=0.0))
    model = nn.ModuleDict({"encoder": Encoder(encoder(body, "none")), "head": head})

    def scores(batch: Sentences) -> tuple[Tensor, Tensor]:
        ids, layout = join(batch)
        labels = torch.tensor([int((sentence < FIRST + 3).any()) for sentence in batch])
        return model["head"](model["encoder"](ids, layout), layout), labels

    train(model, lambda batch: F.cross_entropy(*scores(batch)), steps=150, rate=1e-2)
    with torch.no_grad():
        found, labels = scores(sentences(300))
    assert 0.2 < float(labels.float().mean()) < 0.8
    assert float((found.argmax(-1) == labels).float().mean()) >= 0.97
