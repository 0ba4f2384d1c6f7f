"""Translators of Hugging Face: what every family of them shares.

What MarianMT and M2M100 do their own way stands in their files of `regard.hub.families`. A round trip keeps
every tensor to the bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from regard.hub.generation import Search
from regard.settings.models import Seq2SeqConfig
from regard.text import Tokenizer

Marks = Literal["source", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorCheckpoint(Search):
    """A translator of strangers in our words, or one of ours on the way to them; and how it is searched."""

    config: Seq2SeqConfig
    weights: dict[str, Tensor]
    """By the names of `Seq2Seq(config).named_parameters()`: these, and none besides."""
    tokenizer: Tokenizer
    longest: int
    """The most tokens of a source, special ones included."""
    languages: tuple[str, ...] = ()
    """Those that it writes, if it has to be told which."""
    marks: Marks = "source"
    """Where it is told: before the source alone, or the source's there and the target's before the target."""
    source_language: str | None = None
    """What it reads unless told otherwise, where it has to be told."""
    several_sentences: float | None = None
    """The share of sources with several sentences in its training, where that is known."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What may stand before a source, by name: "summarize: "."""
    default_prompt: str = ""
    """The name of the one that does unless another is asked for; none, if empty."""
