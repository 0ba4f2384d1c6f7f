"""From scores of tokens to answers: which stretch of a text, how sure, or none at all.

    score(i, j) = start_i + end_j                          i <= j < i + longest      Devlin et al. 2019, 4.2
    score(none) = start_CLS + end_CLS                      of all windows, the lowest          the same, 4.3
    p(i, j)     = exp score(i, j) / (sum of exp score over all spans, and none)

A span that several windows have counts where it scores best. There is no answer where score(none) is above
the best span's by more than a threshold, which is learned on the validation set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.tasks.answering.windows import Laid


@dataclass(frozen=True, slots=True, eq=False)
class SpanScores:
    """All spans of a text."""

    scores: np.ndarray
    """float64 [tokens, longest]: of the span that begins at a token and has so many more; -inf: there is
    none."""
    none: float
    """That there is no answer; -inf where that cannot be."""

    @property
    def best(self) -> float:
        return float(self.scores.max(initial=-np.inf))

    @property
    def margin(self) -> float:
        """By how much no answer is better than the best."""
        return self.none - self.best if np.isfinite(self.none) else -np.inf

    def ranked(self, count: int) -> list[tuple[int, int]]:
        """The best spans, each from its first to its last token; of equal ones, what comes first."""
        flat = self.scores.ravel()
        count = min(count, int(np.isfinite(flat).sum()))
        chosen = np.argpartition(-flat, count - 1)[:count] if 0 < count < len(flat) else np.arange(len(flat))
        chosen = chosen[np.lexsort((chosen, -flat[chosen]))][:count]
        width = self.scores.shape[1]
        return [(place // width, place // width + place % width) for place in chosen.tolist()]

    def probabilities(self) -> tuple[np.ndarray, float]:
        """Of all spans, and of none."""
        top = max(self.best, self.none)
        if not np.isfinite(top):
            return np.zeros_like(self.scores), 1.0
        spans, none = np.exp(self.scores - top), float(np.exp(self.none - top))
        total = spans.sum() + none
        return spans / total, none / total


def join(laid: Laid, rows: Sequence[np.ndarray], longest: int, *, none: bool) -> SpanScores:
    """What the windows of a text say, [tokens of a window, 2] each, together. `none`: there may be no
    answer."""
    tokens = len(laid.offsets)
    longest = min(longest, max(tokens, 1))
    scores = np.full((tokens, longest), -np.inf)
    nothing = np.inf if laid.windows else 0.0
    for window, row in zip(laid.windows, rows, strict=True):
        wide = row.astype(np.float64)
        nothing = min(nothing, float(wide[0].sum()))
        starts, ends = wide[window.first : window.first + window.count].T
        for more in range(min(longest, window.count)):
            found = starts[: window.count - more] + ends[more:]
            own = scores[window.begin : window.begin + window.count - more, more]
            np.maximum(own, found, out=own)
    return SpanScores(scores, nothing if none else -np.inf)


def best_threshold(margins: np.ndarray, answered: np.ndarray, unanswered: np.ndarray) -> float:
    """The margin above which no answer should be given: where the sum of a figure is highest. `answered` has
    it for the best span of each question, `unanswered` for giving none. Of equal ones, the nearest to 0."""
    order = np.argsort(margins, kind="stable")
    gains = np.concatenate([[0.0], np.cumsum((answered - unanswered)[order])])
    levels = np.unique(margins)
    cuts = np.concatenate([[levels[0] - 1], (levels[1:] + levels[:-1]) / 2, [levels[-1] + 1]])
    totals = gains[np.searchsorted(margins[order], cuts, side="right")]
    best = cuts[totals >= totals.max() - 1e-9]
    return float(best[np.abs(best).argmin()])
