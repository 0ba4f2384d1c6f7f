"""The library that is made of the sources in C."""

import ctypes
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from regard.layout import Layout
from regard.nn import native
from regard.nn.kernels import attend_packed
from regard.nn.native import NativeWarning, attention, library, linear, structs
from regard.nn.native.linear import Panels
from regard.nn.packed import PackedLinear

able = pytest.mark.skipif(
    bool(native.NEEDED - native._processor()) or shutil.which("cc") is None,
    reason="no compiler, or no processor for it",
)
compiled = pytest.mark.skipif(library() is None, reason="no library")


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """An empty folder of libraries, and nothing said about how they are made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "regard"


@pytest.fixture
def source(kept, tmp_path, monkeypatch) -> Path:
    """A source that is compiled at once, instead of ours."""
    path = tmp_path / "small.c"
    path.write_text("int answer(void) { return 42; }")
    monkeypatch.setattr(native, "SOURCES", (path,))
    monkeypatch.setattr(native, "check", lambda made: None)
    monkeypatch.setattr(native, "missing", lambda made: [])
    return path


@pytest.fixture
def refusing(tmp_path, monkeypatch) -> Path:
    """A compiler that always fails, and a line of its file for each time that it was tried."""
    path = tmp_path / "refusing"
    path.write_text(f"#!/bin/sh\necho again >> {tmp_path / 'tried'}\necho 'what a source' >&2\nexit 1\n")
    path.chmod(0o700)
    monkeypatch.setenv("CC", str(path))
    return path


def find() -> ctypes.CDLL | None:
    """As another process would."""
    return native.library.__wrapped__()


def tries(compiler: Path) -> int:
    return len(compiler.with_name("tried").read_text().splitlines())


def run(code: str, **environment: str) -> str:
    """What it prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@compiled
def test_it_shares_torchs_threads():
    """Two libraries of threads in one process would wait for one another."""
    maps = run(
        "import torch; from regard.nn.native import library; library(); print(open('/proc/self/maps').read())"
    )
    files = {Path(line.split()[-1]).name for line in maps.splitlines() if "/" in line}
    assert sum(file.startswith(("libgomp", "libiomp", "libomp")) for file in files) == 1


@compiled
def test_the_library_is_made_once_and_kept(kept, monkeypatch):
    find()
    (made,) = kept.iterdir()
    time = made.stat().st_mtime_ns
    monkeypatch.setattr(native.subprocess, "run", None)
    find()
    assert made.stat().st_mtime_ns == time


@able
def test_many_may_make_it_at_the_same_time(source, kept):
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: find(), range(4))]
    assert [each.answer() for each in found] == [42] * 4
    assert [path.suffix for path in kept.iterdir()] == [".so"]


@able
def test_a_library_that_is_broken_is_made_again(source, kept):
    kept.mkdir(mode=0o700)
    made = native._place(["cc"])
    made.write_bytes(b"")
    assert find().answer() == 42
    assert made.stat().st_size > 1000


@able
def test_a_folder_that_others_can_write_to_is_not_trusted(kept):
    kept.mkdir()
    kept.chmod(0o777)
    with pytest.warns(NativeWarning, match="not yours alone: set XDG_CACHE_HOME"):
        assert find() is None
    assert [*kept.iterdir()] == []


def test_the_sources_are_in_the_package():
    assert all(source.is_file() for source in native.SOURCES)
    assert {*native.SOURCES} == {*native.SOURCES[0].parent.glob("*.[ch]")}
    assert '"nn/native/*.[ch]"' in Path("pyproject.toml").read_text(encoding="utf-8")


# Turned off.


@able
def test_it_can_be_turned_off(source, kept, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "1")
    assert find() is not None
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert find() is None
    monkeypatch.setenv("REGARD_NATIVE", "off")
    with pytest.raises(ValueError, match="REGARD_NATIVE=off: set it to 0"):
        find()


@compiled
@torch.no_grad()
def test_turned_off_torch_does_the_same(tmp_path):
    layout = Layout.of([5, 9])
    queries, keys, values = torch.randn(3, 14, 2, 16)
    layer = torch.randn(40, 32), torch.randn(40)
    x = torch.randn(14, 32)
    torch.save((queries, keys, values, *layer, x), tmp_path / "given")
    run(
        f"""import torch
from regard.layout import Layout
from regard.nn.kernels import attend_packed
from regard.nn.native import attention, library, linear
from regard.nn.packed import PackedLinear

queries, keys, values, weight, bias, x = torch.load({str(tmp_path / "given")!r})
layout = Layout.of([5, 9])
with torch.no_grad():
    found = attend_packed(queries, keys, values, layout, layout), PackedLinear(weight, bias, "gelu")(x)
if library() or attention.available() or linear.available() or linear.bytes_available():
    raise SystemExit("there is C")
torch.save(found, {str(tmp_path / "found")!r})
""",
        REGARD_NATIVE="0",
    )
    attended, multiplied = torch.load(tmp_path / "found")
    assert_close(attended, attend_packed(queries, keys, values, layout, layout), atol=1e-6, rtol=1e-5)
    assert_close(multiplied, PackedLinear(*layer, "gelu")(x), atol=2e-5, rtol=1e-5)


# The compiler.


@able
def test_a_compiler_may_have_arguments(source, monkeypatch):
    source.write_text("int answer(void) { return ANSWER; }")
    monkeypatch.setenv("CC", "env cc '-DANSWER=43'")
    assert find().answer() == 43
    monkeypatch.setenv("CC", "env cc -DANSWER=44")
    assert find().answer() == 44


@able
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-compiler -O1", "no-such-compiler was not found; install it, or unset CC"),
        ("'cc", r"CC='cc is no command \(No closing quotation\): mend it"),
    ],
)
def test_a_compiler_that_is_not_there_is_told_and_torch_does_it(kept, monkeypatch, command, said):
    monkeypatch.setenv("CC", command)
    with pytest.warns(NativeWarning, match=f"so torch does its work, more slowly: .*{said}"):
        assert find() is None


def test_without_any_compiler_torch_does_it(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find() is None


@able
@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
@torch.no_grad()
def test_clang_makes_the_same_of_the_sources(kept, monkeypatch):
    monkeypatch.setenv("CC", "clang")
    made = find()
    assert made is not None
    for part in (attention, linear):
        monkeypatch.setattr(part, "library", lambda: made)
    for lengths, width in (([7, 16, 33], 32), ([7, 33], 20), ([1, 5, 6], 16)):  # many, not whole, and few
        layout = Layout.of(lengths)
        queries, keys, values = torch.randn(3, layout.tokens, 2, width)
        exact = attend_packed(
            *(x.double() for x in (queries, keys, values)), layout, layout, kernel="equation"
        )
        bounds, found = layout.host_offsets.long(), torch.full_like(queries, torch.nan)
        asking = attention.Asking(bounds, bounds[:-1], bounds.diff())
        asking.attend(queries, keys, values, found, width**-0.5)
        assert_close(found.double(), exact, atol=3e-6, rtol=1e-5)
    weight, bias, x = torch.randn(100, 40), torch.randn(100), torch.randn(50, 40)
    exact = torch.nn.functional.gelu(x.double() @ weight.double().T + bias)
    assert_close(Panels(weight, bias, "gelu").times(x).double(), exact, atol=4e-5, rtol=1e-6)
    if linear.bytes_available():
        whole = torch.randint(-127, 128, (100, 40), dtype=torch.int8)
        tokens = torch.randint(-127, 128, (50, 40)).float()
        tokens[:, 0] = 127
        found = Panels(whole, bias, None, scales=torch.full((100,), 1 / 127), steps=127).times(tokens)
        assert_close(found, tokens @ whole.float().T + bias, atol=1e-4, rtol=1e-6)


# What failed.


@able
def test_a_compiler_that_fails_is_named_and_not_tried_again(source, kept, refusing):
    for _ in range(2):
        with pytest.warns(
            NativeWarning, match=r"so torch does its work, more slowly: .*refusing: what a source"
        ):
            assert find() is None
    assert tries(refusing) == 1
    (failed,) = kept.iterdir()
    with pytest.warns(NativeWarning, match=f"remove {failed} to try again"):
        find()
    failed.unlink()
    with pytest.warns(NativeWarning, match="what a source"):
        find()
    assert tries(refusing) == 2


@able
@pytest.mark.parametrize("changed", ["source", "flags", "compiler"])
def test_what_failed_is_tried_again_when_something_changes(source, kept, refusing, monkeypatch, changed):
    with pytest.warns(NativeWarning, match="what a source"):
        find()
    match changed:
        case "source":
            source.write_text("int answer(void) { return 1; }")
        case "flags":
            monkeypatch.setattr(native, "FLAGS", ("-O1",))
        case "compiler":
            os.utime(refusing, (0, 0))
    with pytest.warns(NativeWarning, match="what a source"):
        find()
    assert tries(refusing) == 2


@able
def test_a_broken_source_is_told_in_the_compilers_words(source, kept):
    source.write_text("int linear(")
    for _ in range(2):
        with pytest.warns(NativeWarning, match=r"more slowly: cc: .*small\.c.* error: "):
            assert find() is None


@able
def test_a_library_that_cannot_be_loaded_is_not_made_again(source, kept, monkeypatch):
    source.write_text("int nowhere(void); int answer(void) { return nowhere(); }")
    with pytest.warns(NativeWarning, match="undefined symbol: nowhere"):
        assert find() is None
    assert [path.suffix for path in kept.iterdir()] == [".failed"]
    monkeypatch.setattr(native.subprocess, "run", None)
    with pytest.warns(NativeWarning, match="undefined symbol: nowhere"):
        assert find() is None


@able
def test_a_compiler_that_does_not_come_to_an_end_is_stopped(source, kept, refusing, monkeypatch):
    refusing.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(native, "LONGEST", 0.2)
    for _ in range(2):
        with pytest.warns(NativeWarning, match=r"refusing: .* timed out after 0\.2 seconds"):
            assert find() is None
    [late] = kept.iterdir()  # on a slow machine, not every command waits for it
    monkeypatch.delenv("CC")
    os.utime(late.rename(native._place(["cc"]).with_suffix(".late")), (0, 0))
    assert find() is not None


@able
@pytest.mark.parametrize(
    "work", ["kill -9 $$", "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1"]
)
def test_a_compiler_that_was_killed_is_tried_again(source, kept, refusing, monkeypatch, work):
    refusing.write_text(f"#!/bin/sh\n{work}\n")
    with pytest.warns(NativeWarning, match="so torch does its work, more slowly"):
        assert find() is None
    assert [*kept.iterdir()] == []


# What is old.


@able
def test_old_libraries_go_when_one_is_made_and_new_ones_stay(source, kept):
    kept.mkdir(mode=0o700)
    names = ("native-a.so", "native-b.failed", "native-c", "other.so")
    for age, prefix in ((0, "new"), (native.OLD + 60, "old")):
        for name in names:
            path = kept / name.replace("native-", f"native-{prefix}-").replace("other", f"other-{prefix}")
            if path.suffix:
                path.write_text("")
            else:  # where a compiler is at work, or was killed
                path.mkdir()
                (path / "part.so").write_text("")
            then = path.stat().st_mtime - age
            os.utime(path, (then, then))
    assert find() is not None
    made = native._place(["cc"])
    left = {path.name for path in kept.iterdir()} - {made.name}
    assert left == {"native-new-a.so", "native-new-b.failed", "native-new-c", "other-new.so", "other-old.so"}
    # One that is found stays however old it is, and nothing else goes then.
    os.utime(made, (0, 0))
    os.utime(kept / "native-new-a.so", (0, 0))
    assert find() is not None
    assert {path.name for path in kept.iterdir()} == left | {made.name}


# What C is given.


@compiled
@pytest.mark.parametrize("name", structs.STRUCTS)
def test_a_struct_that_is_not_the_one_in_c_is_refused(monkeypatch, name):
    struct = structs.STRUCTS[name]
    first, second, *others = struct._fields_
    wrong = {
        "exchanged": [second, first, *others],
        "another type": [(first[0], ctypes.c_int32), (second[0], ctypes.c_int32), *others],
        "one less": [first, second, *others[:-1]],
        "one more": [*struct._fields_, ("more", ctypes.c_int32)],
        "another size": [*struct._fields_[:-1], (struct._fields_[-1][0], ctypes.c_double * 2)],
    }
    structs.check(library())
    for fields in wrong.values():
        other = type(struct.__name__, (ctypes.Structure,), {"_fields_": fields})
        monkeypatch.setitem(structs.STRUCTS, name, other)
        with pytest.raises(RuntimeError, match=rf"structs\.{struct.__name__} is not the struct in C .*alike"):
            find()


# Where there is nothing to make it for.


@pytest.mark.parametrize(
    ("system", "machine"),
    [("Darwin", "arm64"), ("Darwin", "x86_64"), ("Windows", "AMD64"), ("Linux", "aarch64")],
)
def test_other_machines_are_left_to_torch(kept, monkeypatch, system, machine):
    monkeypatch.setattr(native.platform, "system", lambda: system)
    monkeypatch.setattr(native.platform, "machine", lambda: machine)
    monkeypatch.delattr(os, "getuid")  # as on Windows
    assert find() is None
    assert not kept.exists()


def test_a_processor_that_cannot_is_left_to_torch(kept, monkeypatch):
    monkeypatch.setattr(native, "_processor", lambda: {"sse2", "avx"})
    assert find() is None
    assert not kept.exists()
