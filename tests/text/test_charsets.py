"""Names of encodings, and guesses at those of files."""

import pytest

from regard.text import DataError, Skipped, read_lines
from regard.text.charsets import check_encoding, check_separator, guess

FRENCH = "L\u2019œuvre d\u2019un élève coûte 5 €, “naïve” et près de la forêt.\nUn autre été à Nîmes.\n"
RUSSIAN = "Это уже совсем другая азбука, и её надо знать.\n"


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "cp1252", "latin-1", "utf-16", "shift_jis", "utf-8-sig"])
def test_text_encodings_are_known_by_any_of_their_names(name):
    check_encoding(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cp-1252", "cp1252"),
        ("windows1252", "cp1252"),
        ("uft8", "utf-8"),
        ("latin11", "latin-1"),
        ("?", "utf-8"),
    ],
)
def test_an_unknown_encoding_is_told_with_those_that_are_spelled_like_it(name, near):
    with pytest.raises(ValueError, match=rf"encoding='{name}'".replace("?", r"\?")) as caught:
        check_encoding(name)
    assert f"'{near}'" in str(caught.value).partition("did you mean one of ")[2]


@pytest.mark.parametrize("name", ["base64", "rot13", "hex", "undefined", "idna"])
def test_what_decodes_no_text_is_no_encoding(name):
    with pytest.raises(ValueError, match=f"encoding='{name}' decodes no text"):
        check_encoding(name)


def test_a_separator_is_one_character_and_a_tab_may_be_spelled():
    assert [check_separator(each) for each in (None, ";", " ", "\t", "\\t", "tab")] == [
        None,
        ";",
        " ",
        *3 * "\t",
    ]
    for wrong in ("", ";;", "\n", '"'):
        with pytest.raises(ValueError, match=r"cannot part cells: give one character, such as ';'"):
            check_separator(wrong)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_the_guess_reads_the_text(encoding):
    text = FRENCH if encoding != "latin-1" else FRENCH.translate({ord(c): "e" for c in "\u2019œ€“”"})
    found = guess(text.encode(encoding))
    assert found == ("cp1252" if encoding == "latin-1" else encoding)
    assert text.encode(encoding).decode(found) == text


def test_what_the_bytes_do_not_tell_is_not_guessed():
    assert guess(RUSSIAN.encode("cp1251")) is None  # cp1252 would read it, as nonsense
    assert guess(RUSSIAN.encode() + b"a \xe9 b\n") is None  # UTF-8, but for one letter
    assert guess(b"caf\xe9 \x81 \x8d\n") is None  # bytes that cp1252 has not


def advice(path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    return str(caught.value)


def test_the_first_broken_line_is_told_with_its_byte_and_the_encoding_that_reads_the_file(write):
    path = write("x.txt", ("plain\n" + FRENCH).encode("cp1252"))
    told = advice(path)
    assert told.startswith(
        "x.txt:2: invalid UTF-8 at byte 2 (0x92); it is probably cp1252: pass encoding='cp1252'"
    )
    assert "latin" not in told.lower()
    lines = [line.text for line in read_lines(path, encoding="cp1252")]
    assert "\n".join(lines) + "\n" == "plain\n" + FRENCH


def test_a_broken_line_among_utf8_is_no_reason_to_read_all_otherwise(write):
    before, after = "Grüße\n".encode() + b"a \xfc b\n", b"a \xfc b\n" + "Grüße\nschöne Öfen\n".encode()
    for content in (before, after):
        assert "other lines are UTF-8: fix this one" in advice(write("x.txt", content))


def test_an_encoding_that_nobody_can_guess_is_asked_for(write):
    told = advice(write("x.txt", RUSSIAN.encode("cp1251")))
    assert "if you know its encoding (cp1251, koi8-r" in told
    assert "probably" not in told


def test_bytes_that_another_encoding_has_not_cost_their_line_alone(write):
    path = write("x.txt", "né\n".encode("cp1252") + b"a\x81b \x81\n" + "œuf\n".encode("cp1252"))
    skipped = Skipped()
    lines = [line.text for line in read_lines(path, encoding="cp1252", on_error="skip", skipped=skipped)]
    assert lines == ["né", "œuf"]
    assert skipped.counts == {"not cp1252": 1}
    with pytest.raises(DataError, match=r"x.txt:2: not cp1252 at byte 2 \(0x81\); pass another encoding="):
        list(read_lines(path, encoding="cp1252"))


def test_utf8_read_as_something_narrower_is_told_to_be_utf8(write):
    path = write("x.txt", "fine\nGrün\n".encode())
    with pytest.raises(
        DataError, match=r"x.txt:2: not ascii at byte 3 .* it is UTF-8: pass encoding='utf-8'"
    ):
        list(read_lines(path, encoding="ascii"))
