"""Documents at the prompt: files and folders in, files out, whole or not at all."""

import gzip
import json
import os
import re
import threading
from pathlib import Path

import pytest

from regard.config import ConfigError
from regard.documents.registry import FORMATS, FormatSpec, endings, format_of, open_document
from regard.memory import Memory, Segment
from regard.plugins import register, unregister
from regard.tasks.base.formats import REFUSED
from regard.tasks.base.formats import format_of as format_of_task
from regard.tasks.base.outputs import written_whole
from regard.tasks.translation import commands, document_files
from regard.text import DataError
from regard.text.markup import read_block
from tests.documents.samples import docx, paragraph, run

PO = 'msgid "one"\nmsgstr ""\n\nmsgid "two %s"\nmsgstr ""\n'
XLIFF = (
    "<xliff version='1.2'><file source-language='en' target-language='de'><body><trans-unit id='1'>"
    "<source>one</source></trans-unit></body></file></xliff>"
)


def test_a_file_is_translated_into_another(tmp_path, translate, capsys):
    (tmp_path / "a.po").write_text(PO)
    out = tmp_path / "a.de.po"
    translate(tmp_path / "a.po", into=str(out), report=tmp_path / "report.json")
    assert out.read_text() == PO.replace('one"\nmsgstr ""', 'one"\nmsgstr "ONE"').replace(
        '%s"\nmsgstr ""', '%s"\nmsgstr "TWO %s"'
    ).replace("msgid", "#, fuzzy\nmsgid")
    (report,) = json.loads((tmp_path / "report.json").read_text())
    assert (report["segments"], report["model"], report["flagged"]) == (2, 2, [])
    assert "2 segments, 3 words: 2 by the model" in capsys.readouterr().err
    assert not [*tmp_path.glob("*.partial")]


@pytest.mark.parametrize("name", ["a.po", "a.html"])
def test_a_document_goes_into_a_pipe(tmp_path, translate, name):
    (tmp_path / name).write_text(PO)
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    translate(tmp_path / name, into=str(tmp_path / "pipe"))
    reader.join(20)
    assert "TWO" in found[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "pipe"]


def test_what_is_there_is_taken_over_and_only_the_rest_is_translated(tmp_path, translate):
    (tmp_path / "a.po").write_text(PO)
    out = tmp_path / "out.po"
    out.write_text('msgid "one"\nmsgstr "eins"\n\nmsgid "gone"\nmsgstr "fort"\n')
    translate(tmp_path / "a.po", into=str(out))
    assert translate.read == ["two %s"]
    assert out.read_text().startswith('msgid "one"\nmsgstr "eins"\n')
    before = out.read_bytes()
    translate(tmp_path / "a.po", into=str(out))
    assert translate.read == ["two %s"]
    assert out.read_bytes() == before
    translate(tmp_path / "a.po", into=str(out), fresh=True)
    assert sorted(translate.read[1:]) == ["one", "two %s"]
    assert "eins" not in out.read_text()


def test_folders_with_documents_and_lines(tmp_path, translate, capsys):
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    (source / "a.po").write_text(PO)
    (source / "sub" / "b.xlf").write_text(XLIFF)
    (source / "c.po.gz").write_bytes(gzip.compress(PO.encode()))
    (source / "bad.xlf").write_text("<xliff")
    (source / "d.pdf").write_text("x")
    with pytest.raises(ConfigError, match="1 of 4 files could not be read"):
        translate(source, into=str(tmp_path / "out"))
    told = capsys.readouterr().err
    assert "bad.xlf:1: not well-formed XML" in told
    assert "d.pdf" in told
    assert "<target state" in (tmp_path / "out" / "sub" / "b.xlf").read_text()
    assert b"TWO" in gzip.decompress((tmp_path / "out" / "c.po.gz").read_bytes())
    assert not (tmp_path / "out" / "bad.xlf").exists()
    assert translate.read == ["one", "two %s", "one"]  # one of PO, one of XLIFF; not once more for c.po.gz


def test_of_a_folder_only_documents_tables_and_text_are_read(tmp_path, translate, capsys):
    site, out = tmp_path / "site", tmp_path / "out"
    (site / "js").mkdir(parents=True)
    taken = {
        "a.po": PO,
        "c.csv": "text\none\n",
        "b.txt": "one\n",
        "README": "one\n",
        "train.en": "one\n",
        "strings.xml": "<?xml version='1.0'?><!-- <a> -->\n<resources>"
        "<string name='a'>one</string></resources>",
    }
    for name, text in taken.items():
        (site / name).write_text(text)
    (site / "d.txt.gz").write_bytes(gzip.compress(b"one\n"))
    (site / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\xff")
    others = {
        "s.css": "a {}\n",
        "js/a.js": "f()\n",
        "pom.xml": "<!-- <resources> --><project/>",
        "x.de": "eins\n",
    }
    for name, text in others.items():
        (site / name).write_text(text)
    translate(site, into=str(out))
    assert sorted(each.name for each in out.iterdir() if each.name[0] != ".") == sorted([*taken, "d.txt.gz"])
    told = capsys.readouterr().err.replace("\n", " ")
    assert told.count("left out") == 1
    assert "left out: 5 other files (" in told
    assert all(name in told for name in others)
    translate(str(site / "s.css"), into=str(tmp_path / "s.css"))  # a file that is named is read
    assert (tmp_path / "s.css").read_text() == "A {}\n"
    (site / "logo.png").unlink()
    translate(site, into=str(tmp_path / "all"), format="lines")
    assert (tmp_path / "all" / "js" / "a.js").is_file()


@pytest.mark.parametrize("more", [(), ("a.po",)])
def test_a_broken_document_does_not_hold_up_lines_and_tables(tmp_path, translate, capsys, more):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    texts = {"bad.xlf": "<xliff", "b.txt": "one\n", "c.csv": "text\none\n", **dict.fromkeys(more, PO)}
    for name, text in texts.items():
        (folder / name).write_text(text)
    with pytest.raises(ConfigError, match=f"1 of {1 + len(more)} files could not be read or written"):
        translate(folder, into=str(out))
    assert sorted(each.name for each in out.iterdir()) == sorted([*more, "b.txt", "c.csv"])
    assert (out / "b.txt").read_text() == "ONE\n"
    assert "bad.xlf:1: not well-formed XML" in capsys.readouterr().err


def test_to_standard_output_and_by_format(tmp_path, translate):
    (tmp_path / "catalogue").write_text(PO)
    assert b"TWO %s" in translate(tmp_path / "catalogue", format="po")
    (tmp_path / "a.po").write_text("one\n")
    assert translate(tmp_path / "a.po", format="lines") == "ONE\n"
    with pytest.raises(ConfigError, match="--format word is none of lines, csv, tsv, jsonl, po, xliff, tmx"):
        translate(tmp_path / "a.po", format="word")


def test_what_does_not_go_together_is_told(tmp_path, translate):
    (tmp_path / "a.po").write_text(PO)
    with pytest.raises(ConfigError, match="--json is of lines and tables"):
        translate(tmp_path / "a.po", as_json=True)
    with pytest.raises(ConfigError, match="--scores and --align"):
        translate(tmp_path / "a.po", scores=True)
    with pytest.raises(ConfigError, match="is the file that is read"):
        translate(tmp_path / "a.po", into=str(tmp_path / "a.po"))
    (tmp_path / "a.xlf").write_text(XLIFF.replace("target-language='de'", "target-language='fr'"))
    with pytest.raises(DataError, match="another target language: the file says 'fr', the model has 'de'"):
        translate(tmp_path / "a.xlf", into=str(tmp_path / "b.xlf"))


COUNTED = {
    "a.po": b'msgid "take 12 of <b>3.5</b>"\nmsgstr ""\n',
    "a.xlf": XLIFF.replace("one", "take 12 of <g id='1'>3.5</g>").encode(),
    "a.json": b'{"a": "take 12 of <b>3.5</b>"}',
    "a.arb": b'{"a": "{n, plural, other{take 12 of 3.5}}"}',
    "a.yaml": b"a: take 12 of 3.5\n",
    "a.html": b"<p>take 12 of <b>3.5</b></p>",
    "a.md": b"take 12 of **3.5**\n",
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\ntake 12 of 3.5\n",
    "a.docx": docx(paragraph(run("take 12 of "), run("3.5", "<w:b/>"))),
}


@pytest.mark.parametrize("name", COUNTED)
def test_numbers_stay_where_they_are_to_stay(name, tmp_path, translate):
    (tmp_path / name).write_bytes(COUNTED[name])
    out = tmp_path / "out" / name
    translate.write = lambda text: (re.sub(r"\d+", "99", text.upper()), [])
    translate(tmp_path / name, into=str(out), keep_numbers=True)
    assert translate.read == ["take 12 of 3.5", "take of"]  # without, for it does not keep them
    assert sorted(written_in(out)) == ["12", "3.5", "OF", "TAKE"]
    translate(tmp_path / name, into=str(out), fresh=True)
    assert written_in(out) == ["TAKE", "99", "OF", "99.99"]


def written_in(path):
    (segment,) = open_document(path).segments
    block = read_block(segment.target, segment.block.syntax) if segment.target else segment.block
    return block.view().text.split()


def test_a_document_that_cannot_be_written_is_told_and_the_others_are_done(tmp_path, translate, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in ("a.po", "b.po"):
        (folder / name).write_text(PO)
    (folder / "c.json").write_text('{"a": "three"}')
    (out / f"b.po.{os.getpid()}.partial").mkdir(parents=True)  # in the way
    with pytest.raises(ConfigError, match="1 of 3 files could not be read or written; the others are done"):
        translate(folder, into=str(out), report=tmp_path / "report.json")
    assert [(out / name).is_file() for name in ("a.po", "b.po", "c.json")] == [True, False, True]
    assert "b.po." in capsys.readouterr().err
    report = json.loads((tmp_path / "report.json").read_text())
    assert [Path(each["file"]).name for each in report] == ["a.po", "c.json"]


def test_what_no_translation_could_be_written_into_is_told_before_there_is_one(
    tmp_path, translate, capsys, monkeypatch
):
    monkeypatch.setattr(commands, "pair_of", lambda folder: (None, None))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.po").write_text('msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n')
    (tmp_path / "in" / "b.xlf").write_text(
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">'
        '<unit id="u"><segment><source>One</source></segment></unit></file></xliff>'
    )
    (tmp_path / "in" / "c.po").write_text(PO)
    with pytest.raises(ConfigError, match="2 of 3 files could not be read or written"):
        translate(tmp_path / "in", into=str(tmp_path / "out"))
    assert translate.read == ["one", "two %s"]
    told = capsys.readouterr().err
    assert "a.po:1: plural forms of an unknown language" in told
    assert "b.xlf:1: no target language" in told


def test_a_catalogue_whose_charset_lacks_a_character_becomes_utf_8_and_that_is_told(
    tmp_path, translate, capsys
):
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n# Größe\n'
    (tmp_path / "a.po").write_bytes((header + PO).encode("latin-1"))
    translate.write = lambda text: (f"„{text}“", [])
    written = translate(tmp_path / "a.po").decode()
    assert all(each in written for each in ("charset=UTF-8", "„one“", "# Größe"))
    assert "written in UTF-8, for iso8859-1 has no '„'" in " ".join(capsys.readouterr().err.split())


def test_what_a_memory_has_is_flagged_as_what_a_model_writes(tmp_path, translate):
    memory = tmp_path / "memory.db"
    with Memory(memory, create=True) as own:
        own.add([Segment("12 dollars", "21 Dollar", "en", "de"), Segment("one", "eins", "en", "de")])
    (tmp_path / "a.po").write_text('msgid "12 dollars"\nmsgstr ""\n\nmsgid "one"\nmsgstr ""\n')
    out, report = tmp_path / "b.po", tmp_path / "report.json"
    translate(tmp_path / "a.po", into=str(out), memory=memory, report=report)
    told = "# regard: numbers\n"
    assert out.read_text().startswith(
        told + '#, fuzzy\nmsgid "12 dollars"\nmsgstr "21 Dollar"\n\nmsgid "one"\n'
    )
    (found,) = json.loads(report.read_text())
    assert [(each["flags"], each["line"]) for each in found["flagged"]] == [(["numbers"], 1)]


def test_other_tasks_go_on_refusing_documents():
    for ending in (".po", ".xlf", ".tmx"):
        assert ending in REFUSED
        with pytest.raises(DataError, match="is not read here"):
            format_of_task(f"a{ending}")


def test_a_plugin_adds_a_format(tmp_path):
    mine = FormatSpec(name="mine", endings=(".mine",), home="regard.documents.po:Po")
    register(mine)
    try:
        assert format_of("a.MINE") == format_of("a.mine.gz") == "mine"
        assert endings()[".mine"] == "mine"
        assert [each.source for each in open_document("a.mine", PO.encode()).segments] == ["one", "two %s"]
    finally:
        unregister(mine)
    assert "mine" not in FORMATS
    with pytest.raises(ConfigError, match=r"a\.mine: no format has such an ending; give one: po, xliff, tmx"):
        open_document("a.mine", b"")


@pytest.mark.parametrize("most", ["BYTES_AT_ONCE", "FILES_AT_ONCE"])
def test_a_folder_is_not_held_in_memory_as_a_whole(most, tmp_path, translate, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in "abcde":
        (folder / f"{name}.po").write_text('msgid "one"\nmsgstr "eins"\n')
    monkeypatch.setattr(document_files, most, {"BYTES_AT_ONCE": 50, "FILES_AT_ONCE": 2}[most])
    there = []
    monkeypatch.setattr(
        document_files,
        "open_document",
        lambda *given, **how: there.append(len([*out.glob("*")])) or open_document(*given, **how),
    )
    translate(folder, into=str(out))
    assert there == [0, 0, 2, 2, 4]
    assert len([*out.iterdir()]) == 5


def test_two_runs_that_write_one_file_do_not_write_into_each_other_s(tmp_path, monkeypatch):
    target = tmp_path / "a.json"
    with written_whole(target) as one:
        one.write("of the one")
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with written_whole(target) as other:
            other.write("the other")
        assert target.read_text() == "the other"
    assert target.read_text() == "of the one"
    assert [*tmp_path.iterdir()] == [target]
