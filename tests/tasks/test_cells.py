"""Cells of tables with tags, placeholders and lines, through a translator."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.memory import Match, Recall
from regard.tasks.base.sources import source_of
from regard.tasks.translation import commands
from regard.tasks.translation.cells import translate_cells
from regard.tasks.translation.lines import translate_table
from regard.tasks.translation.result import Alternative
from regard.text import DataError
from tests.documents.standin import StandIn, careless, same, upper
from tests.tasks.copying import WORDS, translator

pytestmark = pytest.mark.filterwarnings("ignore::regard.tasks.translation.result.TranslationWarning")
CODED = {
    "Open <b>%(file)s</b> now": "OPEN <b>%(file)s</b> NOW",
    "one\n  two %s\r\n\nthree": "ONE\n  TWO %s\r\n\nTHREE",
    "%s: {0}": "%s: {0}",
    " plain text ": "PLAIN TEXT",
    "": "",
    "{n, plural, one {# file} other {# files}}": "{n, plural, one {# FILE} other {# FILES}}",
    '<a href="https://x.org/a?b=c">here</a>, <br/> a <': '<a href="https://x.org/a?b=c">HERE</a>, <br/> A <',
    "  see https://x.org/station {name} ": "  SEE https://x.org/station {name} ",
}


CODES = [
    "<b>",
    "</b>",
    "<br/>",
    "%s",
    "%(file)s",
    "{0}",
    "https://x.org/station",
    '<a href="https://x.org/a?b=c">',
]


class Standing(StandIn):
    decoding = DecodeConfig()


def table(folder, cells):
    path = folder / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([cell] for cell in cells)])
    return source_of(str(path))


def test_tags_placeholders_and_lines_stay_and_plain_text_is_read_as_it_stands():
    stand_in = Standing(upper)
    found = [*translate_cells(stand_in, CODED, window=3)]
    assert {each.source: each.text for each in found} == CODED
    assert "Open %(file)s now" in stand_in.read
    assert " plain text " in stand_in.read
    assert not any("<" in text and ">" in text for text in stand_in.read)


@pytest.mark.parametrize("window", [1, 2, 50])
def test_nothing_is_lost_whatever_the_model_does(window):
    cells = [*CODED] * 20
    numbered = (f"{i} {cell}" for i, cell in enumerate(cells))
    found = [*translate_cells(Standing(careless), numbered, window=window)]
    assert [each.source.partition(" ")[2] for each in found] == cells
    for each in found:
        if any(sign in each.source for sign in "<%{"):
            assert {code: each.text.count(code) for code in CODES} == {
                code: each.source.count(code) for code in CODES
            }
            assert each.text.count("\n") == each.source.count("\n")


def test_a_table_keeps_the_marks_of_its_cells(tmp_path):
    out = io.StringIO()
    translate_table(Standing(upper), table(tmp_path, CODED), out, "csv", flags=True)
    rows = [*csv.DictReader(io.StringIO(out.getvalue(), newline=""))]
    assert [row["translation"] for row in rows[:1]] == ["OPEN <b>%(file)s</b> NOW"]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Open <b>%(file)s</b> now"}) + "\n")
    out = io.StringIO()
    translate_table(Standing(upper), source_of(str(tmp_path / "a.jsonl")), out, "jsonl")
    assert json.loads(out.getvalue())["translation"] == "OPEN <b>%(file)s</b> NOW"


def test_a_placeholder_that_is_lost_is_put_back_and_flagged():
    class Flagging(Standing):
        def stream(self, lines, **settings):
            return (replace(each, flags=("copied",)) for each in super().stream(lines, **settings))

    lossy = Flagging(lambda text: (text.replace("%s", "").upper(), []))
    (found,) = translate_cells(lossy, ["open %s now"], flags=True)
    assert found.text == "OPEN %s NOW"
    assert found.flags == ("placeholder", "copied")


def test_other_translations_keep_placeholders_or_are_left_out():
    class Several(Standing):
        def stream(self, lines, **settings):
            for each in super().stream(lines, **settings):
                texts = (each.text, each.text.lower(), each.text.replace("%S", "").replace("%s", ""))
                others = tuple(Alternative(text, -i, -i, True, 0.5) for i, text in enumerate(texts))
                yield replace(each, alternatives=others)

    (found,) = translate_cells(Several(upper), ["open <b>%s</b> now"])
    assert [each.text for each in found.alternatives] == ["OPEN <b>%s</b> NOW", "open <b>%s</b> now"]


def test_numbers_stay_where_they_are_to_stay():
    wrong = Standing(lambda text: (text.replace("7", "9").upper(), []))
    assert [each.text for each in translate_cells(wrong, ["take 7", "7"])] == ["TAKE 9", "9"]
    assert [each.text for each in translate_cells(wrong, ["take 7", "7"], numbers=True)] == ["TAKE 7", "7"]


def test_a_cell_that_a_memory_has_is_not_cut_and_tags_are_put_into_what_it_has_for_the_text():
    known = {"a <b>dog</b>": "ein <i>Hund</i>", "the old house": "das alte Haus"}

    def search(text):
        return [Match(text, known[text], 100, "en", "de")] if text in known else []

    class Remembering(Standing):
        links = ((0, 0), (1, 1), (2, 2))

        def stream(self, lines, *, memory, **settings):
            for each in super().stream(lines, **settings):
                found = memory.search(each.source)
                yield replace(each, text=found[0].target, remembered=True, alignment=None) if found else each

        def align(self, source, target, **languages):
            return self

    cells = ["a <b>dog</b>", "the old <b>house</b>", "the <b>old</b> cat"]
    found = [*translate_cells(Remembering(upper), cells, memory=Recall(search))]
    assert [each.text for each in found] == ["ein <i>Hund</i>", "das alte <b>Haus</b>", "THE <b>OLD</b> CAT"]
    assert [each.remembered for each in found] == [True, True, False]


def test_each_cell_counts_once_as_progress():
    class Counting(Standing):
        def stream(self, lines, *, progress, **settings):
            for each in super().stream(lines, **settings):
                progress(1)
                yield each

    counts = Counter()
    cells = [*CODED, "%s", "last"]
    [*translate_cells(Counting(same), cells, progress=lambda done: counts.update(done=done))]
    assert counts["done"] in (len(cells) - 1, len(cells))


def test_a_cell_too_long_is_told_with_its_line_whatever_is_before_it(tmp_path):
    cells = ["mirror", "garden\nbridge %s\nharbour", "%s", "mirror <b>garden</b>", " ".join(WORDS * 3)]
    random = translator(decoding=DecodeConfig(beam=2, maximum=4))
    for window in (1, 2, 100):
        with pytest.raises(DataError, match=r"a\.csv:8: too long: .*--too-long split"):
            translate_table(
                random, table(tmp_path, cells), io.StringIO(), "csv", too_long="error", window=window
            )


def test_tables_without_marks_are_what_the_translator_gives(tmp_path):
    random = translator(decoding=DecodeConfig(method="sample", maximum=6, seed=3))
    texts = [f"{word} {other}" for word in WORDS for other in WORDS[:3]]
    found = [*translate_cells(random, texts, window=7)]
    assert [each.text for each in found] == [each.text for each in random.translate(texts)]


@pytest.mark.parametrize("how", [{"fresh": True}, {"report": Path("r.json")}, {"set": ["encoding=cp1252"]}])
def test_options_of_documents_are_refused_where_there_are_none(tmp_path, how):
    (tmp_path / "a.csv").write_text("text\na\n")
    (name,) = how
    with pytest.raises(ConfigError, match=rf"--{name} is of documents, but .*a\.csv is none: leave it out"):
        commands.translate(tmp_path, [str(tmp_path / "a.csv")], out=io.StringIO(), **how)
    with pytest.raises(ConfigError, match="--keep-numbers is of documents and tables"):
        commands.translate(tmp_path, ["a text"], out=io.StringIO(), keep_numbers=True)
