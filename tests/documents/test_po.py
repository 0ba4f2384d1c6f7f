"""gettext's catalogues, held against polib, and against msgfmt where it is there."""

import shutil
import subprocess

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.bench.encoder import DATA
from regard.config import ConfigError
from regard.documents.base import Result
from regard.documents.plurals import RULES, Plurals, plurals_of
from regard.documents.po_writing import text_lines
from regard.documents.registry import open_document
from regard.tasks.translation.documents import Carrier
from regard.text import DataError
from tests.documents import made
from tests.documents.standin import StandIn, careless, upper

REAL = DATA / "documents" / "sphinx.de.po"
HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n"Language: de\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
)
BODY = """# by hand
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s"
msgstr ""

#, fuzzy
#| msgid "Closed"
msgid "Close"
msgstr "Zu"

#, fuzzy
msgid "Save"
msgstr "Sichern"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "Größe"
msgstr "Größe"

#~ msgid "gone"
#~ msgstr "fort"
"""


def catalogue(body=BODY, charset="UTF-8"):
    return (HEADER.format(charset=charset) + body).encode(charset)


def translated(raw, write=upper, to=None):
    opened = open_document("a.po", raw, settings={"target_language": to})
    (results,) = Carrier(StandIn(write)).translate([opened])
    return opened.write(results, to)


def test_what_there_is_to_translate():
    opened = open_document("a.po", catalogue())
    found = [(each.source, each.target, each.state, each.context, each.line) for each in opened.segments]
    assert found == [
        ("Open %s", "", "new", "menu", 10),
        ("Close", "Zu", "new", "", 16),
        ("Save", "Sichern", "draft", "", 20),
        ("%d file", "", "new", "", 23),
        ("%d files", "", "new", "", 23),
        ("Größe", "Größe", "final", "", 28),
    ]
    assert opened.target_language == "de"


def test_translations_are_fuzzy_and_nothing_else_changes():
    wanted = BODY.replace("#, c-format", "#, fuzzy, c-format").replace(
        'Open %s"\nmsgstr ""', 'Open %s"\nmsgstr "OPEN %s"'
    )
    wanted = wanted.replace('#| msgid "Closed"\n', "").replace('"Zu"', '"CLOSE"')
    wanted = wanted.replace('msgid "%d file"', '#, fuzzy\nmsgid "%d file"')
    wanted = wanted.replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"')
    assert translated(catalogue()) == catalogue(wanted)


OLD = '#, fuzzy\n#| msgctxt "a"\n#| msgid "old "\n#| "words"\nmsgid "new words"\nmsgstr "alte Worte"\n'


@pytest.mark.parametrize(
    ("entry", "given"), [(OLD, []), ('#, fuzzy\nmsgid "new words"\nmsgstr "alte"\n', ["fuzzy=new"])]
)
def test_a_mend_of_a_fuzzy_entry_stays_though_nobody_has_approved_it(entry, given, tmp_path, translate):
    source, out = tmp_path / "s.po", tmp_path / "o.po"
    source.write_text(entry)
    translate(source, into=str(out), set=given)
    assert out.read_text() == '#, fuzzy\nmsgid "new words"\nmsgstr "NEW WORDS"\n'
    mended = '#, fuzzy\nmsgid "new words"\nmsgstr "neue Worte"\n'
    out.write_text(mended)
    translate(source, into=str(out), set=given)
    assert translate.read == ["new words"]
    assert out.read_text() == mended


def test_fuzzy_entries_are_translated_if_that_is_asked_for():
    assert b'msgstr "Sichern"' in translated(catalogue())
    with pytest.raises(ConfigError, match="'anew' is none of keep, new"):
        open_document("a.po", catalogue(), settings={"fuzzy": "anew"})
    opened = open_document("a.po", catalogue(), settings={"fuzzy": "new"})
    assert [each.source for each in opened.segments if each.state == "new"][2] == "Save"
    several = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "a"\nmsgstr[1] "b"\n'
    opened = open_document("a.po", catalogue(f"#, fuzzy\n{several}"), settings={"fuzzy": "new"})
    (results,) = Carrier(StandIn(upper)).translate([opened])
    assert b'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"' in opened.write(results)


def test_what_is_flagged_is_named_until_the_entry_is_translated_again():
    raw = catalogue('#: a.py:1\n#, python-format\nmsgid "%d files"\nmsgstr ""\n')
    opened = open_document("a.po", raw)
    flagged = opened.write([Result(text="Dateien", flags=("numbers", "tags"))], "de")
    assert b"#: a.py:1\n# regard: numbers, tags\n#, fuzzy, python-format\n" in flagged
    again = open_document("a.po", flagged)
    assert [each.state for each in again.segments] == ["draft"]
    (taken,) = Carrier(StandIn(upper)).translate([opened], [again])
    assert opened.write(taken, "de") == flagged
    assert b"# regard" not in again.write([Result(text="%d Dateien")], "de")
    assert again.write([Result(text="%d D", flags=("tags",))], "de").count(b"# regard: tags\n") == 1
    assert b"# regard" not in again.write([Result(text="%d Dateien", origin="memory")], "de")


def test_what_counts_is_not_fuzzy_any_more():
    opened = open_document("a.po", catalogue())
    results = [Result(text=each.source.upper(), origin="memory") for each in opened.segments]
    assert b"fuzzy" not in opened.write(results)


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_ends_of_lines_are_kept(charset, end):
    raw = catalogue(charset=charset).replace(b"\n", end.encode())
    opened = open_document("a.po", raw)
    assert opened.write([None] * 6) == raw
    written = translated(raw, lambda text: (text + " ö", []))
    assert "Open %s ö".encode(charset) in written
    assert written.count(b"\n") == written.count(end.encode())


def test_a_character_that_the_charset_has_not_makes_it_utf_8():
    opened = open_document("a.po", catalogue(charset="ISO-8859-1"))
    (results,) = Carrier(StandIn(lambda text: (text + " 日", []))).translate([opened])
    written = opened.write(results)
    assert written == translated(catalogue(), lambda text: (text + " 日", []))
    assert opened.notes == ["a.po: written in UTF-8, for iso8859-1 has no '日'"]
    assert polib.pofile(written.decode()).metadata["Content-Type"] == "text/plain; charset=UTF-8"


RUSSIAN = HEADER.format(charset="UTF-8").replace("de", "ru").replace(
    "nplurals=2; plural=(n != 1);", RULES["ru"]
) + ('{flags}msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "{0}"\nmsgstr[1] "{1}"\nmsgstr[2] "{2}"\n')


def russian(*forms, flags=""):
    return RUSSIAN.format(*forms, flags=flags).encode()


FILES = ("%d файл", "%d файла", "%d файлов")


def test_all_forms_of_an_older_result_are_taken_over():
    old = open_document("a.po", russian(*FILES))
    opened = open_document("a.po", russian("", "", ""))
    (results,) = Carrier(StandIn(upper)).translate([opened], [old])
    assert opened.write(results) == russian(*FILES)
    drafts = russian(*FILES, flags="#, fuzzy\n")
    (results,) = Carrier(StandIn(upper)).translate([opened], [open_document("a.po", drafts)])
    assert opened.write(results) == drafts


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("flags", ["", "#, fuzzy\n"])
def test_only_forms_that_are_missing_are_filled(missing, flags):
    forms = [*FILES]
    forms[missing] = ""
    translator = StandIn(upper)
    opened = open_document("a.po", russian(*forms, flags=flags))
    (results,) = Carrier(translator).translate([opened])
    forms[missing] = "%d FILES" if missing else "%d FILE"
    assert opened.write(results) == russian(*forms, flags="#, fuzzy\n")
    assert translator.read == ["%d files" if missing else "%d file"]
    counts = [None if each is None else Result(text=each.text, origin="memory") for each in results]
    assert opened.write(counts) == russian(*forms, flags=flags)  # a draft beside it stays one


def test_forms_of_another_text_are_all_made_anew():
    stale = russian(*FILES, flags='#, fuzzy\n#| msgid "%d fail"\n')
    assert 'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"\nmsgstr[2] "%d FILES"' in translated(stale).decode()


def test_a_text_whose_plural_is_the_same_keeps_both():
    entry = 'msgid "sheep"\nmsgid_plural "sheep"\nmsgstr[0] "{}"\nmsgstr[1] "{}"\n'
    old = catalogue(entry.format("Schaf", "Schafe"))
    opened = open_document("a.po", catalogue(entry.format("", "")))
    (results,) = Carrier(StandIn(upper)).translate([opened], [open_document("a.po", old)])
    assert opened.write(results) == old


def test_flags_on_several_lines_count_together():
    raw = catalogue('#, fuzzy\n#, c-format\nmsgid "a %s"\nmsgstr "x %s"\n')
    opened = open_document("a.po", raw)
    (segment,) = opened.segments
    assert (segment.state, segment.block.syntax.printf) == ("draft", True)
    final = opened.write([Result(text="y %s", origin="memory")])
    assert final == catalogue('#, c-format\nmsgid "a %s"\nmsgstr "y %s"\n')
    plain = open_document("a.po", catalogue('#, c-format\n#, no-wrap\nmsgid "a %s"\nmsgstr ""\n'))
    written = plain.write([Result(text="y %s")])
    assert written == catalogue('#, fuzzy, c-format\n#, no-wrap\nmsgid "a %s"\nmsgstr "y %s"\n')


@pytest.mark.parametrize("charset", ["hex", "rot13", "undefined", "idna", "nonsense", "base64"])
def test_a_charset_that_is_none_is_told_with_its_line(charset):
    raw = catalogue().replace(b"UTF-8", charset.encode())
    with pytest.raises(DataError, match=rf"a\.po:3: unknown charset '{charset}'; save it as UTF-8"):
        open_document("a.po", raw)


@pytest.mark.parametrize("rule", ["n/(n-1)", "n%(n-5)", "n-3", "1/0", "n!", "(" * 2000 + "n" + ")" * 2000])
def test_a_rule_of_plurals_that_gives_no_form_is_told_with_its_line(rule):
    raw = catalogue().replace(b"(n != 1)", rule.encode())
    with pytest.raises(DataError, match=r"a\.po:1: .*; write it as in nplurals=2"):
        open_document("a.po", raw)


@pytest.mark.parametrize(
    ("to", "forms"), [("ja", ["ALL"]), ("ru", ["ONE", "ALL", "ALL"]), ("fr", ["ONE", "ALL"])]
)
def test_as_many_forms_are_written_as_the_language_has(to, forms):
    template = (
        '#, fuzzy\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n"Language: \\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n'
        'msgid "one"\nmsgid_plural "all"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    written = translated(template.encode(), to=to).decode()
    found = polib.pofile(written)
    assert [*found[0].msgstr_plural.values()] == forms
    assert found.metadata["Language"] == to
    assert found.metadata["Plural-Forms"] == RULES[to]
    assert found.metadata["Content-Type"].endswith("UTF-8")


def test_rules_of_plurals_give_a_form_for_every_number():
    for language, rule in RULES.items():
        plurals = Plurals(rule)
        assert 0 <= plurals.one < plurals.count, language
        assert 0 <= plurals.many < plurals.count, language
    assert plurals_of("de-AT").count == 2
    assert plurals_of("tlh") is None
    with pytest.raises(DataError, match="cannot be read"):
        open_document("a.po", catalogue().replace(b"nplurals=2", b"nplurals=x"))


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=300),
    st.sampled_from([79, None]),
)
def test_what_is_written_is_read_by_polib(text, width):
    if "\r" in text or any(ord(char) < 32 and char not in "\n\t" for char in text) or "\x85" in text:
        text = "".join(char for char in text if char.isprintable())
    lines = text_lines("msgstr", text, width, "\n")
    assert "".join(lines).count("\n") == len(lines)
    if not any(char in text for char in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):  # lines to polib
        (entry,) = polib.pofile('msgid "a"\n' + "".join(lines))
        assert entry.msgstr == text
    (segment,) = open_document("a.po", ('msgid "a"\n' + "".join(lines)).encode()).segments
    assert segment.target == text


def test_long_lines_are_wrapped_as_gettext_does():
    text = "word " * 30 + "end\nnext\n"
    lines = text_lines("msgstr", text, 79, "\n")
    assert lines[0] == 'msgstr ""\n'
    assert max(map(len, lines)) <= 80
    assert lines[-1] == '"next\\n"\n'
    assert text_lines("msgstr", "short\n", 79, "\n") == ['msgstr "short\\n"\n']


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('msgid "a"\n', r"a\.po:7: an entry without a msgstr"),
        ('msgid "a\nmsgstr ""\n', r"a\.po:7: a string that is not closed"),
        ('msgstr "a"\n', r"a\.po:7: msgstr is out of place"),
        ("what\n", r"a\.po:7: not a line of a catalogue: 'what'"),
        (
            f'msgid "a"\nmsgid_plural "b"\nmsgstr[{"9" * 5000}] ""\n',
            r"a\.po:9: not a line of a catalogue: 'msgstr\[9999",
        ),
        ('msgid "a"\nmsgstr[0] ""\n', r"a\.po:8: msgstr\[0\]: plural forms go with a msgid_plural"),
        (
            'msgid "a"\nmsgstr ""\n\nmsgid "a"\nmsgstr ""\n',
            r"a\.po:10: the same message twice: 'a', first on line 7",
        ),
    ],
)
def test_what_gettext_would_refuse_is_refused_with_its_line(body, told):
    with pytest.raises(DataError, match=told):
        open_document("a.po", catalogue(body))


@pytest.mark.parametrize("write", [upper, careless])
def test_a_whole_catalogue_is_one_to_polib_and_to_msgfmt(write, tmp_path):
    raws = [made.po(200, seed=3).replace('msgctxt "c', '#, c-format\nmsgctxt "c').encode()]
    if REAL.is_file():
        raws.append(REAL.read_bytes())
    for raw in raws:
        written = translated(raw, write)
        before, after = polib.pofile(raw.decode()), polib.pofile(written.decode())
        assert [(each.msgctxt, each.msgid) for each in after] == [
            (each.msgctxt, each.msgid) for each in before
        ]
        assert [each.msgid for each in after.obsolete_entries()] == [
            each.msgid for each in before.obsolete_entries()
        ]
        if write is upper:
            assert all(each.msgstr or any(each.msgstr_plural.values()) for each in after if not each.obsolete)
        if shutil.which("msgfmt") and raw is not raws[0]:  # that one has formats that are none
            checked = written.replace(b"#, fuzzy, ", b"#, ").replace(b"#, fuzzy\n", b"")
            (tmp_path / "a.po").write_bytes(checked)
            command = ["msgfmt", "-c", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")]
            assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_a_header_without_an_end_of_line_gets_one_before_more_is_said_in_it():
    raw = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\nmsgid "a"\nmsgid_plural "b"\n'
    opened = open_document("a.po", f'{raw}msgstr[0] ""\nmsgstr[1] ""\n'.encode())
    written = opened.write([Result(text="A"), Result(text="B")], "de").decode()
    assert written.startswith(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n"Plural-Forms: '
    )
    assert open_document("a.po", written.encode()).target_language == "de"
