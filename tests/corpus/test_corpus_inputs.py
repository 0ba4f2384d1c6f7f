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
from regard.corpus.addresses import found_files, opened
from regard.corpus.plan import RECORD, Planner
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


@pytest.mark.parametrize("form", ["txt", "csv", "jsonl", "parquet"])
def test_text_makes_a_shard_and_a_row_weighs_as_some_text_does(form, tmp_path):
    """Short rows, then long ones: equally many rows would be shards of very unequal work."""
    short, long = ["a b c"] * 4000, ["word " * 199 + "word"] * 40
    path = written(tmp_path / f"a.{form}", [*short, *long], form)
    shards = read([path], tokens=1000)
    beside = {"txt": 0, "csv": 7, "jsonl": 26, "parquet": 0}[form]  # at most, of the row's other bytes
    weights = [[len(record.texts[0]) + 1 + RECORD for record in each] for each in shards]
    assert max(map(sum, weights[:-1])) <= 4000 + 1001 + RECORD
    assert min(sum(own) + beside * len(own) for own in weights[:-1]) >= 4000
    rows = [len(each) for each in shards]
    assert max(rows) > 10 * min(rows[:-1])


@pytest.mark.parametrize("form", ["txt", "csv", "jsonl", "parquet"])
def test_a_shard_of_lines_of_one_word_is_no_larger_in_rows_than_in_text(form, tmp_path):
    """A row has a vector, however short it is."""
    path = written(tmp_path / f"a.{form}", ["a"] * 20_000, form)
    shards = read([path], tokens=10_000)
    assert sum(map(len, shards)) == 20_000
    assert max(map(len, shards)) <= 40_000 / RECORD


def test_a_line_ends_a_shard_as_soon_as_it_is_heavy_enough(tmp_path):
    """The cuts are those of a plain loop over the lines."""
    chance = random.Random(3)
    rows = ["x" * chance.choice([0, 1, 5, 80, 400]) for _ in range(600)]
    path = written(tmp_path / "a.txt", rows, "txt")
    for tokens in (1, 17, 40, 100):
        wanted, weight = [[]], 0
        for row in rows:
            wanted[-1].append(row)
            weight += len(row) + 1 + RECORD
            if weight >= 4 * tokens:
                wanted.append([])
                weight = 0
        found = [[record.texts[0] for record in each] for each in read([path], tokens=tokens)]
        assert found == [each for each in wanted if each]


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


def test_columns_that_are_kept_may_be_told_by_their_number(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\tn\none\tgood\t7\n")
    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["one"], "label": ["good"], "n": ["7"]}), tmp_path / "a.parquet"
    )
    for name in ("a.tsv", "a.parquet"):
        ((found,),) = read([tmp_path / name], keep=("1",), id="2")
        assert (found.id, found.texts, found.kept) == ("7", ("one",), ("good",))


def objects(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_records_of_json_need_not_all_have_the_columns_that_are_kept(tmp_path):
    path = objects(tmp_path / "a.jsonl", {"text": "one"}, {"text": "two", "lang": "en", "key": 7})
    other = objects(tmp_path / "b.jsonl", {"text": "three"})
    found = [record for each in read([path, other], id="key", keep=("lang",)) for record in each]
    assert [record.texts[0] for record in found] == ["one", "two", "three"]
    assert [record.kept for record in found] == [(None,), ("en",), (None,)]
    assert [record.id for record in found] == [f"{path}:1", "7", f"{other}:1"]
    for given in ([path, other], [other, path]):
        with pytest.raises(DataError, match="no column 'lag'"):
            read(given, keep=("lang", "lag"))


def test_the_column_of_texts_is_one_of_all_objects_that_a_file_begins_with(tmp_path):
    path = objects(tmp_path / "a.jsonl", {"title": "x"}, {"title": "y", "text": "two"}, {"text": "three"})
    assert texts(read([path])) == [None, "two", "three"]
    broken = tmp_path / "b.jsonl"
    broken.write_text("{\n" * 40_000 + '{"n": 1, "text": "last"}\n')
    assert texts(read([broken], tokens=10**6)) == [None] * 40_000 + ["last"]


def test_what_is_kept_of_parquet_weighs_as_text_does(tmp_path):
    long = ["x" * 5000] * 200
    table = pyarrow.table({"text": ["a b c"] * 200, "body": long, "numbers": [[1.0] * 625] * 200})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert len(read([tmp_path / "a.parquet"], tokens=10_000)) == 1
    for name in ("body", "numbers"):
        shards = read([tmp_path / "a.parquet"], tokens=10_000, keep=(name,))
        assert {len(each) for each in shards[:-1]} == {8}  # of 40,000 bytes
        assert sum(map(len, shards)) == 200


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
        (tmp_path / "in" / f"{number:05d}.txt").write_text("a\n")
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


@pytest.mark.parametrize("given", ["books", "books/*/*.txt", "file"])
def test_what_is_written_below_the_input_is_not_read_the_next_time(
    given, tiny, sentences, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books" / "old").mkdir(parents=True)
    written(
        tmp_path / "books" / "old" / "a.txt", [each for each in sentences[:20] if "\t" not in each], "txt"
    )
    inputs = f"file://{tmp_path / 'books'}" if given == "file" else given
    out = Path("books/out")
    first = corpus("classify", tiny["classifier"], inputs, out, to="text")
    assert first.worked > 0
    assert corpus("classify", tiny["classifier"], inputs, out, to="text").worked == 0
    address = str(out / "part-000000.txt")
    with pytest.raises(ConfigError, match=r"lies in .*out, where the output goes"):
        corpus("classify", tiny["classifier"], address, out, to="text")


def spark_folder(folder):
    """As Spark leaves it: a mark that it is done, sums, an empty partition, what it had not finished."""
    files = {
        "_SUCCESS": "",
        "_temporary/0/part-9.csv": "text\nnot finished\n",
        ".part-0.csv.crc": "crc",
        "part-0.csv": "text,n\none,1\ntwo,2\n",
        "part-1.csv": "",
        "part-2.csv.partial": "text\nhalf",
        "_year=2020/part-3.csv": "text,n\nthree,3\n",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_a_folder_that_spark_has_written_is_read_without_its_marks_and_empty_files(tmp_path):
    import fsspec

    spark_folder(tmp_path / "spark")
    fsspec.filesystem("memory").put(str(tmp_path / "spark"), "/corpus-test-3", recursive=True)
    for given in (str(tmp_path / "spark"), "memory://corpus-test-3"):
        assert texts(read([given])) == ["three", "one", "two"]
        said = []
        found_files([given], AS_NAMED, None, said.append)
        assert said == ["1 empty files are left out"]
    for given in (str(tmp_path / "spark" / "*"), "memory://corpus-test-3/*"):
        assert texts(read([given])) == ["one", "two"]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "csv.gz"])
def test_a_file_with_nothing_in_it_has_no_records(form, tiny, tmp_path):
    plain = gzip.compress(b"") if form == "csv.gz" else b""
    (tmp_path / f"a.{form}").write_bytes(plain)
    (tmp_path / "b.csv").write_text("text,n\none,1\n")
    given = [tmp_path / f"a.{form}", tmp_path / "b.csv"]
    assert texts(read(given, keep=("n",), id="n")) == ["one"]
    assert corpus("embed", tiny["embedder"], given, tmp_path / "out").manifest["counts"]["rows"] == 1


@pytest.mark.parametrize("kind", ["dictionary", "view", "large", "list"])
def test_text_of_parquet_may_be_of_any_type_of_text(kind, sentences, tmp_path):
    column = pyarrow.array(sentences)
    match kind:
        case "dictionary":
            column = column.dictionary_encode()
        case "view":
            column = column.cast(pyarrow.string_view())
        case "large":
            column = column.cast(pyarrow.large_string())
        case "list":
            column = pyarrow.array([each.split() for each in sentences])
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet")
    words = kind == "list"
    found = texts(read([tmp_path / "a.parquet"], wanted=Wanted(None, words=words)))
    assert found == ([each.split() for each in sentences] if words else sentences)


def test_an_address_that_cannot_be_reached_is_told_in_a_line(tmp_path, monkeypatch):
    import fsspec

    def missing(address):
        raise ImportError("Install s3fs to access S3") from ModuleNotFoundError("no", name="s3fs")

    with monkeypatch.context() as without:
        without.setattr(fsspec.core, "url_to_fs", missing)
        with pytest.raises(ConfigError, match=r"s3://bucket/x: Install s3fs .*: pip install s3fs"):
            found_files(["s3://bucket/x"], AS_NAMED)

    class StrangeError(Exception):
        """As botocore and httpx raise them."""

    with monkeypatch.context() as broken:
        memory = fsspec.filesystem("memory")
        with memory.open("/corpus-test-4/a.txt", "wb") as file:
            file.write(b"one\n")
        (there,) = found_files(["memory://corpus-test-4/a.txt"], AS_NAMED)

        def fails(*given, **how):
            raise StrangeError("no net")

        for name in ("info", "open"):
            broken.setattr(type(memory), name, fails)
        said = r"memory://.*a\.txt: cannot be reached \(StrangeError: no net\).*credentials"
        with pytest.raises(DataError, match=said):
            found_files(["memory://corpus-test-4/a.txt"], AS_NAMED)
        with pytest.raises(DataError, match=said), opened(there):
            pass
