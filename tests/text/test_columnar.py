import builtins
import json

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from regard.text.columnar import scan_arrow, scan_mappings, scan_parquet
from regard.text.records import DataError, Origin
from regard.text.tables import Row, Table

COUNT = 2500  # more than is turned into Python objects at a time
DATA = pyarrow.table({"text": [f"text {row}" for row in range(COUNT)], "label": list(range(COUNT))})


def expected(file):
    return [Row((row, f"text {row}"), Origin(str(file), row + 1)) for row in range(COUNT)]


def write_stream(path, table):
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=900)


def test_parquet_rows_are_counted_over_groups(tmp_path):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(DATA, path, row_group_size=700)
    assert list(scan_parquet(path, ["label", "text"])) == expected(path)


def test_both_kinds_of_arrow_file_are_read(tmp_path):
    write_stream(tmp_path / "stream.arrow", DATA)
    with pyarrow.ipc.new_file(tmp_path / "file.arrow", DATA.schema) as writer:
        writer.write_table(DATA)
    for name in ("stream.arrow", "file.arrow"):
        assert list(scan_arrow(tmp_path / name, ["label", "text"])) == expected(tmp_path / name)


def test_a_saved_data_set_is_read_in_the_order_of_its_parts(tmp_path):
    parts = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    write_stream(tmp_path / parts[0], DATA.slice(0, 1000))
    write_stream(tmp_path / parts[1], DATA.slice(1000))
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": part} for part in parts]}))
    assert Table(path=tmp_path).resolve_format() == "arrow"
    assert list(scan_arrow(tmp_path, ["label", "text"])) == expected(tmp_path)


def test_a_folder_of_splits_asks_for_one(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match=r"holds the splits train, test; name one, as in .*/train"):
        list(scan_arrow(tmp_path, ["text"]))


def test_a_folder_of_other_things_is_an_error(tmp_path):
    with pytest.raises(DataError, match="a directory, but no saved data set"):
        list(scan_arrow(tmp_path, ["text"]))


@pytest.mark.parametrize("scan", [scan_parquet, scan_arrow])
def test_columnar_faults_are_named(tmp_path, scan):
    path = tmp_path / "x"
    with pytest.raises(DataError, match="no such file"):
        list(scan(path, ["text"]))
    path.write_bytes(b"something else altogether")
    with pytest.raises(DataError, match=r"x: not whole \w+ data"):
        list(scan(path, ["text"]))
    write_stream(path, DATA) if scan is scan_arrow else pyarrow.parquet.write_table(DATA, path)
    with pytest.raises(DataError, match=r"no column 'txt'; did you mean 'text'\? there is 'text', 'label'"):
        list(scan(path, ["txt"]))
    with pytest.raises(ValueError, match="pass a name"):
        list(scan(path, [0]))


def test_anything_that_yields_mappings_is_a_data_set():
    class Dataset:
        def __iter__(self):
            return iter([{"text": "a", "label": 1}, {"text": "b"}])

    first, second = scan_mappings(Dataset(), ["label", "text"])
    assert first == Row((1, "a"), Origin("Dataset", 1))
    assert str(second).startswith("Dataset:2: no column 'label'")


def test_without_pyarrow_the_error_names_the_extra(monkeypatch, tmp_path):
    genuine = builtins.__import__

    def without_pyarrow(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return genuine(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(ImportError, match=r"pip install 'regard\[data\]'"):
        list(scan_parquet(tmp_path / "x.parquet", ["text"]))
