"""What a stream of lines becomes in a file, in each format."""

import csv
import io
import json

import pytest

from regard.decode import DecodeConfig
from regard.tasks.base.decoding import changed
from regard.tasks.base.sources import source_of
from regard.tasks.translation.lines import translate_lines, translate_table
from regard.text import DataError
from tests.tasks.copying import WORDS, translator

pytestmark = pytest.mark.filterwarnings("ignore::regard.tasks.translation.result.TranslationWarning")
TEXTS = ["mirror garden", "", "harbour", " ".join(WORDS * 2)]
CONFIG = DecodeConfig(beam=3, maximum=8)


def written(*, n_best=1, **settings):
    random = translator(decoding=CONFIG)
    settings.setdefault("decoding", changed(CONFIG, {"n_best": n_best} if n_best > 1 else {}))
    out = io.StringIO()
    counts = translate_lines(random, (text + "\n" for text in TEXTS), out, **settings)
    text = out.getvalue()
    assert text.endswith("\n")
    return counts, text[:-1].split("\n"), random.translate(TEXTS, align=True)


def test_plain_lines_stay_in_step_and_are_counted():
    counts, lines, found = written(window=2)
    assert lines == [each.text for each in found]
    unfinished = sum(not each.finished for each in found)
    assert (counts.lines, counts.blank, counts.split, counts.unfinished) == (4, 1, 1, unfinished)


def test_lines_with_words_outside_the_vocabulary_are_counted():
    known = translator(decoding=CONFIG)
    assert known.tokenizer.ids.unknown in known.tokenizer.encode("mirror 世界").ids
    counts = translate_lines(known, ["mirror garden", "mirror 世界", "世"], io.StringIO())
    assert counts.unknown == 2


def test_scores_stand_before_the_text():
    _, lines, found = written(scores=True)
    assert lines == [f"{each.score:.4f}\t{each.text}" for each in found]


def test_alignment_stands_behind_the_text():
    _, lines, found = written(align=True)
    links = [" ".join(f"{i}-{j}" for i, j in each.alignment) for each in found]
    assert lines == [f"{each.text} ||| {own}" for each, own in zip(found, links, strict=True)]


def test_several_translations_are_written_as_moses_does():
    _, lines, _ = written(n_best=2)
    best = translator(decoding=DecodeConfig(beam=3, maximum=8, n_best=2)).translate(TEXTS)
    wanted = [
        f"{number} ||| {each.text} ||| {each.score:.4f}"
        for number, translation in enumerate(best)
        for each in translation.alternatives
    ]
    assert lines == wanted
    assert len(lines) == 2 + 1 + 2 + 2


def test_a_wider_list_widens_the_beam():
    _, lines, _ = written(n_best=5)
    assert sum(line.startswith("0 |||") for line in lines) == 5


def test_json_has_everything_one_object_a_line():
    _, lines, _ = written(as_json=True, n_best=2, align=True)
    objects = [json.loads(line) for line in lines]
    assert [each["source"] for each in objects] == TEXTS
    assert len(objects[0]["alternatives"]) == 2
    assert "alignment" in objects[0]


def test_alignment_of_several_translations_needs_json():
    with pytest.raises(ValueError, match="or JSON"):
        written(n_best=2, align=True)


def test_a_newline_from_the_model_does_not_break_the_line(monkeypatch):
    from regard.text import Tokenizer

    decode = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "a\nb\r\nc" if ids else decode(self, ids))
    random, out = translator(decoding=CONFIG), io.StringIO()
    translate_lines(random, ["mirror", "garden"], out)
    assert out.getvalue() == "a b c\na b c\n"


def test_output_is_flushed_before_the_next_window_is_read():
    class Out(io.StringIO):
        flushed = ""

        def flush(self):
            self.flushed = self.getvalue()

    out = Out()
    seen = []

    def lines():
        for text in ("mirror", "garden", "harbour"):
            seen.append(out.flushed.count("\n"))
            yield text

    translate_lines(translator(decoding=CONFIG), lines(), out, window=2)
    assert seen == [0, 0, 2]
    assert out.flushed.count("\n") == 3


def test_a_column_is_translated_and_the_rest_is_kept(tmp_path):
    rows = [["id", "text"], *([str(number), text] for number, text in enumerate(TEXTS))]
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    random, out = translator(decoding=CONFIG), io.StringIO()
    counts = translate_table(random, source_of(str(path)), out, "csv", scores=True, align=True, window=2)
    found = random.translate(TEXTS, align=True)
    assert (counts.lines, counts.blank) == (4, 1)
    header, *written = csv.reader(io.StringIO(out.getvalue()))
    assert header == ["id", "text", "translation", "score", "alignment"]
    assert [row[:2] for row in written] == rows[1:]
    assert [row[2] for row in written] == [each.text for each in found]
    assert [float(row[3]) for row in written] == [round(each.score, 6) for each in found]
    assert [row[4] for row in written] == [" ".join(f"{i}-{j}" for i, j in each.alignment) for each in found]


def test_alternatives_of_a_row_are_a_list(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "mirror", "n": 1}\n', encoding="utf-8")
    out = io.StringIO()
    config = DecodeConfig(beam=3, maximum=8, n_best=2)
    translate_table(translator(), source_of(str(path)), out, "jsonl", decoding=config)
    best = translator(decoding=config).translate("mirror")
    plain = json.loads(out.getvalue())
    assert plain["n"] == 1
    assert [each["text"] for each in plain["alternatives"]] == [each.text for each in best.alternatives]


def test_a_row_too_long_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.csv"
    long = " ".join(WORDS * 3)
    path.write_text(f'n,text\n1,a\n2,"b\nc"\n3,d\n4,{long}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv:6: too long: .*--too-long split"):
        translate_table(
            translator(decoding=CONFIG),
            source_of(str(path)),
            io.StringIO(),
            "csv",
            too_long="error",
            window=2,
        )
