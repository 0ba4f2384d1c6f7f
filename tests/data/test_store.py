import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.store import ABANDONED, Row, Store, StoreError, fingerprint, id_type, open_or_build
from regard.text.records import DataError

TYPES: dict[str, st.SearchStrategy[Any]] = {
    "u1": st.integers(0, 255),
    "u2": st.integers(0, 2**16 - 1),
    "i4": st.integers(-(2**31), 2**31 - 1),
    "i8": st.integers(-(2**63), 2**63 - 1),
    "f4": st.floats(width=32, allow_nan=False),
    "?": st.booleans(),
}

TABLES = st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True).flatmap(
    lambda types: st.tuples(
        st.just(types),
        st.lists(
            st.fixed_dictionaries({kind: st.lists(TYPES[kind], max_size=5) for kind in types}), max_size=6
        ),
    )
)
"""Columns, named by their types, and rows."""


def build(folder: Path, rows: Iterable[Row], wanted: str = "one", **columns: str) -> Store:
    return open_or_build(folder, wanted, columns or {"ids": "u2"}, lambda: rows)


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


def unwanted() -> Iterator[Row]:
    pytest.fail("the store was built again")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES)
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[list[str], list[Mapping[str, list[Any]]]]
) -> None:
    types, rows = table
    folder = tmp_path_factory.mktemp("round") / "store"
    columns = {kind: kind for kind in types}
    open_or_build(folder, "x", columns, lambda: iter(rows))
    store = Store(folder)
    assert len(store) == len(rows)
    assert set(store.columns) == set(types)
    for kind in types:
        column = store[kind]
        assert len(column) == len(rows)
        assert column.values.dtype == np.dtype(kind)
        assert column.lengths.tolist() == [len(row[kind]) for row in rows]
        assert [sequence.tolist() for sequence in column] == [row[kind] for row in rows]


def test_one_number_is_a_sequence_of_one_and_arrays_will_do(tmp_path: Path) -> None:
    rows = [{"label": 3, "ids": np.array([1, 2], dtype=np.int32)}, {"label": np.int64(4), "ids": ()}]
    store = build(tmp_path / "store", rows, label="u1", ids="u2")
    assert [one.tolist() for one in store["label"]] == [[3], [4]]
    assert [one.tolist() for one in store["ids"]] == [[1, 2], []]


@pytest.mark.parametrize("rows", [[], [{"ids": []}], [{"ids": []}] * 3])
def test_no_rows_and_empty_rows_are_a_store(tmp_path: Path, rows: list[Row]) -> None:
    store = build(tmp_path / "deep" / "down" / "store", rows)
    assert len(store) == len(store["ids"]) == len(rows)
    assert [len(sequence) for sequence in store["ids"]] == [0] * len(rows)
    open_or_build(tmp_path / "deep" / "down" / "store", "one", {"ids": "u2"}, unwanted)


def test_values_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    column = build(tmp_path / "store", [{"ids": [1, 2, 3]}])["ids"]
    assert isinstance(column.values, np.memmap)
    assert isinstance(column.offsets, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        column[0][0] = 9


def test_more_rows_than_are_held_in_memory_come_out_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.store.FLUSH", 7)
    rows = [{"ids": range(number % 5), "label": number} for number in range(100)]
    store = build(tmp_path / "store", rows, ids="u2", label="u2")
    assert [one.tolist() for one in store["ids"]] == [list(range(number % 5)) for number in range(100)]
    assert np.concatenate(list(store["label"])).tolist() == list(range(100))


def test_a_sequence_or_a_column_that_is_not_there_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    store = build(tmp_path / "store", [{"ids": [1]}])
    for index in (-1, 1):
        with pytest.raises(IndexError, match=f"sequence {index} of 1"):
            store["ids"][index]
    with pytest.raises(KeyError, match="no column 'id', only ids"):
        store["id"]


def in_a_process(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    code = (
        "import resource, sys, numpy as np\n"
        "from regard.data.store import open_or_build\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "text = np.arange(1000, dtype=np.int32)\n"
        "def build(name, rows):\n"
        "    rows = ({'ids': text, 'label': 1} for _ in range(rows))\n"
        "    return open_or_build(sys.argv[1] + name, 'x', {'ids': 'u2', 'label': 'u1'}, lambda: rows)\n"
        "build('/small', 2_000)\n"
        "before = peak()\n"
        "store = build('/large', 20_000)\n"
        "assert len(store['ids'].values) == 20_000_000\n"
        "print(peak() - before)\n"
    )
    said, errors = in_a_process(code, tmp_path).communicate()
    assert errors == ""
    assert float(said) < 10  # MiB; the values are 40


def test_an_equal_fingerprint_is_not_built_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder, [{"ids": [1]}])
    for again in (folder, str(folder)):
        assert open_or_build(again, "one", {"ids": np.uint16}, unwanted)["ids"][0].tolist() == [1]
    assert Store(str(folder)).fingerprint == "one"


@pytest.mark.parametrize("change", ["fingerprint", "column", "type", "format", "damaged"])
def test_whatever_differs_is_built_again(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "store"
    build(folder, [{"ids": [1]}])
    about = folder / "store.json"
    if change == "format":
        about.write_text(json.dumps({**json.loads(about.read_text()), "format": 0}))
    elif change == "damaged":
        about.write_text(about.read_text()[:-20])
    name = "words" if change == "column" else "ids"
    wanted = "two" if change == "fingerprint" else "one"
    kind = "i4" if change == "type" else "u2"
    store = open_or_build(folder, wanted, {name: kind}, lambda: [{name: [2, 3]}])
    assert store[name][0].tolist() == [2, 3]
    assert store[name].values.dtype == np.dtype(kind)
    assert store.columns == (name,)
    assert beside(folder) == ["store"]


def test_a_store_exists_whole_or_not_at_all(tmp_path: Path) -> None:
    def failing() -> Iterator[Row]:
        yield {"ids": [1]}
        raise OSError("the disk of the raw text is gone")

    folder = tmp_path / "store"
    with pytest.raises(OSError, match="gone"):
        build(folder, failing())
    assert beside(folder) == []

    build(folder, [{"ids": [7]}])
    for stop in (OSError, KeyboardInterrupt):
        with pytest.raises(stop):
            build(folder, (_ for _ in ()).throw(stop), wanted="two")
        assert beside(folder) == ["store"]
        assert Store(folder)["ids"][0].tolist() == [7]
        assert Store(folder).fingerprint == "one"


def test_a_killed_builder_leaves_the_old_store_and_no_half_store(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder, [{"ids": [7]}])
    code = (
        "import sys, time\n"
        "from regard.data import store\n"
        "store.FLUSH = 10\n"
        "def rows():\n"
        "    for number in range(100):\n"
        "        yield {'ids': [number] * 9}\n"
        "    print('half', flush=True)\n"
        "    time.sleep(60)\n"
        "store.open_or_build(sys.argv[1], 'two', {'ids': 'u2'}, rows)\n"
    )
    new = tmp_path / "new"
    for place in (folder, new):
        builder = in_a_process(code, place)
        assert builder.stdout is not None
        assert builder.stdout.readline() == "half\n"
        os.kill(builder.pid, signal.SIGKILL)
        builder.communicate()
    assert not new.exists()
    assert open_or_build(folder, "one", {"ids": "u2"}, unwanted)["ids"][0].tolist() == [7]
    assert build(folder, [{"ids": [8]}], wanted="two")["ids"][0].tolist() == [8]
    assert build(new, [{"ids": [9]}])["ids"][0].tolist() == [9]

    # What the killed ones left is removed a day later: one that was just written to may have a live builder.
    left = [path for path in tmp_path.iterdir() if ".building-" in path.name]
    assert len(left) == 2
    for path in (file for folder in left for file in (folder, *folder.iterdir())):
        os.utime(path, (time.time() - ABANDONED - 60,) * 2)
    build(folder, [{"ids": [8]}], wanted="three")
    build(new, [{"ids": [8]}], wanted="three")
    assert beside(folder) == ["new", "store"]


def test_processes_may_build_the_same_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from regard.data.store import open_or_build\n"
        "def rows(wanted):\n"
        "    for number in range(50):\n"
        "        yield {'ids': [number]}\n"
        "sys.stdin.readline()\n"
        "for wanted in range(20):\n"
        "    store = open_or_build(f'{sys.argv[1]}/{wanted}', 'x', {'ids': 'u2'}, lambda: rows(wanted))\n"
        "    assert [one.tolist() for one in store['ids']] == [[number] for number in range(50)]\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    builders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write("go\n")
        builder.stdin.flush()
    for builder in builders:
        _, errors = builder.communicate(timeout=60)
        assert builder.returncode == 0, errors
    assert sorted(map(int, beside(tmp_path / "0"))) == list(range(20))


@pytest.mark.parametrize("name", ["ids.values", "ids.offsets"])
@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_a_file_of_another_size_is_an_error_with_a_remedy(tmp_path: Path, name: str, change: str) -> None:
    folder = tmp_path / "store"
    build(folder, [{"ids": [1, 2, 3]}])
    whole = (folder / name).read_bytes()
    if change == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(whole[:-1] if change == "shorter" else whole + b"x")
    for open_it in (lambda: Store(folder), lambda: open_or_build(folder, "one", {"ids": "u2"}, unwanted)):
        with pytest.raises(
            StoreError, match=f"{name}: .* {len(whole)} belong; delete .* to have it built again"
        ):
            open_it()


@pytest.mark.parametrize("name", ["a.values", "a.offsets"])
def test_a_changed_byte_is_an_error_with_a_remedy(tmp_path: Path, name: str) -> None:
    place, rows = tmp_path / "store", [{"a": [1, 2]}, {"a": 3}, {"a": []}]
    build(place, rows, a="int32")
    content = bytearray((place / name).read_bytes())
    content[-1] ^= 1
    (place / name).unlink()
    (place / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{name}: damaged: .*; delete {place} to have it built again"):
        build(place, rows, a="int32")
    about = json.loads((place / "store.json").read_text())
    del about["columns"]["a"]["digests"]  # as older ones are
    (place / "store.json").write_text(json.dumps(about))
    build(place, rows, a="int32")


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"format": 1}', '{"format": 99}', "\udcff"])
def test_what_is_no_store_is_not_opened(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "store.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match="not a token store"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("u2", [5, 70_000, 6], "cannot hold 70000"),
        ("u2", [-1], "cannot hold -1"),
        ("u1", 256, "cannot hold 256"),
        ("i4", [2**31], f"cannot hold {2**31}"),
        ("i8", np.array([2**63], dtype=np.uint64), f"cannot hold {2**63}"),
        ("u2", [1.5], "cannot hold 1.5"),
        ("u2", [float("nan")], "cannot hold nan"),
        ("u2", [float("inf")], "cannot hold inf"),
        ("?", [2], "cannot hold 2"),
        ("f4", [1e300], "cannot hold 1e+300"),
        ("u2", [2**70], "takes a number"),
        ("u2", ["7"], "takes a number"),
        ("u2", "seven", "takes a number"),
        ("u2", None, "takes a number"),
        ("u2", [[1, 2], [3, 4]], "takes a number"),
        ("u2", [[1], [3, 4]], "takes a number"),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_an_error_naming_row_column_and_value(
    tmp_path: Path, kind: str, values: Any, said: str
) -> None:
    folder = tmp_path / "store"
    with pytest.raises(StoreError) as caught:
        build(folder, [{"ids": [1]}, {"ids": [1] * 50}, {"ids": values}], ids=kind)
    assert str(caught.value).startswith(f"row 2: column 'ids' of type {np.dtype(kind)} ")
    assert said in str(caught.value)
    assert beside(folder) == []


def test_the_error_about_one_value_does_not_print_a_whole_document(tmp_path: Path) -> None:
    for document in ([1] * 100_000 + [-1], [[1]] * 100_000):
        with pytest.raises(StoreError) as caught:
            build(tmp_path / "store", [{"ids": document}])
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "row", [{}, {"ids": [1]}, {"ids": [1], "label": 1, "more": 2}, {"ids": [1], "lable": 1}]
)
def test_a_row_with_other_columns_is_an_error(tmp_path: Path, row: Row) -> None:
    with pytest.raises(StoreError, match=r"row 0 has .*the columns are ids, label"):
        build(tmp_path / "store", [row], ids="u2", label="u1")


def test_a_store_without_columns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="at least one column"):
        open_or_build(tmp_path / "store", "x", {}, unwanted)


@pytest.mark.parametrize("store_too", [False, True], ids=["foreign files", "a store and foreign files"])
def test_foreign_files_are_never_removed(tmp_path: Path, store_too: bool) -> None:
    folder = tmp_path / "store"
    if store_too:
        build(folder, [{"ids": [1]}])
    folder.mkdir(exist_ok=True)
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"other files \(thesis.tex\): choose an empty or a new folder"):
        build(folder, [{"ids": [1]}], wanted="two")
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert beside(folder) == ["store"]


def test_a_file_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(StoreError, match="other files"):
        build(tmp_path / "store", [])
    assert (tmp_path / "store").read_text() == "a file"


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    assert build(tmp_path / "store", [{"ids": [1]}])["ids"][0].tolist() == [1]
    assert beside(tmp_path / "store") == ["store"]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    large = tmp_path / "large disk"
    large.mkdir()
    link = tmp_path / "home" / "store"
    link.parent.mkdir()
    link.symlink_to(large / "store")
    for wanted in ("one", "two"):
        assert build(link, [{"ids": [1]}], wanted=wanted).fingerprint == wanted
        assert Store(link).fingerprint == wanted
        assert link.is_symlink()
        assert beside(large / "store") == beside(link) == ["store"]


def test_an_open_store_still_reads_after_another_took_its_place(tmp_path: Path) -> None:
    old = build(tmp_path / "store", [{"ids": [1, 2]}])
    new = build(tmp_path / "store", [{"ids": [3]}], wanted="two")
    assert old["ids"][0].tolist() == [1, 2]
    assert new["ids"][0].tolist() == [3]


def test_the_type_of_ids_holds_every_id_and_no_more() -> None:
    assert id_type(2**16) == np.uint16
    assert id_type(2**16 + 1) == np.int32
    assert np.iinfo(id_type(2**16)).max == 2**16 - 1


def test_a_fingerprint_is_of_content_order_and_settings_not_of_names_or_times(tmp_path: Path) -> None:
    def file(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_text(content)
        return path

    one, other, same, nothing = file("a", "A"), file("b", "B"), file("c", "A"), file("d", "")
    os.utime(same, (1, 1))
    assert fingerprint([one, other], "x") == fingerprint([str(same), other], "x")
    different = [
        fingerprint([one, other], "x"),
        fingerprint([other, one], "x"),
        fingerprint([one], "x"),
        fingerprint([one, other]),
        fingerprint([one, other], "y"),
        fingerprint([one, other], "x", ""),
        fingerprint([one, other], "x", "y"),
        fingerprint([one, other], "y", "x"),
        fingerprint([one, other], "xy"),
        fingerprint([other], "x", "A"),
        fingerprint([other], "A", "x"),
        fingerprint([one, nothing, other], "x"),
        fingerprint([file("e", "AB")], "x"),
        fingerprint([]),
    ]
    assert len(set(different)) == len(different)


def test_a_fingerprint_of_a_file_that_is_not_there_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.de: no such file"):
        fingerprint([tmp_path / "train.de"])


def test_a_fingerprint_takes_every_path_that_readers_take(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"A")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"A"))
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("deep/a", "A")
        archive.writestr("b", "B")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "data.arrow").write_bytes(b"A")
    same = ["plain", "packed.gz", "data.zip/deep/a", "saved"]
    assert len({fingerprint([tmp_path / name]) for name in same}) == 1
    assert fingerprint([tmp_path / "data.zip" / "b"]) != fingerprint([tmp_path / "plain"])


def test_a_fingerprint_of_a_file_that_breaks_off_names_it(tmp_path: Path) -> None:
    path = tmp_path / "train.de.gz"
    path.write_bytes(gzip.compress(b"A" * 100)[:-4])
    with pytest.raises(DataError, match=r"train\.de\.gz: breaks off"):
        fingerprint([path])
