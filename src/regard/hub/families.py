"""The names of each family, ours and Hugging Face's; read in both directions. They stand in families.toml."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple

DENSE = "dense/"
CLASSIFIERS = {"bert": ("pooler", "none"), "roberta": ("first", "tanh"), "distilbert": ("first", "relu")}
"""How a classifier of each family pools, and what its inner layer is. Others are modules of
sentence-transformers around the body: their names are those of the head `scored`."""
"""Before the names of tensors of a sentence-transformers Dense module, which has a file of its own."""


class Theirs(NamedTuple):
    """What one of our parameters is called there."""

    names: tuple[str, ...]
    """None, if the family has no such parameter; several, if ours is theirs one under the other."""
    transposed: bool
    """Their matrix is ours transposed. (A vector stays as it is.)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    name: str
    """The `model_type`."""
    stem: str
    """What the names of its architectures begin with."""
    prefix: str
    """Before the names of the body's tensors, in a model that has a head."""
    body: Mapping[str, str]
    """Names of parameters of the encoder, or of a decoder below its head, without the prefix."""
    buffers: Sequence[str]
    """Tensors that are no parameters: functions of the sizes, not read."""
    heads: Mapping[str, Mapping[str, str]]
    """Names of parameters of each kind of head."""
    aliases: Mapping[str, str]
    """Second names of one tensor, which are written where the output matrix is not tied."""
    keys: Mapping[str, str]
    """Our words for what stands in config.json, and its keys."""
    defaults: Mapping[str, object]
    """What a key means that is not there; None, where there is no word for it."""
    only: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Keys that would make it another network, with the values that do not."""
    metadata: str = ""
    """Keys of this family that say nothing about the computation, or are read elsewhere."""
    doubles: Sequence[str] = ()
    """Other names of one tensor, in files where it is written several times."""
    languages: Mapping[str, str] = field(default_factory=dict)
    """Codes of the languages that tokens are made for, by the name of the list."""

    @property
    def layers(self) -> str:
        """Before the number of a layer, in the names of its tensors."""
        return next(name for name in self.body.values() if "#" in name).partition("#")[0]

    def patterns(self) -> set[str]:
        """The names of all tensors that any model of the family may have, without the prefix."""
        tables = (self.body, *self.heads.values())
        listed = [name for table in tables for found in table.values() for name in found.split()]
        plain = [name.removesuffix("^T") for name in (*listed, *self.buffers, *self.doubles, *self.aliases)]
        return {name.replace("*", kind) for name in plain for kind in ("weight", "bias")}

    def foreign(self, name: str, head: str) -> Theirs:
        """Their names, without the prefix, for one of ours."""
        table = {**self.body, **self.heads[head]}
        layer = re.search(r"\.layers\.(\d+)\.", name)
        pattern = name if layer is None else name.replace(layer[0], ".layers.#.", 1)
        if pattern in table:
            found, kind = table[pattern], ""
        else:
            stem, _, kind = pattern.rpartition(".")
            found = table.get(f"{stem}.*", "")
        number = layer[1] if layer else ""
        names = tuple(each.replace("#", number).replace("*", kind) for each in found.split())
        return Theirs(tuple(each.removesuffix("^T") for each in names), found.endswith("^T"))


TABLES = tomllib.loads(files(__package__).joinpath("families.toml").read_text(encoding="utf-8"))
"""Those of the families, and what config.json, the pooling and the special tokens call things."""


def _family(name: str, like: str = "") -> Family:
    """What a family does not say is said by the one that it is like."""
    base, own = TABLES.get(like, {}), TABLES[name]
    return Family(name=name, **{**base, **own, "defaults": {**base.get("defaults", {}), **own["defaults"]}})


BERT, ROBERTA, DISTILBERT = _family("bert"), _family("roberta", "bert"), _family("distilbert", "bert")
GPT2 = _family("gpt2")
MARIAN, M2M100 = _family("marian"), _family("m2m_100", "marian")

ENCODERS = {"bert": BERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA, "camembert": ROBERTA}
ENCODERS |= {"distilbert": DISTILBERT}
"""By `model_type`. XLM-RoBERTa and CamemBERT are RoBERTa with other vocabularies."""
DECODERS = {"gpt2": GPT2}
"""Language models, by `model_type`. DistilGPT-2 and DialoGPT call themselves gpt2."""
TRANSLATORS = {"marian": MARIAN, "m2m_100": M2M100}
"""By `model_type`. NLLB-200 calls itself m2m_100."""
