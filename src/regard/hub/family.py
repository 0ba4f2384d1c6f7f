"""What a family must say, besides names (`regard.hub.names`), to be read and written: one dataclass for
encoders, one for language models, one for translators. Each family is one file of `regard.hub.families`, and
a row of its table; nothing else in this folder knows a family by its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard.hub.facts import Facts
from regard.hub.names import Family
from regard.hub.pieces import Pieces
from regard.hub.translators import Marks, TranslatorCheckpoint
from regard.models.headed import HeadedConfig
from regard.settings.models import (
    ClassifyConfig,
    DecoderConfig,
    EncoderConfig,
    HeadConfig,
    Seq2SeqConfig,
)
from regard.text import Tokenizer

Pool = Literal["pooler", "first", "mean"]
Inner = Literal["none", "tanh", "relu"]


def no_more(_: HeadedConfig) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class EncoderFamily(Family):
    """Its heads are known by the endings of architectures' names; their tables are in `heads`. `scored`
    names the modules of sentence-transformers around the body, for a classifier that pools otherwise."""

    read: Callable[[Facts["EncoderFamily"], bool], EncoderConfig]
    """The body that a config.json means, with a pooler or without."""
    claims: Callable[[EncoderConfig, Tokenizer], bool]
    """Whether a model of ours is to be written as one of this family: the first that claims it is asked."""
    check: Callable[[HeadedConfig, Tokenizer], None]
    """An error names the setting that the family does not have, and the one that would do."""
    words: Callable[[HeadedConfig], Mapping[str, Any]] = no_more
    """Values for `keys`, beside those that all encoders have."""
    says: Mapping[str, Any] = field(default_factory=dict)
    """What config.json says of every model of the family."""
    classifier: tuple[Pool, Inner] = ("first", "tanh")
    """How its classifier pools, and what its inner layer is."""
    pools: tuple[Pool, ...] = ()
    """Other ways to pool that config.json can say."""
    transformed: bool = False
    """Its heads have a `transform` before the scores."""
    head: Callable[[HeadConfig, Facts["EncoderFamily"]], HeadConfig] = lambda head, facts: head
    """A head as it is read of most families, made this family's."""
    masked_activation: Literal["gelu", "own"] | None = None
    """Of the head for masked words; own: config.json has a key for it; None: that of the layers."""
    dropouts: Mapping[str, str] = field(
        default_factory=lambda: {"classify": "head_dropout", "tag": "head_dropout"}
    )
    """Our word for the dropout before each kind of head; a head that is not here has none."""

    def classifies(self, head: ClassifyConfig) -> bool:
        """Whether its own classifier is like this; another is modules of sentence-transformers around the
        body."""
        pool, inner = self.classifier
        own = head.pool.kind in (pool, *self.pools) and head.inner == inner
        return own and (head.transform is not None) == self.transformed


@dataclass(frozen=True, kw_only=True)
class DecoderFamily(Family):
    architectures: tuple[str, ...]
    """Those that are read; the first is written."""
    read: Callable[[Facts["DecoderFamily"], bool], DecoderConfig]
    """The model that a config.json means, its output matrix tied or not."""
    claims: Callable[[DecoderConfig, Tokenizer | None], bool]
    """Whether a model of ours is to be written as one of this family: the first that claims it is asked."""
    check: Callable[[DecoderConfig, Tokenizer | None], None]
    """An error names the setting that the family does not have, and the one that would do."""
    words: Callable[[DecoderConfig], Mapping[str, Any]]
    """Values for `keys`."""
    tells: bool = False
    """Whether its files tell how texts begin, and of several ends: `regard.hub.conventions`."""
    gguf: Literal["plain", "turned"] | None = None
    """How queries and keys lie in its GGUF files: in our order, or in llama.cpp's; None: none are read."""


@dataclass(frozen=True, kw_only=True)
class TranslatorFamily(Family):
    architecture: str
    read: Callable[[Facts["TranslatorFamily"]], Seq2SeqConfig]
    settled: Callable[[Seq2SeqConfig, Mapping[str, Tensor]], Seq2SeqConfig] = lambda config, tensors: config
    """The same, where its tensors, as `ours` has them, say more than config.json."""
    kind: Callable[[Seq2SeqConfig], str] = lambda config: "shared" if config.shared else "separate"
    """Which of the tables of `heads` has the names of its embeddings, and of what hangs on a setting."""
    claims: Callable[[TranslatorCheckpoint], bool]
    check: Callable[[TranslatorCheckpoint], None]
    words: Callable[[TranslatorCheckpoint], Mapping[str, Any]]
    ours: Callable[[dict[str, Tensor], Facts["TranslatorFamily"], Path], dict[str, Tensor]]
    """Each tensor once, in our shape."""
    theirs: Callable[[dict[str, Tensor], Seq2SeqConfig], dict[str, Tensor]]
    """The way back."""
    pieces: Callable[[Path, Mapping[str, Any]], Pieces]
    """The tokenizer of a folder, by its tokenizer_config.json."""
    write_pieces: Callable[[Path, TranslatorCheckpoint], Mapping[str, Any]]
    """The files of a tokenizer, and what tokenizer_config.json says."""
    marks: Marks
    """Where it is told languages."""
    before: int
    """Tokens of theirs before what is written: the start, and a language."""
    never: bool
    """Whether generation_config.json has to forbid the pad token."""
    sentences: bool = True
    """Whether it learned from pairs of single sentences, so that a text of several is parted."""

    def before_layers(self, side: str) -> str:
        """What stands before the number of a side's layer, in the names of its tensors."""
        own = (theirs for ours, theirs in self.body.items() if ours.startswith(f"{side}."))
        return next(name for name in own if "#" in name).partition("#")[0]
