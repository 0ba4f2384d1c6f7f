"""A file of texts, one a line, that is searched by meaning. Its index lies beside it.

It is used again while both the file and the model stay the same, and whether the model computes in int8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data import fingerprint
from regard.meaning.index import Hit, Index, Wanted
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import incoming
from regard.tasks.base.terminal import counting
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.text import DataError, Origin
from regard.text.charsets import is_utf8


@dataclass(frozen=True, slots=True)
class Corpus:
    index: Index
    embedder: Embedder
    lines: Sequence[int]
    """Where each text of the index stands in the file, from 1: empty lines are no texts."""

    def search(self, queries: Sequence[str], top: int) -> list[list[Hit]]:
        """The nearest texts of each query, the nearest first."""
        return self.index.search(self.embedder.embed([*queries]), top)


def open_corpus(
    model: Path,
    corpus: Path,
    *,
    kind: Wanted = "auto",
    index: Path | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    encoding: str = "utf-8",
) -> Corpus:
    """`model` is an embedder's folder, `index` where the index is kept."""
    embedder = open_embedder(model, device=device, precision=precision)
    lines = enumerate(incoming(str(corpus), encoding), 1)
    numbered = [(line, text) for line, text in lines if text.strip()]
    if not numbered:
        raise DataError(Origin(str(corpus)), "no text to search", remedy="give a file with a text a line")

    def build() -> Index:
        texts = [text for _, text in numbered]
        with counting("lines", total=len(texts)) as advance:
            return Index.build(texts, embedder.embed(texts, progress=advance), kind=kind)

    made = f"{kind} int8" if precision == "int8" else kind
    made += "" if is_utf8(encoding) else f" {encoding}"
    files = [path for name in ("config.json", "model.safetensors") if (path := model / name).exists()]
    folder = index or corpus.with_name(f"{corpus.name}.index")
    found = Index.open_or_build(folder, fingerprint([corpus, *files], made), build)
    return Corpus(found, embedder, [line for line, _ in numbered])
