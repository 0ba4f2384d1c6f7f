import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch.testing import assert_close

from regard.config import ConfigError, from_dict
from regard.data import Plan
from regard.deploy import exchange
from regard.look.explorer.explorer import Explorer
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import TagConfig
from regard.settings.presets import bert
from regard.settings.training import BatchConfig, LossConfig
from regard.tasks import run
from regard.tasks.base.encoders import loaded, open_encoder
from regard.tasks.base.job import Job, train
from regard.tasks.base.reading import Reader
from regard.tasks.base.recipe import Written
from regard.tasks.base.task import EvaluateOptions
from regard.tasks.registry import as_recipe
from regard.tasks.tagging import commands as tagging
from regard.tasks.tagging import train as tag
from regard.tasks.tagging.batches import TagFeed, encode
from regard.tasks.tagging.data import TaggedConfig, TaggedCorpus, tag_names
from regard.tasks.tagging.recipe import RECIPE, TagRecipe
from regard.tasks.tagging.tagger import Tagger, open_tagger
from regard.text import DataError, Origin, Skipped, Tagged, Tokenizer, TokenizerConfig
from regard.train.objectives import HIDDEN
from regard.train.ranks import Ranks

LETTERS = Tokenizer.train(["abcdefgh"], TokenizerConfig(kind="characters", vocabulary=40))
CPU = Ranks(rank=0, count=1, device=torch.device("cpu"))

RECORDS = [
    Tagged(("ab", "c", "defg"), ("B-X", "I-X", "O"), Origin("made up", 1)),
    Tagged(("h",), ("O",), Origin("made up", 2)),
    Tagged(("abc", "", "de", "fgh"), ("O", "O", "B-X", "I-X"), Origin("made up", 3)),
]


def small(words: str, dropout: float = 0.0) -> Headed:
    encoder = bert(len(LETTERS), layers=1, d_model=8, heads=2, d_ff=16)
    head = TagConfig(tags=3, words=words, dropout=dropout)
    return Headed(HeadedConfig(encoder=encoder, head=head)).eval()


def one_batch(words: str, *, static: bool) -> Any:
    names = {name: number for number, name in enumerate(tag_names(RECORDS))}
    text = encode(LETTERS, RECORDS, names, longest=64)
    plan = Plan([text.ids.lengths], BatchConfig(tokens=64))
    [(_, batch)] = TagFeed(text, plan, mean=words == "mean", static=static).parts(1)
    return batch


def naive_loss(model: Headed, words: str) -> float:
    """Sentence by sentence, word by word."""
    names = tag_names(RECORDS)
    total = 0.0
    for record in RECORDS:
        encoding = LETTERS.encode_words(record.words, template="cls")
        reader = Reader(model, LETTERS, longest=64)
        [piece] = reader.pieces(["".join(record.words)])
        assert tuple(piece.ids) == encoding.ids
        [states] = reader.read([piece], lambda states, _: states, rows="tokens")
        for number, wanted in enumerate(record.tags):
            places = encoding.subwords(number)
            if places:
                vector = states[places[0]] if words == "first" else states[list(places)].mean(axis=0)
                scores = model.head.output(torch.from_numpy(vector))
                total += F.cross_entropy(scores, torch.tensor(names.index(wanted))).item()
    return total


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("words", ["first", "mean"])
def test_the_loss_is_that_of_each_word_by_itself(words, static):
    model = small(words)
    sums = tag.TaggingLoss(model, LossConfig())(one_batch(words, static=static))
    assert float(sums.tokens) == 7
    assert_close(sums.loss.item(), naive_loss(model, words), atol=1e-5, rtol=1e-5)
    assert_close(sums.nll.item(), sums.loss.item())


@pytest.mark.parametrize("words", ["first", "mean"])
def test_two_passes_that_agree_cost_what_one_does(words):
    model, batch = small(words), one_batch(words, static=False)
    one = tag.TaggingLoss(model, LossConfig())(batch)
    two = tag.TaggingLoss(model, LossConfig(r_drop=3.0))(batch)
    assert_close(two.loss, one.loss)
    assert_close(two.tokens, one.tokens)


def test_two_passes_that_disagree_cost_more():
    model, batch = small("mean", dropout=0.5).train(), one_batch("mean", static=False)
    torch.manual_seed(0)
    without = tag.TaggingLoss(model, LossConfig(r_drop=1e-9))(batch)
    torch.manual_seed(0)
    with_it = tag.TaggingLoss(model, LossConfig(r_drop=3.0))(batch)
    assert with_it.loss > without.loss
    assert_close(with_it.nll, without.nll)


def test_smoothing_wants_a_share_of_every_tag():
    model, batch = small("first"), one_batch("first", static=True)
    sums = tag.TaggingLoss(model, LossConfig(label_smoothing=0.2))(batch)
    logits = model.head(model.states(batch.text.ids, batch.text.layout))
    wanted = F.cross_entropy(logits, batch.labels, ignore_index=HIDDEN, reduction="sum", label_smoothing=0.2)
    assert_close(sums.loss, wanted)


NAMES, OTHERS = ("ann", "lee", "bo", "kim"), ("sees", "a", "dog", "today")


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    """Names after mr are a person; by themselves they are nothing."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        rows: list[tuple[str, str]] = []
        for _ in range(chance.randint(2, 4)):
            match chance.randrange(3):
                case 0:
                    rows += [("mr", "O"), (chance.choice(NAMES), "B-PER"), (chance.choice(NAMES), "I-PER")]
                    rows.append((chance.choice(OTHERS), "O"))
                case 1:
                    rows.append((chance.choice(OTHERS), "O"))
                case 2:
                    rows += [(chance.choice(NAMES), "O"), (chance.choice(OTHERS), "O")]
        made.append(rows)
    return made


def write(path: Path, made: list[list[tuple[str, str]]]) -> str:
    path.write_text("\n".join("".join(f"{word} {tag}\n" for word, tag in rows) for rows in made))
    return path.name


def plain_recipe(folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "task": "tag",
        "data": {
            "train": write(folder / "train.conll", sentences(300, 0)),
            "valid": write(folder / "valid.conll", sentences(40, 1)),
            "test": write(folder / "test.conll", sentences(40, 2)),
        },
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": {
            "preset": "tiny",
            "d_model": 32,
            "heads": 2,
            "d_ff": 64,
            "dropout": 0.0,
            "positions": "rotary",
        },
        "batch": {"tokens": 256},
        "optimizer": {"learning_rate": 3e-3, "warmup": 10},
        "average": {"decay": 0.9},
        "train": {"steps": 160, "validate_every": 160, "log_every": 40},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def prepared(plain: dict[str, Any], where: Path, out: Path) -> tuple[Job, str]:
    plain = RECIPE.plain(plain)
    written = Written(plain, where, from_dict(TagRecipe, plain), RECIPE)
    console = Console(file=io.StringIO(), width=200)
    job = tag.prepare(written, out, CPU, console)
    return job, console.file.getvalue()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("words", "model", "rate"),
    [
        ("first", {"preset": "tiny", "d_ff": 64, "positions": "rotary"}, 3e-3),
        ("mean", {"preset": "recurrent", "layers": 1}, 2e-2),
    ],
)
def test_an_encoder_learns_who_is_a_person_from_nothing(tmp_path, words, model, rate):
    plain = plain_recipe(tmp_path, head={"words": words, "dropout": 0.0}, optimizer={"learning_rate": rate})
    plain["model"] = {**model, "d_model": 32, "dropout": 0.0}
    out = tmp_path / "out"
    job, said = prepared(plain, tmp_path, out)
    assert "300 sentences to learn from, 40 to validate on; 3 tags (IOB2)" in said
    train(job, out, Console(file=io.StringIO()), begun=False)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["test"]["f1"] > 0.95
    assert metrics["test"]["spans"]["PER"]["count"] > 20

    config = json.loads((out / "config.json").read_text())
    assert (config["task"], config["labels"], config["scheme"]) == ("tag", ["O", "B-PER", "I-PER"], "IOB2")
    checkpoint = open_encoder(out)
    reader = Reader(loaded(checkpoint, out).eval(), checkpoint.tokenizer, longest=checkpoint.longest)
    tagger = Tagger(reader, checkpoint.labels, decode=config["decode"])
    rows = sentences(40, 2)
    found = tagger.tag([[word for word, _ in sentence] for sentence in rows])
    right = sum(
        one.tags == tuple(tag for _, tag in sentence) for one, sentence in zip(found, rows, strict=True)
    )
    assert right > 30


def test_long_sentences_are_learned_from_in_windows(tmp_path):
    plain = plain_recipe(tmp_path, data={"longest": 8})
    job, said = prepared(plain, tmp_path, tmp_path / "out")
    words = sum(len(sentence) for sentence in sentences(300, 0))
    steps = range(1, job.feed.plan.steps(0) + 1)
    assert sum(batch.tokens for step in steps for _, batch in job.feed.parts(step)) == words
    assert int(job.feed.plan.lengths.max()) == 8
    assert "sentences of more than 8 tokens are read in windows" in said
    figures, _ = job.validate()
    assert np.isfinite(figures["loss"])


def test_the_metric_is_that_of_the_tags(tmp_path):
    job, _ = prepared(plain_recipe(tmp_path), tmp_path, tmp_path / "out")
    assert job.metric == ("f1", "high")
    plain = plain_recipe(tmp_path)
    for split in ("train", "valid", "test"):
        path = tmp_path / f"{split}.conll"
        path.write_text(path.read_text().replace("B-PER", "NAME").replace("I-PER", "NAME"))
    job, _ = prepared(plain, tmp_path, tmp_path / "out")
    assert job.metric == ("accuracy", "high")
    plain["valid"] = {"metric": "f1"}
    with pytest.raises(ValueError, match=r"valid\.metric='f1' is about spans"):
        prepared(plain, tmp_path, tmp_path / "out")


def test_tags_that_were_never_seen_are_told_and_count_as_mistakes(tmp_path):
    plain = plain_recipe(tmp_path)
    (tmp_path / "valid.conll").write_text("ann B-NEW\n\nbo O\n")
    job, said = prepared(plain, tmp_path, tmp_path / "out")
    assert "data.valid: 1 words have tags that no training sentence has (B-NEW)" in said
    figures, _ = job.validate()
    assert figures["recall"] == 0
    assert figures["accuracy"] <= 0.5
    assert np.isfinite(figures["loss"])


def test_figures_are_those_of_the_chosen_tags_and_of_words_that_left_tokens():
    names = ("O", "B-X", "I-X")
    tagger = Tagger(Reader(small("first"), LETTERS, longest=64), names, decode="valid")
    sure = {name: np.log(np.array([0.8 if name == other else 0.1 for other in names])) for name in names}
    silent = np.full(3, np.nan)
    scores = [np.stack([sure["B-X"], sure["I-X"], silent]), np.stack([sure["O"]])]
    figures = tag.measure(tagger, scores, [["B-X", "I-X", "O"], ["B-X"]])
    assert_close(figures["loss"], -(2 * np.log(0.8) + np.log(0.1)) / 3)
    assert (figures["precision"], figures["recall"], figures["accuracy"]) == (1.0, 0.5, 0.75)


def test_spans_that_nobody_has_give_zeros_and_not_nothing():
    tagger = Tagger(Reader(small("first"), LETTERS, longest=64), ("O", "B-X", "I-X"))
    figures = tag.measure(tagger, [np.array([[5.0, 0.0, 0.0]])], [["O"]])
    assert (figures["accuracy"], figures["f1"]) == (1.0, 0.0)


def test_one_tag_for_all_is_nothing_to_learn(tmp_path):
    plain = plain_recipe(tmp_path)
    (tmp_path / "train.conll").write_text("ann O\nbo O\n")
    with pytest.raises(ValueError, match="all words have the tag 'O'"):
        prepared(plain, tmp_path, tmp_path / "out")


def test_a_start_brings_its_tokenizer():
    plain = {"task": "tag", "data": {"train": "x"}, "model": {"start": "y"}, "tokenizer": {"kind": "words"}}
    with pytest.raises(ConfigError, match=r"tokenizer\.kind is set beside model\.start"):
        RECIPE.plain(plain)


# Numbers in place of tags


def numbered(folder: Path, count: int = 60, seed: int = 0) -> str:
    """A word's number is how many letters it has, and one more behind a `the`."""
    chance = random.Random(seed)
    words = ["a", "the", "dog", "river", "old", "sees", "tree", "house"]
    lines = []
    for _ in range(count):
        before = ""
        for word in chance.choices(words, k=chance.randint(2, 7)):
            lines.append(f"{word} {len(word) + (before == 'the')}")
            before = word
        lines.append("")
    name = f"numbers{seed}.conll"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def of_numbers(folder: Path, **tables: Any) -> dict[str, Any]:
    files = {"train": numbered(folder, 300), "valid": numbered(folder, seed=1), "root": str(folder)}
    plain: dict[str, Any] = {
        "task": "tag",
        "data": {**files, "problem": "number"},
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": {"preset": "tiny", "d_model": 32, "heads": 2, "layers": 2, "d_ff": 64, "dropout": 0.0},
        "batch": {"tokens": 400},
        "optimizer": {"learning_rate": 5e-3, "warmup": 10},
        "train": {"steps": 250, "validate_every": 125},
    }
    return {**plain, **{name: {**plain.get(name, {}), **table} for name, table in tables.items()}}


@pytest.mark.spec("5.6b")
def test_words_are_given_numbers_from_the_recipe_to_the_prompt(tmp_path: Path) -> None:
    said = io.StringIO()
    run.fit(of_numbers(tmp_path), out=tmp_path / "model", device="cpu", console=Console(file=said, width=200))
    assert "numbers" in said.getvalue()
    figures = json.loads((tmp_path / "model" / "metrics.json").read_text())["valid"]
    assert figures["spearman"] > 0.95
    assert figures["mse"] == figures["loss"] < 0.2
    tagger = open_tagger(tmp_path / "model", device="cpu")
    found = tagger.tag([["the", "dog"], ["a", "dog"]])
    assert found[0].values[1] == pytest.approx(4, abs=0.5)
    assert found[1].values[1] == pytest.approx(3, abs=0.5)
    assert found[0].tags == tuple(f"{value:.4f}" for value in found[0].values)
    assert found[0].to_dict()["values"] == list(found[0].values)
    out = io.StringIO()
    tagging.tag(tmp_path / "model", str(tmp_path / "numbers1.conll"), out=out, device="cpu")
    first = out.getvalue().splitlines()[0].split()
    assert float(first[2]) == pytest.approx(float(first[1]), abs=1)
    again = tagging.evaluate(
        tmp_path / "model",
        EvaluateOptions(labelled=[tmp_path / "numbers1.conll"], device="cpu"),
        Console(file=io.StringIO()),
    )
    assert again["spearman"] == pytest.approx(figures["spearman"], abs=1e-4)
    exchange.export_model(tmp_path / "model", tmp_path / "theirs", console=Console(file=io.StringIO()))
    back = open_tagger(tmp_path / "theirs", device="cpu")
    assert back.labels == ()
    assert back.tag([["the", "dog"]])[0].values == pytest.approx(found[0].values, abs=1e-5)
    explored = Explorer(tagger).ask("label", {"text": "the dog"})
    assert explored["values"] == pytest.approx(list(found[0].values), abs=1e-4)
    assert (
        Explorer(tagger).ask("tour", {"text": "the dog"})["steps"][-1]["title"] == "Every token gets a number"
    )


@pytest.mark.parametrize("words", ["first", "mean"])
def test_the_loss_of_numbers_is_the_mean_square_of_each_word(words: str) -> None:
    records = [
        Tagged(each.words, tuple(str(len(w) / 2) for w in each.words), each.origin) for each in RECORDS
    ]
    text = encode(LETTERS, records, None, longest=64)
    plan = Plan([text.ids.lengths], BatchConfig(tokens=64))
    [(_, batch)] = TagFeed(text, plan, mean=words == "mean", static=True).parts(1)
    encoder = bert(len(LETTERS), layers=1, d_model=8, heads=2, d_ff=16)
    head = TagConfig(tags=1, words=words, dropout=0.0)
    model = Headed(HeadedConfig(encoder=encoder, head=head)).eval()
    sums = tag.TaggingLoss(model, LossConfig())(batch)
    tagger = Tagger(Reader(model, LETTERS, longest=64), ())
    total = count = 0
    for record, scores in zip(records, tagger.scores([each.words for each in records]), strict=True):
        for wanted, score in zip(record.tags, scores[:, 0].tolist(), strict=True):
            if score == score:  # a word that left a token
                total, count = total + (score - float(wanted)) ** 2, count + 1
    assert int(sums.tokens) == batch.tokens == count == 7
    assert_close(sums.loss.item(), total, atol=1e-4, rtol=1e-4)


def test_what_is_no_number_is_named_and_figures_of_tags_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("a 1\nb two\n\nc 3\n", encoding="utf-8")
    plain = of_numbers(tmp_path, data={"train": "x.conll"})
    with pytest.raises(DataError, match=r"x.conll:1: no number but 'two', for the word 'b'"):
        run.fit(plain, out=tmp_path / "model", device="cpu", console=Console(file=io.StringIO()))
    with pytest.raises(ConfigError, match=r"valid.metric='f1' is none of data.problem='number'"):
        as_recipe(of_numbers(tmp_path, valid={"metric": "f1"}))
    with pytest.raises(ConfigError, match=r"valid.metric='mse' is none of data.problem='tags'"):
        as_recipe(of_numbers(tmp_path, data={"problem": "tags"}, valid={"metric": "mse"}))
    with pytest.raises(ConfigError, match="label_smoothing is for tags"):
        as_recipe(of_numbers(tmp_path, loss={"label_smoothing": 0.1}))


def test_numbers_come_from_tables_and_are_checked_in_every_split(tmp_path: Path) -> None:
    rows = [{"words": ["a", "the", "dog"], "tags": [0.5, 2, "1.25"]}, {"words": ["old"], "tags": [3]}] * 20
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "bad.conll").write_text("a 1\nb _\n\nc 3\n\nd nan\n", encoding="utf-8")
    config = TaggedConfig(train=("train.jsonl",), valid=("bad.conll",), problem="number")
    assert TaggedCorpus(config, tmp_path).read("train")[0].tags == ("0.5", "2", "1.25")
    with pytest.raises(DataError, match=r"bad.conll:1: no number but '_', for the word 'b'"):
        TaggedCorpus(config, tmp_path).read("valid")
    skipped = Skipped()
    lenient = TaggedCorpus(replace(config, on_error="skip"), tmp_path)
    assert [each.words for each in lenient.read("valid", skipped)] == [("c",)]
    assert skipped.total == 2
