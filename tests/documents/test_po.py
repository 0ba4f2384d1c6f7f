"""gettext's catalogues, held against polib, and against msgfmt where it is there."""

import shutil
import subprocess

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.bench.encoder import DATA
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
    wanted = wanted.replace('"Zu"', '"CLOSE"')
    wanted = wanted.replace('msgid "%d file"', '#, fuzzy\nmsgid "%d file"')
    wanted = wanted.replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"')
    assert translated(catalogue()) == catalogue(wanted)


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


def test_a_character_that_the_charset_has_not_is_told():
    with pytest.raises(
        DataError, match="'日' is not in iso8859-1, the encoding of the file; convert it first: msgconv"
    ):
        translated(catalogue(charset="ISO-8859-1"), lambda text: (text + " 日", []))


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
