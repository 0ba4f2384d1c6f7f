import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import ConfigError, override, read_table, write_toml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("true", True),
        ("tiny", "tiny"),
        ('"4"', "4"),
        ("/corpora/a b", "/corpora/a b"),
        ("", ""),
        ("a=b", "a=b"),
        ("[1, 2]", [1, 2]),
        ('["a", "b"]', ["a", "b"]),
        ("{ x = 1 }", {"x": 1}),
        ("True", "True"),
    ],
)
def test_a_value_is_read_as_toml_and_what_is_none_is_text(text: str, value: Any) -> None:
    assert override({}, [f"model.key={text}"]) == {"model": {"key": value}}


def test_settings_are_put_in_one_after_the_other_and_the_data_stays_as_it_was() -> None:
    data = {"task": "x", "model": {"layers": 2, "encoder": {"a": 1}}}
    merged = override(data, ["model.layers=4", "model.encoder.b=2", "new.key=1", "task=y", "model.layers=5"])
    assert merged == {"task": "y", "model": {"layers": 5, "encoder": {"a": 1, "b": 2}}, "new": {"key": 1}}
    assert data == {"task": "x", "model": {"layers": 2, "encoder": {"a": 1}}}


@pytest.mark.parametrize("wrong", ["model.layers", "=4", "model.=4", ".layers=4", "", "a..b=1"])
def test_a_setting_without_key_or_value_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="sets nothing: write it as key=value"):
        override({}, [wrong])


def test_a_key_under_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'model\.layers\.x' cannot be set: layers=2 is no table"):
        override({"model": {"layers": 2}}, ["model.layers.x=4"])


def test_a_table_that_cannot_be_read_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        read_table(tmp_path / "none.toml")
    path = tmp_path / "broken.toml"
    path.write_text("[data\n")
    with pytest.raises(ConfigError, match=r"broken\.toml: .*line 1"):
        read_table(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match=r"broken\.toml: "):
        read_table(path)
    path.write_bytes(b"\xef\xbb\xbfa = 1")  # an editor's mark is no part of it
    assert read_table(path) == {"a": 1}


NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_what_is_written_is_read_back(data: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(data)) == data
