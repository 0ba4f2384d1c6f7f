"""The table of families: each is one file of this folder, and one row here.

Where several could write a model, the first that claims it does; the last of a kind claims whatever is left.
"""

from pathlib import Path
from typing import TypeVar

from regard.hub.facts import Facts
from regard.hub.families.bert import BERT
from regard.hub.families.distilbert import DISTILBERT
from regard.hub.families.gpt2 import GPT2
from regard.hub.families.llama import LLAMA
from regard.hub.families.m2m100 import M2M100
from regard.hub.families.marian import MARIAN
from regard.hub.families.mistral import MISTRAL
from regard.hub.families.modernbert import MODERNBERT
from regard.hub.families.mpnet import MPNET
from regard.hub.families.qwen import QWEN2, QWEN3
from regard.hub.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from regard.hub.families.t5 import MT5, T5
from regard.hub.family import DecoderFamily, EncoderFamily, TranslatorFamily
from regard.hub.files import HubError, read_table
from regard.hub.names import Family

__all__ = [
    "DECODERS",
    "ENCODERS",
    "GPT2",
    "MARIAN",
    "MODERNBERT",
    "TRANSLATORS",
    "family_named",
    "read_facts",
]

ENCODERS = (MODERNBERT, MPNET, CAMEMBERT, XLM_ROBERTA, ROBERTA, DISTILBERT, BERT)
DECODERS = (QWEN3, QWEN2, MISTRAL, LLAMA, GPT2)
TRANSLATORS = (MT5, T5, M2M100, MARIAN)

_SORTS: dict[type[Family], tuple[str, tuple[Family, ...]]] = {
    EncoderFamily: ("an encoder", ENCODERS),
    DecoderFamily: ("a language model", DECODERS),
    TranslatorFamily: ("a translator", TRANSLATORS),
}
F = TypeVar("F", bound=Family)


def family_named(kind: object, sort: type[F]) -> F | None:
    """The family of this sort with this `model_type`."""
    families = _SORTS[sort][1]
    return next((each for each in families if each.name == kind and isinstance(each, sort)), None)


def read_facts(path: Path, sort: type[F]) -> Facts[F]:
    """A config.json, if it is of a family of this sort; any other is refused by its name."""
    table = read_table(path)
    kind = table.get("model_type")
    family = family_named(kind, sort)
    if family is None:
        raise HubError(f"{path}: model_type={kind!r:.60} is {_other(kind, table, sort)}")
    return Facts(path, table, family)


def _other(kind: object, table: dict[str, object], sort: type[Family]) -> str:
    """What a `model_type` is that is none of the families, in the words of the error about it."""
    wanted = ", ".join(each.name for each in _SORTS[sort][1])
    for other, (words, _) in _SORTS.items():
        if family_named(kind, other):
            return f"{words}, where one of {wanted} is wanted: give another folder"
    if kind is None:
        missing = "where the key is missing from an old file, write it in"
        return f"none of {wanted}: only these can be read ({missing})"
    architectures = table.get("architectures")
    named = f" (architectures={architectures!r:.60})" if architectures else ""
    return (
        f"none of {wanted}: only these can be read{named}. Another needs a family of its own: a file in "
        "src/regard/hub/families with the names of its tensors and keys; CONTRIBUTING.md says how to add one"
    )
