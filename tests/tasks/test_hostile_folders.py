"""Folders of our own kind that are broken, or made to do harm: each is one line that names the file.

Nothing hangs, no memory is taken for what is not there, and no traceback is shown.
"""

import json
import math
import os
import resource
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.config import ConfigError
from regard.tasks import run
from regard.tasks.base.evaluation import labelled_data, own_data
from regard.tasks.base.folder import FolderError, read_metrics
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.base.verify import verify
from regard.tasks.classification.recipe import RECIPE as CLASSIFY
from tests.tasks.folders import KINDS, READERS, edit, said, stored

Spoil = Callable[[Path], object]
MEMORY = 2 * 2**30
"""Bytes that a refusal may add to what is there."""


SOME = [KINDS[0], *(pytest.param(kind, marks=pytest.mark.long) for kind in (*KINDS[1:], *READERS))]
"""The others are opened by the same functions."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("folders")
    made = {kind: stored(place / kind, kind) for kind in (*KINDS, *READERS)}
    for folder in made.values():
        said(folder)  # what opening one takes for the first time is there from now on
    return made


@pytest.fixture
def small() -> Iterator[None]:
    """No room for more than a little: what asks for it fails here, and would not fail in a table of words."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def refused(folder: Path) -> str:
    began = time.process_time()  # whatever else the machine does
    with pytest.raises(FolderError) as caught:
        regard.load(folder, device="cpu")
    assert time.process_time() - began < 10
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 1000
    assert not isinstance(caught.value.__cause__, MemoryError), "it was made room for"
    return told


# Files.


def content(data: bytes) -> Spoil:
    return lambda path: path.write_bytes(data)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(target: str) -> Spoil:
    def spoil(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return spoil


def link_out(path: Path) -> None:
    """To a file that would do."""
    other = path.parent.with_name(f"outside-{path.name}")
    path.rename(other)
    path.symlink_to(other)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path) -> None:
    os.truncate(path, 2**30)  # sparse: it takes no room


BROKEN: dict[str, Spoil] = {
    "a pipe": pipe,
    "a device without an end": link("/dev/zero"),
    "a folder": folder_instead,
    "a link out": link_out,
    "a link to itself": lambda path: link(path.name)(path),
    "a link to nothing": link("nothing"),
    "huge": huge,
    "not there": lambda path: path.unlink(),
    "empty": content(b""),
    "bytes": content(b"\xff\xfe\x00" * 9),
    "a list": content(b"[]"),
    "null": content(b"null"),
    "a number": content(b"1e999"),
    "a text": content(b'"model"'),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "nested deeply": content(b"[" * 100_000),
    "nested tables": content(b'{"a":' * 100_000),
    "nested and closed": content(b'{"format": 1, "task": ' + b'{"a":' * 900 + b"1" + b"}" * 901),
    "a number too long": content(b'{"format": ' + b"9" * 5000 + b"}"),
    "a pickle": content(b"\x80\x04\x95\x00\x00\x00\x00."),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("kind", SOME)
def test_a_broken_file_is_named(
    folders: dict[str, Path], tmp_path: Path, kind: str, how: str, name: str
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    BROKEN[how](folder / name)
    assert name in refused(folder)
    assert any(each.state == "damaged" for each in verify(folder) if each.file.name == name)


@pytest.mark.parametrize("how", BROKEN)
def test_broken_metrics_are_named_where_they_are_read(
    folders: dict[str, Path], tmp_path: Path, how: str
) -> None:
    folder = shutil.copytree(folders["classify"], tmp_path / "model")
    BROKEN[how](folder / "metrics.json")
    with pytest.raises(FolderError, match=r"metrics\.json") as caught:
        read_metrics(folder)
    assert "\n" not in str(caught.value)
    predictor = regard.load(folder, device="cpu")  # which asks for none
    assert "valid" not in repr(predictor)


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_recipe_is_named_wherever_it_is_read(tmp_path: Path, how: str) -> None:
    (tmp_path / "recipe.toml").write_text('data.train = "few.tsv"')
    BROKEN[how](tmp_path / "recipe.toml")
    options = EvaluateOptions(files=(Path("few.tsv"),))
    for read in (
        *([] if how == "not there" else [lambda: labelled_data(tmp_path, CLASSIFY, options)]),
        lambda: own_data(tmp_path, CLASSIFY),
        lambda: run.fit(None, out=tmp_path, resume=True, device="cpu"),
    ):
        with pytest.raises((FolderError, ConfigError), match=r"recipe\.toml") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_link_inside_the_folder_is_followed(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["classify"], tmp_path / "model")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).rename(folder / f"real-{name}")
        (folder / name).symlink_to(f"real-{name}")
    assert said(folder) == said(folders["classify"])
    (tmp_path / "link").symlink_to(folder)
    assert said(tmp_path / "link") == said(folder)


# What config.json says.


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set what stands at a path of keys; `...` takes it away."""

    def change(config: dict[str, Any]) -> None:
        *above, last = path.split(".")
        for key in above:
            config = config[key]
        if value is ...:
            del config[last]
        else:
            config[last] = value

    return change


BODIES = {"translate": "model.decoder", "classify": "model.encoder", "language": "model"}
EVERYWHERE: list[tuple[str, Any]] = [
    ("format", 2), ("format", ...), ("format", "1"), ("format", [1]),
    ("task", ...), ("task", "no such task"), ("task", ["classify"]), ("task", None), ("task", 3),
    ("model", ...), ("model", None), ("model", []), ("model", "x"), ("model", {}),
    ("longest", ...), ("longest", "x"), ("longest", None), ("longest", -1), ("longest", 0), ("longest", 1.5),
    ("longest", True), ("longest", [40]), ("longest", 10**12), ("longest", 10**400), ("longest", math.inf),
    ("plugins", 3), ("plugins", [3]), ("plugins", [["x"]]), ("plugins", ["nobodys"]), ("plugins", "x"),
    ("digests", []), ("digests", {}), ("digests", {"config.json": 3}), ("digests", "x"), ("digests", None),
]  # fmt: skip
SHAPES: list[tuple[str, Any]] = [
    ("vocabulary", ...), ("vocabulary", 0), ("vocabulary", -5), ("vocabulary", 10**12), ("vocabulary", "x"),
    ("vocabulary", 3), ("vocabulary", 10**18), ("vocabulary", 10**30), ("vocabulary", True),
    ("d_model", 0), ("d_model", 10**6), ("d_model", 10**9), ("d_model", 10**18), ("d_model", 2**63),
    ("d_model", 8), ("d_model", 16.0), ("d_model", None), ("d_model", 10**400),
    ("unknown", 1), ("embedding", 3), ("embedding.dropout", 10**400), ("embedding.dropout", 2),
    ("embedding.segments", 10**12), ("positions.kind", ["sinusoidal"]), ("positions.kind", "nowhere"),
    ("positions.kind", {"kind": "learned"}), ("positions.base", 0), ("positions.base", "x"),
    ("body", None), ("body", {"kind": "recurrent"}), ("body.kind", "nothing"),
    ("body.layers", 10**9), ("body.layers", 10**18), ("body.layers", 3), ("body.layers", 0),
    ("body.layers", -1), ("body.layers", "2"), ("body.layers", 10**400),
    ("body.attention.heads", 10**9), ("body.attention.heads", 3), ("body.attention.heads", 0),
    ("body.attention", []), ("body.feed_forward.d_ff", 10**12), ("body.feed_forward.d_ff", 10**18),
    ("body.feed_forward.d_ff", 31), ("body.feed_forward.d_ff", -1), ("body.feed_forward.d_ff", 10**30),
    ("body.dropout", math.nan), ("body.dropout", -1), ("body.norm.eps", math.inf),
    ("body.window", -3), ("body.kept_heads", [[0]]), ("body.kept_heads", [[10**12], [0]]),
    ("body.kept_heads", 7), ("initial.std", -1), ("initial", [1]),
]  # fmt: skip
OWN: dict[str, list[tuple[str, Any]]] = {
    "translate": [
        ("decode", ...), ("decode", []), ("decode.beam", 10**9), ("decode.beam", 0), ("decode.beam", "x"),
        ("decode.beam", 10**400), ("decode.n_best", 10**9), ("decode.maximum", 10**30),
        ("decode.minimum", 10**9), ("decode.method", "magic"), ("decode.length_penalty", math.inf),
        ("decode.length_penalty", 10**400), ("decode.temperature", 0), ("decode.unknown", 1),
        ("languages", ...), ("languages", "de"), ("languages", [1]), ("languages", {"de": 1}),
        ("model.shared", "yes"), ("model.encoder", ...), ("model.encoder.vocabulary", 10**12),
        ("model.encoder.body.layers", 10**9),
    ],
    "classify": [
        ("labels", "abc"), ("labels", [1, 2, 3]), ("labels", ["a"]), ("labels", 3), ("labels", None),
        ("labels", ["a"] * 100_000), ("problem", "guess"), ("problem", ["single"]), ("decode", "magic"),
        ("model.head", ...), ("model.head", 3), ("model.head.kind", "nothing"), ("model.head.kind", ["tag"]),
        ("model.head.kind", "masked"), ("model.head.labels", 10**12), ("model.head.labels", 4),
        ("model.head.labels", 10**30), ("model.head.pool.kind", "magic"), ("longest", 3),
        ("task", "translate"), ("task", "tag"), ("task", "language"), ("task", "embed.x"),
    ],
    "language": [
        ("model.tied", "no"), ("model.tied", False), ("model.head_bias", True), ("longest", 1),
        ("task", "translate"), ("task", "classify"), ("model.positions.kind", "learned"),
        ("model.positions", {"kind": "learned", "longest": 10**12}),
        ("model.positions", {"kind": "alibi", "first": -1}), ("model.positions.longest", 0),
    ],
}  # fmt: skip
CONFIGS = [
    (kind, path if not own else f"{BODIES[kind]}.{path}", value)
    for kind in KINDS
    for own, cases in ((False, EVERYWHERE), (True, SHAPES), (False, OWN[kind]))
    for path, value in cases
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    CONFIGS,
    ids=[f"{kind}-{path}={str(value)[:20]}" for kind, path, value in CONFIGS],
)
def test_what_cannot_be_meant_is_refused(
    folders: dict[str, Path], tmp_path: Path, kind: str, path: str, value: Any
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    edit(folder, at(path, value), digests=path == "digests")
    assert str(folder) in refused(folder)


def test_alibi_of_a_billion_heads_takes_no_list(
    folders: dict[str, Path], tmp_path: Path, small: None
) -> None:
    folder = shutil.copytree(folders["language"], tmp_path / "model")
    edit(folder, at("model.positions.kind", "alibi"))
    edit(folder, at("model.d_model", 10**9))
    edit(folder, at("model.body.attention.heads", 10**9))
    assert "heads=1000000000" in refused(folder)


# Weights.


def tensors(**changes: Any) -> Spoil:
    """`None` takes the first one away; functions change it."""

    def spoil(path: Path) -> None:
        held = load_file(path)
        first = sorted(held)[0]
        for name, change in changes.items():
            if name == "first":
                held[first] = change(held[first])
            elif change is None:
                del held[first]
            else:
                held[name] = change
        save_file(held, path)

    return spoil


def header(facts: dict[str, Any], room: int = 0) -> Spoil:
    """A file that says so of itself, and has so many bytes behind it, which take no room."""

    def spoil(path: Path) -> None:
        text = json.dumps(facts).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(path, 8 + len(text) + room)

    return spoil


WEIGHTS: dict[str, Spoil] = {
    "one less": tensors(gone=None),
    "one more": tensors(more=torch.ones(1)),
    "transposed": tensors(first=lambda one: one.unsqueeze(0)),
    "one number": tensors(first=lambda one: one.flatten()[:1].clone()),
    "whole numbers": tensors(first=lambda one: one.to(torch.int32)),
    "truths": tensors(first=lambda one: one.bool()),
    "8 bits": tensors(first=lambda one: one.to(torch.float8_e4m3fn)),
    "complex": tensors(first=lambda one: one.to(torch.complex64)),
    "a header longer than the file": content(struct.pack("<Q", 10**6) + b"{}"),
    "an endless header": content(struct.pack("<Q", 2**62) + b"{}"),
    "nothing in it": header({}),
    "room for nothing": header({}, room=2**30),
    "a gigabyte of zeros": header(
        {"x": {"dtype": "F32", "shape": [2**28], "data_offsets": [0, 2**30]}}, room=2**30
    ),
    "more than there is": header({"x": {"dtype": "F32", "shape": [2**60], "data_offsets": [0, 2**62]}}),
    "negative": header({"x": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}, room=16),
    "overlapping": header(
        {name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in "xy"}, room=16
    ),
    "metadata that is no text": header({"__metadata__": {"digests": 3}}),
    "digests of nothing": header({"__metadata__": {"digests": "x"}}),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", WEIGHTS)
@pytest.mark.parametrize("kind", SOME)
def test_weights_of_another_shape_are_refused(
    folders: dict[str, Path], tmp_path: Path, kind: str, how: str
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    WEIGHTS[how](folder / "model.safetensors")
    assert "model.safetensors" in refused(folder)


# Tokenizers.


def vocabulary(change: Callable[[dict[str, int]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda state: change(state["model"]["vocab"])


TOKENIZERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "an id past the model's": vocabulary(lambda words: words.update(more=len(words))),
    "an id far past": vocabulary(lambda words: words.update(more=2**31)),
    "an id past all": vocabulary(lambda words: words.update(more=2**40)),
    "a negative id": vocabulary(lambda words: words.update(more=-1)),
    "an id as text": vocabulary(lambda words: words.update(more="x")),
    "no model": lambda state: state.pop("model"),
    "model as a number": lambda state: state.update(model=3),
    "another model": lambda state: state.update(model={"type": "Unknown"}),
    "no vocabulary": lambda state: state["model"].pop("vocab"),
    "normalizer as a number": lambda state: state.update(normalizer=3),
    "splitter of no kind": lambda state: state.update(pre_tokenizer={"type": "Unknown"}),
    "a broken pattern": lambda state: state.update(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
    ),
    "added tokens of nothing": lambda state: state.update(added_tokens=[{"content": "x"}]),
    "added tokens as text": lambda state: state.update(added_tokens="x"),
    "a template of nothing": lambda state: state.update(post_processor={"type": "TemplateProcessing"}),
    "no special tokens": lambda state: (
        state.update(added_tokens=[], post_processor=None), state["model"].update(vocab={"[UNK]": 0})
    ),
}  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", TOKENIZERS)
@pytest.mark.parametrize("kind", SOME)
def test_a_tokenizer_that_is_none_or_of_another_model_is_refused(
    folders: dict[str, Path], tmp_path: Path, kind: str, how: str
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "model")
    edit(folder, lambda config: None)
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text())
    TOKENIZERS[how](state)
    path.write_text(json.dumps(state))
    assert str(folder) in refused(folder)


def test_a_number_that_no_float_holds_is_told_in_recipes_too() -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.learning_rate has 1329 bits"):
        regard.fit({"data": {"train": ["a", "b"]}, "optimizer": {"learning_rate": 10**400}}, out="nowhere")
