"""Questions about texts, with the places of their answers: SQuAD's JSON (1.1 and 2.0), and tables.

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...,
        "answers": [{"text": ..., "answer_start": 42}], "is_impossible": false}]}]}]}

An answer must stand where it says. One that does not is a broken record: its article and id are named.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.text import charsets
from regard.text.files import INVALID, open_bytes
from regard.text.readers import Rows, check_text, read_rows, text_of
from regard.text.records import DataError, Gold, OnError, Origin, Question, Skipped, sift
from regard.text.tables import Column, Row

MOST = 2**30
"""Bytes of a SQuAD file: it is read whole. Tables may be of any size."""


def read_squad(
    path: str | Path,
    *,
    answered: bool = True,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Question]:
    """`answered`: a question must have an answer, or say "is_impossible"."""
    charsets.check_encoding(encoding)
    return sift(_scan_squad(path, answered, encoding), on_error, skipped)


def read_questions(
    table: Rows,
    *,
    question: Column = "question",
    context: Column = "context",
    answer: Column | None = "answer",
    start: Column | None = "start",
    on_error: OnError = "raise",
    skipped: Skipped | None = None,
) -> Iterator[Question]:
    """A question a row. An empty answer: the context has none. Without a `start`, the answer must stand in
    the context once; or be what Hugging Face's data sets have: {"text": [...], "answer_start": [...]}."""
    wanted = [each for each in (question, context, answer) if each is not None]
    if answer is not None and start is not None:
        wanted.append(start)

    def build(row: Row) -> Question:
        asked, passage = text_of(row, 0, question), text_of(row, 1, context)
        where = _Place(row.origin)
        where.check(asked, passage)
        answers: tuple[Gold, ...] = ()
        if answer is not None:
            begins = row.cells[3] if start is not None else None
            answers = tuple(_golds(row.cells[2], begins, start is not None, passage, where))
        return Question(str(row.origin.line), asked, passage, answers, row.origin)

    return read_rows(table, wanted, build, on_error, skipped)


class _Place:
    """Where a question is from, for errors about it."""

    def __init__(self, origin: Origin, particulars: str = "") -> None:
        self.origin, self.particulars = origin, particulars

    def error(self, reason: str, details: str = "") -> DataError:
        return DataError(self.origin, reason, " ".join(part for part in (self.particulars, details) if part))

    def check(self, question: str, context: str) -> None:
        if not question.strip():
            raise self.error("an empty question")
        if not context.strip():
            raise self.error("a question about an empty text")

    def gold(self, text: str, start: int, context: str) -> Gold:
        if start < 0 or context[start : start + len(text)] != text:
            there = context[max(start, 0) : max(start, 0) + len(text)]
            raise self.error(
                "an answer that is not where it says", f"({text!r:.60} at {start}: {there!r:.60})"
            )
        return Gold(text, start)


def _golds(cell: Any, begins: Any, given: bool, context: str, where: _Place) -> Iterator[Gold]:
    if isinstance(cell, Mapping):
        texts, starts = cell.get("text"), cell.get("answer_start")
        if isinstance(texts, str):
            texts, starts = [texts], [starts]
        if (
            not isinstance(texts, list | tuple)
            or not isinstance(starts, list | tuple)
            or len(texts) != len(starts)
        ):
            raise where.error('answers without as many "text" as "answer_start"', f"but {cell!r:.60}")
        cell = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if isinstance(cell, list | tuple):
        for each in cell:
            yield _gold(each, context, where)
        return
    text = check_text("" if cell is None else cell, where.origin, "answer")
    if not text:
        return
    if given:
        yield where.gold(text, _whole(begins, where), context)
        return
    if (count := context.count(text)) != 1:
        found = "not in its text" if not count else f"{count} times in its text"
        raise where.error(f"an answer that stands {found}", f"({text!r:.60}): name the column of its start")
    yield Gold(text, context.index(text))


def _gold(each: Any, context: str, where: _Place) -> Gold:
    if not isinstance(each, Mapping) or not isinstance(each.get("text"), str):
        raise where.error("no answer with a text", f"but {each!r:.60}")
    if not each["text"]:
        raise where.error("an empty answer")
    return where.gold(each["text"], _whole(each.get("answer_start"), where), context)


def _whole(value: Any, where: _Place) -> int:
    try:
        number = float(str(value))  # some tables have 11.0
        if number != int(number):
            raise ValueError
        return int(number)
    except (ValueError, OverflowError):
        raise where.error(
            "an answer without the number of its first character", f"but {value!r:.40}"
        ) from None


def _scan_squad(path: str | Path, answered: bool, encoding: str) -> Iterator[Question | DataError]:
    file = str(path)
    for title, paragraph in _paragraphs(_load(path, encoding), file):
        context = paragraph.get("context")
        for asked in _list(paragraph, "qas", file):
            try:
                yield _question(asked, context, title, file, answered)
            except DataError as error:
                yield error


def _load(path: str | Path, encoding: str) -> Any:
    file = str(path)
    with open_bytes(path) as stream:
        content = stream.read(MOST + 1)
    if len(content) > MOST:
        raise DataError(Origin(file), f"more than {MOST:,} bytes of JSON", remedy="cut it in several files")
    try:
        return json.loads(content.decode(encoding).removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = error.start - content.rfind(b"\n", 0, error.start)
        remedy = charsets.remedy(content[error.start :][: charsets.SAMPLE], tried=encoding)
        reason = INVALID if charsets.is_utf8(encoding) else f"not {encoding}"
        where = f"at byte {byte} (0x{content[error.start]:02x})"
        raise DataError(Origin(file, line), reason, where, remedy.rpartition(" or pass")[0]) from error
    except json.JSONDecodeError as error:
        reason, where = "invalid JSON", f"({error.msg}, column {error.colno})"
        raise DataError(Origin(file, error.lineno), reason, where, remedy="get the file again") from error
    except (ValueError, RecursionError) as error:
        raise DataError(Origin(file), "invalid JSON", f"({error})", remedy="get the file again") from error


def _paragraphs(content: Any, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for article in _list(content, "data", file):
        for paragraph in _list(article, "paragraphs", file):
            if not isinstance(paragraph, Mapping):
                raise _not_squad(file, f"a paragraph is {paragraph!r:.40}")
            yield str(article.get("title", "")), paragraph


def _list(holder: Any, key: str, file: str) -> Sequence[Any]:
    found = holder.get(key) if isinstance(holder, Mapping) else None
    if not isinstance(found, list):
        raise _not_squad(file, f"no list {key!r} in {holder!r:.40}")
    return found


def _not_squad(file: str, why: str) -> DataError:
    remedy = "its form is data, paragraphs, qas; other JSON is read a question a line, from .jsonl"
    return DataError(Origin(file), "not SQuAD's JSON", f"({why})", remedy)


def _question(asked: Any, context: Any, title: str, file: str, answered: bool) -> Question:
    origin = Origin(file)
    name = str(asked.get("id", "")) if isinstance(asked, Mapping) else f"{asked!r:.40}"
    where = _Place(origin, f"(article {title!r:.40}, question {name!r:.40})")
    if not isinstance(asked, Mapping) or not isinstance(asked.get("question"), str):
        raise where.error("no question with a text")
    if not isinstance(context, str):
        raise where.error("no context with a text")
    question = check_text(asked["question"], origin, "question")
    where.check(question, check_text(context, origin, "context"))
    given = asked.get("answers") or []
    if not isinstance(given, list):
        raise where.error("answers that are no list", f"but {given!r:.40}")
    impossible = asked.get("is_impossible") is True
    if impossible or not answered:
        given = []  # those it may have are what looks like one, or nobody's business here
    if answered and not given and not impossible:
        raise where.error('a question without an answer, and not marked "is_impossible"')
    golds = dict.fromkeys(_gold(each, context, where) for each in given)
    return Question(name, question, context, tuple(golds), origin)
