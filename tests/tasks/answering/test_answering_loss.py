"""What is learned: the loss against a loop over windows, packed against alone, with its gradients."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from regard.data import Plan
from regard.layout import Layout
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import SpanConfig
from regard.settings.presets import bert
from regard.settings.training import BatchConfig, LossConfig
from regard.tasks.answering.batches import QuestionFeed, encode
from regard.tasks.answering.train import AnsweringLoss
from regard.tasks.answering.windows import lay_out
from regard.text import DataError, Gold, Origin, Question, Tokenizer, TokenizerConfig

LETTERS = Tokenizer.train(["abcdefghij ?"] * 3, TokenizerConfig(kind="characters", vocabulary=40))
TEXT = "abcdefghij" * 3
HERE = Origin("made up")
RECORDS = [
    Question("1", "a?", TEXT[:8], (Gold("cd", 2),), HERE),
    Question("2", "b?", TEXT, (Gold("fghij", 15), Gold("gh", 16)), HERE),
    Question("3", "abc?", TEXT[:5], (), HERE),
]


def small(dropout: float = 0.0) -> Headed:
    torch.manual_seed(0)
    model = Headed(
        HeadedConfig(
            encoder=bert(len(LETTERS), layers=1, d_model=8, heads=2, d_ff=16),
            head=SpanConfig(dropout=dropout),
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def laid() -> list[Any]:
    return [lay_out(LETTERS, each.text, each.context, longest=24, overlap=6) for each in RECORDS]


def one_batch(*, static: bool) -> Any:
    questions = encode(laid(), RECORDS, paired=True)
    plan = Plan([questions.ids.lengths], BatchConfig(tokens=200))
    [(_, batch)] = QuestionFeed(questions, plan, static=static).parts(1)
    return batch


def naive(model: Headed, smoothing: float = 0.0) -> torch.Tensor:
    """Window by window: cross-entropy over [CLS] and the text, the mean over gold answers."""
    total = torch.zeros(())
    for record, each in zip(RECORDS, laid(), strict=True):
        spans = each.spans(record.answers)
        for window in each.windows:
            scores = model(
                torch.tensor(window.ids), Layout.of([len(window.ids)]), torch.tensor(window.segments)
            )
            kept = [0, *range(window.first, window.first + window.count)]
            for side in (0, 1):
                own = [kept.index(place[side]) for place in window.places(spans)]
                for place in own:
                    loss = F.cross_entropy(scores[kept, side], torch.tensor(place), label_smoothing=smoothing)
                    total = total + loss / len(own) / 2
    return total


@pytest.mark.spec("5.9")
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("static", [False, True])
def test_the_loss_is_that_of_each_window_by_itself_with_its_gradients(static, smoothing):
    model, other = small(), small()
    sums = AnsweringLoss(model, LossConfig(label_smoothing=smoothing))(one_batch(static=static))
    wanted = naive(other, smoothing)
    assert float(sums.tokens) == sum(len(each.windows) for each in laid()) == 4
    assert_close(sums.loss, wanted)
    sums.loss.backward()
    wanted.backward()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(one.grad, two.grad, atol=1e-5, rtol=1e-4)


def test_two_passes_that_agree_cost_what_one_does():
    model, batch = small(), one_batch(static=True)
    one = AnsweringLoss(model, LossConfig())(batch)
    two = AnsweringLoss(model, LossConfig(r_drop=3.0))(batch)
    assert_close(two.loss, one.loss)
    assert_close(two.tokens, one.tokens)


def test_two_passes_that_disagree_cost_their_divergence():
    model, batch = small(dropout=0.5).train(), one_batch(static=False)
    losses = []
    for weight in (1e-9, 2.0):
        torch.manual_seed(1)
        losses.append(AnsweringLoss(model, LossConfig(r_drop=weight))(batch))
    torch.manual_seed(1)
    layout = batch.text.layout.twice()
    scores = model.head(model.states(batch.text.ids.repeat(2), layout, batch.segments.repeat(2)))
    apart = torch.zeros(())
    size = batch.text.layout.sequences
    for number in range(size):
        start, end = layout.host_offsets[number : number + 2].tolist()
        again = int(layout.host_offsets[size]) + start
        shown = batch.starts[start:end] >= 0
        for side in (0, 1):
            p, q = (scores[at : at + end - start, side][shown].log_softmax(0) for at in (start, again))
            apart = (
                apart
                + (
                    F.kl_div(q, p, log_target=True, reduction="sum")
                    + F.kl_div(p, q, log_target=True, reduction="sum")
                )
                / 4
            )
    assert_close(losses[1].loss - losses[0].loss, 2.0 * apart, atol=1e-4, rtol=1e-4)
    assert_close(losses[1].nll, losses[0].nll)


def test_questions_without_any_answer_cannot_be_learned_from():
    with pytest.raises(DataError, match="none of 1 questions has an answer to learn"):
        encode(laid()[2:], RECORDS[2:], paired=True)
