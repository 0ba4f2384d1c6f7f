"""A config.json, its keys checked by the lists of a family (`regard.hub.keys`); values are asked for by our
words.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from regard.hub.files import HubError
from regard.hub.keys import check_keys, refuse_code
from regard.hub.names import TABLES, Family

Activation = Literal["gelu", "gelu_tanh", "relu"]

_ACTIVATIONS: dict[str, Activation] = TABLES["config"]["activations"]
_MOST = 2**28
"""No count of a model is higher: products of two still fit into a size."""
_KINDS: dict[str, str] = TABLES["config"]["endings"]

F_co = TypeVar("F_co", bound=Family, covariant=True)


class Facts(Generic[F_co]):
    def __init__(self, path: Path, table: dict[str, Any], family: F_co) -> None:
        self.path = path
        self.table = table
        self.family: F_co = family
        refuse_code(self.table, path)
        check_keys(self.table, family.keys.values(), path, only=family.only, metadata=family.metadata)

    @property
    def tied(self) -> bool:
        """Whether the output matrix should be the embedding."""
        said = self.table.get("tie_word_embeddings")
        return (self.family.defaults.get("tied", True) if said is None else said) is not False

    def get(self, word: str) -> Any:
        return self.table.get(self.family.keys.get(word, ""), self.family.defaults.get(word))

    def count(self, word: str, least: int = 1) -> int:
        value = self.get(word)
        if type(value) is not int or not least <= value <= _MOST:
            raise HubError(
                f"{self.path}: {self.family.keys[word]}={value!r:.60} must be a whole number from {least} "
                f"to {_MOST}"
            )
        return value

    def number(self, word: str) -> float:
        value = self.get(word)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
            raise HubError(f"{self.path}: {self.family.keys[word]}={value!r:.60} must be an ordinary number")
        return float(value)

    def flag(self, word: str) -> bool:
        value = self.get(word)
        if not isinstance(value, bool):
            raise HubError(f"{self.path}: {self.family.keys[word]}={value!r:.60} must be true or false")
        return value

    def activation(self, word: str = "activation") -> Activation:
        value = self.get(word)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise HubError(
                f"{self.path}: {self.family.keys[word]}={value!r:.60} is none of {', '.join(_ACTIVATIONS)}"
            )
        return _ACTIVATIONS[value]

    def architectures(self) -> list[str]:
        named = self.table.get("architectures") or []
        if not isinstance(named, list):
            raise HubError(f"{self.path}: architectures={named!r:.60} must be a list of names")
        return [str(name) for name in named]

    def kind(self, present: Iterable[str]) -> str:
        """Which head the architecture has; one that has no counterpart here is refused by its name."""
        named, family = self.architectures(), self.family
        for name in named:
            ending = re.search(r"(For[A-Z]\w*|LMHeadModel|Model)$", name)
            kind = _KINDS.get(ending[1]) if ending else None
            if ending and kind in family.heads and name == family.stem + ending[1]:
                return str(kind)
        if named:
            known = [family.stem + ending for ending, kind in _KINDS.items() if kind in family.heads]
            raise HubError(
                f"{self.path}: architectures={named!r:.60} is for something that is not done here, only "
                f"{', '.join(known)}; "
                f'to take the encoder without its head, write ["{family.stem}Model"] there'
            )
        masked = family.called("head.dense.weight", "masked")
        return "masked" if masked in present else "embed"


@contextmanager
def told_by(path: Path) -> Iterator[None]:
    """What a configuration of ours refuses is refused in the name of this file."""
    try:
        yield
    except HubError:
        raise
    except ValueError as error:
        raise HubError(f"{path}: {error}") from error
