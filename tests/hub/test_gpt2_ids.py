"""A language model's folder without a tokenizer reads and writes ids, wherever it goes."""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard.config import ConfigError
from regard.deploy.exchange import export_model, import_model
from regard.tasks import run
from regard.tasks.base.folder import FolderError
from regard.tasks.evaluate import evaluate
from regard.tasks.language.commands import generate
from tests.hub.gpts import build, byte_pairs

PROMPTS = [[7, 9, 5, 3], [2], [20, 21, 22, 6, 8, 11, 3]]
NONE = r"no tokenizer\.json in it, so it reads and writes ids: regard generate --ids"


@pytest.fixture
def model(hf):
    return build(hf)


@pytest.fixture
def folder(model, tmp_path) -> Path:
    """As `save_pretrained` leaves it."""
    model.save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def theirs(model, prompt: list[int], count: int) -> list[int]:
    """By greedy search that no token ends."""
    given = torch.tensor([prompt])
    found = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=None,
        pad_token_id=0,
    )
    return found[0, len(prompt) :].tolist()


def written(folder: Path, *ids: str, **settings) -> str:
    out = io.StringIO()
    given = {"greedy": True, "decoding": {"maximum": 12}, "device": "cpu", **settings}
    generate(folder, ids=ids, out=out, **given)
    return out.getvalue()


def test_greedy_ids_are_those_of_transformers(model, folder):
    generator = regard.load(folder, regard.Generator, device="cpu")
    found = generator.generate_ids(PROMPTS, max_tokens=12)
    assert found == [theirs(model, prompt, 12) for prompt in PROMPTS]


def test_imported_and_exported_it_writes_the_same(model, folder, tmp_path):
    said = io.StringIO()
    import_model(folder, tmp_path / "ours", console=Console(file=said, width=300))
    assert f"no tokenizer in {folder}: it reads and writes ids" in said.getvalue()
    export_model(tmp_path / "ours", tmp_path / "back", console=Console(quiet=True))
    expected = [theirs(model, prompt, 12) for prompt in PROMPTS]
    for each in (tmp_path / "ours", tmp_path / "back"):
        assert not (each / "tokenizer.json").exists()
        generator = regard.load(each, regard.Generator, device="cpu")
        assert generator.generate_ids(PROMPTS, max_tokens=12) == expected
    again = type(model).from_pretrained(tmp_path / "back")
    assert theirs(again, PROMPTS[0], 12) == expected[0]


def test_the_command_writes_ids_a_line_each(model, folder):
    expected = [theirs(model, prompt, 12) for prompt in PROMPTS[:2]]
    lines = written(folder, "7 9 5 3", "2").splitlines()
    assert lines == [
        " ".join(map(str, [*prompt, *ids])) for prompt, ids in zip(PROMPTS, expected, strict=False)
    ]
    assert [json.loads(line) for line in written(folder, "7, 9, 5, 3", as_json=True).splitlines()] == [
        {"prompt": PROMPTS[0], "ids": expected[0]}
    ]


def test_ids_may_end_at_an_id(model, folder):
    expected = theirs(model, PROMPTS[0], 12)
    ended = expected[: expected.index(expected[5])]
    assert written(folder, "7 9 5 3", stop=[str(expected[5])]).split()[4:] == [*map(str, ended)]


def test_a_model_with_a_tokenizer_takes_ids_too(model, folder):
    byte_pairs().save(str(folder / "tokenizer.json"))
    found = written(folder, "7 9 5 3", decoding={"maximum": 6}).split()
    assert found == [*map(str, [7, 9, 5, 3, *theirs(model, PROMPTS[0], 6)])]


def test_text_is_refused_by_the_name_of_what_is_missing(folder):
    generator = regard.load(folder, regard.Generator, device="cpu")
    for work in (
        lambda: generator.generate("the cat"),
        lambda: next(generator.stream("the cat")),
        lambda: generate(folder, ["the cat"], out=io.StringIO(), device="cpu"),
    ):
        with pytest.raises(FolderError, match=f"^{folder}: {NONE}"):
            work()


def test_what_needs_text_says_so(folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n" * 50)
    with pytest.raises(FolderError, match=NONE):
        evaluate(folder, out=io.StringIO(), files=[text], device="cpu")
    plain = {"task": "language", "data": {"train": str(text)}, "model": {"start": str(folder)}}
    with pytest.raises(FolderError, match=NONE):
        run.fit(plain, out=tmp_path / "out", check=False, device="cpu", console=Console(quiet=True))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ids": ["1 two"]}, "--ids '1 two': ids are whole numbers"),
        ({"ids": ["1"], "stop": ["."]}, "--stop '.': ids are whole numbers"),
        ({"ids": ["1"], "prompt": ["a"]}, "--ids beside --prompt or --file"),
        ({"ids": ["1"], "decoding": {"n_best": 2, "beam": 2}}, "--ids gives one continuation each"),
    ],
)
def test_ids_that_cannot_be_are_refused(folder, given, why):
    with pytest.raises(ConfigError, match=why):
        generate(folder, out=io.StringIO(), device="cpu", **given)


def test_an_own_folder_whose_tokenizer_was_lost_is_damaged(folder, tmp_path):
    byte_pairs().save(str(folder / "tokenizer.json"))
    import_model(folder, tmp_path / "ours", console=Console(quiet=True))
    (tmp_path / "ours" / "tokenizer.json").unlink()
    with pytest.raises(FolderError, match=r"tokenizer\.json"):
        regard.load(tmp_path / "ours")
