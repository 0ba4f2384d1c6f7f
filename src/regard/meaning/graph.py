"""A graph of neighbours that leads to the nearest of very many vectors (HNSW, Malkov and Yashunin 2018).

faiss makes and walks it; it is an extra. The graph may miss a neighbour, and equal texts can cut parts of it
off. It is made on all cores, so that two graphs of the same vectors may differ; one that is saved stays.
"""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from regard.disk import check_plain
from regard.tasks.base.vectors import Rows, Unit

LINKS, BUILD_WIDTH, SEARCH_WIDTH = 32, 200, 128
"""Neighbours that a row is linked to; candidates held while the graph is made, and while it is searched."""


def has_faiss() -> bool:
    try:
        import_module("faiss")
    except ImportError:
        return False
    return True


def make(corpus: Unit) -> Any:
    faiss = import_module("faiss")
    graph = faiss.IndexHNSWFlat(corpus.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_WIDTH
    graph.add(corpus)
    return graph


def walk(graph: Any, queries: Unit, k: int) -> Rows:
    """About the k nearest rows of each query, [queries, k], in no order to rely on; -1 where the graph led
    nowhere."""
    faiss = import_module("faiss")
    width = faiss.SearchParametersHNSW(efSearch=max(SEARCH_WIDTH, 2 * k))
    _, rows = graph.search(np.ascontiguousarray(queries), k, params=width)
    return rows


def write(graph: Any, path: Path) -> str:
    """Returns the file's digest, which `read` wants to see again."""
    import_module("faiss").write_index(graph, str(path))
    return _digest(path)


def read(path: Path, digest: str) -> Any:
    """Only the very file that was written: faiss trusts what it reads."""
    if _digest(path) != digest:
        raise ValueError(f"{path} is not the file that was saved")
    return import_module("faiss").read_index(str(path))


def _digest(path: Path) -> str:
    check_plain(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
