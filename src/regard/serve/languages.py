"""Languages by their codes: their names, and which of them are served."""

import re
from collections.abc import Iterable, Sequence

from regard.serve.models import Models, Served
from regard.text.languages import NAMES, base, same, script

CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
"""What the code of a language looks like."""


def name_of(code: str) -> str:
    """The code itself for a language that has no name here; the region in brackets."""
    name = NAMES.get(base(code), base(code))
    region = re.split("[-_]", code)[1:]
    part = region[0].title() if region and len(region[0]) == 4 else "".join(region[:1]).upper()
    return f"{name} ({part})" if part else name


def served_pairs(models: Models) -> dict[str, list[str]]:
    """The targets of each source. A model of which only the targets are known is taken to read those."""
    pairs: dict[str, list[str]] = {}
    for each in models.translators():
        for source in [each.source] if each.source else each.targets:
            own = pairs.setdefault(source, [])
            own += [target for target in each.targets if target not in own and not same(target, source)]
    return pairs


def sources_of(translators: Iterable[Served]) -> list[str] | None:
    """The languages that they read; None if one reads any."""
    found = [each.reads or (each.source,) for each in translators]
    known = [source for own in found for source in own]
    return None if None in known else [*dict.fromkeys(filter(None, known))]


def own_code(known: Sequence[str], language: str) -> str:
    """As a model calls it that knows these: de or deu_Latn for DE and de-AT, zho_Hant for zh-TW."""
    exact = [own for own in known if own.lower() == language.lower()]
    alike = [own for own in known if same(own, language)]
    written = [own for own in alike if script(language) not in (None, script(own))]
    return (exact or [own for own in alike if own not in written] or alike or [language])[0]
