"""What clusters of texts are about: their most central texts, and the words that set them apart.

    z = log(a d / b c) / sqrt(1/a + 1/b + 1/c + 1/d)

for a word that a texts of the cluster have and b have not, c of the others and d not, each plus 1/2 (Haldane
and Anscombe): the logarithm of the odds ratio by its standard error. A word that is as common elsewhere has
z near 0, so that no list of stop words is needed, in any language with spaces.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from regard.meaning.cluster import Cluster, Clustering


def telling_words(clustering: Clustering, texts: Sequence[str], most: int = 5) -> list[list[str]]:
    """For each cluster the words that set it apart from all other texts, the most telling first; only words
    that several of its texts have."""
    if len(texts) != clustering.texts:
        raise ValueError(
            f"{len(texts)} texts, but {clustering.texts} were clustered: give the same, in the same order"
        )
    words = [set(re.findall(r"\w+", text.lower())) for text in texts]
    everywhere = _counted(words)
    return [_telling(cluster, words, everywhere, most) for cluster in clustering.clusters]


def _counted(words: Iterable[set[str]]) -> Counter[str]:
    return Counter(word for each in words for word in each)


def _telling(cluster: Cluster, words: list[set[str]], everywhere: Counter[str], most: int) -> list[str]:
    inside = _counted(words[row] for row in cluster.rows)
    others = len(words) - len(cluster)
    least = min(2, len(cluster))
    scores = {
        word: _odds(count, len(cluster), everywhere[word] - count, others)
        for word, count in inside.items()
        if count >= least
    }
    ordered = sorted(scores, key=lambda word: (-scores[word], word))
    return [word for word in ordered if scores[word] > 0][:most]


def _odds(inside: int, size: int, outside: int, others: int) -> float:
    a, b, c, d = (count + 0.5 for count in (inside, size - inside, outside, others - outside))
    return math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)


def render(clustering: Clustering, texts: Sequence[str], console: Console, examples: int = 3) -> None:
    """Print each cluster: its size, its words, its most central texts. Texts are shortened to the width;
    equal ones are shown once."""
    words = telling_words(clustering, texts)
    for number, (cluster, telling) in enumerate(zip(clustering.clusters, words, strict=True), 1):
        head = Text(f"{number}. ", style="bold")
        head.append(f"{len(cluster):,} {'text' if len(cluster) == 1 else 'texts'}")
        if telling:
            head.append(f"  {', '.join(telling)}", style="bold cyan")
        console.print(head, soft_wrap=True)
        distinct = dict.fromkeys(texts[row] for row in cluster.rows)
        for text in list(distinct)[:examples]:
            console.print(Text("   " + _shortened(text, console.width - 3)), soft_wrap=True)
    alone = len(clustering.alone)
    last = f"{clustering.texts:,} texts, {len(clustering.clusters):,} clusters; "
    last += f"{alone:,} in none" if alone else "every text is in one"
    console.print(Text(last), soft_wrap=True)


def visible(text: str) -> str:
    """With control characters spelled out: they must not reach the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str, width: int) -> str:
    """On one line."""
    line = " ".join(text.split())
    shown = visible(line[: width + 1]) or "(empty)"
    return shown if len(shown) <= width else shown[: width - 1] + "…"
