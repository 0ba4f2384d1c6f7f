"""Documents at the prompt: files and folders in, files out, whole or not at all."""

import gzip
import io
import json
from pathlib import Path

import pytest

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.documents.registry import FORMATS, FormatSpec, endings, format_of, open_document
from regard.plugins import register, unregister
from regard.tasks.base.formats import REFUSED
from regard.tasks.base.formats import format_of as format_of_task
from regard.tasks.translation import commands
from regard.text import DataError
from tests.documents.standin import StandIn, upper

PO = 'msgid "one"\nmsgstr ""\n\nmsgid "two %s"\nmsgstr ""\n'
XLIFF = (
    "<xliff version='1.2'><file source-language='en' target-language='de'><body><trans-unit id='1'>"
    "<source>one</source></trans-unit></body></file></xliff>"
)


class Out(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.buffer = io.BytesIO()


@pytest.fixture
def translate(monkeypatch):
    """The command, with a translator that costs nothing; what it has read is its `read`."""
    translator = StandIn(upper)
    translator.decoding = DecodeConfig()
    monkeypatch.setattr(commands, "open_by_engine", lambda *given: translator)
    monkeypatch.setattr(commands, "pair_of", lambda folder: ("en", "de"))

    def run(*inputs, **how):
        out = Out()
        commands.translate(Path("model"), [str(each) for each in inputs], out=out, **how)
        return out.buffer.getvalue() or out.getvalue()

    run.read = translator.read
    return run


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


def test_numbers_stay_where_they_are_to_stay(tmp_path, translate):
    (tmp_path / "a.po").write_text('msgid "take 12 of 3.5"\nmsgstr ""\n')
    translate.read.clear()
    translate(tmp_path / "a.po", keep_numbers=True)
    opened = open_document(tmp_path / "a.po", settings={"numbers": True})
    assert [*opened.segments[0].block.view().names] == ["12", "3.5"]


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
