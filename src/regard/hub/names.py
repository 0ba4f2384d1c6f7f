"""The names of a family, ours and Hugging Face's; read in both directions.

`#` is the number of a layer and `*` is weight or bias. Where there are three names, our matrix is the three
laid one under the other: [query ; key ; value]. A `^T` behind a name says that their matrix is ours
transposed.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple

from regard.hub.vocabularies import Vocabulary

DENSE = "dense/"
"""Before the names of tensors of a sentence-transformers Dense module, which has a file of its own."""
TABLES = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))
"""What config.json, the pooling and the special tokens call things, in every family."""


class Theirs(NamedTuple):
    """What one of our parameters is called there."""

    names: tuple[str, ...]
    """None, if the family has no such parameter; several, if ours is theirs one under the other."""
    transposed: bool
    """Their matrix is ours transposed. (A vector stays as it is.)"""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the families of encoders, language models and translators all say of themselves."""

    name: str
    """The `model_type`."""
    stem: str
    """What the names of its architectures begin with."""
    prefix: str
    """Before the names of the body's tensors, in a model that has a head."""
    body: Mapping[str, str]
    """Names of parameters of the encoder, or of a decoder below its head, without the prefix."""
    heads: Mapping[str, Mapping[str, str]]
    """Names of parameters of each kind of head."""
    keys: Mapping[str, str]
    """Our words for what stands in config.json, and its keys."""
    defaults: Mapping[str, object]
    """What a key means that is not there; None, where there is no word for it."""
    buffers: Sequence[str] = ()
    """Tensors that are no parameters: functions of the sizes, not read."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Second names of one tensor, which are written where the output matrix is not tied."""
    only: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Keys that would make it another network, with the values that do not."""
    metadata: str = ""
    """Keys of this family that say nothing about the computation, or are read elsewhere."""
    doubles: Sequence[str] = ()
    """Other names of one tensor, in files where it is written several times."""
    vocabulary: Vocabulary | None = None
    """How its tokenizer is told where there is no tokenizer.json; None, if by its own reader."""

    @property
    def layers(self) -> str:
        """Before the number of a layer, in the names of its tensors."""
        return next(name for name in self.body.values() if "#" in name).partition("#")[0]

    def patterns(self) -> set[str]:
        """The names of all tensors that any model of the family may have, without the prefix."""
        tables = (self.body, *self.heads.values())
        listed = [name for table in tables for found in table.values() for name in found.split()]
        plain = [name.removesuffix("^T") for name in (*listed, *self.buffers, *self.doubles, *self.aliases)]
        plain = [name if "#" in name else re.sub(r"\.\d+\.", ".#.", name, count=1) for name in plain]
        return {name.replace("*", kind) for name in plain for kind in ("weight", "bias")}

    def foreign(self, name: str, head: str) -> Theirs:
        """Their names, without the prefix, for one of ours."""
        table = {**self.body, **self.heads[head]}
        layer = re.search(r"\.layers\.(\d+)\.", name)
        pattern = name if layer is None or name in table else name.replace(layer[0], ".layers.#.", 1)
        if pattern in table:
            found, kind = table[pattern], ""
        else:
            stem, _, kind = pattern.rpartition(".")
            found = table.get(f"{stem}.*", "")
        number = layer[1] if layer else ""
        names = tuple(each.replace("#", number).replace("*", kind) for each in found.split())
        return Theirs(tuple(each.removesuffix("^T") for each in names), found.endswith("^T"))

    def called(self, name: str, head: str) -> str:
        """Their name for one of ours that has just one; "" where there is none."""
        return " ".join(self.foreign(name, head).names)
