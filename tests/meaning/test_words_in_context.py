"""Words found, grouped and labelled by their vectors where they stand: against the vectors themselves."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from regard.config import ConfigError
from regard.hub import Checkpoint
from regard.meaning import commands, words
from regard.settings.models import EmbedConfig
from regard.tasks.base.encoders import save_checkpoint
from regard.tasks.classification import commands as classification
from regard.tasks.embedding.embedder import open_embedder
from regard.text import DataError
from tests.tasks.encoders import toys

LINES = ["old dog sees river", "", "red house likes sun", "the dog likes old tree ."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = toys.model(EmbedConfig(), vocabulary=len(toys.subwords()))
    own = {"config": model.config, "weights": dict(model.named_parameters())}
    save_checkpoint(Checkpoint(**own, tokenizer=toys.subwords(), longest=64), tmp_path / "model", "embed")
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


def said(command: Any, *given: Any, **how: Any) -> str:
    out = io.StringIO()
    command(*given, **how, console=Console(file=out, width=200))
    return out.getvalue()


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.spec("5.8")
@pytest.mark.parametrize("layer", [-1, 0, 1])
def test_words_are_found_by_their_cosines_in_the_chosen_layer(folder: Path, layer: int):
    how = {
        "top": 3,
        "kind": "auto",
        "index": None,
        "device": "cpu",
        "as_json": True,
        "words": True,
        "layer": layer,
    }
    plain = json.loads(
        said(commands.search, folder / "model", folder / "text.txt", ["a red *dog* sees"], **how)
    )
    embedder = open_embedder(folder / "model", device="cpu")
    [asked] = embedder.words(["a red dog sees"], layers=[layer])
    wanted = unit(asked.vectors[0, asked.words.index("dog")])
    scored = []
    for line, text in enumerate(LINES, 1):
        if text:
            [read] = embedder.words([text], layers=[layer])
            every = zip(read.words, unit(read.vectors[0]) @ wanted, strict=True)
            scored += [(float(score), line, word) for word, score in every if word != "."]
    scored.sort(reverse=True)
    assert [(hit["line"], hit["word"]) for hit in plain["hits"]] == [each[1:] for each in scored[:3]]
    assert [hit["score"] for hit in plain["hits"]] == pytest.approx(
        [each[0] for each in scored[:3]], abs=1e-5
    )
    hit = plain["hits"][0]
    assert hit["text"][hit["start"] : hit["end"]] == hit["word"]


def test_a_query_says_which_word(folder: Path):
    assert words.marked_word("the *river* bank") == ("the river bank", (4, 9))
    assert words.marked_word(" dog ") == ("dog", (0, 3))
    for unclear in ("the river bank", "*a* and *b*", "**"):
        with pytest.raises(ConfigError, match="which word"):
            words.marked_word(unclear)


def test_words_are_grouped_all_of_them_or_one_by_its_senses(folder: Path):
    how: Any = {"threshold": None, "smallest": 2, "examples": 2, "seed": 0, "device": "cpu", "words": True}
    lines = said(
        commands.cluster, folder / "model", str(folder / "text.txt"), clusters=3, as_json=True, **how
    )
    found = [json.loads(line) for line in lines.splitlines()]
    assert [each["word"] for each in found] == [
        word for text in LINES for word in text.split() if word != "."
    ]
    assert len({each["cluster"] for each in found}) == 3
    senses = said(
        commands.cluster,
        folder / "model",
        str(folder / "text.txt"),
        clusters=2,
        as_json=False,
        word="dog",
        **how,
    )
    assert "old *dog* sees river" in senses
    assert "the *dog* likes" in senses
    with pytest.raises(ConfigError, match="the word 'cat' is nowhere in it"):
        said(
            commands.cluster,
            folder / "model",
            str(folder / "text.txt"),
            clusters=2,
            as_json=False,
            word="cat",
            **how,
        )


@pytest.mark.spec("5.8")
def test_words_are_labelled_by_others_that_are(folder: Path):
    nouns = {"dog", "river", "house", "sun", "tree", "rain"}
    rows = [[f"{word} {'N' if word in nouns else 'X'}" for word in text.split()] for text in toys.texts(80)]
    (folder / "known.conll").write_text(
        "\n\n".join("\n".join(each) for each in rows) + "\n", encoding="utf-8"
    )
    out = io.StringIO()
    how: Any = {"words": True, "labelled": folder / "known.conll", "device": "cpu"}
    classification.classify(folder / "model", str(folder / "text.txt"), out=out, **how)
    lines = out.getvalue().splitlines()
    assert lines.count("") == 2
    found = dict(line.split("\t")[:2] for line in lines if line)
    known = {word: label for word, label in found.items() if word in toys.WORDS}
    assert known == {word: "N" if word in nouns else "X" for word in known}
    plain = io.StringIO()
    classification.classify(folder / "model", str(folder / "text.txt"), out=plain, as_json=True, **how)
    assert [json.loads(line)["word"] for line in plain.getvalue().splitlines()] == [
        line.split("\t")[0] for line in lines if line
    ]
    with pytest.raises(ConfigError, match="--words needs --labelled"):
        classification.classify(folder / "model", str(folder / "text.txt"), out=out, words=True, device="cpu")
    (folder / "same.conll").write_text("dog N\nsun N\n", encoding="utf-8")
    how["labelled"] = folder / "same.conll"
    with pytest.raises(DataError, match="one label for all words"):
        classification.classify(folder / "model", str(folder / "text.txt"), out=out, **how)


def test_text_without_words_is_refused(folder: Path):
    (folder / "signs.txt").write_text("!!!\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no words in it"):
        words.search_words(
            folder / "model", folder / "signs.txt", ["dog"], top=1, layer=-1, device="cpu", as_json=False,
            console=Console(file=io.StringIO()),
        )  # fmt: skip
    (folder / "empty.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(DataError, match=r"empty.txt: no text"):
        words.search_words(
            folder / "model", folder / "empty.txt", ["dog"], top=1, layer=-1, device="cpu", as_json=False,
            console=Console(file=io.StringIO()),
        )  # fmt: skip
