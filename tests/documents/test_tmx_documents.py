"""TMX: units that lack the target language get it."""

import pytest

from regard.documents.base import Result
from regard.documents.registry import open_document
from regard.memory import Memory
from regard.memory.files import ImportSettings, import_file
from regard.text import DataError
from regard.text.tmx import MACHINE

RAW = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
 <header srclang="en-US" datatype="x" segtype="sentence" adminlang="en" o-tmf="x"/>
 <body>
  <tu tuid="a">
   <tuv xml:lang="en-US">
    <seg>Press <bpt i="1">&lt;b></bpt>here<ept i="1">&lt;/b></ept></seg>
   </tuv>
  </tu>
  <tu><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="DE"><seg>Fertig</seg></tuv></tu>
  <tu><tuv xml:lang="fr"><seg>Autre</seg></tuv></tu>
 </body>
</tmx>
"""


def opened(raw=RAW, to="de"):
    return open_document("a.tmx", raw.encode(), settings={"target_language": to})


def test_only_what_is_missing_is_added():
    memory = opened()
    assert [(each.key, each.state) for each in memory.segments] == [("a", "new"), ("#1", "final")]
    assert memory.write([None, None]) == RAW.encode()
    text = '<bpt i="1">&lt;b></bpt>Hier<ept i="1">&lt;/b></ept> drücken'
    wanted = RAW.replace(
        "   </tuv>\n  </tu>",
        f'   </tuv>\n   <tuv xml:lang="de" creationid="{MACHINE}">\n    <seg>{text}</seg>\n'
        "   </tuv>\n  </tu>",
    )
    assert memory.write([Result(text=text), None]).decode() == wanted
    assert [each.state for each in opened(wanted).segments] == ["draft", "final"]


def test_codes_enclose_their_words():
    block = opened().segments[0].block
    assert block.place(block.view(), "Hier drücken", [(1, 0), (0, 1)]) == (
        '<bpt i="1">&lt;b></bpt>Hier<ept i="1">&lt;/b></ept> drücken'
    )


@pytest.mark.parametrize(
    ("raw", "to", "told"),
    [
        (RAW, None, "no target language; say it with --to"),
        ("<tmx/>", "de", "not TMX"),
        (RAW.replace(' xml:lang="fr"', ""), "de", r"a\.tmx:12: a <tuv> without a language"),
    ],
)
def test_what_cannot_be_read_is_told(raw, to, told):
    with pytest.raises(DataError, match=told):
        opened(raw, to)


def test_what_a_model_wrote_is_a_draft_until_somebody_has_changed_it(tmp_path):
    memory = opened()
    written = memory.write([Result(text="Hier", flags=("numbers", "a<b")), None])
    assert b'<prop type="x-regard-flags">numbers, a&lt;b</prop>\n    <seg>Hier</seg>' in written
    again = opened(written.decode())
    assert [each.state for each in again.segments] == ["draft", "final"]
    taken = Result(text=again.segments[0].target, origin="file", state="draft")
    assert MACHINE in memory.write([taken, None]).decode()
    mended = written.replace(b'creationid="', b'changeid="Anna" creationid="')
    for raw, wanted in ((written, ["Fertig"]), (mended, ["Hier", "Fertig"])):
        (tmp_path / "a.tmx").write_bytes(raw)
        import_file(tmp_path / "a.tmx", tmp_path / f"{len(wanted)}.db", ImportSettings(target="de"))
        with Memory(tmp_path / f"{len(wanted)}.db") as found:
            assert [each.target for each in found.segments()] == wanted


def test_an_empty_translation_is_filled_and_says_so_too():
    empty = RAW.replace("<seg>Fertig</seg>", "<seg></seg>")
    for result, said in (
        (Result(text="Fertig"), f'"DE" creationid="{MACHINE}"'),
        (Result(text="Fertig", origin="memory"), '"DE"'),
    ):
        written = opened(empty).write([None, result]).decode()
        assert f"<tuv xml:lang={said}><seg>Fertig</seg></tuv>" in written
