"""What a corpus is read from: any file, from any place in it; bad records with where they stand."""

import bz2
import gzip
import json
import random
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.corpus import commands
from regard.corpus.addresses import found_files
from regard.corpus.plan import Planner
from regard.corpus.reading import Asked, CorpusReader, Taken
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.tables import Wanted
from regard.text import DataError
from tests.corpus.corpora import corpus, files, text, vectors


def read(given, tokens=30, options=AS_NAMED, wanted=None, **asked):
    """All records, shard by shard; those of a shard are read by a reader that saw nothing before."""
    how = Asked(wanted=(wanted or Wanted(options.column),), options=options, **asked)
    planner = Planner(how, tokens)
    there = found_files([str(each) for each in given], options)
    shards = [*planner.shards(there)]
    names = [each.names for each in planner.files]
    found = [
        [record for stretch in shard.stretches for record in CorpusReader(there, names, how).records(stretch)]
        for shard in shards
    ]
    onward = CorpusReader(there, names, how)
    again = [[record for stretch in each.stretches for record in onward.records(stretch)] for each in shards]
    assert found == again
    return found


def texts(shards):
    return [record.texts[0] if isinstance(record, Taken) else None for each in shards for record in each]


def written(path, sentences, form):
    plain = "".join(f"{each}\n" for each in sentences).encode()
    match form:
        case "txt":
            path.write_bytes(plain)
        case "txt.gz":
            path.write_bytes(gzip.compress(plain))
        case "txt.bz2":
            path.write_bytes(bz2.compress(plain))
        case "txt.zst":
            codec = pyarrow.Codec("zstd")
            half = plain.index(b"\n", len(plain) // 2) + 1
            both = [codec.compress(part, asbytes=True) for part in (plain[:half], plain[half:])]
            path.write_bytes(b"".join(both))  # two frames, as parallel packers write
        case "jsonl":
            rows = (json.dumps({"n": n, "text": each}) for n, each in enumerate(sentences))
            path.write_text("".join(f"{row}\n" for row in rows))
        case "csv":
            quoted = (each.replace('"', '""') for each in sentences)
            rows = "".join(f'"{each}",{n}\n' for n, each in enumerate(quoted))
            path.write_text("text,n\n" + rows, encoding="utf-8")
        case "parquet":
            table = pyarrow.table({"n": [*range(len(sentences))], "text": sentences})
            pyarrow.parquet.write_table(table, path, row_group_size=70)
    return path


FORMS = ["txt", "txt.gz", "txt.bz2", "txt.zst", "jsonl", "csv", "parquet"]


@pytest.mark.parametrize("form", FORMS)
def test_every_record_is_read_once_and_in_order_whatever_the_file(form, sentences, tmp_path):
    some = [*sentences, 'say "yes"', "two\nlines" if form in ("csv", "jsonl", "parquet") else "one line"]
    path = written(tmp_path / f"a.{form}", some, form)
    shards = read([path])
    assert len(shards) > 10
    assert texts(shards) == some
    assert all(record.origin.file == str(path) for each in shards for record in each)


@pytest.mark.parametrize("form", FORMS)
def test_the_output_is_the_same_whatever_the_input_is_packed_in(form, tiny, sentences, tmp_path):
    plain = written(tmp_path / "plain.txt", sentences, "txt")
    corpus("embed", tiny["embedder"], plain, tmp_path / "plain")
    corpus("embed", tiny["embedder"], written(tmp_path / f"a.{form}", sentences, form), tmp_path / "out")
    assert np.array_equal(vectors(tmp_path / "plain"), vectors(tmp_path / "out"))


def test_text_and_not_rows_makes_a_shard(tmp_path):
    """Short rows, then long ones: equally many rows would be shards of very unequal work."""
    short, long = ["a b c"] * 4000, ["word " * 199 + "word"] * 40
    path = written(tmp_path / "a.txt", [*short, *long], "txt")
    shards = read([path], tokens=1000)
    sizes = [sum(len(record.texts[0]) + 1 for record in each) for each in shards]
    assert max(sizes[:-1]) <= 4000 + 1000
    assert min(sizes[:-1]) >= 4000
    rows = [len(each) for each in shards]
    assert max(rows) > 50 * min(rows[:-1])


def test_small_files_share_shards_and_large_ones_are_cut(tmp_path, sentences):
    for number in range(30):
        written(tmp_path / f"{number:02d}.txt", sentences[number * 3 : number * 3 + 3], "txt")
    written(tmp_path / "99.txt", sentences, "txt")
    shards = read([tmp_path], tokens=100)
    assert texts(shards) == sentences[:90] + sentences
    origins = [{record.origin.file for record in each} for each in shards]
    assert len(origins[0]) > 1
    assert sum(str(tmp_path / "99.txt") in each for each in origins) > 5


def test_folders_globs_and_addresses_are_read_in_the_order_of_their_names(tmp_path, sentences):
    import fsspec

    memory = fsspec.filesystem("memory")
    for name, part in (("b", sentences[:5]), ("a", sentences[5:9]), ("c", sentences[9:12])):
        written(tmp_path / f"{name}.txt", part, "txt")
        with memory.open(f"/corpus-test/{name}.txt.gz", "wb") as file:
            file.write(gzip.compress("".join(f"{each}\n" for each in part).encode()))
    (tmp_path / ".hidden").write_text("nothing")
    wanted = sentences[5:9] + sentences[:5] + sentences[9:12]
    assert texts(read([tmp_path])) == wanted
    assert texts(read([tmp_path / "*.txt"])) == wanted
    assert texts(read(["memory://corpus-test"])) == wanted
    assert texts(read(["memory://corpus-test/[ab]*.gz"])) == wanted[:9]
    assert texts(read([tmp_path / "b.txt", "memory://corpus-test/c.txt.gz"])) == sentences[:5] + wanted[9:]
    with pytest.raises(DataError, match="matches no file"):
        read([tmp_path / "*.pdf"])
    with pytest.raises(DataError, match="no such file"):
        read([tmp_path / "d.txt"])
    with pytest.raises(ConfigError, match="named twice"):
        read([tmp_path / "a.txt", tmp_path / "a.txt"])


def test_parquet_at_an_address_is_read(tmp_path, sentences):
    import fsspec

    path = written(tmp_path / "a.parquet", sentences, "parquet")
    with fsspec.filesystem("memory").open("/corpus-test-2/a.parquet", "wb") as file:
        file.write(path.read_bytes())
    assert texts(read(["memory://corpus-test-2/a.parquet"])) == sentences


def test_another_encoding_is_read_from_any_place(tmp_path):
    some = [f"größer als {number} Äpfel" for number in range(200)]
    (tmp_path / "a.txt").write_text("".join(f"{each}\n" for each in some), encoding="cp1252")
    shards = read([tmp_path / "a.txt"], options=FileOptions(encoding="cp1252"))
    assert len(shards) > 10
    assert texts(shards) == some


def test_ids_are_a_column_or_the_place(tmp_path, sentences):
    path = written(tmp_path / "a.jsonl", sentences[:50], "jsonl")
    shards = read([path], id="n", keep=("text",))
    assert [record.id for each in shards for record in each] == [str(n) for n in range(50)]
    assert [record.kept for each in shards for record in each] == [(each,) for each in sentences[:50]]
    places = [record.id for each in read([path]) for record in each]
    assert places == [f"{path}:{line}" for line in range(1, 51)]
    with pytest.raises(DataError, match="no column 'm'"):
        read([path], id="m")


BROKEN = b"""{"text": "fine"}
{"text":
{"text": 5}
{"other": "x"}
\xff\xfe

{"text": null}
{"text": "last"}
"""


def test_bad_records_have_a_row_and_their_place(tiny, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(BROKEN * 5)
    found = corpus("embed", tiny["embedder"], tmp_path / "a.jsonl", tmp_path / "out", shard_tokens=20)
    bad = [json.loads(line) for line in (tmp_path / "out" / "bad.jsonl").read_text().splitlines()]
    assert found.manifest["shards"] > 3
    assert [each["line"] for each in bad] == [n + 8 * k for k in range(5) for n in (2, 3, 4, 5)]
    assert [each["reason"].split(" (")[0] for each in bad[:4]] == [
        "invalid JSON",
        "no text in column 'text' but 5",
        "no column 'text'",
        "invalid UTF-8 at byte 1",
    ]
    assert found.manifest["counts"] == {"rows": 35, "bad": 20, "tokens": found.manifest["counts"]["tokens"]}
    rows = vectors(tmp_path / "out")
    assert (rows == 0).all(axis=1).tolist() == [False, True, True, True, True, False, False] * 5
    corpus("embed", tiny["embedder"], tmp_path / "a.jsonl", tmp_path / "two", shard_tokens=20, workers=2)
    assert files(tmp_path / "out") == files(tmp_path / "two")


def test_a_csv_with_a_stray_quote_loses_no_more_than_its_row(tmp_path):
    rows = [f"text number {n}" for n in range(40_000)]
    rows[7] = '"never closed'
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"{each}\n" for each in rows))
    shards = read([tmp_path / "a.csv"], tokens=2000)
    found = texts(shards)
    assert len(found) == len(rows)
    assert [number for number, each in enumerate(found) if each is None] == [7]


def test_a_column_that_is_not_there_is_told_before_anything_is_computed(tiny, tmp_path, sentences):
    path = written(tmp_path / "a.parquet", sentences, "parquet")
    with pytest.raises(DataError, match="no column 'txet'; did you mean 'text'"):
        corpus("embed", tiny["embedder"], path, tmp_path / "out", files=FileOptions(column="txet"))
    with pytest.raises(DataError, match="column 'n' holds int64, not text"):
        corpus("embed", tiny["embedder"], path, tmp_path / "out", files=FileOptions(column="n"))
    assert not [*(tmp_path / "out").glob("part-*")]
    assert text(tmp_path / "out") == ""


@pytest.mark.parametrize("out", ["s3://bucket/out", "s3:/bucket/out", "memory://out"])
def test_an_address_is_no_place_to_write_to(out, tiny, tmp_path, sentences, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "a.txt", sentences, "txt")
    with pytest.raises(ConfigError, match=r"a path of this machine.* then copy it there"):
        corpus("embed", tiny["embedder"], path, out)
    for command in (commands.dedupe, commands.mine):
        given = [path] if command is commands.dedupe else [path, path]
        own = {} if command is commands.dedupe else {"neighbours": 4}
        with pytest.raises(ConfigError, match="then copy it there"):
            command(*given, Path(out), threshold=0.9, kind="exact", console=Console(quiet=True), **own)
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_that_is_named_twice_is_told_among_very_many_and_soon(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(12_000):
        (tmp_path / "in" / f"{number:05d}.txt").touch()
    begun = time.monotonic()
    assert len(found_files([str(tmp_path / "in")], AS_NAMED)) == 12_000
    with pytest.raises(ConfigError, match=r"07777\.txt is named twice"):
        found_files([str(tmp_path / "in"), str(tmp_path / "in" / "07777.txt")], AS_NAMED)
    assert time.monotonic() - begun < 20


def rows_of(shards):
    """Texts, and lines that are bad."""
    return texts(shards), [
        each.origin.line for shard in shards for each in shard if not isinstance(each, Taken)
    ]


QUOTES = [
    "plain",
    '5" pipe',
    'say ""yes""',
    '"two\nlines"',
    '"a\nb\nc, and ""d"" e"',
    '"a, b"',
    '"closed" and more',
    "",
    'x" y "z',
    '"one\n\xff line"',
]


@pytest.mark.parametrize("width", [1, 2])
def test_rows_of_a_csv_are_the_same_whatever_the_size_of_shards(width, tmp_path):
    chance = random.Random(width)
    for _ in range(30):
        drawn = chance.choices(QUOTES, k=40)
        if chance.random() < 0.3:
            drawn.insert(chance.randrange(40), '"never closed')
        rows = [",".join([cell] + ["n"] * (width - 1)) for cell in drawn]
        head = ",".join(["text", "n"][:width])
        (tmp_path / "a.csv").write_bytes("".join(f"{each}\n" for each in [head, *rows]).encode("latin-1"))
        whole = rows_of(read([tmp_path / "a.csv"], tokens=100_000))
        for tokens in (1, 3, 20):
            assert rows_of(read([tmp_path / "a.csv"], tokens=tokens)) == whole


def test_an_inch_sign_hides_no_newlines(tmp_path):
    rows = ['5" pipe', *(f'"line {n}\nand ""another"", {n}"' for n in range(40))]
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"{each}\n" for each in rows))
    for tokens in (1, 7, 20, 100_000):
        found = texts(read([tmp_path / "a.csv"], tokens=tokens))
        assert found == ['5" pipe', *(f'line {n}\nand "another", {n}' for n in range(40))]
