"""Translations of very many texts: the same that `regard translate` writes."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.memory import read_glossary
from regard.memory.glossary import GlossarySettings
from regard.tasks.base.bulk import Bulk, Kind, counted
from regard.tasks.base.decoding import changed
from regard.tasks.base.faster import Precision
from regard.tasks.base.lines import WINDOW
from regard.tasks.base.predictor import Progress
from regard.tasks.translation.engine import Split, TooLong
from regard.tasks.translation.languages import pair_of
from regard.tasks.translation.lines import one_line
from regard.tasks.translation.opening import open_translator
from regard.tasks.translation.pieces import number_sources
from regard.tasks.translation.result import TranslationWarning
from regard.text import DataError


class TranslateBulk:
    def __init__(
        self,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: Precision | None = None,
        to: str | None = None,
        source_language: str | None = None,
        too_long: TooLong = "split",
        split: Split = "auto",
        decoding: Mapping[str, Any] | None = None,
        greedy: bool = False,
        glossary: str | None = None,
        scores: bool = False,
        flags: bool = False,
    ) -> None:
        self.translator = open_translator(folder, device=device, precision=precision)
        likely = pair_of(Path(folder))
        which = GlossarySettings(
            source=source_language,
            target=to,
            likely=(likely[0], likely[1] if len(self.translator.languages) < 2 else None),
        )
        self._how: dict[str, Any] = {
            "to": to,
            "source_language": source_language,
            "too_long": too_long,
            "split": split,
            "decoding": changed(self.translator.decoding, dict(decoding or {}), greedy=greedy),
            "glossary": None if glossary is None else read_glossary(Path(glossary), settings=which),
            "flags": flags,
        }
        self.kinds: dict[str, Kind] = {"translation": "text"}
        if scores:
            self.kinds |= {"score": "number", "confidence": "number"}
        if flags:
            self.kinds["flags"] = "texts"

    def __call__(self, *texts: Sequence[str], progress: Progress | None = None) -> Bulk:
        (own,) = texts
        bad = self._refused(own)
        given = ["" if number in bad else text for number, text in enumerate(own)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TranslationWarning)
            every = self.translator.stream(given, window=WINDOW, progress=progress, **self._how)
            found = [None if number in bad else each for number, each in enumerate(every)]
        values: dict[str, list[Any]] = {
            "translation": [None if each is None else each.text for each in found],
            "score": [None if each is None else round(each.score, 6) for each in found],
            "confidence": [None if each is None else round(each.confidence, 6) for each in found],
            "flags": [None if each is None else [*(each.flags or ())] for each in found],
        }
        there = [each for each in found if each is not None]
        tally = Counter(flag for each in there for flag in each.flags or ())
        return Bulk(
            columns={name: values[name] for name in self.kinds},
            tokens=sum(map(len, self.translator.encode(own, *self._languages))),
            flags=counted(
                blank=sum(each.pieces == 0 for each in there),
                split=sum(each.pieces > 1 for each in there),
                unfinished=sum(not each.finished for each in there),
                unknown=sum(each.unknown > 0 for each in there),
            )
            | dict(tally),
            bad=bad,
            lines=["" if each is None else one_line(each.text) for each in found],
        )

    @property
    def _languages(self) -> tuple[str | None, str | None]:
        (to,) = self.translator.languages_of(self._how["to"], 1)
        return to, self._how["source_language"]

    def _refused(self, texts: Sequence[str]) -> dict[int, str]:
        """Those that are too long, where that is an error, and what is said of them; nothing is decoded."""
        how, bad = self._how, dict[int, str]()
        if how["too_long"] != "error":
            return bad
        options = self.translator.options(how["decoding"], too_long="error", split=how["split"])
        to, reads = self._languages
        for number, text in enumerate(texts):
            try:
                self.translator.plan(number_sources([text], [to], [""], None, 1, reads), options)
            except DataError as error:
                bad[number] = f"{error.reason} {error.particulars}".strip()
        return bad
