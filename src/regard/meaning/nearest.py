"""The nearest of many vectors by cosine, exactly.

    the k rows r with the largest q . r       ties go to the lower row

Products of matrices in float32 are fast, but their last bits depend on the sizes of the matrices. So they
only find candidates: all rows that the error bound of such a product leaves in the running. Those are scored
again in float64. The result does not depend on blocks, threads, or on which queries come together;
tests/meaning/test_index.py holds it equal to sorting everything.
"""

import numpy as np
import numpy.typing as npt

from regard.tasks.base.vectors import Rows, Unit, products, uncertainty

Scores = npt.NDArray[np.float64]


def nearest(
    queries: Unit, corpus: Unit, k: int, *, query_block: int = 256, row_block: int = 16_384
) -> tuple[Rows, Scores]:
    """The rows and their scores, best first, [queries, k]; fewer columns if the corpus has fewer rows. Both
    sides are unit rows. Memory grows with the blocks, not with the corpus, which may be mapped."""
    k = min(k, len(corpus))
    parts = [
        _nearest(queries[start : start + query_block], corpus, k, row_block)
        for start in range(0, len(queries), query_block)
    ]
    empty = np.empty((0, k), dtype=np.int64), np.empty((0, k))
    rows, scores = zip(empty, *parts, strict=True)
    return np.concatenate(rows), np.concatenate(scores)


def _nearest(queries: Unit, corpus: Unit, k: int, row_block: int) -> tuple[Rows, Scores]:
    error = uncertainty(queries.shape[1])
    floor = np.full(len(queries), -np.inf)  # no row below it can be among the k best
    owners, rows, scores = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    for start in range(0, len(corpus), row_block):
        rough = queries @ corpus[start : start + row_block].T
        if rough.shape[1] >= k:
            floor = np.maximum(floor, np.partition(rough, -k, axis=1)[:, -k] - error)
        found, columns = np.nonzero(rough >= (floor - error).astype(np.float32)[:, None])
        columns += start
        owners = np.concatenate([owners, found])
        scores = np.concatenate([scores, products(queries, found, corpus, columns)])
        rows = np.concatenate([rows, columns])
        owners, rows, scores, ranks = _best(owners, rows, scores, k)
        last = ranks == k - 1
        floor[owners[last]] = np.maximum(floor[owners[last]], scores[last])
    return rows.reshape(-1, k), scores.reshape(-1, k)


def _best(owners: Rows, rows: Rows, scores: Scores, k: int) -> tuple[Rows, Rows, Scores, Rows]:
    """Of each owner's rows the k best, best first, and the rank of each."""
    order = np.lexsort((rows, -scores, owners))
    owners, rows, scores = owners[order], rows[order], scores[order]
    ranks = np.arange(len(owners)) - np.searchsorted(owners, owners)
    kept = ranks < k
    return owners[kept], rows[kept], scores[kept], ranks[kept]


def rescored(queries: Unit, corpus: Unit, rows: Rows) -> tuple[Rows, Scores]:
    """Rows that somebody else found, [queries, k], each once for a query, with the scores and in the order
    that `nearest` gives them."""
    count, k = rows.shape
    owners = np.repeat(np.arange(count), k)
    flat = rows.reshape(-1)
    _, found, scores, _ = _best(owners, flat, products(queries, owners, corpus, flat), k)
    return found.reshape(count, k), scores.reshape(count, k)
