"""Pretraining: masked tokens and next sentences, as sums that add up; a model learns a language."""

import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import load_file
from torch.testing import assert_close

from regard.config import ConfigError, from_dict
from regard.data.store import Column
from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import MaskedConfig
from regard.settings.shape import EncoderShape
from regard.settings.training import BatchConfig, MaskingConfig
from regard.tasks.base.encoders import loaded, open_encoder
from regard.tasks.base.job import Job, train
from regard.tasks.base.reading import Reader
from regard.tasks.base.recipe import Written
from regard.tasks.pretraining import train as pretrain
from regard.tasks.pretraining.data import APART, FOLLOWS, Frame, MaskedFeed, NextChunks
from regard.tasks.pretraining.filler import Filler
from regard.tasks.pretraining.recipe import RECIPE, PretrainObjective, PretrainRecipe
from regard.tasks.pretraining.train import PretrainLoss, corruption
from regard.text import DataError, Tokenizer, TokenizerConfig
from regard.train.objectives import HIDDEN
from regard.train.ranks import Ranks
from tests.conftest import SHAPES

FOOD = {"cat": "fish", "dog": "meat", "cow": "grass", "bee": "honey", "ape": "fruit"}
PLACES = ("here", "there", "now", "today")
TINY = {"preset": "tiny", "d_model": 32, "heads": 2, "layers": 1, "d_ff": 64, "dropout": 0.0}


def written(plain: dict[str, Any]) -> Written[PretrainRecipe]:
    plain = RECIPE.plain(dict(plain))
    return Written(plain, Path(), from_dict(RECIPE.recipe, plain), RECIPE)


def recipe(folder: Path, **tables: dict[str, Any]) -> dict[str, Any]:
    """Plain data; the corpus is written into the folder. A document has two lines, and each is a chunk."""
    documents = [
        f"{animal} eats {food} {place}\nand then it sleeps"
        for (animal, food), place in product(FOOD.items(), PLACES)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text("\n\n".join(documents * 4), encoding="utf-8")
    (folder / "valid.txt").write_text("\n\n".join(documents[::-1]), encoding="utf-8")
    plain: dict[str, Any] = {
        "data": {"train": "train.txt", "valid": "valid.txt", "root": str(folder), "longest": 13},
        "tokenizer": {"kind": "words", "vocabulary": 40},
        "model": TINY,
        "batch": {"tokens": 256},
        "optimizer": {"learning_rate": 1e-2, "warmup": 10, "schedule": "constant"},
        "train": {"steps": 20, "validate_every": 10, "log_every": 10},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def prepared(plain: dict[str, Any], out: Path, **how: Any) -> tuple[Job, str]:
    """And what was said."""
    said = io.StringIO()
    console = Console(file=said, width=200)
    return pretrain.prepare(written(plain), out, Ranks.join("cpu"), console, **how), said.getvalue()


def run(plain: dict[str, Any], out: Path, *, begun: bool = False) -> Job:
    job, _ = prepared(plain, out, begun=begun)
    train(job, out, Console(file=io.StringIO()), begun=begun)
    return job


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["abc bcd cde " * 3], TokenizerConfig(kind="characters", vocabulary=20))


class Chunks(dict[str, Column]):
    """A store in memory: documents of so many chunks each, of random lengths."""

    def __init__(self, tokenizer: Tokenizer, *documents: int, size: int = 9) -> None:
        chance = np.random.default_rng(0)
        lengths = chance.integers(1, size + 1, sum(documents))
        offsets = np.concatenate([[0], lengths.cumsum()])
        special = len([*tokenizer.specials])
        super().__init__(
            ids=Column(chance.integers(special, len(tokenizer), offsets[-1]), offsets),
            document=Column(np.repeat(np.arange(len(documents)), documents), np.arange(len(lengths) + 1)),
        )


def feed(tokenizer: Tokenizer, *, nexts: bool, static: bool, tokens: int = 120, **masking: Any) -> MaskedFeed:
    store: Any = Chunks(tokenizer, 5, 1, 7, 9)
    return MaskedFeed(
        store,
        Frame(tokenizer, pair=nexts),
        corruption(MaskingConfig(share=0.3, **masking), tokenizer, 5),
        BatchConfig(tokens=tokens),
        nexts=NextChunks(store["document"].values, 5) if nexts else None,
        static=static,
    )


def model(tokenizer: Tokenizer, *, nexts: bool) -> Headed:
    encoder = EncoderShape(**TINY, encoder={"pooler": nexts}).build(len(tokenizer))
    made = Headed(HeadedConfig(encoder=encoder, head=MaskedConfig(next_sentence=nexts))).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))  # so that everything can be felt
    return made


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece"])
def test_the_frame_is_what_the_tokenizer_sets_around_texts(kind):
    tokenizer = Tokenizer.train(["one two three"], TokenizerConfig(kind=kind, vocabulary=300))
    one, two = (tokenizer.encode(text) for text in ("one two", "three"))
    alone, both = Frame(tokenizer, pair=False), Frame(tokenizer, pair=True)
    wanted = tokenizer.encode("one two", "three", template="cls")
    assert both.around(np.array(one.ids), np.array(two.ids)).tolist() == list(wanted.ids)
    assert both.segments(len(one), len(two)).tolist() == list(wanted.segments)
    assert both.extra == len(wanted) - len(one) - len(two)
    wanted = tokenizer.encode("one two", template="cls")
    assert alone.around(np.array(one.ids)).tolist() == list(wanted.ids)


DOCUMENTS = st.lists(st.integers(1, 6), min_size=2, max_size=8).filter(lambda sizes: max(sizes) > 1)


@pytest.mark.spec("5.2")
@given(DOCUMENTS, st.integers(0, 50), st.integers(0, 50))
def test_a_second_chunk_is_the_next_one_or_of_another_document(sizes, seed, epoch):
    documents = np.repeat(np.arange(len(sizes)), sizes)
    if len(documents) < 3:
        return
    nexts = NextChunks(documents, seed)
    assert nexts.firsts.tolist() == [
        row for row in range(len(documents) - 1) if documents[row] == documents[row + 1]
    ]
    behind, labels = nexts.seconds(nexts.firsts, epoch)
    for first, second, label in zip(nexts.firsts, behind, labels, strict=True):
        assert second == first + 1 if label == FOLLOWS else documents[second] != documents[first]
    # of each by itself, the same comes
    for row, second, label in zip(nexts.firsts, behind, labels, strict=True):
        alone = NextChunks(documents, seed).seconds(np.array([row]), epoch)
        assert [each.tolist() for each in alone] == [[second], [label]]


@pytest.mark.spec("5.2")
def test_half_of_the_second_chunks_follow_and_the_others_are_from_everywhere():
    documents = np.repeat([0, 1, 2], [4000, 1000, 5000])
    nexts = NextChunks(documents, 3)
    behind, labels = nexts.seconds(nexts.firsts, 0)
    assert abs((labels == FOLLOWS).mean() - 0.5) < 5 * 0.5 / len(labels) ** 0.5
    drawn = behind[(labels == APART) & (documents[nexts.firsts] == 0)]
    assert abs((documents[drawn] == 1).mean() - 1 / 6) < 5 * (5 / 36 / len(drawn)) ** 0.5
    again, _ = nexts.seconds(nexts.firsts, 1)
    assert 0.6 < (behind != again).mean() < 0.9  # a quarter follow both times


def test_in_a_single_document_what_does_not_follow_is_from_elsewhere_in_it():
    nexts = NextChunks(np.zeros(5, dtype=np.int64), 0)
    seen = {row: set() for row in range(4)}
    for epoch in range(200):
        behind, labels = nexts.seconds(nexts.firsts, epoch)
        for row, second, label in zip(nexts.firsts.tolist(), behind.tolist(), labels, strict=True):
            if label == APART:
                seen[row].add(second)
    assert seen == {row: set(range(5)) - {row, row + 1} for row in range(4)}


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2,)])
def test_too_little_text_for_next_sentences_is_told(sizes):
    with pytest.raises(DataError, match="too little text for next sentences"):
        NextChunks(np.repeat(np.arange(len(sizes)), sizes), 0)


@pytest.mark.parametrize("nexts", [False, True])
def test_sequences_fit_their_plan_and_say_what_stood_there(tokenizer, nexts):
    made = feed(tokenizer, nexts=nexts, static=True)
    store = Chunks(tokenizer, 5, 1, 7, 9)
    seen: list[int] = []
    for epoch in range(3):
        for rows in made.plan.epoch(epoch):
            batch = made.batch(rows, made.plan.shapes(), epoch)
            assert len(batch.text.ids) == made.plan.shapes()[0].slots
            ids = batch.text.ids.numpy().copy()
            shown = batch.labels.numpy() != HIDDEN
            assert shown.sum() == batch.tokens
            ids[batch.places.numpy()[shown]] = batch.labels.numpy()[shown]
            offsets = batch.text.layout.host_offsets.tolist()
            for place, row in enumerate(rows):
                chunk = made.rows[row]
                size = len(store["ids"][chunk])
                own = ids[offsets[place] : offsets[place + 1]].tolist()
                assert (own[0], own[-1]) == (tokenizer.ids.cls, tokenizer.ids.sep)
                assert own[1 : 1 + size] == store["ids"][chunk].tolist()
                assert len(own) <= made.plan.lengths[0, row]
                if nexts and batch.follows[place] == FOLLOWS:
                    assert own[2 + size : -1] == store["ids"][chunk + 1].tolist()
                seen += [chunk] * (epoch == 0)
    assert sorted(seen) == sorted(made.rows.tolist())


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_are_masked_as_wholes_where_that_is_asked_for(unit):
    tokenizer = Tokenizer.train(["abcdef bcdefa cdefab"], TokenizerConfig(kind="wordpiece", vocabulary=30))
    ids = np.array(tokenizer.encode("abcd fedcba cab " * 20).ids)
    made = corruption(MaskingConfig(unit=unit), tokenizer, 0)
    chosen = set(made.corrupt(ids, [len(ids)], [0], 0).places.tolist())
    assert chosen
    for place in range(1, len(ids)):
        if tokenizer.token(int(ids[place])).startswith("##"):
            assert (place in chosen) == (place - 1 in chosen)


@pytest.mark.spec("5.1", "5.2")
@pytest.mark.parametrize("nexts", [False, True])
def test_the_loss_is_that_of_every_place_by_itself(tokenizer, nexts):
    made, own = feed(tokenizer, nexts=nexts, static=False), model(tokenizer, nexts=nexts)
    batch = made.batch(made.plan.epoch(0)[0], None, 0)
    sums = PretrainLoss(own, 1.7)(batch)
    scores = own(batch.text.ids, batch.text.layout, batch.segments)
    nll = sum(
        -scores[place].log_softmax(-1)[label]
        for place, label in zip(batch.places.tolist(), batch.labels.tolist(), strict=True)
    )
    loss = nll
    if nexts:
        states = own.states(batch.text.ids, batch.text.layout, batch.segments)
        for row, first in enumerate(batch.text.layout.firsts.tolist()):
            vector = torch.tanh(own.encoder.pooler.dense(states[first]))
            told = own.head.next_sentence.output(vector).log_softmax(-1)
            loss = loss - 1.7 * told[int(batch.follows[row])]
    assert_close(sums.loss, loss)
    assert_close(sums.nll, nll.detach())
    assert sums.tokens == batch.tokens == len(batch.places)


@pytest.mark.parametrize("nexts", [False, True])
def test_filler_changes_neither_loss_nor_gradients(tokenizer, nexts):
    own = model(tokenizer, nexts=nexts)
    found = []
    for static in (False, True):
        made = feed(tokenizer, nexts=nexts, static=static)
        [(_, batch)] = made.parts(2)
        own.zero_grad()
        sums = PretrainLoss(own, 1.7)(batch)
        sums.loss.backward()
        found.append([*sums, *(parameter.grad.clone() for parameter in own.parameters())])
    for exact, filled in zip(*found, strict=True):
        assert_close(exact, filled)


@pytest.mark.parametrize("nexts", [False, True])
def test_parts_of_a_batch_add_up_to_it(tokenizer, nexts):
    made, own = feed(tokenizer, nexts=nexts, static=False), model(tokenizer, nexts=nexts)
    loss = PretrainLoss(own, 1.7)
    [(_, whole)] = made.parts(1)
    parts = [part for _, part in made.parts(1, split=3)]
    assert len(parts) > 1
    for total, each in zip(loss(whole), zip(*map(loss, parts), strict=True), strict=True):
        assert_close(total, sum(each))


def test_next_sentences_weigh_as_much_as_they_are_told_to(tmp_path):
    """The mean over sequences beside the mean over masked tokens, by the sizes of the whole corpus."""
    plain = recipe(tmp_path, objective={"next_sentence": True, "next_weight": 0.5, "share": 0.4})
    job, _ = prepared(plain, tmp_path / "run")
    tokens = sequences = 0
    for epoch in range(20):
        for rows in job.feed.plan.epoch(epoch):
            batch = job.feed.batch(rows, None, epoch)
            tokens, sequences = tokens + batch.tokens, sequences + len(rows)
    assert job.loss.weight == pytest.approx(0.5 * tokens / sequences, rel=0.03)


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pretrain")
    plain = recipe(
        folder,
        model={"layers": 2, "d_model": 64, "d_ff": 128},
        objective={"next_sentence": True, "share": 0.25},
        batch={"tokens": 1024},
        optimizer={"learning_rate": 5e-3, "schedule": "linear"},
        train={"steps": 220, "validate_every": 110},
    )
    jaxtyping.config.update("jaxtyping_disable", True)  # the same passes, many times
    run(plain, folder / "run")
    jaxtyping.config.update("jaxtyping_disable", SHAPES != "on")
    return folder / "run"


@pytest.mark.spec("5.1")
def test_a_small_model_learns_what_a_word_is_determined_by(learned):
    checkpoint = open_encoder(learned)
    filler = Filler(Reader(loaded(checkpoint, learned), checkpoint.tokenizer, longest=checkpoint.longest))
    asked = [f"{animal} eats [MASK] here" for animal in FOOD]
    assert [each.candidates[0][0].word for each in filler.fill(asked)] == [*FOOD.values()]
    assert filler.fill("[MASK] eats honey today").text == "bee eats honey today"
    first, second = "cat eats fish here", "and then it sleeps"
    likely, never = filler.follows([first, first], [second, first])  # no document has two first lines
    assert likely > 0.5
    assert never < 0.05


def test_figures_of_the_held_out_text_are_kept(learned):
    figures = json.loads((learned / "metrics.json").read_text())["valid"]
    assert figures.keys() == {"loss", "perplexity", "accuracy", "next_accuracy"}
    assert figures["perplexity"] == pytest.approx(np.exp(figures["loss"]))
    assert figures["next_accuracy"] > 0.6  # three quarters can be told by the second text alone
    config = json.loads((learned / "config.json").read_text())
    assert (config["task"], config["longest"], config["labels"]) == ("pretrain", 13, [])


def test_validation_is_the_mean_over_its_masks_and_always_the_same(tmp_path):
    plain = recipe(tmp_path, objective={"next_sentence": True})
    job, _ = prepared(plain, tmp_path / "run")
    job.model.eval()
    with torch.no_grad():
        figures, example = job.validate()
        assert job.validate()[0] == figures
    other, _ = prepared({**plain, "train": {**plain["train"], "seed": 7}}, tmp_path / "other")
    other.model.load_state_dict(job.model.state_dict())
    other.model.eval()
    with torch.no_grad():
        assert other.validate()[0] == figures
    made, nll, right, count, told = job.validate._feed, 0.0, 0, 0, []
    for row in range(len(made.rows)):
        batch = made.batch(np.array([row]), None, 0)
        with torch.no_grad():
            states = job.model.states(batch.text.ids, batch.text.layout, batch.segments)
            scores = job.model.head(states)[batch.places]
            told.append(int(job.model.head.follows(states, batch.text.layout).argmax()) == batch.follows[0])
        nll += float(F.cross_entropy(scores, batch.labels, reduction="sum"))
        right += int((scores.argmax(-1) == batch.labels).sum())
        count += len(batch.labels)
    wanted = {"loss": nll / count, "accuracy": right / count, "next_accuracy": np.mean(told)}
    for name, value in wanted.items():
        assert figures[name] == pytest.approx(value, rel=1e-4)
    assert example.count("\n") == 1


def test_a_run_that_goes_on_ends_in_the_same_bits(tmp_path):
    plain = recipe(tmp_path, average={"kind": "none"}, model={"dropout": 0.1})
    shorter = {**plain, "train": {**plain["train"], "steps": 10}}
    run(plain, tmp_path / "whole")
    run(shorter, tmp_path / "parts")
    job = run(plain, tmp_path / "parts", begun=True)
    for name, value in load_file(tmp_path / "whole" / "checkpoint.safetensors").items():
        assert torch.equal(value, load_file(tmp_path / "parts" / "checkpoint.safetensors")[name]), name
    assert job.recipe.train.steps == 20
    with pytest.raises(ConfigError, match=r"begun with other text, or other settings of \[data\]"):
        prepared(recipe(tmp_path, data={"longest": 15}), tmp_path / "parts", begun=True)


def test_a_start_gives_its_encoder_and_its_head(tmp_path, learned):
    plain = recipe(tmp_path, model={})
    plain["model"] = {"start": str(learned)}
    del plain["tokenizer"]
    job, _ = prepared(plain, tmp_path / "run")
    kept = load_file(learned / "model.safetensors")
    own = dict(job.model.named_parameters())
    assert own.keys() == kept.keys() - {name for name in kept if "next_sentence" in name}
    assert all(torch.equal(own[name], kept[name]) for name in own)
    with pytest.raises(ValueError, match="the tokenizer is that of the model it starts from"):
        written({**plain, "tokenizer": {"vocabulary": 50}})


def test_what_is_read_is_said(tmp_path):
    plain = recipe(tmp_path, objective={"next_sentence": True}, valid={"sequences": 4})
    text = (tmp_path / "train.txt").read_text(encoding="utf-8")
    _, said = prepared(plain, tmp_path / "run")
    tokens = len(text.split())
    assert f"{tokens:,} tokens in 80 documents to learn from" in said
    assert "validated on 4 of " in said
    (tmp_path / "train.txt").write_text(text.replace("\n\n", "\n"), encoding="utf-8")
    _, said = prepared(plain, tmp_path / "single")
    assert "there is one document: what does not follow is from elsewhere in it" in said


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"valid": {"metric": "next_accuracy"}}, "objective.next_sentence=false"),
        ({"valid": {"sequences": 0}}, "sequences=0 must be at least 1"),
        ({"objective": {"share": 0.0}}, "share=0.0 leaves nothing to learn"),
        ({"objective": {"next_weight": 0.0}}, "next_weight=0.0 must be greater than 0"),
        ({"objective": {"unit": "words"}}, "did you mean 'word'"),
    ],
)
def test_recipes_that_cannot_be_meant_are_told(tmp_path, tables, message):
    with pytest.raises(ConfigError, match=message):
        written(recipe(tmp_path, **tables))


def test_a_sequence_longer_than_a_batch_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"raise batch\.tokens"):
        prepared(recipe(tmp_path, batch={"tokens": 8}), tmp_path / "run")


def test_the_objective_has_every_setting_of_the_masks():
    config = MaskingConfig(share=0.2, mask=0.5, random=0.3, unit="span", span=2.0, fresh=False, copies=3)
    given = {name: getattr(config, name) for name in MaskingConfig.__dataclass_fields__}
    assert PretrainObjective(**given).masking() == config
    assert PretrainObjective().masking() == MaskingConfig()


@pytest.mark.parametrize(
    ("words", "cuda", "preset"),
    [(10**6, False, "tiny"), (10**6, True, "mini"), (10**7, True, "small"), (10**9, True, "base")],
)
def test_a_recipe_is_completed_to_suit_its_text(words, cuda, preset):
    full = written({"data": {"train": "a.txt"}}).completed(1000, words, cuda=cuda)
    assert full.model.preset == preset
    assert full.model.dropout == (0.0 if words == 0 else 0.1)
    assert full.optimizer.warmup == round(0.06 * full.train.steps)
    seen = full.train.steps * full.batch.tokens * full.batch.parts / (1.4 * words)
    assert seen == pytest.approx(20 if cuda else 3, rel=0.01) or full.train.steps == 1_000_000
