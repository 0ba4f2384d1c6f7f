"""A file of texts, a text a line or a table, that is searched by meaning. Its index lies beside it.

It is used again while both the file and all files of the model stay the same, and whether the model computes
in int8.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from regard.data import fingerprint
from regard.meaning.index import Hit, Index, Wanted
from regard.tasks.base.faster import Precision
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.model_hash import model_hash
from regard.tasks.base.terminal import counting
from regard.tasks.base.texts import numbered_texts
from regard.tasks.embedding.embedder import Embedder, open_embedder
from regard.tasks.reranking.reranker import Reranker
from regard.text import DataError, Origin
from regard.text.charsets import is_utf8


def _said(files: FileOptions) -> str:
    """How the file is read, unless nothing is said of it."""
    plain = asdict(replace(files, encoding="utf-8") if is_utf8(files.encoding) else files)
    usual = asdict(AS_NAMED)
    return "".join(f" {name}={value!r}" for name, value in plain.items() if value != usual[name])


@dataclass(frozen=True, slots=True)
class Corpus:
    index: Index
    embedder: Embedder
    lines: Sequence[int]
    """Where each text of the index stands in the file, from 1: empty lines are no texts."""
    prompt: str | None = None
    """The one before queries; None: the model's own for what is asked."""
    dimensions: int | None = None
    """Of the vectors, where not all are taken."""

    def search(
        self, queries: Sequence[str], top: int, *, reranker: Reranker | None = None, candidates: int = 50
    ) -> list[list[Hit]]:
        """The nearest texts of each query, the nearest first. With a reranker, the nearest `candidates`, or
        `top` if that is more, are put in order by it, and their scores are its own."""
        prompt = self.embedder.prompt_of("query") if self.prompt is None else self.prompt
        vectors = self.embedder.embed([*queries], prompt=prompt, dimensions=self.dimensions)
        if reranker is None:
            return self.index.search(vectors, top)
        found = self.index.search(vectors, max(top, candidates))
        return [_reranked(reranker, *each, top) for each in zip(queries, found, strict=True)]


def _reranked(reranker: Reranker, query: str, hits: Sequence[Hit], top: int) -> list[Hit]:
    ranked = reranker.rerank(query, [hit.text for hit in hits], top=top)
    return [Hit(hits[each.row].row, each.text, each.score) for each in ranked]


def open_corpus(
    model: Path,
    corpus: Path,
    *,
    kind: Wanted = "auto",
    index: Path | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    files: FileOptions = AS_NAMED,
    prompt: str | None = None,
    passage_prompt: str | None = None,
    dimensions: int | None = None,
) -> Corpus:
    """`model` is an embedder's folder, `index` where the index is kept. Prompts are those of the model for
    what is asked and what is searched, unless others are named. `files` say how the file is read."""
    texts_of = numbered_texts(str(corpus), files)
    embedder = open_embedder(model, device=device, precision=precision)
    embedder.check_cosine()
    if passage_prompt is None:
        passage_prompt = embedder.prompt_of("passage")
    before = embedder.prompt_text(passage_prompt)
    if prompt is not None:
        embedder.prompt_text(prompt)  # which refuses one that is none
    numbered = [*texts_of]
    if not numbered:
        raise DataError(Origin(str(corpus)), "no text to search", remedy="give a file with a text a line")

    def build() -> Index:
        texts = [text for _, text in numbered]
        with counting("lines", total=len(texts)) as advance:
            return Index.build(
                texts,
                embedder.embed(texts, prompt=passage_prompt, dimensions=dimensions, progress=advance),
                kind=kind,
            )

    made = f"{kind} int8" if precision == "int8" else kind
    made += _said(files)
    made += "" if dimensions is None else f" {dimensions} numbers"
    made += f" {before!r}" if before else ""
    folder = index or corpus.with_name(f"{corpus.name}.index")
    same = fingerprint([corpus], made, model_hash(model, corpus, folder))
    found = Index.open_or_build(folder, same, build)
    return Corpus(found, embedder, [line for line, _ in numbered], prompt, dimensions)
