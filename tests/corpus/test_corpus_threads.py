"""What becomes of a text is the same for any number of threads, so for any number of workers: batches are cut
otherwise, and torch's products of few rows round otherwise than those of many."""

import numpy as np
import pytest
import torch

from regard.data import pack_flat
from regard.machine.tiny import LABELS
from regard.models.headed import Headed, HeadedConfig
from regard.nn import native
from regard.settings.models import (
    ClassifyConfig,
    EmbedConfig,
    EncoderConfig,
    PoolConfig,
    SpanConfig,
    TagConfig,
    TransformConfig,
)
from regard.settings.network import RecurrentConfig
from regard.tasks.base.faster import thread_count
from regard.tasks.base.reading import Reader
from regard.tasks.registry import get_task
from regard.text.phrasebook import phrases

pytestmark = pytest.mark.skipif(native.library() is None, reason="torch computes: there is no C compiler")
LONG = [" ".join(pair.source for pair in phrases("train", 55)[at : at + 5]) for at in range(0, 55, 5)]
"""Few rows to a batch, and fewer where threads share them."""
TEXTS = [*LONG, *(pair.source for pair in phrases("train", 120))]
HEADS = {
    "classify": ClassifyConfig(labels=77),
    "classify, inner": ClassifyConfig(labels=3, inner="tanh"),
    "classify, attention": ClassifyConfig(labels=1, pool=PoolConfig(kind="attention")),
    "classify, pooler": ClassifyConfig(labels=2, pool=PoolConfig(kind="pooler")),
    "tag": TagConfig(tags=9, transform=TransformConfig()),
    "span": SpanConfig(),
    "embed": EmbedConfig(project=100),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_gives_a_row_the_same_bits_whatever_rows_and_threads_there_are(name):
    torch.manual_seed(0)
    body = RecurrentConfig(layers=1)  # not computed
    encoder = EncoderConfig(vocabulary=10, d_model=384, body=body, pooler=name.endswith("pooler"))
    model = Headed(HeadedConfig(encoder=encoder, head=HEADS[name])).eval()
    reader, lengths = Reader(model, None, longest=64), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]
    states = torch.randn(sum(lengths), 384)
    tokens = isinstance(HEADS[name], TagConfig | SpanConfig)

    def scored(rows, lengths):
        layout = pack_flat(np.zeros(len(rows), np.int64), lengths).layout
        return reader.head(rows) if tokens else reader.head(rows, layout)

    with torch.inference_mode():
        alone = torch.cat([scored(own, [len(own)]) for own in states.split(lengths)])
        for threads in (1, 2, 3):
            with thread_count(threads):
                assert torch.equal(scored(states, lengths), alone)
        torch.testing.assert_close(
            alone,
            model.head(states) if tokens else model.head(states, _layout(lengths)),
            atol=1e-5,
            rtol=1e-5,
        )


def _layout(lengths):
    return pack_flat(np.zeros(sum(lengths), np.int64), lengths).layout


WORK = {
    "embed": ("embedder", (TEXTS,), {}),
    "classify": ("classifier", (TEXTS,), {"probabilities": True}),
    "tag": ("tagger", (TEXTS,), {}),
    "answer": ("answerer", ([each.split()[1] for each in LONG], LONG), {}),
    "translate": (
        "translator",
        (TEXTS[:60],),
        {"scores": True, "greedy": True, "decoding": {"maximum": 12}},
    ),
}


@pytest.mark.parametrize("task", WORK)
def test_columns_are_the_same_for_any_number_of_threads(task, tiny):
    name, texts, settings = WORK[task]
    work = get_task(task).bulk.open(tiny[name], device="cpu", precision=None, **settings)
    with thread_count(1):
        wanted = work(*texts)
    for threads in (2, 3):
        with thread_count(threads):
            found = work(*texts)
        for column, values in wanted.columns.items():
            assert np.array_equal(np.asarray(values, object), np.asarray(found.columns[column], object))
        assert found.lines == wanted.lines


def test_scores_before_they_are_rounded_are_the_same_for_any_number_of_threads(tiny):
    work = get_task("classify").bulk.open(tiny["classifier"], device="cpu", precision=None)
    assert work.classifier.labels == LABELS
    for texts in (TEXTS, LONG):
        scores = []
        for threads in (1, 2, 3):
            with thread_count(threads):
                scores.append(work.classifier.scores(texts))
        assert np.array_equal(scores[0], scores[1])
        assert np.array_equal(scores[0], scores[2])
