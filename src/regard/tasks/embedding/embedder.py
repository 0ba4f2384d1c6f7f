"""Vectors from a trained encoder: of sentences, and of words in their context.

A model that was made for it says itself how a sentence becomes a vector; of any other encoder, it is the mean
of the last layer's states unless the caller says otherwise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import ConfigError
from regard.data import Packed
from regard.models.heads import EmbedHead, Pool
from regard.settings.models import EmbedConfig, PoolConfig
from regard.settings.network import RecurrentConfig
from regard.tasks.base.encoders import open_reader
from regard.tasks.base.faster import Precision
from regard.tasks.base.predictor import Progress
from regard.tasks.base.reading import EncoderPredictor, Piece, Reader, TooLong, cut
from regard.tasks.base.terminal import counting
from regard.text.training import each_text

PoolKind = Literal["first", "mean", "max"]
Side = Literal["query", "passage"]
"""What is asked, and what is searched."""
SIDES: dict[Side, tuple[str, ...]] = {"query": ("query",), "passage": ("document", "passage", "corpus")}
"""What the prompts of each side are called, as sentence-transformers looks for them."""

_NOT_HERE: dict[str, tuple[Any, str]] = {
    "output_value": ("sentence_embedding", "words in their context are had by words()"),
    "precision": ("float32", "open the model with regard.load(..., precision=), or round the vectors"),
    "device": (None, "open the model there, with regard.load(..., device=)"),
}
"""What `encode` of sentence-transformers takes besides, its usual value, and what to do instead."""


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """The words of a text, as the tokenizer parts them, each in the vectors of several layers."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """Where each word stands in the text."""
    vectors: np.ndarray
    """float32 [layers, words, d_model]"""

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """How a text becomes one vector."""

    pool: Pool | None
    """None: the embedder's own."""
    projects: bool
    """Whether what an embedder has behind its pool follows."""
    unit: bool
    layer: int | None
    dimensions: int | None
    """So many of the first numbers; None: all."""


class Embedder(EncoderPredictor):
    """Texts in, vectors out.

    >>> embedder = regard.load("runs/minilm", regard.Embedder)
    >>> embedder.embed(["A cat sat.", "A dog ran."]).shape
    (2, 384)
    """

    task: ClassVar[str] = "embed"

    def with_reader(self, reader: Reader) -> "Embedder":
        return Embedder(reader)

    @property
    def layers(self) -> int:
        """How many there are, the embedding not counted; recurrent ones count as one, as they show only their
        end."""
        body = self.reader.model.config.encoder.body
        return 1 if isinstance(body, RecurrentConfig) else body.layers

    @property
    def prompts(self) -> dict[str, str]:
        """What the model was trained to read before a text, by name: {"query": "query: "}."""
        head = self.reader.model.config.head
        return {each.name: each.text for each in head.prompts} if isinstance(head, EmbedConfig) else {}

    @property
    def dimensions(self) -> int | None:
        """So many of the first numbers of a vector are taken, unless others are asked for; None: all."""
        head, own = self.reader.model.head, self.reader.model.config.head
        if not (isinstance(head, EmbedHead) and isinstance(own, EmbedConfig) and own.dimensions):
            return None
        width = own.project or self.reader.model.config.encoder.d_model
        return own.dimensions if own.dimensions < width else None

    def check_cosine(self) -> None:
        """Refuses a model whose vectors are to be compared by anything else. A dot product is the cosine of
        vectors of length 1 that are taken whole."""
        own = self.reader.model.config.head
        if not isinstance(own, EmbedConfig) or own.similarity == "cosine":
            return
        if own.similarity == "dot" and own.normalised and self.dimensions is None:
            return
        raise ConfigError(
            f"this model's vectors are compared by {own.similarity} (similarity_fn_name), and here only by "
            "cosine: regard embed gives the vectors, to be compared elsewhere; or, if cosine will do, set "
            "similarity_fn_name to cosine in config_sentence_transformers.json"
        )

    def prompt_of(self, side: Side) -> str | None:
        """The name of the prompt for what is asked, or for what is searched; None where there is none."""
        return next((name for name in SIDES[side] if name in self.prompts), None)

    def prompt_text(self, name: str | None) -> str:
        """What stands before a text with this prompt; of None, with the default, and of "", nothing."""
        head = self.reader.model.config.head
        if name is None:
            name = head.default_prompt if isinstance(head, EmbedConfig) else ""
        if name and name not in self.prompts:
            known = f"it has {', '.join(self.prompts)}" if self.prompts else "it has none"
            raise ValueError(f"prompt={name!r} is no prompt of this model: {known}")
        return self.prompts[name] if name else ""

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        prompt: str | None = None,
        pool: PoolKind | None = None,
        normalised: bool | None = None,
        layer: int | None = None,
        dimensions: int | None = None,
        too_long: TooLong = "cut",
        progress: Progress | None = None,
    ) -> np.ndarray:
        """float32 [texts, width]; of a single text, [width]. What is not asked for is as the model has it.
        `prompt` is the name of one of the model's, "" for none; unless given, it is the model's default.
        `layer` counts from 0, the embedding; -1 is the last. `dimensions`: so many of the first numbers, of
        length 1 again where the whole vector is (Matryoshka); a model may have a default. A text longer than
        the model can read is cut with a warning, or read in windows whose vectors are averaged."""
        if isinstance(texts, str):
            asked: dict[str, Any] = {"pool": pool, "normalised": normalised, "layer": layer}
            return self.embed([texts], prompt=prompt, dimensions=dimensions, too_long=too_long, **asked)[0]
        how = self.way(pool=pool, normalised=normalised, layer=layer, dimensions=dimensions)
        before = self.prompt_text(prompt)
        texts = [before + text for text in each_text(texts)]
        pieces = self.reader.pieces(texts, None, too_long)
        self.reader.warn_of_cuts(pieces)
        return self.vectors(pieces, len(texts), how, progress=progress)

    def way(
        self,
        *,
        pool: PoolKind | None = None,
        normalised: bool | None = None,
        layer: int | None = None,
        dimensions: int | None = None,
    ) -> "Way":
        """How texts become vectors, as `embed` is asked."""
        if pool is not None and pool not in get_args(PoolKind):
            raise ValueError(f"pool={pool!r} is none of {', '.join(get_args(PoolKind))}")
        head = self.reader.model.head
        unit = normalised if normalised is not None else isinstance(head, EmbedHead) and head.normalised
        # what an embedder has behind its pool is for the last layer, pooled as it was trained
        own = isinstance(head, EmbedHead) and pool is None and layer is None
        projects = own and cast(EmbedHead, head).project is not None
        dimensions = self.dimensions if own and dimensions is None else dimensions
        return Way(self._pool(pool), projects, unit, self._layer(layer), dimensions)

    def vectors(
        self, pieces: Sequence[Piece], texts: int, how: "Way", *, progress: Progress | None = None
    ) -> np.ndarray:
        """float32 [texts, width] of what is read of so many texts."""

        def pooled(states: Tensor, packed: Packed) -> Tensor:
            head = self.reader.head
            vectors = (how.pool or head.pool)(states, packed.layout)
            vectors = (torch.tanh(head.project(vectors)) if how.projects else vectors).float()
            return F.normalize(vectors, dim=-1) if how.unit else vectors

        rows = self.reader.read(pieces, pooled, layer=how.layer, progress=progress)
        if not rows:
            model: Any = self.reader.model
            width = model.head.project.out_features if how.projects else model.config.encoder.d_model
            return shortened(np.zeros((0, width), np.float32), how.dimensions, unit=how.unit)
        return shortened(_joined(pieces, rows, texts, unit=how.unit), how.dimensions, unit=how.unit)

    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        *,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **how: Any,
    ) -> np.ndarray:
        """`embed` by the names that sentence-transformers has: `prompt_name` is one of the model's prompts,
        `prompt` such a name too, or any text that goes before each text. As there, a model that normalises
        does so without `normalize_embeddings` too. `batch_size` is read and does nothing: tokens are packed
        as the machine suits. What else `embed` takes is taken here too."""
        if convert_to_tensor or not convert_to_numpy:
            raise ValueError(
                f"convert_to_numpy={convert_to_numpy}, convert_to_tensor={convert_to_tensor}: vectors are a "
                "NumPy array here; leave both out, and give it to torch.from_numpy"
            )
        for name, (usual, remedy) in _NOT_HERE.items():
            if how.pop(name, usual) not in (usual, None):
                raise ValueError(f"{name} is not an option here: {remedy}")
        given = {"normalised": normalize_embeddings or None, "dimensions": truncate_dim}
        how = {**{name: value for name, value in given.items() if value is not None}, **how}
        if prompt in self.prompts or prompt == "":
            prompt_name, prompt = prompt, None
        if prompt is not None:
            prompt_name = ""
            texts = prompt + texts if isinstance(texts, str) else [prompt + text for text in each_text(texts)]
        if not show_progress_bar or isinstance(texts, str):
            return self.embed(texts, prompt=prompt_name, **how)
        texts = [*each_text(texts)]
        with counting("texts", total=len(texts)) as advance:
            return self.embed(texts, prompt=prompt_name, **{"progress": advance, **how})

    def _pool(self, kind: PoolKind | None) -> Pool | None:
        """None for the model's own; without what an embedder has behind it."""
        if kind is None and isinstance(self.reader.model.head, EmbedHead):
            return None
        return Pool(self.reader.model.config.encoder.d_model, PoolConfig(kind=kind or "mean"))

    def _layer(self, layer: int | None) -> int | None:
        if layer is not None and not -self.layers - 1 <= layer <= self.layers:
            raise ValueError(f"layer={layer}: there are 0, the embedding, to {self.layers}; -1 is the last")
        return None if layer is None else layer % (self.layers + 1)

    def words(
        self, texts: Sequence[str], *, layers: Sequence[int] | None = None, too_long: TooLong = "error"
    ) -> list[WordVectors]:
        """Each word of each text in one vector a layer: the mean of its tokens' states. Of a text that is
        cut, with a warning, only the words that are read."""
        if too_long == "windows":
            raise ValueError("too_long='windows' would give words several vectors: choose cut or error")
        wanted = range(self.layers + 1) if layers is None else layers
        chosen = [number for layer in wanted if (number := self._layer(layer)) is not None]
        if not chosen:
            raise ValueError("layers is empty: name some, or leave it out for all of them")
        tokenizer, found = self.reader.tokenizer, []
        pieces = self.reader.pieces(texts, None, too_long)
        self.reader.warn_of_cuts(pieces)
        states = self.reader.read(pieces, lambda states, _: states, rows="tokens", layer=chosen)
        for number, text in enumerate(texts):
            encoding = tokenizer.encode(text, template="cls")
            read = range(len(encoding)) if pieces[number].whole else cut(encoding, self.reader.longest)
            row_of = {place: row for row, place in enumerate(read)}
            spans, places = [], []
            for word in range(encoding.word_counts[0]):
                own = [place for place in encoding.subwords(word) if place in row_of]
                if own:
                    offsets = [encoding.offsets[place] for place in own]
                    spans.append((min(start for start, _ in offsets), max(end for _, end in offsets)))
                    places.append([row_of[place] for place in own])
            tokens = states[number].swapaxes(0, 1)  # [layers, tokens, d_model]
            none = np.empty((len(chosen), 0, tokens.shape[2]), np.float32)
            vectors = np.stack([tokens[:, own].mean(axis=1) for own in places], axis=1) if places else none
            found.append(WordVectors(text, tuple(spans), vectors))
        return found


def open_embedder(
    folder: Path | str, *, device: str = "auto", precision: Precision | None = None
) -> Embedder:
    """Vectors can be had of any encoder: what any task has trained, or a folder of Hugging Face's."""
    _, reader = open_reader(folder, None, device=device, precision=precision)
    return Embedder(reader)


def shortened(vectors: np.ndarray, dimensions: int | None, *, unit: bool) -> np.ndarray:
    """The first so many numbers of each; `unit`, of length 1 again."""
    if dimensions is None:
        return vectors
    if not 1 <= dimensions <= vectors.shape[-1]:
        raise ValueError(
            f"dimensions={dimensions} must be from 1 to {vectors.shape[-1]}, the width of the vectors"
        )
    short = vectors[..., :dimensions]
    if unit:
        short = short / np.maximum(np.linalg.norm(short, axis=-1, keepdims=True), 1e-12)
    return np.ascontiguousarray(short, dtype=np.float32)


def _joined(pieces: Sequence[Piece], rows: Sequence[np.ndarray], texts: int, *, unit: bool) -> np.ndarray:
    """One vector for each text: the mean over its windows."""
    if len(pieces) == texts:
        return np.stack(rows)
    sums = np.zeros((texts, len(rows[0])), dtype=np.float64)
    for piece, row in zip(pieces, rows, strict=True):
        sums[piece.text] += row
    counts = np.bincount([piece.text for piece in pieces], minlength=texts)
    sums /= np.maximum(counts, 1)[:, None]
    if unit:
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return sums.astype(np.float32)
