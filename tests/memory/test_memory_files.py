"""Files into memories and out again, and the commands that do it."""

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.memory import Memory, Segment
from regard.memory.commands import import_memory
from regard.memory.files import ImportSettings, export_file, import_file
from regard.text import DataError

EVERY = [
    Segment("Hello, world", 'Hallo "Welt"', "en-us", "de", "20240131T120000Z", "Anna"),
    Segment("One, two", "Eins, zwei; drei", "en-us", "de"),
    Segment("One, two", "Un, deux", "en-us", "fr"),
]


def regard(*arguments, cwd):
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "m.db", create=True) as opened:
        opened.add(EVERY)
    return tmp_path / "m.db"


@pytest.mark.parametrize("ending", ["tmx", "tsv", "csv"])
def test_what_is_exported_is_imported_again(memory, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    assert export_file(memory, out) == 3
    assert import_file(out, tmp_path / "again.db").imported.new == 3
    with Memory(tmp_path / "again.db") as again:
        assert [*again.segments()] == EVERY
    assert export_file(memory, out, target="fr") == 1
    assert not [*tmp_path.glob(".*")]


def test_csv_holds_line_breaks_and_tsv_has_spaces_for_them(tmp_path):
    with Memory(tmp_path / "m.db", create=True) as opened:
        opened.add([Segment("a", "one\ntwo\tthree", "en", "de")])
    for ending, expected in (("csv", "one\ntwo\tthree"), ("tsv", "one two three")):
        export_file(tmp_path / "m.db", tmp_path / f"o.{ending}")
        import_file(tmp_path / f"o.{ending}", tmp_path / f"{ending}.db")
        with Memory(tmp_path / f"{ending}.db") as again:
            assert next(again.segments()).target == expected


def test_blanks_of_other_kinds_come_through_every_file(tmp_path):
    text = "10\u00a0km,  and  more"
    with Memory(tmp_path / "m.db", create=True) as opened:
        opened.add([Segment("a", text, "en", "de")])
    for ending in ("csv", "tsv", "tmx"):
        export_file(tmp_path / "m.db", tmp_path / f"o.{ending}")
        import_file(tmp_path / f"o.{ending}", tmp_path / f"{ending}.db")
        with Memory(tmp_path / f"{ending}.db") as again:
            assert next(again.segments()).target == text


def test_dates_of_tables_are_checked(tmp_path):
    (tmp_path / "a.csv").write_text("source,target,date\na,b,2024-01-31\nc,d,soon\n")
    how = {"source": "en", "target": "de"}
    with pytest.raises(DataError, match=r"a\.csv:3: a date that is not YYYYMMDDTHHMMSSZ \('soon'\)"):
        import_file(tmp_path / "a.csv", tmp_path / "m.db", ImportSettings(**how))
    import_file(tmp_path / "a.csv", tmp_path / "m.db", ImportSettings(**how, on_error="skip"))
    export_file(tmp_path / "m.db", tmp_path / "o.tmx")
    import_file(tmp_path / "o.tmx", tmp_path / "again.db")
    with Memory(tmp_path / "again.db") as again:
        assert [each.date for each in again.segments()] == ["20240131T000000Z"]


def test_a_header_may_spell_languages_otherwise(tmp_path):
    (tmp_path / "a.csv").write_text("de-DE;en-US\nHallo;Hello\n")
    (tmp_path / "b.csv").write_text("Chinese (Traditional),Norwegian Bokmål\n狗,hund\n")
    import_file(tmp_path / "b.csv", tmp_path / "b.db", ImportSettings(source="nb", target="zh-TW"))
    with Memory(tmp_path / "b.db") as opened:
        assert [(each.source, each.target) for each in opened.segments()] == [("hund", "狗")]
    import_file(tmp_path / "a.csv", tmp_path / "m.db", ImportSettings(source="en", target="de"))
    with Memory(tmp_path / "m.db") as opened:
        assert [(each.source, each.target) for each in opened.segments()] == [("Hello", "Hallo")]


def test_tables_without_a_header_are_a_text_and_its_translation(tmp_path):
    (tmp_path / "a.tsv").write_text("Hello\tHallo\nsource\ttarget\n")
    with pytest.raises(ConfigError, match=r"a\.tsv:1: of which languages\? Give --source and --target"):
        import_file(tmp_path / "a.tsv", tmp_path / "m.db")
    import_file(tmp_path / "a.tsv", tmp_path / "m.db", ImportSettings(source="en", target="de"))
    with Memory(tmp_path / "m.db") as opened:
        assert [(each.source, each.target) for each in opened.segments()] == [
            ("Hello", "Hallo"),
            ("source", "target"),
        ]
    (tmp_path / "b.csv").write_text("de;note;en\nHallo;x;Hello\n")
    settings = ImportSettings(source="en", target="de", separator=";")
    assert import_file(tmp_path / "b.csv", tmp_path / "m.db", settings).imported.known == 1


def test_a_broken_record_stops_the_import_and_changes_nothing_or_is_skipped(tmp_path, memory):
    (tmp_path / "a.tsv").write_text("good\tgut\nbad\n\t\nlast\tletzter\n")
    settings = ImportSettings(source="en", target="de")
    with pytest.raises(DataError, match=r"a\.tsv:2: a row of one cell"):
        import_file(tmp_path / "a.tsv", memory, settings)
    with Memory(memory) as opened:
        assert [*opened.segments()] == EVERY
    outcome = import_file(
        tmp_path / "a.tsv", memory, ImportSettings(source="en", target="de", on_error="skip")
    )
    assert outcome.imported.new == 2
    assert str(outcome.skipped).startswith("2 skipped: ")
    with pytest.raises(DataError, match=r"none\.tmx"):
        import_file(tmp_path / "none.tmx", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_tmx_without_a_source_language_needs_one(tmp_path, memory):
    text = (
        '<tmx version="1.4"><header srclang="*all*"/><body><tu><tuv xml:lang="en"><seg>a</seg></tuv>'
        '<tuv xml:lang="de"><seg>b</seg></tuv><tuv xml:lang="fr"><seg>c</seg></tuv></tu></body></tmx>'
    )
    (tmp_path / "a.tmx").write_text(text)
    with pytest.raises(DataError, match="give --source, one of en, de, fr"):
        import_file(tmp_path / "a.tmx", tmp_path / "m2.db")
    import_file(tmp_path / "a.tmx", tmp_path / "m2.db", ImportSettings(source="de"))
    with Memory(tmp_path / "m2.db") as opened:
        assert {(each.source, each.target) for each in opened.segments()} == {("b", "a"), ("b", "c")}
    with pytest.raises(DataError, match="no unit has 'it'"):
        import_file(tmp_path / "a.tmx", tmp_path / "m2.db", ImportSettings(source="it"))


def test_tmx_is_read_for_the_languages_that_are_wanted(tmp_path):
    def unit(*variants):
        inside = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants)
        return f"<tu>{inside}</tu>"

    units = (
        unit(("en", "one"), ("en", "1"), ("de", "eins")),
        unit(("en", "alone")),
        unit(("en", "two"), ("de", "zwei"), ("fr", "")),
    )
    body = f'<tmx version="1.4"><header srclang="*ALL*"/><body>{"".join(units)}</body></tmx>'
    (tmp_path / "a.tmx").write_text(body)

    def found(**how):
        (tmp_path / "m.db").unlink(missing_ok=True)
        import_file(tmp_path / "a.tmx", tmp_path / "m.db", ImportSettings(**how))
        with Memory(tmp_path / "m.db") as opened:
            return [(each.source, each.target) for each in opened.segments()]

    assert found(source="en", target="de") == [("one", "eins"), ("two", "zwei")]
    assert found(source="en", on_error="skip") == [("one", "eins"), ("two", "zwei")]
    with pytest.raises(DataError, match="an empty segment"):
        found(source="en")
    with pytest.raises(DataError, match="give --source, one of en, en, de"):
        found()


def test_the_prompt_imports_searches_and_exports(tmp_path):
    (tmp_path / "a.tsv").write_text("en\tde\nWhere is the station?\tWo ist der Bahnhof?\nbroken\n")
    run = regard("memory", "import", "a.tsv", "m.db", "--source", "en", "--target", "de", cwd=tmp_path)
    assert run.returncode == 1
    assert "a.tsv:3: a row of one cell" in run.stderr
    assert "--on-error skip" in run.stderr
    options = ["--source", "en", "--target", "de", "--on-error", "skip"]
    run = regard("memory", "import", "a.tsv", "m.db", *options, cwd=tmp_path)
    assert run.stdout.startswith("1 segments into m.db: 1 new")
    assert "1 skipped: 1 a row of one cell (a.tsv:3)" in run.stdout
    run = regard("memory", "search", "m.db", "Where is the hotel?", "--json", cwd=tmp_path)
    (found,) = json.loads(run.stdout)[0]["matches"]
    assert (found["score"], found["target"]) == (80, "Wo ist der Bahnhof?")
    run = regard("memory", "search", "m.db", "Where is the hotel?", "--at-least", "81", cwd=tmp_path)
    assert run.stdout == "nothing that scores 81 or more\n"
    assert regard("memory", "export", "m.db", "o.tmx", cwd=tmp_path).stdout == "1 segments into o.tmx\n"
    (tmp_path / "terms.csv").write_text("term,translation\nstation,Bahnhof\n")
    run = regard(
        "memory",
        "import",
        "terms.csv",
        "m.db",
        "--glossary",
        "--source",
        "en",
        "--target",
        "de",
        cwd=tmp_path,
    )
    assert run.stdout == "1 terms into m.db\n", run.stderr
    (tmp_path / "other.tsv").write_bytes("dog|Köter\n".encode("cp1252"))
    options = ["--source", "en", "--target", "de", "--encoding", "cp1252", "--separator", "|"]
    run = regard("memory", "import", "other.tsv", "o.db", "--glossary", *options, cwd=tmp_path)
    assert run.stdout == "1 terms into o.db\n", run.stderr
    with Memory(tmp_path / "o.db") as opened:
        assert opened.terms() == [("en", "de", "dog", "Köter", "usual")]
    run = regard("memory", "info", "m.db", cwd=tmp_path)
    assert run.stdout == "en -> de: 1 segments\nen -> de: 1 terms\n"


def test_what_a_document_has_that_a_memory_cannot_have_is_counted(tmp_path):
    (tmp_path / "a.po").write_text(
        'msgid "a <b>c</b>"\nmsgstr "ein <b>c</b>"\n\n'
        'msgid "a\\nb"\nmsgstr "c\\nd"\n\n#, fuzzy\nmsgid "d"\nmsgstr "D"\n'
    )
    page = io.StringIO()
    console = Console(file=page, width=200)
    import_memory(tmp_path / "a.po", tmp_path / "m.db", console=console, source="en", target="de")
    told = page.getvalue()
    assert told.startswith("1 segments into")
    assert "2 left out: 1 of several lines or branches, 1 fuzzy or to be reviewed" in told
