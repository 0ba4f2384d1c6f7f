import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.files import PASSED, LineError, scan, scan_stream
from regard.text.records import DataError

lines_of_text = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=30), max_size=8
)
SUFFIXES = ["", ".gz", ".xz", ".bz2", ".zip"]


def write(folder: Path, suffix: str, content: bytes) -> Path:
    path = folder / f"text{suffix}"
    match suffix:
        case "":
            path.write_bytes(content)
        case ".gz":
            path.write_bytes(gzip.compress(content))
        case ".xz":
            path.write_bytes(lzma.compress(content, preset=0))
        case ".bz2":
            path.write_bytes(bz2.compress(content))
        case ".zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("inside.txt", content)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_come_back_from_every_kind_of_file(tmp_path_factory, suffix, end):
    folder = tmp_path_factory.mktemp("files")

    @given(lines_of_text)
    def check(lines):
        # A carriage return at its end belongs to the line's end, a mark at the file's start to the encoding.
        lines = [line.rstrip("\r").lstrip("\ufeff") for line in lines]
        path = write(folder, suffix, b"".join(line.encode() + end for line in lines))
        assert list(scan(path)) == lines

    check()


@pytest.mark.parametrize(
    "inside", ["\x85", "\u2028", "\u2029", "\f", "\v", "\x1c", "\x1d", "\x1e", "\r", "\ufeff"]
)
def test_only_a_newline_ends_a_line(tmp_path, inside):
    path = write(tmp_path, "", f"a{inside}b\nc{inside}\n".replace("\r\n", "\r.\n").encode())
    assert len(list(scan(path))) == 2
    assert next(scan(path)) == f"a{inside}b"


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    path = write(tmp_path, "", "\ufeffa\n\ufeffb\n".encode())
    assert list(scan(path)) == ["a", "\ufeffb"]


def test_an_empty_file_has_no_lines_and_the_last_needs_no_newline(tmp_path):
    assert list(scan(write(tmp_path, "", b""))) == []
    assert list(scan(write(tmp_path, "", b"\xef\xbb\xbf"))) == []
    assert list(scan(write(tmp_path, "", b"a\n\nb"))) == ["a", "", "b"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            b"gr\xfc\xdf",
            "invalid UTF-8 at byte 3 (0xfc); it is probably cp1252: pass encoding='cp1252', fix the file or",
        ),
        (b"a\0b", "NUL at byte 2 (0x00); fix the file or"),
        (b"x" * 11, "line too long (11 bytes where longest=10); fix the file, raise longest="),
    ],
)
def test_a_broken_line_is_named_and_the_next_one_read(tmp_path, bad, reason):
    path = write(tmp_path, "", b"one\n" + bad + b"\nthree\n")
    first, error, third = scan(path, longest=10)
    assert (first, third) == ("one", "three")
    assert isinstance(error, LineError)
    assert str(error).startswith(f"{path}:2: {reason}")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_limit_counts_neither_the_end_nor_the_mark(tmp_path, mark, end):
    assert list(scan(write(tmp_path, "", mark + b"x" * 10 + end), longest=10)) == ["x" * 10]
    for length in (*range(11, 18), 65_547, 65_548):
        (error,) = scan(write(tmp_path, "", mark + b"x" * length + end), longest=10)
        assert isinstance(error, LineError)
        assert f"({length} bytes" in str(error)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_huge_line_is_not_held_in_memory(tmp_path, suffix):
    path = write(tmp_path, suffix, b"x" * 20_000_000 + b"\nafter\n")
    tracemalloc.start()
    error, after = scan(path, longest=100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(error).startswith(f"{path}:1: line too long (20000000 bytes where longest=100000)")
    assert after == "after"
    assert peak < 2_000_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_what_has_no_end_is_given_up_unless_it_is_a_file(tmp_path, monkeypatch, encoding):
    monkeypatch.setenv(PASSED, "300000")
    with Path("/dev/zero").open("rb") as stream, pytest.raises(DataError) as caught:
        list(scan_stream(stream, "standard input", longest=100_000, encoding=encoding))
    assert str(caught.value).startswith("standard input:1: a line without an end (")
    assert str(caught.value).endswith("bytes so far); is it text? if so, set REGARD_PASSED higher")
    path = write(tmp_path, "", ("x" * 400_000 + "\nafter\n").encode(encoding))
    error, after = scan(path, longest=100_000, encoding=encoding)
    assert isinstance(error, LineError)
    assert after == "after"
    monkeypatch.setenv(PASSED, "500000")
    stream = io.BytesIO(("x" * 400_000 + "\nafter\n").encode(encoding))
    assert [*scan_stream(stream, "-", longest=100_000, encoding=encoding)][1] == "after"


def test_utf_16_without_its_mark_is_named(tmp_path):
    path = write(tmp_path, "", "plain".encode("utf-16-le"))
    with pytest.raises(DataError, match=rf"{path}: not utf-16 \(.*BOM\); "):
        list(scan(path, encoding="utf-16"))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
def test_a_truncated_file_is_an_error_even_after_its_last_whole_line(tmp_path, suffix):
    text = "".join(f"{random.Random(number).random()}\n" for number in range(20_000))
    path = write(tmp_path, suffix, text.encode())
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"get the file again") as caught:
        list(scan(path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
def test_damaged_bytes_are_an_error(tmp_path, suffix):
    path = write(tmp_path, suffix, b"some text\n" * 1000)
    content = bytearray(path.read_bytes())
    middle = 45 if suffix == ".zip" else len(content) // 2
    content[middle : middle + 4] = b"\xde\xad\xbe\xef"
    path.write_bytes(content)
    with pytest.raises(DataError):
        list(scan(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
def test_plain_text_under_a_compressed_name_is_an_error(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"plain\n" * 100)
    remedy = "get the file again" if suffix == ".zip" else rf"not \{suffix} data; take \{suffix} off its name"
    with pytest.raises(DataError, match=remedy):
        list(scan(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
def test_no_bytes_at_all_are_no_compressed_file(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="get the file again"):
        list(scan(path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path, encoding):
    path = write(tmp_path, "", "Grüße an alle\nund mehr\n".encode(encoding))
    with pytest.raises(
        DataError, match=f"text:1: not UTF-8 text but probably {encoding}; pass encoding='{encoding}'"
    ):
        list(scan(path))


def test_compressed_data_under_a_plain_name_is_named(tmp_path):
    (tmp_path / "text").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(DataError, match=r"text: holds \.gz data; end its name in \.gz"):
        list(scan(tmp_path / "text"))


def parquet() -> bytes:
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), written)
    return written.getvalue()


def tar() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("inside"))
    return written.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (parquet(), 'holds Parquet data; read it as a table, with format="parquet"'),
        (tar(), "holds tar data; unpack it: tar -xf"),
        (b"\x28\xb5\x2f\xfd\x04\0", "holds .zst data; end its name in .zst"),
        (bz2.compress(b"a\n", 3), "holds .bz2 data; end its name in .bz2"),
    ],
    ids=["parquet", "tar", "zstd", "bz2"],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_other_kinds_of_file_are_named_with_the_way_to_read_them(tmp_path, content, told, suffix):
    path = write(tmp_path, suffix, content)
    with pytest.raises(DataError) as caught:
        list(scan(path))
    assert str(caught.value) == f"{path}: {told}"


def test_a_file_with_carriage_returns_for_newlines_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"ends its lines as old Macs did.*tr '\\r' '\\n'"):
        list(scan(write(tmp_path, "", b"one\rtwo\rthree\r")))


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "train.de.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"train\.de: no such file; did you mean 'train\.de\.gz'\?"):
        list(scan(tmp_path / "train.de"))
    with pytest.raises(
        DataError, match="no such file; addresses are read by regard train and regard corpus: copy it here"
    ):
        list(scan(Path("s3://bucket/train.de")))
    with pytest.raises(DataError, match="no such file; check the path"):
        list(scan(tmp_path / "nowhere" / "x"))


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="a directory, not a file"):
        list(scan(tmp_path))


def test_an_archive_of_several_files_needs_a_name(tmp_path):
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("deep")
        archive.writestr("deep/a.txt", "A\n")
        archive.writestr("b.txt.gz", gzip.compress(b"B\n"))
    assert list(scan(path / "deep" / "a.txt")) == ["A"]
    assert list(scan(f"{path}/b.txt.gz")) == ["B"]
    with pytest.raises(
        DataError, match=r"holds 2 files \(deep/a\.txt, b\.txt\.gz\); name one, as in .*/deep/a\.txt"
    ):
        list(scan(path))
    with pytest.raises(DataError, match=r"holds no file 'deep/b\.txt'; did you mean"):
        list(scan(path / "deep" / "b.txt"))


def test_an_empty_archive_has_no_file_to_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w"):
        pass
    with pytest.raises(DataError, match="holds 0 files"):
        list(scan(tmp_path / "data.zip"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="what is open cannot be seen here")
def test_a_reader_that_is_left_half_way_closes_its_file(tmp_path):
    path = write(tmp_path, ".gz", b"a\n" * 100)

    def is_open() -> bool:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return path.resolve() in {link.readlink() for link in links}

    lines = scan(path)
    next(lines)
    assert is_open()
    lines.close()
    assert not is_open()


def test_a_pipe_is_read_once_and_the_second_time_said_to_be_one(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    try:
        assert [*scan(f"/dev/fd/{read}")] == ["one", "two"]
        with pytest.raises(
            DataError, match="a pipe, which can be read only once; write its content to a file"
        ):
            [*scan(f"/dev/fd/{read}")]
    finally:
        os.close(read)


def test_devices_that_never_end_are_refused() -> None:
    with pytest.raises(DataError, match="/dev/zero: a device, not a file"):
        [*scan("/dev/zero")]
    assert [*scan(os.devnull)] == []


@pytest.mark.parametrize("name", ["bomb.xz", "bomb.zip"])
def test_what_unpacks_to_hundreds_of_times_its_size_is_refused_until_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("regard.text.files._HARMLESS", 100_000)
    text = b"a line\n" * 100_000
    path = tmp_path / name
    if name.endswith("xz"):
        path.write_bytes(lzma.compress(text))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("text", text)
    assert len(text) > 200 * path.stat().st_size
    with pytest.raises(
        DataError, match=rf"{name}: unpacks to more than 200 times its size.*set REGARD_UNPACKED higher"
    ):
        [*scan(path)]
    monkeypatch.setenv("REGARD_UNPACKED", "1e6")
    assert sum(1 for _ in scan(path)) == 100_000
