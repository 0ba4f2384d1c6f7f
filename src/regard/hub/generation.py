"""How a translator of Hugging Face's searches: generation_config.json or, in older folders, config.json.

What has a counterpart here is taken over, the rest is told in one warning. Lengths there count the start and
the end of a translation, and the language before it; here they do not.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.hub.facts import Facts
from regard.hub.files import HubError, HubWarning, read_table_if_there
from regard.hub.names import Family
from regard.text import Tokenizer

FILE = "generation_config.json"
_MOST = 1_000_000
_OTHERS: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "renormalize_logits": (False,),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "diversity_penalty": (0,),
    "num_beam_groups": (1,),
    "sequence_bias": ({},),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    "constraints": ([],),
    "force_words_ids": ([],),
}
"""Settings that change what is written and have no counterpart, with the values that do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How the makers of a translator search, in the words of `DecodeConfig`; None where they do not say."""

    beam: int | None = None
    """1 for greedy search."""
    length_penalty: float | None = None
    stop: Literal["full", "exact", "estimate"] | None = None
    minimum: int | None = None
    maximum: int | None = None
    no_repeat: int | None = None
    repetition_penalty: float | None = None


class _Settings:
    """The tables of both files; errors name the one that a value is from."""

    def __init__(self, folder: Path, facts: Facts[Family]) -> None:
        self.path, self._older = folder / FILE, facts
        self._own = read_table_if_there(self.path)
        self.table: Mapping[str, Any] = {**facts.table, **self._own}

    def wrong(self, key: str, rule: str) -> HubError:
        path = self.path if key in self._own else self._older.path
        return HubError(f"{path}: {key}={self.table[key]!r:.60} must be {rule}")

    def count(self, key: str, least: int, most: int = _MOST) -> int | None:
        value = self.table.get(key)
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise self.wrong(key, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str) -> float | None:
        value = self.table.get(key)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (plain and math.isfinite(value) and abs(value) <= _MOST):
            raise self.wrong(key, "an ordinary number")
        return None if value is None else float(value)


def read_search(folder: Path, facts: Facts[Family], tokenizer: Tokenizer, *, before: int) -> Search:
    """`before`: how many tokens of theirs stand before what is written."""
    settings = _Settings(folder, facts)
    stopping = settings.table.get("early_stopping")
    if stopping not in (None, True, False, "never"):
        raise settings.wrong("early_stopping", "true, false or 'never'")
    penalty = settings.number("repetition_penalty")
    if penalty is not None and penalty <= 0:
        raise settings.wrong("repetition_penalty", "above 0")
    least = (settings.count("min_length", 0), before), (settings.count("min_new_tokens", 0), before - 1)
    most = (settings.count("max_length", 1), before + 1), (settings.count("max_new_tokens", 1), before)
    minimum = [max(value - taken, 0) for value, taken in least if value]
    maximum = [max(value - taken, 1) for value, taken in most if value is not None]
    _warn(settings, tokenizer)
    beam = settings.count("num_beams", 1, 1024)
    several = beam is not None and beam > 1
    return Search(
        beam=beam,
        length_penalty=settings.number("length_penalty"),
        stop="full"
        if stopping is True
        else "exact"
        if stopping == "never"
        else "estimate"
        if several
        else None,
        minimum=max(minimum, default=None),
        maximum=maximum[-1] if maximum else None,  # max_new_tokens overrules the other
        no_repeat=settings.count("no_repeat_ngram_size", 0),
        repetition_penalty=penalty,
    )


def _warn(settings: _Settings, tokenizer: Tokenizer) -> None:
    table = settings.table
    left = [key for key, plain in _OTHERS.items() if table.get(key) is not None and table[key] not in plain]
    target = tokenizer.target
    never = [[id] for id in (target.vocabulary[token] for token in target.specials) if id != target.ids.end]
    words = table.get("bad_words_ids") or []
    if not isinstance(words, list) or any(word not in never for word in words):
        left.append("bad_words_ids")
    if left:
        warnings.warn(
            f"{settings.path.parent}: it searches with {', '.join(left)}, which is not done here",
            HubWarning,
            stacklevel=4,
        )


def generation_facts(
    search: Search, tokenizer: Tokenizer, *, longest: int, before: int, never: bool
) -> dict[str, Any]:
    """What generation_config.json says: where a translation begins and ends, what is never written, and how
    it is searched for. With `never`, the pad token is forbidden there."""
    tokens = tokenizer.target.ids
    maximum = longest if search.maximum is None else search.maximum
    facts: dict[str, Any] = {
        "decoder_start_token_id": tokens.start,
        "pad_token_id": tokens.pad,
        "eos_token_id": tokens.end,
        "max_length": maximum + before + 1,
        "num_beams": search.beam or 1,
    }
    if facts["num_beams"] > 1:
        facts["length_penalty"] = 1.0 if search.length_penalty is None else search.length_penalty
        facts["early_stopping"] = {"exact": "never", "estimate": False}.get(search.stop or "", True)
    if search.minimum:
        facts["min_length"] = search.minimum + before
    if search.no_repeat:
        facts["no_repeat_ngram_size"] = search.no_repeat
    if search.repetition_penalty not in (None, 1.0):
        facts["repetition_penalty"] = search.repetition_penalty
    return {**facts, "bad_words_ids": [[tokens.pad]]} if never else facts
