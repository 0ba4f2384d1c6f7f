"""Fine-tuning on dialogues: the template of the folder, a loss on answers only, whole or by adapters."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.hub import read_decoder
from regard.layout import Layout
from regard.tasks.language.data import block_batch
from regard.tasks.language.dialogue import ChatError
from regard.tasks.language.dialogues import encoded, messages_of
from regard.tasks.language.generator import open_generator
from regard.text import DataError
from regard.train.objectives import HIDDEN
from tests.hub.llamas import END, TURN, build, save

PLAIN = (
    "{% for message in messages %}"
    f"{TURN}{{{{ message.role }}}}\n{{{{ message['content'] }}}}{END}\n"
    "{% endfor %}{% if add_generation_prompt %}" + TURN + "assistant\n{% endif %}"
)
TALK = [
    {"role": "user", "content": "the cat"},
    {"role": "assistant", "content": "sat"},
    {"role": "user", "content": "on the mat?"},
    {"role": "assistant", "content": "yes"},
]


@pytest.fixture
def folder(hf, tmp_path):
    save(build(hf, "Llama", max_position_embeddings=256), tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(PLAIN)
    return tmp_path / "model"


def learned_text(checkpoint, messages) -> list[str]:
    ids, learned = encoded(messages, checkpoint.tokenizer, checkpoint.conventions)
    parts, before = [], 0
    for id, mark in zip(ids, learned, strict=True):
        if mark and not before:
            parts.append([])
        if mark:
            parts[-1].append(id)
        before = mark
    return [checkpoint.tokenizer.decode(part, skip_specials=False) for part in parts]


def test_answers_and_their_ends_are_learned_and_nothing_else(folder):
    assert learned_text(read_decoder(folder), TALK) == [f"sat{END}", f"yes{END}"]


def test_dialogues_are_read_in_every_usual_form():
    pair = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for line in (
        {"messages": pair},
        pair,
        {"instruction": "a", "output": "b"},
        {"prompt": "a", "completion": "b"},
        {"question": "a", "answer": "b"},
    ):
        assert messages_of(json.dumps(line)) == pair
    longer = messages_of(json.dumps({"instruction": "a", "input": "c", "output": "b", "system": "s"}))
    assert [each["content"] for each in longer] == ["s", "a\nc", "b"]
    for line, word in (("{", "no JSON"), ("3", "no table"), ('{"text": "a"}', "neither messages")):
        with pytest.raises(ChatError, match=word):
            messages_of(line)


def test_what_cannot_be_learned_is_refused(folder):
    checkpoint = read_decoder(folder)
    for messages, word in ((TALK[:1], "nothing to learn"), (TALK[1:], "speaks first")):
        with pytest.raises(ChatError, match=word):
            encoded(messages, checkpoint.tokenizer, checkpoint.conventions)


def test_labels_of_a_batch_are_the_answers_tokens(folder):
    checkpoint = read_decoder(folder)
    ids, learned = (np.array(each) for each in encoded(TALK, checkpoint.tokenizer, checkpoint.conventions))
    batch = block_batch(ids, np.array([0]), np.array([len(ids) - 1]), None, learned)
    labels = batch.labels.numpy()
    expected = np.where(learned[1:] > 0, ids[1:], HIDDEN)
    assert labels[: len(expected)].tolist() == expected.tolist()


def write(path, count: int = 24) -> None:
    talks = [
        {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "the cat sat"}]}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(talk) + "\n" for talk in talks))


@pytest.mark.parametrize("rank", [0, 4], ids=["whole", "adapters"])
def test_a_model_learns_its_answers_and_keeps_its_template(hf, folder, tmp_path, rank):
    write(tmp_path / "train.jsonl")
    recipe = {
        "task": "language",
        "data": {"train": "train.jsonl", "root": str(tmp_path), "documents": "messages"},
        "model": {"start": str(folder), **({"adapter": {"rank": rank}} if rank else {})},
        "context": {"tokens": 128},
        "batch": {"tokens": 512},
        "optimizer": {"learning_rate": 0.01 if not rank else 0.05, "schedule": "constant", "warmup": 1},
        "average": {"decay": 0.0},
        "train": {"steps": 60, "validate_every": 30, "log_every": 30},
    }
    before = open_generator(folder)
    asked = [{"role": "user", "content": "7"}]
    greedy = regard.DecodeConfig(method="greedy", maximum=24)
    assert before.chat(asked, decoding=greedy).text != "the cat sat"
    regard.fit(recipe, out=tmp_path / "out")
    after = open_generator(tmp_path / "out")
    answer = after.chat(asked, decoding=greedy)
    if not rank:
        assert answer.text == "the cat sat"
        assert answer.finished == "end"
    assert after.conventions == before.conventions
    assert (tmp_path / "out" / "adapter" / "adapter.safetensors").exists() == bool(rank)
    loss = json.loads((tmp_path / "out" / "metrics.json").read_text())["valid"]["loss"]
    assert loss == pytest.approx(by_hand(after, tmp_path), abs=0.05)
    assert loss < 0.75 * by_hand(before, tmp_path)


def by_hand(generator, folder) -> float:
    """The mean loss of an answer's tokens."""
    total, count = 0.0, 0
    for line in (folder / "train.jsonl").read_text().splitlines():
        ids, learned = encoded(messages_of(line), generator.tokenizer, generator.conventions)
        with torch.no_grad():
            scores = generator.model.head(generator.model(torch.tensor(ids), Layout.of([len(ids)])))
        losses = torch.nn.functional.cross_entropy(scores[:-1], torch.tensor(ids[1:]), reduction="none")
        kept = torch.tensor(learned[1:]) > 0
        total, count = total + float(losses[kept].sum()), count + int(kept.sum())
    return total / count


def test_a_line_that_is_no_dialogue_is_told_with_its_number(folder, tmp_path):
    write(tmp_path / "train.jsonl")
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write("no json\n")
    recipe = {
        "task": "language",
        "data": {
            "train": "train.jsonl",
            "valid": "train.jsonl",
            "root": str(tmp_path),
            "documents": "messages",
        },
        "model": {"start": str(folder)},
        "context": {"tokens": 64},
        "train": {"steps": 1},
    }
    with pytest.raises(DataError, match=r"dialogue 25 of train.*no JSON"):
        regard.fit(recipe, out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"model\.start"):
        regard.fit({**recipe, "model": {}}, out=tmp_path / "out")
