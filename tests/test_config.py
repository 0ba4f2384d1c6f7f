import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from regard.config import ConfigError, from_dict, override, read_table, read_toml, to_dict
from regard.settings.models import DecoderConfig, EncoderConfig, PoolConfig, Seq2SeqConfig
from regard.settings.network import (
    FeedForwardConfig,
    InitialConfig,
    NormConfig,
    PositionsConfig,
    RecurrentConfig,
)
from regard.settings.presets import DECODERS, ENCODERS, SEQ2SEQ
from regard.settings.training import BatchConfig
from regard.text.specials import Specials
from regard.text.training import TokenizerConfig

PRESETS = [*SEQ2SEQ.values(), *ENCODERS.values(), *DECODERS.values()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Circle:
    kind: Literal["circle"] = "circle"
    radius: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Square:
    kind: Literal["square"] = "square"
    side: float = 1.0

    def __post_init__(self) -> None:
        if self.side < 0:
            raise ValueError(f"side={self.side} must be 0 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    name: str
    shape: Circle | Square = field(default_factory=Circle)
    frame: Square | None = None
    corner: Square | Literal["none"] = "none"
    colour: Literal["red", "green", "blue"] = "red"
    depth: Literal[8, 16] = 8
    copies: int = 1
    scale: float = 1.0
    number: int | float = 1
    quality: int | Literal["draft", "best"] = "draft"
    bold: bool = False
    margin: float | None = 0.5
    tags: tuple[str, ...] = ()
    parts: tuple[Square, ...] = ()
    size: tuple[int, int] = (1, 1)
    grid: tuple[tuple[int, ...], ...] = ()


def drawn(**data: Any) -> Drawing:
    return from_dict(Drawing, {"name": "x", **data})


def complaint(make: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        make()
    return str(caught.value)


def through_json(config: Any) -> Any:
    return from_dict(type(config), json.loads(json.dumps(to_dict(config))))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_comes_back_from_plain_data(preset: Callable[[int], Any]) -> None:
    config = preset(1234)
    assert through_json(config) == config
    assert hash(through_json(config)) == hash(config)


def test_a_recurrent_body_comes_back_as_one() -> None:
    config = replace(ENCODERS["tiny"](99), body=RecurrentConfig(), positions=ENCODERS["tiny"](99).positions)
    assert through_json(config) == config


@pytest.mark.parametrize(
    "config",
    [
        Drawing(name=""),
        Drawing(name="é", shape=Square(side=2.5), frame=Square(), corner=Square(side=3.0), quality=7),
        Drawing(
            name="x", tags=("a", "b"), parts=(Square(side=1.0), Square()), grid=((1, 2), (), (3,)), depth=16
        ),
        Drawing(name="x", margin=None),
        BatchConfig(tokens=25000, parts=4, seed=3),
        TokenizerConfig(),
        TokenizerConfig(specials=Specials(pad=None, cls=None, extra=("<a>",))),
    ],
)
def test_what_is_not_the_default_comes_back_too_even_none(config: Any) -> None:
    assert through_json(config) == config


def test_none_is_left_out_where_it_is_the_default_because_toml_has_none() -> None:
    assert "frame" not in to_dict(Drawing(name="x"))


def test_an_unknown_key_is_an_error_that_suggests_the_key_that_was_meant() -> None:
    assert complaint(lambda: drawn(colou="red")) == "unknown key 'colou'; did you mean 'colour'?"
    assert complaint(lambda: drawn(zzz=1)) == "unknown key 'zzz'"
    data = {"vocabulary": 9, "body": {"attention": {"head": 3}}}
    assert complaint(lambda: from_dict(DecoderConfig, data)) == (
        "unknown key 'body.attention.head'; did you mean 'heads'?"
    )


def test_a_key_of_another_kind_is_unknown() -> None:
    assert complaint(lambda: drawn(shape={"kind": "square", "radius": 1.0})) == "unknown key 'shape.radius'"


def test_a_missing_key_is_named_with_its_path() -> None:
    assert "missing key 'name'" in complaint(lambda: from_dict(Drawing, {}))
    data = {"encoder": {"vocabulary": 5}, "decoder": {}}
    assert "missing key 'decoder.vocabulary'" in complaint(lambda: from_dict(Seq2SeqConfig, data))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"copies": True}, ["copies=True", "int", "bool"]),
        ({"copies": "3"}, ["copies='3'", "int", "str"]),
        ({"copies": 3.0}, ["copies=3.0", "int", "float"]),
        ({"copies": None}, ["copies=None", "int"]),
        ({"scale": True}, ["scale=True", "float", "bool"]),
        ({"scale": "1"}, ["scale='1'", "float"]),
        ({"bold": 1}, ["bold=1", "bool", "int"]),
        ({"name": 7}, ["name=7", "str"]),
        ({"margin": "wide"}, ["margin='wide'", "float"]),
        ({"tags": "ab"}, ["tags='ab'", "list"]),
        ({"tags": ["a", 2]}, ["tags[1]=2", "str"]),
        ({"size": [1, 2, 3]}, ["size=[1, 2, 3]", "2"]),
        ({"grid": [[1], 2]}, ["grid[1]=2", "list"]),
        ({"frame": 3}, ["frame=3", "table"]),
        ({"frame": {"side": "wide"}}, ["frame.side='wide'", "float"]),
        ({"parts": [{}, {"sid": 1}]}, ["parts[1].sid", "did you mean 'side'"]),
        ({"shape": "circle"}, ["shape='circle'", "table"]),
        ({"depth": 8.0}, ["depth=8.0", "8, 16"]),
        ({"depth": True}, ["depth=True", "8, 16"]),
        ({"depth": [8]}, ["depth=[8]", "8, 16"]),
        ({"quality": 1.5}, ["quality=1.5", "int", "draft, best"]),
        ({"number": "1"}, ["number='1'", "int", "float"]),
        ({"corner": {"sid": 1}}, ["corner.sid", "did you mean 'side'"]),
        ({"corner": "nome"}, ["corner='nome'", "did you mean 'none'"]),
        ({"colour": "gren"}, ["colour='gren'", "red, green, blue", "did you mean 'green'"]),
        ({"colour": 3}, ["colour=3", "red, green, blue"]),
        ({"shape": {"kind": "squar"}}, ["shape.kind='squar'", "circle, square", "did you mean 'square'"]),
        ({"shape": {"kind": ["circle"]}}, ["shape.kind=['circle']", "circle, square"]),
        ({"shape": {"kind": None}}, ["shape.kind=None", "circle, square"]),
        ({"frame": {"kind": "circle"}}, ["frame.kind='circle'", "square"]),
    ],
)
def test_a_wrong_value_is_an_error_with_its_path_and_what_would_do(
    data: dict[str, Any], said: list[str]
) -> None:
    message = complaint(lambda: drawn(**data))
    assert [part for part in said if part not in message] == [], message


def test_data_that_is_no_table_is_an_error() -> None:
    for data in ([1], "x", None, 3):
        assert "Drawing=" in complaint(lambda data=data: from_dict(Drawing, data))


def test_an_int_will_do_for_a_float_and_becomes_one() -> None:
    assert type(drawn(scale=2).scale) is float
    assert type(drawn(margin=2).margin) is float


def test_a_union_of_numbers_keeps_what_was_given() -> None:
    assert type(drawn(number=2).number) is int
    assert type(drawn(number=2.0).number) is float


def test_a_union_is_told_apart_by_kind_and_the_first_is_the_default() -> None:
    assert drawn(shape={"kind": "square", "side": 2}).shape == Square(side=2.0)
    assert drawn(shape={"kind": "circle"}).shape == drawn(shape={}).shape == Circle()
    assert drawn(frame={"side": 2}).frame == Square(side=2.0)
    assert drawn(corner={"side": 2}).corner == Square(side=2.0)
    recurrent = from_dict(EncoderConfig, {"vocabulary": 9, "body": {"kind": "recurrent", "cell": "gru"}})
    assert isinstance(recurrent.body, RecurrentConfig)


def test_a_configurations_own_check_comes_out_with_the_path() -> None:
    assert (
        complaint(lambda: drawn(shape={"kind": "square", "side": -1})) == "shape: side=-1.0 must be 0 or more"
    )
    assert complaint(lambda: drawn(parts=[{}, {"side": -2}])) == "parts[1]: side=-2.0 must be 0 or more"
    assert complaint(lambda: from_dict(Square, {"side": -1})) == "side=-1.0 must be 0 or more"
    data = {"encoder": {"vocabulary": 5, "body": {"layers": 0}}, "decoder": {"vocabulary": 5}}
    assert complaint(lambda: from_dict(Seq2SeqConfig, data)).startswith("encoder.body: layers=0")


def test_a_config_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)


def test_what_is_nested_without_end_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 5000)
    with pytest.raises(ConfigError, match=r"deep\.toml: no TOML that can be read: nested too deeply"):
        read_table(path)
    assert override({}, ["a.b=" + "[" * 5000])["a"]["b"].startswith("[[")  # text, as all that is no TOML


def test_toml_is_read_whatever_editor_wrote_it(tmp_path: Path) -> None:
    text = 'name = "é"\r\nscale = 2\r\nparts = [{side = 1}, {side = 2.5}]\r\n[shape]\r\nkind = "square"\r\n'
    path = tmp_path / "drawing.toml"
    for mark in (b"", b"\xef\xbb\xbf"):  # Notepad writes a mark in front
        path.write_bytes(mark + text.encode())
        expected = Drawing(name="é", scale=2.0, parts=(Square(side=1.0), Square(side=2.5)), shape=Square())
        assert read_toml(Drawing, path) == read_toml(Drawing, str(path)) == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"scale = \n", "line 1"),
        (b'name = "a"\nname = "b"', "overwrite"),
        (b'name = "\xff"', "utf-8"),
        (b'name = "a"\ncolou = "red"', "did you mean 'colour'"),
        (b"scale = 1", "missing key 'name'"),
        (b'name = "a"\n[frame]\nside = -1', "frame: side=-1.0"),
    ],
)
def test_what_is_wrong_in_a_file_names_the_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    message = complaint(lambda: read_toml(Drawing, path))
    assert message.startswith(f"{path}: ")
    assert said in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        assert str(path) in complaint(lambda path=path: read_toml(Drawing, path))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormConfig(place="befor"), "place='befor' is none of post, pre"),
        (lambda: FeedForwardConfig(activation="gelu_tan"), "did you mean 'gelu_tanh'"),
        (lambda: PositionsConfig(kind="rotery"), "did you mean 'rotary'"),
        (lambda: RecurrentConfig(cell="elman"), "cell='elman' is none of lstm, gru"),
        (lambda: InitialConfig(scheme="xaviar"), "did you mean 'xavier'"),
        (lambda: PoolConfig(kind="cls"), "kind='cls' is none of first"),
    ],
)
def test_a_closed_choice_is_checked_at_birth(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
