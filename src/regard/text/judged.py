"""A set of queries and texts with judgements of which text answers which query, as BEIR and TREC write them.

    corpus     .jsonl {"_id": "d1", "title": "...", "text": "..."}   .tsv d1<tab>text    else a text a line
    queries    .jsonl {"_id": "q1", "text": "..."}                   .tsv q1<tab>text    else a query a line
    qrels      .jsonl and .tsv query-id, corpus-id, score            else q1 0 d1 2, as TREC has them

A title goes before its text. What stands a line has the number of its line, from 1, for an id. Judgements are
whole numbers; more than 0 is relevant.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.text.files import COMPRESSED, scan
from regard.text.records import DataError, Origin
from regard.text.tables import json_objects

Judgements = Mapping[str, Mapping[str, int]]
"""Of each query, by its id: of each text that was judged, by its id, how relevant it is."""

_IDS = ("_id", "id", "query-id", "qid", "pid", "docid", "corpus-id")
_OBJECTS = (".jsonl", ".ndjson")
_QUERIES, _TEXTS = ("query-id", "qid", "query_id"), ("corpus-id", "docid", "pid", "doc_id")


@dataclass(frozen=True, slots=True)
class Judged:
    """A whole set."""

    queries: dict[str, str]
    """By id; those that have a relevant text."""
    corpus: dict[str, str]
    """By id, in the order of the file."""
    judgements: dict[str, dict[str, int]]
    unasked: int
    """Queries of the file without a relevant text, which are left out."""
    unknown: int
    """Relevant texts that are not in the corpus: nobody can find them, and they count all the same."""
    named: bool = False
    """Whether ids were given, and are not numbers of lines."""

    def is_own(self, query: str, text: str) -> bool:
        """Whether a text has the id of the query: it is the query itself, as BEIR has it, and no hit. One
        that was judged is."""
        return self.named and query == text and text not in self.judgements[query]

    @property
    def own(self) -> int:
        return sum(self.is_own(query, query) for query in self.queries if query in self.corpus)


def read_judged(queries: Path, corpus: Path, qrels: Path, *, encoding: str = "utf-8") -> Judged:
    asked = read_identified(queries, encoding=encoding)
    texts = read_identified(corpus, encoding=encoding)
    judged = read_judgements(qrels, encoding=encoding)
    known = {query: own for query, own in judged.items() if query in asked}
    if not known:
        first = next(iter(judged), "")
        raise DataError(
            Origin(str(qrels)),
            "no judgement is of a query",
            f"(the first is of {first!r:.40}, and {queries} begins with {next(iter(asked), '')!r:.40})",
            remedy="give files whose ids are the same",
        )
    useful = {query: own for query, own in known.items() if any(grade > 0 for grade in own.values())}
    if not useful:
        raise DataError(Origin(str(qrels)), "no text is relevant", remedy="give judgements of more than 0")
    wanted = [text for own in useful.values() for text, grade in own.items() if grade > 0]
    missing = sum(text not in texts for text in wanted)
    if missing == len(wanted):
        raise DataError(
            Origin(str(qrels)),
            f"none of the relevant texts is in {corpus}",
            f"(the first is {wanted[0]!r:.40}, and the corpus begins with {next(iter(texts), '')!r:.40})",
            remedy="give files whose ids are the same",
        )
    kept = {query: text for query, text in asked.items() if query in useful}
    named = all(_ending(path) in (*_OBJECTS, ".tsv") for path in (queries, corpus))
    return Judged(kept, texts, useful, len(asked) - len(kept), missing, named)


def read_identified(path: Path, *, encoding: str = "utf-8") -> dict[str, str]:
    """Texts by their ids."""
    found: dict[str, str] = {}
    for id, text, origin in _identified(path, encoding):
        if id in found:
            raise DataError(origin, "an id for the second time", f"({id!r:.60})", "give each text its own")
        found[id] = text
    if not found:
        raise DataError(Origin(str(path)), "no text in it", remedy="give a file that has some")
    return found


def _identified(path: Path, encoding: str) -> Iterator[tuple[str, str, Origin]]:
    match _ending(path):
        case ending if ending in _OBJECTS:
            for object, origin in _objects(path, encoding):
                title, text = object.get("title") or "", object.get("text")
                if not isinstance(text, str) or not isinstance(title, str):
                    raise DataError(origin, 'no "text" in it', remedy='write {"_id": ..., "text": ...}')
                yield _id(object, _IDS, origin), f"{title} {text}".strip(), origin
        case ".tsv":
            for number, (line, origin) in enumerate(_lines(path, encoding)):
                id, tab, text = line.partition("\t")
                if not tab:
                    raise DataError(
                        origin, "no tab in it", f"({line!r:.60})", "write an id, a tab and a text"
                    )
                if number or id.strip().casefold() not in _IDS:
                    yield id.strip(), text.replace("\t", " ").strip(), origin
        case _:
            for line, origin in _lines(path, encoding):
                yield str(origin.line), line.strip(), origin


def read_judgements(path: Path, *, encoding: str = "utf-8") -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for query, text, grade in _judgements(path, encoding):
        found.setdefault(query, {})[text] = grade
    if not found:
        raise DataError(Origin(str(path)), "no judgement in it", remedy="give a file that has some")
    return found


def _judgements(path: Path, encoding: str) -> Iterator[tuple[str, str, int]]:
    if _ending(path) in _OBJECTS:
        for object, origin in _objects(path, encoding):
            query, text = _id(object, _QUERIES, origin), _id(object, _TEXTS, origin)
            yield query, text, _grade(object.get("score", 1), origin)
        return
    for number, (line, origin) in enumerate(_lines(path, encoding)):
        cells = line.split("\t") if "\t" in line else line.split()
        if number == 0 and cells[0].strip().casefold() in _QUERIES:
            continue
        if len(cells) not in (3, 4):
            remedy = "write query, text and grade, or as TREC has it: query, 0, text and grade"
            raise DataError(origin, f"{len(cells)} cells in a judgement", f"({line!r:.60})", remedy)
        yield cells[0].strip(), cells[-2].strip(), _grade(cells[-1], origin)


def _grade(value: object, origin: Origin) -> int:
    try:
        number = float(str(value))
        if number != int(number):
            raise ValueError
        return int(number)
    except (ValueError, OverflowError):
        raise DataError(origin, "no whole number for a grade", f"but {value!r:.40}") from None


def _id(object: Mapping[str, object], names: tuple[str, ...], origin: Origin) -> str:
    value = next((object[name] for name in names if name in object), None)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise DataError(origin, f"no {names[0]!r} in it", remedy=f"name it {', '.join(names)}")
    return str(value)


def _objects(path: Path, encoding: str) -> Iterator[tuple[dict[str, object], Origin]]:
    for found in json_objects(scan(path, encoding=encoding), str(path)):
        if isinstance(found, DataError):
            raise found
        yield found


def _lines(path: Path, encoding: str) -> Iterator[tuple[str, Origin]]:
    """Those that are not blank."""
    for number, line in enumerate(scan(path, encoding=encoding), 1):
        if isinstance(line, DataError):
            raise line
        if line.strip():
            yield line, Origin(str(path), number)


def _ending(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix in COMPRESSED else path
    return inner.suffix.casefold()


def write_run(path: Path, found: Mapping[str, list[tuple[str, float]]], name: str = "regard") -> None:
    """What was found for each query, best first, as TREC has it: q1 Q0 d7 1 0.83 regard."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for query, hits in found.items():
            for rank, (text, score) in enumerate(hits, 1):
                file.write(f"{_word(query)} Q0 {_word(text)} {rank} {score:.9g} {name}\n")


def _word(id: str) -> str:
    """TREC parts cells by blanks."""
    return re.sub(r"\s+", "_", id)
