import json
from pathlib import Path

import numpy as np
import pytest

from regard.tasks.base.vectors import (
    VectorsError,
    normalised,
    paired_cosines,
    products,
    read_texts,
    read_vectors,
    save_vectors,
    texts_path,
    uncertainty,
)


def drawn(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """By the formula, in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_normalised_rows_have_length_1_and_their_direction():
    vectors = drawn(20, 7)
    unit = normalised(vectors)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose([cosine(a, b) for a, b in zip(vectors, unit, strict=True)], 1, rtol=1e-6)


def test_a_row_of_zeros_stays_and_is_like_nothing():
    vectors = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(normalised(vectors), [[0, 0], [0.6, 0.8]], rtol=1e-6)
    assert paired_cosines(vectors, vectors[::-1]).tolist() == [0.0, 0.0]


def test_very_large_and_very_small_rows_have_a_direction_too():
    vectors = np.array([[3e300, 4e300], [3e-300, 4e-300]])
    np.testing.assert_allclose(normalised(vectors), [[0.6, 0.8]] * 2, rtol=1e-6)


def test_a_value_that_is_no_number_is_told_with_its_row():
    vectors = drawn(5000, 2)
    vectors[4321, 1] = np.nan
    with pytest.raises(VectorsError, match=r"row 4321 .* no finite number: leave that text out"):
        normalised(vectors)


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [["a"]], [[[1.0]]], [[]]])
def test_what_is_no_table_of_numbers_is_refused(vectors):
    with pytest.raises(VectorsError, match="one row for each text"):
        normalised(vectors)


def test_paired_cosines_are_those_of_the_formula():
    left, right = drawn(30, 5), drawn(30, 5, seed=1)
    expected = [cosine(a, b) for a, b in zip(left, right, strict=True)]
    np.testing.assert_allclose(paired_cosines(left, right), expected, atol=1e-6)
    with pytest.raises(VectorsError, match="do not pair"):
        paired_cosines(left, right[:29])


def test_products_of_equal_rows_are_equal_and_near_those_of_matrices():
    unit = normalised(drawn(300, 33))
    unit[250] = unit[3]
    rows = np.arange(300)
    one = np.zeros_like(rows)
    found = products(unit, one, unit, rows)
    assert found[250] == found[3]
    assert found[7] == products(unit, np.array([7]), unit, np.array([0]))[0]
    np.testing.assert_allclose(unit[0] @ unit.T, found, atol=uncertainty(33))


TEXTS = ["one", "two\nlines", "", "a\u2028b\x85c\r", 'quo"te \\', "\ud800"]


@pytest.mark.parametrize("mapped", [False, True])
def test_what_is_saved_is_read_again(tmp_path: Path, mapped: bool):
    path = tmp_path / "deep" / "mine.npy"
    vectors = drawn(len(TEXTS), 3)
    save_vectors(path, vectors.astype(np.float64), TEXTS)
    found = read_vectors(path, mapped=mapped)
    assert found.dtype == np.float32
    assert isinstance(found, np.memmap) == mapped
    assert np.array_equal(found, vectors)
    assert read_texts(texts_path(path)) == TEXTS
    assert sorted(each.name for each in path.parent.iterdir()) == ["mine.npy", "mine.npy.texts.jsonl"]


def test_a_name_is_kept_as_it_is_and_no_rows_are_a_file_too(tmp_path: Path):
    save_vectors(tmp_path / "mine.vectors", np.empty((0, 3)))
    assert read_vectors(tmp_path / "mine.vectors", mapped=True).shape == (0, 3)


def test_texts_of_other_vectors_do_not_stay(tmp_path: Path):
    path = tmp_path / "mine.npy"
    save_vectors(path, drawn(2, 3), ["a", "b"])
    save_vectors(path, drawn(2, 3))
    assert not texts_path(path).exists()


def test_every_text_has_its_vector(tmp_path: Path):
    with pytest.raises(VectorsError, match="2 vectors for 3 texts"):
        save_vectors(tmp_path / "mine.npy", drawn(2, 3), ["a", "b", "c"])
    assert list(tmp_path.iterdir()) == []


def test_nothing_pickled_is_read(tmp_path: Path):
    path = tmp_path / "mine.npy"
    np.save(path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(VectorsError, match=r"not an \.npy file of numbers"):
        read_vectors(path)


def test_broken_files_are_told_with_the_remedy(tmp_path: Path):
    path = tmp_path / "mine.npy"
    with pytest.raises(VectorsError, match="no such file"):
        read_vectors(path)
    save_vectors(path, drawn(10, 3), map(str, range(10)))
    path.write_bytes(path.read_bytes()[:-7])
    for mapped in (False, True):
        with pytest.raises(VectorsError, match=r"mine.npy: .*save the vectors again"):
            read_vectors(path, mapped=mapped)
    np.savez(tmp_path / "two.npz", a=drawn(1, 1))
    with pytest.raises(VectorsError, match="an archive"):
        read_vectors(tmp_path / "two.npz")
    np.save(path, np.arange(3.0))
    with pytest.raises(VectorsError, match=r"mine.npy: an array of shape \(3,\)"):
        read_vectors(path)


@pytest.mark.parametrize("line", ["{", "3", ""])
def test_a_line_that_is_no_text_is_told_with_its_number(tmp_path: Path, line: str):
    path = tmp_path / "texts.jsonl"
    path.write_text(f"{json.dumps('fine')}\n{line}\n")
    with pytest.raises(VectorsError, match=r"texts.jsonl:2: .* again"):
        read_texts(path)
