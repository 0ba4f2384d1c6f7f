"""What somebody has mended in an earlier result stays, and only the rest is translated, in every format."""

import io
import json
import zipfile
from dataclasses import dataclass

import pytest

from regard.documents.earlier import Sources, sources_beside
from regard.documents.registry import FORMATS, open_document
from regard.tasks.translation.documents import Carrier
from regard.text import DataError
from tests.documents.samples import FILES, docx, odt, packed, paragraph, run
from tests.documents.standin import StandIn, careless, upper

SRT = "{0}\n00:00:0{0},000 --> 00:00:0{0},900\n{1}\n\n"
MADE = {
    "a.json": lambda *texts: json.dumps({text[:3]: text for text in texts}, ensure_ascii=False),
    "a.arb": lambda *texts: json.dumps({text[:3]: text for text in texts}, ensure_ascii=False),
    "a.yaml": lambda *texts: "".join(f"{text[:3]}: {text}\n" for text in texts),
    "a.properties": lambda *texts: "".join(f"{text[:3]} = {text}\n" for text in texts),
    "a.strings": lambda *texts: "".join(f'"{text[:3]}" = "{text}";\n' for text in texts),
    "a.xml": lambda *texts: (
        "<resources>"
        + "".join(f'<string name="{text[:3]}">{text}</string>' for text in texts)
        + "</resources>"
    ),
    "a.html": lambda *texts: "".join(f"<p>{text}</p>\n" for text in texts),
    "a.md": lambda *texts: "\n\n".join(texts) + "\n",
    "a.srt": lambda *texts: "".join(SRT.format(n, text) for n, text in enumerate(texts, 1)),
    "a.vtt": lambda *texts: (
        "WEBVTT\n\n" + "".join(SRT.format(n, text) for n, text in enumerate(texts, 1)).replace(",", ".")
    ),
    "a.docx": lambda *texts: docx("".join(paragraph(run(text)) for text in texts)),
    "a.odt": lambda *texts: odt("".join(f"<text:p>{text}</text:p>" for text in texts)),
}


def made(name, *texts):
    raw = MADE[name](*texts)
    return raw if isinstance(raw, bytes) else raw.encode()


def texts_of(path):
    return [each.block.view().text for each in open_document(path).segments]


def mend(path, before, after):
    raw = path.read_bytes()
    if not raw.startswith(b"PK"):
        assert before.encode() in raw
        path.write_bytes(raw.replace(before.encode(), after.encode()))
        return
    with zipfile.ZipFile(io.BytesIO(raw)) as package:
        members = {name: package.read(name) for name in package.namelist()}
    path.write_bytes(
        packed({name: own.replace(before.encode(), after.encode()) for name, own in members.items()})
    )


@pytest.mark.parametrize("name", MADE)
def test_a_mend_stays_and_only_what_is_new_or_changed_is_translated(name, tmp_path, translate, capsys):
    source, out = tmp_path / name, tmp_path / f"de.{name}"
    source.write_bytes(made(name, "One is here.", "Two is open.", "Three is new."))
    translate(source, into=str(out))
    mend(out, "TWO IS OPEN.", "Zwei ist offen.")
    mended, translated = out.read_bytes(), [*translate.read]
    translate(source, into=str(out))
    assert translate.read == translated
    assert out.read_bytes() == mended
    source.write_bytes(made(name, "Zero is first.", "One is here.", "Two is open.", "Three is changed."))
    translate(source, into=str(out))
    assert sorted(translate.read[len(translated) :]) == ["Three is changed.", "Zero is first."]
    wanted = ["ZERO IS FIRST.", "ONE IS HERE.", "Zwei ist offen.", "THREE IS CHANGED."]
    assert texts_of(out) == wanted
    assert "3 segments, 9 words: 3 taken over" in capsys.readouterr().err
    translate(source, into=str(out))
    assert texts_of(out) == wanted
    translate(source, into=str(out), fresh=True)
    assert texts_of(out)[2] == "TWO IS OPEN."


@pytest.mark.parametrize("write", [upper, careless], ids=["upper", "careless"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_taken_over_is_written_as_it_was(name, write):
    format_, raw = FILES[name]
    opened = format_.open(raw, "file", {})
    (results,) = Carrier(StandIn(write)).translate([opened])
    once = format_.open(opened.write(results), "file", {})
    sources = Sources.of(raw, opened, results)
    translator = StandIn(write)
    older = Older(sources.paired(once, named=FORMATS[name].tells == "keys"))
    (again,) = Carrier(translator).translate([opened], [older])
    twice = format_.open(opened.write(again), "file", {})
    assert [each.source for each in twice.segments] == [each.source for each in once.segments]
    assert write is careless or not translator.read


@dataclass
class Older:
    segments: list


def test_strings_of_yaml_that_got_quotes_are_not_escaped_twice(tmp_path, translate):
    source, out = tmp_path / "a.yaml", tmp_path / "de.yaml"
    source.write_text("one: Some <b>words</b>\ntwo: Others\n")
    translate.write = lambda text: (f'{text.upper()}: "x"', [(0, 0), (1, 1)])
    translate(source, into=str(out))
    assert out.read_text() == 'one: "SOME <b>WORDS</b>: \\"x\\""\ntwo: "OTHERS: \\"x\\""\n'
    source.write_text("one: Some <b>words</b>\ntwo: Others\nthree: More\n")
    written = out.read_text()
    for _ in range(2):
        translate(source, into=str(out))
        assert out.read_text() == written + 'three: "MORE: \\"x\\""\n'


def test_where_lines_of_subtitles_were_broken_by_hand_they_stay_so_while_the_source_is_the_same(
    tmp_path, translate
):
    source, out = tmp_path / "a.srt", tmp_path / "de.srt"
    source.write_text(SRT.format(1, "I would like to") + SRT.format(2, "leave now."))
    translate(source, into=str(out))
    mended = out.read_text().replace("LIKE TO\n", "LIKE\n").replace("LEAVE", "TO LEAVE")
    out.write_text(mended)
    translate(source, into=str(out))
    assert out.read_text() == mended


def test_keys_tell_strings_apart_in_any_order_and_an_empty_one_is_translated_again(tmp_path, translate):
    source, out = tmp_path / "a.json", tmp_path / "de.json"
    source.write_text('{"verb": "Open", "adjective": "Open", "other": "Close"}')
    translate(source, into=str(out))
    out.write_text('{"other": "", "adjective": "Offen", "verb": "\u00d6ffnen", "more": "Mehr"}')
    translate.read.clear()
    translate(source, into=str(out))
    assert translate.read == ["Close"]
    assert out.read_text() == '{"verb": "\u00d6ffnen", "adjective": "Offen", "other": "CLOSE"}'


def test_paragraphs_that_somebody_has_joined_or_taken_out_do_not_move_the_others(tmp_path, translate, capsys):
    source, out = tmp_path / "a.md", tmp_path / "de.md"
    texts = [f"Paragraph {word}" for word in ("one", "two", "three", "four", "five")]
    source.write_text("\n\n".join(texts))
    translate(source, into=str(out))
    out.write_text(out.read_text().replace("PARAGRAPH TWO\n\n", "").replace("FOUR", "vier"))
    source.write_text("\n\n".join([*texts, "And a sixth"]))
    translate.read.clear()
    translate(source, into=str(out))
    assert translate.read == ["Paragraph two", "And a sixth"]
    assert [text.split()[-1] for text in texts_of(out)] == ["ONE", "TWO", "THREE", "vier", "FIVE", "SIXTH"]
    assert "de.md: 1 of 5 segments are not found in it again" in capsys.readouterr().err


def test_what_cannot_be_read_again_is_not_written_over_and_what_tells_nothing_is_told(
    tmp_path, translate, capsys
):
    source, out = tmp_path / "a.json", tmp_path / "de.json"
    source.write_text('{"a": "Open"}')
    out.write_text('{"a":')  # of which nothing would be taken
    translate(source, into=str(out))
    assert out.read_text() == '{"a": "OPEN"}'
    told = " ".join(capsys.readouterr().err.split())
    assert "nothing is taken from it, no .de.json.sources says what it is made from" in told
    out.write_text('{"a": "Auf", }')  # mended, and a comma too many
    with pytest.raises(DataError, match=r"de\.json:1: .*; mend it, or pass --fresh to write it anew"):
        translate(source, into=str(out))
    assert "Auf" in out.read_text()
    sources_beside(out).write_text("[]")
    with pytest.raises(DataError, match=r"\.de\.json\.sources: damaged; remove it, or pass --fresh"):
        translate(source, into=str(out))
    translate(source, into=str(out), fresh=True)
    assert out.read_text() == '{"a": "OPEN"}'
    assert Sources.read(out).rows == [("a", "Open", "OPEN")]


def test_a_result_in_another_language_is_none(tmp_path, translate, capsys):
    source, out = tmp_path / "a.html", tmp_path / "out.html"
    source.write_text("<p>Open</p>")
    translate(source, into=str(out), to="de")
    translate(source, into=str(out), to="fr")
    assert translate.read == ["Open", "Open"]
    assert "another language" in capsys.readouterr().err


def test_sources_in_a_folder_are_no_documents(tmp_path, translate, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.json", "a.html", "a.srt", "a.docx"):
        (folder / name).write_bytes(made(name, "One is here.", "Two is open."))
    once, twice = tmp_path / "once", tmp_path / "twice"
    translate(folder, into=str(once))
    names = ["a.docx", "a.html", "a.json", "a.srt"]
    assert sorted(path.name for path in once.iterdir()) == [*(f".{name}.sources" for name in names), *names]
    assert translate.read == ["One is here.", "Two is open."] * 4  # of one kind: text, strings, XML, HTML
    capsys.readouterr()
    translate(once, into=str(twice))
    assert "left out" not in capsys.readouterr().err
    assert {path.name for path in twice.iterdir()} == {path.name for path in once.iterdir()}
    translate.read.clear()
    translate(folder, into=str(once))
    assert translate.read == []


def test_homonyms_keep_their_own_translations():
    unit = "<trans-unit id='{}'><source>Open</source>{}</trans-unit>"

    def document(*targets):
        body = "".join(unit.format(number, target) for number, target in enumerate(targets))
        raw = f"<xliff version='1.2'><file source-language='en'><body>{body}</body></file></xliff>"
        return open_document("a.xlf", raw.encode())

    old = document("<target>\u00d6ffnen</target>", "<target>Offen</target>")
    (results,) = Carrier(StandIn(upper)).translate([document("", "", "")], [old])
    assert [each.text for each in results] == ["\u00d6ffnen", "Offen", "\u00d6ffnen"]


LACKING = {
    "a.srt": SRT.format(1, "Caf\u00e9 one.") + SRT.format(2, "Two is open."),
    "a.json": '{"one": "Caf\u00e9 one.", "two": "Two is open."}',
    "a.yaml": "one: Caf\u00e9 one.\ntwo: Two is open.\n",
    "a.md": "Caf\u00e9 one.\n\nTwo is open.\n",
}


@pytest.mark.parametrize("name", LACKING)
def test_a_file_that_had_to_become_utf_8_is_read_as_such_again(name, tmp_path, translate, capsys):
    source, out = tmp_path / name, tmp_path / f"pl.{name}"
    how = {"into": str(out), "set": ["encoding=cp1252"]}
    source.write_text(LACKING[name], encoding="cp1252")
    translate.write = lambda text: (f"\u0142 {text}", [])
    translate(source, **how)
    wanted = LACKING[name].replace("Caf", "\u0142 Caf").replace("Two", "\u0142 Two")
    assert out.read_text() == wanted
    told = " ".join(capsys.readouterr().err.split())
    assert f"{name}: written in UTF-8, for cp1252 has no '\u0142'" in told
    read = [*translate.read]
    translate(source, **how)
    assert (translate.read, out.read_text()) == (read, wanted)
    source.write_text(LACKING[name].replace("Two is open.", "Two is closed."), encoding="cp1252")
    translate(source, **how)
    assert translate.read == [*read, "Two is closed."]
    assert out.read_text() == wanted.replace("open", "closed")
    translate.write = lambda text: (text, [])
    translate(source, fresh=True, **how)  # that lacks nothing now
    assert "Caf\u00e9" in out.read_text(encoding="cp1252")
    assert Sources.read(out).became is None


def test_an_encoding_that_nobody_knows_is_damage(tmp_path, translate):
    source, out = tmp_path / "a.json", tmp_path / "de.json"
    source.write_text('{"a": "Open"}')
    translate(source, into=str(out))
    beside = sources_beside(out)
    beside.write_text(beside.read_text().replace("{", '{"encoding": "utf-9",', 1))
    with pytest.raises(DataError, match=r"\.de\.json\.sources: damaged"):
        translate(source, into=str(out))
