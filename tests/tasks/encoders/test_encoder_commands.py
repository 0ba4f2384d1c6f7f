"""What is typed at the prompt for encoders, without the prompt."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import regard
from regard.config import ConfigError, write_toml
from regard.deploy import exchange
from regard.hub import Checkpoint
from regard.meaning import commands as meaning
from regard.settings.models import ClassifyConfig, EmbedConfig, MaskedConfig, PoolConfig, TagConfig
from regard.tasks.base.encoders import save_checkpoint
from regard.tasks.base.folder import FolderError
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.classification import commands
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding import commands as embedding
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.embedder import open_embedder as load_embedder
from regard.tasks.evaluate import evaluate_model
from regard.tasks.load import load
from regard.tasks.pretraining import commands as pretraining
from regard.tasks.pretraining.filler import Filler
from regard.tasks.registry import task_of_head
from regard.tasks.seeds import train_seeds
from regard.tasks.tagging import commands as tagging
from regard.tasks.tagging.tagger import Tagger
from regard.text import DataError
from tests.tasks.encoders import toys

pytestmark = pytest.mark.usefixtures("unchecked")


def folder_of(path: Path, head: Any, labels: tuple[str, ...] = (), **facts: Any) -> Path:
    model = toys.model(head, vocabulary=len(toys.subwords()))
    weights = dict(model.named_parameters())
    save_checkpoint(
        Checkpoint(
            config=model.config,
            weights=weights,
            tokenizer=toys.subwords(),
            longest=64,
            labels=labels,
            **facts,
        ),
        path,
        task_of_head(head.kind).name,
    )
    return path


def evaluate(model: Path, labelled: Path, console: Console, **options: Any) -> dict[str, Any]:
    return evaluate_model(model, EvaluateOptions(labelled=[labelled], device="cpu", **options), console)


def said(work: Callable[[Console], object]) -> str:
    page = io.StringIO()
    work(Console(file=page, width=100))
    return page.getvalue()


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text("sun rain\nold tree\nred house sees dog\n", encoding="utf-8")
    return str(tmp_path / "text.txt")


def test_a_folder_becomes_what_it_is_for(tmp_path: Path) -> None:
    kinds: dict[type, Any] = {
        Classifier: (ClassifyConfig(labels=2), ("a", "b")),
        Tagger: (TagConfig(tags=3), ("O", "B-x", "I-x")),
        Filler: (MaskedConfig(), ()),
        Embedder: (EmbedConfig(), ()),
    }
    for kind, (head, labels) in kinds.items():
        folder = folder_of(tmp_path / kind.__name__, head, labels)
        assert isinstance(regard.load(folder, device="cpu"), kind)
        assert load_embedder(folder, device="cpu").embed(["sun"]).shape == (1, 16)  # vectors, of any of them
    with pytest.raises(FolderError, match="a model for regard tag, not for regard classify"):
        load(tmp_path / "Tagger", Classifier, device="cpu")


def test_a_taggers_way_to_choose_is_kept(tmp_path: Path) -> None:
    labels = ("O", "B-x", "I-x")
    own = folder_of(tmp_path / "a", TagConfig(tags=3), labels, decode="valid")
    assert load(own, Tagger, device="cpu").decode == "valid"
    assert load(folder_of(tmp_path / "b", TagConfig(tags=3), labels), Tagger, device="cpu").decode == "greedy"


def test_lines_are_classified_in_order_plain_and_as_json(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", ClassifyConfig(labels=2), ("a", "b"))
    own = load(folder, Classifier, device="cpu").classify(Path(text).read_text().splitlines())
    for form in ({}, {"as_json": True}, {"probabilities": True}):
        page = io.StringIO()
        commands.classify(folder, text, out=page, device="cpu", **form)
        lines = page.getvalue().splitlines()
        assert len(lines) == 3
        if form.get("as_json"):
            assert [json.loads(line)["label"] for line in lines] == [each.label for each in own]
        elif form:
            assert all(
                f"{each.label}={each.value:.4f}" in line for each, line in zip(own, lines, strict=True)
            )
        else:
            assert [line.split("\t")[0] for line in lines] == [each.label for each in own]


def classified(folder: Path, text: str, **how: Any) -> list[str]:
    page = io.StringIO()
    commands.classify(folder, text, out=page, device="cpu", **how)
    return page.getvalue().splitlines()


def test_the_likeliest_labels_are_given_and_unlikely_ones_left_out(tmp_path: Path, text: str, capsys) -> None:
    folder = folder_of(tmp_path / "model", ClassifyConfig(labels=3), ("a", "b", "c"))
    own = load(folder, Classifier, device="cpu").classify(Path(text).read_text().splitlines())
    pairs = list(zip(own, classified(folder, text, top_k=2), strict=True))
    for each, line in pairs:
        assert line.split("\t")[0] == " ".join(f"{name}={chance:.4f}" for name, chance in each.top(2).items())
    assert [
        len(json.loads(line)["probabilities"]) for line in classified(folder, text, top_k=2, as_json=True)
    ] == [
        2,
        2,
        2,
    ]
    capsys.readouterr()
    least = sorted(each.value for each in own)[1]
    labels = [line.split("\t")[0] for line in classified(folder, text, min_probability=least)]
    assert labels == [each.label if each.value >= least else "-" for each in own]
    assert "1 of 3 lines" in capsys.readouterr().err
    plain = [json.loads(line) for line in classified(folder, text, min_probability=least, as_json=True)]
    assert [each["label"] or "-" for each in plain] == labels
    assert all(each["probability"] == max(each["probabilities"].values()) for each in plain)
    both = [line.split("\t")[0] for line in classified(folder, text, min_probability=1.0, top_k=2)]
    assert both == ["-"] * 3
    for how, match in (
        ({"top_k": 0}, "1 or more"),
        ({"min_probability": 1.5}, "from 0 to 1"),
        ({"top_k": 1, "words": True, "labelled": Path("x")}, "leave them out with --words"),
    ):
        with pytest.raises(ConfigError, match=match):
            classified(folder, text, **how)
    numbers = folder_of(tmp_path / "numbers", ClassifyConfig(labels=1), problem="number")
    with pytest.raises(ConfigError, match="gives numbers"):
        classified(numbers, text, min_probability=0.5)


def test_a_predictor_tells_what_it_is(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "<b>", ClassifyConfig(labels=10), tuple("abcdefghij"))
    classifier = load(folder, Classifier, device="cpu")
    parameters = sum(each.numel() for each in classifier.model.parameters())
    assert repr(classifier).splitlines() == [
        "Classifier",
        "  task        classify",
        f"  parameters  {parameters:,}",
        "  labels      10: a, b, c, d, e, f, g, h, ...",
        "  longest     64 tokens",
        "  precision   float32 on cpu",
        f"  folder      {folder}",
    ]
    (folder / "metrics.json").write_text('{"metric": "mcc", "valid": {"mcc": 0.51234}}', encoding="utf-8")
    assert repr(classifier).splitlines()[-1] == "  mcc         0.5123 on validation text"
    shown = classifier._repr_html_()
    assert "<td>classify</td>" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    (folder / "metrics.json").write_text("[1, 2]", encoding="utf-8")
    assert "mcc" not in repr(classifier)
    assert "folder" not in repr(classifier.with_model(classifier.model))
    assert repr(load(folder_of(tmp_path / "e", EmbedConfig()), device="cpu")).startswith("Embedder\n")


def test_lines_of_pairs_must_all_be_pairs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", ClassifyConfig(labels=2), ("a", "b"))
    (tmp_path / "pairs.txt").write_text("sun\train\nold\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.txt:2: 1 texts in a line"):
        commands.classify(folder, str(tmp_path / "pairs.txt"), out=io.StringIO(), device="cpu")


def test_the_line_that_is_wrong_is_the_same_in_a_table(tmp_path: Path) -> None:
    """Lines without text are not read with the others; and lines are read some at a time."""
    folder = folder_of(tmp_path / "model", ClassifyConfig(labels=2), ("a", "b"))
    rows = ["", *["sun"] * 1099, "rain\told", *["sun"] * 9]
    (tmp_path / "many.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    for into in (None, str(tmp_path / "many.csv")):
        with pytest.raises(DataError, match=r"many\.txt:1101: 2 texts in a line"):
            commands.classify(folder, str(tmp_path / "many.txt"), out=io.StringIO(), into=into, device="cpu")


def test_sentences_are_tagged_plain_and_as_json(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", TagConfig(tags=2), ("O", "N"))
    page = io.StringIO()
    tagging.tag(folder, text, out=page, device="cpu")
    blocks = page.getvalue().strip().split("\n\n")
    assert [[line.split("\t")[0] for line in block.splitlines()] for block in blocks] == [
        ["sun", "rain"],
        ["old", "tree"],
        ["red", "house", "sees", "dog"],
    ]
    page = io.StringIO()
    tagging.tag(folder, text, out=page, device="cpu", as_json=True)
    assert [json.loads(line)["words"] for line in page.getvalue().splitlines()][1] == ["old", "tree"]
    (tmp_path / "a.conll").write_text("sun N\nrain O\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="--format text"):
        tagging.tag(folder, str(tmp_path / "a.conll"), out=page, device="cpu", as_json=True)


def test_masks_are_filled_and_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", MaskedConfig())
    shown = said(
        lambda console: pretraining.fill(
            folder, "sun [MASK] old [MASK]", top=2, device="cpu", as_json=False, console=console
        )
    )
    assert shown.count("mask ") == 2
    assert len(shown.splitlines()) == 6
    plain = said(
        lambda console: pretraining.fill(
            folder, "a [MASK]", top=3, device="cpu", as_json=True, console=console
        )
    )
    assert len(json.loads(plain)["candidates"][0]) == 3


def test_vectors_are_written_searched_and_grouped(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", EmbedConfig(pool=PoolConfig(kind="mean")))
    out = tmp_path / "v.npy"
    said(lambda console: embedding.embed(folder, text, out, device="cpu", console=console))
    lines = Path(text).read_text().splitlines()
    assert np.array_equal(np.load(out), regard.load(folder, device="cpu").embed(lines))

    def found(query: str) -> str:
        return said(
            lambda console: meaning.search(
                folder,
                Path(text),
                [query],
                top=1,
                kind="auto",
                index=None,
                device="cpu",
                as_json=False,
                console=console,
            )
        )

    assert found("old tree").split() == ["1.0000", "2", "old", "tree"]
    made = (tmp_path / "text.txt.index" / "index.json").stat().st_mtime_ns
    found("sun rain")
    assert (tmp_path / "text.txt.index" / "index.json").stat().st_mtime_ns == made  # used again
    Path(text).write_text("dog\nriver\n", encoding="utf-8")
    assert found("river").split()[-1] == "river"  # and made anew for another corpus

    def grouped(**how: Any) -> str:
        settings = {"clusters": None, "threshold": None, "smallest": 2, "examples": 3, "seed": 0, **how}
        return said(
            lambda console: meaning.cluster(
                folder, text, device="cpu", as_json=True, console=console, **settings
            )
        )

    assert len(grouped(clusters=2).splitlines()) == 2
    with pytest.raises(ConfigError, match="give one of the two"):
        grouped(clusters=2, threshold=0.5)


def test_a_model_goes_out_and_comes_in_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", EmbedConfig())
    vectors = regard.load(folder, device="cpu").embed(["sun rain"])
    shown = said(lambda console: exchange.export_model(folder, tmp_path / "hf", console=console))
    assert "every weight equal" in shown
    shown = said(lambda console: exchange.import_model(tmp_path / "hf", tmp_path / "back", console=console))
    assert "for regard embed" in shown
    assert np.array_equal(regard.load(tmp_path / "back", device="cpu").embed(["sun rain"]), vectors)
    for work in (
        lambda console: exchange.export_model(folder, tmp_path / "hf", console=console),
        lambda console: exchange.import_model(tmp_path / "hf", tmp_path / "back", console=console),
    ):
        with pytest.raises(ConfigError, match="is there already"):
            said(work)
    with pytest.raises(FolderError, match="no Hugging Face folder"):
        said(lambda console: exchange.import_model(folder, tmp_path / "again", console=console))


def test_a_model_is_evaluated_on_text_as_it_was_trained_on(tmp_path: Path) -> None:
    toys.train(toys.recipe(tmp_path / "corpus"), tmp_path / "model")
    valid = tmp_path / "corpus" / "valid.tsv"
    found: dict[str, Any] = {}
    shown = said(lambda console: found.update(evaluate(tmp_path / "model", valid, console)))
    kept = json.loads((tmp_path / "model" / "metrics.json").read_text())["valid"]
    assert found["accuracy"] == pytest.approx(kept["accuracy"])
    assert np.array(found["confusion"]).sum() == 60
    assert "macro_f1" in shown
    assert found["per_label"]["yes"]["count"] + found["per_label"]["no"]["count"] == 60
    assert sum(each["count"] for each in found["confused"]) == len(found["errors"])
    assert len(found["errors"]) == round(60 * (1 - found["accuracy"]))
    assert f"calibration error {found['calibration']['error']:.4f}" in shown
    texts = valid.read_text(encoding="utf-8").splitlines()
    for mistake in found["errors"]:
        assert texts[mistake["line"] - 1] == f"{mistake['gold']}\t{mistake['text']}"
    toys.write(tmp_path, "named.tsv", ("sky", "said"), *((toys.sunny(text), text) for text in toys.texts(9)))
    named = tmp_path / "named.tsv"
    columns = {"text_column": "said", "label_column": "sky"}
    errors = {"errors": tmp_path / "errors.tsv", "calibration": tmp_path / "sure.png"}
    again = evaluate(tmp_path / "model", named, Console(quiet=True), **columns, **errors)
    assert sum(each["count"] for each in again["per_label"].values()) == 9
    assert len((tmp_path / "errors.tsv").read_text().splitlines()) == 1 + len(again["errors"])
    assert (tmp_path / "sure.png").stat().st_size
    positional = EvaluateOptions(files=[valid], label_column="0", text_column="1", device="cpu")
    assert evaluate_model(tmp_path / "model", positional, Console(quiet=True)) == found
    with pytest.raises(
        ConfigError, match=r"--stride is not for this model: it takes FILE, --labelled, --text-c"
    ):
        evaluate(tmp_path / "model", valid, Console(quiet=True), stride=3)
    folder = folder_of(tmp_path / "embedder", EmbedConfig())
    with pytest.raises(
        ConfigError, match="--labelled is not for this model: it takes --queries, --corpus, --qrels"
    ):
        evaluate(folder, valid, Console(quiet=True))


def test_a_model_without_a_recipe_is_evaluated_as_its_task_usually_is(tmp_path: Path) -> None:
    toys.train(toys.recipe(tmp_path / "corpus"), tmp_path / "model")
    valid = tmp_path / "corpus" / "valid.tsv"
    found = evaluate(tmp_path / "model", valid, Console(quiet=True))
    (tmp_path / "model" / "recipe.toml").unlink()
    lines = [line.split("\t") for line in valid.read_text(encoding="utf-8").splitlines()]
    toys.write(tmp_path, "usual.tsv", ("label", "text"), *lines)
    again = evaluate(tmp_path / "model", tmp_path / "usual.tsv", Console(quiet=True))
    assert again["accuracy"] == found["accuracy"]
    assert again["confusion"] == found["confusion"]


def test_several_seeds_have_a_mean_and_a_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = toys.recipe(tmp_path / "corpus", train={"steps": 4, "validate_every": 4})
    (tmp_path / "toy.toml").write_text(write_toml(plain), encoding="utf-8")

    def trained(**how: Any) -> str:
        return said(
            lambda console: train_seeds(
                tmp_path / "toy.toml", out=tmp_path / "runs", seeds=2, device="cpu", console=console, **how
            )
        )

    assert "2 seeds" in trained()
    whole = json.loads((tmp_path / "runs" / "seeds.json").read_text())
    losses = [
        json.loads((tmp_path / f"runs/seed-{seed}/metrics.json").read_text())["valid"]["loss"]
        for seed in range(2)
    ]
    assert losses[0] != losses[1]
    assert whole["spread"]["valid.loss"]["mean"] == pytest.approx(sum(losses) / 2)
    assert whole["spread"]["valid.loss"]["deviation"] == pytest.approx(abs(losses[0] - losses[1]) / 2**0.5)
    trained(resume=True)  # what is done stays as it is
    assert json.loads((tmp_path / "runs" / "seeds.json").read_text()) == whole
    with pytest.raises(ConfigError, match="takes 2 or more"):
        train_seeds(tmp_path / "toy.toml", out=tmp_path / "runs", seeds=1)
    (tmp_path / "runs" / "seeds.json").unlink()
    monkeypatch.setenv("RANK", "1")  # of several processes, the first alone writes and tells
    page = trained(resume=True)
    assert "seed 0" not in page
    assert "2 seeds" not in page
    assert not (tmp_path / "runs" / "seeds.json").exists()


def test_words_get_vectors_of_a_layer(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", EmbedConfig())
    out = tmp_path / "w.npy"
    said(
        lambda console: embedding.embed(folder, text, out, layer=1, words=True, device="cpu", console=console)
    )
    names = [json.loads(line) for line in (tmp_path / "w.npy.texts.jsonl").read_text().splitlines()]
    assert names[:3] == ["1\tsun", "1\train", "2\told"]
    own = load_embedder(folder, device="cpu").words(Path(text).read_text().splitlines(), layers=[1])
    assert np.array_equal(np.load(out), np.concatenate([each.vectors[0] for each in own]))
    with pytest.raises(ConfigError, match="only --layer goes with it"):
        embedding.embed(folder, text, out, pool="max", words=True, device="cpu", console=Console(quiet=True))


def test_a_tagger_is_evaluated_span_by_span(tmp_path: Path) -> None:
    sentences = [
        [(word, "B-s" if word == "sun" else "O") for word in each.split()] for each in toys.texts(60)
    ]
    lines = "\n".join("".join(f"{word} {tag}\n" for word, tag in each) for each in sentences)
    (tmp_path / "a.conll").write_text(lines, encoding="utf-8")
    plain = {
        "task": "tag",
        "data": {"train": "a.conll", "valid": "a.conll", "root": str(tmp_path)},
        "tokenizer": {"kind": "words", "vocabulary": 30},
        "model": toys.TINY,
        "optimizer": {"learning_rate": 3e-3, "warmup": 10},
        "train": {"steps": 60, "validate_every": 60},
    }
    toys.train(plain, tmp_path / "model")
    kept = json.loads((tmp_path / "model" / "metrics.json").read_text())["valid"]
    found = evaluate(tmp_path / "model", tmp_path / "a.conll", Console(quiet=True))
    assert found["f1"] == pytest.approx(kept["f1"])
    assert found["f1"] > 0.9
    assert found["labels"]["s"]["count"] == sum(tag == "B-s" for each in sentences for _, tag in each)
    assert found["per_label"] == found["labels"]
    assert found["calibration"]["error"] < 0.5
    turned = "\n".join("".join(f"{tag} {word}\n" for word, tag in each) for each in sentences)
    (tmp_path / "b.conll").write_text(turned, encoding="utf-8")
    columns = {"text_column": "1", "label_column": "0"}
    again = evaluate(tmp_path / "model", tmp_path / "b.conll", Console(quiet=True), **columns)
    assert again["f1"] == found["f1"]
