"""How good answers are, as SQuAD's own evaluation counts it (Rajpurkar et al. 2016, 2018).

    exact   the answer is a gold one, without case, punctuation, articles and spaces
    f1      2 P R / (P + R) of the words that it shares with a gold one; of several, the best

In percent. Where a question has no answer, both are 1 if none was given, and else 0.
tests/tasks/answering/test_score.py holds them equal to torchmetrics.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """What is compared."""
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def exact(found: str, golds: Sequence[str]) -> float:
    """An empty `found` is no answer, and so is an empty list of golds."""
    own = normalised(found)
    return max(float(own == normalised(gold)) for gold in golds or ("",))


def f1(found: str, golds: Sequence[str]) -> float:
    return max(_f1(normalised(found).split(), normalised(gold).split()) for gold in golds or ("",))


def _f1(found: Sequence[str], gold: Sequence[str]) -> float:
    if not found or not gold:
        return float(found == gold)
    shared = (Counter(found) & Counter(gold)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(found), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def squad(found: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """Of all questions; and, if some have no answer, of those that have one and those that have none."""
    exacts = np.array([exact(*each) for each in zip(found, golds, strict=True)])
    scores = np.array([f1(*each) for each in zip(found, golds, strict=True)])
    figures = {"exact": 100 * float(exacts.mean()), "f1": 100 * float(scores.mean())}
    answerable = np.array([bool(gold) for gold in golds])
    if answerable.any() and not answerable.all():
        figures["answered_f1"] = 100 * float(scores[answerable].mean())
        figures["unanswered"] = 100 * float(scores[~answerable].mean())
    return figures
