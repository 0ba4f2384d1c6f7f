"""TMX: what is read is what was written; broken units cost themselves, hostile files are refused."""

import gzip
import io

import pytest

from regard.text import DataError, Origin, Skipped
from regard.text.tmx import Unit, Variant, normal_date, read_tmx, same_language, scan_tmx, write_tmx

HEAD = '<?xml version="1.0"?>\n<tmx version="1.4">\n<header srclang="en-US"/>\n<body>\n'
TAIL = "</body></tmx>"


def tmx(path, body: str, head: str = HEAD):
    path.write_text(head + body + TAIL, encoding="utf-8")
    return path


def unit(source: str, target: str, facts: str = "", own: str = "en-US", other: str = "de") -> str:
    return (
        f'<tu {facts}><tuv xml:lang="{own}"><seg>{source}</seg></tuv>\n'
        f'<tuv xml:lang="{other}"><seg>{target}</seg></tuv></tu>\n'
    )


def test_pairs_know_their_languages_and_lines(tmp_path):
    path = tmx(tmp_path / "a.tmx", unit("Hello", "Hallo") + unit("One\n   two", "Eins zwei", own="EN"))
    first, second = read_tmx(path, source="en", target="de")
    assert (first.source, first.target) == ("Hello", "Hallo")
    assert (first.origin, first.target_origin) == (Origin(str(path), 5), Origin(str(path), 6))
    assert second.source == "One two"
    with pytest.raises(DataError, match=r"no unit has both 'en' and 'fr'; there is"):
        [*read_tmx(path, source="en", target="fr")]


def test_a_language_is_taken_as_spelled_before_one_that_matches(tmp_path):
    body = (
        '<tu><tuv xml:lang="de-AT"><seg>Paradeiser</seg></tuv><tuv xml:lang="de"><seg>Tomate</seg></tuv>'
        '<tuv lang="en"><seg>tomato</seg></tuv></tu>'
    )
    path = tmx(tmp_path / "a.tmx", body)
    assert [each.target for each in read_tmx(path, source="en", target="de")] == ["Tomate"]
    assert [each.target for each in read_tmx(path, source="en-GB", target="de-at")] == ["Paradeiser"]
    assert same_language("en_US", "en")
    assert not same_language("en-US", "en-GB")
    assert same_language("en", "eng")
    assert not same_language("en", "enm")


INLINE = (
    'Press <bpt i="1">&lt;b&gt;</bpt><hi>OK</hi><ept i="1">&lt;/b&gt;</ept><ph x="2"/>'
    "<it pos='begin'>{\\i}<sub>note</sub></it> now<ut>%s</ut>."
)


def test_inline_tags_are_dropped_or_kept_as_the_code_that_they_hide(tmp_path):
    path = tmx(tmp_path / "a.tmx", unit(INLINE, "x"))
    assert next(read_tmx(path, source="en", target="de")).source == "Press OK now."
    kept = next(read_tmx(path, source="en", target="de", tags="keep")).source
    assert kept == 'Press <b>OK</b><ph x="2"/>{\\i}note now%s.'


def test_broken_units_are_refused_or_skipped_with_their_lines(tmp_path):
    body = (
        unit("good", "gut")
        + unit("", "leer")
        + unit("dated", "datiert", 'changedate="yesterday"')
        + '<tu><tuv xml:lang="en"><seg>alone</seg></tuv></tu>\n'
        + "<tu><tuv><seg>a</seg></tuv></tu>\n"
        + '<tu><tuv xml:lang="en"></tuv></tu>\n'
        + unit("x" * 2000, "lang")
        + unit("last", "letzter")
    )
    path = tmx(tmp_path / "a.tmx", body)
    skipped = Skipped()
    found = read_tmx(path, source="en", target="de", longest=1000, on_error="skip", skipped=skipped)
    assert [each.source for each in found] == ["good", "last"]
    assert {reason: [place.line for place in places] for reason, places in skipped.first.items()} == {
        "an empty segment": [7],
        "a date that is not YYYYMMDDTHHMMSSZ": [9],
        "a variant without xml:lang": [12],
        "a variant without a segment": [13],
        "<tu> of more than 1000 characters": [14],
    }
    with pytest.raises(DataError, match=r"a\.tmx:7: an empty segment; fix the file or pass on_error"):
        [*read_tmx(path, source="en", target="de")]


def test_a_broken_variant_costs_its_own_language_alone(tmp_path):
    french = '<tuv xml:lang="fr" changedate="x"><seg></seg></tuv><tuv><seg>?</seg></tuv></tu>'
    path = tmx(tmp_path / "a.tmx", unit("good", "gut").replace("</tu>", french) + unit("one", "eins"))
    assert [each.source for each in read_tmx(path, source="en", target="de")] == ["good", "one"]
    with pytest.raises(DataError, match=r"a\.tmx:6: an empty segment"):
        [*read_tmx(path, source="en", target="fr")]


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("20240131T120000Z", "20240131T120000Z"),
        ("2024-01-31", "20240131T000000Z"),
        ("2024-01-31T12:00:00Z", "20240131T120000Z"),
        ("2024-01-31 12:00:00+02:00", "20240131T100000Z"),
        ("", ""),
    ],
)
def test_dates_of_both_kinds_are_read_as_one(date, expected):
    assert normal_date(date) == expected


def test_dates_and_authors_are_those_of_each_variant(tmp_path):
    body = (
        '<tu changedate="20200101T000000Z" changeid="all"><tuv xml:lang="en" creationdate="2010-01-01">'
        '<seg>a</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv>'
        '<tuv xml:lang="fr" changedate="20240101T000000Z" changeid="Anna"><seg>c</seg></tuv></tu>'
    )
    (found,) = scan_tmx(tmx(tmp_path / "a.tmx", body))
    assert [(each.date, each.author) for each in found.variants] == [
        ("20100101T000000Z", "all"),
        ("20200101T000000Z", "all"),
        ("20240101T000000Z", "Anna"),
    ]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("first line<ph>&lt;br/></ph>second line", "first line second line"),
        ("first line.<it>\\n</it><ph>&lt;br></ph>Second", "first line. Second"),
        ('first<ph type="lb"/>second', "first second"),
        ("first <ph>&lt;br/></ph>second<ph>&lt;br/></ph>", "first second"),
        ("第一行<ph>&lt;br/></ph>第二行", "第一行第二行"),
        ("un<bpt>&lt;b></bpt>seen<ept>&lt;/b></ept>", "unseen"),
    ],
)
def test_a_dropped_code_that_ends_a_line_joins_no_words(tmp_path, inside, expected):
    path = tmx(tmp_path / "a.tmx", unit(inside, "x"))
    assert next(read_tmx(path, source="en", target="de")).source == expected


@pytest.mark.parametrize("encoding", ["Shift_JIS", "GB2312"])
def test_an_encoding_that_cannot_be_read_is_told(tmp_path, encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + HEAD.partition("?>")[2] + unit("一", "二") + TAIL
    (tmp_path / "a.tmx").write_bytes(text.encode(encoding))
    with pytest.raises(
        DataError, match=r"a\.tmx: XML in an encoding that cannot be read.*convert it to UTF-8"
    ):
        [*read_tmx(tmp_path / "a.tmx", source="en", target="de")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + unit("a", "b"), "a.tmx:7: XML that is not well-formed"),
        ('<!DOCTYPE tmx [<!ENTITY x "boom">]>' + "<tmx><header/><body/></tmx>", "declares an entity 'x'"),
        (
            '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx><header/></tmx>',
            "declares an entity 'x'",
        ),
        ('<!DOCTYPE tmx [<!ENTITY % x "boom">]><tmx><header/></tmx>', "declares an entity 'x'"),
        ("<tmx>" + "<a>" * 100 + "</a>" * 100 + "</tmx>", "more than 64 elements inside each other"),
        ("<html><p>hello</p></html>", "no TMX"),
        ("", "not well-formed"),
    ],
)
def test_files_that_are_broken_or_hostile_are_refused(tmp_path, text, message):
    (tmp_path / "a.tmx").write_text(text)
    with pytest.raises(DataError, match=message):
        [*read_tmx(tmp_path / "a.tmx", source="en", target="de", on_error="skip", skipped=Skipped())]


def test_an_entity_that_only_the_absent_dtd_knows_costs_its_unit(tmp_path):
    head = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>\n'
    path = tmx(tmp_path / "a.tmx", unit("a&nbsp;b", "c") + unit("good", "gut"), head)
    skipped = Skipped()
    found = [*read_tmx(path, source="en", target="de", on_error="skip", skipped=skipped)]
    assert [each.source for each in found] == ["good"]
    assert [*skipped.counts] == ["an entity that nobody declares"]


def test_other_encodings_and_compressed_files_are_read(tmp_path):
    text = '<?xml version="1.0" encoding="UTF-16"?>' + HEAD.partition("?>")[2] + unit("é", "ß") + TAIL
    (tmp_path / "a.tmx.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    (found,) = read_tmx(tmp_path / "a.tmx.gz", source="en", target="de")
    assert (found.source, found.target) == ("é", "ß")


def test_what_is_written_is_read_back(tmp_path):
    here = Origin("x")
    units = [
        Unit((Variant("en", 'a < b & "c" ]]>', here), Variant("de-AT", "ä > ö 'ü' \U0001f600", here)), here),
        Unit(
            (Variant("en", "two", here), Variant("de", "zwei", here)),
            here,
            "20240131T120000Z",
            'A "B" <C>',
            "en",
        ),
    ]
    out = io.StringIO()
    assert write_tmx(out, units) == 2
    (tmp_path / "a.tmx").write_text(out.getvalue(), encoding="utf-8")
    found = [*scan_tmx(tmp_path / "a.tmx")]
    for one, other in zip(units, found, strict=True):
        assert [(each.language, each.text) for each in one.variants] == [
            (each.language, each.text) for each in other.variants
        ]
        assert (one.date, one.author, one.source) == (other.date, other.author, other.source)
    out = io.StringIO()
    write_tmx(out, [Unit((Variant("en", "a\0b\x0b", here), Variant("de", "c", here)), here)])
    assert "a\ufffdb\ufffd" in out.getvalue()
