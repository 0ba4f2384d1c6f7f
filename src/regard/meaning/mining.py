"""Hard negatives: texts that a model finds near a query, and that do not answer it.

    the texts nearest to a query, without its positives       ranks skip + 1 to among
    and without the query itself
    without those that score too much                         score <= positive - margin
                                                              score <= positive - relative * |positive|
    of the rest, so many as are wanted                        the first, or any

What scores nearly as much as the positive is often an answer that nobody has marked (Moreira et al. 2024);
and where most negatives score more than the positive, a reranker's first lesson is that near is wrong. Where
a query has several positives, each has negatives of its own. With a reranker its scores are compared instead
of cosines, and order the rest; they are a teacher's for loss.kind = "margin".
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.console import Console

from regard.config import ConfigError, check_choices
from regard.data.hashing import uniform
from regard.meaning.nearest import nearest
from regard.tasks.base.evaluation import as_column
from regard.tasks.base.faster import Precision
from regard.tasks.base.files import told
from regard.tasks.base.formats import AS_NAMED, JUDGED, FileOptions, only_lines
from regard.tasks.base.outputs import check_one_file, written_whole
from regard.tasks.base.predictor import Progress
from regard.tasks.base.terminal import counting, say
from regard.tasks.base.vectors import normalised, products
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.tasks.reranking.reranker import Reranker, open_reranker
from regard.text import DataError, Table, read_table_pairs
from regard.text.judged import read_identified, read_judged


@dataclass(frozen=True, kw_only=True, slots=True)
class MiningConfig:
    negatives: int = 7
    """So many for each query, or fewer where there are no more."""
    skip: int = 0
    """The nearest texts, so many, are passed over: they may answer the query too."""
    among: int = 100
    """Only the nearest so many are looked at."""
    margin: float | None = None
    """A negative scores so much less than the positive, at least."""
    relative: float | None = None
    """The same, as a share of the positive's score: 0.05."""
    choose: Literal["first", "any"] = "first"
    """Which of them are taken: the hardest, or any, drawn by the seed, for each positive anew."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        if self.negatives < 1:
            raise ConfigError(f"negatives={self.negatives} must be 1 or more")
        if not 0 <= self.skip < self.among:
            raise ConfigError(f"skip={self.skip} and among={self.among} leave nothing: skip fewer")
        for name in ("margin", "relative"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ConfigError(f"{name}={value} must be 0 or more")


class Mined(NamedTuple):
    query: str
    positive: str
    negatives: list[str]
    scores: list[float]
    """Of the positive and then of the negatives: cosines, or what a reranker says, before any sigmoid."""


def mine(
    embedder: Embedder,
    pairs: Sequence[tuple[str, str]],
    corpus: Sequence[str] = (),
    config: MiningConfig | None = None,
    *,
    reranker: Reranker | None = None,
    progress: Progress | None = None,
) -> list[Mined]:
    """A row for each pair of a query and a text that answers it, in their order; none where no negative is
    left. Negatives are texts of the corpus, or of the other pairs; never the query, which may be one."""
    config = config or MiningConfig()
    embedder.check_cosine()
    texts = [*dict.fromkeys([*corpus, *(positive for _, positive in pairs)])]
    row_of = {text: row for row, text in enumerate(texts)}
    positives: dict[str, list[int]] = {}
    for query, positive in dict.fromkeys(pairs):
        positives.setdefault(query, []).append(row_of[positive])
    asked = [*positives]
    how: Any = {"progress": progress}
    ours = normalised(embedder.embed(asked, prompt=embedder.prompt_of("query"), **how))
    theirs = normalised(embedder.embed(texts, prompt=embedder.prompt_of("passage"), **how))
    depth = config.among + max(map(len, positives.values()), default=0) + 1
    rows, _ = nearest(ours, theirs, depth)
    rest: dict[str, tuple[dict[int, float], list[tuple[int, float]]]] = {}
    for number, query in enumerate(asked):
        right = positives[query]
        out = {*right, row_of.get(query)}
        near = [row for row in rows[number].tolist() if row not in out][config.skip : config.among]
        both = np.array([*right, *near], dtype=np.int64)
        if reranker is None:
            scores = products(ours, np.full(len(both), number), theirs, both)
        else:
            scores = reranker.scores([query] * len(both), [texts[row] for row in both], raw=True)
        own = dict(zip(right, scores[: len(right)].tolist(), strict=True))
        left = [*zip(near, scores[len(right) :].tolist(), strict=True)]
        rest[query] = own, sorted(left, key=lambda each: -each[1]) if reranker is not None else left
    found = []
    for query, positive in dict.fromkeys(pairs):
        own, near_by = rest[query]
        row = row_of[positive]
        wrong = _chosen(_left(near_by, own[row], config), row, config)
        scored = [own[row], *(score for _, score in wrong)]
        found.append(Mined(query, positive, [texts[row] for row, _ in wrong], scored))
    return [each for each in found if each.negatives]


def _left(wrong: list[tuple[int, float]], positive: float, config: MiningConfig) -> list[tuple[int, float]]:
    """Those that score so much less than the positive."""
    if config.margin is None and config.relative is None:
        return wrong
    most = positive - max(config.margin or 0.0, (config.relative or 0.0) * abs(positive))
    return [each for each in wrong if each[1] <= most]


def _chosen(left: list[tuple[int, float]], positive: int, config: MiningConfig) -> list[tuple[int, float]]:
    """Each positive of a query has its own draw."""
    if config.choose == "first" or not left:
        return left[: config.negatives]
    drawn = uniform(config.seed, positive, [row for row, _ in left])
    return [left[place] for place in sorted(np.argsort(drawn, kind="stable")[: config.negatives].tolist())]


def mine_negatives(
    model: Path,
    *,
    out_file: Path,
    pairs: Path | None,
    query_column: str,
    positive_column: str,
    queries: Path | None,
    qrels: Path | None,
    corpus: Path | None,
    rerank: Path | None,
    device: str = "auto",
    precision: Precision | None = None,
    files: FileOptions = AS_NAMED,
    console: Console,
    **settings: Any,
) -> None:
    """From pairs, or from queries with judgements, into JSON lines; `settings` are those of
    `MiningConfig`."""
    config = MiningConfig(**settings)
    check_one_file(out_file)
    read, texts = _read(pairs, (query_column, positive_column), queries, qrels, corpus, files)
    embedder = open_embedder(model, device=device, precision=precision)
    reranker = None if rerank is None else open_reranker(rerank, device=device, precision=precision)
    with counting("texts") as advance:
        found = mine(embedder, read, texts, config, reranker=reranker, progress=advance)
    lines = [json.dumps(each._asdict(), ensure_ascii=False) + "\n" for each in found]
    with written_whole(out_file) as file:
        file.writelines(lines)
    count = sum(len(each.negatives) for each in found)
    say(console, f"{out_file}: {len(found):,} queries with {count:,} negatives")
    if left := len(dict.fromkeys(read)) - len(found):
        say(console, f"{left:,} have none that scores so much less than their positive: left out")


def _read(
    pairs: Path | None,
    columns: tuple[str, str],
    queries: Path | None,
    qrels: Path | None,
    corpus: Path | None,
    files: FileOptions,
) -> tuple[list[tuple[str, str]], list[str]]:
    """The pairs, and the texts of the corpus."""
    for path in (queries, qrels, corpus):
        if path is not None:
            only_lines(path, "tsv", "jsonl", remedy=JUDGED)
    judged = queries is not None and qrels is not None and corpus is not None
    if (pairs is None) != judged or (pairs is not None and (queries is not None or qrels is not None)):
        raise ConfigError(
            "what are the queries, and what answers them? Give --pairs FILE, and --corpus FILE if there is "
            "one; or --queries, --qrels and --corpus"
        )
    try:
        if pairs is not None:
            texts = [] if corpus is None else [*read_identified(corpus, encoding=files.encoding).values()]
            return [*_pairs(pairs, columns, files)], texts
        found = read_judged(
            Path(queries or ""), Path(corpus or ""), Path(qrels or ""), encoding=files.encoding
        )
    except DataError as error:
        raise told(error, "prompt") from error
    relevant = [
        (found.queries[query], found.corpus[text])
        for query, own in found.judgements.items()
        for text, grade in own.items()
        if grade > 0 and text in found.corpus
    ]
    return relevant, [*found.corpus.values()]


def _pairs(path: Path, columns: tuple[str, str], files: FileOptions) -> Iterator[tuple[str, str]]:
    names = [as_column(name) for name in columns]
    table = Table(path=path, encoding=files.encoding, separator=files.separator)
    for pair in read_table_pairs(table, source=names[0], target=names[1]):
        if not pair.source.strip() or not pair.target.strip():
            raise DataError(pair.origin, "an empty query or text", remedy="leave the row out")
        yield pair.source, pair.target
